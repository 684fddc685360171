"""Edits of loads, stores and threadgroup memory; some take computed values for data.

for edit in of_memory(op, 7):   # such as to load what op 7 computes from a new array
    simpler = edit(program)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy.typing as npt

from iris.errors import IrisError
from iris.ir import Level, literal, metal, tile
from iris.ir.control import For, Func, Return
from iris.ir.core import Op, Value
from iris.ir.math import Add, Constant, element_type
from iris.ir.types import DType, ElementType, Ptr, Threadgroup, Tile, Type, i32
from iris.testing.edits import (
    ALIKE,
    Edit,
    inline_region,
    load,
    on_op,
    ops_of,
    roots,
    smaller_sizes,
    use_number,
    use_value,
    values_of,
    without_carried,
)
from iris.testing.limit import TimeLimitError, limited
from iris.tools.replay import Array, Program
from iris.tools.run import bits_of

ACCESSES = (tile.Load, tile.MaskedLoad, tile.Store, metal.Load, metal.Store)
MOST_DATA = 64  # elements that are written down
MOST_AXES = 3  # of a tile that is loaded or stored as a block
SECONDS = 1.0  # that a program may take to compute a value


def of_memory(op: Op, position: int) -> Iterator[Edit]:
    """The edits of an op, which is at a position of `ops_of`, that change where data is."""
    at: Callable[..., Edit] = partial(on_op, position)
    for result in op.results:
        if op.operands and isinstance(result.type, ElementType):
            yield partial(_as_data, position=position, index=result.index)
        for number in range(len(_elements(op, result.type))):
            yield at(partial(_load_element, index=result.index, number=number))
    if isinstance(op, metal.Alloc):
        memory = op.result.type_as(Threadgroup)
        yield _with_array(at(_use_argument), memory.element, memory.count)
    if isinstance(op, tile.Store):
        for number, value in enumerate(_storable(op)):
            type_ = element_type(value.type)
            # It is full of ones, so that it shows what is not stored.
            data = (literal.encode(1, type_.element),)
            stored = at(partial(_store_whole, number=number))
            yield _with_array(stored, type_.element, prod(type_.shape), data)
    if isinstance(op, tile.Store | tile.StoreTile | metal.Store):
        yield at(_store_where_loaded)
    if isinstance(op, ACCESSES):
        for index in range(2):
            yield partial(_without_start, position=position, index=index)
    if isinstance(op, tile.Store | metal.Store):
        yield at(_store_in_loop)
        for number in range(len(_others(op))):
            yield at(partial(_store_for_another, number=number))


def of_allocations(program: Program) -> Iterator[Edit]:
    """The edits of how much memory of the threadgroup there is: in all allocations of one size, or
    in one of them."""
    counts = {v.type.count for v in values_of(program.function) if isinstance(v.type, Threadgroup)}
    for count in sorted(counts):
        for smaller in smaller_sizes(count):
            yield partial(_reallocated, old=count, new=smaller)
    for position, op in enumerate(ops_of(program)):
        if isinstance(op, metal.Alloc):
            for smaller in smaller_sizes(op.result.type_as(Threadgroup).count):
                yield on_op(position, partial(_set_count, count=smaller))


def _reallocated(program: Program, old: int, new: int) -> Program:
    """So many elements wherever memory of the threadgroup has another number of them."""
    edited = program.with_module(program.module.clone())
    for value in values_of(edited.function):
        if isinstance(value.type, Threadgroup) and value.type.count == old:
            value.type = Threadgroup(new, value.type.element)
    return edited


def _set_count(op: Op, count: int) -> bool:
    op.result.type = Threadgroup(count, op.result.type_as(Threadgroup).element)
    return True


def _use_argument(op: Op) -> bool:
    """Memory of the device in place of memory of the threadgroup."""
    memory = op.result.type_as(Threadgroup)
    return use_value(op, 0, _new_array(op, memory.element))


# What is computed.


def _as_data(program: Program, position: int, index: int) -> Program | None:
    """In place of a value, the number that it is, or what is loaded from an array that holds it."""
    type_ = element_type(ops_of(program)[position].results[index].type)
    bits = _computed(program, position, index)
    if bits is None:
        return None
    if len(set(bits)) == 1:
        return on_op(position, partial(use_number, index=index, bits=bits[0]))(program)
    if len(bits) > MOST_DATA or not _is_block(type_):
        return None
    edit = on_op(position, partial(_load_instead, index=index))
    loaded = _with_array(edit, type_.element, prod(type_.shape), bits)(program)
    # That a load is in place of another is no gain.
    fewer = loaded is not None and load(loaded)[0] < load(program)[0]
    return loaded if fewer else None


def _computed(program: Program, position: int, index: int) -> tuple[int, ...] | None:
    """The bits of a value, in loops of the first iteration; None if they are not the same in all
    programs and threads."""
    edited = program.with_module(program.module.clone())
    op = ops_of(edited)[position]
    value = op.results[index]
    while (outer := op.enclosing_op) is not edited.function:
        if not inline_region(outer, outer.regions.index(op.enclosing)):
            return None
    _end_after(edited.function, value)
    try:
        with limited(SECONDS):
            (found,) = edited.run(edited.make_arguments(), output=lambda line: None)
    except (IrisError, TimeLimitError):
        return None
    type_ = element_type(value.type)
    rows = _rows(type_, found)
    return tuple(rows[0].tolist()) if rows.size and (rows == rows[0]).all() else None


def _rows(type_: ElementType, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of a value, with a row for each program and thread."""
    return bits_of(type_.element, found).reshape(-1, max(1, prod(type_.shape)))


