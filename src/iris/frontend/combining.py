"""Reductions and scans by a function of the user's.

The function is traced once for each step of a tree, on tiles of elements that are to be combined.
So it may do with them all that a kernel does, and every device combines in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as fold
from math import prod
from typing import Any

from iris.errors import ArgumentError, DTypeError, ShapeError
from iris.frontend.halves import flat, halves, in_shape, is_second, pick
from iris.frontend.language import as_axis, check_keepdims, flip, kept_axis
from iris.frontend.traced_control import called
from iris.frontend.tracing import error_here, word
from iris.frontend.values import Traced, as_traced, broadcast_shapes, describe, emit, spread
from iris.ir import math, tile
from iris.ir.math import Predicate

Values = list[Traced]

VECTOR_BYTES = 16  # that a thread mostly holds together


@word
def reduce(values: Any, axis: int | None, fn: Callable[..., object], keepdims: bool = False) -> Any:
    """The elements along an axis, or all, combined by an associative and commutative function;
    of several tiles, the elements at one place belong together."""
    check_keepdims("reduce", keepdims)
    combination = _Combination("reduce", values, fn)
    shape = combination.shape
    rank = len(shape)
    at = None if axis is None else as_axis(axis, rank)
    _, count, inner = _around(at, shape)
    left = combination.flat()
    width = VECTOR_BYTES // max(x.dtype.bytes for x in left)
    # What a thread holds together comes first, so that fewer elements go to other lanes.
    while count > 1 and inner < width:
        left, count, width = combination.of_halves(left, inner), count // 2, width // 2
    while count > 1:
        count //= 2
        left = combination.of_halves(left, count * inner)
    kept = () if at is None else (*shape[:at], *shape[at + 1 :])
    reduced = [in_shape(x, *kept) for x in left]
    return combination.results([kept_axis(x, at, rank) if keepdims else x for x in reduced])


@word
def associative_scan(
    values: Any, axis: int, fn: Callable[..., object], reverse: bool = False
) -> Any:
    """The elements up to and with each one along an axis, or from each one on, combined by an
    associative function; of several tiles, the elements at one place belong together."""
    combination = _Combination("associative_scan", values, fn)
    shape = combination.shape
    at = as_axis(axis, len(shape))
    _, count, inner = _around(at, shape)
    if reverse:
        combination.values = [flip(x, at) for x in combination.values]
    scanned = own = combination.flat()
    done = 1
    while done < count:
        scanned = combination.onto_second_halves(scanned, done, inner)
        done *= 2
    counts = _all_count(own)
    results = [in_shape(_where(counts, x), *shape) for x in scanned]
    return combination.results([flip(x, at) for x in results] if reverse else results)


class _Combination:
    """Tiles that are combined, and the function that does."""

    def __init__(self, word: str, values: Any, fn: Callable[..., object]):
        self.word = word
        self.fn = called(fn)
        self.is_tuple = isinstance(values, (tuple, list))
        given = [as_traced(x) for x in (values if self.is_tuple else [values])]
        if not given:
            raise error_here(ArgumentError, f"{word} combines one tile or more, not none")
        self.shape = broadcast_shapes(*[x.shape for x in given])
        self.values = [spread(x, self.shape) for x in given]

    def flat(self) -> Values:
        """The tiles in row-major order; an element counts where all at its place do."""
        values = [flat(x) for x in self.values]
        counts = _all_count(values)
        return [_where(counts, x) for x in values] if len(values) > 1 else values

    def results(self, values: Values) -> Any:
        return tuple(values) if self.is_tuple else values[0]

    def of_halves(self, values: Values, step: int) -> Values:
        """Combine the halves of each block."""
        low, high = zip(*[halves(x, step) for x in values], strict=True)
        return self.combined(low, high)

    def onto_second_halves(self, values: Values, done: int, inner: int) -> Values:
        """Combine the last of the first half of each block with all of its second half."""
        size, step = prod(values[0].shape), done * inner
        blocks = size // (2 * step)
        last = [pick(in_shape(x, blocks, 2 * done, inner), 1, done - 1) for x in values]
        before = [
            flat(spread(in_shape(x, blocks, 1, inner), (blocks, 2 * done, inner))) for x in last
        ]
        second = is_second(size, step)
        pairs = zip(values, self.combined(before, values), strict=True)
        return [emit(math.Select(second.value, made.value, x.value)) for x, made in pairs]

    def combined(self, left: Sequence[Traced], right: Sequence[Traced]) -> Values:
        """Combine elements; one that meets none that counts stays as it is."""
        counts = _all_count([*left, *right])
        return [
            emit(tile.Update(emit(tile.Update(y.value, x.value)).value, _where(counts, z).value))
            for x, y, z in zip(left, right, self.called(left, right), strict=True)
        ]

    def called(self, left: Sequence[Traced], right: Sequence[Traced]) -> Values:
        returned = self.fn(*left, *right)
        values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(values) != len(left):
            raise error_here(
                ArgumentError,
                f"the function of {self.word} gets {len(left)} values of each of two elements, and "
                f"returns {len(left)}, not {len(values)}",
            )
        return [self.checked(x, value) for x, value in zip(left, values, strict=True)]

    def checked(self, like: Traced, value: object) -> Traced:
        """A result of the function, of the type of an operand."""
        result = as_traced(value, like.dtype)
        if result.dtype is not like.dtype:
            raise error_here(
                DTypeError,
                f"the function of {self.word} gives {describe(value)} for elements that are "
                f"{like.dtype}; cast it",
            )
        if broadcast_shapes(result.shape, like.shape) != like.shape:
            raise error_here(
                ShapeError,
                f"the function of {self.word} gives {describe(value)} for {describe(like)}; it may "
                "use its arguments and scalars",
            )
        return spread(result, like.shape)


def _around(axis: int | None, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """How many elements lie before an axis, along it, and after it; without one, all along it."""
    if axis is None:
        return 1, prod(shape), 1
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _all_count(values: Sequence[Traced]) -> Traced:
    """A bool that counts where all of some values do."""
    tests = [emit(math.Compare(Predicate.EQ, x.value, x.value)) for x in values]
    return fold(lambda a, b: emit(math.And(a.value, b.value)), tests)


def _where(counts: Traced, x: Traced) -> Traced:
    """A value that counts only where another does."""
    return emit(math.Select(counts.value, x.value, x.value))
