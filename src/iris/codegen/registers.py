"""Register arrays: made, taken apart, joined, and gone through part by part."""

from __future__ import annotations

from collections.abc import Sequence

from iris.codegen.expression import Expression, Touch, merge_touches
from iris.codegen.operators import binary, cast_to, constant, dtype_of, integer
from iris.codegen.statements import Assign
from iris.codegen.tree import PART, Call, Name, Number, Tree, element, number, within
from iris.codegen.tree import binary as joined
from iris.codegen.writer import Held, Writer, emit
from iris.ir import math, metal
from iris.ir.core import Op, Value
from iris.ir.in_place import reads_part_by_part
from iris.ir.math import Constant
from iris.ir.metal import count_of
from iris.ir.types import i32


@emit(metal.Splat)
def _splat(ctx: Writer, op: metal.Splat) -> Expression | None:
    # One lane stands for all; what is used vector by vector is computed before.
    users, is_whole = op.result.users, ctx.form(op.result).parts == 1
    if is_whole and len(users) == 1 and all(user.parent is op.parent for user in users):
        return ctx.value(op.x)
    ctx.expressions[op.result] = ctx.simple(op.x)
    return None


@emit(metal.Literal)
def _literal(ctx: Writer, op: metal.Literal) -> Expression | None:
    if len(set(op.values)) == 1:
        return _number(ctx, op.values[0], op.result)
    return _assembled(ctx, op.result, _vectors(ctx, op.values, op.result))


@emit(metal.Pattern)
def _pattern(ctx: Writer, op: metal.Pattern) -> Expression | None:
    values = [0]
    for image in op.images:
        values += [v ^ image for v in values]
    dtype, (lanes, parts) = dtype_of(op.result), ctx.form(op.result)
    vectors = _vectors(ctx, values, op.result)
    step = values[lanes] if parts > 1 else 0
    if step and values == [v + i * step for i in range(parts) for v in values[:lanes]]:
        # A multiple of the number of the vector, too, where the language mixes it in.
        index = Expression(joined("*", PART, number(step)), i32)
        return index if lanes == 1 else binary(vectors[0], "+", cast_to(ctx, index, dtype), dtype)
    return _assembled(ctx, op.result, vectors)


def _number(ctx: Writer, value: int, result: Value) -> Expression:
    dtype = dtype_of(result)
    return constant(ctx, value & ((1 << dtype.bits) - 1), dtype)


def _vectors(ctx: Writer, values: Sequence[int], result: Value) -> list[Expression]:
    """The vectors of a value that has these elements."""
    lanes = ctx.form(result).lanes
    trees = [_number(ctx, v, result).tree for v in values]
    return [_vector(ctx, trees[i : i + lanes], result) for i in range(0, len(trees), lanes)]


@emit(metal.Take)
def _take(ctx: Writer, op: metal.Take) -> Expression | None:
    return gather(ctx, op.result, [(op.x, i) for i in op.indices])


@emit(metal.Join)
def _join(ctx: Writer, op: metal.Join) -> Expression | None:
    elements = [(part, i) for part in op.parts for i in range(count_of(part.type))]
    return gather(ctx, op.result, elements)


def gather(ctx: Writer, result: Value, elements: Sequence[tuple[Value, int]]) -> Expression | None:
    """A value made of elements of others."""
    lanes, parts = ctx.form(result)
    runs = [_runs(ctx, elements[i : i + lanes]) for i in range(0, len(elements), lanes)]
    met = [value for vector in runs for value, _, _ in vector]
    sources = {v: ctx.typed(v) if met.count(v) == 1 else ctx.simple(v) for v in dict.fromkeys(met)}
    repeated = _repeated(ctx, result, sources, runs) if parts > 1 else None
    if repeated is not None:
        ctx.expressions[result] = repeated
        return None
    return _assembled(ctx, result, [_gathered(ctx, result, sources, vector) for vector in runs])


def _gathered(
    ctx: Writer, result: Value, sources: dict[Value, Expression], vector: Sequence[_Run]
) -> Expression:
    """A vector of elements of others."""
    pieces = [
        piece
        for value, part, taken in vector
        for piece in _pieces(ctx, sources[value].at(number(part)), taken)
    ]
    if len(pieces) == 1 and pieces[0].lanes == ctx.form(result).lanes:
        return pieces[0]
    touches = merge_touches([sources[value] for value, _, _ in vector])
    return _vector(ctx, [piece.tree for piece in pieces], result).replace(touches=touches)


#: Neighbours that come from one vector: the value, which of its vectors, which lanes.
_Run = tuple[Value, int, list[int]]


