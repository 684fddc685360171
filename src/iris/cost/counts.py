"""What one program of a kernel does, counted op by op without running it.

Each op class says in its `cost` rule what it adds.  Loops multiply; what depends on integers, such
as rounds of loops and lines of memory, is counted for one program in the middle of the grid
(`sample`).  The counts are those that the interpreter of Metal IR makes when it runs such a
program, apart from

- conditions that no integer decides: both branches are counted, all threads taking them;
- loops whose rounds are not known: one round;
- offsets that are not known: each lane has a line of memory to itself, and no bank conflicts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.cost.sample import Sample, Sizes
from iris.cost.traffic import Access
from iris.ir import control, math, metal
from iris.ir.control import Func
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.facts import facts
from iris.ir.layout import banks
from iris.ir.layout.linear import FRAGMENT_ROWS
from iris.ir.math import element_type
from iris.ir.metal import (
    FRAGMENT_SIZE,
    SIMDGROUP_WIDTH,
    TENSOR_PRODUCT,
    VECTOR_BYTES,
    Scope,
    count_of,
)
from iris.ir.types import Threadgroup
from iris.targets import DEFAULT, Target

Array = npt.NDArray[Any]

#: What an op adds to the counts of a program: `rule(walk, op)`.
cost = Facet("cost")


@dataclass
class Memory:
    """Accesses to memory by simdgroups."""

    loaded: int = 0  # bytes
    stored: int = 0
    instructions: int = 0
    lines: int = 0  # of device memory, that each instruction touches, summed
    passed: int = 0  # bytes between the caches: of lines, or of the parts of them that are loaded
    cycles: int = 0  # of threadgroup memory, conflicts of banks included

    @property
    def bytes(self) -> int:
        return self.loaded + self.stored

    @property
    def loads(self) -> float:
        """The part of the bytes that is loaded."""
        return self.loaded / self.bytes if self.bytes else 0.0

    def add(self, other: Memory) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass
class Counts:
    """What one program does.

    Flops and functions are of floats, and of all threads; a fused multiply-add is two flops.
    `work` has the elements that each part of the arithmetic hardware computes, `sums` those of them
    that are products added to one of the sums of a thread, `touched` the lines of each array in
    device memory, `results` the bytes that loops write to registers.  Matrix products, shuffles and
    barriers are as in the counters of the interpreter.
    """

    flops: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    integers: int = 0
    mmas: int = 0
    shuffles: int = 0
    atomics: int = 0
    barriers: Counter[str] = field(default_factory=Counter)
    device: Memory = field(default_factory=Memory)
    shared: Memory = field(default_factory=Memory)
    work: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    terms: float = 0  # that simdgroups add to all of their sums
    touched: Counter[Value] = field(default_factory=Counter)
    waits: int = 0  # iterations, or parts of them between barriers, that load from device memory
    copies: int = 0  # copies to threadgroup memory, for which threads do not wait
    fetched: int = 0  # bytes that loads pass between the caches
    again: int = 0  # of these, what an earlier loop has loaded
    results: int = 0
    guesses: int = 0  # loops and offsets of which nothing is known
    #: What of all this is done in loops without barriers.
    apart: Counts | None = None

    def add(self, other: Counts) -> None:
        """Count what another has, too."""
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Memory):
                mine.add(more)
            elif isinstance(mine, Counter):
                mine.update(more)
            elif isinstance(mine, int | float):
                setattr(self, each.name, mine + more)


def count(function: Func, sizes: Sizes = Sizes(), target: Target = DEFAULT) -> Counts:  # noqa: B008
    """What a program of a kernel in Metal IR does, for a launch."""
    return _Walk(function, sizes, target).counts


def accesses(function: Func, sizes: Sizes, target: Target, others: int) -> list[Access]:
    """The accesses of a program to device memory, with the addresses of `others`; see `Sample`."""
    return _Walk(function, sizes, target, others).accesses


class _Walk:
    """Goes through a program once: how often an op runs, and in which threads.

    What it accesses in device memory is listed with the addresses of `others`; see `Sample`.
    """

    def __init__(self, function: Func, sizes: Sizes, target: Target, others: int = 0):
        self.counts = Counts()
        self.accesses: list[Access] = []
        self.fetched: defaultdict[Value, Counter[int]] = defaultdict(Counter)  # by loop
        self.target = target
        self.function = function
        self.meets = False  # whether a loop around what is looked at has barriers
        self.sample = Sample(function, sizes, others)
        self.times = self.turns = 1
        self.sums = 1  # of a thread, which the loop around adds to
        self.loop = 0  # the number of the outermost loop around what is looked at, or before it
        self.is_inside = False  # a loop
        # Since an iteration began, or the barrier before: whether it loads from device memory, and
        # the copies that nobody has waited for.
        self.loads, self.begun = False, 0
        self.fixed: set[Value] = set()  # integers that the Metal compiler knows
        self.active = np.ones(self.sample.threads, np.bool_)
        self.counts.apart = Counts()
        self.in_turn(function.body)

    def in_turn(self, region: Region, times: int = 1) -> None:
        """Go through iterations of a loop, which wait once each for all that they load."""
        around = self.loads, self.begun, self.turns
        self.loads, self.begun, self.turns = False, 0, self.turns * times
        counts, apart, met = self.counts, self.counts.apart, self.meets
        meets = any(map(_meets, region.walk()))
        if apart is not None and not (met or meets):
            self.counts = Counts()
        self.meets = met or (meets and region is not self.function.body)
        with self.repeated(times):
            self.region(region)
        self.wait()
        if apart is not None and self.counts is not counts:
            apart.add(self.counts)
            counts.add(self.counts)
            self.counts = counts
        (self.loads, self.begun, self.turns), self.meets = around, met

    def wait(self) -> None:
        """Count that threads wait for all that they have loaded, if anything."""
        self.counts.waits += self.turns * self.loads
        self.loads = False

    def region(self, region: Region) -> None:
        for op in region:
            self.sample.compute(op)
            rule: Callable[[_Walk, Op], None] = cost[type(op)]
            rule(self, op)

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        before, self.times = self.times, self.times * times
        yield
        self.times = before

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A loop."""
        before, self.is_inside = self.is_inside, True
        self.loop += not before
        yield
        self.is_inside = before

    @contextmanager
    def only(self, active: Array) -> Iterator[None]:
        before, self.active = self.active, self.active & active
        yield
        self.active = before

    @property
    def threads(self) -> int:
        """How many threads run an op, each time that it runs counted."""
        return self.times * int(self.active.sum())

    @property
    def simdgroups(self) -> int:
        return self.times * int(self.active.reshape(-1, SIMDGROUP_WIDTH).any(axis=1).sum())

    def condition(self, value: Value | None) -> Array:
        """The threads in which a condition holds, or may."""
        known = self.sample.of(value)
        return np.ones(1, np.bool_) if known is None else known

    def access(
        self, base: Value, offset: Value, mask: Value | None, elements: int, unit: int
    ) -> tuple[Memory, int]:
        """Count an access to memory, but for its bytes; gives where these belong, and how many.

        `unit`: the bytes that are moved between caches at a time."""
        memory = base.type
        is_shared = isinstance(memory, Threadgroup)
        counted = self.counts.shared if is_shared else self.counts.device
        size = memory.element.bytes
        width = elements * size
        with self.only(self.condition(mask)):
            moved_bytes = self.threads * width
            counted.instructions += self.simdgroups
            if is_shared:
                counted.cycles += self.times * self.cycles(offset, size, width)
            else:
                addresses = self._addresses(offset, size)
                lines = self.times * self._lines(addresses, width, self.target.line_bytes)
                counted.lines += lines
                counted.passed += self.times * self._lines(addresses, width, unit) * unit
                self.counts.touched[base] += lines
        if not is_shared:
            others = self.sample.of_others(offset)
            self.accesses.append(Access(base, moved_bytes, others, self.loop))
        return counted, moved_bytes

    def _addresses(self, offset: Value, size: int) -> list[Array] | None:
        """The first byte that each lane accesses, for each simdgroup with an access."""
        known = self.sample.of(offset)
        if known is None:
            self.counts.guesses += 1
            return None
        first = np.broadcast_to(known.astype(np.int64) * size, self.active.shape)
        pairs = zip(*[x.reshape(-1, SIMDGROUP_WIDTH) for x in (first, self.active)], strict=True)
        return [row[active] for row, active in pairs if active.any()]

    def _lines(self, addresses: list[Array] | None, width: int, line: int) -> int:
        """How many lines, of some bytes each, the lanes touch."""
        if addresses is None:
            return int(self.active.sum())
        touched = [np.append(a // line, (a + width - 1) // line) for a in addresses]
        return sum(len(np.unique(lines)) for lines in touched)

    def write(self, size: int) -> None:
        """Count bytes of results that go to registers."""
        self.counts.results += size * self.is_inside

    def fetch(self, base: Value, passed: int) -> None:
        """Count bytes that a load passes.  Loops are taken to load the same part of an array; a
        load before them reads another part."""
        self.counts.fetched += passed
        if self.is_inside:
            by_loop = self.fetched[base]
            earlier = max([n for loop, n in by_loop.items() if loop != self.loop], default=0)
            loaded = by_loop[self.loop]
            by_loop[self.loop] += passed
            self.counts.again += min(loaded + passed, earlier) - min(loaded, earlier)

    def cycles(self, offset: Value, size: int, width: int) -> int:
        """How long the lanes take to touch their bytes of threadgroup memory."""
        addresses = self._addresses(offset, size)
        if addresses is None:
            per_cycle = self.target.banks * self.target.bank_bytes
            return -(-int(self.active.sum()) * width // per_cycle)
        return sum(banks.cycles(a, width, self.target) for a in addresses)


# The rules.

Work = Mapping[str, int]  # elements, by parts of the arithmetic hardware
# Nothing has to be done for these, or nothing that could be told from what uses them.
_FREE = (
    math.AssumeDivisible,
    math.Bitcast,
    metal.Lane,
    metal.Simdgroup,
    metal.ThreadgroupId,
    metal.NumThreadgroups,
    metal.Extent,
    metal.Splat,
    metal.Literal,
    metal.Pattern,
    metal.Take,
    metal.Join,
    metal.Slice,
    metal.Insert,
    metal.Alloc,
    metal.View,
    metal.Assert,
    metal.Print,
    control.Yield,
    control.Return,
)


@cost(*_FREE)
def free(walk: _Walk, op: Op) -> None:
    pass


@cost(math.Constant)
def constant(walk: _Walk, op: math.Constant) -> None:
    walk.fixed.add(op.result)


@cost(math.Elementwise)
def arithmetic(walk: _Walk, op: Op) -> None:
    type_ = element_type(op.results[0].type)
    known = facts[type(op)]
    if type_.element.is_float:
        walk.counts.flops += known.flops * walk.threads * count_of(type_)
        _compute(walk, op, _work_of(walk, op))
    else:
        _compute(walk, op, {"int_mul" if _multiplies(op) else "alu": 1})


@cost(math.Div)
def quotient(walk: _Walk, op: math.Div) -> None:
    """Where other quotients have the divisor, it is exact without more work."""
    walk.counts.flops += facts[math.Div].flops * walk.threads * count_of(op.result.type)
    _compute(walk, op, facts[math.Div].work if op.invariant else _work_of(walk, op))


def _multiplies(op: Op) -> bool:
    """Whether an op takes a product of integers, and no shift does."""
    factors = [v.op.value for v in op.operands if isinstance(v.op, math.Constant)]
    return isinstance(op, math.Mul) and not any(int(n).bit_count() == 1 for n in factors)


@cost(math.Fma)
def fused(walk: _Walk, op: math.Fma) -> None:
    arithmetic(walk, op)
    if walk.sums > 1:
        elements = walk.threads * count_of(op.result.type)
        walk.counts.sums.update({part: n * elements for part, n in facts[math.Fma].work.items()})
        walk.counts.terms += walk.simdgroups / walk.sums


@cost(math.Transcendental, math.Sqrt)
def function(walk: _Walk, op: Op) -> None:
    walk.counts.functions[op.name] += walk.threads * count_of(op.results[0].type)
    _compute(walk, op, _work_of(walk, op))


def _work_of(walk: _Walk, op: Op) -> Work:
    """What it takes to compute floats, as exactly as it must be."""
    work: Work = facts[type(op)].work
    more = walk.target.core.exactness.get(op.name)
    is_coarse = op.name in walk.target.coarse and element_type(op.results[0].type).element.bits < 32
    if more is None or walk.function.fast_math or is_coarse:
        return work
    return {**work, "alu": work.get("alu", 0) + more}


@cost(math.FloorDiv, math.Mod)
def division(walk: _Walk, op: Op) -> None:
    """A reciprocal, and products that correct it; there is no hardware for it."""
    is_float = op.results[0].type.element.is_float
    _compute(walk, op, facts[type(op)].work if is_float else {"recip": 1, "int_mul": 2, "alu": 4})


def _compute(walk: _Walk, op: Op, work: Work) -> None:
    type_ = element_type(op.operands[-1].type)  # of comparisons and casts, what they are of
    elements = walk.threads * count_of(op.results[0].type)
    if not type_.element.is_float:
        if walk.fixed.issuperset(op.operands):
            walk.fixed.update(op.results)
            return
        walk.counts.integers += elements
    walk.write(elements * type_.element.bytes)
    for part, amount in work.items():
        walk.counts.work["wide" if type_.element.bits > 32 else part] += amount * elements


@cost(metal.Load)
def load(walk: _Walk, op: metal.Load) -> None:
    unit, elements = walk.target.sector_bytes, count_of(op.result.type)
    passed = walk.counts.device.passed
    counted, moved = walk.access(op.base, op.offset, op.mask, elements, unit)
    counted.loaded += moved
    if not isinstance(op.base.type, Threadgroup):
        walk.loads = True
        walk.fetch(op.base, counted.passed - passed)


@cost(metal.Copy)
def copy(walk: _Walk, op: metal.Copy) -> None:
    unit = walk.target.line_bytes
    counted, moved = walk.access(op.source, op.source_offset, op.mask, op.count, unit)
    counted.loaded += moved
    counted, moved = walk.access(op.base, op.offset, None, op.count, unit)
    counted.stored += moved
    walk.counts.copies += walk.simdgroups
    walk.begun += walk.simdgroups


@cost(metal.WaitCopies)
def wait_copies(walk: _Walk, op: metal.WaitCopies) -> None:
    """Copies that the same iteration has begun take as long as loads do."""
    if walk.begun and not op.latest:
        walk.counts.copies -= walk.begun
        walk.loads, walk.begun = True, 0


@cost(metal.LoadRows)
def load_rows(walk: _Walk, op: metal.LoadRows) -> None:
    """A row is one access of the lane that says where it is."""
    size, fragments = op.base.type.element.bytes, metal.fragments_of(op.result)
    of_fragment, _ = FRAGMENT_ROWS.apply(lane=np.arange(SIMDGROUP_WIDTH))
    with walk.only(np.tile(of_fragment < fragments, walk.active.size // SIMDGROUP_WIDTH)):
        counted = walk.counts.shared
        counted.instructions += walk.simdgroups
        counted.cycles += walk.times * walk.cycles(op.offset, size, FRAGMENT_SIZE * size)
        counted.loaded += walk.threads * FRAGMENT_SIZE * size


@cost(metal.Store)
def store(walk: _Walk, op: metal.Store) -> None:
    unit, elements = walk.target.line_bytes, count_of(op.value.type)
    counted, moved = walk.access(op.base, op.offset, op.mask, elements, unit)
    counted.stored += moved


@cost(metal.AtomicLoad, metal.Atomic, metal.CompareExchange)
def atomic(walk: _Walk, op: Op) -> None:
    walk.counts.atomics += walk.threads


@cost(metal.Barrier)
def barrier(walk: _Walk, op: metal.Barrier) -> None:
    times = walk.simdgroups if op.scope is Scope.SIMDGROUP else walk.times
    walk.counts.barriers[op.scope.value] += times
    if op.scope is not Scope.SIMDGROUP:
        walk.wait()


@cost(metal.Fence)
def fence(walk: _Walk, op: metal.Fence) -> None:
    """Count nothing: no figures are published."""


@cost(metal.ShuffleXor, metal.Shuffle, metal.Broadcast)
def shuffle(walk: _Walk, op: Op) -> None:
    walk.counts.shuffles += walk.simdgroups * count_of(op.results[0].type)


@cost(metal.Mma)
def mma(walk: _Walk, op: metal.Mma) -> None:
    matrices = walk.target.matrices[element_type(op.a.type).element.bits]
    products = walk.simdgroups * matrices.products(op.rows, op.columns, op.depth)
    walk.counts.mmas += products
    size = element_type(op.results[0].type).element.bytes
    walk.write(products // matrices.depth * FRAGMENT_SIZE**2 * size)


@cost(metal.MmaShared)
def mma_shared(walk: _Walk, op: metal.MmaShared) -> None:
    """Each 16x32 matrix of the result has its factors loaded."""
    element = op.a.type_as(Threadgroup).element
    rows, columns, depth = op.shape
    tall, wide, deep = (n // FRAGMENT_SIZE for n in op.shape)
    products = walk.target.matrices[element.bits].products(tall, wide, deep)
    walk.counts.mmas += walk.simdgroups * products
    of_tensor = TENSOR_PRODUCT[0] * TENSOR_PRODUCT[1]
    per_tensor = (TENSOR_PRODUCT[0] + TENSOR_PRODUCT[1]) * depth * element.bytes
    moved = rows * columns // of_tensor * per_tensor
    accesses = moved // (VECTOR_BYTES * SIMDGROUP_WIDTH)
    counted = walk.counts.shared
    counted.instructions += walk.simdgroups * accesses
    counted.cycles += walk.simdgroups * accesses
    counted.loaded += walk.simdgroups * moved


def _meets(op: Op) -> bool:
    return isinstance(op, metal.Barrier) and op.scope is not Scope.SIMDGROUP


# Control flow.  Of a loop, the round in the middle is looked at; of one with conditions, which may
# hold in some rounds and not in others, the middles of its parts.
MOST_ROUNDS = 8


@cost(metal.Foreach)
def foreach(walk: _Walk, op: metal.Foreach) -> None:
    # It is unrolled, or its body is all that runs: what is made of the number alone is known.
    walk.fixed.add(op.body.arguments[0])
    around = walk.sums
    if op.in_place:
        walk.sums *= op.count
    for number, times in _rounds(op.body, op.count):
        walk.sample.set(op.body.arguments[0], np.array([number]))
        with walk.repeated(times):
            walk.region(op.body)
    walk.sums = around


@cost(control.For)
def for_(walk: _Walk, op: control.For) -> None:
    bounds = [walk.sample.of(v) for v in op.operands[:3]]
    index, *carried = op.body.arguments
    _bind(walk, carried, op.initial)
    if any(x is None for x in bounds) or (longest := _longest(bounds)) is None:
        walk.counts.guesses += 1
        with walk.inside():
            walk.in_turn(op.body)
        return
    with walk.inside():
        for number, times in _rounds(op.body, len(longest)):
            walk.sample.set(index, np.array([longest[number]]))
            walk.in_turn(op.body, times)


def _rounds(body: Region, count: int) -> list[tuple[int, int]]:
    """The rounds of a loop that are looked at, and for how many rounds each of them stands."""
    parts = min(count, MOST_ROUNDS if _has_conditions(body) else 1)
    ends = [count * part // parts for part in range(1, parts + 1)]
    return [((start + end) // 2, end - start) for start, end in pairwise([0, *ends])]


def _has_conditions(region: Region) -> bool:
    return any(
        isinstance(op, control.If)
        or (isinstance(op, (metal.Load, metal.Copy, metal.Store)) and op.mask is not None)
        for op in region.walk()
    )


def _longest(bounds: list[Array | None]) -> range | None:
    """The rounds of the thread that has most; None where a step is zero."""
    lower, upper, step = (x.reshape(-1) for x in bounds if x is not None)
    ranges = np.broadcast(lower, upper, step)
    if not step.all():
        return None
    return max((range(*map(int, each)) for each in ranges), key=len)


@cost(control.While)
def while_(walk: _Walk, op: control.While) -> None:
    walk.counts.guesses += 1
    for region in op.regions:
        _bind(walk, region.arguments, op.initial)
        walk.region(region)


def _bind(walk: _Walk, arguments: list[Value], values: tuple[Value, ...]) -> None:
    for argument, value in zip(arguments, values, strict=True):
        walk.sample.bind(argument, value)


@cost(control.If)
def if_(walk: _Walk, op: control.If) -> None:
    known = walk.sample.of(op.condition)
    for region, wanted in ((op.then, True), (op.otherwise, False)):
        with walk.only(np.ones(1, np.bool_) if known is None else known == wanted):
            if walk.active.any():
                walk.region(region)
    if known is not None and (known == known[0]).all():
        taken = op.then if known[0] else op.otherwise
        _bind(walk, list(op.results), taken.end.operands)
