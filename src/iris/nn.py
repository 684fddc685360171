"""Neural-network functions, on traced arrays and on NumPy arrays.

Functions with exponentials or sums compute f16 and bf16 in f32, and round the result once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iris.errors import ArgumentError, ShapeError
from iris.frontend.arrays import TracedArray, as_traced_constant
from iris.frontend.arrays.array_elementwise import unary
from iris.frontend.arrays.array_products import wide_product
from iris.frontend.arrays.convolution import ConvolutionWindow, convolution, traced_convolution
from iris.frontend.arrays.dtypes import as_dtype, numpy_dtype
from iris.frontend.tracing import error_here
from iris.ir import math, scalar
from iris.ir.types import bf16, bool_, f16

__all__ = [
    "attention",
    "conv2d",
    "cross_entropy",
    "erf",
    "gelu",
    "layer_norm",
    "log_softmax",
    "one_hot",
    "relu",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
]


def _wide(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Convert 16-bit floats to f32; return a function that converts a result back."""
    (value,) = _arrays(x)
    dtype = _dtype(value)
    if dtype not in (f16, bf16, *_SHORT):
        return value, lambda made: made
    return value.astype(np.float32), lambda made: made.astype(dtype)


_SHORT = ("float16", "bfloat16")  # NumPy's dtypes are equal to their names


def _arrays(*given: Any) -> list[Any]:
    """Convert arguments to arrays: to traced arrays, if one of them is traced."""
    if any(isinstance(x, TracedArray) for x in given):
        return [as_traced_constant(x) for x in given]
    return [np.asarray(x) for x in given]


def _dtype(x: Any) -> Any:
    """The dtype, as `astype` takes it. NumPy may not know bf16."""
    return x.element if isinstance(x, TracedArray) else x.dtype


def _math(kind: type[math.FloatUnary], x: Any) -> Any:
    """Apply an op that NumPy does not have; on NumPy arrays, compute it in f64."""
    if isinstance(x, TracedArray):
        return unary(kind, x)
    value = np.asarray(x)
    wide = scalar.in_float64(kind, value)
    return wide.astype(value.dtype if value.dtype.kind not in "biu" else np.float64)


# Activations.


