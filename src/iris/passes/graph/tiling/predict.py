"""Predict what a kernel of matrix products costs, before it is lowered.

What a program does is counted from the schedule.  From there on the cost model is that of lowered
kernels (`cost/estimate`), so both know of the same limits: registers and threadgroup memory, which
decide how many programs a core holds, and what each part of a core can do in a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, prod
from typing import NamedTuple, TypeAlias

import numpy as np

from iris.cost.counts import Counts
from iris.cost.estimate import on_chip
from iris.cost.occupancy import (
    OTHER_REGISTERS,
    second_buffer_pays,
    simdgroups_per_core,
    usual_depth,
)
from iris.cost.sample import Sizes
from iris.cost.traffic import MOST_FOLLOWED, Access, Traffic
from iris.ir.core import Value
from iris.ir.facts import facts
from iris.ir.math import Fma
from iris.ir.metal import FRAGMENT_LANES, FRAGMENT_SIZE, SIMDGROUP_WIDTH, VECTOR, VECTOR_BYTES
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    Contraction,
    LoadExpr,
    ReduceExpr,
    SplatExpr,
)
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.emission_order import emission_order
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr, Quotient, Remainder
from iris.passes.graph.tiling.kernel_cost import loops_of, tensor_bytes, work_of
from iris.passes.graph.tiling.kernel_registers import at_aggregates, most_alive
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.masked_blocks import part_that_runs
from iris.passes.tile.layouts.fragments import Arrangement, divide
from iris.passes.tile.layouts.scalar_blocks import LANES, TERMS_AT_ONCE, neighbours
from iris.passes.tile.layouts.staged_layouts import PADDING_BYTES
from iris.targets import Target

# What a thread does beside products, counted in lowered kernels: operations of each iteration, and
# of each fragment that it loads.
ITERATION_OPERATIONS = 12
FRAGMENT_OPERATIONS = 1.75


IndexArray: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, order=True)
class Prediction:
    """What a launch takes, and what limits it; or what it lacks, if it takes forever.

    Of two that take as long, such as what memory needs, the one that keeps cores busy for less time
    is better.
    """

    microseconds: float
    busy: float  # cycles of a core
    reason: str = field(compare=False)

    @property
    def fits(self) -> bool:
        return self.microseconds < inf


def _without_room(reason: str) -> Prediction:
    return Prediction(inf, inf, reason)


@dataclass(frozen=True)
class _Dot:
    """A matrix product: the block that an iteration adds to, and how many iterations there are.

    Each simdgroup has whole rows of a product whose rows are then reduced.  Of products that are
    made with a maximum, it has the left operand in its registers, too.
    """

    rows: int
    columns: int
    depth: int
    iterations: int
    widths: tuple[int, int]  # bytes of an element of each operand
    in_rows: bool
    holds_left: bool
    loaded: int  # bytes that an iteration loads for the operands in threadgroup memory

    def among(self, simdgroups: int) -> Arrangement:
        return divide(self.rows, self.columns, simdgroups, in_rows=self.in_rows)

    def staged(self, padding: int) -> int:
        """Bytes of threadgroup memory for the operands, with some of padding in each row."""
        left, right = self.widths
        own = self.depth * (self.columns * right + padding)
        return own if self.holds_left else own + self.rows * (self.depth * left + padding)

    def passing(self, threads: int) -> int:
        """The registers of a thread through which the operands of an iteration go to threadgroup
        memory: in a loop, all that they are computed from is loaded before any is stored."""
        return -(-self.loaded // (4 * threads)) if self.iterations > 1 else 0

    def sides(self, among: Arrangement) -> tuple[int, int]:
        """The rows and columns of a simdgroup."""
        return self.rows // among.rows, self.columns // among.columns

    def count(self, counts: Counts, among: Arrangement, target: Target) -> int:
        """Count what all iterations do; give the registers that hold parts of the operands."""
        matrices = target.matrices[8 * max(self.widths)]
        count = self._count_fragments if matrices.multiplies else self._count_scalars
        return count(counts, among, target)

    def _count_fragments(self, counts: Counts, among: Arrangement, target: Target) -> int:
        height, width = self.sides(among)
        left, right = self.widths
        # To threadgroup memory and from there.
        moved = self.columns * right * (1 + among.rows)
        if not self.holds_left:
            moved += self.rows * left * (1 + among.columns)
        cycles = self.depth * moved // (target.banks * target.bank_bytes)
        sides = [n // FRAGMENT_SIZE for n in (height, width, self.depth)]
        products = target.matrices[8 * max(self.widths)].products(*sides)
        # What a simdgroup loads in a step of 8 terms.
        fragments = (width if self.holds_left else height + width) // FRAGMENT_SIZE
        operations = FRAGMENT_OPERATIONS * fragments * self.depth // FRAGMENT_SIZE
        counts.mmas += self.iterations * products * among.rows * among.columns
        self._count(counts, among, cycles, operations)
        return fragments * max(self.widths) // 2

    def _count_scalars(self, counts: Counts, among: Arrangement, target: Target) -> int:
        height, width = self.sides(among)
        (left, right), (down, across) = self.widths, LANES
        steps = self.depth // TERMS_AT_ONCE
        # An access takes a cycle: it brings some terms of a row, or neighbours of one term.
        group = neighbours(width, right)
        accesses = steps * (height // down + TERMS_AT_ONCE * width // (across * group))
        stored = self.depth * (self.rows * left + self.columns * right)
        cycles = accesses * among.rows * among.columns
        cycles += stored // (target.banks * target.bank_bytes)
        products = self.iterations * self.rows * self.columns * self.depth
        work = {unit: int(amount * products) for unit, amount in facts[Fma].work.items()}
        counts.work.update(work)
        counts.sums.update(work)
        counts.terms += self.iterations * self.depth * among.rows * among.columns
        self._count(counts, among, cycles, accesses)
        return TERMS_AT_ONCE * (height // down + width // across)

    def _count(self, counts: Counts, among: Arrangement, cycles: int, operations: float) -> None:
        """Count cycles of threadgroup memory, and what a thread does beside products, in each
        iteration."""
        threads = among.rows * among.columns * SIMDGROUP_WIDTH
        counts.shared.cycles += self.iterations * cycles
        counts.work["alu"] += int(self.iterations * threads * (ITERATION_OPERATIONS + operations))


class _Held(NamedTuple):
    """The values that a program holds in registers, apart from operands of products."""

    elements: int  # that are alive at once, in all threads
    vectors: int  # registers of a thread for values that it computes one vector at a time


@dataclass
class _Program:
    """What a program does, for any number of simdgroups, but for its products."""

    counts: Counts
    dots: list[_Dot]
    held: _Held
    rescaled: int  # elements of results that are multiplied in each iteration


def has_dots(schedule: KernelSchedule) -> bool:
    """Whether the matrix hardware computes the products of a kernel."""
    products = schedule.elements.products
    return bool(products) and all(_dot(schedule, product.ref, product.expr) for product in products)


def predicted(schedule: KernelSchedule, simdgroups: int, target: Target) -> Prediction:
    """What a kernel costs whose products are of matrices, if some simdgroups run a program."""
    program = _program(schedule, target)
    threads = simdgroups * SIMDGROUP_WIDTH
    counts = Counts(work=Counter(program.counts.work), device=program.counts.device)
    counts.barriers["threadgroup"] = max([dot.iterations for dot in program.dots])
    counts.copies = counts.barriers["threadgroup"] if target.copies else 0
    elements, beside = program.held
    for dot in program.dots:
        among = dot.among(simdgroups)
        if among.copies > 1:
            return _without_room("simdgroups would compute a part of a product twice")
        beside = max(beside, dot.count(counts, among, target))
        if not target.copies:
            beside = max(beside, dot.passing(threads))
    if any(dot.holds_left and dot.rows > FRAGMENT_SIZE * simdgroups for dot in program.dots):
        elements += program.rescaled  # by a factor of each of several rows: not in place
    registers = -(-elements // threads) + beside + OTHER_REGISTERS
    memory = staged = _staged(program.dots, schedule, target)
    limiting = None if target.dynamic_registers else registers
    for _ in range(1, usual_depth(target)):
        if second_buffer_pays(memory, memory + staged, simdgroups, target, limiting):
            memory += staged
    held = simdgroups_per_core(memory, simdgroups, target, limiting)
    if registers > target.thread_registers:
        return _without_room(f"a thread would need {registers} registers")
    if not held:
        return _without_room(f"a program would need {memory} bytes of threadgroup memory")
    sizes = Sizes((schedule.programs, 1, 1))
    together = max(1, target.cores * held // simdgroups)
    moved = _traffic(schedule).moved(target.cache_bytes, together)
    cost = on_chip(target, counts, sizes, simdgroups, held, moved)
    return Prediction(
        target.dispatch_microseconds + 1e3 * cost.milliseconds,
        cost.cycles * -(-schedule.programs // target.cores),
        cost.limit(registers, memory),
    )


@lru_cache(maxsize=16)  # one schedule for several numbers of simdgroups
def _program(schedule: KernelSchedule, target: Target) -> _Program:
    elements, along = schedule.elements, schedule.elements.dependencies
    counts, repeated = Counts(), loops_of(schedule)
    dots = []
    for (axes, times), work in work_of(elements, tuple(repeated.items())).items():
        computed = times * _computed(schedule, axes)
        for op, ops in work.computed.items():
            for unit, amount in facts[op].work.items():
                counts.work[unit] += ops * amount * computed
    for ref, load in elements.loads.items():
        times = repeated.get(ref, 1)
        _access(counts, schedule, ref, load.offset, along[ref], times, target)
    for ref, expr in elements.aggregates.items():
        if isinstance(expr, Contraction) and (dot := _dot(schedule, ref, expr)):
            dots.append(dot)
        else:
            inner = {*expr.over}.union(*(along[operand] for operand in expr.operands))
            counts.work["alu"] += repeated.get(ref, 1) * _computed(schedule, inner)
    # Four lanes store a row of a result, each as many columns as it loads of the right operand.
    row = FRAGMENT_SIZE // FRAGMENT_LANES * VECTOR_BYTES // max([dot.widths[1] for dot in dots])
    for output in elements.outputs:
        stored = elements.output_axes
        _access(counts, schedule, output.ref, output.offset, stored, 1, target, row)
    rescaled = [
        schedule.lanes_along(along[ref])
        for ref, expr in elements.exprs.items()
        if isinstance(expr, Contraction) and expr.rescaling is not None
    ]
    return _Program(counts, dots, _held(schedule), sum(rescaled))


def _dot(schedule: KernelSchedule, ref: ElementRef, expr: Contraction) -> _Dot | None:
    """A product, if the matrix hardware computes it."""
    elements = schedule.elements
    a, b = (elements.dependencies[ref] for ref in expr.operands)
    rows, columns, depth = map(schedule.lanes_along, (a - b, b - a, expr.over))
    if min(rows, columns, depth) < FRAGMENT_SIZE or not expr.element.is_float:
        return None
    iterations = _computed(schedule, {*expr.over, *a, *b}) // (rows * columns * depth)
    left, right = [ref.element.bytes for ref in expr.operands]
    holds_left = _holds_left(elements, expr)
    in_rows = holds_left or _is_reduced(elements, ref, b - a)
    staged = expr.operands[1:] if holds_left else expr.operands
    loaded = sum([_loaded(schedule, operand) for operand in staged])
    return _Dot(rows, columns, depth, iterations, (left, right), in_rows, holds_left, loaded)


def _is_reduced(elements: ElementGraph, result: ElementRef, columns: Collection[Axis]) -> bool:
    """Whether elementwise functions of a product are reduced along its columns."""
    along = elements.dependencies[result]
    functions = {result}
    for ref, expr in elements.exprs.items():
        if functions.isdisjoint(expr.refs):
            continue
        if isinstance(expr, ReduceExpr) and not set(expr.over).isdisjoint(columns):
            return True
        if not isinstance(expr, Aggregate) and elements.dependencies[ref] == along:
            functions.add(ref)
    return False


def _loaded(schedule: KernelSchedule, operand: ElementRef) -> int:
    """The bytes of the tiles loaded to compute an operand, but for those that are reduced."""
    elements = schedule.elements
    found = {operand: None}
    waiting = [operand]
    while waiting:
        ref = waiting.pop()
        if not isinstance(elements.exprs[ref], Aggregate):
            new = [r for r in elements.reads[ref] if r not in found]
            found.update(dict.fromkeys(new))
            waiting += new
    loads = [ref for ref in found if ref in elements.loads]
    along = elements.dependencies
    return sum([schedule.lanes_along(along[ref]) * ref.element.bytes for ref in loads])


def _staged(dots: Collection[_Dot], schedule: KernelSchedule, target: Target) -> int:
    """The bytes of threadgroup memory for operands of products: without padding, or one after the
    other, if they have no room else."""
    padded, bare = ([dot.staged(n) for dot in dots] for n in (PADDING_BYTES, 0))
    if not schedule.elements.online_axes:  # each is in a loop of its own
        return max(padded)
    room = target.threadgroup_bytes
    return sum(padded) if sum(padded) <= room else sum(bare) if sum(bare) <= room else max(bare)


@lru_cache(maxsize=16)
def _traffic(schedule: KernelSchedule) -> Traffic:
    """What programs load and store, and which of them load the same."""
    elements, repeated, count = schedule.elements, loops_of(schedule), schedule.programs
    divided = [axis for axis in elements.output_axes if axis not in schedule.kept]
    blocks = [schedule.blocks(axis) for axis in divided]
    followed = min(count, MOST_FOLLOWED)
    numbers = np.unravel_index(np.arange(followed), blocks) if blocks else ()
    moved: dict[ElementRef, tuple[Collection[Axis], int]] = {
        ref: (along, repeated.get(ref, 1))
        for ref, along in elements.dependencies.items()
        if isinstance(elements.exprs[ref], LoadExpr)
    }
    moved |= {output.ref: (elements.output_axes, 1) for output in elements.outputs}
    arrays = {ref.value: tensor_bytes(ref.value) for ref in moved}
    touched: Counter[Value] = Counter()
    accesses = []
    for ref, (axes, times) in moved.items():
        size = times * _computed(schedule, axes) * ref.element.bytes
        touched[ref.value] += size * count
        own = [number for axis, number in zip(divided, numbers, strict=True) if axis in axes]
        sizes = [n for axis, n in zip(divided, blocks, strict=True) if axis in axes]
        first = (
            np.ravel_multi_index(own, sizes)
            if own
            else np.zeros(min(count, MOST_FOLLOWED), np.int64)
        )
        accesses.append(Access(ref.value, size, first))
    return Traffic(arrays, touched, count, lambda: accesses)


def _computed(schedule: KernelSchedule, axes: Collection[Axis]) -> int:
    """How many elements a program computes along some axes, with those past their ends, but for
    those that masks hide."""
    divided = [a for a in schedule.output_axes if a not in schedule.kept]
    loops = prod([schedule.blocks(axis) for axis in axes if axis not in divided])
    if not schedule.elements.online_axes.isdisjoint(axes):
        loops = max(1, round(part_that_runs(schedule) * loops))
    return schedule.lanes_along(axes) * loops


def _access(
    counts: Counts,
    schedule: KernelSchedule,
    ref: ElementRef,
    offset: IndexExpr,
    axes: Collection[Axis],
    times: int,
    target: Target,
    most: int | None = None,
) -> None:
    """Count bytes and lines of a load or store of at most `most` neighbours at once; each line is
    taken to be needed whole."""
    size, tile = ref.element.bytes, schedule.lanes_along(axes)
    of_tile = [tile]
    for axis in {atom: None for atom in offset.atoms() if isinstance(atom, Axis)}:
        lanes = schedule.lanes.get(axis, 1)
        if lanes > 1:
            together = lanes if most is None else min(lanes, most)
            each = _lines_along(offset, axis, lanes, together, target.line_bytes // size)
            of_tile.append(tile // lanes * each)
    elements = times * _computed(schedule, axes)
    counts.device.loaded += elements * size
    lines = elements // tile * min(of_tile)
    counts.device.lines += lines
    counts.device.passed += lines * target.line_bytes


@lru_cache(maxsize=256)
def _lines_along(offset: IndexExpr, axis: Axis, lanes: int, together: int, line: int) -> int:
    """How many lines of some elements the lanes along an axis need, if that many access memory
    together."""
    numbers = _values(offset, axis, np.arange(lanes)) // line
    starts = range(0, lanes, together)
    return sum([len(np.unique(numbers[start : start + together])) for start in starts])


def _values(index: IndexExpr, axis: Axis, lanes: IndexArray) -> IndexArray:
    """The values of an index for the lanes along an axis; all other axes are 0."""
    total = np.full(len(lanes), index.constant)
    for atom, n in index.terms:
        if atom is axis:
            total += n * lanes
        elif isinstance(atom, Quotient):
            total += n * (_values(atom.dividend, axis, lanes) // atom.divisor)
        elif isinstance(atom, Remainder):
            total += n * (_values(atom.dividend, axis, lanes) % atom.divisor)
    return total


def _held(schedule: KernelSchedule) -> _Held:
    """Count the results of products, the values computed from these, and the left operands that
    stay in registers.

    Values that a loop carries are alive all the time, the others while a product or a reduction is
    computed.
    """
    elements, along = schedule.elements, schedule.elements.dependencies
    after: set[ElementRef] = set()
    stays = 0
    for ref, expr in elements.exprs.items():
        if isinstance(expr, Contraction) and expr.a not in after and _holds_left(elements, expr):
            stays += schedule.lanes_along(along[expr.a])
        if isinstance(expr, Aggregate) or not after.isdisjoint(expr.refs):
            after.add(ref)
    lanes = [schedule.lanes_along(axes) for axes in along.values()]
    order = emission_order(elements, lanes)
    sizes, vectors = [0] * len(lanes), [0] * len(lanes)
    for n, (ref, expr) in enumerate(elements.exprs.items()):
        if isinstance(expr, Aggregate) and elements.is_online(ref):
            stays += lanes[n]
        elif ref in after and not isinstance(expr, SplatExpr):
            sizes[n] = lanes[n]
            vectors[n] = 0 if isinstance(expr, Aggregate) else VECTOR
    held = [
        sum([sizes[other] for other in {*alive, n, *elements.operands[n]}])
        for n, alive in at_aggregates(elements, order)
    ]
    return _Held(stays + max(held), most_alive(elements, order, vectors))


def _holds_left(elements: ElementGraph, product: Contraction) -> bool:
    """Whether the left operand of a product stays in registers: it is made with a maximum."""
    a, b = (elements.dependencies[ref] for ref in product.operands)
    return not elements.online_axes.isdisjoint(a | b)
