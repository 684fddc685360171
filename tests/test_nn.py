"""The functions of neural networks against formulas in 64 bits, one element at a time where that is
plainer; traced, and on NumPy's own arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris import nn
from iris.errors import ArgumentError, ShapeError, UserError
from tracing_arrays import FLOATS, agrees, compute, numbers, reals, same, trace, widened

Array = npt.NDArray[Any]
F32 = np.dtype(np.float32)
SHAPES = ((7,), (3, 5), (2, 3, 4), (1, 9), (2, 17))


def both(
    function: Any, oracle: Any, *arguments: Any, near: float, dtype: Any = None, **named: Any
) -> None:
    """A function gives what a formula does: traced, and on NumPy's arrays of 64 bits, where it is
    right to more than 12 digits."""
    agrees(
        lambda *x: function(*x, **named), *arguments, near=near, dtype=dtype, oracle=oracle, ulps=1
    )
    wide = [widened(x) for x in arguments]
    found, expected = function(*wide, **named), np.asarray(oracle(*wide))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.shape(found) == expected.shape


erf = np.vectorize(math.erf, otypes=[float])
sigmoid = np.vectorize(
    lambda x: 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x), otypes=[float]
)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activations(shape: tuple[int, ...], dtype: Any) -> None:
    x = reals(shape, dtype) * dtype.type(3)
    both(nn.relu, lambda x: np.where(x > 0, x, 0), x, near=0, dtype=dtype)
    both(nn.sigmoid, sigmoid, x, near=0, dtype=dtype)
    both(nn.silu, lambda x: x * sigmoid(x), x, near=1e-7, dtype=dtype)
    both(nn.erf, erf, x, near=0, dtype=dtype)
    both(nn.gelu, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, x, near=2e-7, dtype=dtype)
    both(
        nn.gelu,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        x,
        near=2e-7,
        dtype=dtype,
        approximate="tanh",
    )


def test_activations_of_the_extremes() -> None:
    x = np.array([float("nan"), float("inf"), float("-inf"), 0, -0.0, 100, -100], np.float32)
    for function in (nn.relu, nn.sigmoid, nn.erf):
        agrees(function, x, ulps=1)
    agrees(nn.silu, x[3:], near=1e-7)
    agrees(nn.gelu, x[3:], near=1e-7)


def softmax(x: Array, axis: Any) -> Array:
    grown = np.exp(x)
    return np.asarray(grown / grown.sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_distributions(shape: tuple[int, ...], dtype: Any) -> None:
    x = reals(shape, dtype)
    for axis in (-1, 0, tuple(range(len(shape)))):
        both(nn.softmax, lambda x, a=axis: softmax(x, a), x, near=2e-7, dtype=dtype, axis=axis)
        both(
            nn.log_softmax,
            lambda x, a=axis: np.log(softmax(x, a)),
            x,
            near=4e-7,
            dtype=dtype,
            axis=axis,
        )


def test_distributions_where_exponentials_overflow() -> None:
    x = np.array([[1000, 1001, 999], [-1000, -999, 5], [0, float("-inf"), 1]], np.float32)
    shifted = lambda x: x - x.max(axis=-1, keepdims=True)  # noqa: E731
    agrees(nn.softmax, x, near=2e-7, oracle=lambda x: softmax(shifted(x), -1))
    logs = compute(nn.log_softmax, x)
    assert np.isfinite(logs[:2]).all() and logs[2, 1] == -np.inf
    np.testing.assert_allclose(logs[0], np.log(softmax(shifted(x[0].astype(float)), -1)), 1e-6)


def cross_entropy(x: Array, labels: Array) -> Any:
    """One example at a time, its classes along the last axis."""
    losses = []
    for row, label in zip(x.reshape(-1, x.shape[-1]), labels.reshape(-1), strict=True):
        losses.append(math.log(sum(math.exp(v) for v in row)) - row[label])
    return np.mean(losses)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cross_entropy(dtype: Any) -> None:
    x = reals((3, 4, 5), dtype)
    labels = (np.arange(12) * 7 % 5).astype(np.int32).reshape(3, 4)
    both(nn.cross_entropy, cross_entropy, x, labels, near=1e-6, dtype=dtype)
    wide = labels.astype(np.int64)
    both(nn.cross_entropy, cross_entropy, x, wide, near=1e-6, dtype=dtype)
    turned = np.ascontiguousarray(np.swapaxes(x, 1, 2))
    both(
        lambda x, labels: nn.cross_entropy(x, labels, axis=1),
        lambda x, labels: cross_entropy(np.swapaxes(x, 1, 2), labels),
        turned,
        labels,
        near=1e-6,
    )
    same(
        compute(lambda x: nn.cross_entropy(x, labels), x),
        cross_entropy(widened(x), labels),
        near=1e-6,
        ulps=1,
    )


def test_cross_entropy_of_shares() -> None:
    x, shares = reals((4, 5)), softmax(reals((4, 5), seed=1).astype(float), -1).astype(F32)
    both(
        nn.cross_entropy,
        lambda x, p: -np.mean(np.sum(p * np.log(softmax(x, -1)), axis=-1)),
        x,
        shares,
        near=1e-6,
    )


def test_one_hot() -> None:
    labels = np.array([[0, 3], [2, 2]], np.int32)
    expected = np.eye(4)[labels]
    agrees(lambda i: nn.one_hot(i, 4), labels, dtype=np.float32, oracle=lambda i: expected)
    found = compute(lambda i: nn.one_hot(i, 4, "bf16"), labels)
    same(found, expected)
    np.testing.assert_array_equal(nn.one_hot(labels, 4, np.int32), expected)
    # A label that is no class is nowhere.
    same(compute(lambda i: nn.one_hot(i, 2), labels), np.eye(4)[labels][..., :2])


def layer_norm(x: Array, axis: Any, eps: float) -> Array:
    centred = x - x.mean(axis=axis, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + eps))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (2, 17)], ids=str)
def test_norms(shape: tuple[int, ...], dtype: Any) -> None:
    x = reals(shape, dtype) + dtype.type(5)
    w, b = reals(shape[-1:], dtype, 1), reals(shape[-1:], dtype, 2)
    for axis in (-1, tuple(range(len(shape)))):
        both(
            nn.layer_norm,
            lambda x, w, b, a=axis: layer_norm(x, a, 1e-5) * w + b,
            x,
            w,
            b,
            near=2e-6,
            dtype=dtype,
            axis=axis,
        )
        both(
            nn.rms_norm,
            lambda x, w, a=axis: x / np.sqrt((x**2).mean(axis=a, keepdims=True) + 1e-3) * w,
            x,
            w,
            near=1e-6,
            dtype=dtype,
            axis=axis,
            eps=1e-3,
        )
    both(nn.layer_norm, lambda x: layer_norm(x, -1, 1e-5), x, near=2e-6, dtype=dtype)
    both(nn.rms_norm, lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5), x, near=1e-6)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float | None
) -> Array:
    """One query at a time."""
    batch = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    queries, keys = q.shape[-2], k.shape[-2]
    if mask is not None:
        mask = np.broadcast_to(mask, (*batch, queries, keys))
    made = np.zeros((*batch, queries, v.shape[-1]))
    for at in np.ndindex(*batch, queries):
        scores = k[at[:-1]] @ q[at] * (q.shape[-1] ** -0.5 if scale is None else scale)
        if causal:
            scores = np.where(np.arange(keys) <= at[-1] + keys - queries, scores, -np.inf)
        if mask is not None:
            scores = (
                np.where(mask[at], scores, -np.inf) if mask.dtype == bool else scores + mask[at]
            )
        shares = np.exp(scores - scores.max())
        made[at] = shares @ v[at[:-1]] / shares.sum()
    return made


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((5, 8), (5, 8), (5, 8)),
        ((5, 8), (7, 8), (7, 3)),
        ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
        ((2, 3, 5, 8), (1, 3, 7, 8), (3, 7, 8)),
        ((1, 8), (9, 8), (9, 8)),
        ((2, 4, 5, 8), (2, 1, 7, 8), (2, 1, 7, 8)),
    ],
    ids=str,
)
def test_attention(q: Any, k: Any, v: Any, dtype: Any) -> None:
    queries, keys, values = reals(q, dtype), reals(k, dtype, 1), reals(v, dtype, 2)
    near = 1e-6 if dtype == F32 else 4e-3 if dtype == np.float16 else 2e-2
    for causal in (False, True):
        both(
            nn.attention,
            lambda q, k, v, c=causal: attention(q, k, v, None, c, None),
            queries,
            keys,
            values,
            near=near,
            dtype=dtype,
            causal=causal,
        )
    both(
        nn.attention,
        lambda q, k, v: attention(q, k, v, None, False, 0.3),
        queries,
        keys,
        values,
        near=near,
        scale=0.3,
    )
    seen = numbers((q[-2], k[-2]), np.bool_)
    seen[:, 0] = True
    added = reals((q[-2], k[-2]), dtype, 3)
    for mask in (seen, added):
        both(
            nn.attention,
            lambda q, k, v, m: attention(q, k, v, m, True, None),
            queries,
            keys,
            values,
            mask,
            near=near,
            causal=True,
        )


def test_heads_of_queries_that_share_keys() -> None:
    q, k, v = reals((2, 6, 5, 8)), reals((2, 2, 7, 8), seed=1), reals((2, 2, 7, 4), seed=2)
    mask = numbers((2, 6, 5, 7), np.bool_)
    mask[..., 0] = True
    both(
        nn.attention,
        lambda q, k, v, m: attention(q, np.repeat(k, 3, 1), np.repeat(v, 3, 1), m, False, None),
        q,
        k,
        v,
        mask,
        near=1e-6,
    )


def test_a_causal_mask_is_no_input() -> None:
    x = reals((16, 8))
    assert trace(lambda x: nn.attention(x, x, x, causal=True), x).captured == []


def test_a_query_that_sees_nothing_finds_nan() -> None:
    q, k = reals((3, 4)), reals((2, 4))
    found = compute(lambda q, k: nn.attention(q, k, k, causal=True), q, k)
    assert np.isnan(found[0]).all() and np.isfinite(found[1:]).all()


def conv2d(x: Array, w: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """One element of the result at a time."""
    (above, below), (left, right) = padding
    x = np.pad(x, ((0, 0), (0, 0), (above, below), (left, right)))
    rows = (x.shape[2] - dilation[0] * (w.shape[2] - 1) - 1) // stride[0] + 1
    columns = (x.shape[3] - dilation[1] * (w.shape[3] - 1) - 1) // stride[1] + 1
    made = np.zeros((x.shape[0], w.shape[0], max(rows, 0), max(columns, 0)))
    for n, o, i, j in np.ndindex(*made.shape):
        group = o // (w.shape[0] // groups)
        channels = x[n, group * w.shape[1] : (group + 1) * w.shape[1]]
        for r, c in np.ndindex(*w.shape[2:]):
            seen = channels[:, i * stride[0] + r * dilation[0], j * stride[1] + c * dilation[1]]
            made[n, o, i, j] += seen @ w[o, :, r, c]
    return made


@pytest.mark.parametrize(
    ("x", "w", "named", "padding"),
    [
        ((1, 1, 4, 5), (1, 1, 1, 1), {}, (0, 0, 0, 0)),
        ((2, 3, 7, 6), (4, 3, 3, 2), {}, (0, 0, 0, 0)),
        ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": 2, "padding": 1}, (1, 1, 1, 1)),
        ((2, 3, 7, 6), (4, 3, 3, 3), {"stride": (2, 1), "padding": (2, 0)}, (2, 2, 0, 0)),
        ((1, 2, 7, 6), (3, 2, 3, 3), {"padding": ((1, 2), (0, 3))}, (1, 2, 0, 3)),
        ((1, 2, 9, 8), (3, 2, 3, 3), {"dilation": 2, "padding": "valid"}, (0, 0, 0, 0)),
        ((1, 2, 9, 8), (3, 2, 3, 2), {"dilation": (1, 3), "padding": "same"}, (1, 1, 1, 2)),
        ((1, 2, 9, 8), (3, 2, 3, 4), {"stride": 3, "padding": "same"}, (0, 0, 1, 1)),
        ((2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2, "padding": 1}, (1, 1, 1, 1)),
        ((2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "stride": 2}, (0, 0, 0, 0)),
        ((1, 2, 2, 2), (3, 2, 3, 3), {}, (0, 0, 0, 0)),
        ((0, 2, 4, 4), (3, 2, 3, 3), {}, (0, 0, 0, 0)),
    ],
    ids=str,
)
def test_conv2d(x: Any, w: Any, named: dict[str, Any], padding: tuple[int, ...]) -> None:
    images, filters, bias = numbers(x), numbers(w, seed=1), numbers(w[:1], seed=2)

    def pair(name: str) -> Any:
        given = named.get(name, 1)
        return given if isinstance(given, tuple) else (given, given)

    def oracle(x: Array, w: Array, b: Array) -> Array:
        sides = (padding[:2], padding[2:])
        made = conv2d(x, w, pair("stride"), sides, pair("dilation"), named.get("groups", 1))
        return made + b[:, None, None]

    both(nn.conv2d, oracle, images, filters, bias, near=0, dtype=np.float32, **named)
    without = np.zeros_like(bias)
    agrees(
        lambda x, w: nn.conv2d(x, w, **named),
        images,
        filters,
        oracle=lambda x, w: oracle(x, w, without),
    )


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype("i1"), np.dtype("i4")], ids=str)
def test_dtypes_of_conv2d(dtype: Any) -> None:
    x, w = numbers((1, 2, 5, 5), dtype), numbers((3, 2, 3, 3), dtype, 1)
    result = dtype if dtype in FLOATS else np.int32
    none = ((0, 0), (0, 0))
    agrees(nn.conv2d, x, w, dtype=result, oracle=lambda x, w: conv2d(x, w, (1, 1), none, (1, 1), 1))


X = reals((2, 3, 4))
IMAGES = reals((1, 4, 5, 5))


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (lambda: nn.gelu(X, approximate="cubic"), ArgumentError, 'approximate is None or "tanh"'),
        (lambda: nn.attention(X[0, 0], X, X), ShapeError, "have two axes or more"),
        (lambda: nn.attention(X, X[..., :2], X), ShapeError, "do not go together"),
        (lambda: nn.cross_entropy(X, np.zeros(2, int)), ShapeError, "labels of the shape (2,)"),
        (lambda: nn.conv2d(X, X), ShapeError, "images and filters have four axes"),
        (lambda: nn.conv2d(IMAGES, IMAGES[:, :3]), ShapeError, "do not go together in 1 groups"),
        (lambda: nn.conv2d(IMAGES, IMAGES, padding="full"), ArgumentError, '"same" or "valid"'),
        (lambda: nn.conv2d(IMAGES, IMAGES, padding=-1), ArgumentError, "padding is not negative"),
        (lambda: nn.conv2d(IMAGES, IMAGES, stride=0), ArgumentError, "are 1 or more"),
        (lambda: nn.conv2d(IMAGES, IMAGES, stride=(1, 2, 3)), ArgumentError, "one int, or two"),
    ],
)
def test_mistakes(use: Any, kind: type[UserError], message: str) -> None:
    with pytest.raises(UserError) as caught:
        use()
    assert type(caught.value) is kind
    assert message in caught.value.message
    assert caught.value.spot is not None and caught.value.spot.file == __file__
