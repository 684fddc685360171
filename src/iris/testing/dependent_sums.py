"""Graphs of little besides sums that depend on another reduction along the same axis: softmax,
attention, variances."""

from __future__ import annotations

from hypothesis import strategies as st

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.types import Tensor, f16, f32
from iris.testing.choices import Choices
from iris.testing.graphs import GraphDraft
from iris.testing.softmaxes import softmax_like
from iris.testing.variances import variance_like
from iris.tools.replay import Program

BYTES = 96
ROWS = (1, 2, 3, 5)
COLUMNS = (33, 7, 16, 100, 2, 300)
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
    return draft.put(math.Mul(x, draft.leaf(type_))) if choices.flag(3) else x
