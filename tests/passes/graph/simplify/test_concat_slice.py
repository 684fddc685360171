# ruff: noqa: E501  (IR text)
"""What is put together and taken apart."""

from __future__ import annotations

import pytest

from graph_rules import becomes, names
from iris.passes.graph.simplify import Simplify, concat_slice
from iris.passes.graph.simplify.rule_helpers import rules

ARGUMENTS = (
    "%x: tensor<3x5xf32>, %y: tensor<3x4xf32>, %none: tensor<3x0xf32>, %s: tensor<f32>, "
    "%t: tensor<f32>, %v: tensor<12xf32>, %image: tensor<1x2x4x5xf32>, %w: tensor<3x2x2x2xf32>, "
    "%empty: tensor<0x5xf32>"
)

CASES: dict[str, list[tuple[str, str | None]]] = {
    "concat_of_one": [
        ("%a: tensor<3x5xf32> = graph.concat 1 %x", "%x"),
        ("%a: tensor<3x10xf32> = graph.concat 1 %x, %x", None),
    ],
    "concat_of_empty": [
        (
            "%a: tensor<3x9xf32> = graph.concat 1 %none, %x, %none, %y",
            "%a: tensor<3x9xf32> = graph.concat 1 %x, %y",
        ),
        ("%a: tensor<3x5xf32> = graph.concat 1 %x, %none", "%x"),
    ],
    "concat_of_concats": [
        (
            "%a: tensor<3x9xf32> = graph.concat 1 %x, %y\n%b: tensor<3x18xf32> = graph.concat 1 %y, %a, %x",
            "%b: tensor<3x18xf32> = graph.concat 1 %y, %x, %y, %x",
        ),
        (
            "%a: tensor<6x5xf32> = graph.concat 0 %x, %x\n%b: tensor<6x10xf32> = graph.concat 1 %a, %a",
            None,
        ),
    ],
    "concat_of_slices": [
        (
            "%a: tensor<3x2xf32> = graph.slice [0, 0] [1, 1] %x\n"
            "%b: tensor<3x3xf32> = graph.slice [0, 2] [1, 1] %x\n%d: tensor<3x5xf32> = graph.concat 1 %a, %b",
            "%x",
        ),
        (
            "%a: tensor<2xf32> = graph.slice [1] [3] %v\n%b: tensor<1xf32> = graph.slice [7] [1] %v\n"
            "%d: tensor<3xf32> = graph.concat 0 %a, %b",
            "%d: tensor<3xf32> = graph.slice [1] [3] %v",
        ),
        (
            "%a: tensor<1xf32> = graph.slice [9] [1] %v\n%b: tensor<2xf32> = graph.slice [7] [-2] %v\n"
            "%e: tensor<1xf32> = graph.slice [3] [1] %v\n%d: tensor<4xf32> = graph.concat 0 %a, %b, %e",
            "%d: tensor<4xf32> = graph.slice [9] [-2] %v",
        ),
        # Neither of the same thing nor next to each other, nor the same otherwise.
        (
            "%a: tensor<2xf32> = graph.slice [1] [3] %v\n%b: tensor<2xf32> = graph.slice [7] [1] %v\n"
            "%d: tensor<4xf32> = graph.concat 0 %a, %b",
            None,
        ),
        (
            "%a: tensor<2xf32> = graph.slice [1] [1] %v\n%b: tensor<2xf32> = graph.slice [1] [1] %v\n"
            "%d: tensor<4xf32> = graph.concat 0 %a, %b",
            None,
        ),
        (
            "%a: tensor<1xf32> = graph.slice [1] [1] %v\n%d: tensor<2xf32> = graph.concat 0 %a, %a",
            None,
        ),
        (
            "%a: tensor<2x2xf32> = graph.slice [0, 0] [1, 1] %x\n"
            "%b: tensor<2x3xf32> = graph.slice [1, 2] [1, 1] %x\n%d: tensor<2x5xf32> = graph.concat 1 %a, %b",
            None,
        ),
    ],
    "slice_of_concat": [
        (
            "%a: tensor<3x9xf32> = graph.concat 1 %x, %y\n"
            "%b: tensor<3x2xf32> = graph.slice [0, 8] [1, -3] %a",
            "%b: tensor<3x2xf32> = graph.slice [0, 3] [1, -3] %y",
        ),
        (
            "%a: tensor<3x9xf32> = graph.concat 1 %x, %y\n%b: tensor<3x5xf32> = graph.slice [0, 0] [1, 1] %a",
            "%x",
        ),
        (
            "%a: tensor<3x9xf32> = graph.concat 1 %x, %y\n%b: tensor<3x2xf32> = graph.slice [0, 4] [1, 1] %a",
            None,
        ),
    ],
    "slice_of_pad": [
        (
            "%a: tensor<5x8xf32> = graph.pad [1, 2] %x, %s\n%b: tensor<2x3xf32> = graph.slice [3, 6] [-1, -2] %a",
            "%b: tensor<2x3xf32> = graph.slice [2, 4] [-1, -2] %x",
        ),
        (
            "%a: tensor<5x8xf32> = graph.pad [1, 2] %x, %s\n%b: tensor<3x5xf32> = graph.slice [1, 2] [1, 1] %a",
            "%x",
        ),
        (
            "%a: tensor<5x8xf32> = graph.pad [1, 2] %x, %s\n%b: tensor<3x2xf32> = graph.slice [1, 0] [1, 1] %a",
            "%0: tensor<1x1xf32> = graph.reshape %s\n%b: tensor<3x2xf32> = graph.broadcast %0",
        ),
        (
            "%z: tensor<f32> = constant 7.0\n%a: tensor<5x8xf32> = graph.pad [1, 2] %x, %z\n"
            "%b: tensor<5x1xf32> = graph.slice [0, 7] [1, 1] %a",
            "%b: tensor<5x1xf32> = constant 7.0",
        ),
        (
            "%a: tensor<5x8xf32> = graph.pad [1, 2] %x, %s\n%b: tensor<3x5xf32> = graph.slice [1, 1] [1, 1] %a",
            None,
        ),
    ],
    "pad_of_empty": [
        (
            "%a: tensor<2x7xf32> = graph.pad [1, 1] %empty, %s",
            "%0: tensor<1x1xf32> = graph.reshape %s\n%a: tensor<2x7xf32> = graph.broadcast %0",
        )
    ],
    "pad_of_pad": [
        (
            "%a: tensor<4x7xf32> = graph.pad [1, 2] %x, %s\n%b: tensor<6x8xf32> = graph.pad [1, 0] %a, %s",
            "%b: tensor<6x8xf32> = graph.pad [2, 2] %x, %s",
        ),
        (
            "%z: tensor<f32> = constant -0.0\n%a: tensor<4x7xf32> = graph.pad [1, 2] %x, %z\n"
            "%o: tensor<f32> = constant -0.0\n%b: tensor<6x8xf32> = graph.pad [1, 0] %a, %o",
            "%o: tensor<f32> = constant -0.0\n%b: tensor<6x8xf32> = graph.pad [2, 2] %x, %o",
        ),
        (
            "%a: tensor<4x7xf32> = graph.pad [1, 2] %x, %s\n%b: tensor<6x8xf32> = graph.pad [1, 0] %a, %t",
            None,
        ),
        (
            "%z: tensor<f32> = constant -0.0\n%a: tensor<4x7xf32> = graph.pad [1, 2] %x, %z\n"
            "%o: tensor<f32> = constant 0.0\n%b: tensor<6x8xf32> = graph.pad [1, 0] %a, %o",
            None,
        ),
    ],
    "conv2d_of_pad": [
        (
            "%z: tensor<f32> = constant 0.0\n%a: tensor<1x2x6x8xf32> = graph.pad [0, 0, 2, 1] %image, %z\n"
            "%b: tensor<1x3x6x4xf32> = graph.conv2d [1, 2] [1, 0, 0, 1] [1, 1] 1 %a, %w",
            "%b: tensor<1x3x6x4xf32> = graph.conv2d [1, 2] [3, 0, 1, 3] [1, 1] 1 %image, %w",
        ),
        (
            "%a: tensor<1x2x6x8xf32> = graph.pad [0, 0, 2, 1] %image, %s\n"
            "%b: tensor<1x3x5x7xf32> = graph.conv2d [1, 1] [0, 0, 0, 0] [1, 1] 1 %a, %w",
            None,
        ),
        (
            "%z: tensor<f32> = constant 0.0\n%a: tensor<2x2x4x5xf32> = graph.pad [1, 0, 0, 0] %image, %z\n"
            "%b: tensor<2x3x3x4xf32> = graph.conv2d [1, 1] [0, 0, 0, 0] [1, 1] 1 %a, %w",
            None,
        ),
    ],
}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_concat_slice(rule: str, before: str, after: str | None) -> None:
    becomes(Simplify(), rule, ARGUMENTS, before, after)


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == names(rules, concat_slice)
