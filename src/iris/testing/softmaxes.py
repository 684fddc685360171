"""What users make of `exp(x - max(x))`: softmax, its products, log-sum-exp, weighted means."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Predicate, element_type
from iris.ir.types import ElementType, Tensor, i32
from iris.testing.choices import Choices
from iris.testing.draft import special_number
from iris.testing.graph_views import dtype_of, shape_of, spread
from iris.testing.graphs import GraphDraft

# How a softmax differs from a plain one.  It does so in one way at a time: what differs in several
# is taken for none.
TWISTS = ("", "", "kind", "", "factor", "axis", "other", "factor", "sign", "axis")
SIDES = (Predicate.GE, Predicate.GE, Predicate.LE, Predicate.LT, Predicate.EQ)
COLUMNS = (1, 3, 16, 40)  # of what a product with weights has


def softmax_like(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> None:
    """Sums along an axis of terms `exp(x - max(x))`, and their uses."""
    twist = choices.of(TWISTS)
    x = _masked(draft, x, axis, choices) if choices.flag() else x
    kind = ReduceKind.MAXNUM if twist == "kind" else ReduceKind.MAXIMUM
    over = _equal_axis(shape_of(x), axis, choices) if twist == "axis" else axis
    maximum = _along(draft, kind, x, axis, over)
    other = draft.leaf(element_type(x.type)) if twist == "other" else x
    difference = draft.put(math.Sub(other, maximum))
    exponent = draft.put(math.Neg(difference)) if twist == "sign" else difference
    terms = draft.put(choices.of((math.Exp, math.Exp, math.Exp2))(exponent))
    divided = terms
    if twist == "factor":
        # Also a term itself, or the difference, as in an entropy; or a number, such as 0.
        number = draft.constant(special_number(dtype_of(x), choices), element_type(x.type))
        factor = choices.of((draft.leaf(element_type(x.type)), difference, terms, number))
        terms = draft.put(choices.of((math.Mul, math.Div))(terms, factor))
    total = _along(draft, ReduceKind.SUM, terms, axis)
    divided = terms if choices.flag() else divided
    weights = draft.put(math.Div(divided, total)) if choices.flag() else terms
    makers = (_product, _product, _mean, _logarithm)
    draft.visible.append(choices.of(makers)(draft, x, axis, (maximum, total, weights), choices))
    if not total.users or choices.flag(3):
        draft.visible.append(choices.of((total, weights, maximum)))


def _equal_axis(shape: Sequence[int], axis: int, choices: Choices) -> int:
    """Another axis of the same size, which no type tells apart; or the axis, if there is none."""
    others = [a for a, size in enumerate(shape) if size == shape[axis] and a != axis]
    return choices.of(others or [axis])


def _masked(draft: GraphDraft, x: Value, axis: int, choices: Choices) -> Value:
    """-inf in place of some elements, of whole rows, or of all on one side of a place or a
    diagonal, as in causal attention."""
    type_ = element_type(x.type)
    lowest = draft.constant(float("-inf"), type_)
    style = choices.below(4)
    if style == 3:
        condition = draft.condition(type_, choices)
    elif style == 2:
        condition = _by_row(draft, type_, axis, choices)
    else:
        indices = Tensor(type_.shape, i32)
        other = choices.below(len(type_.shape))
        size = type_.shape[axis]
        first = draft.constant(
            choices.of((choices.below(size), choices.below(size), 0, size)), type_.with_element(i32)
        )
        if other != axis:
            first = draft.put(math.Sub(draft.put(graph.Iota(other, indices)), first))
        place = draft.put(graph.Iota(axis, indices))
        condition = draft.put(math.Compare(choices.of(SIDES), place, first))
    return draft.put(math.Select(condition, x, lowest))


def _by_row(draft: GraphDraft, type_: ElementType, axis: int, choices: Choices) -> Value:
    """A condition that is the same along an axis."""
    kept = tuple([1 if a == axis else n for a, n in enumerate(type_.shape)])
    return spread(draft, draft.condition(Tensor(kept, type_.element), choices), type_.shape)


def _along(
    draft: GraphDraft, kind: ReduceKind, x: Value, axis: int, over: int | None = None
) -> Value:
    """A reduction along an axis, for each element that it is of; or as if it were, `over` another
    axis of the same size."""
    shape = shape_of(x)
    reduced = draft.put(graph.Reduce(kind, (axis if over is None else over,), x))
    kept = tuple([1 if a == axis else n for a, n in enumerate(shape)])
    return spread(draft, draft.put(graph.Reshape(reduced, Tensor(kept, dtype_of(x)))), shape)


Parts = tuple[Value, Value, Value]


def _product(draft: GraphDraft, x: Value, axis: int, parts: Parts, choices: Choices) -> Value:
    """The weights times a matrix."""
    shape, (_, _, weights) = shape_of(x), parts
    order = (*[a for a in range(len(shape)) if a != axis], axis)
    rows = draft.put(graph.Transpose(order, weights))
    *outer, count = shape_of(rows)
    if not outer:
        rows = draft.put(graph.Reshape(rows, Tensor((1, count), dtype_of(x))))
    batch = outer[:-1]
    values = draft.leaf(Tensor((*batch, count, choices.of(COLUMNS)), dtype_of(x)))
    return draft.put(graph.Matmul(rows, values))


def _mean(draft: GraphDraft, x: Value, axis: int, parts: Parts, choices: Choices) -> Value:
    """The mean of other elements by the weights."""
    weighted = draft.put(math.Mul(parts[2], draft.leaf(element_type(x.type))))
    return draft.put(graph.Reduce(ReduceKind.SUM, (axis,), weighted))


def _logarithm(draft: GraphDraft, x: Value, axis: int, parts: Parts, choices: Choices) -> Value:
    """The logarithm of the sum of `exp(x)`."""
    maximum, total, _ = parts
    return draft.put(math.Add(draft.put(math.Log(total)), maximum))
