"""Small thread programs that come back to a few places of memory: for passes that give a load what
was stored before it, drop a store that a later one hides, merge two loads of one element, or move
accesses and barriers.

    preserves(MyPass(), program)

Each thread has a cell of four elements in each memory.  It stores to them and loads from them again
and again, one or some at a time, by other names of the memory, under masks, in branches and loops;
and seldom in the cell of another thread, with a barrier before, if one is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st

from iris.ir import math, metal
from iris.ir.control import For, If, Yield
from iris.ir.core import Region, Value
from iris.ir.kinds import AtomicKind
from iris.ir.math import Predicate, element_type
from iris.ir.metal import Scope, count_of, registers
from iris.ir.types import DTYPES, Ptr, Threadgroup, bool_, i32, i64, u8
from iris.ir.uniformity import THREADGROUP, VARYING, Uniformity
from iris.testing.choices import Choices
from iris.testing.elementwise import ALL
from iris.testing.hazards import Pattern, Roots, Touch, Use
from iris.testing.metals import Memory, MetalDraft
from iris.tools.replay import Array, Program

BYTES = 240
CELL = 4  # elements of a memory that a thread has for itself
DEEPEST = 2
_DTYPES = (i32, i32, i32, DTYPES["i16"], u8)
_KINDS = (AtomicKind.ADD, AtomicKind.EXCHANGE, AtomicKind.MAX)
# Of the elements of a cell, the first and how many.
_PARTS = ((0, 1), (0, 2), (1, 1), (0, 4), (2, 2), (0, 1), (2, 1))

Inside: TypeAlias = Callable[[], None]  # builds what is in a region


def programs() -> st.SearchStrategy[Program]:
    """Programs of a few accesses to a few places.

    @given(revisits.programs())
    def test_my_pass(program):
        preserves(MyPass(), program)
    """
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda x: Revisits(Choices(x)).made())


class Spot(NamedTuple):
    """Some elements of a cell, and where they are; the value of the offset serves all accesses."""

    memory: Memory
    offset: Value
    width: int
    pattern: Pattern
    part: int = 0  # of the cell


class Revisits(MetalDraft):
    """Builds such a program."""

    def __init__(self, choices: Choices):
        super().__init__([], choices, ALL, portable=True)
        self.touched: list[tuple[Roots, Touch]] = []  # all accesses, in the order of the text
        self.made_offsets: dict[object, Value] = {}
        self.masks: list[Value] = []
        self.total = self.constant(0, i32)  # a hash of all that the thread has read
        self.stored = 0

    def made(self) -> Program:
        choices = self.choices
        self.masks = [self.some_mask() for _ in range(2)]
        self.masks.append(self.put(math.And(*self.masks)))
        for _ in range(choices.of((1, 1, 2))):
            names = self.names()
            spots = self.spots(names)
            for _ in range(choices.of((2, 3))):
                self.come_back(spots)
            for memory in names[:1]:
                self.read(self.whole(memory), None)
        self.store(self.total)
        return self.finish()

    def some_mask(self) -> Value:
        """A condition, of some threads, of all alike, or as data say."""
        choices = self.choices
        style = choices.below(4)
        if style == 0:
            return self.put(math.Compare(Predicate.LT, self.lane, self.constant(16, i32)))
        if style == 1:
            last = self.constant(choices.of((0, 1)), i32)
            odd = self.put(math.And(self.thread, self.constant(1, i32)))
            return self.put(math.Compare(Predicate.EQ, odd, last))
        if style == 2:
            return self.scalar(bool_)
        return self.leaf(bool_)

    # Memory.

    def names(self) -> list[Memory]:
        """A memory by one name or two; at times another one besides, of the same type."""
        choices = self.choices
        dtype, size = choices.of(_DTYPES), CELL * self.threads
        if choices.flag():
            recipe = Array(dtype, (size * self.programs,), 1 + choices.below(64))
            base = self.argument("own", recipe, noalias=False)
            start = self.times(self.program, size)
            first = self.share(Memory(base, dtype, size, start, frozenset((base,))))
            alias = base.index if choices.below(3) else None
            other = self.argument("other", replace(recipe, alias=alias, seed=None), noalias=False)
            roots = first.roots if alias is not None else frozenset((other,))
            return [first, self.share(replace(first, base=other, roots=roots))]
        bases = [self.builder(metal.Alloc(Threadgroup(size * dtype.bytes, u8))) for _ in range(2)]
        type_ = Threadgroup(size, dtype)
        views = [self.builder(metal.View(0, base, type_)) for base in bases]
        found = [
            self.share(Memory(view, dtype, size, None, frozenset((base,))))
            for view, base in zip(views, bases, strict=True)
        ]
        again = self.builder(metal.View(0, bases[0], type_))
        found.insert(1, self.share(replace(found[0], base=again)))
        for memory in (found[0], found[2]):
            self.write(self.whole(memory), None)
        return found

    def spots(self, names: Sequence[Memory]) -> list[Spot]:
        """One that is used most, others that have some of its elements, and any."""
        choices = self.choices
        main, *others = [self.spot(names) for _ in range(choices.of((2, 3)))]
        pattern = main.pattern
        found_anew = self.made_offset(main.memory, pattern.flip, main.part, main.width)
        whole = Spot(main.memory, self.cell(main.memory, pattern.flip), CELL, pattern)
        fewer = [w for w in (1, 2, 4) if w <= main.width]
        return [
            *(main, *others),
            main._replace(memory=choices.of(names)),
            main._replace(width=choices.of(fewer)),
            choices.of((main._replace(offset=found_anew), whole)),
        ]

    def whole(self, memory: Memory) -> Spot:
        """The cell of each thread."""
        return Spot(memory, self.cell(memory), CELL, Pattern(width=CELL))

    def spot(self, names: Sequence[Memory]) -> Spot:
        """Some elements of a thread's cell, or now and then of another thread's."""
        choices = self.choices
        memory = choices.of(names)
        flip = choices.of((0, 0, 0, 0, 1, self.threads // 2))
        part, width = choices.of(_PARTS)
        # Elements that are there already are at times found by another sum.
        key = memory.start, flip, part, choices.flag(3) * width
        if key not in self.made_offsets:
            self.made_offsets[key] = self.made_offset(memory, flip, part, key[-1])
        return Spot(memory, self.made_offsets[key], width, Pattern(flip, width=CELL), part)

    def made_offset(self, memory: Memory, flip: int, part: int, width: int) -> Value:
        """Where a part of a cell is; with a width, at times as many elements on as a number says
        that is not known."""
        choices = self.choices
        at = self.cell(memory, flip)
        if part:
            at = self.put(math.Add(at, self.constant(part, i32)))
        elif width and choices.flag():
            further = self.wrapped(self.scalar(i32), CELL // width)
            at = self.put(math.Add(at, self.times(further, width)))
        return self.put(math.Cast(at, i64)) if choices.flag(6) else at

    def cell(self, memory: Memory, flip: int = 0) -> Value:
        """The offset of a thread's cell, or of that of the thread that is some bits apart."""
        at = self.thread
        if flip:
            at = self.put(math.Xor(at, self.constant(flip, i32)))
        if self.choices.flag():
            return self.offset(memory, at, CELL)
        at = self.put(math.Shl(at, self.constant(CELL.bit_length() - 1, i32)))
        return at if memory.start is None else self.put(math.Add(memory.start, at))

    def access(self, memory: Memory, touch: Touch, choices: Choices) -> bool:
        if not super().access(memory, touch, choices):
            return False
        self.touched.append((memory.roots, touch._replace(view=(memory.first, memory.dtype))))
        return True

    # Statements.

    def come_back(self, spots: Sequence[Spot]) -> None:
        """Use a spot twice, or seem to, with something done in between.  That may be in a
        branch or a loop, at times together with the second use."""
        choices, main = self.choices, spots[0]
        first, second = choices.of(
            ((self.write, self.read), (self.write, self.write), (self.read, self.read))
        )
        one, two = (choices.of((None, None, None, *self.masks[:2])) for _ in range(2))
        again = choices.of(spots) if choices.flag(3) else main
        style = choices.below(6)

        def between() -> None:
            if style == 4:
                second(main, two)
            for _ in range(choices.of((1, 2, 1, 0))):
                self.use(spots, style > 2)
            if style == 5:
                second(main, two)

        first(main, one)
        if style < 3:
            between()
        else:
            choices.of((self.repeat, self.branch))(between)
        second(again, two)

    def use(self, spots: Sequence[Spot], depth: int) -> None:
        choices = self.choices
        style = choices.below(16)
        if style < 3 and depth < DEEPEST:
            self.branch(lambda: self.several(spots, depth))
        elif style < 6 and depth < DEEPEST:
            self.repeat(lambda: self.several(spots, depth))
        elif style in (6, 10):
            self.update(choices.of((spots[0], choices.of(spots))))
        elif style == 7:
            self.each(choices.of(spots))
        elif style == 8:
            self.copy(choices.of(spots), spots)
        elif style == 9 and self.barrier is not None:
            self.meet(choices.of([s for s in Scope if s in (Scope.SIMDGROUP, self.barrier)]))
        else:
            mask = choices.of(self.masks) if choices.flag(3) else None
            access = choices.of((self.read, self.write))
            access(choices.of(spots), mask)

    def several(self, spots: Sequence[Spot], depth: int) -> None:
        for _ in range(self.choices.of((1, 2, 3))):
            self.use(spots, depth + 1)

    def value(self, width: int, memory: Memory) -> Value:
        """A value that says which thread stores it, and where in the program."""
        self.stored += 1
        type_ = registers(width, memory.dtype)
        cls = self.choices.of((math.Add, math.Sub))
        number = self.put(cls(self.times(self.thread, 3), self.constant(self.stored, i32)))
        if self.choices.flag(4):
            number = self.put(math.Xor(number, self.total))
        if memory.dtype is not i32:
            number = self.put(math.Cast(number, memory.dtype))
        if width == 1:
            return number
        apart = self.put(metal.Literal(tuple(range(0, 7 * width, 7)), result=type_))
        return self.put(math.Add(self.put(metal.Splat(number, type_)), apart))

    def write(self, spot: Spot, mask: Value | None) -> None:
        if self.access(spot.memory, Touch(Use.WRITE, spot.pattern), self.choices):
            value = self.value(spot.width, spot.memory)
            self.builder.insert(metal.Store(spot.memory.base, spot.offset, value, mask))

    def read(self, spot: Spot, mask: Value | None) -> None:
        if not self.access(spot.memory, Touch(Use.READ, spot.pattern), self.choices):
            return
        type_ = registers(spot.width, spot.memory.dtype)
        other = None
        if mask is not None:
            fresh = self.choices.flag()
            other = self.value(spot.width, spot.memory) if fresh else self.constant(0, type_)
        self.add_up(self.put(metal.Load(spot.memory.base, spot.offset, mask, other, result=type_)))

    def update(self, spot: Spot) -> None:
        """An atomic op, where elements are such as every device has one for; else a write."""
        if spot.memory.dtype is not i32:
            self.write(spot, None)
        elif self.access(spot.memory, Touch(Use.WRITE, spot.pattern), self.choices):
            kind, value = self.choices.of(_KINDS), self.value(1, spot.memory)
            old = self.put(metal.Atomic(kind, spot.memory.base, spot.offset, value))
            if self.choices.flag():
                self.add_up(old)

    def each(self, spot: Spot) -> None:
        """The elements of the cell, one after the other."""
        memory, reads = spot.memory, self.choices.flag()
        touch = Touch(Use.READ if reads else Use.WRITE, spot.pattern)
        if not self.access(memory, touch, self.choices):
            return
        at = self.cell(memory, spot.pattern.flip)
        value = self.value(1, memory)
        loop = metal.Foreach(CELL, [registers(CELL, memory.dtype)] if reads else [])
        self.builder.insert(loop)
        with self.under(loop.body, THREADGROUP):
            here = self.put(math.Add(at, loop.body.arguments[0]))
            if reads:
                found = [self.put(metal.Load(memory.base, here, result=memory.dtype))]
            else:
                found = []
                self.builder.insert(metal.Store(memory.base, here, value))
            self.builder.insert(Yield(found))
        if reads:
            self.add_up(loop.results[0])

    def copy(self, spot: Spot, spots: Sequence[Spot]) -> None:
        """Elements of an array, copied while the thread does something else."""
        memory, bytes_ = spot.memory, spot.width * spot.memory.dtype.bytes
        touch = Touch(Use.WRITE, spot.pattern)
        is_copied = memory.start is None and bytes_ >= 4 and self.flow is THREADGROUP
        if not is_copied or not self.access(memory, touch, self.choices):
            self.write(spot, None)
            return
        key = "source", memory.dtype
        if key not in self.memo:
            recipe = Array(memory.dtype, (CELL * self.threads,), 7)
            type_ = Ptr(memory.dtype, noalias=True, aligned=True)
            self.recipes.append(recipe)
            self.memo[key] = self.func.body.add_argument(type_, f"source{len(self.recipes)}")
        at = self.times(self.thread, CELL)
        self.builder.insert(metal.Copy(spot.width, memory.base, spot.offset, self.memo[key], at))
        others = [s for s in spots if not s.memory.roots & memory.roots]
        if others and self.choices.flag():
            self.read(self.choices.of(others), None)
        self.builder.insert(metal.WaitCopies(0))

    def add_up(self, value: Value) -> None:
        """Note what has been read, and when."""
        for number in range(count_of(value.type)):
            one = value if count_of(value.type) == 1 else self.put(metal.take((number,), value))
            if element_type(one.type).element is not i32:
                one = self.put(math.Cast(one, i32))
            total = self.put(math.Mul(self.total, self.constant(3, i32)))
            self.total = self.put(math.Add(total, one))

    # Control flow.

    def branch(self, inside: Inside) -> None:
        condition = self.choices.of(self.masks)
        guard = self.level_of(condition)
        op = self.builder.insert(If(condition, [i32]))
        before, total = self.hazards.copy(), self.total
        self.within(op.then, guard, inside)
        after, self.hazards, self.total = self.hazards, before, total
        if guard is not THREADGROUP:  # some threads are in the one while others are in the other
            self.hazards.join(after)
        self.within(op.otherwise, guard, inside if self.choices.flag(3) else lambda: None)
        self.hazards.join(after)
        self.total = op.results[0]
        self.levels[self.total] = VARYING

    def repeat(self, inside: Inside) -> None:
        """A loop of few turns, or none, which may carry names of memory."""
        choices = self.choices
        zero, one = (self.constant(n, i32) for n in (0, 1))
        turns = self.constant(choices.of((2, 1, 3, 0)), i32)
        if choices.flag(3):
            turns = self.wrapped(self.scalar(i32), 4)
        op = self.builder.insert(For(zero, turns, one, [self.total]))
        self.levels[op.body.arguments[0]] = THREADGROUP
        before, first = self.hazards.copy(), len(self.touched)
        self.total = op.body.arguments[1]
        self.within(op.body, THREADGROUP, inside)
        self.order_turns(op.body, self.touched[first:])
        self.hazards.join(before)
        self.total = op.results[0]
        self.levels[self.total] = VARYING

    def order_turns(self, body: Region, touched: Sequence[tuple[Roots, Touch]]) -> None:
        """Let threads meet at one end of a turn, if what it does is in the way of the next."""
        found = [self.hazards.needed(*one) for one in touched]
        scopes = [s for s in Scope if s in found]
        if not scopes:
            return
        at_end = self.choices.flag()
        assert body.first is not None and body.end is not None
        (body.end if at_end else body.first).insert_before(metal.Barrier(scopes[-1]))
        if at_end:
            self.hazards.pass_barrier(scopes[-1])

    def within(self, region: Region, guard: Uniformity, inside: Inside) -> None:
        with self.under(region, guard):
            inside()
            self.builder.insert(Yield([self.total]))
