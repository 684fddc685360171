"""Products of matrices: fragment by fragment, in arrays of the language's matrices."""

from __future__ import annotations

from iris.codegen.expression import at_index
from iris.codegen.helpers import define
from iris.codegen.operators import dtype_of
from iris.codegen.writer import Writer, emit
from iris.ir import metal
from iris.ir.core import Value
from iris.ir.metal import count_of


@emit(metal.Mma)
def _mma(w: Writer, op: metal.Mma) -> None:
    for value in (op.a, op.acc):
        define(w, "pair", dtype_of(value))
    left, right = _matrices(w, op.a), _matrices(w, op.b)
    acc, product = _sum(w, op)
    rows, columns = count_of(op.a.type) // 2, count_of(op.b.type) // 2
    if rows == columns == 1:
        w.line(f"{w.language.multiply}({product}, {left}, {right}, {acc});")
        return
    i, start = w.loop(rows * columns, unrolled=True)
    row = i if columns == 1 else f"{i} / {columns}"
    column = i if rows == 1 else f"{i} % {columns}"
    places = ((product, i), (left, row), (right, column), (acc, i))
    arguments = [at_index(matrices, index) for matrices, index in places]
    w.line(f"{w.language.multiply}({', '.join(arguments)});")
    w.close(start)


def _matrices(w: Writer, value: Value) -> str:
    """A value as matrices."""
    found = w.matrix_of(w.value(value))
    if found is None:
        found = w.matrix_of(w.declare(value, w.value(value)))
    assert found is not None
    return found


def _sum(w: Writer, op: metal.Mma) -> tuple[str, str]:
    """What is added to, and where the sum goes: to the same place, if nobody needs that again."""
    acc = w.value(op.acc)
    matrices = w.matrix_of(acc)
    if matrices is None:
        w.define(op.result, _name(w, op), acc)
    elif w.is_spent(op, op.acc):
        w.call(op.result, w.variables[op.acc])
    else:
        w.reserve(op.result, _name(w, op))
    product = w.matrix_of(w.value(op.result))
    assert product is not None
    return matrices or product, product


def _name(w: Writer, op: metal.Mma) -> str:
    return w.names.new(op.result.name or op.acc.name or "product")
