"""What users make of `exp(x - max(x))`: softmax, its products, log-sum-exp, weighted means."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

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
TWISTS = (*("", "late", "factor", "other") * 2, *("", "kind", "", "factor", "axis", "", "sign"))
KINDS = (ReduceKind.MAXNUM, ReduceKind.MINIMUM)  # what may stand in place of a maximum
LOWEST = (-inf, -inf, -3e4)  # what is masked becomes: of a finite one exp makes 0, too
SIDES = (Predicate.GE, Predicate.GE, Predicate.LE, Predicate.LT, Predicate.EQ)
COLUMNS = (1, 3, 16, 40)  # of what a product with weights has


def softmax_like(draft: GraphDraft, x: Value, axes: Sequence[int], choices: Choices) -> None:
    """Sums along some axes of terms `exp(x - max(x))`, and their uses."""
    twist = choices.of(TWISTS)
    lowest = choices.of(LOWEST) if twist != "late" else LOWEST[-1]
    # Of one -inf, most twists make nan of a whole sum.
    if choices.flag(4) if twist not in ("", "late") else not choices.flag(3):
        x = _masked(draft, x, axes[-1], lowest, choices)
    kind = choices.of(KINDS) if twist == "kind" else ReduceKind.MAXIMUM
    maximum = (_elsewhere if twist == "axis" else _along)(draft, kind, x, axes, choices)
    other = draft.leaf(element_type(x.type)) if twist == "other" else x
    difference = draft.put(math.Sub(other, maximum))
    exponent = draft.put(math.Neg(difference)) if twist == "sign" else difference
    terms = draft.put(choices.of((math.Exp, math.Exp, math.Exp2))(exponent))
    divided = terms
    if twist == "late":
        late = _late(draft, x, axes, maximum, choices)
        terms = draft.put(choices.of((math.Div, math.Div, math.Mul))(terms, late))
    if twist == "factor":
        # Also a term itself, or the difference, as in an entropy; or a number, such as 0.
        number = draft.constant(special_number(dtype_of(x), choices), element_type(x.type))
        leaf = draft.leaf(element_type(x.type))
        factor = choices.of((leaf, difference, terms, number, difference))
        terms = draft.put(choices.of((math.Mul, math.Div, math.Mul))(terms, factor))
    total = _along(draft, ReduceKind.SUM, terms, axes, choices)
    divided = terms if choices.flag() else divided
    weights = draft.put(math.Div(divided, total)) if choices.flag() else terms
    makers = (_product, _product, _mean, _logarithm) if len(axes) == 1 else (_mean, _logarithm)
    draft.visible.append(choices.of(makers)(draft, x, axes, (maximum, total, weights), choices))
    if not total.users or choices.flag(3):
        draft.visible.append(choices.of((total, weights, maximum)))


def _late(
    draft: GraphDraft, x: Value, axes: Sequence[int], maximum: Value, choices: Choices
) -> Value:
    """What is known at the end of some axes, and may be 0, as a total of `exp` never is."""
    style = choices.of((0, 1, 1, 2, 3, 4))
    if style == 4:
        return maximum
    if style == 3:
        return _along(draft, ReduceKind.SUM, x, axes, choices)
    if style == 2:
        return draft.put(math.Add(maximum, maximum))
    zero = draft.constant(0.0, element_type(x.type))
    return draft.put((math.Maximum, math.Minimum)[style](maximum, zero))


def _masked(draft: GraphDraft, x: Value, axis: int, least: float, choices: Choices) -> Value:
    """The least in place of some elements, of whole rows, or of all on one side of a place or a
    diagonal, as in causal attention."""
    type_ = element_type(x.type)
    lowest = draft.constant(least, type_)
    style = choices.below(4)
    if style == 3:
        condition = draft.condition(type_, choices)
    elif style == 2:
        condition = _by_row(draft, type_, axis, choices)
    else:
        indices = Tensor(type_.shape, i32)
        other = choices.below(len(type_.shape))
        size = type_.shape[axis]
        some = choices.below(min(size, 256)) * size // min(size, 256)
        first = draft.constant(choices.of((some, some, 0, size)), type_.with_element(i32))
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
    draft: GraphDraft, kind: ReduceKind, x: Value, axes: Sequence[int], choices: Choices
) -> Value:
    """A reduction along some axes, for each element that it is of."""
    return _repeated(draft, draft.put(graph.Reduce(kind, tuple(axes), x)), x, axes)


def _elsewhere(
    draft: GraphDraft, kind: ReduceKind, x: Value, axes: Sequence[int], choices: Choices
) -> Value:
    """A reduction along another axis of the same size, as if it were along this one, which no type
    tells apart; or, if there is none, along more axes or fewer."""
    shape = shape_of(x)
    if len(axes) > 1:
        return _along(draft, kind, x, [choices.of(axes)], choices)
    others = [a for a, size in enumerate(shape) if size == shape[axes[0]] and a != axes[0]]
    if not others:
        return _along(draft, kind, x, range(len(shape)), choices)
    return _repeated(draft, draft.put(graph.Reduce(kind, (choices.of(others),), x)), x, axes)


def _repeated(draft: GraphDraft, reduced: Value, x: Value, axes: Sequence[int]) -> Value:
    shape = shape_of(x)
    kept = tuple([1 if a in axes else n for a, n in enumerate(shape)])
    return spread(draft, draft.put(graph.Reshape(reduced, Tensor(kept, dtype_of(x)))), shape)


Parts = tuple[Value, Value, Value]


def _product(
    draft: GraphDraft, x: Value, axes: Sequence[int], parts: Parts, choices: Choices
) -> Value:
    """The weights times a matrix."""
    shape, (axis,), (_, _, weights) = shape_of(x), axes, parts
    order = (*[a for a in range(len(shape)) if a != axis], axis)
    rows = draft.put(graph.Transpose(order, weights))
    *outer, count = shape_of(rows)
    if not outer:
        rows = draft.put(graph.Reshape(rows, Tensor((1, count), dtype_of(x))))
    batch = outer[:-1]
    values = draft.leaf(Tensor((*batch, count, choices.of(COLUMNS)), dtype_of(x)))
    return draft.put(graph.Matmul(rows, values))


def _mean(
    draft: GraphDraft, x: Value, axes: Sequence[int], parts: Parts, choices: Choices
) -> Value:
    """The mean of other elements by the weights."""
    weighted = draft.put(math.Mul(parts[2], draft.leaf(element_type(x.type))))
    return draft.put(graph.Reduce(ReduceKind.SUM, tuple(axes), weighted))


def _logarithm(
    draft: GraphDraft, x: Value, axes: Sequence[int], parts: Parts, choices: Choices
) -> Value:
    """The logarithm of the sum of `exp(x)`."""
    maximum, total, _ = parts
    return draft.put(math.Add(draft.put(math.Log(total)), maximum))
