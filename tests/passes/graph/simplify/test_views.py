# ruff: noqa: E501  (IR text)
"""Views of views."""

from __future__ import annotations

import pytest

from graph_rules import becomes, names
from iris.passes.graph.simplify import Simplify, views
from iris.passes.graph.simplify.rule_helpers import rules

ARGUMENTS = (
    "%x: tensor<3x5xf32>, %one: tensor<3x1x5xf32>, %cube: tensor<2x3x4xf32>, "
    "%col: tensor<3x1xf32>, %row: tensor<1x5xf32>, %v: tensor<12xi32>, %s: tensor<f32>, "
    "%flat: tensor<1x3x5xf32>, %u: tensor<1x1xf32>, %back: tensor<1x5x1xf32>"
)

CASES: dict[str, list[tuple[str, str | None]]] = {
    "identity_view": [
        ("%a: tensor<3x5xf32> = graph.reshape %x", "%x"),
        ("%a: tensor<f32> = graph.reshape %s", "%s"),
        ("%a: tensor<3x5xf32> = graph.broadcast %x", "%x"),
        ("%a: tensor<3x5xf32> = graph.pad [0, 0] %x, %s", "%x"),
        ("%a: tensor<5x3xf32> = graph.reshape %x", None),
        ("%a: tensor<3x5xf32> = graph.broadcast %col", None),
    ],
    "identity_slice": [
        ("%a: tensor<3x5xf32> = graph.slice [0, 0] [1, 1] %x", "%x"),
        ("%a: tensor<1x5xf32> = graph.slice [0, 0] [-1, 1] %row", "%row"),
        ("%a: tensor<f32> = graph.slice [] [] %s", "%s"),
        (
            "%a: tensor<1x3xf32> = graph.slice [2, 4] [-7, -2] %x",
            "%a: tensor<1x3xf32> = graph.slice [2, 4] [1, -2] %x",
        ),
        ("%a: tensor<3x5xf32> = graph.slice [0, 4] [1, -1] %x", None),
    ],
    "reshape_of_reshape": [
        (
            "%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<5x3xf32> = graph.reshape %a",
            "%b: tensor<5x3xf32> = graph.reshape %x",
        ),
        ("%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<3x5xf32> = graph.reshape %a", "%x"),
    ],
    "broadcast_of_broadcast": [
        (
            "%a: tensor<3x1xf32> = graph.broadcast %u\n%b: tensor<3x5xf32> = graph.broadcast %a",
            "%b: tensor<3x5xf32> = graph.broadcast %u",
        )
    ],
    "transpose_of_transpose": [
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%b: tensor<3x5xf32> = graph.transpose [1, 0] %a",
            "%x",
        ),
        (
            "%a: tensor<3x4x2xf32> = graph.transpose [1, 2, 0] %cube\n"
            "%b: tensor<4x3x2xf32> = graph.transpose [1, 0, 2] %a",
            "%b: tensor<4x3x2xf32> = graph.transpose [2, 1, 0] %cube",
        ),
        (
            "%a: tensor<3x4x2xf32> = graph.transpose [1, 2, 0] %cube\n"
            "%b: tensor<4x2x3xf32> = graph.transpose [1, 2, 0] %a",
            "%b: tensor<4x2x3xf32> = graph.transpose [2, 0, 1] %cube",
        ),
    ],
    "slice_of_slice": [
        (
            "%a: tensor<6xi32> = graph.slice [1] [2] %v\n%b: tensor<2xi32> = graph.slice [4] [-3] %a",
            "%b: tensor<2xi32> = graph.slice [9] [-6] %v",
        ),
        (
            "%a: tensor<12xi32> = graph.slice [11] [-1] %v\n"
            "%b: tensor<12xi32> = graph.slice [11] [-1] %a",
            "%v",
        ),
        (
            "%a: tensor<3x2xf32> = graph.slice [0, 3] [1, -2] %x\n"
            "%b: tensor<1x2xf32> = graph.slice [2, 1] [5, -1] %a",
            "%b: tensor<1x2xf32> = graph.slice [2, 1] [1, 2] %x",
        ),
    ],
    "transpose_of_unit_axes": [
        (
            "%a: tensor<1x3x5xf32> = graph.transpose [1, 0, 2] %one",
            "%a: tensor<1x3x5xf32> = graph.reshape %one",
        ),
        ("%a: tensor<3x5xf32> = graph.transpose [0, 1] %x", "%x"),
        ("%a: tensor<1x1xf32> = graph.transpose [1, 0] %u", "%u"),
        ("%a: tensor<5x1x3xf32> = graph.transpose [2, 1, 0] %one", None),
    ],
    "reshape_of_transpose": [
        # The new axis stands before the same one as at the end.
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%b: tensor<5x1x3xf32> = graph.reshape %a",
            "%0: tensor<1x3x5xf32> = graph.reshape %x\n"
            "%b: tensor<5x1x3xf32> = graph.transpose [2, 0, 1] %0",
        ),
        (
            "%a: tensor<5x1x3xf32> = graph.transpose [2, 1, 0] %one\n"
            "%b: tensor<5x3xf32> = graph.reshape %a",
            "%0: tensor<3x5xf32> = graph.reshape %one\n"
            "%b: tensor<5x3xf32> = graph.transpose [1, 0] %0",
        ),
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%b: tensor<1x5x3x1xf32> = graph.reshape %a",
            "%0: tensor<3x1x5x1xf32> = graph.reshape %x\n"
            "%b: tensor<1x5x3x1xf32> = graph.transpose [1, 2, 0, 3] %0",
        ),
        # It mixes axes, or somebody else wants what is transposed.
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%b: tensor<15xf32> = graph.reshape %a",
            None,
        ),
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%b: tensor<5x1x3xf32> = graph.reshape %a\n%a, %b",
            None,
        ),
    ],
    "transpose_of_reshaped_transpose": [
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%b: tensor<5x1x3xf32> = graph.reshape %a\n"
            "%c: tensor<3x1x5xf32> = graph.transpose [2, 1, 0] %b\n%a, %c",
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%c: tensor<3x1x5xf32> = graph.reshape %x\n%a, %c",
        ),
        (
            "%a: tensor<4x3x2xf32> = graph.transpose [2, 1, 0] %cube\n"
            "%b: tensor<4x3x1x2xf32> = graph.reshape %a\n"
            "%c: tensor<2x4x1x3xf32> = graph.transpose [3, 0, 2, 1] %b\n%a, %c",
            "%a: tensor<4x3x2xf32> = graph.transpose [2, 1, 0] %cube\n"
            "%0: tensor<2x1x3x4xf32> = graph.reshape %cube\n"
            "%c: tensor<2x4x1x3xf32> = graph.transpose [0, 3, 1, 2] %0\n%a, %c",
        ),
    ],
    "transpose_of_broadcast": [
        (
            "%a: tensor<2x3x5xf32> = graph.broadcast %flat\n"
            "%b: tensor<5x2x3xf32> = graph.transpose [2, 0, 1] %a",
            "%0: tensor<5x1x3xf32> = graph.transpose [2, 0, 1] %flat\n"
            "%b: tensor<5x2x3xf32> = graph.broadcast %0",
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n"
            "%b: tensor<5x3xf32> = graph.transpose [1, 0] %a",
            "%0: tensor<1x3xf32> = graph.reshape %col\n%b: tensor<5x3xf32> = graph.broadcast %0",
        ),
    ],
    "reshape_of_broadcast": [
        (
            "%a: tensor<3x6xf32> = graph.broadcast %col\n%b: tensor<3x2x3xf32> = graph.reshape %a",
            "%0: tensor<3x1x1xf32> = graph.reshape %col\n%b: tensor<3x2x3xf32> = graph.broadcast %0",
        ),
        (
            "%a: tensor<7x5x2xf32> = graph.broadcast %back\n%b: tensor<7x1x5x2xf32> = graph.reshape %a",
            "%0: tensor<1x1x5x1xf32> = graph.reshape %back\n"
            "%b: tensor<7x1x5x2xf32> = graph.broadcast %0",
        ),
        ("%a: tensor<3x5xf32> = graph.broadcast %col\n%b: tensor<15xf32> = graph.reshape %a", None),
    ],
    "slice_of_broadcast": [
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%b: tensor<2x3xf32> = graph.slice [2, 1] [-1, 1] %a",
            "%0: tensor<2x1xf32> = graph.slice [2, 0] [-1, 1] %col\n"
            "%b: tensor<2x3xf32> = graph.broadcast %0",
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%b: tensor<3x1xf32> = graph.slice [0, 4] [1, 1] %a",
            "%col",
        ),
    ],
    "slice_of_transpose": [
        (
            "%a: tensor<3x4x2xf32> = graph.transpose [1, 2, 0] %cube\n"
            "%b: tensor<3x2x1xf32> = graph.slice [0, 3, 1] [1, -2, 1] %a",
            "%0: tensor<1x3x2xf32> = graph.slice [1, 0, 3] [1, 1, -2] %cube\n"
            "%b: tensor<3x2x1xf32> = graph.reshape %0",
        ),
        (
            "%a: tensor<3x4x2xf32> = graph.transpose [1, 2, 0] %cube\n"
            "%b: tensor<3x2x2xf32> = graph.slice [0, 3, 0] [1, -2, 1] %a",
            "%0: tensor<2x3x2xf32> = graph.slice [0, 0, 3] [1, 1, -2] %cube\n"
            "%b: tensor<3x2x2xf32> = graph.transpose [1, 2, 0] %0",
        ),
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%b: tensor<2x3xf32> = graph.slice [0, 0] [1, 1] %a\n%a, %b",
            None,
        ),
    ],
    "slice_of_reshape": [
        (
            "%a: tensor<3x5x1xf32> = graph.reshape %x\n"
            "%b: tensor<1x2x1xf32> = graph.slice [2, 1, 0] [1, 3, 1] %a",
            "%0: tensor<1x2xf32> = graph.slice [2, 1] [1, 3] %x\n%b: tensor<1x2x1xf32> = graph.reshape %0",
        ),
        (
            "%a: tensor<6x2x2xf32> = graph.reshape %cube\n"
            "%b: tensor<6x2x2xf32> = graph.slice [0, 0, 1] [1, 1, -1] %a",
            None,
        ),
        (
            "%a: tensor<2x12xf32> = graph.reshape %cube\n"
            "%b: tensor<1x12xf32> = graph.slice [1, 0] [1, 1] %a",
            "%0: tensor<1x3x4xf32> = graph.slice [1, 0, 0] [1, 1, 1] %cube\n"
            "%b: tensor<1x12xf32> = graph.reshape %0",
        ),
        (
            "%a: tensor<2x12xf32> = graph.reshape %cube\n"
            "%b: tensor<2x4xf32> = graph.slice [0, 0] [1, 1] %a",
            None,
        ),
    ],
    "broadcast_iota": [
        (
            "%a: tensor<3x5xi32> = graph.iota 1",
            "%0: tensor<1x5xi32> = graph.iota 1\n%a: tensor<3x5xi32> = graph.broadcast %0",
        ),
        ("%a: tensor<3x1xf32> = graph.iota 1", "%a: tensor<3x1xf32> = constant 0.0"),
        ("%a: tensor<5xi32> = graph.iota 0", None),
    ],
    "reshape_of_iota": [
        (
            "%a: tensor<5xi32> = graph.iota 0\n%b: tensor<1x5x1xi32> = graph.reshape %a",
            "%b: tensor<1x5x1xi32> = graph.iota 1",
        ),
        (
            "%a: tensor<3x5xi32> = graph.iota 0\n%b: tensor<5x3xi32> = graph.transpose [1, 0] %a",
            "%a: tensor<1x3xi32> = graph.iota 1\n%b: tensor<5x3xi32> = graph.broadcast %a",
        ),
        ("%a: tensor<6xi32> = graph.iota 0\n%b: tensor<2x3xi32> = graph.reshape %a", None),
    ],
}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_views(rule: str, before: str, after: str | None) -> None:
    becomes(Simplify(), rule, ARGUMENTS, before, after)


def test_splats_are_seen_through_views() -> None:
    becomes(
        Simplify(),
        "divide_by_power_of_two",
        ARGUMENTS,
        "%c: tensor<f32> = constant 4.0\n%d: tensor<1x1xf32> = graph.reshape %c\n"
        "%e: tensor<3x5xf32> = graph.broadcast %d\n%r: tensor<3x5xf32> = div %x, %e",
        "%c: tensor<3x5xf32> = constant 0.25\n%r: tensor<3x5xf32> = mul %x, %c",
    )


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == names(rules, views)
