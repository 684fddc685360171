"""Following masks: a lane that a load left out must not count in what is made of the load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from iris.ir import math, tile
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Module, Op, Value
from iris.ir.kinds import ReduceKind, identity
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, i32, i64
from iris.passes.pipeline import Pass
from iris.passes.tile.carried_masks import bounded_loop, branch, loop
from iris.passes.tile.masks import (
    Axes,
    Factor,
    Mask,
    Masks,
    axes_of,
    follow,
    join,
    of_shape,
    origin_of,
    shape_of,
    sizes_of,
    without,
)


@dataclass(frozen=True)
class FollowMasks(Pass):
    """Turn every load whose masked lanes must not count into one that reads 0 there, and keep
    these lanes out of its users by selects and masks of stores.

        %x: tile<64xf32> = tile.masked_load %X, %cols, %inside
        %m: f32 = tile.reduce maximum 0 %x
        tile.store %Y, %row, %m

    becomes

        %zero: tile<64xf32> = constant 0.0
        %x: tile<64xf32> = tile.load %X, %cols, mask=%inside, other=%zero
        %low: tile<64xf32> = constant -inf
        %y: tile<64xf32> = select %inside, %x, %low
        %any: bool = tile.reduce any 0 %inside
        %m: f32 = tile.reduce maximum 0 %y
        tile.store %Y, %row, %m, mask=%any

    A mask is a conjunction of factors, each along some axes of the tile: a reduction applies
    those along its axis and hands on the others.  What the rules below make and nothing uses
    in the end is not left behind.
    """

    name = "follow-masks"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        loads = 0
        for function in module:
            loads += sum(isinstance(op, tile.MaskedLoad) for op in function.walk())
            masks = Masks()
            masks.follow_region(function.regions[0])
            masks.sweep()
        return {"loads": loads}


# Elementwise ops.


@follow(math.Elementwise)
def elementwise(op: Op, masks: Masks) -> None:
    """A lane is masked where one of its operands is."""
    masks[op.results[0]] = masks.all_of(op.operands)


@follow(math.FloorDiv, math.Mod)
def divide(op: math.Binary, masks: Masks) -> None:
    """Masked lanes divide by 1."""
    elementwise(op, masks)
    if element_type(op.rhs.type).element.is_integer:
        _give_harmless(op, 1, 1, masks)


@follow(math.Shl, math.Shr)
def shift(op: math.Binary, masks: Masks) -> None:
    """Masked lanes shift by 0."""
    elementwise(op, masks)
    _give_harmless(op, 1, 0, masks)


@follow(math.AssumeDivisible)
def assume_divisible(op: math.AssumeDivisible, masks: Masks) -> None:
    """Masked lanes are 0, which everything divides."""
    masks[op.result] = masks[op.x]
    _give_harmless(op, 0, 0, masks)


@follow(math.Cast)
def cast(op: math.Cast, masks: Masks) -> None:
    """Where it can fail, masked lanes convert 0."""
    _moved(op, masks[op.x], masks)
    if not op.may_speculate():
        _give_harmless(op, 0, 0, masks)


def _give_harmless(op: Op, index: int, number: float, masks: Masks) -> None:
    """Replace an operand by a number in the lanes of the op that do not count."""
    operands = list(op.operands)
    operands[index] = masks.select(masks[op.results[0]], operands[index], number)
    op.set_operands(tuple(operands))


@follow(math.Select)
def select(op: math.Select, masks: Masks) -> None:
    """A lane is masked where the one that is chosen is."""
    chosen = _of_choice(op.condition, masks[op.on_true], masks[op.on_false], masks)
    masks[op.result] = join(masks[op.condition], chosen)


def _of_choice(condition: Value, on_true: Mask, on_false: Mask, masks: Masks) -> Mask:
    """The mask of what is chosen by a condition between what has these masks."""
    if not on_true and not on_false:
        return ()
    origin = origin_of((*on_true, *on_false))
    chooses = masks.factors(condition, origin)
    on_true = without(on_true, chooses)
    if isinstance(condition.op, math.Not):
        on_false = without(on_false, masks.factors(condition.op.x, origin))
    both = tuple(f for f in on_true if f in on_false)
    on_true, on_false = without(on_true, both), without(on_false, both)
    if not on_true and not on_false:
        return both
    every = (*chooses, *on_true, *on_false)
    axes, sizes = axes_of(every), sizes_of(every)
    where, one, other = (masks.holds(m, axes, sizes) for m in (chooses, on_true, on_false))
    value = masks.make(math.Select(where, one, other))
    return (*both, Factor(value, axes, origin))


@follow(tile.Update)
def update(op: tile.Update, masks: Masks) -> None:
    """Where the new value is masked and the old one is not, the old one stays."""
    old, new = masks[op.old], masks[op.new]
    lost, gained = without(new, old), without(old, new)
    masks.lost[op.result] = frozenset(lost)
    # What is used under a name of its own, too, keeps its mask there.
    choose = masks.update if list(op.new.users) == [op] else masks.select
    value, mask = choose(lost, op.new, op.old), old if lost else new
    if lost and gained:
        mask = (*without(old, gained), *masks.either(lost, gained))
    value.name = value.name or op.result.name
    op.result.replace_by(value)
    op.erase()
    masks[value] = mask


# Ops that move lanes about.


def _moved(op: Op, mask: Mask, masks: Masks) -> None:
    """Gives the result the mask of the operand, factor by factor, as it is after the op."""
    masks[op.results[0]] = mask
    x = op.operands[0]
    if x in masks.zeroed:
        pairs = zip(masks[x], mask, strict=True)
        zeroed = tuple(after for before, after in pairs if before in masks.zeroed[x])
        masks.zeroed[op.results[0]] = zeroed


@follow(tile.Broadcast)
def broadcast(op: tile.Broadcast, masks: Masks) -> None:
    """What a tile of size 1 is masked by spreads with it."""
    shape = shape_of(op.result)

    def spread(factor: Factor) -> Factor:
        type_ = of_shape(tuple(shape[a] for a in factor.axes))
        if factor.value.type is type_:
            return factor
        return replace(factor, value=masks.make(tile.Broadcast(factor.value, type_)))

    _moved(op, tuple(map(spread, masks[op.x])), masks)


@follow(tile.ExpandDims)
def expand_dims(op: tile.ExpandDims, masks: Masks) -> None:
    mask = tuple(replace(f, axes=tuple(a + (a >= op.axis) for a in f.axes)) for f in masks[op.x])
    _moved(op, mask, masks)


@follow(tile.Transpose)
def transpose(op: tile.Transpose, masks: Masks) -> None:
    _moved(op, tuple(masks.transposed(f, op.permutation) for f in masks[op.x]), masks)


@follow(tile.Reshape)
def reshape(op: tile.Reshape, masks: Masks) -> None:
    """A factor is reshaped along the groups of axes that it lies along, spread over the whole of
    each."""
    before, after = shape_of(op.x), shape_of(op.result)
    groups = _groups(before, after)

    def reshaped(factor: Factor) -> Factor:
        old, new = {*factor.axes}, set[int]()
        for some, others in groups:
            if not old.isdisjoint(some):
                old.update(some)
                new.update(others)
        axes, wide = tuple(sorted(new)), tuple(sorted(old))
        value = factor.value
        if wide != factor.axes:
            value = masks.spread(value, factor.axes, wide, tuple(before[a] for a in wide))
        if not axes:
            while shape_of(value):  # of one element
                value = masks.make(tile.Reduce(ReduceKind.ANY, 0, value))
        type_ = of_shape(tuple(after[a] for a in axes))
        if value.type is not type_:
            value = masks.make(tile.Reshape(value, type_))
        return replace(factor, value=value, axes=axes)

    _moved(op, tuple(map(reshaped, masks[op.x])), masks)


def _groups(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The axes of a shape and those of another of as many elements, in the smallest groups of
    one size, which row-major order keeps together.  Axes of size 1 belong to none."""
    groups = []
    old = [a for a, s in enumerate(before) if s > 1]
    new = [a for a, s in enumerate(after) if s > 1]
    while old:
        some, others = [old.pop(0)], [new.pop(0)]
        while (size := prod(before[a] for a in some)) != (to := prod(after[a] for a in others)):
            if size < to:
                some.append(old.pop(0))
            else:
                others.append(new.pop(0))
        groups.append((some, others))
    return groups


