"""Sums of squared deviations from a mean along the same axes, made without knowing the mean.

    sum((x - sum(x) / n)**2)        d = x - m;  m' = m + d / n;  s' = s + d * (x - m')

While the loop runs, `m` is the mean of the `n` elements so far, and `s` the sum.  Both are of `x`
minus the first element: so `m` is as small as the deviations are, and so are its errors.

This holds in f32 only: a narrower mean is rounded so far that the deviations from it differ.
"""

from __future__ import annotations

from math import prod
from typing import TypeGuard

from iris.ir import literal, math
from iris.ir.kinds import ReduceKind
from iris.ir.types import f32
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    DeviationsExpr,
    ElementExpr,
    Pointwise,
    ReduceExpr,
    SplatExpr,
    Substitution,
)
from iris.passes.graph.tiling.element_graph import ElementGraph, refs_of
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.index_expr import IndexExpr

# How far `1 / n` may be off, as it is rounded.
ROUNDED = 2.0**-23


def deviations_form(elements: ElementGraph) -> ElementGraph | None:
    """The elements with sums of squared deviations made of terms alone; None if there are none."""
    if not any(map(_is_sum, elements.aggregates.values())):
        return None
    exprs: dict[ElementRef, ElementExpr] = {}
    for ref, expr in elements.exprs.items():
        # Of an element that is here for a sum already, the operands come first.
        exprs.setdefault(ref, expr)
        if _is_sum(expr) and {*elements.output_axes}.isdisjoint(expr.over):
            x = _deviating(elements, expr)
            to_first = Substitution(dict.fromkeys(expr.over, IndexExpr()))
            again = [] if x is None else _differing(elements, x, to_first)
            # To make an aggregate again, for the first element alone, could take long.
            if x is None or any(isinstance(elements.exprs[r], Aggregate) for r in again):
                continue
            del exprs[ref]  # whose operands come first
            for r in again:
                exprs.setdefault(to_first.ref(r), elements.exprs[r].substituted(to_first))
            exprs[ref] = DeviationsExpr(expr.over, expr.kind, x, to_first.ref(x))
    found = any(isinstance(expr, DeviationsExpr) for expr in exprs.values())
    return elements.with_exprs(exprs) if found else None


def _is_sum(expr: ElementExpr) -> TypeGuard[ReduceExpr]:
    return isinstance(expr, ReduceExpr) and expr.kind is ReduceKind.SUM and expr.ref.element is f32


def _deviating(elements: ElementGraph, total: ReduceExpr) -> ElementRef | None:
    """The `x` of a sum of `(x - mean(x))**2`; None if the sum is none."""
    square = elements.defined(total.ref)
    if not isinstance(square, Pointwise) or not isinstance(square.op, math.Mul):
        return None
    one, other = map(elements.source, square.operands)
    difference = elements.exprs[one]
    if one != other or not isinstance(difference, Pointwise):
        return None
    if not isinstance(difference.op, math.Sub):
        return None
    x, y = map(elements.source, difference.operands)
    if _is_mean(elements, y, x, total):
        return x
    return y if _is_mean(elements, x, y, total) else None


def _is_mean(elements: ElementGraph, ref: ElementRef, x: ElementRef, total: ReduceExpr) -> bool:
    """Whether an element is the mean of others along the axes of a sum."""
    mean = elements.defined(ref)
    if not isinstance(mean, Pointwise) or not isinstance(mean.op, (math.Mul, math.Div)):
        return False
    summed, factor = map(elements.defined, mean.operands)
    if isinstance(mean.op, math.Mul) and isinstance(summed, SplatExpr):
        summed, factor = factor, summed
    if not _is_sum(summed) or not isinstance(factor, SplatExpr):
        return False
    number = float(literal.decode(factor.bits, f32))
    count = prod([axis.size for axis in total.over])
    share = number * count if isinstance(mean.op, math.Mul) else number / count
    return (
        summed.over == total.over and elements.source(summed.ref) == x and abs(share - 1) <= ROUNDED
    )


def _differing(elements: ElementGraph, x: ElementRef, moved: Substitution) -> list[ElementRef]:
    """The elements that a term is made of and that are others elsewhere, operands first."""
    needed, found = {x}, []
    for ref in reversed(elements.exprs):
        if ref in needed and moved.ref(ref) != ref:
            needed.update(refs_of(ref, elements.exprs[ref]))
            found.append(ref)
    return found[::-1]
