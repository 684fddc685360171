"""Formulas of indices: what they are worth, and that what is split and joined is itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iris.passes.graph.tiling.index_expr import Axis, IndexExpr, Quotient, divide

AXES = [Axis(name, size) for name, size in (("a", 8), ("b", 12), ("t", 96), ("o", 3), ("i", 32))]
A, B, T, OUT, IN = map(IndexExpr.of, AXES)
STEPS = st.lists(
    st.tuples(st.sampled_from("/%*+-j"), st.sampled_from([1, 2, 3, 4, 5, 8, 12, 24, 32, 64])),
    max_size=6,
)


def value(formula: IndexExpr, at: dict[Axis, int]) -> int:
    """What a formula is worth at a point of the axes."""
    total = formula.constant
    for atom, n in formula.terms:
        if isinstance(atom, Axis):
            total += n * at[atom]
        else:
            dividend = value(atom.dividend, at)  # type: ignore[attr-defined]
            divisor = atom.divisor  # type: ignore[attr-defined]
            total += n * (dividend // divisor if isinstance(atom, Quotient) else dividend % divisor)
    return total


@given(
    st.data(), st.sampled_from([A, B, T, A * 12 + B, OUT * 32 + IN, T + A, IndexExpr((), 5)]), STEPS
)
def test_formulas_are_worth_what_was_written(
    data: st.DataObject, formula: IndexExpr, steps: list[tuple[str, int]]
) -> None:
    at = {axis: data.draw(st.integers(0, axis.high)) for axis in AXES}
    expected = value(formula, at)
    for step, n in steps:
        match step:
            case "/":
                formula, expected = formula // n, expected // n
            case "%":
                formula, expected = formula % n, expected % n
            case "*":
                formula, expected = formula * n, expected * n
            case "+":
                formula, expected = formula + n, expected + n
            case "-":
                formula, expected = formula * -n, expected * -n
            case _:
                formula, expected = formula + T, expected + at[AXES[2]]
        assert value(formula, at) == expected
        assert formula.low <= expected <= formula.high


def test_what_is_joined_is_split_into_the_same() -> None:
    assert divide(A * 12 + B, 12) == (A, B)
    assert divide(OUT * 32 + IN, 32) == (OUT, IN)


def test_what_is_split_is_joined_into_the_same() -> None:
    quotient, remainder = divide(T, 12)
    assert quotient * 12 + remainder == T
    quotient, remainder = divide(T, 5)  # which does not divide its size
    assert quotient * 5 + remainder == T


def test_digits_are_joined_in_any_order() -> None:
    high, middle, low = T // 24 * 24, T // 8 % 3 * 8, T % 8
    assert (high + middle) + low == T
    assert high + (middle + low) == T
    assert (low + high) + middle == T
    assert middle + low == T % 24


def test_blocks_are_split_along_what_counts_them() -> None:
    """What is less than the size of a block does not say in which row a block is."""
    quotient, remainder = divide(OUT * 32 + IN, 64)
    assert quotient == OUT // 2
    assert remainder == (OUT % 2) * 32 + IN


def test_substitution_reaches_what_is_within() -> None:
    whole = Axis("ab", 96)
    parts = {AXES[0]: IndexExpr.of(whole) // 12, AXES[1]: IndexExpr.of(whole) % 12}
    formula = (A * 12 + B) // 5
    assert formula.substitute(lambda atom: parts.get(atom)) == IndexExpr.of(whole) // 5  # type: ignore[call-overload]
