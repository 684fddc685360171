"""Watching rewrite rules."""

from __future__ import annotations

import pytest

from iris.ir import parse
from iris.ir.math import Mul, Neg, Sub
from iris.ir.rewriter import WATCHERS, Rewriter, Rules
from iris.passes.firings import MOST, Firing, watched

HEAD = "func tile @f(%X: ptr<i32>, %i: i32) {\n"
END = "  tile.store %X, %i, %x\n  return\n}\n"
rules = Rules()


@rules(Neg)
def double_negation(op: Neg, rewriter: Rewriter) -> None:
    if not op.result.users:
        rewriter.erase(op)
    elif isinstance(op.x.op, Neg):
        rewriter.replace(op, op.x.op.x)


@rules(Mul)
def no_products(op: Mul, rewriter: Rewriter) -> None:
    negated = rewriter.insert(Neg(op.lhs), op)
    rewriter.replace(op, Sub(op.rhs, negated.results[0]))


def fired(body: str) -> list[Firing]:
    with watched() as firings:
        rules.apply(parse(HEAD + body + END))
    assert WATCHERS == []
    kept = firings.take()
    assert firings.take() == []
    return kept


def test_a_value_takes_the_place_of_another() -> None:
    replaced, removed = fired("  %a: i32 = neg %i\n  %x: i32 = neg %a\n")
    assert replaced == ("double_negation", "%x: i32 = neg %a", ("%x = %i",))
    assert removed == ("double_negation", "%a: i32 = neg %i", ())


def test_ops_take_the_place_of_one() -> None:
    (firing,) = fired("  %x: i32 = mul %i, %i\n")
    assert firing.before == "%x: i32 = mul %i, %i"
    assert firing.after == ("%0: i32 = neg %i", "%x_1: i32 = sub %i, %0", "%x = %x_1")


@pytest.mark.parametrize("count", [MOST - 1, MOST + 3])
def test_the_first_few_are_kept(count: int) -> None:
    body = "".join(f"  %v{n}: i32 = neg %i\n" for n in range(count)) + "  %x: i32 = sub %i, %i\n"
    assert len(fired(body)) == min(count, MOST)


def test_rules_are_counted_as_if_nobody_watched() -> None:
    body = "  %a: i32 = neg %i\n  %b: i32 = neg %a\n  %x: i32 = mul %b, %i\n"
    alone = rules.apply(one := parse(HEAD + body + END))
    with watched():
        assert rules.apply(other := parse(HEAD + body + END)) == alone
    assert one == other and alone["no_products"] == 1
