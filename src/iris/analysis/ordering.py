"""Where barriers are needed: between accesses to memory that threads make in no order.

Two accesses conflict if all of this holds:

1. they may touch one byte, so their `windows` overlap, and they are not to different memories that
   a loop carries in turns;
2. one of them writes, so an array that nothing writes needs no order;
3. they are not atomics that may come in any order;
4. they may be of different threads.

They are of one thread if one is a plain store, the other is at the same offset, computed from the
same values in the same iteration of each loop, every thread that makes the other makes the store,
and no two threads store to the same element (`thread_numbers`).  A copy is such a store for what
comes after it, which waits for it.  Iterations of a `foreach` run in any order.  So the same holds
for two `foreach` with equal counts, if the offsets differ only in the loop index, and accesses of
different iterations need no order.

A barrier goes before the second of two accesses, so that it orders as many pairs as can be, and
stands in the innermost region that has both: before a loop or a branch rather than in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

from iris.analysis.carried_memory import CarriedMemory, MemoryRange
from iris.analysis.thread_numbers import ThreadNumbers
from iris.analysis.windows import Window, Windows
from iris.ir import metal
from iris.ir.control import For, Func, If, While
from iris.ir.core import Facet, Op, Region, Resource, Value
from iris.ir.declare import Access
from iris.ir.effects import may_alias, writes
from iris.ir.kinds import AtomicKind
from iris.ir.types import Ptr, Threadgroup
from iris.ir.waiting import is_volatile

# What barriers order: nothing, the memory of the threadgroup, all memory.
NOTHING, SHARED, ALL = range(3)
ATOMICS = metal.Atomic, metal.AtomicLoad, metal.CompareExchange
ELEMENTS = metal.Load, metal.Store, metal.Copy, *ATOMICS  # what touches elements at an offset
COMMUTING = {k for k in AtomicKind if k is not AtomicKind.EXCHANGE}


def barriers(function: Func, windows: Windows) -> dict[Op, metal.Scope]:
    """The ops before which a barrier is missing, with its scope; `windows` are the function's."""
    alone = function.simdgroups == 1
    planner = _Planner(function, windows)
    planner.region(function.body)
    shared = metal.Scope.SIMDGROUP if alone else metal.Scope.THREADGROUP
    return {op: metal.Scope.DEVICE if n == ALL else shared for op, n in planner.planned.items()}


def conflicts(function: Func, windows: Windows) -> dict[Op, list[tuple[Op, Op]]]:
    """For each op before which a barrier is missing, accesses that it must order: of each two, one
    comes before the barrier, the other after it."""
    planner = _Planner(function, windows)
    planner.region(function.body)
    return {op: planner.pairs(*sides) for op, sides in planner.sides.items()}


@dataclass(frozen=True)
class AccessAddress:
    """The address of an access in each thread, as it was computed."""

    address: tuple[object, ...]  # equal for those that compute the same from the same
    mask: int | None
    values: frozenset[Value]  # from what


#: Loops around an access, each with True if it is seen from outside, False if from a later turn.
Seen: TypeAlias = tuple[tuple[Op, bool], ...]


@dataclass(slots=True, eq=False)
class Touch:
    """An access to memory, never changed."""

    op: Op
    part: MemoryRange  # of the memory as it is first named, or a loop carries it
    writes: bool
    atomic: bool
    is_still: bool = True  # the op would compute the same address now
    seen: Seen = ()

    @property
    def memory(self) -> Value | Resource:
        return self.part.memory

    def seen_as(self, part: MemoryRange, is_still: bool, seen: Seen) -> Touch:
        """The access as it is seen from elsewhere."""
        return Touch(self.op, part, self.writes, self.atomic, is_still, seen)

    @property
    def strength(self) -> int:
        """What a barrier must order, to order this."""
        memory = self.memory
        return SHARED if isinstance(memory, Value) and isinstance(memory.type, Threadgroup) else ALL


