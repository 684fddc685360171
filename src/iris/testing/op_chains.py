"""Graphs of short chains of ops, each of the one before alone: what one op of another becomes.

Any op follows any other, such as a slice that goes backwards over what is joined, or a product
along an axis that is spread.  Half the arrays show by their sizes which axis is which, and half do
not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from hypothesis import strategies as st

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ScanKind
from iris.ir.math import element_type
from iris.ir.types import ElementType, Tensor, bf16, bool_, f16, f32, i8, i32, i64, u32
from iris.testing.choices import Choices
from iris.testing.draft import special_number
from iris.testing.elementwise import SUMMED
from iris.testing.graph_makers import combined, reduce_some, some_axis
from iris.testing.graph_views import (
    any_order,
    backwards,
    displaced,
    dtype_of,
    factored,
    joined,
    padding,
    part,
    reshaped,
    shape_of,
    spread,
    viewed,
)
from iris.testing.graphs import MOST_AXES, MOST_ELEMENTS, GraphDraft
from iris.tools.replay import Array, Program

BYTES = 96
CHAINS = (4, 2, 6)  # in a program
LINKS = (2, 3, 2, 4)  # of a chain
DTYPES = (f32, i32, f32, f16, bool_, i32, u32, i8, bf16, i64)
SHAPES = ((2, 3, 4), (4, 6), (3, 1, 2), (5,), (2, 3, 1, 4), (1, 6), (3, 2), ())
ALIKE = ((3, 3, 3), (4, 4), (2, 2, 2, 2), (2, 1, 2), (1, 1), (3, 3, 1), (4,), (1,))


def programs() -> st.SearchStrategy[Program]:
    """Graphs of some chains that have nothing to do with each other."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A graph that some bytes choose."""
    draft = GraphDraft([], choices, DTYPES, portable=True)
    draft.outputs = MOST_ELEMENTS  # all chains
    for _ in range(choices.of(CHAINS)):
        x = _first(draft, choices)
        for _ in range(choices.of(LINKS)):
            x = choices.of(_LINKS)(draft, x, choices)
        draft.visible.append(x)
    return draft.finish()


def _first(draft: GraphDraft, choices: Choices) -> Value:
    shape, dtype = choices.of(choices.of((SHAPES, ALIKE))), choices.of(DTYPES)
    return _any(draft, Tensor(shape, dtype), choices)


def _any(draft: GraphDraft, type_: ElementType, choices: Choices) -> Value:
    """Something of a type: mostly an argument, or a view of one.  Most elements of most arguments
    are different, so that it shows which of them goes where."""
    style = choices.below(8)
    if style > 5:
        return draft.uniform(type_, choices)
    if style > 3:
        return viewed(draft, type_, choices.below(4), choices)
    if style == 3:
        return draft.leaf(type_)
    return draft.argument(Array(type_.element, type_.shape, draft.next_seed()))


# The links.


