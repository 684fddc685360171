"""Keep masked lanes of loads from affecting results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from iris.ir import math, tile
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Module, Op, Value
from iris.ir.kinds import ReduceKind, identity
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, i32
from iris.passes.pipeline import Pass
from iris.passes.tile.carried_masks import follow_for, follow_if, follow_loop
from iris.passes.tile.masks import (
    Axes,
    Mask,
    MaskFactor,
    Masks,
    axes_of,
    conjunction,
    difference,
    follow,
    origin_of,
    shape_of,
    sizes_of,
    tile_or_scalar,
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
    those along its axis and hands on the others.  Ops that the rules create and nothing uses in
    the end are erased.
    """

    name = "follow-masks"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        loads = 0
        for function in module:
            loads += sum(isinstance(op, tile.MaskedLoad) for op in function.walk())
            masks = Masks()
            masks.follow_region(function.regions[0])
            masks.erase_unused()
        return {"loads": loads}


# Elementwise ops.


@follow(math.Elementwise)
def follow_elementwise(op: Op, masks: Masks) -> None:
    """Mask a lane where one of its operands is masked."""
    masks[op.results[0]] = masks.all_of(op.operands)


@follow(math.FloorDiv, math.Mod)
def follow_division(op: math.Binary, masks: Masks) -> None:
    """Divide masked lanes by 1."""
    follow_elementwise(op, masks)
    if op.rhs.type.element.is_integer:
        _replace_masked_operand(op, 1, 1, masks)


@follow(math.Shl, math.Shr)
def follow_shift(op: math.Binary, masks: Masks) -> None:
    """Shift masked lanes by 0."""
    follow_elementwise(op, masks)
    _replace_masked_operand(op, 1, 0, masks)


@follow(math.AssumeDivisible)
def follow_assume_divisible(op: math.AssumeDivisible, masks: Masks) -> None:
    """Make masked lanes 0, which every number divides."""
    masks[op.result] = masks[op.x]
    _replace_masked_operand(op, 0, 0, masks)


@follow(math.Cast)
def follow_cast(op: math.Cast, masks: Masks) -> None:
    """Convert 0 in masked lanes if the cast can fail."""
    _move_mask(op, masks[op.x], masks)
    if not op.may_speculate():
        _replace_masked_operand(op, 0, 0, masks)


def _replace_masked_operand(op: Op, index: int, number: float, masks: Masks) -> None:
    """Replace an operand by a number in masked lanes of the op."""
    operands = list(op.operands)
    operands[index] = masks.select(masks[op.results[0]], operands[index], number)
    op.set_operands(tuple(operands))


@follow(math.Select)
def follow_select(op: math.Select, masks: Masks) -> None:
    """Mask a lane where the selected lane is masked."""
    chosen = _mask_of_select(op.condition, masks[op.on_true], masks[op.on_false], masks)
    masks[op.result] = conjunction(masks[op.condition], chosen)


def _mask_of_select(condition: Value, on_true: Mask, on_false: Mask, masks: Masks) -> Mask:
    """The mask of a select between values with these masks."""
    if not on_true and not on_false:
        return ()
    origin = origin_of((*on_true, *on_false))
    chooses = masks.factors(condition, origin)
    on_true = difference(on_true, chooses)
    if isinstance(condition.op, math.Not):
        on_false = difference(on_false, masks.factors(condition.op.x, origin))
    both = tuple(f for f in on_true if f in on_false)
    on_true, on_false = difference(on_true, both), difference(on_false, both)
    if not on_true and not on_false:
        return both
    every = (*chooses, *on_true, *on_false)
    axes, sizes = axes_of(every), sizes_of(every)
    where, one, other = (masks.holds(m, axes, sizes) for m in (chooses, on_true, on_false))
    value = masks.make(math.Select(where, one, other))
    return (*both, MaskFactor(value, axes, origin))


