"""A thread program in the making: what threads hold, the memory that they share, and which of them
are together.

Barriers are drawn with the program: before each access `hazards.py` says whether one is needed.
Where threads have parted ways none can stand, so there they touch only what needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from iris.ir import math, metal
from iris.ir.control import If, Yield
from iris.ir.core import Facet, Level, Op, Region, Value
from iris.ir.kinds import AtomicKind
from iris.ir.literal import encode
from iris.ir.math import Predicate, element_type
from iris.ir.metal import SIMDGROUP_WIDTH, VECTOR_BYTES, Scope, count_of, registers
from iris.ir.types import (
    DTYPES,
    DType,
    ElementType,
    Ptr,
    Registers,
    Threadgroup,
    Type,
    bf16,
    bool_,
    i32,
)
from iris.ir.uniformity import SIMDGROUP, THREADGROUP, VARYING, Uniformity
from iris.testing.choices import Choices
from iris.testing.draft import KernelDraft, Step
from iris.testing.elementwise import ALL
from iris.testing.hazards import ANY, Hazards, Pattern, Roots, Touch, Use, permits
from iris.tools.replay import Array, Grid, Scalar

OWN = 8  # elements of an array that a thread has for itself
PARTS = 4  # of memory that threads share: each as many elements as there are threads
MOST_TRIPS = 4
MOST_REGISTERS = 16
SHARED_BYTES = 32768  # that a threadgroup has on every GPU
COUNTERS = 64  # elements that all programs update
# What users may call values: words of languages, and names that texts have of their own.
WORDS = (
    *("half", "device", "x", "min", "kernel", "i", "float4", "shared", "sum", "short", "x_1"),
    *("_", "p", "x__2", "lane", "_Max", "at", "report"),
)

make_metal = Facet("random construction")

# What the lanes of any GPU give each other.
PORTABLE = tuple([d for d in ALL if d.bits <= 32 and d not in (bool_, bf16)])

# Ops that are made anew each time, as where they stand decides whether they may.
_PLACED = (
    metal.Load,
    metal.Store,
    metal.AtomicLoad,
    metal.Atomic,
    metal.CompareExchange,
    metal.Copy,
    metal.Alloc,
    metal.View,
)
# Threads have each something else of these; all lanes, or all threads, the same of these.
_AT_LEAST: dict[type[Op], Uniformity] = {
    metal.Simdgroup: SIMDGROUP,
    metal.Lane: VARYING,
    metal.AtomicLoad: VARYING,
    metal.Atomic: VARYING,
    metal.CompareExchange: VARYING,
    metal.LoadRows: VARYING,
    metal.Mma: VARYING,
    metal.MmaShared: VARYING,
}
_AT_MOST: dict[type[Op], Uniformity] = {metal.Broadcast: SIMDGROUP}


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory that the threads of a threadgroup share: `size` elements from `start` on, of what
    starts at a byte of its root."""

    base: Value
    dtype: DType
    size: int
    start: Value | None  # None: from the first
    roots: Roots  # the allocations or arrays that it may be
    first: int = 0


class Place(NamedTuple):
    """Where each thread finds an element or some neighbours."""

    base: Value
    type: ElementType  # of what is there
    offset: Value
    mask: Value | None = None
    memory: Memory | None = None  # None: no other thread writes there
    pattern: Pattern | None = None
    apart: bool = False  # whether no two threads find the same there, whatever the pattern


class Round(NamedTuple):
    """What counts the turns of a loop."""

    number: Value
    end: int | None  # below which it is, and not negative, if that is known


