"""Small changes of kernels that have schedules.

A schedule says which axes its kernel has, and how long they are.  So it is fitted to what an edit
leaves of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from iris.ir import Module, Op, graph
from iris.ir.axis_schedule import AxisSchedule, Place, WrittenSchedule
from iris.ir.control import Func, Return
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_axes import axis_choices
from iris.passes.graph.tiling.tile_program import elements_of
from iris.testing.edits import Edit, on_op


def of_yields(op: Op, position: int) -> Iterator[Edit]:
    """Yield what a value is made of, in its place."""
    if isinstance(op, graph.Kernel):
        for index, value in enumerate(op.written):
            for number in range(len(value.op.operands) if value.op is not None else 0):
                yield on_op(position, partial(_yield_operand, index=index, number=number))


def _yield_operand(op: Op, index: int, number: int) -> bool:
    assert isinstance(op, graph.Kernel)
    source = op.written[index].op
    assert source is not None, "only ops have operands"
    values = list(op.written)
    values[index] = source.operands[number]
    op.body.end.set_operands(tuple(values))
    op.results[index].type = values[index].type
    for user in op.results[index].users:
        if isinstance(user, Return) and isinstance(user.parent_op, Func):
            user.parent_op.set_returns(tuple([v.type for v in user.operands]))
    return True


def fit_schedules(module: Module) -> None:
    """Give each schedule of a valid module the axes that its kernel has."""
    for op in module.walk():
        if isinstance(op, graph.Kernel) and op.schedule is not None:
            try:
                alternatives = list(axis_choices(elements_of(op)))
            except CannotFuse:
                continue
            op.set_attribute("schedule", _fitted(op.schedule, alternatives))


def _fitted(schedule: WrittenSchedule, alternatives: list[ElementGraph]) -> WrittenSchedule:
    written = {(axis.axis, axis.size) for axis in schedule.axes}
    if any(written == {(axis.name, axis.size) for axis in e.axes} for e in alternatives):
        return schedule
    known = {axis.axis: axis for axis in schedule.axes}
    # Axes of loops that rescale come last.
    elements = alternatives[-1]
    axes = []
    for axis in elements.axes:
        before = known.get(axis.name, AxisSchedule(axis.name, Place.LOOP, 1, axis.size))
        place = Place.LOOP if before.place is Place.ONLINE else before.place
        lanes = min(before.lanes, 1 << (axis.size - 1).bit_length())
        is_online = axis in elements.online_axes
        axes.append(AxisSchedule(axis.name, Place.ONLINE if is_online else place, lanes, axis.size))
    return replace(schedule, axes=tuple(axes))
