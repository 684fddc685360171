"""Small thread programs that do little but use memory: for what a pass concludes of accesses that
may meet, and where a barrier has to order them.

    orders("allocate-threadgroup,insert-barriers", program)

There is a barrier before each access, which the oracle takes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

from hypothesis import strategies as st

from iris.ir import math, metal
from iris.ir.control import For, If, Return, While, Yield
from iris.ir.core import Module, Region, Value
from iris.ir.kinds import AtomicKind
from iris.ir.math import Predicate, element_type
from iris.ir.metal import count_of, registers
from iris.ir.types import Threadgroup, Type, i32, u8
from iris.testing.choices import Choices
from iris.testing.exchange_places import (
    ELEMENTS,
    HALF,
    NO_TERM,
    Lanes,
    Memory,
    Place,
    Places,
    Term,
)
from iris.tools.replay import Array, Program

BYTES = 240
MOST_ACCESSES = 3  # in each part of a program, besides those that a loop adds
_KINDS = (AtomicKind.ADD, AtomicKind.EXCHANGE, AtomicKind.XOR, AtomicKind.ADD, AtomicKind.MAX)
_COMMUTING = (AtomicKind.ADD, AtomicKind.ADD, AtomicKind.XOR, AtomicKind.MAX)


def programs() -> st.SearchStrategy[Program]:
    """Programs of a few accesses, in loops and branches."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(
        lambda data: Exchanges(Choices(data)).made()
    )


