"""How many registers a thread needs: an estimate, from which values are live at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Op, Region, Value
from iris.ir.in_place import slices_in_step
from iris.ir.math import Add, Constant, element_type
from iris.ir.types import ElementType, Type


def half_registers(value: Value) -> int:
    """How many registers of 16 bits a value takes.  What is the same for all threads from the
    start, and constants, are kept elsewhere.  The elements of a splat share one register, and so do
    offsets, which are one number plus numbers that the compiler knows."""
    region = value.region
    if type(value.op) is Constant:
        return 0
    if region is not None and region.owner is not None and region.owner.isolated:
        return 0
    count, of_each = _of_type[value.type]
    if count > 1:
        count = 1 if _is_offsets(value) or isinstance(value.op, _KNOWN) else _at_once(value)
    return count * of_each


class _OfType(dict[Type, tuple[int, int]]):
    """How many elements a value of a type has, and how many registers of 16 bits each takes."""

    def __missing__(self, type_: Type) -> tuple[int, int]:
        sizes = 0, 0
        if isinstance(type_, ElementType):
            sizes = metal.count_of(type_), max(1, type_.element.bits // 16)
        self[type_] = sizes
        return sizes


_of_type = _OfType()


_KNOWN = (metal.Splat, metal.Pattern)


def _is_offsets(value: Value) -> bool:
    """Whether the elements of an array are one integer plus numbers that the compiler knows."""
    while type(value.op) is Add and not element_type(value.type).element.is_float:
        others = [x for x in value.op.operands if not isinstance(x.op, (*_KNOWN, Constant))]
        if len(others) != 1:
            return not others
        (value,) = others
    return False


def _at_once(value: Value) -> int:
    """How many elements of an array there are at a time.

    An array whose halves are combined, and so on to its last element, need not be there as a whole:
    as soon as there are two parts to combine, the compiler does that.  Then at most one part waits
    for its partner, and one result of each size before it.  An element that is taken several times
    is there once."""
    op = value.op
    if isinstance(op, metal.Take):
        return 0 if _is_halved(op.x) else len({*op.indices})
    if isinstance(op, metal.Foreach) and _is_halved(value):
        return metal.count_of(value.type) // op.count * op.count.bit_length()
    return metal.count_of(value.type)


def _is_halved(array: Value) -> bool:
    """Whether all that is done with an array is to take its halves, and to read each once."""
    halves = [user.result for user in array.users if isinstance(user, metal.Take)]
    return (
        len(halves) == len(array.users) == 2
        and all(len(half.users) == 1 for half in halves)
        and sum([metal.count_of(half.type) for half in halves]) == metal.count_of(array.type)
    )


def most_half_registers(region: Region) -> int:
    """At least as many registers of 16 bits as are live at one point of a region: as if each value
    lived to the end of the region that defines it."""
    values = [*region.arguments]
    within = 0
    for op in region:
        values += op.results
        if op.regions:
            within = max(within, sum(map(most_half_registers, op.regions)))
    return sum([half_registers(value) for value in values]) + within


class Pressure:
    """The most registers of 16 bits that are live at one point, and the values in them there; or
    what else `size` says that a value takes."""

    def __init__(self, function: Func, size: Callable[[Value], int] = half_registers):
        self.size = size
        self.live: set[Value] = set()
        self.sizes: dict[Value, int] = {}
        self.now = self.most = 0
        self.peak: Sequence[Value] = ()
        self.at: dict[Op, int] = {}  # how much is live right after each op
        self._from_outside = _used_from_outside(function)
        self._region(function.body)

    def _region(self, region: Region) -> None:
        """Walk a region from its end, after which `live` is needed, to its start."""
        for op in reversed(region):
            self._add(op.results)
            self.at[op] = self.now
            if self.now > self.most:
                self.most, self.peak = self.now, tuple(self.live)
            if op.regions:
                self._nested(op)
            self._drop(op.results)
            self._add(op.operands)
        self._add(region.arguments)
        if self.now > self.most:
            self.most, self.peak = self.now, tuple(self.live)
        self._drop(region.arguments)

    def _nested(self, op: Op) -> None:
        # A `foreach` fills its results part by part, in place of arrays that it reads part by part
        # and nobody reads again; other results take the places of carried values.
        self._drop(self._overwriting(op) if isinstance(op, metal.Foreach) else op.results)
        if op.loops:
            self._add(self._from_outside[op])
        after, now = self.live, self.now
        needed = set(after)
        for region in reversed(op.regions):
            self.live, self.now = set(after), now
            if not op.forwards(region):
                self._add(region.arguments)
            self._region(region)
            needed |= self.live
        self.live = needed
        self.now = sum([self.sizes[value] for value in needed])

    def _add(self, values: Iterable[Value]) -> None:
        live = self.live
        for value in values:
            if value not in live:
                live.add(value)
                if value not in self.sizes:
                    self.sizes[value] = 0 if self._is_part_of_live(value) else self.size(value)
                self.now += self.sizes[value]

    def _is_part_of_live(self, value: Value) -> bool:
        """Whether elements were taken from an array that is read after them, so that they have no
        registers of their own."""
        while isinstance(value.op, metal.Take):
            value = value.op.x
            if value in self.live:
                return True
        return False

    def _overwriting(self, op: metal.Foreach) -> list[Value]:
        """Results that take the places of arrays which nobody reads again."""
        found: list[Value] = []
        for x in op.sliced():
            if x not in self.live and slices_in_step(op, x):
                left = [r for r in op.results if r not in found]
                found += [r for r in left if r.type is x.type][:1]
        return found

    def _drop(self, values: Iterable[Value]) -> None:
        live = self.live
        for value in values:
            if value in live:
                live.remove(value)
                self.now -= self.sizes[value]


def _used_from_outside(function: Func) -> Mapping[Op, set[Value]]:
    """By op, the values that its regions use and that are defined outside of it."""
    used: defaultdict[Op, set[Value]] = defaultdict(set)
    for op in function.body.walk():
        for value in op.operands:
            around, home = op.parent, value.home
            while around is not home:
                assert around is not None and around.owner is not None
                used[around.owner].add(value)
                around = around.owner.parent
    return used
