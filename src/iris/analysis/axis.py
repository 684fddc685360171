"""Axis analysis: along which axes of a tile its elements follow each other, are equal, and what
divides them.

    %row: i32 = tile.program_id 0
    %n: i32 = assume_divisible 16 %n_arg
    %base: i32 = mul %row, %n                    divisibility 16
    %cols: tile<64xi32> = tile.arange 0          contiguity 64, from a multiple of everything on
    %b: tile<64xi32> = tile.broadcast %base      constancy 64, divisibility 16
    %at: tile<64xi32> = add %b, %cols            contiguity 64, from multiples of 16 on
    %nn: tile<64xi32> = tile.broadcast %n
    %in: tile<64xbool> = compare lt %cols, %nn   constancy 16

So a thread may load 16 bytes of `%X[%at]` at once, all of them masked or none.

All that is said is in powers of two, which is what makes it true of integers that wrap: 2^32 is a
multiple of them, and no group of numbers that starts at a multiple of its size reaches over the
end of the range.  "One more" is meant modulo 2^bits, too.  Only a cast to more bits assumes that
no group wraps in the middle; in what becomes an address that is a program error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import NamedTuple

from iris.ir import math, metal, tile
from iris.ir.control import For, Loop
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Predicate, element_type
from iris.ir.types import ElementType, Kind, Ptr, Type, bool_

MOST = 2**31  # the greatest power of two that is told apart: what divides 0
VECTOR_BYTES = metal.VECTOR_BYTES


class AxisFacts(NamedTuple):
    """The facts along one axis; each number is a power of two, and 1 says nothing."""

    contiguity: int = 1  # so many elements, from a multiple of it on, are each one more
    divisibility: int = 1  # divides the first element of each such group
    constancy: int = 1  # so many elements, from a multiple of it on, are equal

    def at(self, step: int) -> int:
        """What divides the elements at the multiples of a power of two."""
        return self.divisibility if step >= self.contiguity else min(self.divisibility, step)


class AxisInfo(NamedTuple):
    """The facts of a tile along its axes.  A scalar is like a tile of one axis of size 1."""

    axes: tuple[AxisFacts, ...]
    constant: int | None = None  # what every element is

    @property
    def contiguity(self) -> tuple[int, ...]:
        return tuple([axis.contiguity for axis in self.axes])

    @property
    def divisibility(self) -> tuple[int, ...]:
        return tuple([axis.divisibility for axis in self.axes])

    @property
    def constancy(self) -> tuple[int, ...]:
        return tuple([axis.constancy for axis in self.axes])

    @property
    def everywhere(self) -> int:
        """What divides every element."""
        return max([axis.at(1) for axis in self.axes], default=1)


class Axes:
    """The facts of values, computed when they are asked for, while the IR stays the same."""

    def __init__(self) -> None:
        self._known: dict[Value, AxisInfo] = {}
        self.orders: dict[Op, tuple[int, ...]] = {}  # by access, as `order` gives them
        self.widths: dict[tuple[Op, int], int] = {}  # by access and axis, as `vector` gives them

    def of(self, value: Value) -> AxisInfo:
        info = self._known.get(value)
        return self._solved(value) if info is None else info

    def _solved(self, value: Value) -> AxisInfo:
        known, waiting = self._known, [value]
        while waiting:
            last = waiting[-1]
            if last in known:
                waiting.pop()
                continue
            sources = _sources(last)
            missing = [v for v in sources if v not in known]
            if missing:
                waiting += missing
            else:
                known[last] = self._find(last, [known[v] for v in sources])
        return known[value]

    def _find(self, value: Value, found: Sequence[AxisInfo]) -> AxisInfo:
        """What is known of a value, from what is known of its sources."""
        op = value.op
        if not _is_followed(value):
            return _nothing(value.type)
        if op is None:
            loop = value.owner
            if not isinstance(loop, Loop):
                return _nothing(value.type)
            self._solve(loop)
            return self._known[value]
        if op.regions:
            return _either(found)
        rule: Callable[..., AxisInfo] = axis_rule[type(op)]
        return rule(op, *found)

    def _solve(self, loop: Loop) -> None:
        """What is known of the arguments of a loop, from the most there could be: what is known
        of what it starts with.

        What is found meanwhile, of a loop around this one too, follows from what is assumed of
        these arguments, and is forgotten with it.
        """
        known, slots = self._known, loop.carried()
        if isinstance(loop, For):
            first, step = self.of(loop.lower), self.of(loop.step)
            divisibility = min(first.everywhere, step.everywhere)
            known[loop.body.arguments[0]] = AxisInfo((AxisFacts(divisibility=divisibility),))
        carried = [self.of(c.initial) for c in slots]
        while True:
            for slot, info in zip(slots, carried, strict=True):
                known.update(dict.fromkeys(slot.arguments, info))
            before = len(known)
            ends = [self.of(c.yielded) for c in slots]
            found = [_either(pair) for pair in zip(carried, ends, strict=True)]
            if found == carried:
                return
            carried = found
            while len(known) > before:
                known.popitem()


def _is_followed(value: Value) -> bool:
    type_ = value.type
    return isinstance(type_, ElementType) and not type_.element.is_float


def _sources(value: Value) -> Sequence[Value]:
    """The values whose axes tell those of a value."""
    if not _is_followed(value):
        return ()
    op = value.op
    if op is None:
        return value.owner.operands if isinstance(value.owner, Loop) else ()
    if isinstance(op, Loop):
        return (op.carried_arguments[value.index],)
    if op.regions:
        return [region.end.operands[value.index] for region in op.regions]
    return [v for v in op.operands if isinstance(v.type, ElementType)]


def _nothing(type_: Type) -> AxisInfo:
    if not isinstance(type_, ElementType):
        return AxisInfo(())
    return AxisInfo((AxisFacts(),) * max(1, len(type_.shape)))


def _either(infos: Sequence[AxisInfo]) -> AxisInfo:
    """What is known of a value that is one of several."""
    axes = []
    for choices in zip(*[info.axes for info in infos], strict=True):
        contiguity = min(a.contiguity for a in choices)
        divisibility = min(a.at(contiguity) for a in choices)
        axes.append(AxisFacts(contiguity, divisibility, min(a.constancy for a in choices)))
    constants = {info.constant for info in infos}
    return AxisInfo(tuple(axes), constants.pop() if len(constants) == 1 else None)


def _power_in(number: int) -> int:
    """The greatest power of two that divides a number."""
    return min(number & -number, MOST) if number else MOST


# The rules, one per op: what is known of the result, given what is of the operands.

axis_rule = Facet("axis")
Rule = Callable[..., AxisInfo]


def along_each(rule: Callable[..., AxisFacts]) -> Rule:
    """Make the rule of an elementwise op from its rule along one axis."""

    @wraps(rule)
    def of_all(op: Op, *infos: AxisInfo) -> AxisInfo:
        return AxisInfo(tuple([rule(op, *a) for a in zip(*[i.axes for i in infos], strict=True)]))

    return of_all


@axis_rule(tile.ProgramId, tile.NumPrograms, tile.Extent)
@axis_rule(tile.Load, tile.MaskedLoad, tile.LoadTile, tile.Unstage)
@axis_rule(tile.Atomic, tile.AtomicCas, tile.Update)
@axis_rule(tile.Dot, tile.Flip, tile.Gather, tile.Reduce, tile.Scan)
def unknown(op: Op, *operands: AxisInfo) -> AxisInfo:
    """Loads, reductions, which program this is: anything."""
    return _nothing(op.results[0].type)


@axis_rule(math.Elementwise)
@along_each
def elementwise(op: Op, *operands: AxisFacts) -> AxisFacts:
    """Equal operands make equal results."""
    return AxisFacts(constancy=min(a.constancy for a in operands))


@axis_rule(math.Constant)
def constant(op: math.Constant) -> AxisInfo:
    value = int(op.value)
    sizes = element_type(op.result.type).shape or (1,)
    return AxisInfo(tuple([AxisFacts(1, _power_in(value), size) for size in sizes]), value)


@axis_rule(tile.Arange)
def arange(op: tile.Arange) -> AxisInfo:
    (size,) = element_type(op.result.type).shape
    return AxisInfo((AxisFacts(contiguity=size, divisibility=_power_in(op.start)),))


@axis_rule(math.AssumeDivisible)
@along_each
def assume_divisible(op: math.AssumeDivisible, x: AxisFacts) -> AxisFacts:
    return x._replace(divisibility=max(x.divisibility, _power_in(op.divisor)))


# Arithmetic.


@axis_rule(math.Add)
@along_each
def add(op: math.Add, x: AxisFacts, y: AxisFacts) -> AxisFacts:
    """Adding a constant to a group of elements shifts all of them."""
    contiguity = max(min(x.contiguity, y.constancy), min(x.constancy, y.contiguity))
    divisibility = min(x.at(contiguity), y.at(contiguity))
    return AxisFacts(contiguity, divisibility, min(x.constancy, y.constancy))


@axis_rule(math.Sub)
@along_each
def sub(op: math.Sub, x: AxisFacts, y: AxisFacts) -> AxisFacts:
    contiguity = min(x.contiguity, y.constancy)
    divisibility = min(x.at(contiguity), y.at(contiguity))
    return AxisFacts(contiguity, divisibility, min(x.constancy, y.constancy))


@axis_rule(math.Mul)
@along_each
def mul(op: math.Mul, x: AxisFacts, y: AxisFacts) -> AxisFacts:
    return AxisFacts(1, min(x.at(1) * y.at(1), MOST), min(x.constancy, y.constancy))


@axis_rule(math.Neg, math.Abs)
@along_each
def negate(op: Op, x: AxisFacts) -> AxisFacts:
    return AxisFacts(1, x.at(1), x.constancy)


@axis_rule(math.Maximum, math.Minimum, math.MaxNum, math.MinNum, math.Or, math.Xor)
@along_each
def one_or_both(op: Op, x: AxisFacts, y: AxisFacts) -> AxisFacts:
    return AxisFacts(1, min(x.at(1), y.at(1)), min(x.constancy, y.constancy))


@axis_rule(math.And)
@along_each
def bits_of_both(op: Op, x: AxisFacts, y: AxisFacts) -> AxisFacts:
    """A bit that is never set in one is never set."""
    return AxisFacts(1, max(x.at(1), y.at(1)), min(x.constancy, y.constancy))


@axis_rule(math.FloorDiv)
def floordiv(op: math.FloorDiv, x: AxisInfo, y: AxisInfo) -> AxisInfo:
    return _quotient(x, y.constant) or elementwise(op, x, y)


@axis_rule(math.Shr)
def shr(op: math.Shr, x: AxisInfo, y: AxisInfo) -> AxisInfo:
    """`x >> k` is `x // 2**k`, of any sign."""
    return _quotient(x, _power(op, y)) or elementwise(op, x, y)


@axis_rule(math.Shl)
def shl(op: math.Shl, x: AxisInfo, y: AxisInfo) -> AxisInfo:
    """`x << k` is `x * 2**k`."""
    times = _power(op, y)
    if times is None:
        return elementwise(op, x, y)
    return AxisInfo(tuple([AxisFacts(1, min(a.at(1) * times, MOST), a.constancy) for a in x.axes]))


def _power(op: Op, amount: AxisInfo) -> int | None:
    """The number that a shift by a constant multiplies or divides by."""
    by = amount.constant
    bits = op.results[0].type.element.bits
    return 1 << by if by is not None and 0 <= by < bits else None


def _quotient(x: AxisInfo, divisor: int | None) -> AxisInfo | None:
    """A group that starts at a multiple of its size, which divides the divisor, has one
    quotient."""
    if divisor is None or divisor <= 0:
        return None
    power = _power_in(divisor)
    axes = []
    for a in x.axes:
        group = min(a.contiguity, a.divisibility, power)
        # Where a multiple of the divisor is followed by others, they are in one such group.
        even = divisor == power and power <= a.divisibility and a.contiguity <= power
        divisibility = a.divisibility // power if even else 1
        axes.append(AxisFacts(1, divisibility, max(a.constancy, group)))
    return AxisInfo(tuple(axes))


@axis_rule(math.Mod)
def mod(op: math.Mod, x: AxisInfo, y: AxisInfo) -> AxisInfo:
    """A group that starts at a multiple of its size, which divides the divisor, is left whole."""
    if y.constant is None or y.constant <= 0:
        return elementwise(op, x, y)
    power = _power_in(y.constant)
    axes = []
    for a in x.axes:
        group = min(a.contiguity, a.divisibility, power)
        axes.append(AxisFacts(group, min(a.at(group), power), a.constancy))
    return AxisInfo(tuple(axes))


# Truths and choices.


@axis_rule(math.Compare)
@along_each
def compare(op: math.Compare, x: AxisFacts, y: AxisFacts) -> AxisFacts:
    """Of a group that starts at a multiple of its size, all are below another multiple of that
    size, or none is."""
    if op.predicate in (Predicate.GT, Predicate.LE):
        x, y = y, x
    group = 1
    if op.predicate not in (Predicate.EQ, Predicate.NE):
        group = min(x.contiguity, x.divisibility, y.constancy, y.at(1))
    return AxisFacts(constancy=max(group, min(x.constancy, y.constancy)))


@axis_rule(math.Select)
def select(op: math.Select, condition: AxisInfo, x: AxisInfo, y: AxisInfo) -> AxisInfo:
    """All of a group for which the condition is the same is of one or of the other."""
    if op.condition.type is bool_:
        return _either((x, y))._replace(constant=None)
    axes = []
    for c, a, b in zip(condition.axes, x.axes, y.axes, strict=True):
        contiguity = min(c.constancy, a.contiguity, b.contiguity)
        divisibility = min(a.at(contiguity), b.at(contiguity))
        axes.append(AxisFacts(contiguity, divisibility, min(c.constancy, a.constancy, b.constancy)))
    return AxisInfo(tuple(axes))


@axis_rule(math.Cast, math.Bitcast)
def cast(op: math.Cast | math.Bitcast, x: AxisInfo) -> AxisInfo:
    """Of integers, what wraps stays what it was, as far as powers of two go."""
    source, target = op.x.type.element, op.result.type.element
    if Kind.BOOL in (source.kind, target.kind):
        return elementwise(op, x)
    return x._replace(constant=None)


# The same elements in another shape.


@axis_rule(tile.ConvertLayout)
def same(op: tile.ConvertLayout, x: AxisInfo) -> AxisInfo:
    return x


@axis_rule(tile.Broadcast)
def broadcast(op: tile.Broadcast, x: AxisInfo) -> AxisInfo:
    sizes, before = element_type(op.result.type).shape, element_type(op.x.type).shape
    if not before:
        x, before = AxisInfo(x.axes * len(sizes), x.constant), (1,) * len(sizes)
    axes = [
        axis if old == new else AxisFacts(1, axis.divisibility, new)
        for axis, old, new in zip(x.axes, before, sizes, strict=True)
    ]
    return AxisInfo(tuple(axes), x.constant)


@axis_rule(tile.ExpandDims)
def expand_dims(op: tile.ExpandDims, x: AxisInfo) -> AxisInfo:
    single = AxisFacts(divisibility=x.everywhere)
    return AxisInfo((*x.axes[: op.axis], single, *x.axes[op.axis :]), x.constant)


@axis_rule(tile.Pick)
def pick(op: tile.Pick, x: AxisInfo) -> AxisInfo:
    axes = x.axes[: op.axis] + x.axes[op.axis + 1 :]
    # Along the axis, a group of elements starts at a multiple of its size.
    own = x.axes[op.axis]
    first = own.divisibility if op.index % own.contiguity == 0 else 1
    return AxisInfo(axes or (AxisFacts(divisibility=first),), x.constant)


@axis_rule(tile.Transpose)
def transpose(op: tile.Transpose, x: AxisInfo) -> AxisInfo:
    return AxisInfo(tuple([x.axes[i] for i in op.permutation]), x.constant)


@axis_rule(tile.Reshape)
def reshape(op: tile.Reshape, x: AxisInfo) -> AxisInfo:
    """From the last axis on, those of equal size are the same, and of two that are not, the
    shorter one is a part of the other."""
    old, new = element_type(op.x.type).shape, element_type(op.result.type).shape
    axes = [AxisFacts(1, x.everywhere, size if x.constant is not None else 1) for size in new]
    sources = (a for a in reversed(range(len(old))) if old[a] > 1)
    targets = (a for a in reversed(range(len(new))) if new[a] > 1)
    for source, target in zip(sources, targets, strict=False):
        was, size = x.axes[source], new[target]
        contiguity = min(was.contiguity, size)
        axes[target] = AxisFacts(contiguity, was.at(contiguity), min(was.constancy, size))
        if old[source] != size:
            break
    return AxisInfo(tuple(axes), x.constant)


# What accesses to memory can make of it.

_widest = Facet("vector access")
_sorted = Facet("order of axes")
_contiguous = Facet("contiguous access")


def vector(op: Op, axis: int, axes: Axes) -> int:
    """How many elements along an axis a load or store may access at once: a power of two."""
    width = axes.widths.get((op, axis))
    if width is None:
        rule: Callable[..., int] = _widest[type(op)]
        width = axes.widths[op, axis] = rule(op, axis, axes)
    return width


def order(op: Op, axes: Axes) -> tuple[int, ...]:
    """The axes of an access, the one along which addresses are closest first."""
    sorted_axes = axes.orders.get(op)
    if sorted_axes is None:
        rule: Callable[..., tuple[int, ...]] = _sorted[type(op)]
        sorted_axes = axes.orders[op] = rule(op, axes)
    return sorted_axes


def is_contiguous(op: Op, axis: int, axes: Axes) -> bool:
    """Whether neighbours along an axis are neighbours in memory, aligned or not."""
    rule: Callable[..., bool] = _contiguous[type(op)]
    return rule(op, axis, axes)


def _most(base: Value) -> int:
    """How many elements an aligned access has at most."""
    type_ = base.type_as(Ptr)
    return VECTOR_BYTES // type_.element.bytes if type_.aligned else 1


@_widest(tile.Load, tile.Store)
def widest(op: tile.Load | tile.Store, axis: int, axes: Axes) -> int:
    """As many as are contiguous from a multiple of their number on, and masked alike."""
    if not element_type(op.offset.type).shape:
        return 1
    along = axes.of(op.offset).axes[axis]
    masked = along.contiguity if op.mask is None else axes.of(op.mask).constancy[axis]
    return min(along.contiguity, along.divisibility, masked, _most(op.base))


@_widest(tile.TileAccess)
def widest_of_block(op: tile.TileAccess, axis: int, axes: Axes) -> int:
    """As many as divide all that is added to an index along an axis of stride 1, and where it
    ends."""
    if axes.of(op.strides[axis]).constant != 1:
        return 1
    sizes = op.block.shape
    widths = [sizes[axis], _most(op.base)]
    widths += [axes.of(v).everywhere for v in (op.offsets[axis], op.bounds[axis])]
    if op.limit is not None:
        widths.append(axes.of(op.limit).everywhere)
    for other, size in enumerate(sizes):
        if other != axis:
            stride = axes.of(op.strides[other]).everywhere
            start = axes.of(op.offsets[other]).everywhere if size == 1 else 1
            widths.append(stride * start)
    return min(widths)


@_contiguous(tile.Load, tile.Store)
def is_run(op: tile.Load | tile.Store, axis: int, axes: Axes) -> bool:
    return axes.of(op.offset).contiguity[axis] > 1


@_contiguous(tile.TileAccess)
def is_block_of_stride_1(op: tile.TileAccess, axis: int, axes: Axes) -> bool:
    return axes.of(op.strides[axis]).constant == 1


@_sorted(tile.Load, tile.Store, tile.Atomic, tile.AtomicCas)
def by_contiguity(op: tile.Load | tile.Store, axes: Axes) -> tuple[int, ...]:
    """Neighbours that are one more are closest; of others, groups of equal ones.  An axis along
    which all are equal is of a broadcast, and may be anywhere."""
    shape, along = element_type(op.offset.type).shape, axes.of(op.offset).axes

    def closeness(axis: int) -> tuple[int, int, int]:
        equal = along[axis].constancy
        return along[axis].contiguity, equal if equal < shape[axis] else 1, axis

    return tuple(sorted(range(len(shape)), key=closeness, reverse=True))


@_sorted(tile.TileAccess)
def by_stride(op: tile.TileAccess, axes: Axes) -> tuple[int, ...]:
    """Strides that are not constants are longer than those that are."""

    def stride(axis: int) -> int:
        constant = axes.of(op.strides[axis]).constant
        return MOST if constant is None else abs(constant)

    return tuple(sorted(range(len(op.strides)), key=lambda a: (stride(a), -a)))
