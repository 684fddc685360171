"""Lower scans: along registers, then lanes, then simdgroups."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.kinds import ScanKind
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.math import Predicate
from iris.ir.metal import SIMDGROUP_WIDTH, Join, count_of
from iris.passes.tile.layouts.access_layouts import scannable
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import convert_layout, shuffle
from iris.passes.tile.lowering.lower_reduce import accumulator_dtype, cast, versioned_layouts

_OPS: dict[ScanKind, type[math.Binary]] = {
    ScanKind.SUM: math.Add,
    ScanKind.PROD: math.Mul,
    ScanKind.MAXNUM: math.MaxNum,
    ScanKind.MINNUM: math.MinNum,
    ScanKind.MAXIMUM: math.Maximum,
    ScanKind.MINIMUM: math.Minimum,
}


@lower(tile.Scan)
def lower_scan(ctx: Lowering, op: tile.Scan) -> Sequence[Value]:
    operand_layout = tile_layout(op.x)
    layout = scannable(operand_layout, op.axis)
    x = convert_layout(ctx, ctx[op.x], operand_layout, layout)
    dtype = x.type.element
    if op.kind in (ScanKind.SUM, ScanKind.PROD):
        x = cast(ctx, x, accumulator_dtype(dtype))
    done = _Scan(ctx, _OPS[op.kind], layout, op.axis).of(x)
    return [convert_layout(ctx, cast(ctx, done, dtype), layout, operand_layout)]


class _Scan:
    """A scan in a layout whose lowest registers, lanes and simdgroups go along the axis."""

    def __init__(self, ctx: Lowering, op: type[math.Binary], layout: LinearLayout, axis: int):
        self.ctx = ctx
        self.layout = layout
        self.axis = axis
        self.op = op
        self.bits = {dim: sum(image[axis] != 0 for image in images) for dim, images in layout.bases}

    def combine(self, before: Value, after: Value) -> Value:
        return self.ctx.b(self.op(before, after))

    def of(self, x: Value) -> Value:
        ctx, run = self.ctx, 1 << self.bits[REGISTER]
        count = count_of(x.type)
        # A column for each index within a run, with an element of every run.
        columns = [ctx.take(x, range(j, count, run)) for j in range(run)]
        for j in range(1, run):
            columns[j] = self.combine(columns[j - 1], columns[j])
        total = columns[-1]
        if self.bits[LANE]:
            total, before = self._lanes(total)
            digit = ctx.mask(ctx.lane, (1 << self.bits[LANE]) - 1)
            columns = [self._after(digit, before, c) for c in columns]
        if self.bits[SIMDGROUP]:
            digit = ctx.mask(ctx.simdgroup, (1 << self.bits[SIMDGROUP]) - 1)
            before = self._simdgroups(total)
            columns = [self._after(digit, before, c) for c in columns]
        if run == 1:
            return columns[0]
        rows = count // run
        order = [rows * (r % run) + r // run for r in range(count)]
        return ctx.take(ctx.b(Join(columns)), order)

    def _after(self, digit: Value | int, before: Value, x: Value) -> Value:
        """Combine with the total before, except where there is none."""
        ctx = self.ctx
        has_before = ctx.compare(Predicate.GE, digit, 1)
        return ctx.b(math.Select(has_before, self.combine(before, x), x))

    def _lanes(self, total: Value) -> tuple[Value, Value]:
        """Scan the totals of lanes; also give each lane the result of the lane before."""
        ctx, bits = self.ctx, self.bits[LANE]
        digit = ctx.mask(ctx.lane, (1 << bits) - 1)
        for bit in range(bits):
            other = self._from_below(total, 1 << bit)
            has_before = ctx.compare(Predicate.GE, digit, 1 << bit)
            total = ctx.b(math.Select(has_before, self.combine(other, total), total))
        return total, self._from_below(total, 1)

    def _from_below(self, x: Value, distance: int) -> Value:
        """The value of the lane `distance` below; any value in the lowest lanes."""
        ctx = self.ctx
        lane = ctx.mask(ctx.add(ctx.lane, -distance), SIMDGROUP_WIDTH - 1)
        return shuffle(ctx, x, ctx.value(lane))

    def _simdgroups(self, total: Value) -> Value:
        """The total of the simdgroups before, from the scan of each one's lanes."""
        ctx, lanes, groups = self.ctx, self.bits[LANE], self.bits[SIMDGROUP]
        if lanes:  # the last lane of the axis has the simdgroup's total
            last = (1 << lanes) - 1
            lane = ctx.value(ctx.lane)
            top = ctx.b(math.Or(lane, ctx.constant(last)))
            total = shuffle(ctx, total, top)
        totals = self._totals()
        versions = LinearLayout.of(
            (1 << groups,),
            register=[0] * totals.bits(REGISTER),
            lane=[0] * totals.bits(LANE),
            simdgroup=[1 << b if b < groups else 0 for b in range(totals.bits(SIMDGROUP))],
        )
        source, target = versioned_layouts(totals, versions)
        every = convert_layout(ctx, total, source, target)
        own = count_of(total.type)
        parts = [ctx.take(every, range(s * own, (s + 1) * own)) for s in range(1 << groups)]
        before = parts[0]
        digit = ctx.mask(ctx.simdgroup, (1 << groups) - 1)
        running = parts[0]
        for s in range(1, (1 << groups) - 1):
            running = self.combine(running, parts[s])
            past = ctx.compare(Predicate.GT, digit, s)
            before = ctx.b(math.Select(past, running, before))
        return before

    def _totals(self) -> LinearLayout:
        """The layout of the totals: without the axis and its registers."""
        flat = self.layout.expand(self.layout.rank).slice(self.axis)
        images = dict(flat.bases)
        images[REGISTER] = images[REGISTER][self.bits[REGISTER] :]
        return LinearLayout(tuple(images.items()), flat.shape)