# Ops that combine lanes.


@follow(tile.Reduce)
def reduce(op: tile.Reduce, masks: Masks) -> None:
    """Masked lanes are the identity; where there is nothing else, so is the result masked."""
    axis, shape = op.axis, shape_of(op.x)
    mask = masks[op.x]
    applied = tuple(f for f in mask if axis in f.axes)
    kept = without(mask, applied)
    result = op.result
    if applied:
        kept = (*kept, masks.any_along(applied, axis, shape))
        neutral = identity(op.kind, element_type(op.x.type).element)
        x = masks.select(applied, op.x, neutral)
        op.set_operands((x,))
        if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
            result = _place(op, masks.holds_in(applied, shape), neutral, masks)
    masks[result] = tuple(replace(f, axes=tuple(a - (a > axis) for a in f.axes)) for f in kept)


def _place(op: tile.Reduce, valid: Value, neutral: float, masks: Masks) -> Value:
    """The place of the extremum, where masked lanes hold the least extreme number there is.

    Only if that number is the extremum may the place be a masked lane's, and then any lane that
    counts is as good: the first one.
    """
    place = masks.make(tile.Reduce(op.kind, op.axis, op.x))
    most = ReduceKind.MAXIMUM if op.kind is ReduceKind.ARGMAX else ReduceKind.MINIMUM
    extremum = masks.make(tile.Reduce(most, op.axis, op.x))
    least = masks.constant(neutral, element_type(extremum.type))
    none = masks.make(math.Compare(Predicate.EQ, extremum, least))
    counts = masks.make(math.Cast(valid, of_shape(shape_of(valid), i32)))
    first = masks.make(tile.Reduce(ReduceKind.ARGMAX, op.axis, counts))
    return masks.replace(op, math.Select(none, first, place))