@follow(tile.Update)
def follow_update(op: tile.Update, masks: Masks) -> None:
    """Keep the old value where the new one is masked and the old one is not."""
    old, new = masks[op.old], masks[op.new]
    lost, gained = difference(new, old), difference(old, new)
    masks.lost[op.result] = frozenset(lost)
    # A new value with other users keeps its mask for them.
    choose = masks.update if list(op.new.users) == [op] else masks.select
    value, mask = choose(lost, op.new, op.old), old if lost else new
    if lost and gained:
        mask = (*difference(old, gained), *masks.either(lost, gained))
    value.name = value.name or op.result.name
    op.result.replace_by(value)
    op.erase()
    masks[value] = mask


# Ops that move lanes.


def _move_mask(op: Op, mask: Mask, masks: Masks) -> None:
    """Give the result a mask that has each factor of the operand's mask after the op."""
    masks[op.results[0]] = mask
    x = op.operands[0]
    if x in masks.zeroed:
        pairs = zip(masks[x], mask, strict=True)
        zeroed = tuple(after for before, after in pairs if before in masks.zeroed[x])
        masks.zeroed[op.results[0]] = zeroed


@follow(tile.Broadcast)
def follow_broadcast(op: tile.Broadcast, masks: Masks) -> None:
    """Broadcast the factors of the mask with the tile."""
    shape = shape_of(op.result)

    def spread(factor: MaskFactor) -> MaskFactor:
        type_ = tile_or_scalar(tuple(shape[a] for a in factor.axes))
        if factor.value.type is type_:
            return factor
        return replace(factor, value=masks.make(tile.Broadcast(factor.value, type_)))

    _move_mask(op, tuple(map(spread, masks[op.x])), masks)


@follow(tile.ExpandDims)
def follow_expand_dims(op: tile.ExpandDims, masks: Masks) -> None:
    mask = tuple(replace(f, axes=tuple(a + (a >= op.axis) for a in f.axes)) for f in masks[op.x])
    _move_mask(op, mask, masks)


@follow(tile.Transpose)
def follow_transpose(op: tile.Transpose, masks: Masks) -> None:
    _move_mask(op, tuple(masks.transposed(f, op.permutation) for f in masks[op.x]), masks)


@follow(tile.Reshape)
def follow_reshape(op: tile.Reshape, masks: Masks) -> None:
    """Broadcast each factor over its groups of axes, and reshape it with them."""
    before, after = shape_of(op.x), shape_of(op.result)
    groups = _axis_groups(before, after)

    def reshaped(factor: MaskFactor) -> MaskFactor:
        old, new = {*factor.axes}, set[int]()
        for some, others in groups:
            if not old.isdisjoint(some):
                old.update(some)
                new.update(others)
        axes, wide = tuple(sorted(new)), tuple(sorted(old))
        value = factor.value
        if wide != factor.axes:
            value = masks.broadcast(value, factor.axes, wide, tuple(before[a] for a in wide))
        if not axes:
            while shape_of(value):  # of one element
                value = masks.make(tile.Reduce(ReduceKind.ANY, 0, value))
        type_ = tile_or_scalar(tuple(after[a] for a in axes))
        if value.type is not type_:
            value = masks.make(tile.Reshape(value, type_))
        return replace(factor, value=value, axes=axes)

    _move_mask(op, tuple(map(reshaped, masks[op.x])), masks)


def _axis_groups(
    before: tuple[int, ...], after: tuple[int, ...]
) -> list[tuple[list[int], list[int]]]:
    """Match the axes of two shapes in the smallest groups of equal size, in row-major order.

    Axes of size 1 belong to no group.
    """
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


@follow(tile.Flip)
def follow_flip(op: tile.Flip, masks: Masks) -> None:
    def flipped(factor: MaskFactor) -> MaskFactor:
        if op.axis not in factor.axes:
            return factor
        op_of_mask = tile.Flip(factor.axes.index(op.axis), factor.value)
        return replace(factor, value=masks.make(op_of_mask))

    _move_mask(op, tuple(map(flipped, masks[op.x])), masks)