def _part(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Along each axis all, or every other, or some elements, forward or backward."""
    starts, steps, sizes = [], [], []
    for n in shape_of(x):
        step = choices.of((1, -1, 1, 2, -2, -1, 1, 3))
        first = min(choices.of((0, 0, 1, 2)), max(n - 1, 0))
        most = (n - 1 - first) // abs(step) + 1 if n else 0
        fewer = choices.of((0, 0, 1, 0, most - 1))
        starts.append(first if step > 0 or not n else n - 1 - first)
        steps.append(step)
        sizes.append(max(most - fewer, min(most, 1)))
    type_ = Tensor(tuple(sizes), dtype_of(x))
    return draft.put(graph.Slice(tuple(starts), tuple(steps), x, type_))


def _turned(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    return draft.put(graph.Transpose(any_order(len(shape_of(x)), choices), x))


def _reshaped(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """In any shape, or with an axis of one element more, or with none."""
    shape, style = shape_of(x), choices.below(3)
    if style == 0:
        return reshaped(draft, x, factored(prod(shape), choices))
    if style == 1 or len(shape) == MOST_AXES:
        return reshaped(draft, x, tuple([n for n in shape if n != 1]))
    at = choices.below(len(shape) + 1)
    return reshaped(draft, x, (*shape[:at], 1, *shape[at:]))


def _spread(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Along some axes of one element, or along a new one."""
    if 1 not in shape_of(x) and len(shape_of(x)) < MOST_AXES:
        at = choices.below(len(shape_of(x)) + 1)
        x = reshaped(draft, x, (*shape_of(x)[:at], 1, *shape_of(x)[at:]))
    to = tuple([choices.of((3, 2, 4, 1)) if n == 1 else n for n in shape_of(x)])
    return spread(draft, x, to) if prod(to) <= MOST_ELEMENTS else x


def _padded(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    low, high = ([choices.of((0, 1, 0, 2)) for _ in shape_of(x)] for _ in range(2))
    to = tuple([a + n + b for a, n, b in zip(low, shape_of(x), high, strict=True)])
    if prod(to) > MOST_ELEMENTS:
        return x
    type_ = Tensor(to, dtype_of(x))
    return draft.put(graph.Pad(tuple(low), x, padding(draft, x, choices), type_))


def _joined(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """With another one, or with some of its own elements."""
    shape = shape_of(x)
    if not shape or 2 * prod(shape) > MOST_ELEMENTS:
        return x
    other = _any(draft, element_type(x.type), choices) if choices.flag() else x
    axis = choices.below(len(shape))
    if choices.flag(3) and shape[axis]:
        start, size = choices.below(shape[axis]), 1
        starts = tuple([start if a == axis else 0 for a in range(len(shape))])
        to = tuple([size if a == axis else n for a, n in enumerate(shape)])
        type_ = Tensor(to, dtype_of(x))
        other = draft.put(graph.Slice(starts, (1,) * len(shape), other, type_))
    parts = (x, other) if choices.flag() else (other, x)
    return joined(draft, axis, *parts)


def _taken_apart(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Two parts, one after the other, of which the second begins where the first would go on, or
    beside that; both go on by the same step, or each by its own."""
    shape = shape_of(x)
    longest = some_axis(shape, choices) if shape else 0
    if not shape or shape[longest] < 2:
        return x
    size, first = shape[longest], choices.of((1, 2, 3))
    step = choices.of((1, 2, 1, 3))
    first = min(first, (size - 1) // step) or 1
    start = min(choices.of((step * first, step * first, step * first - 1)), size - 1)
    other = choices.of((step, 1, 2, step))
    count = 1 + choices.below((size - 1 - start) // other + 1)
    if choices.flag(4):
        x = draft.put(backwards(x, [longest]))
    parts = (part(draft, x, longest, 0, first, step), part(draft, x, longest, start, count, other))
    return joined(draft, longest, *parts)


def _displaced(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    return displaced(draft, x, choices)


def _reduced(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    if not shape_of(x):
        return x
    reduce_some(draft, x, choices)
    return draft.visible.pop()


def _scanned(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    if not shape_of(x) or dtype_of(x) is bool_:
        return x
    axis, kind = some_axis(shape_of(x), choices), choices.of(list(ScanKind))
    return draft.put(graph.Scan(kind, axis, combined(draft, x, kind.value, shape_of(x)[axis])))


def _multiplied(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """A product of matrices, in which it is either factor."""
    if len(shape_of(x)) < 2 or dtype_of(x) is bool_:
        return x
    *outer, rows, columns = shape_of(x)
    count, is_first = choices.of((3, 2, 1, rows)), choices.flag()
    other = (*outer, columns, count) if is_first else (*outer, count, rows)
    y = _any(draft, Tensor(other, dtype_of(x)), choices)
    x, y = (draft.exact(v, SUMMED, SUMMED) for v in (x, y))
    return draft.put(graph.Matmul(*((x, y) if is_first else (y, x))))


def _changed(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Each element, alone."""
    type_ = element_type(x.type)
    if type_.element is bool_:
        return draft.put(math.Not(x))
    if choices.flag():
        return draft.put(choices.of((math.Neg, math.Abs))(x))
    return draft.put(math.Cast(x, type_.with_element(bool_)))


def _paired(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Each element, with one of something else, of a row or column, or with a number."""
    type_ = element_type(x.type)
    if choices.flag(4):
        y = draft.constant(special_number(type_.element, choices), type_)
    elif choices.flag(3):
        y = viewed(draft, type_, 3, choices)
    else:
        y = _any(draft, type_, choices)
    ops = _LOGICAL if type_.element is bool_ else _ARITHMETIC
    return draft.put(choices.of(ops)(*(x, y)[:: choices.of((1, -1))]))


def _chosen(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Each element or one of something else, as a condition says that is mostly uniform."""
    type_ = element_type(x.type)
    pair = x, _any(draft, type_, choices)
    condition = type_.with_element(bool_)
    make = draft.uniform if choices.flag() else partial(_any, draft)
    return draft.put(math.Select(make(condition, choices), *pair[:: choices.of((1, -1))]))


_LOGICAL: tuple[type[math.Binary], ...] = (math.Xor, math.And, math.Or)
_ARITHMETIC: tuple[type[math.Binary], ...] = (
    math.Sub,
    math.Add,
    math.Mul,
    math.Maximum,
    math.MinNum,
)
_LINKS: tuple[Callable[[GraphDraft, Value, Choices], Value], ...] = (
    _part,
    _turned,
    _reshaped,
    _spread,
    _joined,
    _reduced,
    _paired,
    _padded,
    _part,
    _turned,
    _reshaped,
    _spread,
    _joined,
    _reduced,
    _paired,
    _changed,
    _chosen,
    _multiplied,
    _scanned,
    _displaced,
    _taken_apart,
    _taken_apart,
)
