"""Graphs of reductions, scans and products along axes that may be divided in parts, for results
that are too few for all cores.

The extremum of a row is at times in several parts, and the last part may be shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hypothesis import strategies as st

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.types import Tensor, bf16, bool_, f16, f32, i8, i16, i32, u8, u32
from iris.testing.choices import Choices
from iris.testing.elementwise import SUMMED
from iris.testing.graph_makers import combined
from iris.testing.graph_views import any_order, dtype_of, reordered, shape_of
from iris.testing.graphs import MOST_OF_LARGE, GraphDraft
from iris.tools.replay import Array, Program

BYTES = 64
DTYPES = (f32, i32, f16, f32, u32, bf16, bool_, i8, i16, u8)
SIZES = (64, 33, 100, 17, 300, 9, 31)
BESIDE = (2, 1, 3, 5)  # the sizes of other axes
PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
TRUTH = (ReduceKind.ANY, ReduceKind.ALL)
NUMBERS = [kind for kind in ReduceKind if kind not in (*PLACES, *TRUTH)]


def programs() -> st.SearchStrategy[Program]:
    """Graphs that `split-reductions` divides for a GPU of many cores."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A graph that some bytes choose."""
    draft = GraphDraft([], choices, DTYPES, portable=True)
    draft.outputs = MOST_OF_LARGE  # all
    for _ in range(choices.of((2, 1))):
        x = _rows(draft, choices)
        draft.visible.append(choices.of(_OF_ROWS)(draft, x, choices))
    return draft.finish()


def _rows(draft: GraphDraft, choices: Choices) -> Value:
    """A long axis, and up to two others, in any order."""
    shape = [choices.of(SIZES), *[choices.of(BESIDE) for _ in range(choices.of((1, 0, 2)))]]
    order = any_order(len(shape), choices)
    type_ = Tensor(tuple([shape[axis] for axis in order]), choices.of(DTYPES))
    x = _numbers(draft, type_, choices)
    return reordered(draft, x, choices) if choices.flag(4) else x


def _numbers(draft: GraphDraft, type_: Tensor, choices: Choices) -> Value:
    """Numbers of which some are equal; or one at which things go wrong, among others."""
    if choices.flag():
        return draft.leaf(type_)
    return draft.argument(Array(type_.element, type_.shape, draft.next_seed()))


def _longest(x: Value) -> int:
    return shape_of(x).index(max(shape_of(x)))


def _reduced(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Along the longest axis, and at times along others."""
    kinds = TRUTH if dtype_of(x) is bool_ else choices.of((NUMBERS, PLACES, NUMBERS))
    kind, axes = choices.of(kinds), {_longest(x)}
    if kind not in PLACES:
        axes |= {axis for axis in range(len(shape_of(x))) if choices.flag(3)}
    x = combined(draft, x, kind.value, prod([shape_of(x)[axis] for axis in axes]))
    return draft.put(graph.Reduce(kind, tuple(sorted(axes)), x))


def _scanned(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    if dtype_of(x) is bool_:
        return _reduced(draft, x, choices)
    axis, kind = _longest(x), choices.of(list(ScanKind))
    return draft.put(graph.Scan(kind, axis, combined(draft, x, kind.value, shape_of(x)[axis])))


def _multiplied(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """A product along the longest axis."""
    if dtype_of(x) is bool_:
        return _reduced(draft, x, choices)
    axis = _longest(x)
    rows = draft.put(graph.Transpose((*[a for a in range(len(shape_of(x))) if a != axis], axis), x))
    *outer, depth = shape_of(rows)
    outer = outer or [1]
    rows = draft.put(graph.Reshape(rows, Tensor((*outer, depth), dtype_of(x))))
    type_ = Tensor((*outer[:-1], depth, choices.of(BESIDE)), dtype_of(x))
    factors = (draft.exact(v, SUMMED, SUMMED) for v in (rows, _numbers(draft, type_, choices)))
    return draft.put(graph.Matmul(*factors))


_OF_ROWS: tuple[Callable[[GraphDraft, Value, Choices], Value], ...] = (
    _reduced,
    _scanned,
    _reduced,
    _multiplied,
)
