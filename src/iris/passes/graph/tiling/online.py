"""Reductions that depend on a maximum along the same axis, made in one loop over it.

    m = max(x)                      m' = max(m, max of the block)
    l = sum(exp(x - m))             l = l * exp(m - m') + sum(exp(block - m'))
    y = sum(exp(x - m) / l * v)     y = y * exp(m - m') + sum(exp(block - m') * v); in the end / l

While the loop runs, `m` is the maximum so far.  What was added before for a smaller one is
multiplied by a factor that is never over 1, so that nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from typing import TypeAlias

from iris.ir import math
from iris.ir.core import Facet, Op
from iris.ir.kinds import ReduceKind
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    Alias,
    ElementExpr,
    Pointwise,
    ReduceExpr,
    Rescaling,
    Substitution,
)
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import ElementRef, looked_up_refs
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr


class Grown(Enum):
    """What becomes of an element when a maximum `m` of elements `x` becomes a larger one, `m'`."""

    FIXED = auto()  # it stays
    TERM = auto()  # it is one of the `x`, and stays
    MAXIMUM = auto()  # it is `m`
    TOTAL = auto()  # it is the sum of all `exp(x - m)`: at least 1, and at most their number
    LATE = auto()  # it is known when `m` is, and does not differ along the axis
    SHIFTED = auto()  # it is `x - m`, so that `m - m'` is added
    OTHER = auto()


@dataclass(frozen=True)
class Scaled:
    """It is multiplied by `function(m - m')`.

    A sum of such elements is divided in the `end` by totals, which are known by then.
    """

    function: type[Op]
    end: tuple[tuple[type[Op], ElementRef], ...] = ()


Growth: TypeAlias = Grown | Scaled
Operand: TypeAlias = tuple[Growth, ElementRef]

#: What an op makes of the growth of its operands, where that is a law that holds for floats, too.
growth_laws = Facet("growth with a maximum")


@growth_laws(math.Sub)
def _difference(op: type[Op], x: Operand, m: Operand) -> Growth:
    return Grown.SHIFTED if (x[0], m[0]) == (Grown.TERM, Grown.MAXIMUM) else Grown.OTHER


@growth_laws(math.Exp, math.Exp2)
def _exponential(op: type[Op], x: Operand) -> Growth:
    return Scaled(op) if x[0] is Grown.SHIFTED else Grown.OTHER


@growth_laws(math.Neg, math.Cast)
def _same(op: type[Op], x: Operand) -> Growth:
    return x[0] if isinstance(x[0], Scaled) else Grown.OTHER


@growth_laws(math.Div)
def _quotient(op: type[Op], x: Operand, y: Operand) -> Growth:
    # Any other divisor could be 0 or infinite, and then a quotient of sums is no sum of quotients.
    if isinstance(x[0], Scaled) and y[0] is Grown.TOTAL:
        return replace(x[0], end=(*x[0].end, (op, y[1])))
    return _times(x[0], y[0])


@growth_laws(math.Mul)
def _product(op: type[Op], x: Operand, y: Operand) -> Growth:
    return _times(x[0], y[0]) if isinstance(x[0], Scaled) else _times(y[0], x[0])


def _times(scaled: Growth, factor: Growth) -> Growth:
    is_scaled = isinstance(scaled, Scaled) and factor in (Grown.FIXED, Grown.TERM)
    return scaled if is_scaled else Grown.OTHER


def rescaled_form(elements: ElementGraph) -> ElementGraph | None:
    """The elements with all that a maximum allows in the loop of that; None if that is nothing."""
    found = False
    summed = _summed(elements)
    maxima = [r for r in summed if (e := elements.aggregates.get(r)) is not None and _is_maximum(e)]
    while maxima:
        base = maxima.pop(0)
        (axis,) = elements.aggregates[base].over
        if axis in elements.output_axes:
            continue
        replacements = {a: IndexExpr.of(axis) for a in _own_axes(elements, base, axis)}
        one = Substitution(replacements)
        along = elements.substituted(replacements) if replacements else elements
        if one.ref(base) not in along.exprs:  # within a sum that is the same as another one now
            continue
        online = _Chain(along, one.ref(base), axis).rescaled()
        if online is not None:
            elements, found = online, True
            maxima = [one.ref(other) for other in maxima]
    return elements if found else None


def _summed(elements: ElementGraph) -> list[ElementRef]:
    """The elements that a sum depends on, operands first."""
    if not elements.aggregates:
        return []
    found: set[ElementRef] = set()
    for ref, expr in reversed(elements.exprs.items()):
        if ref in found or (isinstance(expr, Aggregate) and expr.is_sum):
            found.update(expr.refs)
    return [ref for ref in elements.exprs if ref in found]


def _is_maximum(expr: Aggregate) -> bool:
    return (
        isinstance(expr, ReduceExpr)
        and len(expr.over) == 1
        and expr.kind is ReduceKind.MAXIMUM
        and expr.ref.element.is_float
    )


def _own_axes(elements: ElementGraph, base: ElementRef, axis: Axis) -> list[Axis]:
    """The axis of a sum that depends on a maximum, if the sum could run along the axis of the
    maximum instead; else nothing."""
    needing, dependencies = {base}, elements.dependencies
    for ref, expr in elements.exprs.items():
        if not needing.isdisjoint(expr.refs):
            needing.add(ref)
    overs = {e.over for r, e in elements.aggregates.items() if r in needing and len(e.over) == 1}
    own = [a for (a,) in overs if a.size == axis.size and a not in {axis, *elements.output_axes}]
    # An element that differs along both has a place of its own for each pair of indices.
    own = [a for a in own if not any({a, axis} <= along for along in dependencies.values())]
    return own if len(own) == 1 else []


class _Chain:
    """What depends on a maximum along its axis."""

    def __init__(self, elements: ElementGraph, base: ElementRef, axis: Axis):
        self.elements = elements
        self.base = base
        self.axis = axis
        self.growths: dict[ElementRef, Growth] = {}

    def rescaled(self) -> ElementGraph | None:
        """The elements with the chain in one loop; None where no law allows it."""
        exprs = dict(self.elements.exprs)
        for ref, expr in self.elements.exprs.items():
            growth = self.growths[ref] = self._growth(ref, expr)
            scaled = self._scaled(expr)
            if isinstance(expr, Aggregate) and self.axis in expr.over:
                if growth is Grown.LATE:
                    rescaling = self._rescaling(expr)
                    if rescaling is None:
                        return None
                    exprs[ref] = replace(expr, rescaling=rescaling)
                    if self._is_total(expr):
                        self.growths[ref] = Grown.TOTAL
            elif isinstance(growth, Scaled) and scaled and growth != self.growths[scaled[0]]:
                exprs[ref] = Alias(scaled[0])  # what else is done to it is done in the end
        return self.elements.with_exprs(exprs) if exprs != self.elements.exprs else None

    @cached_property
    def term(self) -> ElementRef:
        """The element whose maximum is looked for."""
        return self.elements.source(self.elements.aggregates[self.base].refs[0])

    def _growth(self, ref: ElementRef, expr: ElementExpr) -> Growth:
        if ref in (self.base, self.term):
            return Grown.MAXIMUM if ref == self.base else Grown.TERM
        growths = [self.growths[r] for r in expr.refs]
        if isinstance(expr, Alias):
            return growths[0]
        looked_up = looked_up_refs([*ref.index_exprs(), *expr.index_exprs()])
        if {*growths, *(self.growths[r] for r in looked_up)} <= {Grown.FIXED, Grown.TERM}:
            return Grown.FIXED
        if self.axis not in self.elements.dependencies[ref]:
            return Grown.LATE
        if not isinstance(expr, Pointwise) or looked_up:
            return Grown.OTHER
        law = growth_laws.get(type(expr.op))
        if law is None:
            return Grown.OTHER
        growth: Growth = law(type(expr.op), *zip(growths, expr.refs, strict=True))
        return growth if ref.element.is_float else Grown.OTHER

    def _is_total(self, expr: Aggregate) -> bool:
        """Whether a sum is of the `exp(x - m)` themselves."""
        if not isinstance(expr, ReduceExpr):
            return False
        term = self.elements.defined(expr.ref)
        return isinstance(term, Pointwise) and type(term.op) in (math.Exp, math.Exp2)

    def _scaled(self, expr: ElementExpr) -> list[ElementRef]:
        return [r for r in expr.refs if isinstance(self.growths[r], Scaled)]

    def _rescaling(self, expr: Aggregate) -> Rescaling | None:
        """How a sum grows; None for what is no sum, or of elements that grow in other ways."""
        scaled = self._scaled(expr)
        others = {self.growths[r] for r in expr.refs if r not in scaled}
        if (
            expr.over != (self.axis,)
            or not expr.is_sum
            or len(scaled) != 1
            or not others <= {Grown.FIXED, Grown.TERM}
        ):
            return None
        growth = self.growths[scaled[0]]
        assert isinstance(growth, Scaled), "this is how it was found"
        return Rescaling(self.base, growth.function, growth.end)
