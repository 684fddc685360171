"""Split sums of `exp(x - max(x))`: each part has a maximum of its own.

    sum(exp(x - max))       sum(s * exp(m - max))

of parts whose maximum is `m` and whose sum of `exp(x - m)` is `s`.  So no part waits for the
maximum of all elements.  No factor is over 1, so nothing overflows.
"""

from __future__ import annotations

from math import inf

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import f32
from iris.passes.graph.parts import Parts, is_repeated, repeated


def maximum_of(op: graph.Reduce) -> graph.Reduce | None:
    """The maximum of `x` in a sum of `exp(x - max(x))` along its axes; None if the sum is none.

    In f32 only: a narrower factor is rounded so far that the sum differs.
    """
    grown = op.x.op
    if op.kind is not ReduceKind.SUM or op.x.type.element is not f32:
        return None
    if not isinstance(grown, (math.Exp, math.Exp2)) or not isinstance(grown.x.op, math.Sub):
        return None
    x, top = grown.x.op.operands
    if not is_repeated(top, op.axes):
        return None
    while isinstance(top.op, (graph.Broadcast, graph.Reshape)):
        top = top.op.x
    found = top.op
    if not isinstance(found, graph.Reduce) or found.kind is not ReduceKind.MAXIMUM:
        return None
    return found if found.axes == op.axes and found.x is x else None


def split_exponentials(
    parts: Parts, op: graph.Reduce, top: graph.Reduce, axis: int
) -> tuple[Value, Value]:
    """The sum and the maximum, by parts of an axis."""
    b, exponential = parts.b, math.Exp if isinstance(op.x.op, math.Exp) else math.Exp2
    axes = tuple([a + (a >= axis) for a in op.axes])
    outer = (axis - sum(a < axis for a in op.axes),)
    x = parts.of(top.x, axis, -inf)
    own = b(graph.Reduce(ReduceKind.MAXIMUM, axes, x))
    terms = b(exponential(b(math.Sub(x, repeated(b, own, axes, x)))))
    sums = b(graph.Reduce(ReduceKind.SUM, axes, terms))
    maximum = b(graph.Reduce(ReduceKind.MAXIMUM, outer, own))
    greatest = repeated(b, maximum, outer, own)
    factor = b(exponential(b(math.Sub(own, greatest))))
    # Of the greatest the factor is 1, though it is infinite; else what is -inf adds nothing.
    lowest, nothing = (b(Constant(n, element_type(own.type))) for n in (-inf, 0))
    is_lowest, is_greatest = (b(math.Compare(Predicate.EQ, own, v)) for v in (lowest, greatest))
    rest = b(math.Select(is_lowest, nothing, b(math.Mul(sums, factor))))
    joined = b(math.Select(is_greatest, sums, rest))
    return b(graph.Reduce(ReduceKind.SUM, outer, joined)), maximum
