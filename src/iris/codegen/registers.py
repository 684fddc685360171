"""Register arrays: made, taken apart, joined, and gone through part by part."""

from __future__ import annotations

from collections.abc import Sequence

from iris.codegen.expression import INDEX, Expression, Precedence, Touch, at_index, mentions
from iris.codegen.operators import binary, cast_to, dtype_of
from iris.codegen.writer import (
    COLUMNS,
    STEP,
    Writer,
    assignment,
    element_of,
    emit,
    merge_touches,
)
from iris.ir import math, metal
from iris.ir.core import Op, Value
from iris.ir.math import Constant
from iris.ir.metal import count_of

_LETTERS = "xyzw"


@emit(metal.Splat)
def _splat(w: Writer, op: metal.Splat) -> Expression | None:
    # One lane stands for all; what is used vector by vector is computed before.
    users, is_whole = op.result.users, w.form(op.result).parts == 1
    if is_whole and len(users) == 1 and all(user.parent is op.parent for user in users):
        return w.value(op.x)
    w.expressions[op.result] = w.simple(op.x)
    return None


@emit(metal.Literal)
def _literal(w: Writer, op: metal.Literal) -> Expression | None:
    dtype = dtype_of(op.result)
    mask = (1 << dtype.bits) - 1
    if len(set(op.values)) == 1:
        text, type_, precedence = w.language.literal(op.values[0] & mask, dtype)
        return Expression(text, precedence, type_)
    lanes = w.form(op.result).lanes
    texts = [w.language.literal(v & mask, dtype)[0] for v in op.values]
    vectors = [
        Expression(_vector(w, texts[i : i + lanes], op.result), Precedence.POSTFIX, "", lanes)
        for i in range(0, len(texts), lanes)
    ]
    return _assembled(w, op.result, vectors)


@emit(metal.Pattern)
def _pattern(w: Writer, op: metal.Pattern) -> Expression | None:
    dtype = dtype_of(op.result)
    values = [0]
    for image in op.images:
        values += [v ^ image for v in values]
    lanes, parts = w.form(op.result)
    texts = [w.language.literal(v, dtype)[0] for v in values]
    vectors = [_vector(w, texts[i : i + lanes], op.result) for i in range(0, len(texts), lanes)]
    type_ = w.language.types[dtype]
    step = values[lanes] if parts > 1 else 0
    if step and values == [v + i * step for i in range(parts) for v in values[:lanes]]:
        # A multiple of the number of the vector, too, where the language mixes it in.
        index = Expression(f"{INDEX} * {step}", Precedence.MULTIPLICATIVE, "int")
        if lanes == 1:
            return index
        first = Expression(vectors[0], Precedence.POSTFIX, type_, lanes)
        return binary(first, "+", cast_to(w, index, type_), type_)
    found = [Expression(text, Precedence.POSTFIX, type_, lanes) for text in vectors]
    return _assembled(w, op.result, found)


@emit(metal.Take)
def _take(w: Writer, op: metal.Take) -> Expression | None:
    return gather(w, op.result, [(op.x, i) for i in op.indices])


@emit(metal.Join)
def _join(w: Writer, op: metal.Join) -> Expression | None:
    elements = [(part, i) for part in op.parts for i in range(count_of(part.type))]
    return gather(w, op.result, elements)


def gather(w: Writer, result: Value, elements: Sequence[tuple[Value, int]]) -> Expression | None:
    """A value made of elements of others."""
    lanes = w.form(result).lanes
    runs = [_runs(w, elements[i : i + lanes]) for i in range(0, len(elements), lanes)]
    met = [value for vector in runs for value, _, _ in vector]
    sources = {v: w.typed(v) if met.count(v) == 1 else w.simple(v) for v in dict.fromkeys(met)}
    repeated = _repeated(w, result, sources, runs)
    if repeated is not None:
        w.expressions[result] = repeated
        return None
    vectors = []
    for vector in runs:
        pieces = [_piece(sources[value].at(part), taken) for value, part, taken in vector]
        touches = merge_touches([sources[value] for value, _, _ in vector])
        if len(pieces) == 1 and pieces[0].lanes == lanes:
            vectors.append(pieces[0]._replace(touches=touches))
        else:
            texts = [p.text for p in pieces]
            text = _vector(w, texts, result)
            vectors.append(Expression(text, Precedence.POSTFIX, "", lanes, touches=touches))
    return _assembled(w, result, vectors)