@follow(tile.Scan)
def scan(op: tile.Scan, masks: Masks) -> None:
    """Masked lanes are the identity, and stay masked: how many there are must not matter."""
    mask = masks[op.x]
    applied = tuple(f for f in mask if op.axis in f.axes)
    neutral = identity(op.kind, element_type(op.x.type).element)
    op.set_operands((masks.select(applied, op.x, neutral),))
    masks[op.result] = mask


@follow(tile.Dot)
def dot(op: tile.Dot, masks: Masks) -> None:
    """What is masked along the contracted axis is 0, in both operands: 0 times inf is nan.  Where
    all of a row or column is, so is what is made of it."""
    a, b = op.a, op.b
    along_a = tuple(f for f in masks[a] if 1 in f.axes)
    along_b = tuple(f for f in masks[b] if 0 in f.axes)
    # What holds nowhere along a kept axis zeroes the other operand.
    across_a = _across(masks[a], 0, shape_of(a), masks)
    across_b = _across(masks[b], 1, shape_of(b), masks)
    zeroed_a = masks.select(join(along_a, _on_axis(1, across_b)), a, 0)
    zeroed_b = masks.select(join(along_b, _on_axis(0, across_a)), b, 0)
    op.set_operands((zeroed_a, zeroed_b, *op.operands[2:]))
    some: Mask = ()
    if along_a:
        some = (*some, masks.any_along(along_a, 1, shape_of(a)))
    if along_b:
        some = (*some, masks.any_along(along_b, 0, shape_of(b)))
    result = (*without(masks[a], along_a), *without(masks[b], along_b), *some)
    masks[op.result] = join(result, masks[op.acc] if op.acc is not None else ())
    nothing = tuple(f for f in some if not f.axes)
    if op.acc is None:
        masks.zeroed[op.result] = nothing
    else:
        masks.unadded[op.result] = nothing


def _across(mask: Mask, kept: int, shape: tuple[int, ...], masks: Masks) -> Mask:
    """Where, along the contracted axis, a mask holds for something along the kept one."""
    within = tuple(f for f in mask if kept in f.axes)
    found = tuple(f for f in mask if f.axes and kept not in f.axes)
    return (*found, masks.any_along(within, kept, shape)) if axes_of(within) == (0, 1) else found


def _on_axis(axis: int, mask: Mask) -> Mask:
    return tuple(replace(f, axes=(axis,)) for f in mask)


# Ops on memory.  What they may not touch is one more condition of their mask.


@follow(tile.MaskedLoad)
def masked_load(op: tile.MaskedLoad, masks: Masks) -> None:
    """Masked lanes read 0, which does not count."""
    mask = join(masks.factors(op.mask, op.location), masks[op.mask], masks[op.offset])
    where = masks.holds_in(mask, shape_of(op.offset))
    zero = masks.constant(0, element_type(op.result.type))
    result = masks.replace(op, tile.Load(op.base, op.offset, where, zero))
    masks[result] = mask
    masks.zeroed[result] = mask


@follow(tile.Load)
def load(op: tile.Load, masks: Masks) -> None:
    """A lane of no offset reads nothing; with `other=`, that is there what it says."""
    unknown = join(masks[op.offset], masks.all_of([op.mask] if op.mask is not None else []))
    result = unknown
    if op.mask is not None and op.other is not None:
        chosen = _of_choice(op.mask, masks[op.offset], masks[op.other], masks)
        result = join(chosen, masks[op.mask])
    if unknown:
        other = op.other
        if other is None:
            other = masks.constant(0, element_type(op.result.type))
        op.set_operands((op.base, op.offset, _also(op, unknown, masks), other))
    masks[op.result] = result


