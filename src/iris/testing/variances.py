"""Uses of `x - mean(x)`: variances along some axes, and elements divided by deviations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import element_type
from iris.ir.types import Tensor, f32
from iris.testing.choices import Choices
from iris.testing.graph_views import dtype_of, shape_of, spread
from iris.testing.graphs import GraphDraft

NEARLY = (0, 0, 0, 2.0**-13, 0, 2.0**-12)  # the share by which a count is off


def variance_like(draft: GraphDraft, x: Value, axes: Sequence[int], choices: Choices) -> None:
    """Sums along some axes of squared deviations from the mean, and their uses."""
    shape, type_ = shape_of(x), element_type(x.type)
    if type_.element is not f32 and not choices.flag(3):
        x = draft.put(math.Cast(x, type_.with_element(f32)))
    nearly = choices.of(NEARLY)  # if not as many, it is no mean
    if nearly or choices.flag(3):  # the mean is far from 0
        far = choices.of((8, -32, 1000))
        x = draft.put(math.Add(x, draft.constant(far, element_type(x.type))))
    count = prod([shape[axis] for axis in axes]) * (1 + nearly)
    count = max(1, count + choices.of((0, 1, 0, -1, 0)))
    total = _along(draft, x, axes)
    kept = element_type(total.type)
    divides = choices.flag()
    number = draft.constant(count if divides else 1 / count, kept)
    mean = draft.put((math.Div if divides else math.Mul)(total, number))
    other = draft.leaf(element_type(x.type)) if choices.flag(4) else x
    pair = other, spread(draft, mean, shape)
    difference = draft.put(math.Sub(*(pair if choices.flag() else pair[::-1])))
    squares = _along(draft, draft.put(math.Mul(difference, difference)), axes)
    if choices.flag():
        more = draft.put(math.Add(squares, draft.constant(1, kept)))
        deviation = spread(draft, draft.put(math.Sqrt(more)), shape)
        draft.visible.append(draft.put(math.Div(difference, deviation)))
    else:
        draft.visible.append(squares)
    if choices.flag(3):
        draft.visible.append(mean)


def _along(draft: GraphDraft, x: Value, axes: Sequence[int]) -> Value:
    """A sum along some axes, of which each keeps one element."""
    reduced = draft.put(graph.Reduce(ReduceKind.SUM, tuple(axes), x))
    kept = tuple([1 if a in axes else n for a, n in enumerate(shape_of(x))])
    return draft.put(graph.Reshape(reduced, Tensor(kept, dtype_of(x))))