@follow(tile.Pick)
def follow_pick(op: tile.Pick, masks: Masks) -> None:
    """Pick from the factors that have the axis."""

    def picked(factor: MaskFactor) -> MaskFactor:
        left = tuple(a - (a > op.axis) for a in factor.axes if a != op.axis)
        if op.axis not in factor.axes:
            return replace(factor, axes=left)
        value = masks.make(tile.Pick(factor.axes.index(op.axis), op.index, factor.value))
        return replace(factor, value=value, axes=left)

    _move_mask(op, tuple(map(picked, masks[op.x])), masks)


@follow(tile.Gather)
def follow_gather(op: tile.Gather, masks: Masks) -> None:
    """Gather from the factors that have the axis; a masked index is 0."""
    named = tuple(f for f in masks[op.x] if op.axis in f.axes)
    mask = conjunction(masks[op.index], difference(masks[op.x], named))
    op.set_operands((op.x, masks.select(masks[op.index], op.index, 0)))
    if named:
        every = tuple(range(len(shape_of(op.x))))
        where = masks.holds(named, every, shape_of(op.x))
        value = masks.make(tile.Gather(op.axis, where, op.index))
        mask = conjunction(mask, (MaskFactor(value, every, origin_of(named)),))
    masks[op.result] = mask


# Ops that combine lanes.


@follow(tile.Reduce)
def follow_reduce(op: tile.Reduce, masks: Masks) -> None:
    """Make masked lanes the identity; mask the result where all lanes are masked."""
    axis, shape = op.axis, shape_of(op.x)
    mask = masks.all_of(op.operands)
    applied = tuple(f for f in mask if axis in f.axes)
    kept = difference(mask, applied)
    result = op.result
    if applied and op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        result, found = _first_unmasked(op, applied, masks)
        kept = (*kept, masks.any_along(applied, axis, shape, found))
        op.result.replace_by(result)
        op.erase()
    elif applied:
        kept = (*kept, masks.any_along(applied, axis, shape))
        op.set_operands((masks.select(applied, op.x, identity(op.kind, op.x.type.element)),))
    masks[result] = tuple(replace(f, axes=tuple(a - (a > axis) for a in f.axes)) for f in kept)


def _first_unmasked(op: tile.Reduce, mask: Mask, masks: Masks) -> tuple[Value, Value | None]:
    """The first place of an extremum, and whether some lane is unmasked, if the place tells.

    The place of a masked lane is past all others, so that it loses every tie.
    """
    x = masks.select(mask, op.x, identity(op.kind, op.x.type.element))
    if op.places is not None:
        places = masks.select(mask, op.places, i32.high)
        return masks.make(tile.Reduce(op.kind, op.axis, x, places), op.result.name), None
    axes, shape, end = axes_of(mask), shape_of(x), shape_of(x)[op.axis]
    every, sizes = tuple(range(len(shape))), tuple(shape[a] for a in axes)
    lanes = masks.make(tile.Arange(0, Tile((end,), i32)))
    indices = masks.broadcast(lanes, (op.axis,), axes, sizes)
    past_end = masks.constant(end, Tile(sizes, i32))
    chosen = masks.make(math.Select(masks.holds(mask, axes, sizes), indices, past_end))
    places = masks.broadcast(chosen, axes, every, shape)
    first = masks.make(tile.Reduce(op.kind, op.axis, x, places), op.result.name)
    if axes != every:
        return first, None
    last = masks.constant(end, element_type(first.type))
    return first, masks.make(math.Compare(Predicate.LT, first, last))


@follow(tile.Scan)
def follow_scan(op: tile.Scan, masks: Masks) -> None:
    """Make masked lanes the identity; they stay masked."""
    mask = masks[op.x]
    applied = tuple(f for f in mask if op.axis in f.axes)
    neutral = identity(op.kind, op.x.type.element)
    op.set_operands((masks.select(applied, op.x, neutral),))
    masks[op.result] = mask


