"""Where barriers are needed: between accesses to memory that threads make in no order.

Two accesses conflict if they may touch one byte, one of them writes, they are not both atomic,
and they may be of different threads.  That they are of one thread follows where one is a plain
store, the other is at the same offset, computed from the same values in the same round of each
loop, and every thread that makes the other makes the store: were their bytes those of another
thread, the store would by itself be a race between the two.  As the rounds of a `foreach` run in
any order, the same holds of two of them with as many rounds, for offsets that differ only in
whose number they count; and accesses of different rounds are in no need of an order.  Nor do
accesses conflict whose `windows` are apart.

A barrier goes before the second of two accesses, so that it orders as many pairs as can be, and
stands in the innermost region that has both: before a loop or a branch rather than in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from iris.ir import metal
from iris.ir.control import For, Func, If, While
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.effects import Access, Resource, may_alias
from iris.ir.types import Ptr, Threadgroup
from iris.passes.windows import Window, Windows

# What barriers order: nothing, the memory of the threadgroup, all memory.
NOTHING, SHARED, ALL = range(3)
ATOMICS = metal.Atomic | metal.AtomicLoad | metal.CompareExchange
ELEMENTS = metal.Load | metal.Store | ATOMICS  # what touches elements at an offset


def barriers(function: Func) -> dict[Op, metal.Scope]:
    """The ops before which a barrier is missing, and of which scope."""
    alone = function.simdgroups == 1
    planner = _Planner(function)
    planner.region(function.body)
    shared = metal.Scope.SIMDGROUP if alone else metal.Scope.THREADGROUP
    return {op: metal.Scope.DEVICE if n == ALL else shared for op, n in planner.planned.items()}


@dataclass(frozen=True)
class Place:
    """Where each thread touches memory, as it was computed."""

    address: tuple[object, ...]  # equal for those that compute the same from the same
    mask: int | None
    values: frozenset[Value]  # from what


@dataclass(frozen=True, eq=False)
class Touch:
    """An access to memory."""

    op: Op
    memory: Value | Resource  # where it is first named
    span: range | None  # of whose bytes, if it is a view of a part
    writes: bool
    atomic: bool
    place: Place | None
    seen: tuple[tuple[Op, bool], ...] = ()  # from a later turn of which loops, or from outside

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


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _of_one_thread(access: Touch, store: Touch) -> bool:
    """Whether what an access touches is written by no thread but its own in a store."""
    if access.place is None or store.place is None or not store.writes or store.atomic:
        return False
    return (
        access.place.address == store.place.address
        and store.place.mask in (None, access.place.mask)
        and _is_within(access.op, _stand(store.op))
    )


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
    def __init__(self, function: Func):
        self.planned: dict[Op, int] = {}  # before which op a barrier goes, and what it orders
        self.alone = function.simdgroups == 1
        self.numbers = _Numbers()
        self.windows = Windows(function)
        self.aliases: dict[tuple[Value | Resource, Value | Resource], bool] = {}
        self.flows: dict[Op, Flow | None] = {}  # what ops mean; None: nothing

    def region(self, region: Region, entry: Iterable[Touch] = ()) -> Flow:
        """Plan the barriers in a region, given the accesses that may come right before it."""
        flow = Flow(last=list(entry))
        latest: Op | None = None  # before which the latest barrier was planned,
        behind: list[Touch] = []  # and the accesses before it that it does not order
        for op in region:
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
                return self.region(region, entry)
            if clash:
                self.planned[op] = max(t.strength for t in clash)
                self._then(flow, Flow(strength=self.planned[op]))
                latest, behind = op, flow.last
            self._then(flow, here)
        return flow

    def clash(self, earlier: Sequence[Touch], later: Sequence[Touch]) -> list[Touch]:
        """The earlier accesses of which a later one is to be kept apart by a barrier."""
        return [t for t in earlier if any(self.conflict(t, u) for u in later)]

    def conflict(self, a: Touch, b: Touch) -> bool:
        if not (a.writes or b.writes) or (a.atomic and b.atomic):
            return False
        if a.memory is not b.memory:
            pair = a.memory, b.memory
            if pair not in self.aliases:
                self.aliases[pair] = may_alias(*pair)
            return self.aliases[pair]
        if a.span is not None and b.span is not None and not _overlap(a.span, b.span):
            return False
        if _of_one_thread(a, b) or _of_one_thread(b, a):
            return False
        one, other = self.window(a), self.window(b)
        return one is None or other is None or not one.is_apart(other)

    def window(self, touch: Touch) -> Window | None:
        """The part of its memory that an access touches, if that is known."""
        op = touch.op
        if not isinstance(op, ELEMENTS) or not _names_memory(touch.memory):
            return None
        assert isinstance(op.base.type, Ptr | Threadgroup)
        start = touch.span.start if touch.span is not None else 0
        size = max(1, op.base.type.element.bits // 8)
        window = self.windows.of(op.offset, start, size, _count(op))
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
        if op.regions:
            flow: Flow = nested[type(op)](op, self)
            return flow
        if op.touches_nothing:
            return None
        touches = [*_touches(op, self.numbers)]
        return Flow(touches, touches) if touches else None

    def _orders(self, op: metal.Barrier) -> int:
        if op.scope is metal.Scope.DEVICE:
            return ALL
        return SHARED if self.alone or op.scope is metal.Scope.THREADGROUP else NOTHING

    def loop(self, loop: Op, turn: Callable[[Iterable[Touch]], Flow]) -> Flow:
        """Plan the barriers in a loop by planning those of one turn, and then those between one
        turn and the next."""
        flow = turn(())
        last = flow.last
        back = [_seen(t, loop) for t in last]
        if self.clash(back, flow.first):
            flow = turn(back)
            last = [t for t in flow.last if t not in back]
        first = [replace(t, seen=(*t.seen, (loop, True))) for t in flow.first]
        return Flow(first, [_seen(t, loop, outside=True) for t in last], flow.strength)


def passing(touches: Iterable[Touch], strength: int) -> list[Touch]:
    """The accesses that barriers of some strength do not order."""
    return [t for t in touches if t.strength > strength]


def _seen(touch: Touch, loop: Op, *, outside: bool = False) -> Touch:
    """An access as what comes after a turn of a loop sees it: what it was computed from may have
    changed since, and a branch may have been taken then and not be now."""
    place = None if _turns(touch, loop) else touch.place
    return replace(touch, place=place, seen=(*touch.seen, (loop, outside)))


def _turns(touch: Touch, loop: Op) -> bool:
    if touch.place is None:
        return False
    if _stand(touch.op) not in loop.regions:
        return True
    owners = (v.home.owner for v in touch.place.values if v.home is not None)
    return any(owner is not None and owner.is_inside(loop) for owner in owners)


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


# What ops without regions touch.


def _touches(op: Op, numbers: _Numbers) -> Iterable[Touch]:
    for access, resource in op.effects():
        if resource is Resource.REPORT or not access & (Access.READ | Access.WRITE):
            continue
        memory, start = _root(resource)
        span, place = None, None
        if isinstance(resource, Value):
            if isinstance(resource.type, Threadgroup):
                span = range(start, start + resource.type.bytes)
            if isinstance(op, metal.Load | metal.Store):
                place = numbers.place(op, (memory, start, resource.type))
        if not _names_memory(memory):
            span = None
        yield Touch(op, memory, span, Access.WRITE in access, isinstance(op, ATOMICS), place)


def _root(resource: Value | Resource) -> tuple[Value | Resource, int]:
    """Where memory is first named, and the byte of it at which a view of it starts."""
    start = 0
    while isinstance(resource, Value) and isinstance(resource.op, metal.View):
        start += resource.op.start
        resource = resource.op.x
    return resource, start


def _names_memory(memory: Value | Resource) -> bool:
    """Whether it is always the same memory: a name that a loop carries is not."""
    if not isinstance(memory, Value):
        return False
    owner = memory.region.owner if memory.region is not None else None
    return memory.op is not None or (owner is not None and owner.isolated)


def _count(op: Op) -> int:
    """How many elements an access is of."""
    if isinstance(op, metal.Load | metal.Store):
        return metal.count_of((op.result if isinstance(op, metal.Load) else op.value).type)
    return 1


class _Numbers:
    """Numbers values, such that those of one number are computed alike from the same values."""

    def __init__(self) -> None:
        self._known: dict[Value, tuple[int, frozenset[Value]]] = {}
        self._numbers: dict[object, int] = {}

    def place(self, op: metal.Load | metal.Store, base: tuple[object, ...]) -> Place:
        offset, values = self.of(op.offset)
        mask = None
        if op.mask is not None:
            mask, more = self.of(op.mask)
            values |= more
        if isinstance(base[0], Value):
            values |= {base[0]}
        return Place((*base, offset, _count(op)), mask, values)

    def of(self, value: Value) -> tuple[int, frozenset[Value]]:
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._find(value)
        return known

    def _find(self, value: Value) -> tuple[int, frozenset[Value]]:
        op = value.op
        if op is None:
            loop = value.region.owner if value.region is not None else None
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
