"""Choose the tensors that must be written to memory, and those that may be."""

from __future__ import annotations

from iris.ir import graph
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.math import Constant, Elementwise
from iris.targets import Target


def max_arrays(target: Target) -> int:
    """How many tensors one kernel can bind, besides scalars, reports and one spare binding."""
    return target.buffer_bindings - 3


def results_of(function: Func) -> list[Value]:
    """The distinct tensors to write for the results.

    A reshaped result is written in its source's shape.  A result that is an argument, or another
    result, is copied.
    """
    end = function.body.end
    roots: dict[Value, None] = {}
    for position, value in enumerate(end.operands):
        root = value
        while isinstance(root.op, graph.Reshape):
            root = root.op.x
        if root.op is None or root in roots:
            root = Builder(function.body, end, end.location)(graph.Reshape(value, value.type))
            operands = list(end.operands)
            operands[position] = root
            end.set_operands(tuple(operands))
        roots[root] = None
    return list(roots)


def split_concats(function: Func, most: int) -> set[Value]:
    """Split concatenations of over `most` tensors; return the partial results."""
    parts = set()
    for op in list(function.body):
        while isinstance(op, graph.Concat) and len(op.values) > most:
            builder = Builder(function.body, op, op.location)
            part = builder(graph.Concat(op.axis, op.values[:most]))
            parts.add(part)
            whole = graph.Concat(op.axis, (part, *op.values[most:]))
            op.results[0].replace_by(builder(whole, op.results[0].name))
            op.erase()
            op = whole
    return parts


def copies_before_scatter(function: Func) -> set[Value]:
    """Copy the tensors that are scattered to but also read unchanged; return the copies."""
    copies = set()
    for op in list(function.body):
        if isinstance(op, graph.Scatter):
            is_only_use = op.x.op is not None and may_materialize(op.x.op) and len(op.x.users) == 1
            if not is_only_use or op.x in (op.updates, *op.indices):
                copy = Builder(function.body, op, op.location)(graph.Reshape(op.x, op.x.type))
                op.set_operands((copy, *op.operands[1:]))
                copies.add(copy)
    return copies


# Ops that only move elements, and constants.
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


def may_materialize(op: Op) -> bool:
    """Whether the result of an op may be written to memory.

    Not a view, nor an elementwise op whose only user is elementwise or a reduction.
    """
    if isinstance(op, VIEWS):
        return False
    users = list(op.results[0].users)
    is_fused_on = len(users) == 1 and isinstance(users[0], (Elementwise, graph.Reduce))
    return not (isinstance(op, Elementwise) and is_fused_on)


def live_ops(function: Func) -> list[Op]:
    """The ops that some result depends on, in order."""
    live_ops: set[Op] = set()
    for op in reversed(function.body):
        if op.terminator or any(user in live_ops for v in op.results for user in v.users):
            live_ops.add(op)
    return [op for op in function.body if op in live_ops and not op.terminator]