def _end_after(function: Func, value: Value) -> None:
    """Ends a function once it has a value, and returns that."""
    for op in reversed(function.body):
        if op is value.op:
            break
        op.erase()
    function.set_returns((value.type,))
    function.body.append(Return((value,)))


def _load_instead(op: Op, index: int) -> bool:
    """Loads a value from an array of its own."""
    type_ = element_type(op.results[index].type)
    assert isinstance(type_, Tile)
    loaded = tile.LoadTile(_new_array(op, type_.element), None, *_whole(op, type_), type_)
    op.insert_before(loaded)
    return use_value(op, index, loaded.result)


def _elements(op: Op, type_: Type) -> list[tuple[Value, Value | None]]:
    """Where there are elements of a type, in memory that a thread makes a value of: there, and what
    is the offset; None stands for 0."""
    function = _function(op)
    is_metal = function.function_level is Level.METAL
    if not is_metal or isinstance(op, metal.Load) or not isinstance(type_, DType):
        return []
    memories = [v for v in roots(op) if isinstance(v.type, Ptr | Threadgroup)]
    lanes = [o.result for o in function.body if isinstance(o, metal.Lane)]
    there = [v for v in memories if v.type.element is type_]
    return [(memory, offset) for memory in there for offset in (None, *lanes[:1])]


def _load_element(op: Op, index: int, number: int) -> bool:
    """Loads an element in place of a value."""
    value = op.results[index]
    memory, offset = _elements(op, value.type)[number]
    loaded = metal.Load(memory, offset or _number(op, 0, i32), None, None, value.type)
    op.insert_before(loaded)
    return use_value(op, index, loaded.result)


# What is stored.


def _storable(op: tile.Store) -> list[Value]:
    """What an op stores, and what that is made of."""
    source = op.value.op
    made_of = () if source is None else source.operands
    return [v for v in (op.value, *made_of) if isinstance(v.type, DType) or _is_block(v.type)]


def _store_whole(op: tile.Store, number: int) -> bool:
    """Stores a value to an array of its own, in order."""
    value = _storable(op)[number]
    array = _new_array(op, element_type(value.type).element)
    if isinstance(value.type, Tile):
        op.insert_before(tile.StoreTile(array, value, None, *_whole(op, value.type)))
    else:
        op.insert_before(tile.Store(array, _number(op, 0, i32), value))
    op.erase()
    return True