@follow(tile.Store)
def store(op: tile.Store, masks: Masks) -> None:
    """Masked lanes write nothing."""
    where = _also(op, masks.all_of(op.operands), masks)
    op.set_operands((op.base, op.offset, op.value, where))


@follow(tile.Atomic, tile.AtomicCas)
def atomic(op: tile.Atomic | tile.AtomicCas, masks: Masks) -> None:
    """Masked lanes do nothing and give nothing."""
    mask = masks.all_of(op.operands)
    where = _also(op, mask, masks)
    op.set_operands((*op.operands[: len(op.spec.fixed)], where))
    masks[op.result] = mask


def _also(
    op: tile.Load | tile.Store | tile.Atomic | tile.AtomicCas, mask: Mask, masks: Masks
) -> Value:
    """The mask of an access, and another."""
    own: Mask = ()
    if op.mask is not None:
        own = masks.factors(op.mask, origin_of(mask))
    return masks.holds_in(join(own, mask), shape_of(op.offset))


@follow(tile.LoadTile)
def load_tile(op: tile.LoadTile, masks: Masks) -> None:
    """Nothing is in bounds of a block that is not known to be one."""
    mask = masks.all_of(op.operands)
    _bound_by(op, mask, masks)
    masks[op.result] = mask


@follow(tile.StoreTile)
def store_tile(op: tile.StoreTile, masks: Masks) -> None:
    """Where it is not a whole block that is masked, the lanes are written one by one."""
    mask = masks.all_of(op.operands)
    if not axes_of(mask):
        _bound_by(op, mask, masks)
        return
    shape = shape_of(op.value)
    every = tuple(range(len(shape)))
    index_type = i64 if any(v.type is i64 for v in op.operands[2:]) else i32
    places = masks.constant(0, Tile(shape, index_type))

    def spread(x: Value, axes: Axes) -> Value:
        if element_type(x.type).element is not index_type:
            x = masks.make(math.Cast(x, of_shape(shape_of(x), index_type)))
        return masks.spread(x, (), axes, tuple(shape[a] for a in axes))

    blocks = zip(op.offsets, op.strides, op.bounds, strict=True)
    for axis, (offset, stride, bound) in enumerate(blocks):
        lanes = masks.make(tile.Arange(0, Tile((shape[axis],), index_type)))
        index = masks.make(math.Add(lanes, spread(offset, (axis,))))
        first = masks.constant(0, of_shape((shape[axis],), index_type))
        not_before = masks.make(math.Compare(Predicate.GE, index, first))
        not_after = masks.make(math.Compare(Predicate.LT, index, spread(bound, (axis,))))
        mask = (*mask, Factor(not_before, (axis,), None), Factor(not_after, (axis,), None))
        step = masks.make(math.Mul(index, spread(stride, (axis,))))
        places = masks.make(math.Add(places, masks.spread(step, (axis,), every, shape)))
    if op.limit is not None:
        within = masks.make(math.Compare(Predicate.LT, places, spread(op.limit, every)))
        mask = (*mask, Factor(within, every, None))
    masks.build(tile.Store(op.base, places, op.value, masks.holds(mask, every, shape)))
    op.erase()


def _bound_by(op: tile.LoadTile | tile.StoreTile, mask: Mask, masks: Masks) -> None:
    """Leave a block out, by a bound of 0, where a mask does not hold."""
    bounds = list(op.bounds)
    bounds[0] = masks.select(mask, bounds[0], 0)
    op.set_operands((*op.operands[: -len(bounds)], *bounds))


@follow(tile.Assert)
def assert_(op: tile.Assert, masks: Masks) -> None:
    """Nothing is asserted of masked lanes."""
    op.set_operands((masks.select(masks[op.condition], op.condition, 1),))


@follow(tile.Print)
def print_(op: tile.Print, masks: Masks) -> None:
    """Masked lanes print as 0; nothing is printed where a whole value is masked."""
    whole = join(*[masks.anywhere(v) for v in op.operands])
    op.set_operands(tuple(masks.select(masks[v], v, 0) for v in op.operands))
    if whole:
        guard = If(masks.holds(whole, (), ()))
        masks.build(guard)
        op.detach()
        guard.then.append(op)
        for region in guard.regions:
            region.append(Yield(location=op.location))


# Control flow.

follow(If)(branch)
follow(For)(bounded_loop)
follow(While)(loop)