def _repeated(
    w: Writer,
    result: Value,
    sources: dict[Value, Expression],
    runs: Sequence[list[tuple[Value, int, list[int]]]],
) -> Expression | None:
    """The vectors of another value in their order, each so often or all again and again: another
    view of its variable."""
    lanes, parts = w.form(result)
    if len(sources) > 1 or parts == 1:
        return None
    ((value, x),) = sources.items()
    every = list(range(lanes))
    if value not in w.variables or any(len(v) > 1 or v[0][2] != every for v in runs):
        return None
    numbers = [vector[0][1] for vector in runs]
    size, count = w.form(value)
    if size != lanes:
        return None
    if count == 1 and not all(_goes_by_vectors(w, user, lanes) for user in result.users):
        return None  # one vector stands for all, but has not the elements of all
    if numbers == [i % count for i in range(parts)]:
        return x.at(f"{INDEX} % {count}")
    each = parts // count
    if numbers == [i // max(each, 1) for i in range(parts)]:
        return x.at(f"{INDEX} / {each}")
    return None


def _goes_by_vectors(w: Writer, user: Op, lanes: int) -> bool:
    """Whether an op takes whole vectors of what it is given, not single elements."""
    if isinstance(user, metal.Slice):
        return w.form(user.result) == (lanes, 1)
    return isinstance(user, math.Elementwise)


def _runs(w: Writer, elements: Sequence[tuple[Value, int]]) -> list[tuple[Value, int, list[int]]]:
    """Neighbours that come from one vector: the value, which of its vectors, which lanes."""
    runs: list[tuple[Value, int, list[int]]] = []
    for value, index in elements:
        lanes = w.form(value).lanes
        part, lane = divmod(index, lanes)
        if runs and lanes > 1 and runs[-1][:2] == (value, part):
            runs[-1][2].append(lane)
        else:
            runs.append((value, part, [lane]))
    return runs


def _piece(x: Expression, lanes: Sequence[int]) -> Expression:
    """Lanes of a vector."""
    if x.lanes == 1 and len(lanes) == 1:
        return x
    if x.lanes == 1:  # it stands for all
        return x._replace(text=", ".join([x.text] * len(lanes)), precedence=Precedence.ASSIGNMENT)
    if list(lanes) == list(range(x.lanes)):
        return x
    letters = "".join([_LETTERS[i] for i in lanes])
    text = f"{x.at_least(Precedence.POSTFIX)}.{letters}"
    return x._replace(text=text, precedence=Precedence.POSTFIX, lanes=len(lanes))


def _vector(w: Writer, texts: Sequence[str], result: Value) -> str:
    type_ = element_of(result)
    lanes = w.form(result).lanes
    return texts[0] if lanes == 1 else f"{w.type_name(type_.element, lanes)}({', '.join(texts)})"


def _assembled(w: Writer, value: Value, vectors: Sequence[Expression]) -> Expression | None:
    """A value given vector by vector: one is an expression, several are an array."""
    type_ = element_of(value)
    shape = w.form(value)
    scalar = w.language.types[type_.element]
    if shape.parts == 1:
        whole = vectors[0]._replace(type=scalar)
        if len(value.users) > 1 or isinstance(value.op, metal.Take | metal.Join):
            return whole
        w.expressions[value] = whole  # a constant
        return None
    if w.is_matrix(value):
        place = w.room(value)
        for number, vector in enumerate(vectors):
            w.line(f"{place.at(number).text} = {vector.text};")
        return None
    name = w.name_of(value)
    head = f"{w.type_name(type_.element, shape.lanes)} {name}[{shape.parts}] = {{"
    texts = [v.text for v in vectors]
    line = f"{head}{', '.join(texts)}}};"
    if len(w.indent) + len(line) <= COLUMNS:
        w.line(line)
    else:
        w.line(head)
        for text in texts:
            w.line(f"{STEP}{text},")
        w.line("};")
    w.call(value, name)
    return None


@emit(metal.Slice)
def _slice(w: Writer, op: metal.Slice) -> Expression | None:
    part = count_of(op.result.type)
    if part == count_of(op.x.type):
        return w.value(op.x)
    if isinstance(op.index.op, Constant):
        first = int(op.index.op.value) * part
        return gather(w, op.result, [(op.x, first + i) for i in range(part)])
    x = w.value(op.x)
    if x.lanes == 1 and not x.is_indexed:
        return x
    shape, whole = w.form(op.result), w.form(op.x)
    index = w.number(op.index)
    type_ = w.language.types[dtype_of(op.x)]
    if x.touches & Touch.CONVERGENT:
        x = w.declare(op.x, x)
    if shape.parts == 1 and shape.lanes == whole.lanes:
        return x.at(index.text)._replace(touches=x.touches | index.touches)
    if shape.lanes == whole.lanes:
        at = f"{w.simple(op.index).at_least(Precedence.MULTIPLICATIVE)} * {shape.parts} + {INDEX}"
        return x.at(at)
    if shape.parts == 1 and whole.parts > 1 and shape.lanes % whole.lanes == 0:
        # The part is several of the vectors.
        name, i = w.simple(op.x), w.simple(op.index).at_least(Precedence.MULTIPLICATIVE)
        each = shape.lanes // whole.lanes
        text = _vector(w, [name.at(_numbered(i, each, j)).text for j in range(each)], op.result)
        return Expression(text, Precedence.POSTFIX, type_, shape.lanes)
    # The parts are smaller than the vectors, or do not fit them.
    name, i = w.simple(op.x), w.simple(op.index).at_least(Precedence.MULTIPLICATIVE)
    if shape.parts > 1:
        numbers = [_numbered(INDEX, shape.lanes, j) for j in range(shape.lanes)]
        texts = [_element(name, f"({i} * {part} + {number})") for number in numbers]
    else:
        texts = [element_at(name, i, part, j) for j in range(part)]
    text = _vector(w, texts, op.result)
    return Expression(text, Precedence.POSTFIX, type_, shape.lanes)


def _numbered(index: str, size: int, offset: int) -> str:
    """The number of what is so far into the part of a number."""
    return index + f" * {size}" * (size > 1) + f" + {offset}" * (offset > 0)


def element_at(array: Expression, index: str, size: int, offset: int) -> str:
    """The element so far into the part of a number."""
    lanes = array.lanes
    if array.is_indexed and lanes % size == 0 and lanes > 1:
        # The part lies within one vector.
        each = lanes // size
        within = f"{index} % {each}" if each > 1 else "0"
        within += f" * {size}" * (size > 1) + f" + {offset}" * (offset > 0)
        vector = array.text.replace(INDEX, f"{index} / {each}")
        return f"{vector}[{within}]"
    at = _numbered(index, size, offset)
    return _element(array, at if size == 1 else f"({at})")


def _element(array: Expression, index: str) -> str:
    """An element of a variable, by the text of its number."""
    bare = index[1:-1] if index.startswith("(") else index
    if not array.is_indexed:
        return f"{array.at_least(Precedence.POSTFIX)}[{bare}]"
    if array.lanes == 1:
        return at_index(array.text, bare)
    vector = array.text.replace(INDEX, f"{index} / {array.lanes}")
    return f"{vector}[{index} % {array.lanes}]"


@emit(metal.Foreach)
def _foreach(w: Writer, op: metal.Foreach) -> None:
    (number,) = op.body.arguments
    w.ranges.set(number, 0, op.count - 1)
    ends = zip(op.results, op.body.end.operands, strict=True)
    wanted = [(result, value) for result, value in ends if w.is_used(result)]
    if op.count == 1:
        w.expressions[number] = Expression("0", Precedence.POSTFIX, "int")
        w.region(op.body)
        for result, value in wanted:
            w.declare(result, w.value(value))
        return
    w.flush()
    over = _overwritten(w, op, [result for result, _ in wanted])
    targets = {v: w.room(v) for v, _ in wanted if v not in over}
    w.names.enter()
    name = w.names.new(number.name) if number.name else w.names.index()
    w.names.leave()
    if _goes_through_matrices(w, op):
        w.line(w.language.unroll)
    start = w.open(f"for (int {name} = 0; {name} < {op.count}; ++{name})")
    w.names.new(name)
    w.expressions[number] = Expression(name, Precedence.POSTFIX, "int")
    w.region(op.body)
    for result, value in wanted:
        if result not in over:
            _store_part(w, targets[result], name, value)
    last = [(result, value) for result, value in wanted if result in over]
    for position, (result, _) in enumerate(last):
        for _, value in last[position + 1 :]:
            if mentions(w.value(value).text, over[result]):
                w.declare(value, w.value(value))
    for result, value in last:
        _store_part(w, w.call(result, over[result]), name, value)
    w.drop()
    w.close(start)


def _overwritten(w: Writer, op: metal.Foreach, results: Sequence[Value]) -> dict[Value, str]:
    """The variables that loops carry, of arrays that this goes through for the last time: the
    parts of results may take the place of theirs, one by one."""
    found: dict[Value, str] = {}
    (number,) = op.body.arguments
    arrays = {o.x: None for o in op.body if isinstance(o, metal.Slice)}
    for x in arrays:
        name = w.variables.get(x)
        if name not in w.carried or name in found.values() or not w.is_of(op.parent, x):
            continue
        if not all(
            isinstance(o, metal.Slice)
            and o.parent is op.body
            and o.index is number
            and count_of(o.result.type) * op.count == count_of(x.type)
            for o in x.users
        ):
            continue
        for result in results:
            is_like = result.type is x.type and w.form(result) == w.form(x)
            if result not in found and is_like and w.is_matrix(result) == w.is_matrix(x):
                found[result] = name
                break
    return found


def _goes_through_matrices(w: Writer, op: metal.Foreach) -> bool:
    """Whether the loop index selects matrices, or values combined with them.

    Matrices in registers cannot be indexed by a variable.
    """
    return any(w.meets_matrices(v) for v in op.results) or any(
        isinstance(inner, metal.Slice) and w.meets_matrices(inner.x) for inner in op.body
    )


def _store_part(w: Writer, target: Expression, index: str, value: Value) -> None:
    """Put a value into the part of an array of a number."""
    type_ = element_of(value)
    dtype, size, shape = type_.element, count_of(type_), w.form(value)
    x = w.value(value)
    if shape.lanes == target.lanes and shape.parts == 1:
        w.line(assignment(target.at(index).text, x, w.content(x, dtype, shape.lanes)))
    elif shape.lanes == target.lanes:
        i, start = w.loop(shape.parts, unrolled=w.meets_matrices(value))
        place = target.text.replace(INDEX, f"{index} * {shape.parts} + {i}")
        w.line(f"{place} = {w.content(x.at(i), dtype, shape.lanes)};")
        w.close(start)
    elif size == 1:
        w.line(f"{element_at(target, index, 1, 0)} = {w.content(x, dtype, 1)};")
    elif shape.parts == 1 and 1 < target.lanes < shape.lanes:
        x = w.simple(value)
        each = shape.lanes // target.lanes
        for j in range(each):
            lanes = list(range(j * target.lanes, (j + 1) * target.lanes))
            taken = _piece(x, lanes) if x.lanes > 1 else x
            place = target.at(_numbered(index, each, j)).text
            w.line(f"{place} = {w.content(taken, dtype, target.lanes)};")
    elif shape.parts == 1:
        x = w.simple(value)
        for j in range(size):
            lane = x.text if x.lanes == 1 else f"{x.text}.{_LETTERS[j]}"
            w.line(f"{element_at(target, index, size, j)} = {lane};")
    else:
        x = w.simple(value)
        i, start = w.loop(size)
        place = _element(target, f"({index} * {size} + {i})")
        element = x.text if x.lanes == 1 and not x.is_indexed else _element(x, i)
        w.line(f"{place} = {element};")
        w.close(start)
