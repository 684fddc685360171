"""Turn loads and stores of blocks of arrays into block accesses."""

from __future__ import annotations

from dataclasses import dataclass, field

from iris.analysis.affine import Sum, Sums, is_nonnegative, materialise, plus
from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.core import Module, Value
from iris.ir.effects import VOLATILE
from iris.ir.math import Constant, Predicate, constant_bits, element_type
from iris.ir.types import DType, Tile, bool_, i32, i64
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class RecoverBlocks(Pass):
    """Turn loads and stores into block accesses, where the offset has an index times a scalar
    for each axis, and the mask bounds each index by a scalar.

        %row: i32 = tile.program_id 0
        %base: i32 = mul %row, %n
        %lane: tile<64xi32> = tile.arange 0
        %i: tile<64xi32> = tile.broadcast %start
        %cols: tile<64xi32> = add %i, %lane
        %b: tile<64xi32> = tile.broadcast %base
        %at: tile<64xi32> = add %b, %cols
        %nn: tile<64xi32> = tile.broadcast %n
        %inside: tile<64xbool> = compare lt %cols, %nn
        %x: tile<64xf32> = tile.load %X, %at, mask=%inside, other=%zero

    becomes, with dead ops left to `dce`,

        %row: i32 = tile.program_id 0
        %rest: i32 = mul %row, %n
        %c1: i32 = constant 1
        %c2: i32 = constant 2
        %block: tile<1x64xf32> = tile.load_tile %X, offsets=[%c1, %start], strides=[%rest, %c1],
                                                    bounds=[%c2, %n]
        %x: tile<64xf32> = tile.reshape %block

    A part of the offset that belongs to no index, here `%base`, becomes the stride of one more
    axis, which is read at index 1; an existing axis of size 1 serves.  An axis without a bound
    starts at 0 and is as long as the tile.

    A block access also masks negative indices, so a bounded index must be nonnegative: by the
    mask, or by its definition.  A scalar condition that fails sets a bound to 0.  The pass skips
    gathers, other masks, an `other` that is not 0, stores of several elements to one offset, and
    accesses that would need a fourth axis.
    """

    name = "recover-blocks"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        sums = Sums()
        blocks = 0
        for op in module.walk():
            if isinstance(op, (tile.Load, tile.Store)) and VOLATILE not in op.effects():
                block = _find_block(op, sums)
                if block is not None:
                    _replace_access(op, block)
                    blocks += 1
        return {"blocks": blocks}


@dataclass
class Bound:
    """The range that a mask gives the index along an axis."""

    start: Sum  # the index of the first lane
    uppers: list[Sum] = field(default_factory=list)  # exclusive
    from_zero: bool = False


@dataclass
class BlockAccess:
    """A block of an array: a stride and a bound for each axis, and an offset."""

    strides: list[Sum]
    rest: Sum
    dtype: DType  # of the scalars
    bounds: dict[int, Bound] = field(default_factory=dict)
    spare: int | None = None  # an axis of size 1 without a bound
    conditions: list[Value] = field(default_factory=list)  # scalars that must hold
    comparisons: list[tuple[Predicate, Sum, Sum]] = field(default_factory=list)  # that must hold


def _find_block(op: tile.Load | tile.Store, sums: Sums) -> BlockAccess | None:
    """The block that a load or store accesses, if any."""
    offset, type_ = sums.of(op.offset), element_type(op.offset.type)
    if not type_.shape or offset is None:
        return None
    if isinstance(op, tile.Load) and op.other is not None and constant_bits(op.other) != 0:
        return None
    strides = [offset.get(axis, {}) for axis in range(len(type_.shape))]
    if isinstance(op, tile.Store) and any(
        size > 1 and not stride for size, stride in zip(type_.shape, strides, strict=True)
    ):
        return None
    block = BlockAccess(strides, offset.get(None, {}), type_.element)
    if op.mask is not None and not _restrict(block, op.mask, tuple(range(len(strides))), sums):
        return None
    for axis, bound in block.bounds.items():
        if not bound.uppers or not (bound.from_zero or is_nonnegative(bound.start)):
            return None
        block.rest = plus(block.rest, sums.times(bound.start, strides[axis]), -1)
    sizes = enumerate(type_.shape)
    block.spare = next((a for a, size in sizes if size == 1 and a not in block.bounds), None)
    fits = not block.rest or block.spare is not None or len(strides) < 3
    return block if fits else None


