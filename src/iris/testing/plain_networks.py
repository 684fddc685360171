"""The functions of `iris.nn` as formulas in NumPy, of arrays of 64 bits."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Axes: TypeAlias = "int | tuple[int, ...]"


def relu(x: Array) -> Array:
    return np.where(x > 0, x, 0)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[float])(x))


def gelu(x: Array, approximate: str | None = None) -> Array:
    if approximate is None:
        return np.asarray(x * (1 + erf(x / math.sqrt(2))) / 2)
    return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def softmax(x: Array, axis: Axes = -1) -> Array:
    return np.asarray(np.exp(x) / np.exp(x).sum(axis, keepdims=True))


def log_softmax(x: Array, axis: Axes = -1) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(axis, keepdims=True)))


def cross_entropy(logits: Array, labels: Array, axis: int = -1) -> Any:
    logs = np.moveaxis(log_softmax(logits, axis), axis, -1)
    if labels.shape == logits.shape:
        return -(logs * np.moveaxis(labels, axis, -1)).sum(-1).mean()
    chosen = [logs[place][labels[place]] for place in np.ndindex(labels.shape)]
    return -np.mean(chosen)


def one_hot(labels: Array, classes: int) -> Array:
    made = np.zeros((*labels.shape, classes))
    for place in np.ndindex(labels.shape):
        if labels[place] < classes:
            made[place][labels[place]] = 1
    return made


def layer_norm(
    x: Array, weight: Any = 1.0, bias: Any = 0.0, *, axis: Axes = -1, eps: float = 1e-5
) -> Array:
    mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + eps) * weight + bias)


def rms_norm(x: Array, weight: Any = 1.0, *, axis: Axes = -1, eps: float = 1e-5) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(axis, keepdims=True) + eps) * weight)


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """One query at a time."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    made = np.zeros((*q.shape[:-1], v.shape[-1]))
    for place in np.ndindex(q.shape[:-1]):
        *outer, query = place
        if outer:  # the head of keys that it shares with its neighbours
            outer[-1] = outer[-1] * k.shape[-3] // q.shape[-3]
        scores = k[tuple(outer)] @ q[place] * scale
        if causal:  # it sees as many keys less than all as queries follow it
            scores[max(0, k.shape[-2] - (q.shape[-2] - 1 - query)) :] = -np.inf
        if mask is not None:
            given = mask[query]
            scores = np.where(given, scores, -np.inf) if mask.dtype == bool else scores + given
        terms = np.exp(scores)
        with np.errstate(invalid="ignore"):  # one that sees no key
            made[place] = terms / terms.sum() @ v[tuple(outer)]
    return made


def conv2d(
    x: Array,
    w: Array,
    bias: Any = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """One element of the result at a time, of an image that zeros surround without end."""
    strides, steps = _pair(stride), _pair(dilation)
    reach = [step * (n - 1) + 1 for n, step in zip(w.shape[2:], steps, strict=True)]
    if padding == "same":  # a result for each stride that begins within the image
        counts = [math.ceil(n / by) for n, by in zip(x.shape[2:], strides, strict=True)]
        taken = [(n - 1) * by + r for n, by, r in zip(counts, strides, reach, strict=True)]
        lows = [max(0, whole - n) // 2 for whole, n in zip(taken, x.shape[2:], strict=True)]
    else:
        pairs = [_pair(p) for p in _pair(0 if padding == "valid" else padding)]
        lows = [low for low, _ in pairs]
        sizes = [n + sum(p) for n, p in zip(x.shape[2:], pairs, strict=True)]
        fits = zip(sizes, reach, strides, strict=True)
        counts = [max(0, (n - r) // by + 1) for n, r, by in fits]
    made = np.zeros((len(x), len(w), *counts))
    each = len(w) // groups
    for image, o, i, j, channel, r, c in np.ndindex(*made.shape, *w.shape[1:]):
        row, column = (
            at * by + step * inner - low
            for at, by, step, inner, low in zip((i, j), strides, steps, (r, c), lows, strict=True)
        )
        if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
            seen = x[image, o // each * w.shape[1] + channel, row, column]
            made[image, o, i, j] += seen * w[o, channel, r, c]
    return made if bias is None else made + bias[:, None, None]


def _pair(given: Any) -> tuple[Any, Any]:
    """One number for both, or two."""
    first, second = given if isinstance(given, tuple) else (given, given)
    return first, second