@dataclass
class Flow:
    """What a piece of program means to what comes before and after it."""

    first: list[Touch] = field(default_factory=list)  # reached from its start without a barrier
    last: list[Touch] = field(default_factory=list)  # from which its end is reached without one
    strength: int = NOTHING  # what every way through it orders


def _is_atomic(op: Op) -> bool:
    return isinstance(op, (*ATOMICS, metal.Fence)) or is_volatile(op)


def _arrays(touched: Iterable[Value | Resource]) -> list[Value]:
    return [v for v in touched if isinstance(v, Value) and isinstance(v.type, Ptr)]


def _in_any_order(a: Touch, b: Touch) -> bool:
    """Whether two atomics give the same result in any order.

    That is so for a load whose value a compare-exchange checks again, for an op of all threads with
    itself in one iteration of the loops around it, and for ops that commute, if their old elements
    are unused.
    """
    if _is_checked(a.op) or _is_checked(b.op):
        return True
    if a.op is b.op and all(_repeats_alone(loop, a.op) for loop, _ in (*a.seen, *b.seen)):
        return True
    kinds = [op.kind for op in (a.op, b.op) if isinstance(op, metal.Atomic) and not op.result.users]
    return len(kinds) == 2 and kinds[0] == kinds[1] and kinds[0] in COMMUTING


def _is_checked(op: Op) -> bool:
    """Whether a compare-exchange checks the loaded value again, in a loop until it is there."""
    return isinstance(op, metal.AtomicLoad) and all(isinstance(u, While) for u in op.result.users)


def _repeats_alone(loop: Op, op: Op) -> bool:
    """Whether the turns of a loop are those of an op that belongs to it: of a `foreach`, or the
    tries of an exchange."""
    tries = isinstance(op, metal.CompareExchange) and op.parent_op is loop
    return tries or isinstance(loop, metal.Foreach)


def _stand(op: Op) -> Region | None:
    """The region in which the op runs as often as the region does, but for `foreach`."""
    region = op.parent
    while region is not None and isinstance(region.owner, metal.Foreach):
        region = region.owner.parent
    return region


def _is_within(op: Op, region: Region | None) -> bool:
    here: Op | None = op
    while here is not None and here.parent is not region:
        here = here.parent_op
    return here is not None