def _restrict(block: BlockAccess, mask: Value, axes: tuple[int, ...], sums: Sums) -> bool:
    """Restrict a block by a mask along some of its axes; return False if that is impossible."""
    op = mask.op
    if isinstance(op, math.And):
        return all(_restrict(block, v, axes, sums) for v in op.operands)
    if mask.type is bool_:
        block.conditions.append(mask)
        return True
    if isinstance(op, Constant):
        return bool(op.bits)
    if isinstance(op, tile.Broadcast):
        return _restrict(block, op.x, axes, sums)
    if isinstance(op, tile.ExpandDims):
        return _restrict(block, op.x, axes[: op.axis] + axes[op.axis + 1 :], sums)
    if isinstance(op, tile.Transpose):
        inner = [axes[op.permutation.index(a)] for a in range(len(axes))]
        return _restrict(block, op.x, tuple(inner), sums)
    if not isinstance(op, math.Compare):
        return False
    one, other = sums.scalar(op.lhs), sums.scalar(op.rhs)
    if one is not None and other is not None:
        block.comparisons.append((op.predicate, one, other))
        return True
    for predicate, x, y in (
        (op.predicate, op.lhs, op.rhs),
        (op.predicate.swapped, op.rhs, op.lhs),
    ):
        index, limit = sums.of(x), sums.scalar(y)
        if index is None or limit is None or len(index.keys() - {None}) != 1:
            continue
        (axis,) = index.keys() - {None}
        start = index.get(None, {})
        if axis is None or index[axis] != {(): 1}:
            continue
        if x.type.element is i64:
            block.dtype = i64
        bound = block.bounds.setdefault(axes[axis], Bound(start))
        return bound.start == start and _add_comparison(bound, predicate, limit)
    return False


def _add_comparison(bound: Bound, predicate: Predicate, limit: Sum) -> bool:
    """Add a comparison with a scalar to a bound; return False if a block cannot express it."""
    # One more than a scalar might overflow.
    small = limit.keys() <= {()} and limit.get((), 0) < i32.high
    if predicate is Predicate.LE and small:
        predicate, limit = Predicate.LT, plus(limit, {(): 1})
    if predicate is Predicate.LT:
        if limit not in bound.uppers:
            bound.uppers.append(limit)
    elif (predicate is Predicate.GE and limit == {}) or (
        predicate is Predicate.GT and limit == {(): -1}
    ):
        bound.from_zero = True
    else:
        return False
    return True


def _replace_access(op: tile.Load | tile.Store, block: BlockAccess) -> None:
    b = Builder.before_op(op)
    type_ = element_type(op.offset.type)

    def scalar(total: Sum) -> Value:
        return materialise(total, block.dtype, b)

    offsets, strides, bounds = [], [scalar(s) for s in block.strides], []
    for axis, size in enumerate(type_.shape):
        bound = block.bounds.get(axis, Bound({}, [{(): size}]))
        offsets.append(scalar(bound.start))
        upper = scalar(bound.uppers[0])
        for other in bound.uppers[1:]:
            upper = b(math.Minimum(upper, scalar(other)))
        bounds.append(upper)
    shape = type_.shape
    if block.rest:
        one, two, rest = scalar({(): 1}), scalar({(): 2}), scalar(block.rest)
        axis_of_rest = block.spare
        if axis_of_rest is None:
            shape = (1, *shape)
            offsets, strides, bounds = [one, *offsets], [rest, *strides], [two, *bounds]
        else:
            offsets[axis_of_rest], strides[axis_of_rest], bounds[axis_of_rest] = one, rest, two
    comparisons = [b(math.Compare(p, scalar(x), scalar(y))) for p, x, y in block.comparisons]
    for condition in (*block.conditions, *comparisons):
        bounds[0] = b(math.Select(condition, bounds[0], scalar({})))
    if isinstance(op, tile.Store):
        value = op.value
        if shape != type_.shape:
            value = b(tile.Reshape(value, Tile(shape, value.type.element)))
        b.insert(tile.StoreTile(op.base, value, offsets=offsets, strides=strides, bounds=bounds))
    else:
        whole = Tile(shape, op.result.type.element)
        result = b(
            tile.LoadTile(op.base, result=whole, offsets=offsets, strides=strides, bounds=bounds),
            op.result.name,
        )
        if shape != type_.shape:
            result = b(tile.Reshape(result, op.result.type), op.result.name)
        op.result.replace_by(result)
    op.erase()
