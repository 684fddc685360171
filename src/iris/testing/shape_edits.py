"""Edits of the sizes of tiles, tensors and arrays of registers, and of how many axes they have.

for edit in of_shapes(program):   # such as to make every tile<1x8xf32> a tile<8xf32>
    simpler = edit(program)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from iris.ir import graph, tile
from iris.ir.types import Registers, Tensor, Tile, Type
from iris.testing.edits import Edit, ops_of, shape_of, smaller_sizes, values_of
from iris.tools.replay import Array, Program

Shape = tuple[int, ...]

MOVING = (tile.ExpandDims, tile.Broadcast, tile.Reshape, graph.Broadcast, graph.Reshape)


def of_shapes(program: Program) -> Iterator[Edit]:
    """The edits of all values of some sizes at once."""
    shapes = {shape_of(v.type) for v in values_of(program.function)}
    for size in sorted({n for shape in shapes for n in shape}):
        for smaller in smaller_sizes(size):
            yield partial(_resized, old=size, new=smaller)
    axes = sorted({(len(s), axis, n) for s in shapes if len(s) > 1 for axis, n in enumerate(s)})
    for rank, axis, size in axes:
        for smaller in smaller_sizes(size):
            yield partial(_resized_axis, rank=rank, axis=axis, old=size, new=smaller)
        if size == 1:
            yield partial(_without_axis, rank=rank, axis=axis)


def _resized(program: Program, old: int, new: int) -> Program:
    """Another size wherever there is one size; a square of it, which may be reshaped to one,
    becomes one of the other."""
    sizes = {old**2: new**2, old: new}
    return _with_shapes(program, lambda shape: tuple([sizes.get(n, n) for n in shape]))


def _resized_axis(program: Program, rank: int, axis: int, old: int, new: int) -> Program:
    """Change the size of one axis in all values of a rank."""

    def changed(shape: Shape) -> Shape:
        is_other = len(shape) != rank or shape[axis] != old
        return shape if is_other else (*shape[:axis], new, *shape[axis + 1 :])

    return _with_shapes(program, changed)


def _without_axis(program: Program, rank: int, axis: int) -> Program:
    """Drop an axis of size 1 from all values of a rank."""

    def changed(shape: Shape) -> Shape:
        is_other = len(shape) != rank or shape[axis] != 1
        return shape if is_other else (*shape[:axis], *shape[axis + 1 :])

    edited = _with_shapes(program, changed)
    for op in ops_of(edited):
        if isinstance(op, tile.TileAccess) and len(op.block.shape) < len(op.offsets):
            _leave_out(op, axis)
        elif isinstance(op, MOVING) and op.operands[0].type is op.results[0].type:
            op.results[0].replace_by(op.operands[0])
            op.erase()
    return edited


def _leave_out(op: tile.TileAccess, axis: int) -> None:
    """Leave out the offset, stride and bound of an axis."""
    groups = (op.offsets, op.strides, op.bounds)
    others = op.operands[: len(op.operands) - sum(map(len, groups))]
    left = [v for group in groups for v in (*group[:axis], *group[axis + 1 :])]
    op.set_operands((*others, *left))


def _with_shapes(program: Program, changed: Callable[[Shape], Shape]) -> Program:
    """Values, and the arrays that they are given, in other shapes."""

    def changed_type(type_: Type) -> Type:
        shape = shape_of(type_)
        return _with_shape(type_, changed(shape)) if shape else type_

    edited = program.with_module(program.module.clone())
    function = edited.function
    for value in values_of(function):
        value.type = changed_type(value.type)
    function.set_returns(tuple(map(changed_type, function.returns)))
    recipes = [
        replace(r, shape=v.type.shape) if isinstance(v.type, Tensor) and isinstance(r, Array) else r
        for v, r in zip(function.body.arguments, program.arguments, strict=True)
    ]
    return replace(edited, arguments=tuple(recipes))


def _with_shape(type_: Type, shape: Shape) -> Type:
    match type_:
        case Tile() | Tensor():
            return type(type_)(shape, type_.element)
        case Registers():
            return type_.element if shape == (1,) else _array(type_, shape[0])
    return type_


def _array(type_: Registers, count: int) -> Registers:
    """An array of another size, in the same shape of registers where that still fits."""
    fits = type_.lanes is not None and count % type_.lanes == 0
    return Registers(count, type_.element, type_.lanes if fits else None)
