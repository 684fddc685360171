"""The value of an integer in each thread, up to a summand that all threads have in common.

    %lane: i32 = metal.lane                  0, 1, ..., 31
    %row: i32 = metal.threadgroup_id 0       in common
    %0: i32 = mul %row, %c32                 in common
    %at: i32 = add %0, %lane                 0, 1, ..., 31, and what is in common
    %two: i32 = mod %lane, %c2               0, 1, 0, 1, ...

So no two threads access one element at `%at`, and many do at `%two`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from iris.analysis.windows import EXACT, Windows, keeps_numbers
from iris.ir import math, metal, scalar
from iris.ir.control import If
from iris.ir.core import Facet, Op, Value

#: By thread, by turn of each `foreach` around the access, and by element; an axis of 1 stands for
#: any number of equal ones.
Array: TypeAlias = npt.NDArray[Any]
Rule: TypeAlias = "Callable[[_Around, Op], Numbers | None]"
NEVER = np.iinfo(np.int64).min  # the number of the case in which an op is not run
MOST_SIMDGROUPS = 32  # where it is not decided how many there are
MOST_ACCESSES = 1 << 22  # of all threads in all turns, that are compared


class Numbers(NamedTuple):
    """The value of an integer in each thread."""

    array: Array
    is_whole: bool  # else a summand is missing, which all threads have in common


class ThreadNumbers:
    """The numbers that the accesses of a function are computed from."""

    def __init__(self, windows: Windows):
        self.windows = windows
        self._apart: dict[Op, bool] = {}

    def are_apart(self, op: metal.Store | metal.Copy, count: int) -> bool:
        """Whether surely no two threads write the same element in an op that writes `count` of
        them at once, whatever their turns of the `foreach` ops around it."""
        known = self._apart.get(op)
        if known is None:
            known = self._apart[op] = _are_apart(op, count, _Around(self.windows, op))
        return known


def _are_apart(op: metal.Store | metal.Copy, count: int, around: _Around) -> bool:
    if prod([loop.count for loop in around.loops], start=around.threads.size) > MOST_ACCESSES:
        return False
    offset = around.of(op.offset)
    offsets = np.array(0) if offset is None else offset.array  # unknown ones may be equal
    arrays = np.broadcast_arrays(offsets, around.threads, around.case_of(op))
    starts, threads, case = [array.ravel().astype(np.int64) for array in arrays]
    order = np.lexsort((starts, case))
    starts, threads, case = starts[order], threads[order], case[order]
    meet = (case[1:] == case[:-1]) & (starts[1:] - starts[:-1] < count) & (case[1:] != NEVER)
    return not (meet & (threads[1:] != threads[:-1])).any()


class _Around:
    """The numbers in the turns of the `foreach` ops around an op."""

    def __init__(self, windows: Windows, op: Op):
        self.windows = windows
        self.loops = [loop for loop in _enclosing(op) if isinstance(loop, metal.Foreach)]
        simdgroups = windows.function.simdgroups or MOST_SIMDGROUPS
        self.threads = self._along(0, simdgroups * metal.SIMDGROUP_WIDTH)
        self._known: dict[Value, Numbers | None] = {}

    def of(self, value: Value) -> Numbers | None:
        """None if it is not known."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def whole(self, value: Value) -> Array | None:
        """The value in each thread, if no summand is missing."""
        known = self.of(value)
        return known.array if known is not None and known.is_whole else None

    def case_of(self, op: metal.Store | metal.Copy) -> Array:
        """For each thread and turn, the number of a case: an op runs in one case at a time."""
        case = np.array(0)
        if op.mask is not None and isinstance(op, metal.Store):  # a copy else writes zeros
            case = self._case_of(op.mask)
        region = op.parent
        while region is not None and region.owner is not None:
            if isinstance(region.owner, If) and region is region.owner.regions[0]:
                case = _both(case, self._case_of(region.owner.condition))
            region = region.owner.parent
        return case

    def _case_of(self, condition: Value) -> Array:
        """For each thread and turn, the number of a case: a condition is true in one at a time."""
        array = self.whole(condition)
        if array is not None:
            return np.where(array, 0, NEVER)
        op = condition.op
        if isinstance(op, math.And):
            return _both(self._case_of(op.lhs), self._case_of(op.rhs))
        if isinstance(op, math.Compare) and op.predicate is math.Predicate.EQ:
            a, b = self.of(op.lhs), self.of(op.rhs)
            # Wider ones may be made of numbers that have wrapped, which in a mask is no error.
            is_exact = op.lhs.type.element.bits <= EXACT
            if a is not None and b is not None and is_exact:
                # What they have in common decides which difference, in their bits, is 0.
                return (a.array - b.array).astype(np.int64)
        return np.array(0)

    def elements(self, numbers: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """Numbers, one for each element of a value."""
        return np.array(numbers, dtype).reshape(*[1] * (1 + len(self.loops)), len(numbers))

    def _along(self, axis: int, count: int) -> Array:
        """The numbers below a count along an axis."""
        shape = [1] * (len(self.loops) + 2)
        shape[axis] = count
        return np.arange(count, dtype=np.int32).reshape(shape)

    def _find(self, value: Value) -> Numbers | None:
        found = None
        if value.op is not None:
            rule: Rule | None = per_thread.get(type(value.op))
            found = None if rule is None else rule(self, value.op)
        elif value.owner in self.loops:
            axis = 1 + self.loops.index(value.owner)
            found = Numbers(self._along(axis, value.owner.count), True)
        if found is None and value.type.element.is_integer and self.windows.is_in_common(value):
            return Numbers(self.elements([0], scalar.storage(value.type.element)), False)
        return found


def _both(one: Array, other: Array) -> Array:
    """The cases of two conditions together."""
    _, numbers = np.unique(other, return_inverse=True)
    together = one * (numbers.max() + 1) + numbers.reshape(other.shape)
    return np.where((one == NEVER) | (other == NEVER), NEVER, together)


def _enclosing(op: Op) -> Iterator[Op]:
    """The ops whose regions have an op in them, from the innermost on."""
    around = op.parent_op
    while around is not None:
        yield around
        around = around.parent_op


per_thread = Facet("numbers per thread")


@per_thread(math.Elementwise)
def _elementwise(around: _Around, op: Op) -> Numbers | None:
    arrays = [around.whole(v) for v in op.operands]
    known = [a for a in arrays if a is not None]
    return Numbers(scalar.evaluate(op, *known), True) if len(known) == len(arrays) else None


@per_thread(math.Add, math.Sub)
def _sum(around: _Around, op: math.Add | math.Sub) -> Numbers | None:
    a, b = around.of(op.lhs), around.of(op.rhs)
    if a is None or b is None:
        return None
    return Numbers(scalar.evaluate(op, a.array, b.array), a.is_whole and b.is_whole)


@per_thread(math.Mul, math.Shl)
def _multiple(around: _Around, op: math.Mul | math.Shl) -> Numbers | None:
    a, b = around.of(op.lhs), around.of(op.rhs)
    if a is None or b is None:
        return None
    if not (a.is_whole and b.is_whole):
        factor = a if a.is_whole and isinstance(op, math.Mul) else b
        # Of a factor that differs, the part in common becomes one that does.
        if not factor.is_whole or factor.array.size != 1:
            return None
    return Numbers(scalar.evaluate(op, a.array, b.array), a.is_whole and b.is_whole)


@per_thread(math.Cast)
def _cast(around: _Around, op: math.Cast) -> Numbers | None:
    x = around.of(op.x)
    if x is None or not (x.is_whole or keeps_numbers(op)):
        return None
    return Numbers(scalar.evaluate(op, x.array), x.is_whole)


@per_thread(math.Constant)
def _constant(around: _Around, op: math.Constant) -> Numbers:
    bits = around.elements([op.bits], np.uint64)
    return Numbers(scalar.from_bits(op.dtype, bits), True)


@per_thread(metal.Lane)
def _lane(around: _Around, op: metal.Lane) -> Numbers:
    return Numbers(around.threads % metal.SIMDGROUP_WIDTH, True)


@per_thread(metal.Simdgroup)
def _simdgroup(around: _Around, op: metal.Simdgroup) -> Numbers:
    return Numbers(around.threads // metal.SIMDGROUP_WIDTH, True)


@per_thread(metal.Splat)
def _splat(around: _Around, op: metal.Splat) -> Numbers | None:
    return around.of(op.x)


@per_thread(metal.Pattern)
def _pattern(around: _Around, op: metal.Pattern) -> Numbers:
    numbers = [0]
    for image in op.images:
        numbers += [number ^ image for number in numbers]
    return Numbers(around.elements(numbers, scalar.storage(op.result.type.element)), True)


@per_thread(metal.Take)
def _take(around: _Around, op: metal.Take) -> Numbers | None:
    x = around.of(op.x)
    if x is None or x.array.shape[-1] == 1:
        return x
    return Numbers(x.array[..., op.indices], x.is_whole)