def _store_where_loaded(op: tile.Store | tile.StoreTile | metal.Store) -> bool:
    """Stores a number where the value that is stored was loaded from."""
    source = op.value.op
    if not isinstance(source, tile.Load | tile.MaskedLoad | metal.Load):
        return False
    store = metal.Store if isinstance(source, metal.Load) else tile.Store
    one = _number(source, 1, element_type(source.result.type))
    source.insert_before(store(source.base, source.offset, one, source.mask))
    op.erase()
    return True


def _store_in_loop(op: tile.Store | metal.Store) -> bool:
    """Stores in each iteration what a loop yields in the end."""
    loop = op.value.op
    if not isinstance(loop, For):
        return False
    end = loop.body.end
    base, offset, _, *mask = op.operands
    stored = op.clone({})
    stored.set_operands((base, offset, end.operands[op.value.index], *mask))
    end.insert_before(stored)
    index = op.value.index
    op.erase()
    return bool(loop.results[index].users) or without_carried(loop, index)


def _others(op: tile.Store | metal.Store) -> list[tile.Store | metal.Store]:
    """Other stores of a function, of values of the same type."""
    stores = [s for s in _function(op).walk() if isinstance(s, tile.Store | metal.Store)]
    return [s for s in stores if s is not op and s.value.type is op.value.type][:ALIKE]


def _store_for_another(op: tile.Store | metal.Store, number: int) -> bool:
    """Stores the value that another store has, and leaves that one out."""
    other = _others(op)[number]
    base, offset, _, *mask = op.operands
    op.set_operands((base, offset, other.value, *mask))
    other.erase()
    return True


# Arrays.


def _without_start(program: Program, position: int, index: int) -> Program | None:
    """Leaves out a number that is added to an offset, as an operand of the sum, and as many
    elements at the start of the array."""
    edited = program.with_module(program.module.clone())
    op = ops_of(edited)[position]
    assert isinstance(op, ACCESSES)
    total, parameters = op.offset.op, edited.function.body.arguments
    if not isinstance(total, Add) or op.base not in parameters:
        return None
    start, at = total.operands[index].op, parameters.index(op.base)
    arguments = list(edited.arguments)
    recipe = arguments[at]
    if not isinstance(start, Constant) or not isinstance(recipe, Array):
        return None
    number, size = int(start.value), prod(recipe.shape)
    shares = [r.alias for r in arguments if isinstance(r, Array)]
    if not 0 < number < size or recipe.alias is not None or at in shares:
        return None
    rotated = number % max(1, len(recipe.data))  # data is repeated until the array is full
    data = recipe.data[rotated:] + recipe.data[:rotated]
    arguments[at] = replace(recipe, shape=(size - number,), data=data)
    operands = [total.operands[1 - index] if v is op.offset else v for v in op.operands]
    op.set_operands(tuple(operands))
    if not total.results[0].users:
        total.erase()
    return replace(edited, arguments=tuple(arguments))


def _is_block(type_: Type) -> bool:
    return isinstance(type_, Tile) and len(type_.shape) <= MOST_AXES


def _whole(op: Op, type_: Tile) -> list[list[Value]]:
    """The offsets, strides and bounds of all of an array, before an op."""
    axes = range(len(type_.shape))
    strides = [prod(type_.shape[axis + 1 :]) for axis in axes]
    numbers = ([0 for _ in axes], strides, type_.shape)
    return [[_number(op, n, i32) for n in each] for each in numbers]


def _number(op: Op, number: int, type_: ElementType) -> Value:
    constant = Constant(number, type_)
    op.insert_before(constant)
    return constant.result


def _new_array(op: Op, element: DType) -> Value:
    """One more argument of the function that an op is in."""
    pointer = Ptr(element, noalias=True, aligned=True)
    return _function(op).body.add_argument(pointer, "data")


def _function(op: Op) -> Func:
    while not isinstance(op, Func):
        op = op.enclosing_op
    return op


def _with_array(edit: Edit, element: DType, size: int, data: tuple[int, ...] = ()) -> Edit:
    """An edit that adds an argument: the array for it."""
    array = Array(element, (size,), data=data)

    def edited(program: Program) -> Program | None:
        made = edit(program)
        return made and replace(made, arguments=(*made.arguments, array))

    return edited
