"""Where threads of small programs access memory.  An offset is a sum: a number that each thread has
for itself, such as its own, and numbers that all have in common, such as that of a turn.

Two accesses are often next to each other, or off by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import Func, Yield
from iris.ir.core import Level, Region, Value
from iris.ir.literal import encode
from iris.ir.math import Predicate
from iris.ir.metal import SIMDGROUP_WIDTH, Scope, registers
from iris.ir.types import DTYPES, DType, ElementType, Ptr, Threadgroup, i32, i64, u8
from iris.testing.choices import Choices
from iris.tools.replay import Array, Recipe, Scalar

PLACE_BYTES = 12  # that say where threads access memory: which of them, and where these are
HALF = PLACE_BYTES // 2
TERMS = (1, 1, 2, 1, 0)  # of an offset, that all threads have in common
NO_TERM = TERMS.index(0)
SHARED_BYTES = 32768  # that a threadgroup has on every GPU
ELEMENTS = (i32, i32, DTYPES["i16"], i32, u8, i32, i64, i32)


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory of a threadgroup, or a part of an array that is of one program."""

    base: Value
    dtype: DType
    size: int
    start: Value | None = None  # of the part


class Term(NamedTuple):
    """A scalar, and between which numbers it is."""

    value: Value
    least: int
    most: int
    alike: bool = True  # for all threads


class Lanes(NamedTuple):
    """A number from 0 to below `size`, which no two threads have that a mask is true for."""

    value: Value
    size: int
    mask: Value | None = None


class Place(NamedTuple):
    """Where each thread touches an element, or some neighbours."""

    memory: Memory
    offset: Value
    mask: Value | None
    width: int
    single: bool  # whether no two threads touch one element

    @property
    def type(self) -> ElementType:
        return registers(self.width, self.memory.dtype)


