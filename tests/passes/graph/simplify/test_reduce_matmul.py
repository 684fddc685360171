# ruff: noqa: E501  (IR text)
"""Reductions and products of views, and of each other."""

from __future__ import annotations

import pytest

from graph_rules import becomes, names
from iris.passes.graph.simplify import Simplify, reduce_matmul
from iris.passes.graph.simplify.rule_helpers import rules

ARGUMENTS = (
    "%x: tensor<3x5xf32>, %cube: tensor<2x3x4xf32>, %i: tensor<2x3x4xi32>, %h: tensor<2x3x4xf16>, "
    "%b: tensor<2x3x4xbool>, %col: tensor<3x1xf32>, %p: tensor<2x3x5xf32>, %q: tensor<2x5x4xf32>, "
    "%p1: tensor<1x3x5xf32>, %q1: tensor<1x5x4xf32>, %row: tensor<1x1x5xf32>, %j: tensor<4x3x5xi32>, "
    "%pt: tensor<2x5x3xf32>, %m: tensor<5x7xf32>, "
    "%r: tensor<5x3x4xf32>, %four: tensor<2x3x7x5xf32>, %five: tensor<2x3x5x4xf32>"
)

CASES: dict[str, list[tuple[str, str | None]]] = {
    "reduce_of_reduce": [
        (
            "%a: tensor<2x4xf32> = graph.reduce maximum [1] %cube\n"
            "%d: tensor<2xf32> = graph.reduce maximum [1] %a",
            "%d: tensor<2xf32> = graph.reduce maximum [1, 2] %cube",
        ),
        (
            "%a: tensor<3x4xi32> = graph.reduce sum [0] %i\n%d: tensor<3xi32> = graph.reduce sum [1] %a",
            "%d: tensor<3xi32> = graph.reduce sum [0, 2] %i",
        ),
        (
            "%a: tensor<3x4xf32> = graph.reduce sum [0] %cube\n%d: tensor<f32> = graph.reduce sum [0, 1] %a",
            "%d: tensor<f32> = graph.reduce sum [0, 1, 2] %cube",
        ),
        (
            "%a: tensor<4xbool> = graph.reduce all [0, 1] %b\n%d: tensor<bool> = graph.reduce all [0] %a",
            "%d: tensor<bool> = graph.reduce all [0, 1, 2] %b",
        ),
        # Rounded in between; of another kind; places; wanted by somebody else.
        (
            "%a: tensor<3x4xf16> = graph.reduce sum [0] %h\n%d: tensor<3xf16> = graph.reduce sum [1] %a",
            None,
        ),
        (
            "%a: tensor<3x4xf32> = graph.reduce maximum [0] %cube\n"
            "%d: tensor<3xf32> = graph.reduce maxnum [1] %a",
            None,
        ),
        (
            "%a: tensor<3x4xi32> = graph.reduce argmax [0] %i\n%d: tensor<3xi32> = graph.reduce argmax [1] %a",
            None,
        ),
        (
            "%a: tensor<3x4xi32> = graph.reduce sum [0] %i\n%d: tensor<3xi32> = graph.reduce sum [1] %a\n%a, %d",
            None,
        ),
    ],
    "reduce_of_transpose": [
        (
            "%a: tensor<4x2x3xf32> = graph.transpose [2, 0, 1] %cube\n"
            "%d: tensor<4x3xf32> = graph.reduce sum [1] %a",
            "%0: tensor<3x4xf32> = graph.reduce sum [0] %cube\n"
            "%d: tensor<4x3xf32> = graph.transpose [1, 0] %0",
        ),
        (
            "%a: tensor<4x2x3xf32> = graph.transpose [2, 0, 1] %cube\n"
            "%d: tensor<2x3xi32> = graph.reduce argmax [0] %a",
            "%d: tensor<2x3xi32> = graph.reduce argmax [2] %cube",
        ),
        (
            "%a: tensor<4x2x3xf32> = graph.transpose [2, 0, 1] %cube\n"
            "%d: tensor<3xf32> = graph.reduce maxnum [0, 1] %a",
            "%d: tensor<3xf32> = graph.reduce maxnum [0, 2] %cube",
        ),
    ],
    "reduce_of_reshape": [
        (
            "%a: tensor<24xf32> = graph.reshape %cube\n%d: tensor<f32> = graph.reduce sum [0] %a",
            "%d: tensor<f32> = graph.reduce sum [0, 1, 2] %cube",
        ),
        (
            "%a: tensor<2x1x12xi32> = graph.reshape %i\n%d: tensor<1x12xi32> = graph.reduce maximum [0] %a",
            "%0: tensor<3x4xi32> = graph.reduce maximum [0] %i\n%d: tensor<1x12xi32> = graph.reshape %0",
        ),
        (
            "%a: tensor<3x5x1xf32> = graph.reshape %x\n%d: tensor<3x1xi32> = graph.reduce argmax [1] %a",
            "%0: tensor<3xi32> = graph.reduce argmax [1] %x\n%d: tensor<3x1xi32> = graph.reshape %0",
        ),
        # A part of what becomes one axis; the place among more than one axis.
        (
            "%a: tensor<3x8xf32> = graph.reshape %cube\n%d: tensor<3xf32> = graph.reduce sum [1] %a",
            None,
        ),
        (
            "%a: tensor<24xf32> = graph.reshape %cube\n%d: tensor<i32> = graph.reduce argmax [0] %a",
            None,
        ),
    ],
    "reduce_of_broadcast": [
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%d: tensor<5xf32> = graph.reduce sum [0] %a",
            "%0: tensor<1xf32> = graph.reduce sum [0] %col\n%d: tensor<5xf32> = graph.broadcast %0",
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%d: tensor<3xf32> = graph.reduce minimum [1] %a",
            "%d: tensor<3xf32> = graph.reshape %col",
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%d: tensor<3xi32> = graph.reduce argmax [1] %a",
            "%d: tensor<3xi32> = constant 0",
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%d: tensor<3xf32> = graph.reduce sum [1] %a",
            None,
        ),
    ],
    "matmul_of_broadcasts": [
        (
            "%a: tensor<6x3x5xf32> = graph.broadcast %p1\n%c: tensor<6x5x4xf32> = graph.broadcast %q1\n"
            "%d: tensor<6x3x4xf32> = graph.matmul %a, %c",
            "%0: tensor<1x3x4xf32> = graph.matmul %p1, %q1\n%d: tensor<6x3x4xf32> = graph.broadcast %0",
        ),
        (
            "%a: tensor<2x3x5xf32> = graph.broadcast %row\n%d: tensor<2x3x4xf32> = graph.matmul %a, %q",
            "%0: tensor<2x1x5xf32> = graph.broadcast %row\n%1: tensor<2x1x4xf32> = graph.matmul %0, %q\n"
            "%d: tensor<2x3x4xf32> = graph.broadcast %1",
        ),
        # Each matrix has another partner; the axis that goes is summed.
        (
            "%a: tensor<2x3x5xf32> = graph.broadcast %p1\n%d: tensor<2x3x4xf32> = graph.matmul %a, %q",
            None,
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%d: tensor<3x7xf32> = graph.matmul %a, %m",
            None,
        ),
    ],
    "transpose_of_matmul": [
        (
            "%a: tensor<2x4x5xf32> = graph.transpose [0, 2, 1] %q\n"
            "%c: tensor<2x4x3xf32> = graph.matmul %a, %pt\n%d: tensor<2x3x4xf32> = graph.transpose [0, 2, 1] %c",
            "%0: tensor<2x3x5xf32> = graph.transpose [0, 2, 1] %pt\n"
            "%d: tensor<2x3x4xf32> = graph.matmul %0, %q",
        ),
        (
            "%a: tensor<3x2x5xf32> = graph.transpose [1, 0, 2] %p\n"
            "%c: tensor<3x5x4xf32> = graph.transpose [1, 0, 2] %r\n"
            "%e: tensor<3x2x4xf32> = graph.matmul %a, %c\n%d: tensor<3x4x2xf32> = graph.transpose [0, 2, 1] %e",
            "%0: tensor<3x4x5xf32> = graph.transpose [1, 2, 0] %r\n"
            "%1: tensor<3x5x2xf32> = graph.transpose [1, 2, 0] %p\n"
            "%d: tensor<3x4x2xf32> = graph.matmul %0, %1",
        ),
        (
            "%a: tensor<3x2x7x5xf32> = graph.transpose [1, 0, 2, 3] %four\n"
            "%c: tensor<3x2x5x4xf32> = graph.transpose [1, 0, 2, 3] %five\n"
            "%e: tensor<3x2x7x4xf32> = graph.matmul %a, %c\n"
            "%d: tensor<2x3x7x4xf32> = graph.transpose [1, 0, 2, 3] %e",
            "%d: tensor<2x3x7x4xf32> = graph.matmul %four, %five",
        ),
        (
            "%c: tensor<2x3x4xf32> = graph.matmul %p, %q\n%d: tensor<2x4x3xf32> = graph.transpose [0, 2, 1] %c",
            None,
        ),
        (
            "%a: tensor<2x3x5xf32> = graph.transpose [0, 2, 1] %pt\n%c: tensor<2x3x4xf32> = graph.matmul %a, %q\n"
            "%d: tensor<3x4x2xf32> = graph.transpose [1, 2, 0] %c",
            None,
        ),
    ],
}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_reduce_matmul(rule: str, before: str, after: str | None) -> None:
    becomes(Simplify(), rule, ARGUMENTS, before, after)


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == names(rules, reduce_matmul)