class MetalDraft(KernelDraft):
    """Builds one thread program."""

    level = Level.METAL
    rules = make_metal
    deepest = 3
    moving = (
        metal.Splat,
        metal.Take,
        metal.Slice,
        metal.ShuffleXor,
        metal.Shuffle,
        metal.Broadcast,
    )

    def __init__(
        self,
        steps: Sequence[Step],
        choices: Choices,
        dtypes: Sequence[DType],
        *,
        divergent: bool = True,
        portable: bool = False,
    ):
        super().__init__(steps, choices, dtypes)
        # What lanes give each other.
        self.exchanged_dtypes = PORTABLE if portable else ALL
        self.avoided = (math.Transcendental,) if portable else ()
        self.short = len(steps) < 4  # whether little but how threads use memory is of interest
        self.divergent = divergent  # whether threads that parted ways use what is written
        self.simdgroups = choices.of((2, 1, 4, 2, 8))
        self.func.set_simdgroups(self.simdgroups)
        x, y, z = (1 + choices.below(3), 1 + choices.below(2), 1 + choices.below(2))
        self.grid: Grid = (x, y, z) if choices.flag(4) else (x, 1, 1)
        self.dtypes = self.some_dtypes(choices)
        counts = (4, 2, 8, 4, 16, 3, 1, 7)
        self.counts = [choices.of(counts) for _ in range(1 + choices.below(3))]
        self.outputs = choices.of((1, 24, 24, 24, 3))
        self.spare = choices.of((0, 1, 0, 3))  # elements of allocations that nobody uses
        self.seed = choices.below(256)
        word = self.seed // 4 % len(WORDS)
        self.words: Sequence[str] = (WORDS * 2)[word : word + 3] if self.seed % 4 == 3 else ()
        self.inputs: list[tuple[Value, Array]] = []
        self.tables: dict[DType, Value] = {}
        self.owned: list[Value] = []
        self.shared: list[Memory] = []
        self.counters: dict[tuple[DType, AtomicKind], Value] = {}
        self.places: list[Place] = []
        self.rounds: list[Round] = []  # of the loops around
        self.scalars: dict[DType, Value] = {}
        self.levels: dict[Value, Uniformity] = {}
        self.hazards = Hazards(self.simdgroups)
        self.room = SHARED_BYTES  # that no allocation has taken
        self.flow = THREADGROUP  # the threads that are here together
        self.forgetful = False  # whether a turn of a loop may leave anything to the next
        self.quiet = False  # whether memory that is written is out of reach
        self.in_while = False
        self.lane = self.put(metal.Lane())
        self.simdgroup = self.put(metal.Simdgroup())
        first = self.put(math.Mul(self.simdgroup, self.constant(SIMDGROUP_WIDTH, i32)))
        self.thread = self.put(math.Add(first, self.lane))
        self.program = self._program()
        row = self.put(math.Mul(self.program, self.constant(self.threads, i32)))
        self.number = self.put(math.Add(row, self.thread))

    @property
    def threads(self) -> int:
        return self.simdgroups * SIMDGROUP_WIDTH

    @property
    def programs(self) -> int:
        return prod(self.grid)

    def _program(self) -> Value:
        """Which program this is, counted through the grid."""
        number = self.put(metal.ThreadgroupId(0))
        for axis in (1, 2):
            if self.grid[axis] > 1:
                before = self.constant(prod(self.grid[:axis]), i32)
                further = self.put(math.Mul(self.put(metal.ThreadgroupId(axis)), before))
                number = self.put(math.Add(number, further))
        return number

    # Which threads are together.

    def note(self, op: Op) -> None:
        super().note(op)
        level = self._level(op)
        for value in op.results:
            self.levels[value] = level
            if self.words and len(self.levels) % 5 == 0:
                value.name = self.words[len(self.levels) // 5 % len(self.words)]

    def _level(self, op: Op) -> Uniformity:
        """How far the results of an op without regions are sure to be the same."""
        if isinstance(op, metal.Load) and (op.volatile or self.in_while):
            return VARYING
        given = [self.level_of(v) for v in op.operands]
        level = max([_AT_LEAST.get(type(op), THREADGROUP), *given])
        return self._alike(min(level, _AT_MOST.get(type(op), VARYING)))

    def _alike(self, level: Uniformity) -> Uniformity:
        """A level, or that of the threadgroup if it is of one simdgroup."""
        return THREADGROUP if level is SIMDGROUP and self.simdgroups == 1 else level

    def level_of(self, value: Value) -> Uniformity:
        return self.levels.get(value, THREADGROUP)

    @property
    def barrier(self) -> Scope | None:
        """The barrier of most effect that may stand here."""
        if self.quiet or self.flow is VARYING:
            return None
        return Scope.DEVICE if self.flow is THREADGROUP else Scope.SIMDGROUP

    def may_meet(self) -> bool:
        """Whether all lanes of a simdgroup are here together."""
        return self.flow <= SIMDGROUP

    def step(self) -> None:
        """The next step; one whose place matters is made for this place."""
        cls = self.steps[-1][0] if self.steps else None
        if cls is None or not (cls.convergent or issubclass(cls, _PLACED)):
            super().step()
            return
        _, data = self.steps.pop()
        if self.may_meet() or not cls.convergent:
            make_metal[cls](cls, self, Choices(data))

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        saved = self.places, self.shared, self.rounds
        self.places, self.shared = list(self.places), list(self.shared)
        self.rounds = list(self.rounds)
        with super().inside(region):
            self.visible = [v for v in self.visible if isinstance(v.type, ElementType)]
            yield
        self.places, self.shared, self.rounds = saved

    @contextmanager
    def under(self, region: Region, guard: Uniformity) -> Iterator[None]:
        """Build in a region that threads come to by a guard that may differ between some."""
        flow, quiet = self.flow, self.quiet
        self.flow = max(flow, guard)
        self.quiet = quiet or not (self.divergent or self.flow is THREADGROUP)
        for argument in region.arguments:
            self.levels.setdefault(argument, VARYING)
        with self.inside(region):
            yield
        self.flow, self.quiet = flow, quiet

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Build without use of memory that is written."""
        quiet, self.quiet = self.quiet, True
        yield
        self.quiet = quiet

    def like_most(self, type_: Type, most: Uniformity, choices: Choices) -> Value:
        """A value of a type that is the same for all threads that a level says."""
        saved = self.visible
        self.visible = [v for v in saved if self.level_of(v) <= most]
        value = self.find(lambda t: t is type_, choices)
        self.visible = saved
        type_ = element_type(type_)
        return self.constant(1, type_) if value is None else value

    def steady(self, most: Uniformity, choices: Choices) -> Round:
        """A scalar that all threads have alike, or each simdgroup, or none, and which others are
        likely to be made of, too: the number of a turn, or what control flow gave."""
        found = [r for r in self.rounds[-2:] if self.level_of(r.number) <= most]
        flows = [v for v in self.visible if v.type is i32 and v.op is not None and v.op.regions]
        found += [Round(v, None) for v in flows[-2:] if self.level_of(v) <= most]
        return choices.of(found[::-1] or [Round(self.program, None)])

    # Making values.

    def types(self, element: DType) -> list[ElementType]:
        return [element, *[Registers(n, element) for n in self.counts]]

    def leaf(self, type_: ElementType) -> Value:
        """A value made of nothing that is there: a parameter, or elements of an array."""
        if type_ not in self.memo:
            self.memo[type_] = self._leaf(type_)
        return self.memo[type_]

    def _leaf(self, type_: ElementType) -> Value:
        if self.choices.flag(3):
            value = self.scalar(type_.element)
            return self.put(metal.Splat(value, type_)) if type_.shape else value
        pointer, recipe = self.input(type_.element)
        width = [w for w in widths(type_.element) if count_of(type_) % w == 0][-1]
        count = prod(recipe.shape) // width
        if type_.shape in ((), (width,)):
            first = self.times(self.wrapped(self.number, count), width)
            value = self.put(metal.Load(pointer, first, result=type_))
        else:
            loop = metal.Foreach(count_of(type_) // width, [type_])
            self.builder.insert(loop)
            with self.under(loop.body, THREADGROUP):
                place = self.put(math.Add(self.number, loop.body.arguments[0]))
                first = self.times(self.wrapped(place, count), width)
                part = metal.Load(pointer, first, result=registers(width, type_.element))
                self.builder.insert(Yield([self.put(part)]))
            value = loop.results[0]
            self.levels[value] = VARYING
        self.learn(value, recipe)
        return value

    def learn(self, value: Value, recipe: Array) -> None:
        """Notes what is known of a value that was read from an array that nobody writes."""
        if recipe.dtype.is_float and not recipe.data and not recipe.range:
            self.bounds[value] = 4

    def scalar(self, dtype: DType) -> Value:
        """A parameter that is a small number."""
        known = self.scalars.get(dtype)
        if known is None:
            small = (1, 0) if dtype is bool_ else (1, 2, 3, -1) if dtype.is_signed else (1, 2, 3)
            number = self.choices.of(small)
            self.recipes.append(Scalar(dtype, encode(number, dtype)))
            known = self.scalars[dtype] = self.func.body.add_argument(dtype, f"n_{dtype}")
            if dtype.is_float:
                self.bounds[known] = abs(number)
        return known

    def small(self, choices: Choices, count: int) -> Value:
        """A scalar i32 from 0 up to a power of two, computed."""
        return self.wrapped(self.like(i32, choices), count)

    def condition(self, type_: ElementType, choices: Choices) -> Value:
        return self.like(bool_ if choices.flag() else type_.with_element(bool_), choices)

    def guard(self, choices: Choices) -> Value:
        """A condition, of any threads, of simdgroups, or of the threadgroup as a whole."""
        style = choices.below(6)
        if style == 0:
            return self.like(bool_, choices)
        if self.short and style < 4:
            number, _ = self.steady(THREADGROUP, choices)
            some = self.constant(choices.below(2), i32)
            return self.put(math.Compare(choices.of(list(Predicate)), number, some))
        limit = self.constant(choices.of((1, 16, 0, 33, 2)), i32)
        if style == 5 and self.may_meet():
            decides = self.put(metal.Broadcast(choices.below(32), self.like(i32, choices)))
        elif style >= 3:
            decides = self.like_most(i32, THREADGROUP, choices)
        else:
            decides = self.simdgroup if style == 2 else self.thread
        return self.put(math.Compare(choices.of(list(Predicate)), decides, limit))

    def divide(self, cls: type[math.Binary], choices: Choices) -> None:
        """In a branch that is not entered if the divisor is zero."""
        integers = [d for d in DTYPES.values() if d.is_integer]
        x = self.some(integers, choices, lambda t: not t.shape)
        type_ = element_type(x.type)
        divisor = self.wrapped(self.other(x, choices), MOST_TRIPS)
        zero = self.constant(0, type_)
        branch = If(self.put(math.Compare(Predicate.NE, divisor, zero)), [type_])
        self.builder.insert(branch)
        with self.inside(branch.then):
            self.builder.insert(Yield([self.put(cls(x, divisor))]))
        with self.inside(branch.otherwise):
            self.builder.insert(Yield([zero]))
        self.carry_out(branch, VARYING)

    @contextmanager
    def only_where(self, value: Value, number: Value) -> Iterator[None]:
        """Build in a branch that threads enter that have a number."""
        branch = If(self.put(math.Compare(Predicate.EQ, value, number)), [])
        self.builder.insert(branch)
        with self.under(branch.then, VARYING):
            yield
            self.builder.insert(Yield([]))
        with self.under(branch.otherwise, VARYING):
            self.builder.insert(Yield([]))

    @contextmanager
    def repeated(self, guard: Uniformity, choices: Choices) -> Iterator[bool]:
        """Build a loop that threads follow as long as its guard says: whether they are to meet at
        the end of each turn.  Where they cannot, or a turn need not be over before another thread
        is in the next, no access may be in the way of another."""
        before, forgetful = self.hazards.copy(), self.forgetful
        latch = max(self.flow, guard) is not THREADGROUP or choices.flag()
        if not latch:
            self.hazards.forget()
            self.forgetful = True
        yield latch
        self.hazards.join(before)
        self.forgetful = forgetful

    def carry_out(self, op: Op, level: Uniformity) -> None:
        """Let what follows use the results of an op that is in place already."""
        for value in op.results:
            self.levels[value] = level
            if isinstance(value.type, ElementType):
                self.visible.append(value)

    def renamed(self, memories: Sequence[Memory], names: Sequence[Value]) -> list[Memory]:
        """What threads share, some of it by other names, each of which may be of any of that."""
        roots = frozenset().union(*[m.roots for m in memories])
        others = [m for m in self.shared if m not in memories]
        both = zip(memories, names, strict=True)
        return others + [replace(m, base=name, roots=roots) for m, name in both]

    # Memory.

    def argument(self, prefix: str, recipe: Array, *, noalias: bool) -> Value:
        """A parameter that is an array."""
        names = self.arrays
        self.recipes.append(recipe)
        type_ = Ptr(recipe.dtype, noalias, aligned=self.choices.flag())
        return self.func.body.add_argument(type_, f"{prefix}{names}")

    def input(self, dtype: DType, choices: Choices | None = None) -> tuple[Value, Array]:
        """An array that is only read, of a power of two of elements."""
        known = [(v, recipe) for v, recipe in self.inputs if recipe.dtype is dtype]
        if known and (choices is None or len(known) > 2 or not choices.flag(3)):
            return known[-1] if choices is None else choices.of(known)
        size = self.choices.of((256, 64, 1024, 32))
        shape = (size // 8, 8) if self.choices.flag(3) else (size,)
        recipe = self.filled(dtype, shape, self.choices)
        noalias = self.choices.flag() or not self.divergent
        pointer = self.argument("in", recipe, noalias=noalias)
        self.inputs.append((pointer, recipe))
        return self.inputs[-1]

    def table(self, dtype: DType) -> Value:
        """An array that is only read, with an element for each byte."""
        if dtype not in self.tables:
            recipe = self.filled(dtype, (256,), self.choices)
            self.tables[dtype] = self.argument("table", recipe, noalias=True)
        return self.tables[dtype]

    def own(self, dtype: DType, choices: Choices) -> Value:
        """An array of which each thread has some elements for itself."""
        known = [v for v in self.owned if self.dtype_of(v) is dtype]
        if known and (len(known) > 2 or not choices.flag()):
            return choices.of(known)
        self.owned.append(self._own(known, dtype))
        return self.owned[-1]

    def _own(self, known: Sequence[Value], dtype: DType) -> Value:
        """Such an array, or another name for one that may have another."""
        size = OWN * self.threads * self.programs
        for pointer in known:
            type_, recipe = pointer.type, self.recipes[pointer.index]
            assert isinstance(type_, Ptr) and isinstance(recipe, Array)
            if not type_.noalias and recipe.alias is None and self.choices.flag():
                other = Array(dtype, (size,), alias=pointer.index)
                return self.argument("alias", other, noalias=False)
        recipe = self.filled(dtype, (size,), self.choices)
        return self.argument("own", recipe, noalias=self.choices.flag(3))

    def dtype_of(self, base: Value) -> DType:
        """The dtype of the elements of memory."""
        assert isinstance(base.type, Ptr | Threadgroup)
        return base.type.element

    def counter(self, dtype: DType, kind: AtomicKind) -> Value:
        """An array that all programs update, in one way."""
        if (dtype, kind) not in self.counters:
            self.seed += 1
            recipe = Array(dtype, (COUNTERS,), self.seed)
            pointer = self.argument("counter", recipe, noalias=self.choices.flag(3))
            self.counters[dtype, kind] = pointer
        return self.counters[dtype, kind]

    def exchanged(self, dtype: DType) -> Memory:
        """An array of which the threads of a program share a part."""
        size = PARTS * self.threads
        recipe = self.filled(dtype, (size * self.programs,), self.choices)
        base = self.argument("shared", recipe, noalias=self.choices.flag())
        start = self.put(math.Mul(self.program, self.constant(size, i32)))
        return self.share(Memory(base, dtype, size, start, frozenset((base,))))

    def filled_memory(self, base: Value, root: Value, first: int, choices: Choices) -> Memory:
        """Let threads share memory of the threadgroup, once they have filled it."""
        dtype = self.dtype_of(base)
        memory = Memory(base, dtype, PARTS * self.threads, None, frozenset((root,)), first)
        self.share(memory)
        width = choices.of([1, *[w for w in widths(dtype) if w <= PARTS]])
        value = self.like(registers(width, dtype), choices)
        for part in range(PARTS // width):
            place = self.place(memory, Pattern(width=width), self.constant(part, i32))
            if self.access(memory, Touch(Use.WRITE, place.pattern), choices):
                self.builder.insert(metal.Store(base, place.offset, value))
        return memory

    def share(self, memory: Memory) -> Memory:
        """Make memory known to the steps that follow."""
        self.hazards.know(memory.roots)
        if self.forgetful:
            self.hazards.note(memory.roots, ANY)
        self.shared.append(memory)
        return memory

    def access(self, memory: Memory, touch: Touch, choices: Choices) -> bool:
        """Place the barrier that an access needs, and note the access; false if it cannot be."""
        if self.quiet:
            return False
        touch = touch._replace(view=(memory.first, memory.dtype))
        scope = self.hazards.needed(memory.roots, touch)
        if not permits(self.barrier, scope):
            return False
        if scope is not None:
            stronger = [s for s in Scope if permits(self.barrier, s) and permits(s, scope)]
            self.meet(choices.of([scope, scope, *stronger]))
        self.hazards.note(memory.roots, touch)
        return True

    def meet(self, scope: Scope) -> None:
        """Place a barrier."""
        self.builder.insert(metal.Barrier(scope))
        self.hazards.pass_barrier(scope)

    def place(self, memory: Memory, pattern: Pattern, part: Value) -> Place:
        """Where each thread finds its elements by a pattern, in a part."""
        at = self.thread
        if pattern.flip:
            at = self.put(math.Xor(at, self.constant(pattern.flip, i32)))
        if pattern.shift:
            at = self.put(math.Add(at, self.constant(pattern.shift, i32)))
            at = self.wrapped(at, self.threads)
        return self.placed(memory, at, part, pattern.width)._replace(pattern=pattern)

    def placed(self, memory: Memory, at: Value, part: Value, width: int) -> Place:
        """Where a thread finds the elements of another, or its own, in a part."""
        if self.choices.flag(4):
            bits = self.constant(self.threads.bit_length() - 1, i32)
            start = self.put(math.Shl(part, bits))
        else:
            start = self.put(math.Mul(part, self.constant(self.threads, i32)))
        at = self.put(math.Add(start, at))
        type_ = registers(width, memory.dtype)
        return Place(memory.base, type_, self.offset(memory, at, width), None, memory, apart=True)

    def offset(self, memory: Memory, at: Value, width: int) -> Value:
        """The offset of so many neighbours, by their number."""
        at = self.times(at, width)
        return at if memory.start is None else self.put(math.Add(memory.start, at))

    def times(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.put(math.Mul(value, self.constant(factor, i32)))

    # The end.

    def store(self, value: Value) -> None:
        """Store what each thread has of a value, as vectors."""
        type_ = element_type(value.type)
        count = count_of(type_)
        self.seed += 1
        recipe = Array(type_.element, (count * self.threads * self.programs,), self.seed)
        pointer = self.argument("out", recipe, noalias=False)
        self.store_each(pointer, value, self.times(self.number, count))

    def store_each(self, base: Value, value: Value, start: Value) -> None:
        """Store the elements of a value one after the other, some at a time."""
        type_ = element_type(value.type)
        count = count_of(type_)
        width = [w for w in widths(type_.element) if count % w == 0][-1]
        if width == count:
            self.builder.insert(metal.Store(base, start, value))
            return
        loop = metal.Foreach(count // width, [])
        self.builder.insert(loop)
        with self.under(loop.body, THREADGROUP):
            (number,) = loop.body.arguments
            part = self.put(metal.Slice(value, number, registers(width, type_.element)))
            at = self.put(math.Add(start, self.times(number, width)))
            self.builder.insert(metal.Store(base, at, part))
            self.builder.insert(Yield([]))


def widths(dtype: DType) -> list[int]:
    """How many elements one access may move."""
    most = VECTOR_BYTES // dtype.bytes
    return [1 << n for n in range(most.bit_length())]