class Exchanges(Places):
    """Builds such a program."""

    def __init__(self, choices: Choices):
        super().__init__(choices)
        self.left = 0  # accesses, about, that are still to come
        self.writes = False  # whether the latest was a write
        self.whiles = 0  # how many are being built
        self.total = self.constant(0)  # a hash of all values that the thread has read

    def made(self) -> Program:
        choices = self.choices
        if self.programs > 1:
            self.terms.append(Term(self.program, 0, self.programs - 1))
        for _ in range(choices.of((2, 3, 1, 2))):
            self.part()
        self.end()
        grid = (self.programs, 1, 1)
        return Program(Module([self.function]), self.function.symbol, grid, tuple(self.recipes))

    def part(self) -> None:
        """A few accesses, mostly in a loop, mostly of new memory: so several things can go wrong in
        a program, each by itself.  Some memory is used from part to part."""
        choices = self.choices
        style = choices.below(8)
        if style:
            self.memories, self.places = self.memories[: choices.of((0, 1, 0))], []
            if style < 7:
                self.allocate()
            if style > 5:
                self.arrays()
        if not self.memories:
            self.arrays()
        self.left = 1 + choices.below(MOST_ACCESSES)
        terms = list(self.terms)
        if choices.flag():
            self.beside()
        if choices.flag(5):
            self.along()
        if choices.below(5):
            choices.of((self.count, self.count, self.count, self.repeat))(0)
            if choices.below(4):
                self.beside()
        while self.left > 0:
            self.item(0)
        self.terms = terms

    def end(self) -> None:
        """Store what each thread has read."""
        size = self.threads * self.programs
        out = self.argument(Array(i32, (size,)), noalias=True)
        number = self.b(math.Add(self.times(self.program, self.threads), self.thread))
        self.b.insert(metal.Store(out, number, self.total))
        self.b.insert(Return())

    def add_up(self, value: Value) -> None:
        """Note what has been read, and when."""
        type_ = value.type
        if count_of(type_) > 1:
            first, last = (self.b(metal.take((n,), value)) for n in (0, count_of(type_) - 1))
            value = self.b(math.Xor(first, last))
        if value.type is not i32:
            value = self.b(math.Cast(value, i32))
        self.total = self.b(math.Add(self.b(math.Mul(self.total, self.constant(3))), value))

    def telling(self, type_: Type) -> Value:
        """A value that says which thread made it, for which access, and in which turn."""
        value = self.plus(self.times(self.thread, 3), 1 + self.left)
        if self.terms and self.choices.flag():
            value = self.b(math.Add(value, self.terms[-1].value))
        if self.choices.flag(4):
            value = self.b(math.Xor(value, self.total))
        dtype = element_type(type_).element
        if dtype is not i32:
            value = self.b(math.Cast(value, dtype))
        return value if count_of(type_) == 1 else self.b(metal.Splat(value, type_))

    # What a program does.

    def item(self, depth: int) -> None:
        choices = self.choices
        style = choices.below(24)
        if style < 3 and depth < 2:
            (self.count, self.count, self.repeat)[style](depth)
        elif style == 3 and depth < 3:
            self.branch(depth)
        elif style in (4, 5):
            self.apart()
        elif style in (6, 7, 18):
            self.each()
        elif style in (8, 9):
            self.scalar()
        elif style == 10:
            self.look_up()
        elif style == 12:
            self.scalar()
            self.hand_on()
        elif style == 13:
            self.left -= 1
            self.atomic(asked=self.choices.flag())
        elif style in (14, 15) and depth < 3:
            self.together()
        elif style in (16, 17) and depth < 2:
            self.in_turns()
        elif style in (19, 20) and depth < 2:
            self.along()
        elif style == 11 and self.left > 1:
            self.allocate()
            self.left -= 1
        else:
            self.access()

    def access(self) -> None:
        """One access, or a read and a write of one place."""
        self.left -= 1
        style = self.choices.below(16)
        if style < 12:
            self.writes = (style < 3) is self.writes  # mostly not twice in a row
            place = self.some_place(single=self.writes)
            self.meet()
            (self.write if self.writes else self.read)(place)
        elif style < 14:
            place = self.place_of_one() if style == 12 else self.some_place(single=True)
            self.meet()
            self.read(place)
            self.write(place)
        else:
            self.atomic(style == 14)

    def together(self) -> None:
        """Writes to several memories, and then reads of them, at times in a branch or a loop: one
        barrier may be for all of them."""
        choices = self.choices
        self.left -= 1
        if all(m.start is None for m in self.memories[-3:]):
            self.arrays()
        memories = self.memories[-3:]
        if choices.flag():
            memories.reverse()
        shift = choices.below(3)

        def touch(access: Callable[[Place], None]) -> None:
            for memory in memories:
                self.touch(memory, shift, access)

        touch(self.write)
        with self.around(0, 1, 2):
            touch(self.read)

    def in_turns(self) -> None:
        """A loop that goes through several memories in each turn, often in a loop or a branch of
        their own: it reads what the turn before left there, and leaves something else."""
        choices = self.choices
        self.left -= 1
        memories = [self.unfilled(choices.of(ELEMENTS)) for _ in range(choices.of((2, 3)))]
        with self.turned() as turn:
            for memory in memories:
                with self.around(2, 0, 2, 1):
                    with self.taken(self.compare(Predicate.GT, turn, 0)):
                        self.touch(memory, 0, self.read)
                    self.meet()
                    self.write(self.own_place(memory))

    def along(self) -> None:
        """A loop that goes over parts of a memory, up or down, not always each of them; and an
        access to one of the parts where it begins or ends, before it or after it."""
        choices = self.choices
        self.left -= 1
        memory = choices.of(self.memories[-2:])
        parts = memory.size // self.threads
        apart, turns = choices.of((1, 2, 1, 3)), choices.of((2, 1, 3))
        turns = max(1, min(turns, 1 + (parts - 1) // apart))
        last = (turns - 1) * apart  # the part, counted from the first
        first = choices.below(parts - last)
        wanted = first + choices.of((last, 0, last, last + 1, last - 1, -1))
        in_loop, access = [self.read, self.write][:: choices.of((1, -1))]
        whole = Lanes(self.thread, self.threads)
        some = [self.lanes(Choices(self.some(HALF)), self.threads) for _ in range(2)]
        lanes, others = (one if one.size <= self.threads else whole for one in some)
        beside = self.part_of(memory, others, min(max(wanted, 0), parts - 1))
        is_before = choices.flag(3)
        if is_before:
            self.at(beside, access)
        end = turns * apart - choices.below(apart)  # which may be before a whole last step
        loop = For(self.bound(0), self.bound(end), self.constant(apart), [self.total])
        self.b.insert(loop)
        is_down = choices.flag(3)
        with self.within(loop.body):
            number, self.total = loop.body.arguments
            if is_down:
                number = self.b(math.Sub(self.constant(last), number))
            self.at(self.part_of(memory, lanes, first, number), in_loop)
        self.total = loop.results[0]
        if not is_before:
            self.at(beside, access)

    def part_of(self, memory: Memory, lanes: Lanes, part: int, more: Value | None = None) -> Place:
        """Where lanes are in a part of a memory, or `more` parts further on."""
        value = self.plus(lanes.value, part * self.threads)
        if more is not None:
            value = self.b(math.Add(value, self.times(more, self.threads)))
        if memory.start is not None:
            value = self.b(math.Add(memory.start, value))
        return Place(memory, value, lanes.mask, 1, single=True)

    def touch(self, memory: Memory, shift: int, access: Callable[[Place], None]) -> None:
        data = self.some(2) + bytes(HALF - 2) + bytes([shift, NO_TERM])
        self.at(self.place(memory, data, single=True), access)

    def at(self, place: Place, access: Callable[[Place], None]) -> None:
        self.meet()
        access(place)

    def around(self, *styles: int) -> AbstractContextManager[object]:
        """Build in nothing, in a branch or in a loop."""
        style = self.choices.of(styles)
        return nullcontext() if style == 0 else self.taken() if style == 1 else self.turned()

    @contextmanager
    def taken(self, condition: Value | None = None) -> Iterator[None]:
        """Build in a branch: if nothing else is said, it is taken."""
        if condition is None:
            condition = self.compare(Predicate.LT, self.parameter(0), 1)
        branch = self.b.insert(If(condition, [i32]))
        total = self.total
        with self.within(branch.then):
            yield
        self.total = total
        with self.within(branch.otherwise):
            pass
        self.total = branch.results[0]

    @contextmanager
    def turned(self) -> Iterator[Value]:
        """Build in a loop of two turns, given the number of the turn."""
        loop = For(self.constant(0), self.bound(2), self.constant(1), [self.total])
        self.b.insert(loop)
        with self.within(loop.body):
            number, self.total = loop.body.arguments
            yield number
        self.total = loop.results[0]

    def hand_on(self) -> None:
        """A write and a read that follow each other, or chase each other from turn to turn."""
        choices = self.choices
        memory = choices.of(self.memories[-2:])
        further = bytes([choices.below(3), 0, choices.below(4), *self.some(2)])
        uses = choices.of(((True, False), (False, True), (True, False, True), (False, True, True)))
        for writes in uses:
            data = self.some(HALF) + bytes([choices.below(3)]) + further
            place = self.place(memory, data, single=writes)
            self.places.append((place, data))
            self.meet()
            (self.write if writes else self.read)(place)

    def beside(self) -> None:
        """A write or read where none, one or some turns of a loop have been, or will be."""
        choices = self.choices
        writes = choices.flag()
        memory = choices.of(self.memories[-2:])
        data = self.some(HALF) + bytes([choices.of((1, 2, 5, 0)), NO_TERM, *self.some(HALF - 2)])
        place = self.place(memory, data, single=writes)
        self.meet()
        (self.write if writes else self.read)(place)

    def write(self, place: Place) -> None:
        value = self.telling(place.type)
        self.b.insert(metal.Store(place.memory.base, place.offset, value, place.mask))

    def read(self, place: Place) -> None:
        other = None if place.mask is None else self.telling(place.type)
        load = metal.Load(place.memory.base, place.offset, place.mask, other, result=place.type)
        self.add_up(self.b(load))

    def atomic(self, asked: bool) -> None:
        """An update that is asked for the old element, which is of one thread; or an update of any
        element, in a way that may come in any order."""
        place = self.some_place(single=asked)
        if place.memory.dtype is not i32 or place.width > 1:
            place = place._replace(width=1)
            self.meet()
            (self.write if asked else self.read)(place)
            return
        self.meet()
        base, choices = place.memory.base, self.choices
        if not asked and choices.flag(4):
            self.add_up(self.b(metal.AtomicLoad(base, place.offset)))
            return
        kind = choices.of(_KINDS if asked else _COMMUTING)
        value = self.telling(i32)
        if place.mask is None:
            old = self.b(metal.Atomic(kind, base, place.offset, value))
        else:
            branch = self.b.insert(If(place.mask, [i32]))
            with self.b.inside(branch.then):
                self.b.insert(Yield([self.b(metal.Atomic(kind, base, place.offset, value))]))
            with self.b.inside(branch.otherwise):
                self.b.insert(Yield([value]))
            (old,) = branch.results
        if asked:
            self.add_up(old)
        if choices.flag():
            self.atomic(choices.flag())

    def scalar(self) -> None:
        """A scalar to make places of: of all threads, or not, made of control flow or not."""
        choices = self.choices
        self.left -= choices.flag()
        style = choices.below(8)
        term = self.term(choices)
        if style == 0:
            number = choices.of((1, 2, 0, 3))
            self.terms.append(Term(self.parameter(number), number, number))
        elif style == 1 and term is not None and term.least >= 0:
            odd = self.b(math.And(term.value, self.constant(1)))
            self.terms.append(Term(odd, 0, 1, term.alike))
        elif style == 2 and term is not None:
            wrapped = self.b(math.Cast(self.times(term.value, 128), u8))
            self.terms.append(Term(self.b(math.Cast(wrapped, i32)), 0, 128, term.alike))
        elif style == 3 and term is not None and term.alike:
            self.terms.append(self.chosen(self.compare(choices.of(list(Predicate)), term.value, 1)))
        elif style == 4:
            upper = self.b(math.And(choices.of((self.lane, self.simdgroup)), self.constant(1)))
            loop = For(self.constant(0), upper, self.constant(1), [self.constant(0)])
            self.b.insert(loop)
            with self.b.inside(loop.body):
                self.b.insert(Yield([self.plus(loop.body.arguments[1], 1)]))
            self.terms.append(Term(loop.results[0], 0, 1, alike=False))
        elif style == 5:
            half = self.b(math.Shr(self.lane, self.constant(4)))
            self.terms.append(Term(half, 0, 1, alike=False))
        else:
            self.terms.append(self.chosen(self.of_some_threads())._replace(alike=False))

    def look_up(self) -> None:
        """A number in memory that places are made of, and that one thread changes then."""
        memory = self.choices.of(self.memories)
        self.meet()
        at = self.constant(0) if memory.start is None else memory.start
        found = self.b(metal.Load(memory.base, at, result=memory.dtype))
        number = found if memory.dtype is i32 else self.b(math.Cast(found, i32))
        low = self.b(math.And(number, self.constant(1)))
        # In a `while`, other threadgroups may write what is of a device.
        alike = memory.start is None or not self.whiles
        self.terms.append(Term(low, 0, 1, alike))
        self.access()
        first = self.compare(Predicate.EQ, self.thread, 0)
        self.meet()
        following = self.b(math.Add(found, self.constant(1, memory.dtype)))
        self.b.insert(metal.Store(memory.base, at, following, first))

    def chosen(self, condition: Value) -> Term:
        """0 or 1, as a branch decides."""
        branch = self.b.insert(If(condition, [i32]))
        for region, number in zip(branch.regions, (0, 1), strict=True):
            with self.b.inside(region):
                self.b.insert(Yield([self.constant(number)]))
        return Term(branch.results[0], 0, 1)

    def of_some_threads(self) -> Value:
        style = self.choices.below(3)
        if style == 0:
            return self.compare(Predicate.LT, self.lane, 16)
        if style == 1:
            return self.compare(Predicate.EQ, self.simdgroup, 0)
        return self.compare(Predicate.GE, self.thread, 16)

    # Control flow.

    @contextmanager
    def within(self, region: Region, yields: Sequence[Value] = ()) -> Iterator[None]:
        """Build in a region that carries what has been read, and other values."""
        with self.scoped(region):
            yield
            self.b.insert(Yield([self.total, *yields]))

    def some_items(self, depth: int) -> None:
        style = self.choices.below(4)
        if style == 1:
            self.access()
        elif style > 1:
            if self.choices.flag(3):
                self.scalar()
            self.hand_on()
        for _ in range(self.choices.of((1, 1, 2) if style < 2 else (0, 1))):
            self.item(depth + 1)

    def bound(self, number: int) -> Value:
        style = self.choices.below(4)
        if style == 2:
            return self.parameter(number)
        if style == 3:
            return self.plus(self.parameter(number - 2), 2)
        return self.constant(number)

    def count(self, depth: int) -> None:
        """A loop of few turns, which may carry memories in turns."""
        choices = self.choices
        memories = self.some_memories()
        step = choices.of((1, 1, 2, 3, -1, 1, -2))
        turns = choices.of((2, 3, 2, 1, 3, 0))
        if choices.below(4):  # mostly until each memory has gone by each name
            turns = max(turns, len(memories))
        first = choices.of((0, 0, 1, 2)) if step > 0 else choices.of((3, 2)) * -step
        end = first + turns * step
        short = choices.below(abs(step)) if turns else 0  # of a whole last step
        end += -short if step > 0 else short
        lower, upper = self.bound(first), self.bound(end)
        if choices.flag(4):  # as long as another is
            upper = self.plus(lower, end - first)
        initial = [self.total, *[m.base for m in memories]]
        op = self.b.insert(For(lower, upper, self.constant(step), initial))
        number, total, *names = op.body.arguments
        order = choices.of((1, 1, 0, 2)) if names else 0
        turned = [*names[order:], *names[:order]]
        if names and choices.flag(8):
            turned[0] = turned[-1]
        before = self.total
        last = first + (max(turns, 1) - 1) * step
        with self.within(op.body, turned):
            self.total = total
            self.rename(memories, names)
            self.terms.append(Term(number, min(first, last), max(first, last)))
            if names and choices.below(3):
                self.pass_on(self.memories[-len(names) :])
            else:
                self.some_items(depth)
        self.total = op.results[0] if op.results else before
        self.rename(memories, op.results[1:])

    def pass_on(self, memories: Sequence[Memory]) -> None:
        """A read and a write, each of one of some memories that go by other names in each turn."""
        self.left -= 1
        for access in (self.read, self.write)[:: self.choices.of((1, -1))]:
            self.touch(self.choices.of(memories), 0, access)

    def some_memories(self) -> list[Memory]:
        """A few memories of one type, if there is room; seldom one of them twice."""
        choices = self.choices
        shared = [m for m in self.memories if m.start is None]
        if not shared or choices.flag():
            return []
        # Of four, one may be written and read two turns apart, and nothing be touched in between.
        several, one = choices.of((2, 4, 3, 4)), choices.of(shared[-2:])
        alike = [m for m in shared if m.base.type is one.base.type]
        while len(alike) < several and self.has_room(one.base.type_as(Threadgroup).bytes):
            base = self.b(metal.Alloc(one.base.type))
            self.fill(replace(one, base=base))
            alike.append(self.memories[-1])
        if len(alike) < several:
            return []
        twice = [alike[-1]] if choices.flag(8) else []
        return [*twice, *alike[-several + len(twice) :]]

    def rename(self, memories: Sequence[Memory], names: Sequence[Value]) -> None:
        """Memories go by other names, and may be by their old ones as well."""
        both = zip(memories, names, strict=True)
        named = [replace(m, base=name) for m, name in both]
        if memories and not self.choices.flag(4):
            self.memories = [m for m in self.memories if m not in memories]
        self.memories = [*self.memories, *named]

    def repeat(self, depth: int) -> None:
        """A loop whose condition may read, too."""
        limit = self.choices.of((2, 1, 3))
        op = self.b.insert(While([self.total, self.constant(0)]))
        total, number = op.condition.arguments
        self.whiles += 1
        with self.scoped(op.condition):
            self.total = total
            self.terms.append(Term(number, 0, limit))
            if self.choices.flag():
                # What is read there cannot be carried on: so it is written.
                place = self.some_place(single=True)
                self.meet()
                self.write(place)
            more = self.compare(Predicate.LT, number, limit)
            self.b.insert(Yield([more]))
        total, number = op.body.arguments
        with self.b.inside(op.body):
            following = self.plus(number, 1)
        with self.within(op.body, [following]):
            self.total = total
            self.terms.append(Term(number, 0, limit - 1))
            self.some_items(depth)
        self.whiles -= 1
        self.total = op.results[0]

    def branch(self, depth: int) -> None:
        """A branch that all threads take alike, as the turn says."""
        choices = self.choices
        term = self.term(choices)
        decides = term.value if term is not None and term.alike else self.parameter(1)
        condition = self.compare(choices.of(list(Predicate)), decides, choices.of((1, 0, 2)))
        op = self.b.insert(If(condition, [i32]))
        total = self.total
        for region in op.regions:
            with self.within(region):
                self.total = total
                if region is op.then or choices.flag():
                    self.some_items(depth)
        self.total = op.results[0]

    def apart(self) -> None:
        """An access, or an update in place, of threads that have parted ways."""
        self.left -= 1
        style = self.choices.below(3)
        by_turns = self.choices.flag()
        if by_turns:
            place = self.place_of_one()
        elif style == 2:  # analysis must see that the elements are a thread's own: no barrier fits
            place = self.own_place(self.choices.of(self.memories[-2:]))
        else:
            place = self.some_place(single=style != 1)
        condition = place.mask if place.mask is not None else self.of_some_threads()
        place = place._replace(mask=None)
        self.meet()
        op = self.b.insert(If(condition, [i32]))
        total = self.total
        with self.within(op.then):
            if style:
                self.read(place)
            if style != 1:
                self.write(place)
        self.total = total
        with self.within(op.otherwise):
            pass
        self.total = op.results[0]

    def each(self) -> None:
        """What threads write or read of some parts, in any order, or both after each other: at
        times of more or fewer parts, in the same places."""
        choices = self.choices
        self.left -= 1
        memory, reads = choices.of(self.memories[-2:]), choices.flag()
        data = self.some(HALF)
        self.each_of(memory, reads, data)
        if choices.below(3):
            self.each_of(memory, not reads, data if choices.below(3) else self.some(HALF))

    def each_of(self, memory: Memory, reads: bool, data: bytes) -> None:
        which = Choices(data)
        number = self.choices.of((2, 4, 3) if memory.size >= 4 * self.threads else (2,))
        if memory.size < number * self.threads or number * memory.dtype.bytes > 16:
            number = 1
        apart = min(which.of((2, 1, 4, 2)), memory.size // self.threads)  # of neighbours
        if not reads:
            apart = max(apart, number)
        room = memory.size // self.threads - max(number, apart + 1)
        type_ = registers(number, memory.dtype)
        self.meet()
        op = self.b.insert(metal.Foreach(number, [type_] if reads else []))
        with self.b.inside(op.body):
            part = op.body.arguments[0]
            at = self.thread
            if which.flag():
                at = self.b(math.Xor(at, self.constant(which.of((1, 16, self.threads // 2)))))
            if which.below(4):
                at = self.b(math.Add(self.times(at, apart), part))
            else:
                at = self.b(math.Add(at, self.times(part, self.threads)))
            at = self.plus(at, min(which.of((0, 0, 1, 2, 4)), max(room, 0)) * self.threads)
            if memory.start is not None:
                at = self.b(math.Add(memory.start, at))
            if reads:
                found = self.b(metal.Load(memory.base, at, result=memory.dtype))
                self.b.insert(Yield([found]))
            else:
                self.b.insert(metal.Store(memory.base, at, self.telling(memory.dtype)))
                self.b.insert(Yield([]))
        if reads:
            self.add_up(op.results[0])
