"""Lower scans: along registers, then lanes, then simdgroups, then repetitions of all that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.kinds import ScanKind
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.math import Predicate
from iris.ir.metal import SIMDGROUP_WIDTH, count_of
from iris.passes.tile.layouts.access_layouts import scan_bits, scannable
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import convert_layout, join_registers, shuffle
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
    """A scan in a layout with `scan_bits`."""

    def __init__(self, ctx: Lowering, op: type[math.Binary], layout: LinearLayout, axis: int):
        self.ctx = ctx
        self.layout = layout
        self.axis = axis
        self.op = op
        bits = scan_bits(layout, axis)
        assert bits is not None, f"no scan goes along axis {axis} of {layout}"
        self.bits = bits

    def combine(self, before: Value, after: Value) -> Value:
        return self.ctx.b(self.op(before, after))

    def of(self, x: Value) -> Value:
        ctx = self.ctx
        # A column for each index within a run, with an element of every run.
        runs = _split(range(count_of(x.type)), self.bits.run)
        columns = [ctx.take(x, members) for members in runs]
        for j in range(1, len(columns)):
            columns[j] = self.combine(columns[j - 1], columns[j])
        total = columns[-1]
        if self.bits.lane:
            total, before = self._lanes(total)
            columns = [self._after(self._lane_digit, before, c) for c in columns]
            if self.bits.simdgroup or self.bits.repeat:
                total = self._of_last_lane(total)
        if self.bits.simdgroup:
            before, total = self._simdgroups(total)
            columns = [self._after(self._simdgroup_digit, before, c) for c in columns]
        return self._repeats(columns, runs, total)

    @property
    def _lane_digit(self) -> Digit:
        return Digit(self.ctx.lane, self.bits.lane)

    @property
    def _simdgroup_digit(self) -> Digit:
        return Digit(self.ctx.simdgroup, self.bits.simdgroup)

    def _at_least(self, digit: Digit, least: int) -> Value:
        ctx = self.ctx
        return ctx.compare(Predicate.GE, ctx.mask(digit.number, digit.mask), least * digit.step)

    def _after(self, digit: Digit, before: Value, x: Value) -> Value:
        """Combine with the total before, except where there is none."""
        has_before = self._at_least(digit, 1)
        return self.ctx.b(math.Select(has_before, self.combine(before, x), x))

    def _lanes(self, total: Value) -> tuple[Value, Value]:
        """Scan the totals of lanes; also give each lane the result of the lane before."""
        ctx, digit = self.ctx, self._lane_digit
        for bit in range(len(self.bits.lane)):
            other = self._from_below(total, digit.step << bit)
            has_before = self._at_least(digit, 1 << bit)
            total = ctx.b(math.Select(has_before, self.combine(other, total), total))
        return total, self._from_below(total, digit.step)

    def _from_below(self, x: Value, distance: int) -> Value:
        """The value of the lane `distance` below; any value in the lowest lanes."""
        ctx = self.ctx
        lane = ctx.mask(ctx.add(ctx.lane, -distance), SIMDGROUP_WIDTH - 1)
        return shuffle(ctx, x, ctx.value(lane))

    def _of_last_lane(self, total: Value) -> Value:
        """The total of the simdgroup, from the scan of its lanes."""
        ctx = self.ctx
        mask = ctx.constant(self._lane_digit.mask)
        return shuffle(ctx, total, ctx.b(math.Or(ctx.value(ctx.lane), mask)))

    def _simdgroups(self, total: Value) -> tuple[Value, Value]:
        """The total of the simdgroups before, and that of all."""
        ctx, digit, count = self.ctx, self._simdgroup_digit, 1 << len(self.bits.simdgroup)
        totals = self._totals()
        versions = LinearLayout.of(
            (count,),
            register=[0] * totals.bits(REGISTER),
            lane=[0] * totals.bits(LANE),
            simdgroup=[(digit.mask & 1 << b) // digit.step for b in range(totals.bits(SIMDGROUP))],
        )
        source, target = versioned_layouts(totals, versions)
        every = convert_layout(ctx, total, source, target)
        own = count_of(total.type)
        parts = [ctx.take(every, range(s * own, (s + 1) * own)) for s in range(count)]
        before = running = parts[0]
        for s in range(1, count - 1):
            running = self.combine(running, parts[s])
            before = ctx.b(math.Select(self._at_least(digit, s + 1), running, before))
        return before, self.combine(running, parts[-1])

    def _totals(self) -> LinearLayout:
        """The layout of the totals of runs: along the axis, only their repetitions."""
        along = {bit: 1 << n for n, bit in enumerate(self.bits.repeat)}
        shape = list(self.layout.shape)
        shape[self.axis] = 1 << len(along)
        bases: dict[str, list[tuple[int, ...]]] = {}
        for dim, images in self.layout.bases:
            bases[dim] = []
            for bit, image in enumerate(images):
                if dim == REGISTER and bit in self.bits.run:
                    continue
                step = along[bit] if dim == REGISTER and image[self.axis] else 0
                bases[dim].append((*image[: self.axis], step, *image[self.axis + 1 :]))
        return LinearLayout.of(shape, **bases)

    def _repeats(self, columns: Sequence[Value], runs: Sequence[list[int]], total: Value) -> Value:
        """Join the columns, combined with the totals of the repetitions before.

        A column, and `total`, have an element for each of the registers in an item of `runs`.
        """
        ctx = self.ctx
        order: list[int] = []
        parts: list[Value] = []
        before: Value | None = None
        for first in _split(runs[0], self.bits.repeat):
            places = [runs[0].index(r) for r in first]
            registers = [members[place] for members in runs for place in places]
            part = join_registers(ctx, [ctx.take(c, places) for c in columns], registers)
            registers.sort()
            own = ctx.take(total, places)
            if before is None:
                before = own
            else:
                run_of = [first.index(r & ~_mask(self.bits.run)) for r in registers]
                part = self.combine(ctx.take(before, run_of), part)
                before = self.combine(before, own)
            parts.append(part)
            order += registers
        return join_registers(ctx, parts, order)


class Digit(NamedTuple):
    """What some neighbouring bits of a number say."""

    number: Value
    bits: tuple[int, ...]

    @property
    def step(self) -> int:
        return 1 << self.bits[0]

    @property
    def mask(self) -> int:
        return _mask(self.bits)


def _mask(bits: Iterable[int]) -> int:
    return sum(1 << bit for bit in bits)


def _split(registers: Sequence[int], bits: Sequence[int]) -> list[list[int]]:
    """Split registers by the number that some of their bits say.

    >>> _split(range(8), [0, 2])
    [[0, 2], [1, 3], [4, 6], [5, 7]]
    """
    mask = _mask(bits)
    numbers = [
        sum((n >> k & 1) << bit for k, bit in enumerate(bits)) for n in range(1 << len(bits))
    ]
    return [[r for r in registers if r & mask == number] for number in numbers]
