"""Small thread programs that load elements only to store them where all threads find them: for
what a GPU may copy while threads do other things, and where it has to be waited for.

    orders("async-copies{target=nvidia-h200},insert-barriers,wait-for-copies", program)

They are loaded and stored at once, or with something in between; in parts, by one loop or two; or
where a branch says so.  Something else may be done before they are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from iris.ir import math, metal
from iris.ir.control import For, If, Yield
from iris.ir.core import Value
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.metal import registers
from iris.ir.types import ElementType
from iris.testing.choices import Choices
from iris.testing.exchange_places import Lanes, Memory, Place
from iris.testing.exchanges import BYTES, Exchanges
from iris.tools.replay import Array, Program

MOST_PARTS = 4


def programs() -> st.SearchStrategy[Program]:
    """Programs of a few accesses, and many bring elements from an array."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda x: _Fetches(Choices(x)).made())


class _Fetches(Exchanges):
    parted = False  # whether some threads are elsewhere

    def apart(self) -> None:
        self.parted = True
        super().apart()
        self.parted = False

    def item(self, depth: int) -> None:
        if depth < 2 and not self.parted and self.choices.flag(8):
            self.ahead()
        else:
            super().item(depth)

    def ahead(self) -> None:
        """Bring values that are read only later, maybe in a branch or a loop."""
        choices = self.choices
        shared = [m for m in self.memories[-3:] if m.start is None]
        if not shared:
            self.access()
            return
        self.left -= 1
        memory, *others = shared
        place = self.whole(memory)
        if others and choices.flag():
            self.parts_ahead([*others, memory])
        else:
            self.meet()
            self.bring(place)
            self.memories, kept = others or self.memories, self.memories
            with self.taken(self.condition()) if choices.flag() else self.around(0, 1, 2):
                self.hand_on()
            self.memories = kept
        self.meet()
        self.read(place)

    def write(self, place: Place) -> None:
        """Write elements of an array, most often; else what tells of the access."""
        choices = self.choices
        memory = place.memory
        if memory.start is not None or self.parted or not choices.below(4):
            super().write(place)
        elif choices.flag(3):
            self.fetch_parts(memory)
        elif choices.flag(4):
            self.fetch_two(place)
        else:
            self.bring(place)

    def pass_on(self, memories: Sequence[Memory]) -> None:
        """What a loop does that brings in each turn what it reads in a later one."""
        choices = self.choices
        self.left -= 1
        if choices.flag():
            self.parts_ahead(memories)
            return
        write, read = self.write, self.read
        uses = choices.of(
            ((write, read), (read, write), (write, read, write), (read, write, write))
        )
        for access in uses:
            place = self.whole(choices.of(memories))
            self.at(place, access)

    def parts_ahead(self, memories: Sequence[Memory]) -> None:
        """Bring parts, before a loop that reads others."""
        to, of = memories[-1], memories[0]
        self.meet()
        self.fetch_parts(to)
        self.meet()
        self.sweep(of)

    def sweep(self, memory: Memory) -> None:
        """Read parts of a memory in a loop of few turns, that counts from anywhere by any step."""
        choices = self.choices
        first, step = choices.of(((0, 1), (1, 1), (0, 2)))
        end = first + choices.of((2, MOST_PARTS)) * step
        bounds = (self.constant(n) for n in (first, end, step))
        loop = self.b.insert(For(*bounds, [self.total]))
        with self.within(loop.body):
            number, self.total = loop.body.arguments
            part = self.b(math.And(number, self.constant(1)))
            self.read(self.part_of(memory, Lanes(self.thread, self.threads), 0, part))
        self.total = loop.results[0]

    def put(self, place: Place, value: Value) -> None:
        """Store what has been loaded, at times after something else."""
        if self.choices.flag(4):
            self.access()
            self.meet()
        self.b.insert(metal.Store(place.memory.base, place.offset, value, place.mask))

    def bring(self, place: Place) -> None:
        """Load and store.  Each thread may have written what it loads, or write it then."""
        choices = self.choices
        if choices.flag(3):
            self.put(place, self.chosen_load(place.type))
            return
        source = self.where(self.source(place.type), place.type)
        if choices.flag(4):
            super().write(source)
        self.put(place, self.load(source))
        if choices.flag(3):
            with self.around(0, 1):
                super().write(source)

    def chosen_load(self, type_: ElementType) -> Value:
        """A load under a condition that all threads have alike, or else zeros."""
        source = self.source(type_)
        branch = self.b.insert(If(self.condition(), [type_]))
        loading, other = branch.regions[:: self.choices.of((1, 1, 1, -1))]
        with self.b.inside(loading):
            self.b.insert(Yield([self.load(self.where(source, type_))]))
        with self.b.inside(other):
            self.b.insert(Yield([self.nothing(type_)]))
        found: Value = branch.results[0]
        return found

    def fetch_two(self, place: Place) -> None:
        """Two loads in one branch, and their stores, between which the first may be read."""
        choices = self.choices
        other = self.place(choices.of(self.memories[-2:]), self.some(12), single=True)
        if other.memory.start is not None:
            other = place
        places = [place, other]
        types = [one.type for one in places]
        sources = [self.source(type_) for type_ in types]
        branch = self.b.insert(If(self.condition(), types))
        with self.b.inside(branch.then):
            both = zip(sources, types, strict=True)
            found = [self.load(self.where(source, type_)) for source, type_ in both]
            self.b.insert(Yield(found))
        with self.b.inside(branch.otherwise):
            self.b.insert(Yield([self.nothing(type_) for type_ in types]))
        for one, value in zip(places, branch.results, strict=True):
            self.meet()
            self.b.insert(metal.Store(one.memory.base, one.offset, value, one.mask))
            if choices.flag():
                self.meet()
                self.read(place)

    def fetch_parts(self, memory: Memory) -> None:
        """Parts that each thread has, loaded by one loop and stored by another one: mostly each
        where it belongs."""
        choices = self.choices
        size = memory.dtype.bytes
        widths = [w for w in (4, 2, 1) if 4 <= w * size <= metal.VECTOR_BYTES]
        width, count = choices.of(widths), choices.of((2, MOST_PARTS))
        if count * width * self.threads > memory.size:
            width = min(widths)
        if count * width * self.threads > memory.size:
            self.meet()
            self.bring(self.whole(memory))
            return
        type_, whole = registers(width, memory.dtype), registers(count * width, memory.dtype)
        source = self.source(type_)
        loads = self.b.insert(metal.Foreach(count, [whole]))
        with self.b.inside(loads.body):
            number = loads.body.arguments[0]
            self.b.insert(Yield([self.load(self.where(source, type_, number))]))
        if choices.flag(4):
            self.access()
        self.meet()
        if choices.flag(6):  # in parts of another size
            parted = choices.of([w for w in (1, 2, 4) if w * size <= metal.VECTOR_BYTES])
            count, width = max(1, count * width // parted), min(parted, count * width)
        stores = self.b.insert(metal.Foreach(count, []))
        with self.b.inside(stores.body):
            number = stores.body.arguments[0]
            is_other = count > 1 and choices.flag(4)
            taken = self.b(math.Xor(number, self.constant(1))) if is_other else number
            part = self.b(metal.Slice(loads.results[0], taken, registers(width, memory.dtype)))
            place_of = self.plus_parts(self.thread, number)
            self.b.insert(metal.Store(memory.base, self.times(place_of, width), part))
            self.b.insert(Yield([]))

    def whole(self, memory: Memory) -> Place:
        """As many neighbours for each thread as one copy brings."""
        most = min(4 // memory.dtype.bytes, memory.size // self.threads)
        width = 1 << max(1, most).bit_length() - 1
        return Place(memory, self.times(self.thread, width), None, width, single=True)

    def plus_parts(self, value: Value, number: Value) -> Value:
        return self.b(math.Add(value, self.times(number, self.threads)))

    def source(self, type_: ElementType) -> Memory:
        """An array to load from: one that others may write, or a new one."""
        dtype = element_type(type_).element
        known = [m for m in self.memories if m.start is not None and m.dtype is dtype]
        if not known and self.choices.flag(3):
            self.arrays()
            known = [m for m in self.memories[-2:] if m.start is not None and m.dtype is dtype]
        if known and self.choices.below(3):
            return known[-1]
        size = MOST_PARTS * 4 * self.threads
        recipe = Array(dtype, (size * self.programs,), 1 + self.choices.below(64))
        made = self.argument(recipe, noalias=True)
        return Memory(made, dtype, size, self.times(self.program, size))

    def where(self, source: Memory, type_: ElementType, part: Value | None = None) -> Place:
        """What belongs to a thread, of all threads or some."""
        choices = self.choices
        width = metal.count_of(type_)
        lanes = self.lanes(choices, self.threads)
        value = lanes.value if lanes.size <= self.threads else self.thread
        mask = lanes.mask
        if part is not None:
            value = self.plus_parts(value, part)
            # Of an array that has fewer, the first are taken again.
            value = self.b(math.And(value, self.constant(source.size // width - 1)))
        at = self.b(math.Add(source.start, self.times(value, width)))
        if mask is None and choices.flag(4):
            mask = self.compare(Predicate.LT, self.thread, choices.of((5, 40)))
        return Place(source, at, mask, width, single=True)

    def load(self, place: Place) -> Value:
        """Load elements, mostly zeros where the mask is false."""
        other = None
        if place.mask is not None:
            other = self.telling(place.type) if self.choices.flag(4) else self.nothing(place.type)
        memory = place.memory
        return self.b(metal.Load(memory.base, place.offset, place.mask, other, result=place.type))

    def condition(self) -> Value:
        """What all threads have alike: of a turn, if there is one."""
        term = self.term(self.choices)
        decides = term.value if term is not None and term.alike else self.parameter(1)
        predicate = self.choices.of((Predicate.LT, Predicate.GE))
        return self.compare(predicate, decides, self.choices.of((2, 1)))

    def nothing(self, type_: ElementType) -> Value:
        return self.b(Constant(0, type_))
