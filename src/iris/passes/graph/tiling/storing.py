"""What a kernel must write to memory, and what it might."""

from __future__ import annotations

from iris.ir import graph
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.math import Constant, Elementwise
from iris.targets import Target


def most_arrays(target: Target) -> int:
    """How many tensors one kernel can bind, beside its scalars and reports, and one to spare."""
    return target.buffer_bindings - 3


def results_of(function: Func) -> list[Value]:
    """The tensors to write for the results, each another: a reshaped one lies in memory as it was
    before, but what is an argument, or a result already, is copied."""
    end = function.body.last
    assert end is not None
    found: dict[Value, None] = {}
    for place, value in enumerate(end.operands):
        root = value
        while isinstance(root.op, graph.Reshape):
            root = root.op.x
        if root.op is None or root in found:
            root = Builder(function.body, end, end.location)(graph.Reshape(value, value.type))
            operands = list(end.operands)
            operands[place] = root
            end.set_operands(tuple(operands))
        found[root] = None
    return list(found)


def parted(function: Func, most: int) -> set[Value]:
    """Split concatenations of over half of `most` tensors; return the partial results."""
    parts = set()
    for op in list(function.body):
        while isinstance(op, graph.Concat) and len(op.values) > most // 2:
            b = Builder(function.body, op, op.location)
            part = b(graph.Concat(op.axis, op.values[: most // 2]))
            parts.add(part)
            whole = graph.Concat(op.axis, (part, *op.values[most // 2 :]))
            op.results[0].replace_by(b(whole, op.results[0].name))
            op.erase()
            op = whole
    return parts


def copied(function: Func) -> set[Value]:
    """Copies of what is scattered to but is needed as it was before, too."""
    copies = set()
    for op in list(function.body):
        if isinstance(op, graph.Scatter):
            is_own = op.x.op is not None and is_work(op.x.op) and len(op.x.users) == 1
            if not is_own or op.x in (op.updates, *op.indices):
                copy = Builder(function.body, op, op.location)(graph.Reshape(op.x, op.x.type))
                op.set_operands((copy, *op.operands[1:]))
                copies.add(copy)
    return copies


# Ops that only say where elements are, or what they are everywhere.
VIEWS = (
    Constant,
    graph.Iota,
    graph.Broadcast,
    graph.Reshape,
    graph.Transpose,
    graph.Slice,
    graph.Pad,
    graph.Concat,
    graph.Gather,
)


def is_work(op: Op) -> bool:
    """Whether the result of an op might be written to memory: not if it is a view, or something
    elementwise that one other such op, or a reduction, needs, once."""
    if isinstance(op, VIEWS):
        return False
    users = list(op.results[0].users)
    goes_on = len(users) == 1 and isinstance(users[0], Elementwise | graph.Reduce)
    return not (isinstance(op, Elementwise) and goes_on)


def needed(function: Func) -> list[Op]:
    """The ops that a result depends on, in order."""
    needed: set[Op] = set()
    for op in reversed(function.body):
        if op.terminator or any(user in needed for v in op.results for user in v.users):
            needed.add(op)
    return [op for op in function.body if op in needed and not op.terminator]
