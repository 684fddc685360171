"""Cost a schedule: a launch, bytes, and arithmetic, recomputation included."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from math import fsum, prod
from typing import NamedTuple, TypeAlias

from iris.cost.occupancy import busy
from iris.ir.core import Op, Value
from iris.ir.facts import Facts, facts
from iris.ir.math import element_type
from iris.passes.graph.tiling.element_exprs import Aggregate, Contraction, LoadExpr, Pointwise
from iris.passes.graph.tiling.element_graph import ElementGraph, OutputStore
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.index_expr import Axis
from iris.passes.graph.tiling.kernel_registers import spilled
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule, axes_size
from iris.passes.tile.layouts.choose_simdgroups import simdgroups_for
from iris.targets import Core, Target

# The elements that several loops of a program compute, and how many do.
_Loops: TypeAlias = tuple[tuple[ElementRef, int], ...]

# How many bytes must be on their way to or from a core at once to keep its share of the caches
# busy: what that moves in a cycle, times the 300 cycles or so that a load takes.
BYTES_ON_THE_WAY = 16 << 10
# How many programs a core should have, so that some compute while others wait.
PROGRAMS_PER_CORE = 4


@dataclass(frozen=True)
class Cost:
    """What a kernel costs on a target."""

    target: Target
    bytes: int  # through device memory, each element once
    traffic: int  # bytes that programs load and store
    reloaded: int  # of these, what programs load again in a later loop
    flops: int  # results of arithmetic
    # The same in terms of the time of fused multiply-adds, with what the index chooses elements by.
    operations: float
    programs: int
    in_turn: float  # additions to one line of the second cache, which makes one in a cycle at most
    tile_bytes: int  # that a program loads and stores at once
    simdgroups: int  # of a program
    spilled: int  # values that a thread holds and its registers do not

    def among(self, programs: int) -> Cost:
        """The cost of the same work, divided among some programs."""
        return replace(self, programs=programs)

    def without(self, cached: int) -> Cost:
        """The cost of the same work, if a cache has some of the bytes."""
        return replace(self, bytes=self.bytes - cached)

    @cached_property
    def microseconds(self) -> float:
        return self.target.dispatch_microseconds + self.running_microseconds

    @property
    def fills_cores(self) -> bool:
        """Whether more programs would keep no core busier."""
        enough = self.programs >= PROGRAMS_PER_CORE * self.target.cores
        return enough and not self.waiting_microseconds

    @cached_property
    def waiting_microseconds(self) -> float:
        """How much longer it takes as too few simdgroups of a core hide that one waits: loads go on
        meanwhile."""
        return max(0, self._arithmetic / self._computing - self._busy_microseconds)

    @cached_property
    def _computing(self) -> float:
        """The part of the time in which a core that has programs computes: a simdgroup waits for
        each result, while others compute."""
        held = max(1, -(-self.programs // self.target.cores)) * self.simdgroups
        return busy(held, self.target) / self.target.core.saturating_simdgroups

    @cached_property
    def _arithmetic(self) -> float:
        """The microseconds of arithmetic, if its simdgroups keep a core busy."""
        cores = max(1, min(self.target.cores, self.programs))
        rate = self.target.clock * 1e3  # cycles in a microsecond
        return self.operations / (self.target.core.rates["alu"] * rate * cores)

    @cached_property
    def running_microseconds(self) -> float:
        """What it takes once it has started."""
        return self._busy_microseconds + self.waiting_microseconds

    @cached_property
    def _busy_microseconds(self) -> float:
        """The same with as many simdgroups as a core can use."""
        target, core = self.target, self.target.core
        rate = target.clock * 1e3  # cycles in a microsecond
        share = min(1, self.tile_bytes / BYTES_ON_THE_WAY)  # of a core
        loading = min(target.cores, max(1, self.programs) * share) or 1
        memory = self.bytes / (target.bandwidth * 1e3)
        caches = core.l2_bytes * rate * loading
        # Programs that start together wait for memory together, and load again after that.
        together = max((self.traffic - self.reloaded) / caches, self.in_turn / rate)
        loads = max(memory, together) + self.reloaded / caches
        return loads + self._arithmetic


class _Work:
    """Loads and arithmetic of the elements along the same axes."""

    def __init__(self) -> None:
        self.loaded = 0  # bytes
        self.computed: Counter[type[Op]] = Counter()
        self.flops = 0  # of the function's own ops


@lru_cache(maxsize=16)  # of the few kernels whose schedules are compared at a time
def work_of(elements: ElementGraph, loops: _Loops) -> dict[tuple[frozenset[Axis], int], _Work]:
    """The work of a kernel beside aggregates, by the axes along which it differs and by how many
    loops do it: most elements differ along the same few sets of axes."""
    work: defaultdict[tuple[frozenset[Axis], int], _Work] = defaultdict(_Work)
    times = dict(loops)
    both = zip(elements.exprs.items(), elements.dependencies.values(), strict=True)
    for (ref, expr), axes in both:
        if isinstance(expr, LoadExpr):
            work[axes, times.get(ref, 1)].loaded += _bytes(ref)
        elif expr.ops:
            own = work[axes, times.get(ref, 1)]
            own.computed.update(expr.ops)
            own.flops += isinstance(expr, Pointwise)
    return work


@lru_cache(maxsize=16)  # of the few schedules that are compared at a time
def cost_of(schedule: KernelSchedule, target: Target) -> Cost:
    """What a kernel with this schedule costs on a target."""
    elements = schedule.elements
    traffic, reloaded, tile_bytes, flops = 0, 0, 0, 0
    computed: Counter[type[Op]] = Counter()
    loops = loops_of(schedule)
    simdgroups = _simdgroups(schedule, target)
    # Of what is reduced, the threads have parts.
    threads = 1 if elements.aggregates else simdgroups * target.simdgroup_width
    for (axes, times), work in work_of(elements, tuple(loops.items())).items():
        count = schedule.evaluations(axes)
        traffic += times * count * work.loaded
        reloaded += (times - 1) * count * work.loaded
        tile_bytes += schedule.lanes_along(axes) * work.loaded
        flops += times * count * work.flops
        # Where a tile has fewer elements than there are threads, several threads compute each.
        repeated = times * count * max(1, threads // schedule.lanes_along(axes))
        for op, ops in work.computed.items():
            computed[op] += repeated * ops
    weights = _weights(target.core)
    # Work of equal parts costs the same, whatever their order.
    operations = fsum([n * weights[op] for op, n in computed.items()])
    for ref, expr in elements.aggregates.items():
        inner = frozenset(expr.over).union(*[elements.dependencies[r] for r in expr.operands])
        count = loops.get(ref, 1) * schedule.evaluations(inner)
        operations += count * expr.operations
        flops += count * (2 if isinstance(expr, Contraction) else expr.operations)
    for output in elements.outputs:
        tile_bytes += schedule.lanes_along(elements.output_axes) * _bytes(output.ref)
    stores = _stores(schedule, target)
    operations += stores.collected * target.core.rates["alu"] / target.core.l1_bytes
    return Cost(
        target,
        moved_bytes(elements),
        traffic + stores.traffic,
        reloaded,
        flops,
        operations,
        schedule.programs,
        stores.in_turn,
        tile_bytes,
        simdgroups,
        spilled(schedule, target),
    )


def _simdgroups(schedule: KernelSchedule, target: Target) -> int:
    """How many simdgroups run a program: as many as its outputs keep busy.

    One that reduces is taken to fill a core.  More programs of smaller tiles would not help it, as
    its simdgroups combine what each of them reduced.
    """
    elements = schedule.elements
    if elements.aggregates:
        return target.core.saturating_simdgroups
    widest = max(elements.bytes, default=1)
    return simdgroups_for(schedule.lanes_along(elements.output_axes) * max(4, widest), target)


@lru_cache(maxsize=16)  # of the few kernels whose schedules are compared at a time
def moved_bytes(elements: ElementGraph) -> int:
    """The bytes that a kernel moves through memory, if it loads each element once."""
    return sum(_read_bytes(elements).values()) + _stored(elements)


@lru_cache(maxsize=16)  # of the few kernels that may share a launch
def _read_bytes(elements: ElementGraph) -> Mapping[Value, int]:
    """How many bytes of each tensor a kernel reads, each element once."""
    read: Counter[Value] = Counter()
    for ref, expr in elements.loads.items():
        read[expr.value] += axes_size(elements.dependencies[ref]) * _bytes(ref)
    return {value: min(tensor_bytes(value), size) for value, size in read.items()}


def costs_of_launch(alone: Iterable[tuple[Cost, ElementGraph]]) -> list[Cost]:
    """What each of some kernels costs that one launch runs; of each its cost alone is given.

    What one of them has read is in the cache, if the cache keeps all that the launch moves."""
    own, elements = zip(*alone, strict=True)
    costs: list[Cost] = list(own)
    again = _bytes_again(elements)
    if sum([cost.bytes for cost in costs]) - sum(again) > costs[0].target.cache_bytes:
        return costs
    return [cost.without(cached) for cost, cached in zip(costs, again, strict=True)]


def _bytes_again(kernels: Sequence[ElementGraph]) -> list[int]:
    """How many bytes of tensors that each of some kernels reads whole one before it has read whole.

    Kernels that read parts of a tensor may read different ones.
    """
    if len(kernels) == 1:
        return [0]
    known: set[Value] = set()
    again = []
    for elements in kernels:
        read = _read_bytes(elements)
        whole = {value: size for value, size in read.items() if size == tensor_bytes(value)}
        again.append(sum([size for value, size in whole.items() if value in known]))
        known.update(whole)
    return again


def _stored(elements: ElementGraph) -> int:
    """The bytes that a kernel writes to memory, and of sums in place those that it reads."""
    return sum([_stored_bytes(o) for o in {o.ref.value: o for o in elements.outputs}.values()])


def _stored_bytes(output: OutputStore) -> int:
    stored = tensor_bytes(output.ref.value)
    if output.scatter is None:
        return stored
    return (1 + output.adds) * min(stored, tensor_bytes(output.scatter.x))


class _Stores(NamedTuple):
    """What it takes to store the outputs of a kernel, or to add to them."""

    traffic: int  # bytes in the second cache
    collected: int  # bytes in threadgroup memory
    in_turn: float  # see `Cost`


def _stores(schedule: KernelSchedule, target: Target) -> _Stores:
    """The cost of a kernel's outputs.

    An addition reads an element and writes it.  A program that collects sums clears its bins first,
    and adds each of them to memory at the end.  Indices are taken to be spread evenly.
    """
    traffic = collected = 0
    in_turn = 0.0
    for output in {o.ref.value: o for o in schedule.elements.outputs}.values():
        updates = tensor_bytes(output.ref.value)
        if output.scatter is None or not output.adds:
            traffic += updates
            continue
        bins = schedule.programs * output.bins * _bytes(output.ref)
        collected += 2 * (updates + bins) if bins else 0
        added = bins or updates
        traffic += 2 * added
        lines = -(-tensor_bytes(output.scatter.x) // target.line_bytes)
        in_turn += added / _bytes(output.ref) / max(1, lines)
    return _Stores(traffic, collected, in_turn)


@lru_cache(maxsize=16)  # of the few schedules that are compared at a time
def loops_of(schedule: KernelSchedule) -> Mapping[ElementRef, int]:
    """In how many loops of a program, one after the other, an element is computed.

    Only elements that are computed in several loops are listed.
    """
    elements = schedule.elements
    looped = {axis for axis in elements.axes if schedule.is_looped(axis)}
    aggregates = [r for r, e in elements.aggregates.items() if not looped.isdisjoint(e.over)]
    if len(aggregates) + (not looped.isdisjoint(elements.output_axes)) < 2:
        return {}
    depths: dict[ElementRef, int] = {}  # how many loops come before
    for ref, expr in elements.exprs.items():
        depths[ref] = max([depths[r] for r in expr.refs], default=0) + (ref in aggregates)
    users: dict[ElementRef, set[object]] = {ref: {None} for ref in elements.roots()}
    for ref, expr in reversed(elements.exprs.items()):
        loops = users.setdefault(ref, set())
        if isinstance(expr, Aggregate) and ref in aggregates:
            rescaling = expr.rescaling
            base = ref if rescaling is None else rescaling.base
            loops = {base if elements.is_online(ref) else (expr.over, depths[ref])}
        for operand in expr.refs:
            users.setdefault(operand, set()).update(loops)
    along = elements.dependencies
    return {r: len(n) for r, n in users.items() if len(n) > 1 and not looped.isdisjoint(along[r])}


class _Weights(dict[type[Op], float]):
    """How many multiply-adds take as long as an op; found when first asked for."""

    def __init__(self, core: Core):
        super().__init__()
        self._rates = core.rates

    def __missing__(self, op: type[Op]) -> float:
        op_facts: Facts = facts[op]
        rates = self._rates
        work = op_facts.work.items()
        weight = self[op] = sum(count * rates["alu"] / rates[unit] for unit, count in work)
        return weight


_weights = cache(_Weights)


def _bytes(ref: ElementRef) -> int:
    return ref.element.bytes


def tensor_bytes(value: Value) -> int:
    """The bytes of a whole tensor."""
    type_ = element_type(value.type)
    return prod(type_.shape) * type_.element.bytes
