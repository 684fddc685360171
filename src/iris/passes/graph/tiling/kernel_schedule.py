"""Schedules: how a kernel goes over its axes, as `graph.kernel` has it written.

A reduced or scanned axis stays within a program, as lanes or as a loop over blocks of lanes.  Each
other axis of the outputs is divided among programs, or stays within each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod

from iris.ir.axis_schedule import AxisSchedule, Place, WrittenSchedule
from iris.ir.core import Value
from iris.passes.graph.tiling.element_exprs import ScanExpr
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse, Within
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr
from iris.passes.graph.tiling.kernel_axes import axis_choices
from iris.passes.graph.tiling.plan import AxisBlock, Plan
from iris.passes.graph.tiling.tile_limits import MAX_TILE_DIMENSIONS

SUM_ORDERS_DIFFER = "two consumers would sum it in different orders, and could round differently"


class KernelSchedule:
    """How many lanes each axis has, which output axes stay within a program, and how many
    simdgroups run one: as many as its largest tile keeps busy, if that is 0."""

    def __init__(
        self,
        elements: ElementGraph,
        lanes: Mapping[Axis, int],
        kept: Collection[Axis],
        simdgroups: int = 0,
    ):
        self.elements = elements
        self.output_axes = elements.long_output_axes
        self.lanes = lanes
        self.kept = kept
        self.simdgroups = simdgroups
        self._check()

    @staticmethod
    def read(elements: ElementGraph, schedule: WrittenSchedule) -> KernelSchedule:
        """The schedule that is written of a kernel's axes."""
        written = {axis.axis: axis for axis in schedule.axes}
        choices, online_choices = [], []
        online = {axis.axis for axis in schedule.axes if axis.place is Place.ONLINE}
        for choice in axis_choices(elements):
            named = {axis.name: axis for axis in choice.axes}
            choices.append(named)
            if named.keys() == written.keys():
                online_choices.append({axis.name for axis in choice.online_axes})
                if online == online_choices[-1]:
                    return _read(choice, named, written, schedule.simdgroups)
        if not online_choices:
            raise CannotFuse(_other_axes(choices, written.keys()))
        raise CannotFuse(_other_places([*written], online, online_choices))

    @property
    def written(self) -> WrittenSchedule:
        """The schedule as `graph.kernel` has it."""
        axes = (*self.output_axes, *self.reduced_axes)
        lines = [AxisSchedule(a.name, self._place(a), self.lanes.get(a, 1), a.size) for a in axes]
        return WrittenSchedule(tuple(lines), self.simdgroups)

    def with_blocks(self, lanes: Mapping[Axis, int], simdgroups: int) -> KernelSchedule:
        """The same with other blocks along some axes, for some simdgroups."""
        return KernelSchedule(self.elements, {**self.lanes, **lanes}, self.kept, simdgroups)

    def _place(self, axis: Axis) -> Place:
        if axis in self.elements.online_axes:
            return Place.ONLINE
        divided = axis in self.output_axes and axis not in self.kept
        return Place.PROGRAMS if divided else Place.LOOP

    @property
    def reduced_axes(self) -> list[Axis]:
        """The axes that no output has."""
        outer = {*self.elements.output_axes}
        return [axis for axis in self.lanes if axis not in outer and axis.size > 1]

    def blocks(self, axis: Axis) -> int:
        """The number of blocks along an axis."""
        return -(-axis.size // self.lanes.get(axis, 1))

    def is_looped(self, axis: Axis) -> bool:
        """Whether a program goes over an axis block by block."""
        is_divided = axis in self.output_axes and axis not in self.kept
        return not is_divided and self.blocks(axis) > 1

    def lanes_along(self, axes: Iterable[Axis]) -> int:
        """How many elements a tile has that differs along some axes."""
        return prod([self.lanes.get(axis, 1) for axis in axes])

    @property
    def programs(self) -> int:
        """The number of programs."""
        return prod(
            [self.blocks(axis) for axis in self.elements.output_axes if axis not in self.kept]
        )

    def evaluations(self, axes: Collection[Axis]) -> int:
        """How many elements all programs compute of a value that differs along some axes.

        An element counts once for each program that computes it.
        """
        others = [a for a in self.elements.output_axes if a not in self.kept and a not in axes]
        return axes_size(axes) * prod([self.blocks(axis) for axis in others])

    # What a program can do.

    def _check(self) -> None:
        """Refuse a schedule that no program can follow."""
        elements = self.elements
        self._check_products()
        aggregated = {axis for e in elements.aggregates.values() for axis in e.over}
        for axis in self.output_axes:
            if axis in aggregated and axis not in self.kept:
                raise CannotFuse(
                    f"{axis}: it is reduced or scanned, so every program loops over all of it"
                )
            if axis in aggregated and elements.products and self.blocks(axis) > 1:
                raise CannotFuse(f"{axis}: rows of {axis.size} products do not fit a program")
        self._check_sum_orders()
        self._loops()
        if sum(n > 1 for n in self.lanes.values()) > MAX_TILE_DIMENSIONS:
            for axes, _ in elements.tiles:
                self._check_dimensions(axes)

    def _check_products(self) -> None:
        """Refuse to compute a product for each block along an axis that it does not have."""
        for ref in self.elements.products_of_online_sums:
            for axis in self.output_axes:
                if axis not in self.elements.dependencies[ref] and self.blocks(axis) > 1:
                    raise CannotFuse(
                        f"{axis.name}: a matrix product would be recomputed for each block of "
                        f"{self.lanes.get(axis, 1)}; give it a block of all {axis.size} elements"
                    )

    def _check_sum_orders(self) -> None:
        """Refuse to sum one tensor in two orders, which could round differently."""
        orders: dict[Value, tuple[IndexExpr, ...]] = {}
        for ref, expr in self.elements.aggregates.items():
            if expr.is_rounded and orders.setdefault(ref.value, ref.indices) != ref.indices:
                raise CannotFuse(SUM_ORDERS_DIFFER)

    def _check_dimensions(self, axes: Collection[Axis]) -> None:
        dimensions = tile_dimensions(self.lanes, axes)
        if len(dimensions) > MAX_TILE_DIMENSIONS:
            names = ", ".join(axis.name for axis in dimensions)
            raise CannotFuse(
                f"{names}: one tile would have all of these as dimensions, and it has at most "
                f"{MAX_TILE_DIMENSIONS}; give one of them blocks of 1"
            )

    def _loops(self) -> list[Axis]:
        """The output axes that a program goes over in blocks, the outermost first.

        A scan in blocks carries what it came to so far, so loops over the other axes of its result
        are outside.
        """
        left = [axis for axis in self.output_axes if axis in self.kept and self.blocks(axis) > 1]
        if len(left) < 2:
            return left
        outside = {axis: self._other_axes_of_scans(axis) for axis in left}
        loops = []
        while left:
            first = next((a for a in left if not outside[a] & {*left}), None)
            if first is None:
                raise CannotFuse(
                    f"{', '.join(axis.name for axis in left)}: a scan along one of these needs all "
                    "blocks of another at once; give one of them a block of all its elements"
                )
            left.remove(first)
            loops.append(first)
        return loops

    def _other_axes_of_scans(self, axis: Axis) -> set[Axis]:
        """The axes besides it of the results of scans along an axis."""
        elements = self.elements
        scans = [
            r for r, e in elements.aggregates.items() if isinstance(e, ScanExpr) and axis in e.over
        ]
        return set[Axis]().union(*(elements.dependencies[r] for r in scans)) - {axis}

    # The plan.

    def plan(self) -> Plan:
        if not self.elements.outputs:
            return Plan(self.elements, self.elements.output_axes)
        replacements: dict[Axis, IndexExpr] = {}
        lanes: dict[Axis, int] = {}
        ends: dict[Axis, Within] = {}
        blocks: dict[Axis, AxisBlock] = {}
        programs: list[Axis] = []
        loops: dict[Axis, Axis] = {}
        for axis in (*self.output_axes, *self.reduced_axes):
            count = self.lanes.get(axis, 1)
            scalar, lane = axis, axis
            if 1 < count < axis.size:
                scalar = Axis(axis.name, -(-axis.size // count))
                lane = Axis(f"{axis.name}i", count)
                blocks[scalar] = AxisBlock(count, axis.size)
                replacements[axis] = IndexExpr.of(scalar) * count + IndexExpr.of(lane)
            if count > 1:
                lanes[lane] = count
                if axis.size % count:
                    ends[lane] = Within(replacements.get(axis) or IndexExpr.of(axis), 0, axis.size)
            if count < axis.size and axis in self.output_axes:
                if axis in self.kept:
                    loops[axis] = scalar
                else:
                    programs.append(scalar)
        elements = self.elements.substituted(replacements) if replacements else self.elements
        nest = tuple([loops[axis] for axis in self._loops()])
        return Plan(elements, tuple(programs), nest, lanes, ends, blocks)


def axes_size(axes: Iterable[Axis]) -> int:
    return prod(axis.size for axis in axes)


def tile_dimensions(lanes: Mapping[Axis, int], axes: Collection[Axis]) -> list[Axis]:
    """The dimensions of a tile that differs along some axes."""
    return [axis for axis in lanes if axis in axes and lanes[axis] > 1]


def _read(
    elements: ElementGraph,
    axes: Mapping[str, Axis],
    written: Mapping[str, AxisSchedule],
    simdgroups: int,
) -> KernelSchedule:
    outer = {*elements.output_axes}
    lanes: dict[Axis, int] = {}
    kept = []
    for name, schedule in written.items():
        axis = axes[name]
        if axis.size != schedule.size:
            raise CannotFuse(f"{name}: it has {axis.size} elements, not {schedule.size}")
        if schedule.place is not Place.PROGRAMS:
            kept.append(axis)
        elif axis not in outer:
            raise CannotFuse(
                f"{name}: no output has this axis, so every program loops over all of it"
            )
        lanes[axis] = schedule.lanes
    return KernelSchedule(elements, lanes, [axis for axis in kept if axis in outer], simdgroups)


def _other_axes(choices: Sequence[Mapping[str, Axis]], written: Collection[str]) -> str:
    """Say which axes a kernel has, and which of them a schedule leaves out or makes up."""
    known = {name for choice in choices for name in choice}
    unknown = [name for name in written if name not in known]
    lists = [
        ", ".join(f"{axis} of {axis.size}" for axis in choice.values()) or "none"
        for choice in choices
    ]
    there = f"its axes are {', or '.join(lists)}"
    if unknown:
        return f"{unknown[0]}: there is no such axis; {there}"
    missing = [name for name in choices[0] if name not in written]
    if missing:
        return f"{missing[0]}: the schedule does not say how to go over it; {there}"
    return f"{', '.join(written)}: these are not all axes, or too many; {there}"


def _other_places(
    written: Sequence[str], online: Collection[str], choices: Sequence[Collection[str]]
) -> str:
    """Name the axis whose place is wrong: `choices` are the sets of axes that can be online."""
    can_be = set[str]().union(*choices)
    for name in written:
        if name in online and name not in can_be:
            return f"{name}: no sum depends on a maximum or a mean along it; make it a loop"
    nearest = min(choices, key=lambda names: len({*names} ^ {*online}))
    name = next(name for name in written if (name in nearest) is not (name in online))
    place = Place.ONLINE if name in nearest else Place.LOOP
    return f"{name}: a sum is online over all axes of its maximum or mean; make it {place.value}"