class _Planner:
    def __init__(self, function: Func, windows: Windows):
        self.planned: dict[Op, int] = {}  # before which op a barrier goes, and what it orders
        # And the accesses before it that it must order, and those after it.
        self.sides: dict[Op, tuple[list[Touch], list[Touch]]] = {}
        self.alone = function.simdgroups == 1
        self.numbers = _Numbers()
        self.windows = windows
        self.thread_numbers = ThreadNumbers(windows)
        self.memories = CarriedMemory()
        self.touching = [op for op in function.walk() if not op.touches_nothing]
        # The arrays that some op writes.
        self.written = _arrays(writes([e for op in self.touching for e in op.effects()]))
        self.flows: dict[Op, Flow | None] = {}  # what ops mean; None: nothing
        self._windows: dict[Touch, Window | None] = {}

    @cached_property
    def plain(self) -> list[Value]:
        """The arrays that ops other than atomics touch."""
        plain = [op for op in self.touching if not _is_atomic(op)]
        return _arrays(effect.resource for op in plain for effect in op.effects())

    def region(self, region: Region, entry: Iterable[Touch] = ()) -> Flow:
        """Plan the barriers in a region, given the accesses that may come right before it."""
        flow = Flow(last=list(entry))
        latest: Op | None = None  # before which the latest barrier was planned,
        behind: list[Touch] = []  # and the accesses before it that it does not order
        for op in region:
            if op.touches_nothing and not op.regions:
                continue
            if op not in self.flows:
                self.flows[op] = self._find(op)
            here = self.flows[op]
            if here is None:
                continue
            if op in self.planned:
                self._then(flow, Flow(strength=self.planned[op]))
                latest, behind = op, flow.last
            clash = self.clash(flow.last, here.first)
            if clash and latest is not None and all(t in behind for t in clash):
                self.planned[latest] = ALL  # rather than one barrier more
                earlier, later = self.sides[latest]
                self.sides[latest] = [*earlier, *clash], [*later, *here.first]
                return self.region(region, entry)
            if clash:
                self.planned[op] = max(t.strength for t in clash)
                self.sides[op] = clash, here.first
                self._then(flow, Flow(strength=self.planned[op]))
                latest, behind = op, flow.last
            self._then(flow, here)
        return flow

    def pairs(self, earlier: Sequence[Touch], later: Sequence[Touch]) -> list[tuple[Op, Op]]:
        """The ops of accesses that conflict, without repeats."""
        found = [(a.op, b.op) for a in earlier for b in later if self.conflict(a, b)]
        return list(dict.fromkeys(found))

    def clash(self, earlier: Sequence[Touch], later: Sequence[Touch]) -> list[Touch]:
        """The earlier accesses that need a barrier before a later one."""
        return [t for t in earlier if any(map(partial(self.conflict, t), later))]

    def conflict(self, a: Touch, b: Touch) -> bool:
        if not (a.writes or b.writes) or (a.atomic and b.atomic and _in_any_order(a, b)):
            return False
        if Resource.DEVICE in (a.memory, b.memory):
            return self._is_shown(b if a.memory is Resource.DEVICE else a)
        if self.memories.are_apart(a.part, b.part):
            return False
        if a.memory is not b.memory:
            return True
        # A later copy does not wait for what the thread has begun before.
        is_copied = isinstance(b.op, metal.Copy)
        if not is_copied and (self._of_one_thread(a, b) or self._of_one_thread(b, a)):
            return False
        one, other = self.window(a), self.window(b)
        return one is None or other is None or not one.is_apart(other)

    def _of_one_thread(self, access: Touch, store: Touch) -> bool:
        """Whether what an access touches is written by no thread but its own in a store."""
        if not store.writes or not isinstance(store.op, (metal.Store, metal.Copy)):
            return False
        one, other = self._address(access), self._address(store)
        return (
            not store.atomic
            and one is not None
            and other is not None
            and one.address == other.address
            and other.mask in (None, one.mask)
            and _is_within(access.op, _stand(store.op))
            and self.thread_numbers.are_apart(store.op, _count(store.op))
        )

    def _address(self, touch: Touch) -> AccessAddress | None:
        """The address of an access as its op would compute it now, if that is the same."""
        op = touch.op
        if not touch.is_still or not isinstance(op, (metal.Load, metal.Store, metal.Copy)):
            return None
        reads_source = isinstance(op, metal.Copy) and not touch.writes
        return None if reads_source else self.numbers.address(op)

    def _is_shown(self, touch: Touch) -> bool:
        """Whether a fence, which is of one thread, is also for an access of another: one by which
        programs give each other something."""
        if touch.memory is Resource.DEVICE:
            return False
        others = self.plain if touch.atomic else self.written
        return _touches_one_of(touch.memory, others)

    def window(self, touch: Touch) -> Window | None:
        """The part of its memory that an access touches, if that is known."""
        if touch not in self._windows:
            self._windows[touch] = self._find_window(touch)
        return self._windows[touch]

    def _find_window(self, touch: Touch) -> Window | None:
        op, (memory, span) = touch.op, touch.part
        if not isinstance(op, ELEMENTS) or not self.memories.is_one(memory):
            return None
        base, offset = op.base, op.offset
        if isinstance(op, metal.Copy) and not touch.writes:
            base, offset = op.source, op.source_offset
        start = span.start if span is not None else 0
        size = base.type.element.bytes
        window = self.windows.of(offset, start, size, _count(op))
        for loop, outside in touch.seen:
            if window is not None:
                find = self.windows.outside if outside else self.windows.of_earlier_turn
                window = find(window, loop)
        return window

    def _then(self, flow: Flow, here: Flow) -> None:
        """Add to what a piece of program means the next piece."""
        flow.first += passing(here.first, flow.strength)
        flow.last = [*passing(flow.last, here.strength), *here.last]
        flow.strength = max(flow.strength, here.strength)

    def _find(self, op: Op) -> Flow | None:
        if isinstance(op, metal.Barrier):
            return Flow(strength=self._orders(op))
        if isinstance(op, metal.WaitCopies):
            return None  # a copy counts as a write where it begins
        if op.regions:
            flow: Flow = nested[type(op)](op, self)
            return flow
        touches = [*self._touches(op)]
        return Flow(touches, touches) if touches else None

    def _orders(self, op: metal.Barrier) -> int:
        if op.scope is metal.Scope.DEVICE:
            return ALL
        return SHARED if self.alone or op.scope is metal.Scope.THREADGROUP else NOTHING

    def loop(self, loop: Op, turn: Callable[[Iterable[Touch]], Flow]) -> Flow:
        """Plan the barriers within an iteration of a loop, then between two iterations."""
        flow = turn(())
        last = flow.last
        back = [u for t in last for u in self._later(t, loop)]
        if self.clash(back, flow.first):
            flow = turn(back)
            last = [t for t in flow.last if t not in back]
        first = [u for t in flow.first for u in self._outside(t, loop, t.is_still)]
        last = [u for t in last for u in self._outside(t, loop, self._is_still(t, loop))]
        return Flow(first, last, flow.strength)

    def _later(self, touch: Touch, loop: Op) -> Iterable[Touch]:
        """An access as a later turn of a loop sees it."""
        seen, is_still = (*touch.seen, (loop, False)), self._is_still(touch, loop)
        for memory in self.memories.later(touch.memory, loop):
            yield touch.seen_as(MemoryRange(memory, touch.part.span), is_still, seen)

    def _outside(self, touch: Touch, loop: Op, is_still: bool) -> Iterable[Touch]:
        """An access as what comes before or after a loop sees it."""
        seen = (*touch.seen, (loop, True))
        parts = self.memories.outside(touch.memory, loop)
        if parts is None:
            yield touch.seen_as(touch.part, is_still, seen)
            return
        span = touch.part.span
        for memory, whole in parts:
            assert span is not None and whole is not None, f"{memory!r} rotates in part"
            moved = range(whole.start + span.start, whole.start + span.stop)
            yield touch.seen_as(MemoryRange(memory, moved), False, seen)

    def _is_still(self, touch: Touch, loop: Op) -> bool:
        """Whether the op would compute the address of an access again after a turn of a loop: what
        it is computed from may have changed, and a branch may not be taken any more."""
        if _stand(touch.op) not in loop.regions:
            return False
        address = self._address(touch)
        return address is not None and not any(v.is_inside(loop) for v in address.values)

    def _touches(self, op: Op) -> Iterable[Touch]:
        is_atomic = _is_atomic(op)
        for access, resource in op.effects():
            if resource in (Resource.REPORT, Resource.OTHERS):
                continue
            if access is Access.ALLOCATE:
                continue
            is_read_only = not is_atomic and not access.writes
            if is_read_only and not self._is_written(resource):
                continue
            part = _first_named(resource)
            if not self.memories.is_one(part.memory):
                part = MemoryRange(part.memory, None)
            yield Touch(op, part, access.writes, is_atomic)

    def _is_written(self, resource: Value | Resource) -> bool:
        """Whether the function may write some memory; only of arrays it is known."""
        is_array = isinstance(resource, Value) and isinstance(resource.type, Ptr)
        return not is_array or _touches_one_of(resource, self.written)


