"""What each op of Graph IR means, by NumPy's own functions, which the interpreter has no part in.

    evaluate(op, x, y)

Floats are computed with in float64 and rounded once to the dtype of the result; integers wrap in
their own dtype.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import graph, math
from iris.ir.core import Facet, Op
from iris.ir.facts import numpy_of
from iris.ir.graph import ScatterKind
from iris.ir.kinds import ReduceKind
from iris.ir.math import Predicate, element_type
from iris.ir.scalar import from_bits, round_to, storage, to_bits
from iris.ir.types import Kind, f32

Array = npt.NDArray[Any]

# `function(op, *operands)`, of floats in float64, gives the result before it is rounded.
numpy_function = Facet("NumPy function")


def evaluate(op: Op, *operands: Array) -> Array:
    """The result of an op."""
    dtype, wide = element_type(op.results[0].type).element, unrounded(op, *operands)
    if dtype.is_float:
        return round_to(dtype, wide)
    return np.asarray(wide, storage(dtype))


def unrounded(op: Op, *operands: Array) -> Array:
    """The result of an op, of floats in float64."""
    if isinstance(op, math.Bitcast):  # of the bits, which float64 has not
        return _seen_as(op, operands[0])
    with np.errstate(all="ignore"):
        return np.asarray(numpy_function[type(op)](op, *[_wide(x) for x in operands]))


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _seen_as(op: math.Bitcast, x: Array) -> Array:
    before, after = (element_type(v.type).element for v in (op.x, op.result))
    return from_bits(after, np.asarray(to_bits(before, x)))


def _shape(op: Op) -> tuple[int, ...]:
    return element_type(op.results[0].type).shape


# Element by element.


def _elementwise(*ufuncs: tuple[type[Op], Callable[..., Array]]) -> None:
    for cls, function in ufuncs:
        numpy_function(cls)(lambda op, *operands, function=function: function(*operands))


def _power(x: Array, y: Array) -> Array:
    """`np.power`, given the exponents as an array of one axis: for a single exponent of 0.5 NumPy
    takes the square root, which is no power of -0.0 and -inf."""
    x, y = np.broadcast_arrays(x, y)
    return np.power(x.reshape(-1), y.flatten()).reshape(x.shape)


def _greater(x: Array, y: Array, ufunc: np.ufunc = np.maximum) -> Array:
    """The greater one; of two zeros, +0 if one is, which their sum is, too."""
    return np.where((x == 0) & (y == 0), x + y if x.dtype.kind == "f" else x, ufunc(x, y))


def _less(x: Array, y: Array, ufunc: np.ufunc = np.minimum) -> Array:
    """The lesser one; of two zeros, -0 if one is."""
    return np.where((x == 0) & (y == 0), -(-x - y) if x.dtype.kind == "f" else x, ufunc(x, y))


@numpy_function(math.Transcendental)
def function(op: Op, *operands: Array) -> Array:
    """The function in the facts of an op that is declared elsewhere.  The ops of Iris are listed
    below once more: the oracle does not share the table that it judges."""
    return np.asarray(numpy_of(type(op))(*operands))


_elementwise(
    (math.Neg, np.negative),
    (math.Abs, np.absolute),
    (math.Not, np.invert),
    (math.Exp, np.exp),
    (math.Exp2, np.exp2),
    (math.Log, np.log),
    (math.Log2, np.log2),
    (math.Sqrt, np.sqrt),
    (math.Rsqrt, lambda x: np.reciprocal(np.sqrt(x))),
    (math.Sin, np.sin),
    (math.Cos, np.cos),
    (math.Tanh, np.tanh),
    (math.Erf, np.vectorize(python_math.erf, otypes=[np.float64])),
    (math.Sigmoid, lambda x: np.reciprocal(1 + np.exp(-x))),
    (math.Floor, np.floor),
    (math.Ceil, np.ceil),
    (math.Round, np.round),
    (math.Add, np.add),
    (math.Sub, np.subtract),
    (math.Mul, np.multiply),
    (math.Div, np.divide),
    (math.FloorDiv, np.floor_divide),
    (math.Mod, np.mod),
    (math.Pow, _power),
    (math.Maximum, _greater),
    (math.Minimum, _less),
    (math.MaxNum, lambda x, y: _greater(x, y, np.fmax)),
    (math.MinNum, lambda x, y: _less(x, y, np.fmin)),
    (math.And, np.bitwise_and),
    (math.Or, np.bitwise_or),
    (math.Xor, np.bitwise_xor),
    (math.Shl, np.left_shift),
    (math.Shr, np.right_shift),
    (math.AssumeDivisible, np.copy),
    (math.Fma, lambda x, y, z: np.add(np.multiply(x, y), z)),
    (math.Select, np.where),
)


_COMPARED: dict[Predicate, np.ufunc] = {
    Predicate.EQ: np.equal,
    Predicate.NE: np.not_equal,
    Predicate.LT: np.less,
    Predicate.LE: np.less_equal,
    Predicate.GT: np.greater,
    Predicate.GE: np.greater_equal,
}


@numpy_function(math.Compare)
def compare(op: math.Compare, x: Array, y: Array) -> Array:
    return np.asarray(_COMPARED[op.predicate](x, y))


@numpy_function(math.Cast)
def cast(op: math.Cast, x: Array) -> Array:
    dtype = element_type(op.result.type).element
    if dtype.kind is Kind.BOOL:
        return np.not_equal(x, 0)
    # An integer of 64 bits, of which float64 has not all, is rounded to f32 at once.
    wide = np.dtype(np.float32 if dtype is f32 and x.dtype.kind != "f" else np.float64)
    return x.astype(wide if dtype.is_float else storage(dtype))


@numpy_function(math.Constant)
def constant(op: math.Constant) -> Array:
    return np.full(_shape(op), _wide(from_bits(op.dtype, np.array(op.bits, np.uint64))))


# The same elements elsewhere.


@numpy_function(graph.Iota)
def iota(op: graph.Iota) -> Array:
    return np.asarray(np.indices(_shape(op))[op.axis])


@numpy_function(graph.Broadcast)
def broadcast(op: graph.Broadcast, x: Array) -> Array:
    return np.broadcast_to(x, _shape(op))


@numpy_function(graph.Reshape)
def reshape(op: graph.Reshape, x: Array) -> Array:
    return np.reshape(x, _shape(op))


@numpy_function(graph.Transpose)
def transpose(op: graph.Transpose, x: Array) -> Array:
    return np.transpose(x, op.permutation)


@numpy_function(graph.Slice)
def cut(op: graph.Slice, x: Array) -> Array:
    along = zip(op.starts, op.steps, _shape(op), strict=True)
    for axis, (start, step, size) in enumerate(along):
        x = np.take(x, start + step * np.arange(size), axis)
    return x


@numpy_function(graph.Pad)
def pad(op: graph.Pad, x: Array, value: Array) -> Array:
    sizes = zip(op.low, x.shape, _shape(op), strict=True)
    widths = [(n, whole - size - n) for n, size, whole in sizes]
    return np.pad(x, widths, constant_values=value) if widths else x


@numpy_function(graph.Concat)
def concat(op: graph.Concat, *values: Array) -> Array:
    return np.concatenate(values, op.axis)


@numpy_function(graph.Gather)
def gather(op: graph.Gather, x: Array, *indices: Array) -> Array:
    return np.take(_rows(op.axes, x), _row(op.axes, x, indices), 0)


@numpy_function(graph.Scatter)
def scatter(op: graph.Scatter, x: Array, updates: Array, *indices: Array) -> Array:
    rows, row = _rows(op.axes, x).copy(), _row(op.axes, x, indices)
    if op.kind is ScatterKind.ADD:
        np.add.at(rows, row, updates)
    else:
        rows[row] = updates
    left = [axis for axis in range(x.ndim) if axis not in op.axes]
    order = [*op.axes, *left]
    return np.transpose(rows.reshape([x.shape[axis] for axis in order]), np.argsort(order))


def _rows(axes: tuple[int, ...], x: Array) -> Array:
    """An array of which the first axis is all of some axes, and the others follow."""
    left = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [int(np.prod([x.shape[axis] for axis in axes])), *[x.shape[axis] for axis in left]]
    return np.transpose(x, [*axes, *left]).reshape(shape)


def _row(axes: tuple[int, ...], x: Array, indices: tuple[Array, ...]) -> Array:
    found = np.zeros(indices[0].shape, np.int64)
    for axis, index in zip(axes, indices, strict=True):
        found = found * x.shape[axis] + index
    return found


# What combines elements.


_UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maxnum": np.fmax,
    "minnum": np.fmin,
    "any": np.logical_or,
    "all": np.logical_and,
}


@numpy_function(graph.Reduce)
def reduce(op: graph.Reduce, x: Array) -> Array:
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        (axis,) = op.axes
        return np.asarray(
            np.argmax(x, axis) if op.kind is ReduceKind.ARGMAX else np.argmin(x, axis)
        )
    if op.kind is ReduceKind.SUM:  # of nothing 0, of nothing but -0 that
        return np.sum(x, op.axes, dtype=x.dtype, initial=x.dtype.type(-0.0 if x.size else 0))
    return _combined(op.kind.value, x, lambda ufunc, y: ufunc.reduce(y, axis=op.axes))


@numpy_function(graph.Scan)
def scan(op: graph.Scan, x: Array) -> Array:
    return _combined(op.kind.value, x, lambda ufunc, y: ufunc.accumulate(y, axis=op.axis))


def _combined(kind: str, x: Array, along: Callable[[np.ufunc, Array], Array]) -> Array:
    ufunc = _UFUNCS[kind]
    found = along(ufunc, x)
    if x.dtype.kind != "f" or kind in ("sum", "prod"):
        return found
    # Of zeros NumPy takes either; -0 is less than +0.
    is_least = ufunc in (np.minimum, np.fmin)
    decides = along(np.logical_or, (x == 0) & (np.signbit(x) == is_least))
    return np.where(found == 0, np.where(decides == is_least, -0.0, 0.0), found)


@numpy_function(graph.Matmul)
def matmul(op: graph.Matmul, a: Array, b: Array) -> Array:
    wide = _accumulator(op)
    return np.asarray(np.matmul(a.astype(wide), b.astype(wide)))


@numpy_function(graph.Conv2d)
def conv2d(op: graph.Conv2d, x: Array, w: Array) -> Array:
    wide = _accumulator(op)
    seen, filters = windows(op, x.astype(wide)), grouped_filters(op, w.astype(wide))
    return np.reshape(np.einsum("nghwcij,gmcij->ngmhw", seen, filters), _shape(op))


def windows(op: graph.Conv2d, x: Array) -> Array:
    """What filters see: image, group, row, column, channel, row and column in the window."""
    above, below, left, right = op.padding
    padded = np.pad(x, ((0, 0), (0, 0), (above, below), (left, right)))
    along = zip(
        _shape(op)[2:], op.strides, element_type(op.w.type).shape[2:], op.dilation, strict=True
    )
    rows, columns = (
        step * np.arange(size)[:, None] + apart * np.arange(window)
        for size, step, window, apart in along
    )
    seen = np.take(np.take(padded, columns, 3), rows, 2)
    channels = padded.shape[1] // op.groups
    grouped = seen.reshape((len(x), op.groups, channels, *seen.shape[2:]))
    return np.transpose(grouped, (0, 1, 3, 5, 2, 4, 6))


def grouped_filters(op: graph.Conv2d, w: Array) -> Array:
    return w.reshape((op.groups, len(w) // op.groups, *w.shape[1:]))


def _accumulator(op: graph.Matmul | graph.Conv2d) -> np.dtype[Any]:
    dtype = element_type(op.result.type).element
    return np.dtype(np.float64) if dtype.is_float else storage(dtype)
