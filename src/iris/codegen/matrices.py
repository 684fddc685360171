"""Products of matrices: fragment by fragment, in arrays of the language's matrices."""

from __future__ import annotations

from iris.codegen.helpers import define
from iris.codegen.operators import dtype_of
from iris.codegen.statements import Assign, Declare, Run
from iris.codegen.tree import PART, Call, Name, Tree, Unary, binary, element, number, within
from iris.codegen.writer import Writer, emit
from iris.ir import metal
from iris.ir.core import Value
from iris.ir.in_place import is_last_use
from iris.ir.metal import fragments_of
from iris.ir.types import f32, i32


@emit(metal.LoadRows)
def _load_rows(ctx: Writer, op: metal.LoadRows) -> None:
    define(ctx, "pair", dtype_of(op.result))
    memory, offset = ctx.expressions[op.base], ctx.simple(op.offset)
    words = str(op.transposed).lower()
    count = fragments_of(op.result)
    ctx.flush()
    to = ctx.declare_empty(op.result).tree
    if ctx.language.load_rows:
        name = ctx.language.load_rows.format(count=count, transposed=words)
        row = Unary("&", element(memory.tree, offset.tree))
        ctx.put(Run(Call(name, _address(to), row)))
        return
    name = define(ctx, "row_pair", dtype_of(op.result))
    where = memory.tree, offset.tree, Name(words), ctx.position("lane")
    with ctx.loop(count) as i:
        ctx.put(Assign(to.at(i), Call(name, *where, i)))


@emit(metal.Mma)
def _mma(ctx: Writer, op: metal.Mma) -> None:
    for value in (op.a, op.acc):
        define(ctx, "pair", dtype_of(value))
    left, right = _matrices(ctx, op.a), _matrices(ctx, op.b)
    acc, product = _sum(ctx, op)
    rows, columns = op.rows, op.columns
    arrays = [_address(x) for x in (product, left, right, acc)]
    if op.tensors:
        name = define(ctx, "multiply_tensors", dtype_of(op.a))
        relaxed = str(op.tf32).lower()
        ctx.put(Run(Call(f"{name}<{rows // 2}, {columns // 4}, {relaxed}>", *arrays)))
        return
    if ctx.language.multiplies_arrays:
        words = str(op.transposed).lower()
        name = ctx.language.multiply.format(
            rows=rows, columns=columns, depth=op.depth, transposed=words
        )
        ctx.put(Run(Call(name, *arrays)))
        return
    if op.transposed:
        right = _turned(ctx, op.b, right)
    for step in range(op.depth):
        before = product if step else acc
        with ctx.loop(rows * columns) as i:
            # Each matrix is known by the number of the product.
            at = _backwards(ctx, i, columns) if op.serpentine else i
            row = at if columns == 1 else binary("/", at, number(columns))
            column = at if rows == 1 else binary("%", at, number(columns))
            a = left.at(_place_in_a(op, row, step))
            b = right.at(within(column, op.depth, number(step)))
            ctx.put(Run(Call(ctx.language.multiply, product, a, b, before).at(at)))


@emit(metal.MmaShared)
def _mma_shared(ctx: Writer, op: metal.MmaShared) -> None:
    define(ctx, "pair", f32)
    factors: list[Tree] = []
    starts = zip((op.a, op.b), (op.a_start, op.b_start), op.strides, strict=True)
    for memory, start, stride in starts:
        at = ctx.simple(start)
        factors += Unary("&", element(ctx.expressions[memory].tree, at.tree)), number(stride)
    ctx.flush()
    acc, product = _sum(ctx, op)
    rows, columns, depth = op.shape
    sizes = f"{rows // 16}, {columns // 32}, {depth}, {str(op.tf32).lower()}"
    name = define(ctx, "multiply_shared", dtype_of(op.a))
    ctx.put(Run(Call(f"{name}<{sizes}>", _address(product), *factors, _address(acc))))


def _place_in_a(op: metal.Mma, row: Tree, step: int) -> Tree:
    """The place of a fragment of the left factor, as `Mma.place_in_a` has it."""
    if op.depth == 1 or op.rows % 2:
        return within(row, op.depth, number(step))
    pair, beside = binary("/", row, number(2)), binary("%", row, number(2))
    return within(within(pair, op.depth, number(step)), 2, beside)


def _turned(ctx: Writer, value: Value, matrices: Tree) -> Tree:
    """Matrices with rows and columns exchanged, for a language that multiplies no others."""
    dtype, count = dtype_of(value), fragments_of(value)
    turn = Call(define(ctx, "transposed", dtype), matrices, ctx.position("lane"))
    name, type_ = ctx.names.new("turned"), ctx.held(value).type
    if count == 1:
        ctx.put(Declare(type_, name, turn))
        return Name(name)
    ctx.put(Declare(type_, name, count=count))
    place = element(Name(name), PART)
    with ctx.loop(count) as i:
        ctx.put(Assign(place.at(i), turn.at(i)))
    return place


def _backwards(ctx: Writer, i: Tree, columns: int) -> Tree:
    """Number the products so that every other row of them runs backwards."""
    is_odd = binary("%", binary("/", i, number(columns)), number(2))
    flipped = binary("^", i, binary("*", is_odd, number(columns - 1)))
    name = ctx.names.new("turn")
    ctx.put(Declare(ctx.language.types[i32], name, flipped))
    return Name(name)


def _address(matrices: Tree) -> Tree:
    """Where matrices start."""
    return Unary("&", matrices.at(number(0)))


def _matrices(ctx: Writer, value: Value) -> Tree:
    """A value as matrices."""
    x = ctx.value(value)
    found = ctx.matrix_of(x) or ctx.matrix_of(ctx.declare(value, x))
    assert found is not None, "a factor is held as matrices"
    return found


def _sum(ctx: Writer, op: metal.Mma | metal.MmaShared) -> tuple[Tree, Tree]:
    """What is added to, and where the sum goes."""
    acc = ctx.value(op.acc)
    matrices = ctx.matrix_of(acc)
    same = None
    if op.in_place:
        same = ctx.overwritten(op, op.acc, is_free=is_last_use(op, op.acc))
    if matrices is None:
        ctx.define(op.result, _name(ctx, op), acc)
    elif same is not None:
        ctx.bind_variable(op.result, same)
    else:
        ctx.reserve(op.result, _name(ctx, op))
    product = ctx.matrix_of(ctx.value(op.result))
    assert product is not None, "a sum is held as matrices"
    return matrices or product, product


def _name(ctx: Writer, op: metal.Mma | metal.MmaShared) -> str:
    return ctx.names.new(op.result.name or op.acc.name or "product")
