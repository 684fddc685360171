"""NumPy's products of matrices and the like, all of them contractions: axes have labels, and those
that two arrays share and the result has not are summed over."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any

from iris.errors import ArgumentError, ShapeError
from iris.frontend.arrays.array_elementwise import binary, truth
from iris.frontend.arrays.array_values import (
    asked_dtype,
    cast,
    common_dtype,
    emit,
    in_dtype,
    over_shape,
    reshaped,
    strong,
    traced,
)
from iris.frontend.arrays.protocol import implements, ufunc
from iris.frontend.arrays.shapes import (
    as_axes,
    flat,
    transpose,
    with_axes,
)
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.frontend.values import broadcast_shapes
from iris.ir import graph, math
from iris.ir.graph import accumulated
from iris.ir.kinds import ReduceKind
from iris.ir.types import DType, bool_, i32

Label = Hashable
Labels = Sequence[Label]


def multiplicands(*arrays: Any, dtype: Any = None) -> tuple[list[TracedArray], DType]:
    """Arrays in one dtype, to be multiplied and summed, and the dtype of the result; of narrow
    integers it is wider, see `finished`."""
    given = [strong(x) for x in arrays]
    common = common_dtype(given) if dtype is None else asked_dtype(dtype, given)
    # Bools are counted.
    return [in_dtype(x, i32 if common is bool_ else common) for x in given], common


def finished(x: TracedArray, common: DType) -> TracedArray:
    """A sum of products in the dtype that the user gets: floats as they came, integers of at least
    32 bits, of bools whether there is any."""
    if common is bool_:
        return truth(x)
    return cast(x, common) if common.is_float else x


def contract(
    a: TracedArray, a_labels: Labels, b: TracedArray, b_labels: Labels, out: Labels
) -> TracedArray:
    """The products of the elements of two arrays of one dtype, summed over the labels that are not
    in the result: a product of matrices where each has axes of its own, and else elementwise."""
    a, a_labels = _summed_alone(a, a_labels, b_labels, out)
    b, b_labels = _summed_alone(b, b_labels, a_labels, out)
    if a.element is not b.element:
        wide = common_dtype([a, b])
        a, b = cast(a, wide), cast(b, wide)
    summed = [x for x in a_labels if x in b_labels and x not in out]
    left = _together([x for x in a_labels if x not in b_labels], a_labels, a.shape)
    right = _together([x for x in b_labels if x not in a_labels], b_labels, b.shape)
    if not (summed and left and right):
        return _elementwise(a, a_labels, b, b_labels, summed, out)
    batch = [x for x in out if x not in left and x not in right]
    if next(x for x in out if x in left or x in right) in right:
        a, a_labels, left, b, b_labels, right = b, b_labels, right, a, a_labels, left
    sizes = dict(zip(a_labels, a.shape, strict=True)) | dict(zip(b_labels, b.shape, strict=True))
    outer = tuple([sizes[x] for x in batch])
    rows, inner, columns = (prod([sizes[x] for x in group]) for group in (left, summed, right))
    lhs = _aligned(a, a_labels, [*batch, *left, *summed], len(batch))
    rhs = _aligned(b, b_labels, [*batch, *summed, *right], len(batch))
    lhs = over_shape(reshaped(lhs, (*lhs.shape[: len(batch)], rows, inner)), (*outer, rows, inner))
    rhs = over_shape(
        reshaped(rhs, (*rhs.shape[: len(batch)], inner, columns)), (*outer, inner, columns)
    )
    product = emit(graph.Matmul(lhs.value, rhs.value))
    known = [*batch, *left, *right]
    product = reshaped(product, tuple([sizes[x] for x in known]))
    return transpose(product, [known.index(x) for x in out])


def _summed_alone(
    x: TracedArray, labels: Labels, others: Labels, out: Labels
) -> tuple[TracedArray, list[Label]]:
    """With what only one array has, and the result has not, summed over."""
    axes = [i for i, label in enumerate(labels) if label not in others and label not in out]
    if axes:
        x = emit(graph.Reduce(ReduceKind.SUM, tuple(axes), cast(x, accumulated(x.element)).value))
    return x, [label for i, label in enumerate(labels) if i not in axes]


def _together(own: Labels, labels: Labels, shape: Sequence[int]) -> list[Label]:
    """Of the labels that one array has alone, those that make one axis of a matrix: the longest
    run of neighbours.  Over the others the other array is spread."""
    runs: list[list[Label]] = []
    for before, label in zip([None, *labels], labels, strict=False):
        if label in own:
            if runs and runs[-1][-1] == before:
                runs[-1].append(label)
            else:
                runs.append([label])
    sizes = dict(zip(labels, shape, strict=True))
    best: list[Label] = []
    for run in runs:
        if not best or prod([sizes[x] for x in run]) >= prod([sizes[x] for x in best]):
            best = run
    return best


def _aligned(x: TracedArray, labels: Labels, wanted: Labels, batch: int) -> TracedArray:
    """Axes in a wanted order; those of the first few that an array lacks get the size 1."""
    ordered = transpose(x, [labels.index(label) for label in wanted if label in labels])
    return with_axes(ordered, [i for i in range(batch) if wanted[i] not in labels])


def _elementwise(
    a: TracedArray,
    a_labels: Labels,
    b: TracedArray,
    b_labels: Labels,
    summed: Labels,
    out: Labels,
) -> TracedArray:
    wanted = [*out, *summed]
    if summed:
        a, b = cast(a, accumulated(a.element)), cast(b, accumulated(b.element))
    lhs = _aligned(a, a_labels, wanted, len(wanted))
    rhs = _aligned(b, b_labels, wanted, len(wanted))
    product = binary(math.Mul, lhs, rhs)
    if not summed:
        return product
    axes = range(len(out), len(wanted))
    return emit(graph.Reduce(ReduceKind.SUM, tuple(axes), product.value))


# Matrices.


@ufunc("matmul")
def matmul(x1: Any, x2: Any, dtype: Any = None) -> TracedArray:
    (a, b), common = multiplicands(x1, x2, dtype=dtype)
    found = finished(wide_product(a, b), common)
    return found if dtype is None else cast(found, common)


def wide_product(a: TracedArray, b: TracedArray) -> TracedArray:
    """The product of matrices of one dtype, in the dtype in which it is summed."""
    for x in (a, b):
        if not x.ndim:
            raise error_here(ShapeError, f"@ multiplies matrices and vectors, not {x}; write *")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise error_here(ShapeError, f"{a} and {b} do not multiply: their inner sizes differ")
    if a.ndim == 1 or b.ndim == 1:
        inner = "inner"
        a_labels: list[Label] = [*range(a.ndim - 1), inner]
        b_labels: list[Label] = list(range(-b.ndim, 0))
        b_labels[-2 if b.ndim > 1 else 0] = inner
        out = [x for x in (*a_labels, *b_labels) if x != inner]
        return contract(a, a_labels, b, b_labels, out)
    if b.ndim == 2:
        # One matrix for all is for all rows together.
        rows = reshaped(a, (prod(a.shape[:-1]), a.shape[-1]))
        product = emit(graph.Matmul(rows.value, b.value))
        return reshaped(product, (*a.shape[:-1], b.shape[-1]))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = over_shape(a, (*batch, *a.shape[-2:])), over_shape(b, (*batch, *b.shape[-2:]))
    return emit(graph.Matmul(a.value, b.value))


implements("linalg.matmul")(matmul)


@implements("dot")
def dot(a: Any, b: Any, out: None = None) -> TracedArray:
    x, y = traced(strong(a)), traced(strong(b))
    if not x.ndim or not y.ndim:
        return binary(math.Mul, x, y)
    return tensordot(x, y, ([-1], [-2 if y.ndim > 1 else 0]))


@implements("inner")
def inner(a: Any, b: Any) -> TracedArray:
    x, y = traced(strong(a)), traced(strong(b))
    if not x.ndim or not y.ndim:
        return binary(math.Mul, x, y)
    return tensordot(x, y, ([-1], [-1]))


@implements("vdot")
def vdot(a: Any, b: Any) -> TracedArray:
    return tensordot(flat(traced(a)), flat(traced(b)), 1)


@implements("outer", "linalg.outer")
def outer(a: Any, b: Any, out: None = None) -> TracedArray:
    return tensordot(flat(traced(a)), flat(traced(b)), 0)


@implements("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> TracedArray:
    (x, y), common = multiplicands(a, b)
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise error_here(ShapeError, f"{x} and {y} do not have {axes} axes to sum over")
        pairs: Any = (range(x.ndim - axes, x.ndim), range(axes))
    else:
        pairs = axes
    try:
        first, second = pairs
    except (TypeError, ValueError):
        raise error_here(ArgumentError, "the axes of tensordot are an int or two lists") from None
    one, other = as_axes(_listed(first), x.ndim), as_axes(_listed(second), y.ndim)
    if len(one) != len(other):
        raise error_here(ShapeError, f"{len(one)} axes do not go with {len(other)}")
    for i, j in zip(one, other, strict=True):
        if x.shape[i] != y.shape[j]:
            raise error_here(ShapeError, f"axis {i} of {x} and axis {j} of {y} differ in size")
    x_labels: list[Label] = list(range(x.ndim))
    y_labels: list[Label] = list(range(x.ndim, x.ndim + y.ndim))
    for i, j in zip(one, other, strict=True):
        y_labels[j] = x_labels[i]
    out = [n for n in x_labels if n not in y_labels] + [n for n in y_labels if n not in x_labels]
    return finished(contract(x, x_labels, y, y_labels, out), common)


def _listed(axes: Any) -> tuple[Any, ...]:
    return tuple(axes) if isinstance(axes, (tuple, list, range)) else (axes,)


@implements("kron")
def kron(a: Any, b: Any) -> TracedArray:
    x, y = traced(a), traced(b)
    rank = x.ndim + y.ndim - min(x.ndim, y.ndim)
    x = with_axes(x, range(rank - x.ndim))
    y = with_axes(y, range(rank - y.ndim))
    product = binary(
        math.Mul,
        with_axes(x, range(1, 2 * rank, 2)),
        with_axes(y, range(0, 2 * rank, 2)),
    )
    return reshaped(product, tuple([n * m for n, m in zip(x.shape, y.shape, strict=True)]))
