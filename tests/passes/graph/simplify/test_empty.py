"""Tensors without elements, sums of nothing, axes of size 1."""

from __future__ import annotations

import pytest

from graph_rules import becomes, names
from iris.passes.graph.simplify import Simplify, empty
from iris.passes.graph.simplify.rule_helpers import rules

ARGUMENTS = (
    "%x: tensor<3x5xf32>, %one: tensor<3x1xf32>, %e: tensor<3x0xf32>, %f: tensor<0x4xf32>, "
    "%b: tensor<3x0xbool>, %i: tensor<2x0xi32>, %u: tensor<1x1xi32>, %t: tensor<1xbool>, "
    "%image: tensor<1x2x4x5xf32>, %w: tensor<3x2x0x2xf32>, %k: tensor<0xi32>, "
    "%updates: tensor<0x5xf32>, %z: tensor<2xi32>, %m: tensor<2x0xf32>, "
    "%r: tensor<3x0xf32>"
)

CASES: dict[str, list[tuple[str, str | None]]] = {
    "erase_unused": [
        ("%a: tensor<3x5xf32> = exp %x\n%d: tensor<3x5xf32> = exp %a\n%x", "%x"),
        (
            "graph.kernel @nothing {\n  %a: tensor<3x5xf32> = exp %x\n  yield\n}\n%x",
            "%x",
        ),
        ("%a: tensor<3x5xf32> = exp %x", None),
    ],
    "empty_result": [
        ("%a: tensor<3x0xf32> = exp %e", "%a: tensor<3x0xf32> = constant 0.0"),
        ("%a: tensor<3x0xbool> = compare lt %e, %e", "%a: tensor<3x0xbool> = constant false"),
        ("%a: tensor<0x3xi32> = graph.iota 1", "%a: tensor<0x3xi32> = constant 0"),
        (
            "%a: tensor<3x0xf32> = graph.slice [0, 9] [1, 1] %x",
            "%a: tensor<3x0xf32> = constant 0.0",
        ),
        ("%a: tensor<0xi32> = graph.reduce argmax [0] %r", "%a: tensor<0xi32> = constant 0"),
    ],
    "gather_of_empty": [
        (
            "%a: tensor<0x5xf32> = graph.gather [0] %x, %k",
            "%a: tensor<0x5xf32> = constant 0.0",
        ),
        # There may be no such place.
        ("%a: tensor<2x0xf32> = graph.gather [0] %e, %z", None),
    ],
    "scatter_of_empty": [
        ("%a: tensor<3x5xf32> = graph.scatter set [0] %x, %updates, %k", "%x"),
        ("%a: tensor<3x0xf32> = graph.scatter add [0] %e, %m, %z", None),
    ],
    "reduce_of_empty": [
        ("%a: tensor<3xf32> = graph.reduce sum [1] %e", "%a: tensor<3xf32> = constant 0.0"),
        ("%a: tensor<f32> = graph.reduce prod [0, 1] %e", "%a: tensor<f32> = constant 1.0"),
        ("%a: tensor<2xi32> = graph.reduce prod [1] %i", "%a: tensor<2xi32> = constant 1"),
        ("%a: tensor<3xbool> = graph.reduce any [1] %b", "%a: tensor<3xbool> = constant false"),
        ("%a: tensor<3xbool> = graph.reduce all [1] %b", "%a: tensor<3xbool> = constant true"),
    ],
    "matmul_of_empty": [
        ("%a: tensor<3x4xf32> = graph.matmul %e, %f", "%a: tensor<3x4xf32> = constant 0.0")
    ],
    "conv2d_of_empty": [
        (
            "%a: tensor<1x3x5x4xf32> = graph.conv2d [1, 1] [0, 0, 0, 0] [1, 1] 1 %image, %w",
            "%a: tensor<1x3x5x4xf32> = constant 0.0",
        )
    ],
    "reduce_unit_axes": [
        (
            "%a: tensor<3xf32> = graph.reduce sum [1] %one",
            "%a: tensor<3xf32> = graph.reshape %one",
        ),
        ("%a: tensor<i32> = graph.reduce prod [0, 1] %u", "%a: tensor<i32> = graph.reshape %u"),
        ("%a: tensor<bool> = graph.reduce any [0] %t", "%a: tensor<bool> = graph.reshape %t"),
        ("%a: tensor<3xi32> = graph.reduce argmin [1] %one", "%a: tensor<3xi32> = constant 0"),
        ("%a: tensor<1xf32> = graph.reduce sum [0] %one", None),
    ],
    "scan_unit_axis": [
        ("%a: tensor<3x1xf32> = graph.scan prod 1 %one", "%one"),
        ("%a: tensor<3x1xf32> = graph.scan sum 0 %one", None),
    ],
}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_empty(rule: str, before: str, after: str | None) -> None:
    becomes(Simplify(), rule, ARGUMENTS, before, after)


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == names(rules, empty)
