"""Tensors without elements, sums of nothing, axes of size 1, and what nobody uses."""

from __future__ import annotations

from iris.ir import graph
from iris.ir.core import Op
from iris.ir.kinds import ReduceKind, of_nothing
from iris.ir.math import Constant, Elementwise
from iris.ir.rewriter import Rewriter
from iris.passes.graph.simplify.making import Before, dtype_of, rules, shape_of

# What looks up places stays: it may be asked for places that are not there.
_KEPT = (graph.Gather, graph.Scatter, graph.Kernel)


@rules(Constant, Elementwise, graph.GraphOp)
def unused(op: Op, rewriter: Rewriter) -> None:
    """What nobody uses goes, so that the others see who else uses what they do."""
    if not any(v.users for v in op.results):
        rewriter.erase(op)


@rules(Elementwise, graph.GraphOp)
def no_elements(op: Op, rewriter: Rewriter) -> None:
    """A tensor without elements is like any other."""
    if not isinstance(op, _KEPT) and 0 in shape_of(op.results[0]):
        _zeros(op, rewriter)


def _zeros(op: Op, rewriter: Rewriter) -> None:
    result = op.results[0]
    rewriter.replace(op, Before(op, rewriter).number(0, shape_of(result), dtype_of(result)))


@rules(graph.Gather)
def gather_nothing(op: graph.Gather, rewriter: Rewriter) -> None:
    """From no places."""
    if 0 in shape_of(op.indices[0]):
        _zeros(op, rewriter)


@rules(graph.Scatter)
def scatter_nothing(op: graph.Scatter, rewriter: Rewriter) -> None:
    """To no places."""
    if 0 in shape_of(op.indices[0]):
        rewriter.replace(op, op.x)


@rules(graph.Reduce)
def reduce_nothing(op: graph.Reduce, rewriter: Rewriter) -> None:
    """The sum of nothing is 0, the product 1; no element is true, and all are."""
    shape, result = shape_of(op.x), op.result
    if 0 in shape and 0 not in shape_of(result):
        number = of_nothing(op.kind, dtype_of(result))
        rewriter.replace(
            op, Before(op, rewriter).number(number, shape_of(result), dtype_of(result))
        )


@rules(graph.Matmul)
def product_of_nothing(op: graph.Matmul, rewriter: Rewriter) -> None:
    """Sums of nothing are 0."""
    if shape_of(op.a)[-1] == 0:
        _zeros(op, rewriter)


@rules(graph.Conv2d)
def convolution_of_nothing(op: graph.Conv2d, rewriter: Rewriter) -> None:
    """Filters without elements see nothing."""
    if 0 in shape_of(op.w)[1:]:
        _zeros(op, rewriter)


@rules(graph.Reduce)
def reduce_one(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Of one element, whatever the reduction: that, at place 0."""
    if any(shape_of(op.x)[axis] != 1 for axis in op.axes):
        return
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        _zeros(op, rewriter)
    else:
        rewriter.replace(op, Before(op, rewriter).reshape(op.x, shape_of(op.result)))


@rules(graph.Scan)
def scan_one(op: graph.Scan, rewriter: Rewriter) -> None:
    """Along an axis of one element."""
    if shape_of(op.x)[op.axis] == 1:
        rewriter.replace(op, op.x)