def _repeated(
    ctx: Writer,
    result: Value,
    sources: dict[Value, Expression],
    runs: Sequence[list[_Run]],
) -> Expression | None:
    """The vectors of another value in their order, each so often or all again and again: another
    view of its variable."""
    lanes, parts = ctx.form(result)
    if len(sources) > 1:
        return None
    ((value, x),) = sources.items()
    every = list(range(lanes))
    if value not in ctx.variables or any(len(v) > 1 or v[0][2] != every for v in runs):
        return None
    numbers = [vector[0][1] for vector in runs]
    size, count = ctx.form(value)
    if size != lanes:
        return None
    if count == 1 and not all(_goes_by_vectors(ctx, user, lanes) for user in result.users):
        return None  # one vector stands for all, but has not the elements of all
    if numbers == [i % count for i in range(parts)]:
        return x.at(joined("%", PART, number(count)))
    each = parts // count
    if numbers == [i // max(each, 1) for i in range(parts)]:
        return x.at(joined("/", PART, number(each)))
    return None


def _goes_by_vectors(ctx: Writer, user: Op, lanes: int) -> bool:
    """Whether an op takes whole vectors of what it is given, not single elements."""
    if isinstance(user, metal.Slice):
        return ctx.form(user.result) == (lanes, 1)
    return isinstance(user, math.Elementwise)


def _runs(ctx: Writer, elements: Sequence[tuple[Value, int]]) -> list[_Run]:
    runs: list[_Run] = []
    for value, index in elements:
        lanes = ctx.form(value).lanes
        part, lane = divmod(index, lanes)
        if runs and lanes > 1 and runs[-1][:2] == (value, part):
            runs[-1][2].append(lane)
        else:
            runs.append((value, part, [lane]))
    return runs


def _pieces(ctx: Writer, x: Expression, lanes: Sequence[int]) -> list[Expression]:
    """Lanes of a vector; one lane stands for all."""
    return [x] * len(lanes) if x.lanes == 1 else [_piece(ctx, x, lanes)]


def _piece(ctx: Writer, x: Expression, lanes: Sequence[int]) -> Expression:
    if x.lanes == 1 or list(lanes) == list(range(x.lanes)):
        return x
    return x.replace(tree=ctx.language.lanes(x.tree, lanes), lanes=len(lanes))


def _vector(ctx: Writer, elements: Sequence[Tree], result: Value) -> Expression:
    """A vector that is put together of elements, or of shorter vectors."""
    dtype, lanes = dtype_of(result), ctx.form(result).lanes
    made = elements[0] if lanes == 1 else Call(ctx.type_name(dtype, lanes), *elements)
    return Expression(made, dtype, lanes)


def _assembled(ctx: Writer, value: Value, vectors: Sequence[Expression]) -> Expression | None:
    """A value given vector by vector: one is an expression, several are an array."""
    held = ctx.held(value)
    if held.parts > 1:
        ctx.assemble(value, [_listed(ctx, vector, held) for vector in vectors])
        return None
    whole = vectors[0].replace(type=held.element)
    if len(value.users) > 1 or not isinstance(value.op, (metal.Literal, metal.Pattern)):
        return whole
    ctx.expressions[value] = whole  # a constant
    return None


def _listed(ctx: Writer, x: Expression, held: Held) -> Tree:
    """The tree as an element of an initializer list, which narrows plain numbers alone."""
    is_held = isinstance(x.tree, Number) or (x.type is held.element and not x.wraps)
    return x.tree if is_held else ctx.cast(x, held.element, held.lanes).tree


@emit(metal.Slice)
def _slice(ctx: Writer, op: metal.Slice) -> Expression | None:
    part = count_of(op.result.type)
    if part == count_of(op.x.type):
        return ctx.value(op.x)
    if isinstance(op.index.op, Constant):
        first = int(op.index.op.value) * part
        return gather(ctx, op.result, [(op.x, first + i) for i in range(part)])
    x = ctx.value(op.x)
    if x.lanes == 1 and not x.is_indexed:
        return x
    shape, whole = ctx.form(op.result), ctx.form(op.x)
    index = ctx.number(op.index)
    if x.touches & Touch.CONVERGENT:
        x = ctx.declare(op.x, x)
    if shape.lanes == whole.lanes:
        if shape.parts > 1:
            index = ctx.simple(op.index)
        taken = x.at(within(index.tree, shape.parts, PART))
        return taken.replace(touches=x.touches | index.touches)
    name, i = ctx.simple(op.x), ctx.simple(op.index).tree
    if shape.parts == 1 and whole.parts > 1 and shape.lanes % whole.lanes == 0:
        # The part is several of the vectors.
        each = shape.lanes // whole.lanes
        pieces = [name.at(within(i, each, number(j))) for j in range(each)]
    elif shape.parts == 1:
        pieces = [element_at(name, i, part, j) for j in range(part)]
    else:
        # Vector by vector, of elements that lie in several.
        numbers = [within(PART, shape.lanes, number(j)) for j in range(shape.lanes)]
        pieces = [element_of(name, within(i, part, at)) for at in numbers]
    return _vector(ctx, [piece.tree for piece in pieces], op.result)


@emit(metal.Insert)
def _insert(ctx: Writer, op: metal.Insert) -> Expression | None:
    if count_of(op.x.type) == 1:
        return ctx.value(op.element)
    x, index, element = ctx.value(op.x), ctx.simple(op.index).tree, ctx.simple(op.element)
    array = ctx.define(op.result, ctx.name_of(op.result), x)
    ctx.put(Assign(element_of(array, index).tree, element.tree))
    return None


def element_at(array: Expression, index: Tree, size: int, offset: int) -> Expression:
    """The element so far into the part of a number."""
    each = array.lanes // size
    if array.is_indexed and each > 1 and array.lanes % size == 0:
        # The part lies within one vector.
        lane = within(joined("%", index, number(each)), size, number(offset))
        return _lane(array, joined("/", index, number(each)), lane)
    return element_of(array, within(index, size, number(offset)))


def element_of(array: Expression, index: Tree) -> Expression:
    """An element of a value, by its number; one that has no numbers is all of them."""
    if array.lanes == 1:
        return array.at(index)
    if not array.is_indexed:
        return array.replace(tree=element(array.tree, index), lanes=1)
    lanes = number(array.lanes)
    return _lane(array, joined("/", index, lanes), joined("%", index, lanes))


def _lane(array: Expression, vector: Tree, lane: Tree) -> Expression:
    return array.replace(tree=element(array.tree.at(vector), lane), lanes=1)


@emit(metal.Foreach)
def _foreach(ctx: Writer, op: metal.Foreach) -> None:
    (variable,) = op.body.arguments
    ends = zip(op.results, op.body.end.operands, strict=True)
    wanted = [(result, value) for result, value in ends if ctx.is_used(result)]
    if op.count == 1:
        ctx.expressions[variable] = integer(0)
        ctx.region(op.body)
        for result, value in wanted:
            ctx.declare(result, ctx.value(value))
        return
    ctx.flush()
    over = _overwritten(ctx, op, [result for result, _ in wanted])
    targets = {v: ctx.declare_empty(v) for v, _ in wanted if v not in over}
    with ctx.loop(op.count, variable.name or "") as i:
        ctx.expressions[variable] = Expression(i, i32)
        ctx.region(op.body)
        for result, value in wanted:
            if result not in over:
                _store_part(ctx, targets[result], i, value)
        last = [(result, value) for result, value in wanted if result in over]
        for position, (result, _) in enumerate(last):
            for _, value in last[position + 1 :]:
                if ctx.value(value).tree.has(Name(over[result])):
                    ctx.declare(value, ctx.value(value))
        for result, value in last:
            _store_part(ctx, ctx.bind_variable(result, over[result]), i, value)
        ctx.drop()


def _overwritten(ctx: Writer, op: metal.Foreach, results: Sequence[Value]) -> dict[Value, str]:
    """The variables that the parts of results overwrite, one by one."""
    found: dict[Value, str] = {}
    numbers = op.in_place
    if not numbers:
        return found
    arrays = op.sliced()
    for result, index in zip(op.results, numbers, strict=True):
        if index < 0 or result not in results:
            continue
        if index >= len(arrays) or numbers.count(index) > 1:
            raise op.invalid(f"no array of its own has the number {index}", at="in_place")
        x = arrays[index]
        is_alike = result.type is x.type and ctx.held(result) == ctx.held(x)
        name = ctx.overwritten(op, x, is_free=is_alike and reads_part_by_part(op, x))
        if name is not None:
            found[result] = name
    return found


def _store_part(ctx: Writer, target: Expression, index: Tree, value: Value) -> None:
    """Put a value into the part of an array of a number."""
    dtype, size, (lanes, parts) = dtype_of(value), count_of(value.type), ctx.form(value)
    if lanes == target.lanes:
        x = ctx.value(value)
        with ctx.loop(parts) as i:
            place = target.tree.at(within(index, parts, i))
            ctx.put(Assign(place, ctx.content(x.at(i), dtype, lanes)))
    elif parts == 1:
        x = ctx.value(value) if size == 1 else ctx.simple(value)
        width = target.lanes if target.lanes < lanes else 1  # of what one assignment moves
        for j in range(size // width):
            taken = _piece(ctx, x, range(j * width, (j + 1) * width))
            if width > 1:
                to = target.at(within(index, size // width, number(j)))
            else:
                to = element_at(target, index, size, j)
            ctx.put(Assign(to.tree, ctx.content(taken, dtype, width)))
    else:
        x = ctx.simple(value)
        with ctx.loop(size) as i:
            ctx.put(Assign(element_of(target, within(index, size, i)).tree, element_of(x, i).tree))
