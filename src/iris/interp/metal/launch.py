"""What the programs of a launch share, and the state of those that run at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError
from iris.interp.metal.barriers import Barriers
from iris.interp.metal.counters import Counters
from iris.interp.metal.memory import Arena, Device, Memory, Shared, memory_dtype, share_shadows
from iris.interp.metal.numbering import Grid, Numbering
from iris.interp.metal.order import Clock, Order, OrderedShadow
from iris.interp.metal.reports import Reports
from iris.interp.metal.rules import Step, observed, steps_of
from iris.interp.metal.shadow import Shadow
from iris.interp.observer import Observer
from iris.ir import scalar
from iris.ir.control import For, Func
from iris.ir.core import Op, Region, Value
from iris.ir.effects import effects_within, writes
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.ir.metal import SIMDGROUP_WIDTH, Alloc, Foreach, View
from iris.ir.types import ElementType, Ptr, Threadgroup
from iris.ir.waiting import waiting_loops

Array = npt.NDArray[Any]


class Launch:
    """What all programs of a launch share."""

    def __init__(
        self,
        function: Func,
        grid: Grid,
        arguments: Sequence[Any],
        counters: Counters | None,
        seed: int | None,
        *,
        ordered: bool = False,
        implied_barriers: bool = False,
        implied_waits: bool = False,
        observer: Observer | None = None,
    ):
        """`ordered`: programs run one at a time, by turns, and what they do is in the order that
        atomic ops and fences make.  `implied_barriers`: a program passes a barrier before each
        access.  `implied_waits`: it waits for copies."""
        if not function.simdgroups:
            raise ArgumentError(
                f"{function.symbol} does not say how many simdgroups run it; choose a number, as "
                f"in `func metal @{function.symbol} simdgroups=4(...)`"
            )
        self.function = function
        self.numbering = Numbering(grid, function.simdgroups * SIMDGROUP_WIDTH)
        self.counters = counters
        self.observer = observer
        self.implied_barriers = implied_barriers
        self.implied_waits = implied_waits
        self.chance = None if seed is None else np.random.default_rng(seed)
        self.reports = Reports(self.numbering)
        self.together: dict[Op, bool] = {}  # whether a loop's rounds can run all at once
        self._plans: dict[Region, list[Step]] = {}
        for op in function.walk():
            _check_memory_results(op)
        self.waiting = frozenset(waiting_loops(function)) if ordered else frozenset()
        self.order = Order(self.numbering) if ordered else None
        self.arguments = self._bind(arguments)

    def _bind(self, arguments: Sequence[Any]) -> list[Any]:
        parameters = self.function.body.arguments
        if len(arguments) != len(parameters):
            raise ArgumentError(
                f"{self.function.symbol} takes {len(parameters)} arguments, not {len(arguments)}"
            )
        bound = [_bind(v, x) for v, x in zip(parameters, arguments, strict=True)]
        arrays = {v: x for v, x in zip(parameters, bound, strict=True) if isinstance(x, Device)}
        touched = set(writes(effects_within(self.function)))
        written = [array for value, array in arrays.items() if value in touched]
        for array in written:
            if not array.array.flags.writeable:
                raise ArgumentError(f"{array.name} is written, but its array is read-only")
        every = (1 << self.numbering.stamp_bits) - 1
        programs = every ^ ((1 << self.numbering.thread_bits) - 1)
        kind = Shadow if self.order is None else OrderedShadow
        share_shadows(list(arrays.values()), written, lambda n: kind(n, programs, every, programs))
        self.stored = [array.array for array in written]
        return bound

    def largest_value(self) -> int:
        """The bytes that the largest value of one program takes, or its threadgroup memory with
        what is noted about it."""
        largest = 1
        for op in self.function.walk():
            for value in op.results:
                type_ = value.type
                if isinstance(type_, ElementType):
                    rounds = 1
                    around = op.parent_op
                    while around is not None:
                        if isinstance(around, Foreach):
                            rounds *= around.count
                        around = around.parent_op
                    size = prod(type_.shape) * scalar.storage(type_.element).itemsize
                    largest = max(largest, rounds * size * self.numbering.threads)
                elif isinstance(type_, Threadgroup):
                    largest = max(largest, 4 * type_.bytes)
        return largest

    def programs_at_a_time(self, room: int) -> int:
        """As many as that their largest values take so many bytes; but one where programs might
        go on with different memories, after different numbers of rounds."""
        if any(
            isinstance(op, For) and isinstance(v.type, Threadgroup) and v.users
            for op in self.function.walk()
            for v in op.results
        ):
            return 1
        return max(1, room // self.largest_value())

    def plan(self, region: Region) -> list[Step]:
        steps = self._plans.get(region)
        if steps is None:
            steps = steps_of(region, self.counters is not None)
            if self.observer is not None:
                steps = [observed(step, self.observer) for step in steps]
            self._plans[region] = steps
        return steps


class Chunk:
    """Programs that run at a time, their threadgroup memory, and the barriers they passed."""

    asked: tuple[Op, Memory, int]  # which element was asked for last

    def __init__(self, launch: Launch, start: int, end: int):
        self.launch = launch
        self.start = start
        self.size = end - start
        clock = None if launch.order is None else Clock(launch.order, start)
        self.barriers = Barriers(launch.numbering, self.size, clock)
        self.arenas: dict[Op, Arena] = {}
        self.begun: list[Any] = []  # copies that threads have not waited for; see `begun`

    def allocate(self, op: Op, rows: Array, threads: Array) -> Shared:
        """The memory of an allocation, which for the programs of some rows is made now."""
        launch, numbering = self.launch, self.launch.numbering
        type_ = op.result.type_as(Threadgroup)
        arena = self.arenas.get(op)
        if arena is None:
            every = (1 << numbering.thread_bits) - 1
            bits = (every & -SIMDGROUP_WIDTH, every)
            groups = numbering.threads // SIMDGROUP_WIDTH
            arena = Arena(type_.bytes, _unit(op.result), self.size, groups, bits)
            self.arenas[op] = arena
        # Where simdgroups go by turns, others may have made it before and written to it, though
        # not before the last barrier.
        by_turns = launch.chance is not None
        passed = self.barriers.threadgroup_since
        since = passed[rows] if by_turns else np.full(len(rows), numbering.now())
        made_by = threads[::SIMDGROUP_WIDTH] // SIMDGROUP_WIDTH
        arena.fresh_since[np.ix_(rows, made_by)] = since[:, None]
        return Shared(op.result.name or "threadgroup memory", type_, arena, 0)


def _check_memory_results(op: Op) -> None:
    for value in op.results:
        if isinstance(value.type, Ptr):
            raise op.invalid("a pointer can only be an argument of the function")
        if isinstance(value.type, Threadgroup) and not isinstance(op, Alloc | View | For):
            raise op.invalid(
                "threadgroup memory is only what an allocation, a view or a for loop gives"
            )


def _bind(parameter: Value, argument: Any) -> Any:
    """An argument as a value."""
    name, type_ = parameter.name or f"argument {parameter.index}", parameter.type
    if isinstance(type_, Ptr):
        wanted = memory_dtype(type_.element)
        if not isinstance(argument, np.ndarray) or argument.dtype != wanted:
            have = getattr(argument, "dtype", type(argument).__name__)
            raise ArgumentError(f"{name} must be an array of {wanted}, not {have}")
        return Device(name, type_, argument)
    element, shape = type_.element, element_type(type_).shape
    if shape:
        return np.broadcast_to(np.asarray(argument, scalar.storage(element)), shape)[None, None]
    number = argument.item() if isinstance(argument, np.generic) else argument
    try:
        return scalar.from_bits(element, np.array([[encode(number, element)]], np.uint64))
    except OverflowError as error:
        raise ArgumentError(f"{name}: {error}") from None


def _unit(allocation: Value) -> int:
    """The bytes of an allocation that are always accessed together, if at all."""
    unit = allocation.type.element.bytes
    for user in allocation.users:
        if isinstance(user, View):
            unit = gcd(unit, _unit(user.result))  # of which its start is a multiple
    return unit