@follow(tile.Dot)
def follow_dot(op: tile.Dot, masks: Masks) -> None:
    """Make lanes that are masked along the depth 0 in both operands, as 0 times inf is nan.

    Mask an element of the result where all of its row or column is masked.
    """
    a, b = op.a, op.b
    column = len(shape_of(a)) - 1
    row = column - 1
    along_a = tuple(f for f in masks[a] if column in f.axes)
    along_b = tuple(f for f in masks[b] if row in f.axes)
    # A mask that holds nowhere along a kept axis zeroes the other operand.
    across_a = _any_along_depth(masks[a], row, column, masks, shape_of(a))
    across_b = _any_along_depth(masks[b], column, row, masks, shape_of(b))
    zeroed_a = masks.select(conjunction(along_a, _moved(across_b, row, column)), a, 0)
    zeroed_b = masks.select(conjunction(along_b, _moved(across_a, column, row)), b, 0)
    op.set_operands((zeroed_a, zeroed_b, *op.operands[2:]))
    some: Mask = ()
    if along_a:
        some = (*some, masks.any_along(along_a, column, shape_of(a)))
    if along_b:
        some = (*some, masks.any_along(along_b, row, shape_of(b)))
    result = (*difference(masks[a], along_a), *difference(masks[b], along_b), *some)
    masks[op.result] = conjunction(result, masks[op.acc] if op.acc is not None else ())
    nothing = tuple(f for f in some if not f.axes)
    if op.acc is None:
        masks.zeroed[op.result] = nothing
    else:
        masks.unadded[op.result] = nothing


def _any_along_depth(
    mask: Mask, kept: int, depth: int, masks: Masks, shape: tuple[int, ...]
) -> Mask:
    """Where along the depth a mask holds for some lane of the kept axis."""
    within = tuple(f for f in mask if kept in f.axes)
    found = tuple(f for f in mask if depth in f.axes and kept not in f.axes)
    is_within = depth in axes_of(within)
    return (*found, masks.any_along(within, kept, shape)) if is_within else found


def _moved(mask: Mask, axis: int, to: int) -> Mask:
    """A mask along one of the last two axes, along the other one."""
    return tuple(replace(f, axes=tuple(to if a == axis else a for a in f.axes)) for f in mask)


# Ops on memory.  The masks of operands restrict the mask of the access.


@follow(tile.MaskedLoad)
def follow_masked_load(op: tile.MaskedLoad, masks: Masks) -> None:
    """Read 0 in masked lanes."""
    mask = conjunction(masks.factors(op.mask, op.location), masks[op.mask], masks[op.offset])
    where = masks.holds_in(mask, shape_of(op.offset))
    zero = masks.constant(0, element_type(op.result.type))
    result = masks.replace(op, tile.Load(op.base, op.offset, where, zero))
    masks[result] = mask
    masks.zeroed[result] = mask


@follow(tile.Load)
def follow_load(op: tile.Load, masks: Masks) -> None:
    """Read nothing where the offset is masked; `other=` gives the value of masked lanes."""
    unknown = conjunction(masks[op.offset], masks.all_of([op.mask] if op.mask is not None else []))
    result = unknown
    if op.mask is not None and op.other is not None:
        chosen = _mask_of_select(op.mask, masks[op.offset], masks[op.other], masks)
        result = conjunction(chosen, masks[op.mask])
    if unknown:
        other = op.other
        if other is None:
            other = masks.constant(0, element_type(op.result.type))
        op.set_operands((op.base, op.offset, _restricted_mask(op, unknown, masks), other))
    masks[op.result] = result


@follow(tile.Store)
def follow_store(op: tile.Store, masks: Masks) -> None:
    """Write nothing in masked lanes."""
    where = _restricted_mask(op, masks.all_of(op.operands), masks)
    op.set_operands((op.base, op.offset, op.value, where))


