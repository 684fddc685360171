"""Splitting off the part of a program that needs no masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, Yield
from iris.ir.core import Module, Op, Region, Value
from iris.ir.effects import effects_within
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import DType, Tile
from iris.passes.affine import Sum, Sums, is_nonnegative, materialise, plus
from iris.passes.axis import VECTOR_BYTES, Axes, order, vector
from iris.passes.pipeline import Pass

# A block along one axis: it is inside if this sum is not negative.
Room = Sum


@dataclass(frozen=True)
class SplitInterior(Pass):
    """Run the rounds of a loop, and the programs, whose blocks are all inside apart from those at
    the edge, without checking what is known there.

        for %c0, %n, %c64 (%i: i32) {
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          ...
        }

    becomes

        %whole: i32 = ...                        // the last multiple of 64 up to n
        for %c0, %whole, %c64 (%i: i32) {
          %end: i32 = add %i, %c64
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%end]
          ...
        }
        for %whole, %n, %c64 (%j: i32) {
          %y: tile<64xf32> = tile.load_tile %X, offsets=[%j], strides=[%c1], bounds=[%n]
          ...
        }

    A loop is split where that leaves out a check; a program, by an `if`, only where more elements
    can be loaded or stored at once, as it doubles what is compiled.
    """

    name = "split-interior"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        loops = programs = 0
        for function in module:
            if isinstance(function, Func):
                for op in list(function.walk()):
                    if isinstance(op, For):
                        loops += _split_loop(op)
                programs += _split_program(function)
        return {"loops": loops, "programs": programs}


def _split_loop(loop: For) -> bool:
    """Split a loop over blocks up to where an array ends."""
    sums = Sums()
    lower, upper = sums.scalar(loop.lower), sums.scalar(loop.upper)
    step = loop.step.op
    if not isinstance(step, Constant) or step.value <= 0 or lower is None or upper is None:
        return False
    # Then the distance to the end fits its type.
    if not is_nonnegative(lower) or loop.trip_count() is not None:
        return False
    index = loop.body.arguments[0]
    room = plus(upper, {(index,): 1, (): int(step.value)}, -1)
    if not any(_known(r, [room]) and not _known(r, []) for r in _rooms(loop.body, sums)):
        return False
    axes = Axes()
    if all(axes.of(v).everywhere % int(step.value) == 0 for v in (loop.lower, loop.upper)):
        _relax(loop.body, [room], sums)  # there is no round at the edge
        return True
    type_ = index.type
    assert isinstance(type_, DType) and loop.parent is not None
    b = Builder(loop.parent, loop, loop.location)
    length = b(math.Sub(b(math.Maximum(loop.upper, loop.lower)), loop.lower))
    rounds = b(math.FloorDiv(length, loop.step))
    whole = b(math.Add(loop.lower, b(math.Mul(rounds, loop.step))), "whole")
    inner = loop.clone({})
    inner.set_operands((loop.lower, whole, *loop.operands[2:]))
    loop.insert_before(inner)
    loop.set_operands((whole, *loop.operands[1:3], *inner.results))
    sums = Sums()
    index = inner.regions[0].arguments[0]
    upper = sums.scalar(loop.operands[1])
    assert upper is not None
    room = plus(upper, {(index,): 1, (): int(step.value)}, -1)
    _relax(inner.regions[0], [room], sums)
    return True


def _split_program(function: Func) -> bool:
    """Run a program that is all inside without checks, if it can then access more at once."""
    if function.returns:
        return False
    first = next((op for op in function.body if effects_within(op)), None)
    if first is None:
        return False
    sums, axes = Sums(), Axes()
    before = {v for op in function.body for v in op.results if _stands_before(op, first)}
    before.update(function.body.arguments)
    wanted: list[tuple[Value, int, Value]] = []
    for op, axis in _narrow(function.body, axes):
        offset, size, bound = op.offsets[axis], _shape(op)[axis], op.bounds[axis]
        room = _room(offset, size, bound, sums)
        if room is None or _known(room, []):
            continue
        if not all(v in before for product in room for v in product):
            return False
        wanted.append((offset, size, bound))
    if not wanted:
        return False
    b = Builder(function.body, first, first.location)
    inside: Value | None = None
    rooms = []
    for offset, size, bound in wanted:
        room = _room(offset, size, bound, sums)
        assert room is not None
        if room in rooms:
            continue
        rooms.append(room)
        start, end = sums.scalar(offset), sums.scalar(bound)
        type_ = offset.type
        assert start is not None and end is not None and isinstance(type_, DType)
        last = materialise(plus(start, {(): size}), type_, b)
        checks = [b(math.Compare(Predicate.LE, last, materialise(end, type_, b)))]
        if not is_nonnegative(start):  # then it may be any number, and its end over its type's
            checks.append(b(math.Compare(Predicate.LE, materialise(start, type_, b), last)))
        for holds in checks:
            inside = holds if inside is None else b(math.And(inside, holds))
    assert inside is not None
    then, otherwise = Region(), Region()
    mapping: dict[Value, Value] = {}
    # Masks that are made before are made again, for there they may be known to be true.
    for early in function.body:
        if early is first:
            break
        if any(isinstance(v.type, Tile) for v in early.results):
            then.append(early.clone(mapping))
    ending = function.body.end
    moved = first
    while moved is not ending:
        assert moved.next is not None
        following = moved.next
        then.append(moved.clone(mapping))
        moved.detach()
        otherwise.append(moved)
        moved = following
    for region in (then, otherwise):
        region.append(Yield(()))
    ending.insert_before(If.create((inside,), (), (), (then, otherwise), first.location))
    _relax(then, rooms, Sums())
    return True


def _stands_before(op: Op, other: Op) -> bool:
    while op is not other and op.next is not None:
        op = op.next
    return op is other


def _blocks(region: Region) -> Iterator[tile.LoadTile | tile.StoreTile]:
    for op in region.walk():
        if isinstance(op, tile.LoadTile | tile.StoreTile):
            yield op


def _shape(op: tile.LoadTile | tile.StoreTile) -> tuple[int, ...]:
    block = op.value if isinstance(op, tile.StoreTile) else op.result
    return element_type(block.type).shape


def _room(offset: Value, size: int, bound: Value, sums: Sums) -> Room | None:
    """What is left of an axis behind a block."""
    start, end = sums.scalar(offset), sums.scalar(bound)
    return None if start is None or end is None else plus(plus(end, start, -1), {(): -size})


def _rooms(region: Region, sums: Sums) -> Iterator[Room]:
    for op in _blocks(region):
        for offset, size, bound in zip(op.offsets, _shape(op), op.bounds, strict=True):
            room = _room(offset, size, bound, sums)
            if room is not None:
                yield room


def _known(room: Room, facts: list[Room]) -> bool:
    """Whether a sum is known not to be negative, given some that are not."""
    left = [plus(room, fact, -1) for fact in ({}, *facts)]
    return any(not rest.keys() - {()} and rest.get((), 0) >= 0 for rest in left)


def _narrow(region: Region, axes: Axes) -> Iterator[tuple[tile.LoadTile | tile.StoreTile, int]]:
    """The blocks of which more could be accessed at once if they were known to be inside along
    an axis; with that axis."""
    for op in _blocks(region):
        axis, size = order(op, axes)[0], _shape(op)
        element = element_type((op.value if isinstance(op, tile.StoreTile) else op.result).type)
        most = min(size[axis], VECTOR_BYTES // max(1, element.element.bits // 8))
        now = vector(op, axis, axes)
        if now >= most:
            continue
        bounds = tuple(op.offsets[a] if a == axis else v for a, v in enumerate(op.bounds))
        relaxed = op.clone({})
        relaxed.set_operands((*op.operands[: -len(bounds)], *bounds))
        wider = vector(relaxed, axis, axes) > now
        relaxed.erase()
        if wider:
            yield op, axis


def _relax(region: Region, facts: list[Room], sums: Sums) -> None:
    """Leave out what is known: bounds become the blocks' own ends, comparisons true."""
    for op in list(region.walk()):
        if isinstance(op, tile.LoadTile | tile.StoreTile):
            _relax_block(op, facts, sums)
        elif isinstance(op, math.Compare) and op.predicate is Predicate.LT:
            _relax_comparison(op, facts, sums)