def _first_named(memory: Value | Resource) -> MemoryRange:
    """Which part of memory something is, by the memory's first name."""
    if isinstance(memory, Value) and isinstance(memory.type, Threadgroup):
        return MemoryRange.of(memory)
    return MemoryRange(memory, None)


def _touches_one_of(memory: Value | Resource, others: Iterable[Value]) -> bool:
    return any(may_alias(memory, other) for other in others)


def passing(touches: Iterable[Touch], strength: int) -> list[Touch]:
    """The accesses that barriers of some strength do not order."""
    return [t for t in touches if t.strength > strength]


# What ops with regions mean.

nested = Facet("ordering")


@nested(If)
def _if(op: If, planner: _Planner) -> Flow:
    then, otherwise = map(planner.region, op.regions)
    strength = min(then.strength, otherwise.strength)
    return Flow(then.first + otherwise.first, then.last + otherwise.last, strength)


@nested(metal.Foreach)
def _foreach(op: metal.Foreach, planner: _Planner) -> Flow:
    return planner.region(op.body)


@nested(For)
def _for(op: For, planner: _Planner) -> Flow:
    flow = planner.loop(op, lambda entry: planner.region(op.body, entry))
    if not op.surely_runs(op.body):
        flow.strength = NOTHING
    return flow


