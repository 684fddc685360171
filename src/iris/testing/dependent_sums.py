"""Graphs of little besides sums that depend on another reduction along the same axis: softmax,
attention, variances.

Some rows have one element, or some elements or all of them are infinite, nan, 0 or too great to be
summed.
"""

from __future__ import annotations

from math import inf, nan

from hypothesis import strategies as st

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.math import Predicate
from iris.ir.types import Tensor, f16, f32, i32
from iris.testing.choices import Choices
from iris.testing.graphs import GraphDraft
from iris.testing.softmaxes import softmax_like
from iris.testing.variances import variance_like
from iris.tools.replay import Program

BYTES = 96
ROWS = (1, 2, 3, 5)
COLUMNS = (33, 7, 16, 31, 100, 2, 300, 101, 1)  # of 7, 31 and 101 a last part is shorter
EXTREMES = (-inf, inf, nan, 0.0, 6e4)
MOST_SQUARE = 33  # rows and columns


def programs() -> st.SearchStrategy[Program]:
    """Graphs whose kernels may go along rows once, and correct what they have summed."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A graph that some bytes choose."""
    draft = GraphDraft([], choices, [f32, f16], rounding=True, portable=True)
    for _ in range(choices.of((1, 1, 2))):
        x = _some_rows(draft, choices)
        axes = choices.of(((1,), (1,), (0, 1), (1,), (0,)))
        choices.of((softmax_like, softmax_like, variance_like))(draft, x, axes, choices)
    return draft.finish()


def _some_rows(draft: GraphDraft, choices: Choices) -> Value:
    """Rows of floats, or what is computed: from others, or from indices, as if rows had no end."""
    rows, columns = choices.of(ROWS), choices.of(COLUMNS)
    shape = (columns, columns) if choices.flag(3) and columns <= MOST_SQUARE else (rows, columns)
    type_ = Tensor(shape, choices.of((f32, f32, f16, f32)))
    if choices.flag(4):
        return draft.put(graph.Iota(choices.below(2), type_))
    x = draft.leaf(type_)
    x = draft.put(math.Mul(x, draft.leaf(type_))) if choices.flag(3) else x
    return _with_extremes(draft, x, type_, choices) if choices.flag(4) else x


def _with_extremes(draft: GraphDraft, x: Value, type_: Tensor, choices: Choices) -> Value:
    """With one number in place of a row, of a column, or of one element of each row."""
    indices = Tensor(type_.shape, i32)
    places = [draft.put(graph.Iota(axis, indices)) for axis in (0, 1)]
    rows, columns = type_.shape
    some = choices.of((0, rows - 1)), choices.below(min(columns, 256))
    style = choices.below(3)
    place = draft.put(math.Sub(places[1], places[0])) if style == 2 else places[style]
    here = draft.constant(some[style == 1], indices)
    condition = draft.put(math.Compare(Predicate.EQ, place, here))
    return draft.put(math.Select(condition, draft.constant(choices.of(EXTREMES), type_), x))