def _relax_block(op: tile.LoadTile | tile.StoreTile, facts: list[Room], sums: Sums) -> None:
    assert op.parent is not None
    b = Builder(op.parent, op, op.location)
    bounds = list(op.bounds)
    for axis, size in enumerate(_shape(op)):
        room = _room(op.offsets[axis], size, bounds[axis], sums)
        if room is not None and _known(room, facts) and not _known(room, []):
            offset = op.offsets[axis]
            type_ = offset.type
            assert isinstance(type_, DType)
            bounds[axis] = b(math.Add(offset, b(Constant(size, type_))))
    op.set_operands((*op.operands[: -len(bounds)], *bounds))


def _relax_comparison(op: math.Compare, facts: list[Room], sums: Sums) -> None:
    """`start + arange < end` holds everywhere if there is room."""
    index, end = sums.of(op.lhs), sums.scalar(op.rhs)
    if index is None or end is None:
        return
    moving = [axis for axis in index if axis is not None]
    if len(moving) != 1 or index[moving[0]] != {(): 1}:
        return
    (axis,) = moving
    shape = element_type(op.lhs.type).shape
    start = index.get(None, {})
    if _known(plus(plus(end, start, -1), {(): -shape[axis]}), facts):
        true = Constant.of_bits(1, element_type(op.result.type))
        true.location = op.location
        op.insert_before(true)
        op.result.replace_by(true.result)
        op.erase()
