"""Where a thread is: in the grid, in its threadgroup, in its simdgroup."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import ParamSpec, TypeVar

from iris.errors import LanguageError
from iris.frontend.specs import Threads
from iris.frontend.threads.words import word
from iris.frontend.tracing import current, error_here
from iris.frontend.values import Traced, constant, emit, natural
from iris.ir import metal
from iris.ir.types import i32

Position = TypeVar("Position", Traced, int)
Axes = ParamSpec("Axes")


def threads_here() -> Threads:
    """The threads of the kernel that is traced."""
    threads = current().threads
    if threads is None:
        raise error_here(
            LanguageError,
            "a tile program says what all its threads do together; what one thread does is for "
            "functions decorated with @iris.metal.kernel",
        )
    return threads


def at_start(position: Callable[Axes, Traced]) -> Callable[Axes, Traced]:
    """Make a function of positions compute its value once, at the start of the kernel."""

    @functools.wraps(position)
    def known(*axes: Axes.args, **named: Axes.kwargs) -> Traced:
        threads_here()
        make = functools.partial(position, *axes, **named)
        return natural(current().once((position, *axes, *named.items()), make))

    return known


@word
@at_start
def lane_id() -> Traced:
    """The number of the thread in its simdgroup, 0 to 31."""
    return emit(metal.Lane())


@word
@at_start
def simdgroup_id() -> Traced:
    """The number of the simdgroup in its threadgroup."""
    if threads_here().simdgroups == 1:
        return constant(0, i32)
    return emit(metal.Simdgroup())


@word
@at_start
def thread_in_threadgroup() -> Traced:
    """The number of the thread in its threadgroup: along x first, then y, then z."""
    if threads_here().simdgroups == 1:
        return lane_id()
    return simdgroup_id() * metal.SIMDGROUP_WIDTH + lane_id()


@at_start
def _thread_in_threadgroup(axis: int) -> Traced:
    """The index of the thread in its threadgroup."""
    size = threads_here().size
    if size[axis] == 1:
        return constant(0, i32)
    before, number = prod(size[:axis]), thread_in_threadgroup()
    if before > 1:
        number = number // before
    # What is beyond the last thread runs nothing.
    return number if prod(size[axis + 1 :]) == 1 else number % size[axis]


@at_start
def thread_id(axis: int) -> Traced:
    """The index of the thread in the grid."""
    start = _threadgroup_id(axis) * threads_here().size[axis]
    return start + _thread_in_threadgroup(axis)


@at_start
def _threadgroup_id(axis: int) -> Traced:
    """The index of the threadgroup in the grid."""
    return emit(metal.ThreadgroupId(axis))


@at_start
def _num_threadgroups(axis: int) -> Traced:
    """How many threadgroups there are."""
    return emit(metal.NumThreadgroups(axis))


@at_start
def _grid_size(axis: int) -> Traced:
    """How many threads there are."""
    size = threads_here().size[axis]
    known = current().counts.get(axis)
    return _num_threadgroups(axis) * size if known is None else Traced(known)


def _threadgroup_size(axis: int) -> int:
    """How many threads a threadgroup has: a number that is known while tracing."""
    return threads_here().size[axis]


def _along_axes(of: Callable[[int], Position]) -> list[Callable[[], Position]]:
    """The three words of a position, `_x`, `_y` and `_z`."""

    def along(axis: int) -> Callable[[], Position]:
        def position() -> Position:
            return of(axis)

        position.__name__ = f"{of.__name__.removeprefix('_')}_{'xyz'[axis]}"
        position.__doc__ = (of.__doc__ or "").replace(".", f", along {'xyz'[axis]}.")
        return word(position)

    return [along(axis) for axis in range(3)]


thread_id_x, thread_id_y, thread_id_z = _along_axes(thread_id)
thread_in_threadgroup_x, thread_in_threadgroup_y, thread_in_threadgroup_z = _along_axes(
    _thread_in_threadgroup
)
threadgroup_id_x, threadgroup_id_y, threadgroup_id_z = _along_axes(_threadgroup_id)
num_threadgroups_x, num_threadgroups_y, num_threadgroups_z = _along_axes(_num_threadgroups)
grid_size_x, grid_size_y, grid_size_z = _along_axes(_grid_size)
threadgroup_size_x, threadgroup_size_y, threadgroup_size_z = _along_axes(_threadgroup_size)