@nested(While)
def _while(op: While, planner: _Planner) -> Flow:
    def turn(entry: Iterable[Touch]) -> Flow:
        condition = planner.region(op.condition, entry)
        body = planner.region(op.body, condition.last)
        first = condition.first + passing(body.first, condition.strength)
        return Flow(first, body.last, max(condition.strength, body.strength))

    flow = planner.loop(op, turn)
    condition = planner.region(op.condition)  # which comes last, too
    last = condition.last + passing(flow.last, condition.strength)
    return Flow(flow.first, last, condition.strength)


def _count(op: Op) -> int:
    """How many elements an access is of."""
    if isinstance(op, metal.Copy):
        return op.count
    if isinstance(op, (metal.Load, metal.Store)):
        return metal.count_of((op.result if isinstance(op, metal.Load) else op.value).type)
    return 1


class _Numbers:
    """Number values: values of one number are computed alike from the same values."""

    def __init__(self) -> None:
        self._known: dict[Value, tuple[int, frozenset[Value]]] = {}
        self._numbers: dict[object, int] = {}
        self._addresses: dict[Op, AccessAddress] = {}

    def address(self, op: metal.Load | metal.Store | metal.Copy) -> AccessAddress:
        known = self._addresses.get(op)
        if known is None:
            known = self._addresses[op] = self._find_address(op)
        return known

    def _find_address(self, op: metal.Load | metal.Store | metal.Copy) -> AccessAddress:
        offset, values = self.of(op.offset)
        mask = None
        if op.mask is not None and not isinstance(op, metal.Copy):  # which else writes zeros
            mask, more = self.of(op.mask)
            values |= more
        memory, span = _first_named(op.base)
        if isinstance(memory, Value):
            values |= {memory}
        address = memory, span, op.base.type, offset, _count(op)
        return AccessAddress(address, mask, values)

    def of(self, value: Value) -> tuple[int, frozenset[Value]]:
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._find(value)
        return known

    def _find(self, value: Value) -> tuple[int, frozenset[Value]]:
        op = value.op
        if op is None:
            loop = value.owner
            if isinstance(loop, metal.Foreach):
                return self._number((metal.Foreach, loop.count, _depth(loop))), frozenset()
        elif not (op.effects() or op.regions or op.convergent):
            parts = [self.of(v) for v in op.operands]
            types: Sequence[object] = [v.type for v in op.results]
            key = (type(op), op.attributes, value.index, *types, *[n for n, _ in parts])
            return self._number(key), frozenset().union(*[values for _, values in parts])
        return self._number(value), frozenset((value,))

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _depth(op: Op | None) -> int:
    """How many `foreach` ops an op is, and is in."""
    return 0 if op is None else isinstance(op, metal.Foreach) + _depth(op.parent_op)