def relu(x: Any) -> Any:
    """`maximum(x, 0)`."""
    return np.maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`."""
    return _math(math.Sigmoid, x)


def silu(x: Any) -> Any:
    """`x * sigmoid(x)`."""
    value, back = _wide(x)
    return back(value * sigmoid(value))


def erf(x: Any) -> Any:
    """The error function."""
    return _math(math.Erf, x)


def gelu(x: Any, approximate: str | None = None) -> Any:
    """x times the normal cumulative distribution at x; `approximate="tanh"` approximates it."""
    value, back = _wide(x)
    if approximate is None:
        share = 1.0 + erf(value * 2**-0.5)
    elif approximate == "tanh":
        cubed = value * value * value
        share = 1.0 + np.tanh((value + cubed * 0.044715) * (2 / np.pi) ** 0.5)
    else:
        raise error_here(ArgumentError, f'approximate is None or "tanh", not {approximate!r}')
    return back(value * 0.5 * share)


# Distributions.


def softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Any:
    """`exp(x) / sum(exp(x))` along an axis."""
    value, back = _wide(x)
    grown = np.exp(value - np.max(value, axis=axis, keepdims=True))
    return back(grown / np.sum(grown, axis=axis, keepdims=True))


def log_softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Any:
    """`log(softmax(x))` along an axis. It is finite where softmax underflows to 0."""
    value, back = _wide(x)
    return back(_log_softmax(value, axis))


def _log_softmax(value: Any, axis: int | tuple[int, ...]) -> Any:
    less = value - np.max(value, axis=axis, keepdims=True)
    return less - np.log(np.sum(np.exp(less), axis=axis, keepdims=True))


def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """The mean of `-log_softmax(logits)` at the labels.

    Labels are class indices, or probabilities of the shape of the logits.
    """
    value, back = _wide(logits)
    (told,) = _arrays(labels)
    logs = _log_softmax(value, axis)
    if told.shape == value.shape:
        return back(-np.mean(np.sum(logs * told, axis=axis)))
    places = np.expand_dims(told, axis)
    if tuple(np.delete(value.shape, axis)) != told.shape:
        raise error_here(
            ShapeError,
            f"labels of the shape {told.shape} do not go with logits of the shape {value.shape}",
        )
    return back(-np.mean(np.take_along_axis(logs, places, axis)))


def one_hot(labels: Any, classes: int, dtype: Any = np.float32) -> Any:
    """1 at the index of each label along a new last axis, and 0 elsewhere."""
    found = np.equal(np.expand_dims(labels, -1), np.arange(classes))
    element = as_dtype(dtype)
    return found.astype(element if isinstance(found, TracedArray) else numpy_dtype(element))


# Norms.


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    axis: int | tuple[int, ...] = -1,
    eps: float = 1e-5,
) -> Any:
    """`(x - mean) / sqrt(variance + eps) * weight + bias`, along an axis."""
    value, back = _wide(x)
    centred = value - np.mean(value, axis=axis, keepdims=True)
    return back(_scaled(centred, weight, bias, axis, eps))


def rms_norm(
    x: Any, weight: Any = None, *, axis: int | tuple[int, ...] = -1, eps: float = 1e-5
) -> Any:
    """`x / sqrt(mean(x * x) + eps) * weight`, along an axis."""
    value, back = _wide(x)
    return back(_scaled(value, weight, None, axis, eps))


def _scaled(value: Any, weight: Any, bias: Any, axis: int | tuple[int, ...], eps: float) -> Any:
    squares = np.mean(value * value, axis=axis, keepdims=True)
    found = value * _math(math.Rsqrt, squares + eps)
    if weight is not None:
        found = found * weight
    return found if bias is None else found + bias


# Attention.


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """Scaled dot-product attention: `softmax(q @ k.T * scale) @ v`.

    The last two axes are positions and features. The axis before them is the heads: several heads
    of queries may share one of keys and values. Other axes are batches. `scale` is 1 over the root
    of the number of features by default.

    A mask of bools is true where a query sees a key; other masks are added to the scores. With
    `causal`, the last query sees all keys, and each query before it one key less. A query that
    sees no key gives nan.
    """
    q, k, v = _arrays(q, k, v)
    for x in (q, k, v):
        if x.ndim < 2:
            raise error_here(ShapeError, f"queries, keys and values have two axes or more, not {x}")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise error_here(
            ShapeError, f"queries {q.shape}, keys {k.shape} and values {v.shape} do not go together"
        )
    k, v = _for_heads(k, q), _for_heads(v, q)
    scores = _product(q, np.swapaxes(k, -1, -2))
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        queries, keys = q.shape[-2], k.shape[-2]
        last = np.arange(keys - queries, keys, dtype=np.int32, like=q)
        seen = np.arange(keys, dtype=np.int32, like=q) <= np.expand_dims(last, -1)
        scores = np.where(seen, scores, -np.inf)
    if mask is not None:
        (given,) = _arrays(mask)
        chooses = _dtype(given) in (bool_, np.bool_)
        scores = np.where(given, scores, -np.inf) if chooses else scores + given
    return _product(softmax(scores).astype(_dtype(v)), v).astype(_dtype(q))


def _product(a: Any, b: Any) -> Any:
    """The matrix product; that of 16-bit floats is in f32."""
    if isinstance(a, TracedArray):
        return wide_product(a, b)
    return np.matmul(_wide(a)[0], _wide(b)[0])


def _for_heads(x: Any, q: Any) -> Any:
    """Repeat each head of keys or values for the heads of queries that share it."""
    if x.ndim < 3 or q.ndim < 3 or x.shape[-3] in (1, q.shape[-3]) or q.shape[-3] % x.shape[-3]:
        return x
    return np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3)


# Convolution.


def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | str | tuple[Any, Any] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Any:
    """Convolve images (batch, channel, row, column) with filters.

    The axes of the filters are output channel, input channel of the group, row and column.

    `padding` is the number of zeros around an image: one number, one for rows and one for columns,
    a (before, after) pair for each, "valid" for none, or "same" to keep the size at stride 1.
    """
    images, filters = _arrays(x, w)
    window = ConvolutionWindow.of(images.shape, filters.shape, stride, padding, dilation, groups)
    made = (traced_convolution if isinstance(images, TracedArray) else convolution)(
        images, filters, window
    )
    return made if bias is None else made + np.reshape(bias, (-1, 1, 1))
