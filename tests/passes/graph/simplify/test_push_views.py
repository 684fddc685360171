# ruff: noqa: E501  (IR text)
"""Elementwise ops and views."""

from __future__ import annotations

import pytest

from graph_rules import becomes, names
from iris.passes.graph.simplify import Simplify, push_views
from iris.passes.graph.simplify.rule_helpers import rules

ARGUMENTS = (
    "%x: tensor<3x5xf32>, %y: tensor<3x5xf32>, %t: tensor<5x3xf32>, %col: tensor<3x1xf32>, "
    "%row: tensor<1x5xf32>, %c: tensor<3x1xbool>, %i: tensor<3x5xi32>, %j: tensor<3x5xi32>, "
    "%s: tensor<f32>, %m: tensor<i32>, %n: tensor<i32>, %v: tensor<15xf32>, %p: tensor<bool>, "
    "%col3: tensor<1x3x1xf32>, %row3: tensor<1x1x5xf32>, "
    "%rows: tensor<12x5xf32>, %col6: tensor<1x6x1xf32>"
)

CASES: dict[str, list[tuple[str, str | None]]] = {
    "elementwise_of_reshapes": [
        (
            "%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<15xf32> = exp %a",
            "%0: tensor<3x5xf32> = exp %x\n%b: tensor<15xf32> = graph.reshape %0",
        ),
        (
            "%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<15xf32> = graph.reshape %y\n"
            "%c2: tensor<15xf32> = constant 2.0\n%d: tensor<15xf32> = fma %a, %c2, %b",
            "%0: tensor<3x5xf32> = constant 2.0\n%1: tensor<3x5xf32> = fma %x, %0, %y\n"
            "%d: tensor<15xf32> = graph.reshape %1",
        ),
        (
            "%a: tensor<15xi32> = graph.reshape %i\n%b: tensor<15xf32> = cast %a",
            "%0: tensor<3x5xf32> = cast %i\n%b: tensor<15xf32> = graph.reshape %0",
        ),
        (
            "%a: tensor<15xi32> = graph.reshape %i\n%b: tensor<15xi32> = graph.reshape %j\n"
            "%d: tensor<15xbool> = compare lt %a, %b",
            "%0: tensor<3x5xbool> = compare lt %i, %j\n%d: tensor<15xbool> = graph.reshape %0",
        ),
        # A bias is spread to the rows of all matrices.
        (
            "%a: tensor<2x6x5xf32> = graph.reshape %rows\n%b: tensor<2x6x5xf32> = graph.broadcast %row3\n"
            "%d: tensor<2x6x5xf32> = add %a, %b",
            "%0: tensor<1x5xf32> = graph.reshape %row3\n%1: tensor<12x5xf32> = graph.broadcast %0\n"
            "%2: tensor<12x5xf32> = add %rows, %1\n%d: tensor<2x6x5xf32> = graph.reshape %2",
        ),
        (
            "%a: tensor<2x6x5xf32> = graph.reshape %rows\n%b: tensor<2x6x5xf32> = graph.broadcast %col6\n"
            "%d: tensor<2x6x5xf32> = add %a, %b",
            None,
        ),
        ("%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<15xf32> = add %a, %v", None),
        (
            "%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<15xf32> = graph.reshape %t\n"
            "%d: tensor<15xf32> = add %a, %b",
            None,
        ),
    ],
    "elementwise_of_transposes": [
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n"
            "%b: tensor<5x3xf32> = graph.transpose [1, 0] %y\n%d: tensor<5x3xf32> = sub %a, %b",
            "%0: tensor<3x5xf32> = sub %x, %y\n%d: tensor<5x3xf32> = graph.transpose [1, 0] %0",
        ),
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%e: tensor<1x3xf32> = graph.reshape %col\n"
            "%b: tensor<5x3xf32> = graph.broadcast %e\n%d: tensor<5x3xf32> = sub %a, %b",
            "%0: tensor<3x5xf32> = graph.broadcast %col\n%1: tensor<3x5xf32> = sub %x, %0\n"
            "%d: tensor<5x3xf32> = graph.transpose [1, 0] %1",
        ),
        # ... and what then is transposed back.
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%b: tensor<5x3xf32> = tanh %a\n"
            "%d: tensor<3x5xf32> = graph.transpose [1, 0] %b",
            "%d: tensor<3x5xf32> = tanh %x",
        ),
        ("%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%b: tensor<5x3xf32> = sub %a, %t", None),
    ],
    "elementwise_of_broadcasts": [
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%b: tensor<3x5xf32> = exp %a",
            "%0: tensor<3x1xf32> = exp %col\n%b: tensor<3x5xf32> = graph.broadcast %0",
        ),
        (
            "%a: tensor<7x3x5xf32> = graph.broadcast %col3\n%b: tensor<7x3x5xf32> = graph.broadcast %row3\n"
            "%d: tensor<7x3x5xf32> = mul %a, %b",
            "%0: tensor<1x3x5xf32> = graph.broadcast %col3\n%1: tensor<1x3x5xf32> = graph.broadcast %row3\n"
            "%2: tensor<1x3x5xf32> = mul %0, %1\n%d: tensor<7x3x5xf32> = graph.broadcast %2",
        ),
        (
            "%a: tensor<3x5xbool> = graph.broadcast %c\n%b: tensor<3x5xf32> = graph.broadcast %col\n"
            "%z: tensor<3x5xf32> = constant 0.0\n%d: tensor<3x5xf32> = select %a, %b, %z",
            "%0: tensor<3x1xf32> = constant 0.0\n%1: tensor<3x1xf32> = select %c, %col, %0\n"
            "%d: tensor<3x5xf32> = graph.broadcast %1",
        ),
        (
            "%a: tensor<3x5xf32> = graph.broadcast %col\n%b: tensor<3x5xf32> = graph.broadcast %row\n"
            "%d: tensor<3x5xf32> = mul %a, %b",
            None,
        ),
        ("%a: tensor<3x5xf32> = graph.broadcast %col\n%b: tensor<3x5xf32> = mul %a, %x", None),
    ],
    "elementwise_of_pads": [
        (
            "%a: tensor<4x7xf32> = graph.pad [1, 1] %x, %s\n%b: tensor<4x7xf32> = exp %a",
            "%0: tensor<3x5xf32> = exp %x\n%1: tensor<f32> = exp %s\n"
            "%b: tensor<4x7xf32> = graph.pad [1, 1] %0, %1",
        ),
        (
            "%a: tensor<4x7xi32> = graph.pad [1, 1] %i, %m\n%b: tensor<4x7xi32> = graph.pad [1, 1] %j, %n\n"
            "%d: tensor<4x7xbool> = compare lt %a, %b\n%k: tensor<4x7xi32> = constant 3\n"
            "%o: tensor<4x7xi32> = constant 1\n%e: tensor<4x7xi32> = select %d, %o, %k",
            "%0: tensor<3x5xbool> = compare lt %i, %j\n%1: tensor<bool> = compare lt %m, %n\n"
            "%2: tensor<3x5xi32> = constant 1\n%3: tensor<3x5xi32> = constant 3\n"
            "%4: tensor<3x5xi32> = select %0, %2, %3\n%5: tensor<i32> = constant 1\n"
            "%6: tensor<i32> = constant 3\n%7: tensor<i32> = select %1, %5, %6\n"
            "%e: tensor<4x7xi32> = graph.pad [1, 1] %4, %7",
        ),
        (
            "%a: tensor<4x7xf32> = graph.pad [1, 1] %x, %s\n%b: tensor<4x7xf32> = exp %a\n%a, %b",
            None,
        ),
        (
            "%a: tensor<4x7xf32> = graph.pad [1, 1] %x, %s\n%b: tensor<4x7xf32> = graph.pad [0, 1] %y, %s\n"
            "%d: tensor<4x7xf32> = add %a, %b",
            None,
        ),
    ],
    "slice_of_elementwise": [
        (
            "%a: tensor<3x5xf32> = mul %x, %y\n%b: tensor<2x5xf32> = graph.slice [1, 0] [1, 1] %a",
            "%0: tensor<2x5xf32> = graph.slice [1, 0] [1, 1] %x\n"
            "%1: tensor<2x5xf32> = graph.slice [1, 0] [1, 1] %y\n%b: tensor<2x5xf32> = mul %0, %1",
        ),
        (
            "%k: tensor<3x5xf32> = constant 3.0\n%a: tensor<3x5xf32> = pow %x, %k\n"
            "%b: tensor<2x5xf32> = graph.slice [1, 0] [1, 1] %a",
            "%0: tensor<2x5xf32> = graph.slice [1, 0] [1, 1] %x\n%1: tensor<2x5xf32> = constant 3.0\n"
            "%b: tensor<2x5xf32> = pow %0, %1",
        ),
        # Somebody wants all of it.
        (
            "%a: tensor<3x5xf32> = mul %x, %y\n%b: tensor<2x5xf32> = graph.slice [1, 0] [1, 1] %a\n%a, %b",
            None,
        ),
    ],
    "view_of_elementwise": [
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%b: tensor<5x3xf32> = add %a, %t\n"
            "%d: tensor<3x5xf32> = graph.transpose [1, 0] %b",
            "%0: tensor<3x5xf32> = graph.transpose [1, 0] %t\n%d: tensor<3x5xf32> = add %x, %0",
        ),
        (
            "%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<15xf32> = sub %v, %a\n"
            "%d: tensor<3x5xf32> = graph.reshape %b",
            "%0: tensor<3x5xf32> = graph.reshape %v\n%d: tensor<3x5xf32> = sub %0, %x",
        ),
        # More would be transposed than is now.
        (
            "%a: tensor<5x3xf32> = graph.transpose [1, 0] %x\n%e: tensor<5x3xf32> = sqrt %t\n"
            "%b: tensor<5x3xf32> = fma %a, %t, %e\n%d: tensor<3x5xf32> = graph.transpose [1, 0] %b",
            None,
        ),
        (
            "%a: tensor<15xf32> = graph.reshape %x\n%b: tensor<15xf32> = sub %v, %a\n"
            "%d: tensor<5x3xf32> = graph.reshape %b",
            None,
        ),
    ],
}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_push_views(rule: str, before: str, after: str | None) -> None:
    becomes(Simplify(), rule, ARGUMENTS, before, after)


def test_an_error_in_the_padding_is_not_made_where_there_is_none() -> None:
    """An axis that has no padding, though another has no elements."""
    becomes(
        Simplify(),
        "elementwise_of_pads",
        "%i: tensor<3x5xi32>",
        "%z: tensor<i32> = constant 0\n%one: tensor<3x5xi32> = constant 1\n"
        "%j: tensor<3x5xi32> = or %i, %one\n%a: tensor<3x5xi32> = graph.pad [0, 0] %j, %z\n"
        "%b: tensor<3x5xi32> = floordiv %a, %a",
        None,
    )


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == names(rules, push_views)
