"""Split sums of squared deviations from a mean: each part has a mean of its own.

    sum((x - mean)**2)      sum(d) + sum(n * (m - mean)**2)

of parts with `n` elements, whose mean is `m` and whose sum of squared deviations from `m` is `d`.
So no part waits for the mean of all elements.  Means are of `x` minus its first element: so they
are as small as the deviations are, and so are their errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import inf, prod

from iris.ir import graph, math
from iris.ir.builder import Builder
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Constant, element_type
from iris.ir.types import Tensor, f32
from iris.passes.graph.parts import in_parts, is_repeated, kept, part_of, repeated


def deviating(op: graph.Reduce) -> Value | None:
    """The `x` of a sum of `(x - mean(x))**2`; None if the sum is none."""
    square = op.x.op
    if not isinstance(square, math.Mul) or len({*square.operands}) > 1:
        return None
    difference = square.operands[0].op
    if not isinstance(difference, math.Sub):
        return None
    terms = [v for v in difference.operands if not is_repeated(v, op.axes)]
    return terms[0] if len(terms) == 1 and _deviates_from_mean(op, terms[0]) else None


def _deviates_from_mean(op: graph.Reduce, x: Value) -> bool:
    """Whether a kernel can sum the squared deviations of `x` without knowing its mean."""
    from iris.passes.graph.tiling.deviations import deviations_form  # opened when first used
    from iris.passes.graph.tiling.element_exprs import DeviationsExpr
    from iris.passes.graph.tiling.element_graph import ElementGraph
    from iris.passes.graph.tiling.element_ref import CannotFuse

    assert op.parent is not None, "it is in a function"
    try:
        whole = ElementGraph.of(op.results, [x, *op.parent.arguments])
    except CannotFuse:
        return False
    elements = deviations_form(whole)
    return elements is not None and isinstance(elements.exprs[whole.outputs[0].ref], DeviationsExpr)


def split_deviations(b: Builder, op: graph.Reduce, x: Value, axis: int, count: int) -> Value:
    """Sum the squared deviations of `x` by parts of an axis; the last may be shorter."""
    shape = element_type(x.type).shape
    size, length = shape[axis], shape[axis] // count
    first = part_of(b, x, (0,) * len(shape), kept(shape, op.axes))
    shifted = b(math.Sub(x, b(graph.Broadcast(first, Tensor(shape, f32)))))
    ranges = [(0, count, length), (count * length, 1, size - count * length)]
    groups = [_Parts.of(b, op, (x, shifted), axis, *r) for r in ranges if r[2]]
    # Of the parts, in the shape of the result.
    outer = axis - sum(a < axis for a in op.axes)
    totals = [b(graph.Reduce(ReduceKind.SUM, (outer,), parts.sums)) for parts in groups]
    mean = _times(b, reduce(lambda one, other: b(math.Add(one, other)), totals), 1 / _count(op, x))
    joined = [parts.about(b, mean, outer) for parts in groups]
    return reduce(lambda one, other: b(math.Add(one, other)), joined)


@dataclass(frozen=True)
class _Parts:
    """Parts of one length, their sums, and their sums of squared deviations from their means."""

    elements: int  # of each
    sums: Value
    deviations: Value

    @staticmethod
    def of(
        b: Builder,
        op: graph.Reduce,
        tensors: tuple[Value, Value],
        axis: int,
        start: int,
        count: int,
        length: int,
    ) -> _Parts:
        x, shifted = [in_parts(b, t, axis, start, count, length) for t in tensors]
        axes = tuple([a + (a >= axis) for a in op.axes])
        elements = prod([element_type(x.type).shape[a] for a in axes])
        mean = _times(b, b(graph.Reduce(ReduceKind.SUM, axes, x)), 1 / elements)
        difference = b(math.Sub(x, repeated(b, mean, axes, x)))
        squares = b(math.Mul(difference, difference))
        sums, deviations = (b(graph.Reduce(ReduceKind.SUM, axes, t)) for t in (shifted, squares))
        return _Parts(elements, sums, deviations)

    def about(self, b: Builder, mean: Value, axis: int) -> Value:
        """The sum of the squared deviations from another mean of all parts.

        Sums that overflow have no difference.  Elements that far apart are finite and their sum
        of squares is not; of an element that is no number, `deviations` tell.
        """
        own = _times(b, self.sums, 1 / self.elements)
        difference = b(math.Sub(own, repeated(b, mean, (axis,), own)))
        square = b(math.Mul(difference, difference))
        square = b(math.MinNum(square, b(Constant(inf, element_type(square.type)))))
        both = b(math.Add(self.deviations, _times(b, square, self.elements)))
        return b(graph.Reduce(ReduceKind.SUM, (axis,), both))


def _times(b: Builder, x: Value, number: float) -> Value:
    return b(math.Mul(x, b(Constant(number, element_type(x.type)))))


def _count(op: graph.Reduce, x: Value) -> int:
    """How many elements are summed."""
    return prod([element_type(x.type).shape[axis] for axis in op.axes])
