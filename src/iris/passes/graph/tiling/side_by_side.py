"""Choose which kernels run side by side in one launch.

A launch takes time of its own, so kernels that need nothing of each other share one.  But all its
programs have as many simdgroups and registers as the kernel that needs the most, so of the others a
core may hold fewer programs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce

from iris.cost.occupancy import simdgroups_per_core
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import u32
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_cost import BYTES_ON_THE_WAY, costs_of_launch
from iris.passes.graph.tiling.kernel_regions import Candidate
from iris.passes.graph.tiling.kernel_registers import PART, words_alive
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.materialization import max_arrays
from iris.passes.graph.tiling.refine_schedule import usual_simdgroups
from iris.passes.tile.layouts.choose_simdgroups import most_simdgroups
from iris.targets import Target


@dataclass(frozen=True)
class Needs:
    """What each program of a kernel, or of several side by side, needs."""

    simdgroups: int
    most_simdgroups: int  # more would compute parts of a matrix product twice
    words: int  # in the registers of all its threads

    @property
    def registers(self) -> int:
        """Of 32 bits, of a thread."""
        return int(self.words / self.simdgroups / SIMDGROUP_WIDTH / PART)

    def joined(self, other: Needs) -> Needs:
        """What programs of both kinds need, side by side."""
        most = min(self.most_simdgroups, other.most_simdgroups)
        simdgroups = min(max(self.simdgroups, other.simdgroups), most)
        return Needs(simdgroups, most, max(self.words, other.words))

    def programs_of_core(self, target: Target) -> int:
        """How many of the programs a core holds at once."""
        held = simdgroups_per_core(0, self.simdgroups, target, self.registers)
        return held // self.simdgroups


@dataclass(frozen=True, eq=False)
class Lowered:
    """A kernel, and the Tile IR of its programs by a schedule."""

    kernel: Candidate
    schedule: KernelSchedule
    program: Func
    target: Target

    @cached_property
    def needs(self) -> Needs:
        usual = usual_simdgroups(self.schedule, self.target)
        words = words_alive(self.schedule, self.target) * usual * SIMDGROUP_WIDTH
        return Needs(
            self.schedule.simdgroups or usual, most_simdgroups(self.program, self.target), words
        )


class SideBySide:
    """Kernels of one launch."""

    def __init__(self, lowered: Sequence[Lowered], target: Target):
        self.lowered = lowered
        self.target = target

    def schedule(self) -> None:
        """Write into the schedules how many simdgroups run the programs, of all as many."""
        for kernel in self.kernels:
            kernel.reschedule(kernel.schedule.with_blocks({}, self.needs.simdgroups))

    @property
    def kernels(self) -> list[Candidate]:
        return [own.kernel for own in self.lowered]

    @cached_property
    def arrays(self) -> frozenset[Value]:
        """The tensors to bind."""
        return frozenset(v for k in self.kernels for v in (*k.inputs, *k.outputs))

    def writes_for(self, other: SideBySide) -> bool:
        """Whether the other one reads what this one writes."""
        return any(v in other.arrays for kernel in self.kernels for v in kernel.outputs)

    @cached_property
    def needs(self) -> Needs:
        return reduce(Needs.joined, [own.needs for own in self.lowered])

    @cached_property
    def microseconds(self) -> float:
        """What the launch takes, if the kernels run one after the other.

        Of each kernel a core needs programs that have enough bytes on their way.  It takes longer
        if the core holds fewer than these, and than of the kernel alone."""
        shared = self.needs.programs_of_core(self.target)
        time = self.target.dispatch_microseconds
        costs = costs_of_launch((k.cost, k.schedule.elements) for k in self.kernels)
        for own, cost in zip(self.lowered, costs, strict=True):
            of_core = -(-cost.programs // self.target.cores)
            enough = -(-BYTES_ON_THE_WAY // max(1, cost.tile_bytes))
            alone = min(of_core, enough, own.needs.programs_of_core(self.target))
            time += cost.running_microseconds * max(1, alone / shared)
        return time

    def joined(self, other: SideBySide) -> SideBySide:
        """One launch instead of two; raises `CannotFuse` if there is none, or it costs more."""
        arrays, most = len(self.arrays | other.arrays), max_arrays(self.target)
        if arrays > most:
            raise CannotFuse(f"a kernel takes {most} arrays, not {arrays}")
        both = SideBySide([*self.lowered, *other.lowered], self.target)
        registers = both.needs.registers
        if registers > self.target.thread_registers:
            raise CannotFuse(
                f"a thread would need {registers} registers, as {both.needs.simdgroups} simdgroups "
                "would run each program: more compute parts of a matrix product twice"
            )
        programs = sum([kernel.cost.programs for kernel in both.kernels])
        if programs * self.target.max_threads > u32.high:
            raise CannotFuse(f"one launch has no numbers for {programs} programs")
        apart, together = self.microseconds + other.microseconds, both.microseconds
        if together >= apart:
            raise CannotFuse(f"side by side they would take {together:.1f} us, not {apart:.1f}")
        return both


def side_by_side(launches: Iterable[SideBySide]) -> list[SideBySide]:
    """Join launches that come one after the other, each with the first that it may be joined to:
    one after all those that it reads from."""
    joined: list[SideBySide] = []
    place: dict[Value, int] = {}  # by what is written
    for launch in launches:
        read = [place[v] for v in launch.arrays if v in place]
        at = _join(launch, joined, 1 + max(read, default=-1))
        place.update(dict.fromkeys([v for k in launch.kernels for v in k.outputs], at))
    return joined


def _join(launch: SideBySide, joined: list[SideBySide], first: int) -> int:
    """Join a launch to one of those from the `first` on, or add it; say which it is."""
    for at in range(first, len(joined)):
        with suppress(CannotFuse):
            joined[at] = joined[at].joined(launch)
            return at
    joined.append(launch)
    return len(joined) - 1
