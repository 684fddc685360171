"""Between which numbers sums of scalars are (`affine`), whatever the arguments of a program."""

from __future__ import annotations

from iris.analysis.affine import Sum, Sums
from iris.ir import tile
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

    def _of_value(self, value: Value) -> Range:
        if value not in self._known:
            dtype = value.type.element
            low, high = self._find(value)
            self._known[value] = max(low, dtype.low), min(high, dtype.high)
        return self._known[value]

    def _find(self, value: Value) -> Range:
        op, dtype = value.op, value.type.element
        if isinstance(op, tile.ProgramId | tile.NumPrograms | tile.Extent):
            if isinstance(op, tile.ProgramId) and self._grid:
                return 0, max(0, self._grid[op.axis] - 1)
            return 0, dtype.high
        if isinstance(value.owner, For) and op is None and value.index == 0:
            lower, upper = (self._sums.scalar(v) for v in value.owner.operands[:2])
            if lower is not None and upper is not None:
                low, high = self.of(lower)[0], self.of(upper)[1] - 1
                return low, max(low, high)
        return dtype.low, dtype.high