@follow(tile.Atomic, tile.AtomicCas)
def follow_atomic(op: tile.Atomic | tile.AtomicCas, masks: Masks) -> None:
    """Update nothing in masked lanes, and mask their results."""
    mask = masks.all_of(op.operands)
    where = _restricted_mask(op, mask, masks)
    op.set_operands((*op.operands[: len(op.spec.fixed)], where))
    masks[op.result] = mask


def _restricted_mask(
    op: tile.Load | tile.Store | tile.Atomic | tile.AtomicCas, mask: Mask, masks: Masks
) -> Value:
    """The mask of an access, restricted by another mask."""
    own: Mask = ()
    if op.mask is not None:
        own = masks.factors(op.mask, origin_of(mask))
    return masks.holds_in(conjunction(own, mask), shape_of(op.offset))


@follow(tile.LoadTile)
def follow_load_tile(op: tile.LoadTile, masks: Masks) -> None:
    """Treat a masked block as wholly out of bounds."""
    mask = masks.all_of(op.operands)
    _bound_by_mask(op, mask, masks)
    masks[op.result] = mask


@follow(tile.StoreTile)
def follow_store_tile(op: tile.StoreTile, masks: Masks) -> None:
    """Write nothing of a masked block; store single lanes if only some of them are masked."""
    mask = masks.all_of(op.operands)
    if not axes_of(mask):
        _bound_by_mask(op, mask, masks)
        return
    shape = shape_of(op.value)
    every = tuple(range(len(shape)))
    index_type = op.index_type
    offsets = masks.constant(0, Tile(shape, index_type))

    def broadcast(x: Value, axes: Axes) -> Value:
        return masks.broadcast(x, (), axes, tuple(shape[a] for a in axes))

    blocks = zip(op.offsets, op.strides, op.bounds, strict=True)
    for axis, (offset, stride, bound) in enumerate(blocks):
        lanes = masks.make(tile.Arange(0, Tile((shape[axis],), index_type)))
        index = masks.make(math.Add(lanes, broadcast(offset, (axis,))))
        first = masks.constant(0, tile_or_scalar((shape[axis],), index_type))
        not_before = masks.make(math.Compare(Predicate.GE, index, first))
        not_after = masks.make(math.Compare(Predicate.LT, index, broadcast(bound, (axis,))))
        mask = (*mask, MaskFactor(not_before, (axis,), None), MaskFactor(not_after, (axis,), None))
        step = masks.make(math.Mul(index, broadcast(stride, (axis,))))
        offsets = masks.make(math.Add(offsets, masks.broadcast(step, (axis,), every, shape)))
    if op.limit is not None:
        within = masks.make(math.Compare(Predicate.LT, offsets, broadcast(op.limit, every)))
        mask = (*mask, MaskFactor(within, every, None))
    masks.insert(tile.Store(op.base, offsets, op.value, masks.holds(mask, every, shape)))
    op.erase()


def _bound_by_mask(op: tile.TileAccess, mask: Mask, masks: Masks) -> None:
    """Set a bound of a block to 0 where a mask does not hold."""
    bounds = list(op.bounds)
    bounds[0] = masks.select(mask, bounds[0], 0)
    op.set_operands((*op.operands[: -len(bounds)], *bounds))


@follow(tile.Assert)
def follow_assert(op: tile.Assert, masks: Masks) -> None:
    """Assert nothing of masked lanes."""
    op.set_operands((masks.select(masks[op.condition], op.condition, 1),))


@follow(tile.Print)
def follow_print(op: tile.Print, masks: Masks) -> None:
    """Print 0 for masked lanes, and nothing where a whole value is masked."""
    whole = conjunction(*[masks.any_element(v) for v in op.operands])
    op.set_operands(tuple(masks.select(masks[v], v, 0) for v in op.operands))
    if whole:
        guard = If(masks.holds(whole, (), ()))
        masks.insert(guard)
        op.detach()
        guard.then.append(op)
        for region in guard.regions:
            region.append(Yield(location=op.location))


# Control flow.

follow(If)(follow_if)
follow(For)(follow_for)
follow(While)(follow_loop)
