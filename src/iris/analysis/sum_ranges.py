"""Between which numbers sums of scalars are (`affine`), whatever the arguments of a program."""

from __future__ import annotations

from collections.abc import Iterator

from iris.analysis.affine import Sum, Sums, number_of, summed
from iris.ir import math, tile
from iris.ir.control import For, Func
from iris.ir.core import Value

Range = tuple[int, int]


class SumRanges:
    """The ranges of the sums of a function."""

    def __init__(self, function: Func, sums: Sums):
        self._grid = function.grid
        self._sums = sums
        self._known: dict[Value, Range] = {}

    def of(self, total: Sum) -> Range:
        """The least and the greatest number that a sum may be."""
        low = high = 0
        for product, count in total.items():
            ends = [count]
            for value in product:
                ends = [end * n for end in ends for n in self._of_value(value)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def exact(self, value: Value) -> Sum:
        """The sum that a scalar is; a term by itself, if it may be a sum that overflows."""
        total = self._sums.scalar(value)
        is_exact = total is not None and all(map(self._fits, [value, *cast_from(value)]))
        return total if total is not None and is_exact else {(value,): 1}

    def _fits(self, value: Value) -> bool:
        """Whether a sum does not overflow, whatever it is of."""
        total, dtype = self._sums.scalar(value), value.type.element
        if total is None:
            return False
        low, high = self.of(total)
        return low >= dtype.low and high <= dtype.high

    def _of_value(self, value: Value) -> Range:
        if value not in self._known:
            dtype = value.type.element
            low, high = self._find(value)
            self._known[value] = max(low, dtype.low), min(high, dtype.high)
        return self._known[value]

    def _find(self, value: Value) -> Range:
        op, dtype = value.op, value.type.element
        if isinstance(op, (tile.ProgramId, tile.NumPrograms, tile.Extent)):
            if isinstance(op, tile.ProgramId) and self._grid:
                return 0, max(0, self._grid[op.axis] - 1)
            return 0, dtype.high
        if isinstance(value.owner, For) and op is None and value.index == 0:
            lower, upper, step = map(self.exact, value.owner.operands[:3])
            if (number_of(step) or 0) > 0:
                low, high = self.of(lower)[0], self.of(upper)[1] - 1
                return low, max(low, high)
        return dtype.low, dtype.high


def cast_from(*values: Value) -> Iterator[Value]:
    """What sums are of that is cast to more bits: where that overflows, they are other sums."""
    todo, seen = [*values], set[Value]()
    while todo:
        value = todo.pop()
        op = value.op
        if value in seen or op is None or summed.get(type(op)) is None:
            continue
        seen.add(value)
        todo += op.operands
        if isinstance(op, math.Cast):
            yield op.x
