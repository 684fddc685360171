"""Small changes that make a program simpler: what `reduce` tries one after the other.

    simpler = drop(range(3, 5))(program)     # without two of its ops, or None

An edit gives a new program, which need not be valid, or None where there is nothing to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import prod
from operator import is_not
from typing import TypeVar

from iris.errors import IrisError
from iris.interp.frame import Grid
from iris.ir import Level, Module, literal, metal, tile
from iris.ir.control import Func, If, Return, names_of
from iris.ir.core import Op, Region, Value
from iris.ir.effects import has_side_effects, reads
from iris.ir.level_types import simdgroups_of_layouts
from iris.ir.math import Cast, Constant, Elementwise, element_type
from iris.ir.rewriter import Rewriter, drop_carried
from iris.ir.types import (
    DTYPES,
    DType,
    ElementType,
    Ptr,
    Registers,
    Tensor,
    Threadgroup,
    Tile,
    Type,
    bool_,
    f32,
    i32,
)
from iris.tools.replay import ONE_PROGRAM, Array, Program, Recipe, Scalar

Edit = Callable[[Program], Program | None]
T = TypeVar("T")

ALIKE = 4  # values that are tried in place of another one


def ops_of(program: Program) -> Sequence[Op]:
    """The ops of the function that is launched, outer before inner."""
    return program.function.body.walk()


def load(program: Program) -> tuple[float, ...]:
    """What an edit of ops must lower, the first number first.

    It counts the ops that compute something, their operands that are no constants, how deep these
    are, elements, and uses of constants.  Last comes how large these are, and how many there are.
    """
    depths: dict[Value, int] = {}
    computing = uses = deep = elements = constants = made = 0
    numbers = 0.0
    for op in ops_of(program):
        fixed = [v.op for v in op.operands if isinstance(v.op, Constant)]
        if isinstance(op, Constant) and not op.results[0].users:
            fixed.append(op)
        constants += len(fixed)
        for constant in fixed:
            number = literal.decode(constant.bits, constant.dtype)
            numbers += min(abs(number), 2.0**64) if number == number else 2.0**64
        if isinstance(op, Constant):
            made += 1
            continue
        computing += 1
        used = [v for v in op.operands if not isinstance(v.op, Constant)]
        below = [depths.get(v, 0) for v in used]
        uses += len(used)
        deep += sum(below)
        for value in op.results:
            depths[value] = 1 + max(below, default=0)
            elements += prod(shape_of(value.type))
    return computing, uses, deep, elements, constants, numbers, made


def drop(positions: Sequence[int]) -> Edit:
    """Leave out some of the ops of `ops_of`.

    A value of the same type, or else zero, takes the place of a result that is used.  With several
    ops goes what is then unused; after one it stays, for it may be what matters.
    """

    def change(function: Func) -> bool:
        ops = function.body.walk()
        return sum(_drop(ops[position]) for position in reversed(positions)) > 0

    return _on_function(change, sweep=len(positions) > 1)


def inline(op: Op, position: int) -> Iterator[Edit]:
    """Run a region of an op, which is at a position of `ops_of`, once and where the op is.  What
    only the op used stays: that it is there may be what matters."""
    for number in range(len(op.regions)):
        yield on_op(position, partial(inline_region, number=number), sweep=False)
        if op.loops:
            yield on_op(position, partial(_inline_with_late_loads, number=number), sweep=False)
    if isinstance(op, If):
        yield on_op(position, _mask_stores, sweep=False)


def of_op(op: Op, position: int) -> Iterator[Edit]:
    """The other edits of an op, which is at a position of `ops_of`."""
    at = partial(on_op, position)
    for result in op.results:
        if op.regions:
            yield at(partial(without_carried, index=result.index))
        for number in range(min(ALIKE, len(_alike(op, result.type)))):
            yield at(partial(_use_alike, index=result.index, number=number))
        for bits in _numbers(op, result.type):
            yield at(partial(use_number, index=result.index, bits=bits))
        for number in range(len(_narrower(op, result.type))):
            yield at(partial(_use_broadcast, index=result.index, number=number))
    yield at(_broadcast_later)
    yield at(_evaluate)
    for number, region in enumerate(op.regions):
        for argument in region.arguments:
            for bits in _numbers(op, argument.type):
                yield at(partial(_set_argument, region=number, index=argument.index, bits=bits))
    yield on_op(position, _one_instead, sweep=False)
    for count in (2, 1):  # a mask may go with what stands where it is off
        if len(op.operands) - count >= len(op.spec.fixed) and not op.terminator:
            yield at(partial(_drop_last_operands, count=count))


def of_constant(op: Op, position: int) -> Iterator[Edit]:
    """The simpler numbers of an op that is a constant."""
    if isinstance(op, Constant):
        for bits in _simpler_bits(op.bits, op.dtype):
            yield on_op(position, partial(_set_attributes, attributes=(bits,)))


def of_uses(op: Op, position: int) -> Iterator[Edit]:
    """The edits of what an op is given, which is left as it is for others."""
    at = partial(on_op, position)
    for index, operand in enumerate(op.operands):
        if operand.op is not None and operand.op.operands:
            yield at(partial(_use_source, index=index))
            if len(operand.users) > 1:  # else the whole value is a number by now, if it can be
                yield at(partial(_use_number_here, index=index, bits=0))
        elif isinstance(operand.op, Constant) and len(operand.users) > 1:
            for bits in _simpler_bits(operand.op.bits, operand.op.dtype):
                yield at(partial(_use_number_here, index=index, bits=bits))


def sideways(op: Op, position: int) -> Iterator[Edit]:
    """The edits that need make nothing simpler by themselves: another value for an operand, or for
    a number wherever it is used, and effects in another order."""
    at = partial(on_op, position)
    if not op.results and not op.regions and not op.terminator and has_side_effects(op):
        yield at(_put_off)
    if isinstance(op, Constant):
        for number in range(min(ALIKE, len(_there(op, op.results[0].type)))):
            yield at(partial(_use_there, number=number))
    for index, operand in enumerate(op.operands):
        for number in range(len(_there(op, operand.type))):
            yield at(partial(_use_other, index=index, number=number))


def of_threads(program: Program) -> Iterator[Edit]:
    """The edits of how many programs and simdgroups there are."""
    if program.grid != ONE_PROGRAM:
        yield _last_program
    for axis, size in enumerate(program.grid):
        for smaller in smaller_sizes(size):
            x, y, z = (smaller if i == axis else n for i, n in enumerate(program.grid))
            yield partial(replace, grid=(x, y, z))
            yield partial(_with_part_of_arrays, grid=(x, y, z))
    for smaller in smaller_sizes(max(1, program.function.simdgroups)):  # 0: not decided
        yield partial(_with_simdgroups, count=smaller)


def of_launch(program: Program) -> Iterator[Edit]:
    """Edit the results, and the list of arguments."""
    for index in range(len(program.function.returns)):
        yield partial(_without_return, index=index)
        yield partial(_return_operand, index=index)
    for index in range(len(program.arguments)):
        yield partial(_without_parameter, index=index)
        yield partial(_number_for_parameter, index=index)
        yield partial(_without_casts, index=index)


def of_arrays(program: Program) -> Iterator[Edit]:
    """The edits of the types of elements, and of what arguments are made of."""
    for dtype in DTYPES.values():
        if dtype not in (bool_, f32, i32):
            yield partial(_retyped, old=dtype, new=f32 if dtype.is_float else i32)
    for index, recipe in enumerate(program.arguments):
        for simpler in _simpler_recipes(recipe):
            yield partial(_with_recipe, index=index, recipe=simpler)


def on_op(position: int, change: Callable[[Op], bool], *, sweep: bool = True) -> Edit:
    """Change the op at a position of `ops_of`, and leave out what is then unused."""

    def of_function(function: Func) -> bool:
        return change(function.body.walk()[position])

    return _on_function(of_function, sweep=sweep)


def _on_function(change: Callable[[Func], bool], *, sweep: bool = True) -> Edit:
    def edit(program: Program) -> Program | None:
        edited = program.with_module(program.module.clone())
        unused = set(_unused(edited.function))
        if not change(edited.function):
            return None
        # No pass does this: one may be what is tested.  What was unused before may be, too.
        for op in _unused(edited.function):
            if sweep and op not in unused:
                op.erase()
        return edited

    return edit


def _unused(function: Func) -> Iterator[Op]:
    """The ops that compute something for nothing, from the last to the first; each may be erased
    before the next one is asked for."""
    for op in reversed(function.body.walk()):
        made = op.results or op.regions
        if made and not any(v.users for v in op.results) and not has_side_effects(op):
            yield op


# Ops.


def _drop(op: Op) -> bool:
    if op.terminator:
        return False
    used = [v for v in op.results if v.users]
    for value in used:
        alike = next((o for o in op.operands if o.type is value.type), None)
        other = alike or fresh_value(op, value.type)
        if other is None:
            return False
        value.replace_by(other)
    op.erase()
    return True


def _alike(op: Op, type_: Type) -> list[Value]:
    """Values of a type that are there before an op: its operands, what those are made of in the
    end, and what its region has."""
    region = op.parent
    assert region is not None
    earlier = takewhile(lambda other: other is not op, region)
    before = [v for other in earlier for v in other.results]
    there = [*op.operands, *roots(op), *region.arguments, *before]
    return [v for v in dict.fromkeys(there) if v.type is type_]


def _there(op: Op, type_: Type) -> list[Value]:
    """All values of a type that an op can use."""
    found: list[Value] = []
    while not isinstance(op, Func):
        region = op.enclosing
        earlier = takewhile(partial(is_not, op), region)
        values = [*region.arguments, *[v for other in earlier for v in other.results]]
        found += [v for v in values if v.type is type_]
        op = op.enclosing_op
    return found


def roots(op: Op) -> Iterator[Value]:
    """What an op is made of in the end, but for constants."""
    pending, seen = [*op.operands], set[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.op is None or not (value.op.operands or isinstance(value.op, Constant)):
            yield value
        else:
            pending += value.op.operands


def _use_alike(op: Op, index: int, number: int) -> bool:
    return use_value(op, index, _alike(op, op.results[index].type)[number])


def _use_there(op: Op, number: int) -> bool:
    return use_value(op, 0, _there(op, op.results[0].type)[number])


def use_value(op: Op, index: int, other: Value) -> bool:
    value = op.results[index]
    used = bool(value.users)
    value.replace_by(other)
    return used


def _numbers(op: Op, type_: Type) -> list[int]:
    """The bits of numbers to try in place of a value: zero, one, and some that are constants of the
    function."""
    if not isinstance(type_, ElementType):
        return [0]
    dtype = element_type(type_).element
    outer = op
    while outer.parent_op is not None:
        outer = outer.parent_op
    constants = [o.bits for o in outer.walk() if isinstance(o, Constant) and o.dtype is dtype]
    first = [literal.encode(0, dtype), literal.encode(1, dtype)]
    return list(dict.fromkeys([*first, *constants]))[: len(first) + ALIKE]


def use_number(op: Op, index: int, bits: int) -> bool:
    other = fresh_value(op, op.results[index].type, bits)
    return other is not None and use_value(op, index, other)


def _one_instead(op: Op) -> bool:
    """The number 1 in place of an op.  What it was made of stays, as in `drop`."""
    if len(op.results) != 1 or not isinstance(op.result.type, ElementType):
        return False
    one = literal.encode(1, element_type(op.result.type).element)
    if not use_number(op, 0, one):
        return False
    op.erase()
    return True


def _set_argument(op: Op, region: int, index: int, bits: int) -> bool:
    """A number in place of an argument of a region."""
    argument = op.regions[region].arguments[index]
    other = fresh_value(op, argument.type, bits) if argument.users else None
    if other is None:
        return False
    argument.replace_by(other)
    return True


def _narrower(op: Op, type_: Type) -> list[Value]:
    """What an op is made of that can be broadcast to a type."""
    if isinstance(op, tile.Broadcast) or not isinstance(type_, Tile) or type_.layout is not None:
        return []
    made_of = dict.fromkeys([*op.operands, *roots(op)])
    return [v for v in made_of if v.type is not type_ and _broadcasts(v.type, type_)][:ALIKE]


def _broadcasts(source: Type, target: Tile) -> bool:
    if not isinstance(source, ElementType):
        return False
    found = element_type(source)
    sizes = list(zip(found.shape, target.shape, strict=False))
    fits = len(sizes) in (0, len(target.shape)) and all(n in (1, size) for n, size in sizes)
    return found.element is target.element and len(sizes) == len(found.shape) and fits


def _use_broadcast(op: Op, index: int, number: int) -> bool:
    """One of the things that an op is made of, broadcast, in its place."""
    type_ = op.results[index].type
    broadcast = tile.Broadcast(_narrower(op, type_)[number], type_)
    op.insert_before(broadcast)
    return use_value(op, index, broadcast.results[0])


def _broadcast_later(op: Op) -> bool:
    """Computes with what is broadcast, and with numbers, and broadcasts what comes of it.  If the
    op itself broadcasts what is computed so, once is enough."""
    inner = op.operands[0].op if isinstance(op, tile.Broadcast) else op
    if not isinstance(inner, Elementwise):
        return False
    made = [v.op for v in inner.operands]
    sources = [o.operands[0].type for o in made if isinstance(o, tile.Broadcast)]
    shapes = {element_type(type_).shape for type_ in sources}
    if len(shapes) != 1 or not all(isinstance(o, tile.Broadcast | Constant) for o in made):
        return False
    (shape,) = shapes

    def narrow(type_: Type) -> ElementType:
        dtype = element_type(type_).element
        return Tile(shape, dtype) if shape else dtype

    operands: list[Value] = []
    for other in made:
        if isinstance(other, Constant):
            other = Constant.of_bits(other.bits, narrow(other.results[0].type))
            op.insert_before(other)
            operands.append(other.results[0])
        elif other is not None:
            operands.append(other.operands[0])
    first = inner.clone({})
    first.set_operands(tuple(operands))
    first.results[0].type = narrow(inner.results[0].type)
    op.insert_before(first)
    last = tile.Broadcast(first.results[0], op.results[0].type)
    op.insert_before(last)
    return use_value(op, 0, last.results[0])


def _evaluate(op: Op) -> bool:
    """The number that numbers come to."""
    constants = [v.op for v in op.operands if isinstance(v.op, Constant)]
    if not isinstance(op, Elementwise) or len(constants) < len(op.operands):
        return False
    function = Func("number", Level.GRAPH)
    copies: dict[Value, Value] = {}
    for each in (*constants, op):
        copy = each.clone(copies)
        for value in copy.results:
            value.type = Tensor((1,), element_type(value.type).element)
        function.body.append(copy)
    function.set_returns((copy.results[0].type,))
    function.body.append(Return((copy.results[0],)))
    program = Program(Module([function]), function.symbol, ONE_PROGRAM, ())
    try:
        (found,) = program.run([])
    except IrisError:
        return False
    return use_number(op, 0, int(found.view(f"u{found.itemsize}")[0]))


def fresh_value(op: Op, type_: Type, bits: int = 0) -> Value | None:
    """A constant, or memory of a threadgroup, before an op that is not such a thing itself."""
    fresh: Op
    if isinstance(type_, ElementType):
        fresh = Constant.of_bits(bits, type_)
    elif isinstance(type_, Threadgroup):
        fresh = metal.Alloc(result=type_)
    else:
        return None
    if type(fresh) is type(op):
        return None
    op.insert_before(fresh)
    return fresh.results[0]


def inline_region(op: Op, number: int) -> bool:
    """Runs a region once, where the op is: what a loop begins with goes in."""
    region = op.regions[number]
    given = _arguments(op, region)
    if given is None or len(region.end.operands) != len(op.results):
        return False
    rewriter = Rewriter()
    for result, value in zip(op.results, rewriter.inline(region, given, op), strict=True):
        result.type = value.type  # of an array of registers, one
        rewriter.replace_value(result, value)
    op.erase()
    return True


def _inline_with_late_loads(op: Op, number: int) -> bool:
    """Runs a region once, and loads what it loads only where that is needed: what an iteration has
    loaded, the next one may find changed."""
    region = op.regions[number]
    loads = [o for o in region if o.results and not o.regions and reads(o.effects())]
    for load in [o for o in loads if not has_side_effects(o)]:
        user = next((o for o in region if o in load.results[0].users), load)
        if user is not load:
            load.detach()
            user.insert_before(load)
    return inline_region(op, number)


def _mask_stores(op: Op) -> bool:
    """Stores under a mask in place of a branch."""
    assert isinstance(op, If)
    stores = [o for o in op.then if isinstance(o, metal.Store | tile.Store) and o.mask is None]
    for store in stores:
        store.set_operands((*store.operands, op.condition))
    return bool(stores) and inline_region(op, 0)


def _arguments(op: Op, region: Region) -> list[Value] | None:
    """Values for the arguments of a region: the last operands of its op, as far as the types are
    theirs, and zeros."""
    count = len(region.arguments)
    last = [None] * count + list(op.operands)
    given: list[Value] = []
    for argument, operand in zip(region.arguments, last[len(last) - count :], strict=True):
        if operand is not None and operand.type is argument.type:
            given.append(operand)
        elif (fresh := fresh_value(op, argument.type)) is not None:
            given.append(fresh)
        else:
            return None
    return given


def without_carried(op: Op, index: int) -> bool:
    """Carries one value less: in its place goes what it starts as, or else zero."""
    if not any(map(op.forwards, op.regions)):
        return False
    result = op.results[index]
    if op.spec.feeds:
        start: Value | None = op.operands[len(op.spec.fixed) + index]
    else:
        start = fresh_value(op, result.type)
    if start is None:
        return False
    for value in names_of(op, index):
        value.replace_by(start)
    drop_carried(op, {index})
    return True


def _use_source(op: Op, index: int) -> bool:
    """In place of an operand what that was made of."""
    source = op.operands[index].op
    return source is not None and _set_operand(op, index, source.operands[0])


def _use_other(op: Op, index: int, number: int) -> bool:
    """In place of an operand another value of its type."""
    return _set_operand(op, index, _there(op, op.operands[index].type)[number])


def _put_off(op: Op) -> bool:
    """Has an effect only after the next one."""
    later = op.next
    while later is not None and not has_side_effects(later):
        later = later.next
    if later is None or later.terminator or later.regions:
        return False
    assert later.next is not None, "a region ends with a terminator"
    after = later.next
    op.detach()
    after.insert_before(op)
    return True


def _use_number_here(op: Op, index: int, bits: int) -> bool:
    """A number in place of an operand that others use, too."""
    number = fresh_value(op, op.operands[index].type, bits)
    return number is not None and _set_operand(op, index, number)


def _set_operand(op: Op, index: int, value: Value) -> bool:
    operands = list(op.operands)
    operands[index] = value
    op.set_operands(tuple(operands))
    return True


def _drop_last_operands(op: Op, count: int) -> bool:
    op.set_operands(op.operands[:-count])
    return True


def _set_attributes(op: Op, attributes: tuple[object, ...]) -> bool:
    op.attributes = attributes
    return True


def _simpler_bits(bits: int, dtype: DType) -> Iterator[int]:
    """The bits of simpler numbers: nearer to zero, or of fewer digits."""
    value = literal.decode(bits, dtype)
    for number in (0, 1, *_halves(value)):
        simpler = literal.encode(number, dtype)
        if simpler == bits:
            return
        yield simpler


def _halves(value: literal.Number) -> Iterator[int]:
    """Half of a number, as a whole one; nothing of nan and of very large numbers."""
    if abs(value) < 2**31 and value == value:
        yield int(value / 2)


# The launch.


def smaller_sizes(size: int) -> list[int]:
    return sorted({1, size // 2} - {size, 0})


def values_of(function: Func) -> Iterator[Value]:
    yield from function.body.arguments
    for op in function.body.walk():
        yield from op.results
        for region in op.regions:
            yield from region.arguments


def _retyped(program: Program, old: DType, new: DType) -> Program | None:
    """Elements of another type wherever they have one type; numbers stay what they are."""

    def changed(type_: Type) -> Type:
        if type_ is old:
            return new
        _, arguments = type_.__reduce__()  # from which pickle makes it again
        return type(type_)(*[new if a is old else a for a in arguments])

    def bits(number: int) -> int:
        return literal.encode(literal.decode(number, old), new)

    def recipe(given: Recipe) -> Recipe:
        if given.dtype is not old:
            return given
        if isinstance(given, Scalar):
            return Scalar(new, bits(given.bits))
        return replace(given, dtype=new, range=None, data=tuple(map(bits, given.data)))

    edited = program.with_module(program.module.clone())
    function = edited.function
    if all(changed(v.type) is v.type for v in values_of(function)):
        return None
    try:
        for op in function.body.walk():
            if isinstance(op, Constant) and op.dtype is old:
                op.attributes = (bits(op.bits),)
        edited = replace(edited, arguments=tuple(map(recipe, program.arguments)))
    except OverflowError:  # an unsigned number that is too large
        return None
    for value in values_of(function):
        value.type = changed(value.type)
    function.set_returns(tuple(map(changed, function.returns)))
    for op in function.body.walk():
        if isinstance(op, Cast) and op.operands[0].type is op.results[0].type:
            op.results[0].replace_by(op.operands[0])
            op.erase()
    return edited


def shape_of(type_: Type) -> tuple[int, ...]:
    """The sizes of a type that can be other ones: not those that a layout is for."""
    if isinstance(type_, Tile):
        return type_.shape if type_.layout is None else ()
    return type_.shape if isinstance(type_, Tensor | Registers) else ()


def _with_part_of_arrays(program: Program, grid: Grid) -> Program:
    """Fewer programs, and as much less in each array: what goes beyond its end still does."""
    before, after = prod(program.grid), prod(grid)
    recipes = [
        replace(r, shape=(prod(r.shape) * after // before,)) if isinstance(r, Array) else r
        for r in program.arguments
    ]
    return replace(program, grid=grid, arguments=tuple(recipes))


def _last_program(program: Program) -> Program:
    """The last program alone, with the numbers that it has."""
    edited = program.with_module(program.module.clone())
    for op in ops_of(edited):
        if isinstance(op, tile.ProgramId | metal.ThreadgroupId):
            number = Constant(program.grid[op.axis] - 1, i32)
            op.insert_before(number)
            op.result.replace_by(number.result)
            op.erase()
    return replace(edited, grid=ONE_PROGRAM)


def _with_simdgroups(program: Program, count: int) -> Program | None:
    """With fewer simdgroups, if no tile is laid out for those that there are."""
    if simdgroups_of_layouts(program.function):
        return None
    edited = program.with_module(program.module.clone())
    edited.function.set_simdgroups(count)
    return edited


def _without_return(program: Program, index: int) -> Program:
    """Without one of the values that the function returns."""
    edited = program.with_module(program.module.clone())
    function = edited.function
    end = function.body.end
    end.set_operands(_without(end.operands, index))
    function.set_returns(_without(function.returns, index))
    return edited


def _return_operand(program: Program, index: int) -> Program | None:
    """What a returned value is made of, in its place."""
    edited = program.with_module(program.module.clone())
    function = edited.function
    end = function.body.end
    source = end.operands[index].op
    if source is None or not source.operands:
        return None
    values = [source.operands[0] if i == index else v for i, v in enumerate(end.operands)]
    end.set_operands(tuple(values))
    function.set_returns(tuple([v.type for v in values]))
    if not any(v.users for v in source.results):
        source.erase()
    return edited


def _without(items: tuple[T, ...], index: int) -> tuple[T, ...]:
    return items[:index] + items[index + 1 :]


def _without_parameter(program: Program, index: int) -> Program | None:
    """Without an argument that is not used, in whose memory no other one lies."""
    edited = program.with_module(program.module.clone())
    parameters = edited.function.body.arguments
    recipes = list(program.arguments)
    aliases = [r.alias for r in recipes if isinstance(r, Array)]
    if parameters[index].users or index in aliases:
        return None
    del parameters[index], recipes[index]
    for number, parameter in enumerate(parameters):
        parameter.index = number
    moved = [
        replace(r, alias=r.alias - 1)
        if isinstance(r, Array) and r.alias is not None and r.alias > index
        else r
        for r in recipes
    ]
    return replace(edited, arguments=tuple(moved))


def _number_for_parameter(program: Program, index: int) -> Program | None:
    """The number that an argument is, in place of the parameter."""
    recipe = program.arguments[index]
    edited = program.with_module(program.module.clone())
    body = edited.function.body
    parameter = body.arguments[index]
    if not isinstance(recipe, Scalar) or not parameter.users:
        return None
    assert isinstance(parameter.type, ElementType)
    constant = Constant.of_bits(recipe.bits, parameter.type)
    parameter.replace_by(constant.results[0])
    assert body.first is not None
    body.first.insert_before(constant)
    return edited


def _without_casts(program: Program, index: int) -> Program | None:
    """Stores what is cast to the elements of an array, to one of such elements."""
    edited = program.with_module(program.module.clone())
    parameter = edited.function.body.arguments[index]
    casts = [(op, i) for op in parameter.users for i, v in enumerate(op.operands) if _is_cast(v)]
    sources = {v.op.operands[0].type for op, i in casts if (v := op.operands[i]).op is not None}
    dtypes = {element_type(type_).element for type_ in sources}
    recipe = program.arguments[index]
    if len(dtypes) != 1 or not isinstance(parameter.type, Ptr) or not isinstance(recipe, Array):
        return None
    (dtype,) = dtypes
    for op, i in casts:
        _use_source(op, i)
    parameter.type = Ptr(dtype, parameter.type.noalias, parameter.type.aligned)
    return _with_recipe(edited, index, Array(dtype, recipe.shape, alias=recipe.alias, at=recipe.at))


def _is_cast(value: Value) -> bool:
    return isinstance(value.op, Cast)


def _with_recipe(program: Program, index: int, recipe: Recipe) -> Program:
    recipes = [recipe if i == index else r for i, r in enumerate(program.arguments)]
    return replace(program, arguments=tuple(recipes))


def _simpler_recipes(recipe: Recipe) -> Iterator[Recipe]:
    if isinstance(recipe, Scalar):
        for bits in _simpler_bits(recipe.bits, recipe.dtype):
            yield Scalar(recipe.dtype, bits)
        return
    if recipe.alias is not None:
        yield replace(recipe, alias=None, at=0)
    if recipe.seed is not None or recipe.data:
        plain = Array(recipe.dtype, recipe.shape)
        if recipe.alias is None:
            yield plain
            if recipe.data != (one := (literal.encode(1, recipe.dtype),)):
                yield replace(plain, data=one)
    size = prod(recipe.shape)
    for smaller in smaller_sizes(size):
        yield replace(recipe, shape=(smaller,))
    data = recipe.data[:size]
    for count in _halvings(len(data)):
        for start in range(0, len(data), count):
            before, window, after = data[:start], data[start : start + count], data[start + count :]
            if before or after:
                yield replace(recipe, data=before + after)
            if any(window):
                yield replace(recipe, data=before + (0,) * len(window) + after)


def _halvings(size: int) -> Iterator[int]:
    """Half of a size, half of that, and so on down to 1."""
    while size > 1:
        size = (size + 1) // 2
        yield size
