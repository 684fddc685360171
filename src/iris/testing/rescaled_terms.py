"""How far the terms of a sum may be off that is made in one loop with what they depend on.

Of a sum of `exp(x - max(x))`, or of these times or divided by something, the terms may be computed
for the maximum so far, be rounded so, and be multiplied with `exp(m - m')` for each larger maximum.
What they are multiplied with or divided by may be left to the end.

Of a sum of `(x - mean(x))**2` in f32, the mean may be that so far, of `x` minus the first element.

This is all that the compiler does to a sum of floats without being asked, besides its order.

A term of an element that is -inf is 0.  Times an infinity or nan it is nan, but its iteration may
be skipped: then it is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.ir import graph, math
from iris.ir.core import Facet, Op, Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import element_type
from iris.ir.types import bf16, f16, f32
from iris.targets import DEFAULT
from iris.testing.bounds.combine import LARGEST
from iris.testing.numpy_ops import unrounded

Array = npt.NDArray[Any]

# Of 1: the distance of the next float.  Of 0: that, too.
SPACING = {f16: 2.0**-10, bf16: 2.0**-7, f32: 2.0**-23}
LEAST = {f16: 2.0**-24, bf16: 2.0**-133, f32: 2.0**-149}

# `rule(terms, op, values)` notes what the result of an op is as a term of a sum.
term_rules = Facet("terms of a sum")


class Term(NamedTuple):
    """By how much a term may be off more than its value is, and how great it may be at most."""

    relative: Array
    absolute: Array
    most: Array


class Terms:
    """The values of a graph that are terms of such sums."""

    def __init__(self) -> None:
        self.maxima: dict[Value, graph.Reduce] = {}
        self.differences: dict[Value, graph.Reduce] = {}  # from which maximum
        self.sums: dict[Value, graph.Reduce] = {}
        self.means: dict[Value, graph.Reduce] = {}  # of the terms of which sum
        self.deviations: dict[Value, graph.Reduce] = {}  # from the mean of the terms of which sum
        self.squares: dict[Value, Term] = {}
        self.found: dict[Value, Term] = {}
        self.gone: dict[Value, Array] = {}  # which terms are 0 as their elements are -inf

    def note(self, op: Op, values: Mapping[Value, Array]) -> None:
        rule = term_rules.get(type(op))
        if rule is not None:
            rule(self, op, values)

    def error(self, value: Value, error: Array, x: Array, others: float) -> Array:
        """The error of a value as terms of a sum, of as many, times others of at most a size."""
        term = self.found.get(value) or self.squares.get(value)
        if term is None:
            return error
        more = np.abs(np.where(np.isfinite(x), x, 0.0)) * term.relative + term.absolute
        return np.asarray(error + np.where(term.most * others > LARGEST, np.inf, more))

    def skipped(self, op: Op, values: Mapping[Value, Array]) -> Array:
        """Which elements of a product may be numbers although they are nan."""
        found = np.zeros((), np.bool_)
        for one, other in (op.operands, op.operands[::-1]):
            if one not in self.gone or (isinstance(op, math.Div) and one is not op.operands[0]):
                continue
            gone, strange = self.gone[one], ~np.isfinite(values[other].astype(np.float64))
            if isinstance(op, math.Div):
                strange = strange | (values[other] == 0)
            if isinstance(op, graph.Matmul):
                pair = (gone, strange) if one is op.operands[0] else (strange, gone)
                found = found | (np.matmul(*[x.astype(np.float32) for x in pair]) > 0)
            else:
                found = found | (gone & strange)
        return found


def _source(value: Value) -> Value:
    """What a value only repeats, or has in another order."""
    while isinstance(value.op, graph.Reshape | graph.Broadcast | graph.Transpose):
        value = value.op.operands[0]
    return value


@term_rules(graph.Reduce)
def _maximum(terms: Terms, op: graph.Reduce, values: Mapping[Value, Array]) -> None:
    if op.kind is ReduceKind.MAXIMUM:
        terms.maxima[op.results[0]] = op
    if op.kind is ReduceKind.SUM and element_type(op.x.type).element is f32:
        terms.sums[op.results[0]] = op


@term_rules(math.Sub)
def _difference(terms: Terms, op: math.Sub, values: Mapping[Value, Array]) -> None:
    x, y = op.operands
    of = terms.maxima.get(_source(y))
    if of is not None and _source(of.x) is _source(x):
        terms.differences[op.results[0]] = of
    for one, other in ((x, y), (y, x)):
        of = terms.means.get(_source(other))
        if of is not None and _source(of.x) is _source(one):
            terms.deviations[op.results[0]] = of


@term_rules(math.Exp, math.Exp2)
def _exponential(terms: Terms, op: Op, values: Mapping[Value, Array]) -> None:
    (difference,) = op.operands
    of = terms.differences.get(_source(difference))
    if of is None:
        return
    dtype = element_type(difference.type).element
    size = np.abs(values[difference].astype(np.float64))
    size = np.where(np.isfinite(size), size, 0.0)
    # The difference is rounded, and so are those of each maximum so far to the next.
    changes = _changes(values[of.x], of.axes)
    ulps = DEFAULT.ulps["exp"] + 2
    # A term so small that this would overflow is 0.
    rounded = np.minimum(size * (SPACING[dtype] + SPACING[f32]), 80.0)
    relative = np.expm1(rounded) + 2 * SPACING[dtype]
    relative = relative + changes * ulps * SPACING[f32]
    terms.found[op.results[0]] = Term(
        relative, np.full(size.shape, 2 * LEAST[dtype]), np.ones(size.shape)
    )
    terms.gone[op.results[0]] = np.isneginf(values[difference])


def _changes(x: Array, axes: Sequence[int]) -> int:
    """How often the maximum so far changes in a row at most."""
    inner = range(x.ndim - len(axes), x.ndim)
    rows = np.moveaxis(x, axes, inner)
    rows = rows.reshape(*rows.shape[: x.ndim - len(axes)], -1)
    so_far = np.maximum.accumulate(rows, axis=-1)
    return 1 + int((so_far[..., 1:] > so_far[..., :-1]).sum(-1).max(initial=0))


@term_rules(math.Mul, math.Div)
def _times(terms: Terms, op: Op, values: Mapping[Value, Array]) -> None:
    x, y = op.operands
    of = terms.deviations.get(_source(x))
    if isinstance(op, math.Mul) and x is y and of is not None and values[x].size:
        terms.squares[op.results[0]] = _square(of, x, values)
        return
    for one in (x,) if isinstance(op, math.Div) else (y, x):
        total = terms.sums.get(_source(one))
        if total is not None:
            terms.means[op.results[0]] = total
    if isinstance(op, math.Mul) and x not in terms.found:
        x, y = y, x
    term = terms.found.get(x)
    if term is None or y in terms.found:
        return
    dtype = element_type(x.type).element
    with np.errstate(all="ignore"):
        factor = np.abs(values[y].astype(np.float64))
        factor = 1 / factor if isinstance(op, math.Div) else factor
    factor = np.where(np.isfinite(factor), factor, 0.0)
    terms.found[op.results[0]] = Term(
        term.relative + 2 * SPACING[dtype],
        term.absolute * factor + 2 * LEAST[dtype],
        term.most * np.maximum(factor, 1),
    )
    terms.gone[op.results[0]] = np.broadcast_to(terms.gone[x], factor.shape)


def _square(of: graph.Reduce, deviation: Value, values: Mapping[Value, Array]) -> Term:
    """The squares of deviations from the mean of what a sum is of, or of a view of these.

    A mean so far is rounded with each element: by units of how far elements are from the first.
    The mean itself is rounded twice, by units of its own.
    """
    x, axes = values[of.x], of.axes
    wide = np.where(np.isfinite(x), x, 0.0).astype(np.float64)
    first = wide[tuple([slice(1) if axis in axes else slice(None) for axis in range(x.ndim)])]
    shifted = wide - np.where(np.abs(first) <= 2.0**100, first, 0.0)
    most, apart = np.abs(shifted).max(axes, keepdims=True), np.ptp(wide, axes, keepdims=True)
    mean = np.abs(wide.mean(axes, keepdims=True))
    if of.x not in deviation.producer.operands:  # whose axes may be others
        most, apart, mean = most.max(), apart.max(), mean.max()
    count = prod([x.shape[axis] for axis in axes])
    absolute = 4 * (count + 8) * SPACING[f32] * most * apart + LEAST[f32]
    absolute = absolute + (2 * SPACING[f32] * mean) ** 2
    parts = 8 * SPACING[f32], absolute, np.maximum(apart, 1) ** 2
    return Term(*[np.broadcast_to(part, values[deviation].shape) for part in parts])


@term_rules(math.Neg, math.Cast, graph.Reshape, graph.Broadcast, graph.Transpose)
def _same(terms: Terms, op: Op, values: Mapping[Value, Array]) -> None:
    (value,) = op.operands
    if value in terms.squares and isinstance(op, graph.Reshape | graph.Transpose | graph.Broadcast):
        moved = [_moved(op, part) for part in terms.squares[value]]
        terms.squares[op.results[0]] = Term(*moved)
    term = terms.found.get(value)
    dtype = element_type(op.results[0].type).element
    if term is None or not dtype.is_float:
        return
    relative, absolute, most = (_moved(op, part) for part in term)
    terms.gone[op.results[0]] = _moved(op, terms.gone[value])
    rounded = isinstance(op, math.Cast)
    terms.found[op.results[0]] = Term(
        relative + rounded * SPACING[dtype], absolute + rounded * LEAST[dtype], most
    )


def _moved(op: Op, part: Array) -> Array:
    return part if isinstance(op, math.Neg | math.Cast) else unrounded(op, part)
