"""Scans: along a thread's registers, then lanes, then simdgroups."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.kinds import ScanKind
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.math import Predicate, element_type
from iris.ir.metal import SIMDGROUP_WIDTH, Join, count_of
from iris.passes.tile.layouts.shapes import scannable
from iris.passes.tile.lowering.combine import accumulator, cast, slotted
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.move import move, shuffle

_OPS: dict[ScanKind, type[math.Binary]] = {
    ScanKind.SUM: math.Add,
    ScanKind.PROD: math.Mul,
    ScanKind.MAXNUM: math.MaxNum,
    ScanKind.MINNUM: math.MinNum,
    ScanKind.MAXIMUM: math.Maximum,
    ScanKind.MINIMUM: math.Minimum,
}


@lower(tile.Scan)
def scan(at: Lowering, op: tile.Scan) -> Sequence[Value]:
    given = tile_layout(op.x)
    layout = scannable(given, op.axis)
    x = move(at, at[op.x], given, layout)
    dtype = element_type(x.type).element
    if op.kind in (ScanKind.SUM, ScanKind.PROD):
        x = cast(at, x, accumulator(dtype))
    done = _Scan(at, _OPS[op.kind], layout, op.axis).of(x)
    return [move(at, cast(at, done, dtype), layout, given)]


class _Scan:
    """A scan in a layout where the axis has the lowest registers, the lowest lanes and the lowest
    simdgroups, in this order."""

    def __init__(self, at: Lowering, op: type[math.Binary], layout: LinearLayout, axis: int):
        self.at = at
        self.layout = layout
        self.axis = axis
        self.op = op
        self.bits = {dim: sum(image[axis] != 0 for image in images) for dim, images in layout.bases}

    def combine(self, before: Value, after: Value) -> Value:
        return self.at.b(self.op(before, after))

    def of(self, x: Value) -> Value:
        at, run = self.at, 1 << self.bits[REGISTER]
        count = count_of(x.type)
        # One column for each place along the axis, with an element of every run.
        columns = [at.take(x, range(j, count, run)) for j in range(run)]
        for j in range(1, run):
            columns[j] = self.combine(columns[j - 1], columns[j])
        total = columns[-1]
        if self.bits[LANE]:
            total, before = self._lanes(total)
            digit = at.mask(at.lane, (1 << self.bits[LANE]) - 1)
            columns = [self._after(digit, before, c) for c in columns]
        if self.bits[SIMDGROUP]:
            digit = at.mask(at.simdgroup, (1 << self.bits[SIMDGROUP]) - 1)
            before = self._simdgroups(total)
            columns = [self._after(digit, before, c) for c in columns]
        if run == 1:
            return columns[0]
        rows = count // run
        order = [rows * (r % run) + r // run for r in range(count)]
        return at.take(at.b(Join(columns)), order)

    def _after(self, digit: Value | int, before: Value, x: Value) -> Value:
        """Combined with what is before, but where nothing is."""
        at = self.at
        there = at.compare(Predicate.GE, digit, 1)
        return at.b(math.Select(there, self.combine(before, x), x))

    def _lanes(self, total: Value) -> tuple[Value, Value]:
        """The scan of the lanes' totals, and for each lane that of the lane before."""
        at, bits = self.at, self.bits[LANE]
        digit = at.mask(at.lane, (1 << bits) - 1)
        for bit in range(bits):
            other = self._from_below(total, 1 << bit)
            there = at.compare(Predicate.GE, digit, 1 << bit)
            total = at.b(math.Select(there, self.combine(other, total), total))
        return total, self._from_below(total, 1)

    def _from_below(self, x: Value, distance: int) -> Value:
        """What the lane so many below has; in the lowest lanes, that of some lane."""
        at = self.at
        lane = at.mask(at.add(at.lane, -distance), SIMDGROUP_WIDTH - 1)
        return shuffle(at, x, at.value(lane))

    def _simdgroups(self, total: Value) -> Value:
        """What the simdgroups before come to, given the scan of each one's lanes."""
        at, lanes, groups = self.at, self.bits[LANE], self.bits[SIMDGROUP]
        if lanes:  # the last lane of the axis has the simdgroup's total
            last = (1 << lanes) - 1
            lane = at.value(at.lane)
            top = at.b(math.Or(lane, at.constant(last)))
            total = shuffle(at, total, top)
        totals = self._totals()
        versions = LinearLayout.of(
            (1 << groups,),
            register=[0] * totals.bits(REGISTER),
            lane=[0] * totals.bits(LANE),
            simdgroup=[1 << b if b < groups else 0 for b in range(totals.bits(SIMDGROUP))],
        )
        source, target = slotted(totals, versions)
        every = move(at, total, source, target)
        own = count_of(total.type)
        parts = [at.take(every, range(s * own, (s + 1) * own)) for s in range(1 << groups)]
        before = parts[0]
        digit = at.mask(at.simdgroup, (1 << groups) - 1)
        running = parts[0]
        for s in range(1, (1 << groups) - 1):
            running = self.combine(running, parts[s])
            past = at.compare(Predicate.GT, digit, s)
            before = at.b(math.Select(past, running, before))
        return before

    def _totals(self) -> LinearLayout:
        """The layout of the totals: without the axis, and without its registers."""
        flat = self.layout.expand(self.layout.rank).slice(self.axis)
        images = dict(flat.bases)
        images[REGISTER] = images[REGISTER][self.bits[REGISTER] :]
        return LinearLayout(tuple(images.items()), flat.shape)
