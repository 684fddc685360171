"""Simplify empty tensors, reductions of no elements, axes of size 1, and unused ops."""

from __future__ import annotations

from iris.ir import graph
from iris.ir.core import Op
from iris.ir.kinds import ReduceKind, of_nothing
from iris.ir.math import Constant, Elementwise
from iris.ir.rewriter import Rewriter
from iris.passes.graph.simplify.rule_helpers import InsertBefore, dtype_of, rules, shape_of

# Ops that check indices stay: an index may be out of bounds.
_CHECKED = (graph.Gather, graph.Scatter, graph.Kernel, graph.Launch)


@rules(Constant, Elementwise, graph.GraphOp)
def erase_unused(op: Op, rewriter: Rewriter) -> None:
    """Erase an unused op, so that other rules see the true number of users."""
    if not any(v.users for v in op.results):
        rewriter.erase(op)


@rules(Elementwise, graph.GraphOp)
def empty_result(op: Op, rewriter: Rewriter) -> None:
    """Replace an empty tensor by a constant."""
    if not isinstance(op, _CHECKED) and 0 in shape_of(op.results[0]):
        _replace_by_zeros(op, rewriter)


def _replace_by_zeros(op: Op, rewriter: Rewriter) -> None:
    result = op.results[0]
    rewriter.replace(op, InsertBefore(op, rewriter).constant(0, shape_of(result), dtype_of(result)))


@rules(graph.Gather)
def gather_of_empty(op: graph.Gather, rewriter: Rewriter) -> None:
    """Replace a gather from no indices."""
    if 0 in shape_of(op.indices[0]):
        _replace_by_zeros(op, rewriter)


@rules(graph.Scatter)
def scatter_of_empty(op: graph.Scatter, rewriter: Rewriter) -> None:
    """Erase a scatter to no indices."""
    if 0 in shape_of(op.indices[0]):
        rewriter.replace(op, op.x)


@rules(graph.Reduce)
def reduce_of_empty(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Replace a reduction of no elements by its neutral element."""
    shape, result = shape_of(op.x), op.result
    if 0 in shape and 0 not in shape_of(result):
        number = of_nothing(op.kind, dtype_of(result))
        rewriter.replace(
            op, InsertBefore(op, rewriter).constant(number, shape_of(result), dtype_of(result))
        )


@rules(graph.Matmul)
def matmul_of_empty(op: graph.Matmul, rewriter: Rewriter) -> None:
    """Replace a product of depth 0 by zeros."""
    if shape_of(op.a)[-1] == 0:
        _replace_by_zeros(op, rewriter)


@rules(graph.Conv2d)
def conv2d_of_empty(op: graph.Conv2d, rewriter: Rewriter) -> None:
    """Replace a convolution with empty filters by zeros."""
    if 0 in shape_of(op.w)[1:]:
        _replace_by_zeros(op, rewriter)


@rules(graph.Reduce)
def reduce_unit_axes(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Reshape instead of reducing axes of size 1; the index of an extremum is 0."""
    if any(shape_of(op.x)[axis] != 1 for axis in op.axes):
        return
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        _replace_by_zeros(op, rewriter)
    else:
        rewriter.replace(op, InsertBefore(op, rewriter).reshape(op.x, shape_of(op.result)))


@rules(graph.Scan)
def scan_unit_axis(op: graph.Scan, rewriter: Rewriter) -> None:
    """Erase a scan along an axis of size 1."""
    if shape_of(op.x)[op.axis] == 1:
        rewriter.replace(op, op.x)