class Places:
    """Builds a program of accesses: the memory that there is, and where in it threads are."""

    def __init__(self, choices: Choices):
        self.choices = choices
        simdgroups = choices.of((2, 1, 2, 4))
        self.threads = SIMDGROUP_WIDTH * simdgroups
        self.programs = choices.of((1, 1, 2))
        self.function = Func("exchanging", Level.METAL, simdgroups=simdgroups)
        self.b = Builder(self.function.body)
        self.recipes: list[Recipe] = []
        self.constants: dict[tuple[int, DType], Value] = {}
        self.room = SHARED_BYTES
        self.memories: list[Memory] = []
        self.terms: list[Term] = []
        self.places: list[tuple[Place, bytes]] = []
        self.lane = self.b(metal.Lane())
        self.simdgroup = self.b(metal.Simdgroup())
        joined = choices.of((math.Add, math.Or, math.Add, math.Xor))  # of bits that are apart
        self.thread = self.b(joined(self.times(self.simdgroup, SIMDGROUP_WIDTH), self.lane))
        self.program = self.b(metal.ThreadgroupId(0))

    @contextmanager
    def scoped(self, region: Region) -> Iterator[None]:
        """Build in a region what cannot be used after it."""
        saved = self.memories, self.terms, self.places
        self.memories, self.terms, self.places = list(saved[0]), list(saved[1]), list(saved[2])
        with self.b.inside(region):
            yield
        self.memories, self.terms, self.places = saved

    # Values.

    def constant(self, number: int, dtype: DType = i32) -> Value:
        """A constant, made before everything else."""
        key = number, dtype
        if key not in self.constants:
            body = self.function.body
            b = Builder(body, body.first)
            self.constants[key] = b(math.Constant(number, dtype))
        return self.constants[key]

    def times(self, value: Value, factor: int) -> Value:
        if factor == 1:
            return value
        if factor > 0 and factor & (factor - 1) == 0 and self.choices.flag(4):
            return self.b(math.Shl(value, self.constant(factor.bit_length() - 1)))
        return self.b(math.Mul(value, self.constant(factor)))

    def plus(self, value: Value, number: int) -> Value:
        return self.b(math.Add(value, self.constant(number))) if number else value

    def compare(self, predicate: Predicate, x: Value, number: int) -> Value:
        return self.b(math.Compare(predicate, x, self.constant(number)))

    def parameter(self, number: int) -> Value:
        self.recipes.append(Scalar(i32, encode(number, i32)))
        return self.function.body.add_argument(i32, f"n{len(self.recipes)}")

    def argument(self, recipe: Array, *, noalias: bool) -> Value:
        self.recipes.append(recipe)
        return self.function.body.add_argument(
            Ptr(recipe.dtype, noalias=noalias, aligned=True), f"array{len(self.recipes)}"
        )

    # Memory.

    def allocate(self) -> None:
        """New memory of the threadgroup, filled: an allocation, or views of one, apart or not."""
        choices = self.choices
        style = choices.below(8)
        dtypes = [choices.of(ELEMENTS) for _ in range(2)]
        if choices.flag():
            dtypes[1] = dtypes[0]
        sizes = [self.threads * choices.of((4, 8, 4, 3, 8)) for _ in range(2)]
        spans = [n * d.bytes for n, d in zip(sizes, dtypes, strict=True)]
        if self.room < sum(spans) + 32:
            return
        if style < 6:
            spare = choices.of((0, 0, 1, 3))
            for _ in range((1, 1, 1, 2, 2, 3)[style]):
                if self.has_room(spans[0]):
                    base = self.b(metal.Alloc(Threadgroup(sizes[0] + spare, dtypes[0])))
                    self.fill(Memory(base, dtypes[0], sizes[0]))
            return
        self.room -= sum(spans)
        root = self.b(metal.Alloc(Threadgroup(sum(spans), u8)))
        self.fill(
            Memory(
                self.b(metal.View(0, root, Threadgroup(sizes[0], dtypes[0]))), dtypes[0], sizes[0]
            )
        )
        start = choices.of((spans[0], spans[0], 0, spans[0] // 2, spans[0] - 16))
        outer, skipped = root, 0
        if start and choices.flag():
            skipped = start // 2
            outer = self.b(metal.View(skipped, root, Threadgroup(sum(spans) - skipped, u8)))
        inner = self.b(metal.View(start - skipped, outer, Threadgroup(sizes[1], dtypes[1])))
        self.fill(Memory(inner, dtypes[1], sizes[1]))

    def has_room(self, size: int) -> bool:
        """Whether some bytes are left of the memory of the threadgroup, which then are taken."""
        if self.room < size + 32:
            return False
        self.room -= size + 32
        return True

    def unfilled(self, dtype: DType) -> Memory:
        """New memory of the threadgroup, an element for each thread."""
        return Memory(self.b(metal.Alloc(Threadgroup(self.threads, dtype))), dtype, self.threads)

    def arrays(self) -> None:
        """An array, or two names of one; each program has a part."""
        choices = self.choices
        dtype = choices.of(ELEMENTS[:4])
        size = 4 * self.threads
        start = self.times(self.program, size)
        recipe = Array(dtype, (size * self.programs,), 1 + choices.below(64))
        several = choices.below(3)
        base = self.argument(recipe, noalias=several != 1 and choices.flag())
        self.memories.append(Memory(base, dtype, size, start))
        if several:
            alias = len(self.recipes) - 1 if several == 1 else None
            other = Array(dtype, recipe.shape, None if alias is not None else 77, alias=alias)
            base = self.argument(other, noalias=False)
            self.memories.append(Memory(base, dtype, size, start))

    def fill(self, memory: Memory) -> None:
        self.meet()
        number = memory.size // self.threads
        loop = self.b.insert(metal.Foreach(number, []))
        with self.b.inside(loop.body):
            first = self.b(math.Mul(loop.body.arguments[0], self.constant(self.threads)))
            at = self.b(math.Add(first, self.thread))
            value = at if memory.dtype is i32 else self.b(math.Cast(at, memory.dtype))
            self.b.insert(metal.Store(memory.base, at, value))
            self.b.insert(Yield([]))
        self.memories.append(memory)

    def meet(self) -> None:
        self.b.insert(metal.Barrier(Scope.DEVICE))

    # Places.

    def lanes(self, choices: Choices, most: int) -> Lanes:
        """Which number each thread has, mostly its own."""
        threads, thread = self.threads, self.thread
        style = choices.of((0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 0, 9, 9, 10, 11, 12, 13, 14, 14))
        if style == 1:
            some = choices.below(self.threads // SIMDGROUP_WIDTH)
            return Lanes(self.lane, 32, self.compare(Predicate.EQ, self.simdgroup, some))
        if style == 2:
            mask = self.compare(Predicate.EQ, self.lane, choices.of((0, 31)))
            return Lanes(self.simdgroup, threads // SIMDGROUP_WIDTH, mask)
        if style == 3:
            return self.one(choices)
        if style == 4:
            last = choices.of((15, 7, 31))
            number = self.b(math.And(thread, self.constant(last)))
            return Lanes(number, last + 1, self.compare(Predicate.LE, thread, last))
        if style == 5:
            next_ = self.plus(thread, choices.below(2))
            mask = self.compare(Predicate.EQ, self.b(math.And(next_, self.constant(1))), 0)
            return Lanes(self.b(math.Shr(next_, self.constant(1))), threads // 2 + 1, mask)
        if style == 6:
            return Lanes(
                self.b(math.Xor(thread, self.constant(choices.of((1, 16, threads // 2, 5))))),
                threads,
            )
        if style == 7:
            return Lanes(self.b(math.Sub(self.constant(threads - 1), thread)), threads)
        if style == 8 and most >= 2 * threads:
            return Lanes(self.times(thread, 2), 2 * threads - 1)
        if style == 9:
            term = self.term(choices)
            by = choices.of((1, 32, threads // 2, -16, -1))
            turned = self.plus(thread, by)
            if term is not None and term.alike and choices.flag():
                turned = self.b(math.Add(thread, self.times(term.value, by)))
            return Lanes(self.b(math.And(turned, self.constant(threads - 1))), threads)
        if style == 12:
            some = choices.below(self.threads // SIMDGROUP_WIDTH)
            mask = self.compare(Predicate.EQ, self.simdgroup, some)
            term = self.term(choices)
            if term is None or not term.alike or choices.flag():
                return Lanes(self.b(math.Xor(self.lane, self.constant(32))), 64, mask)
            further = self.b(math.Add(self.lane, self.times(term.value, 32)))
            return Lanes(self.b(math.And(further, self.constant(63))), 64, mask)
        if style == 13:
            number = self.b(math.And(self.simdgroup, self.constant(1)))
            number = self.b(math.Add(self.times(number, 32), self.lane))
            first = self.compare(Predicate.LT, self.simdgroup, 2)
            return Lanes(number, min(threads, 64), first if threads > 64 else None)
        if style == 14:
            return self.columns(choices, most)
        if style == 10 and most >= 2 * threads:
            other = choices.of((1, 16))
            mask = self.compare(Predicate.EQ, self.b(math.And(thread, self.constant(other))), 0)
            return Lanes(self.b(math.Or(thread, self.constant(other))), threads, mask)
        if style == 11:
            term = self.term(choices)
            if term is not None:  # those before or from some number on
                predicate = choices.of((Predicate.LT, Predicate.GE))
                limit = self.b(math.Add(self.times(term.value, 8), self.constant(8)))
                return Lanes(thread, threads, self.b(math.Compare(predicate, thread, limit)))
        return Lanes(thread, threads)

    def columns(self, choices: Choices, most: int) -> Lanes:
        """A few neighbours, or every second one, of each row, in which there may be room for
        others."""
        threads, bits, apart = self.threads, choices.of((1, 2, 3)), choices.of((1, 1, 2))
        few = 1 << bits
        pitch = few * apart * choices.of((2, 1, 4, 8)) + choices.of((0, 0, 1))
        rows = self.b(math.Shr(self.thread, self.constant(bits)))
        if (size := (threads // few - 1) * pitch + (few - 1) * apart + 1) > most:
            return Lanes(self.thread, threads)
        column = self.b(math.And(self.thread, self.constant(few - 1)))
        row = self.times(rows, pitch)
        return Lanes(self.b(math.Add(row, self.times(column, apart))), size)

    def one(self, choices: Choices) -> Lanes:
        """One thread, or another one in each turn."""
        term = self.term(choices)
        number = self.constant(choices.of((0, 1, 31)))
        if term is not None and term.alike and choices.below(4):
            number = term.value
        return Lanes(self.constant(0), 1, self.b(math.Compare(Predicate.EQ, self.thread, number)))

    def some(self, count: int) -> bytes:
        return bytes([self.choices.below(256) for _ in range(count)])

    def own_place(self, memory: Memory) -> Place:
        """For each thread, the element of its number."""
        return self.place(memory, bytes([*bytes(HALF + 1), NO_TERM]), single=True)

    def place_of_one(self) -> Place:
        choices = self.choices
        data = self.some(PLACE_BYTES)
        memory = choices.of(self.memories[-2:])
        place = self.place(memory, data, single=True, one=self.one(choices))
        self.places.append((place, data))
        return place

    def term(self, choices: Choices) -> Term | None:
        """A scalar that is there, most often one of the latest."""
        if not self.terms:
            return None
        return self.terms[-1 - choices.of((0, 0, 0, 1, 0, 2)) % len(self.terms)]

    def place(
        self, memory: Memory, data: bytes, *, single: bool, one: Lanes | None = None
    ) -> Place:
        """A place that some bytes say, or some lanes; made again of the same, it is the same again,
        or another for which turns and branches decide."""
        which, sums = Choices(data[:HALF]), Choices(data[HALF:])
        shift = sums.below(256)  # the first, for others to differ in it alone
        sizes = [w for w in (1, 2, 4) if w * memory.dtype.bytes <= 16]
        width = which.of((1, 1, which.of(sizes)))
        room = memory.size // width
        if room < self.threads:
            width, room = 1, memory.size
        lanes = self.lanes(which, room) if one is None else one
        if lanes.size > room:
            lanes = Lanes(self.thread, self.threads)
        count = lanes.size
        if not single and one is None and which.flag(4):  # all threads the same
            lanes, count = Lanes(self.constant(0), 1), 1
        value, first, left, threads = lanes.value, 0, room - count, self.threads
        for _ in range(sums.of(TERMS)):
            term = self.term(sums)
            factor = sums.of((threads, -threads, 32, threads, count, 1, count // 2 or 1, -threads))
            if term is None or (single and not term.alike and abs(factor) < count):
                continue
            if single and not term.alike and not (first == 0 and value is lanes.value):
                continue
            spread = (term.most - term.least) * abs(factor)
            if spread > left:
                continue
            left -= spread
            first -= min(term.least * factor, term.most * factor)
            if factor < 0 and sums.flag():
                value = self.b(math.Sub(value, self.times(term.value, -factor)))
            else:
                value = self.b(math.Add(value, self.times(term.value, factor)))
        shifts = [n for n in self.shifts(count, left) if n <= left]
        value = self.plus(value, first + shifts[shift % len(shifts)])
        value = self.times(value, width)
        if memory.start is not None:
            value = self.b(math.Add(memory.start, value))
        if sums.flag(6):
            value = self.b(math.Cast(value, i64))
        return Place(memory, value, lanes.mask, width, single)

    def shifts(self, count: int, left: int) -> Sequence[int]:
        """By how much accesses of a number of elements are after others, mostly next to them."""
        some = [n * self.threads for n in (0, 1, 2, 1, 0, 3, 1, 2)]
        return [*some, 0, count - 1, left, count // 2, 32, 1, count, 2, 4, 8]

    def some_place(self, *, single: bool) -> Place:
        """A place, often where threads have been before, or seem to have been."""
        choices = self.choices
        memory = choices.of(self.memories[-3:])
        data = self.some(PLACE_BYTES)
        if self.places:
            style = choices.below(12)
            place, known = self.places[-1 - choices.below(min(len(self.places), 3))]
            if style < 3 and (place.single or not single):
                return self.changed(place, single) if style else place
            if style < 8:  # of other threads, as often as not some way from there
                shift = data[HALF : HALF + 1] if choices.below(4) else known[HALF : HALF + 1]
                data = data[:HALF] + shift + known[HALF + 1 :]
            elif style == 8:
                data = known[:HALF] + data[HALF:]
            elif style == 9:
                data = known
            if style < 10:
                memory = choices.of((place.memory, place.memory, memory))
        place = self.place(memory, data, single=single)
        self.places.append((place, data))
        return place

    def changed(self, place: Place, single: bool) -> Place:
        """A place of some more or fewer of the threads, or of more or fewer neighbours."""
        style = self.choices.below(4)
        memory, width, offset = place.memory, place.width, place.offset
        if place.mask is not None and not single and style:
            return place._replace(mask=None, single=False)
        if style == 1 and width > 1:
            return place._replace(width=width // 2)
        if style < 2 and width * memory.dtype.bytes < 16 and offset.type is i32:
            odd = self.b(math.And(offset, self.constant(width)))
            mask = self.compare(Predicate.EQ, odd, 0)
            if place.mask is not None:
                mask = self.b(math.And(mask, place.mask))
            return place._replace(width=2 * width, mask=mask)
        if place.mask is None:
            limit = self.constant(16)
            if self.terms and style == 2:
                limit = self.times(self.terms[-1].value, 16)
            return place._replace(mask=self.b(math.Compare(Predicate.LT, self.thread, limit)))
        return place
