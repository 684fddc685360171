"""Reductions and scans by a user's function, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DTypeError, ShapeError, UserError

DEVICES = ("interp", "interp:metal")
FEW = (*DEVICES, "softmetal")


def sum_of_exp(m1: Any, s1: Any, m2: Any, s2: Any) -> Any:
    m = iris.maximum(m1, m2)
    return m, s1 * iris.exp(m1 - m) + s2 * iris.exp(m2 - m)


def welford(m1: Any, v1: Any, n1: Any, m2: Any, v2: Any, n2: Any) -> Any:
    n = n1 + n2
    delta = m2 - m1
    return m1 + delta * n2 / n, v1 + v2 + delta * delta * n1 * n2 / n, n


def greater(x: Any, i: Any, y: Any, j: Any) -> Any:
    is_first = (x > y) | ((x == y) & (i < j))
    return iris.where(is_first, x, y), iris.where(is_first, i, j)


@iris.kernel
def statistics(X, Out, Place, N, B: iris.constexpr):
    i = iris.arange(0, B)
    x = iris.load(X + i, mask=i < N)
    m, s = iris.reduce((x, iris.full(B, 1.0)), 0, sum_of_exp)
    iris.store(Out, m + iris.log(s))
    mean, squares, n = iris.reduce((x, iris.zeros(B), iris.full(B, 1.0)), None, welford)
    iris.store(Out + 1, mean)
    iris.store(Out + 2, squares / n)
    greatest, place = iris.reduce([x, i], -1, greater)
    iris.store(Out + 3, greatest)
    iris.store(Place, place)


@pytest.mark.parametrize(
    "n, block, simdgroups", [(1, 1, 1), (5, 8, 1), (100, 128, 1), (600, 1024, 4)]
)
def test_several_values_are_reduced_together(n: int, block: int, simdgroups: int) -> None:
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    x[n // 2 :] += x.max() - x[n // 2 :].max()  # of equal ones, the first
    expected = [np.log(np.exp(x.astype(np.float64)).sum()), x.mean(), x.var(), x.max()]
    for device in FEW if n == 600 else DEVICES:
        out, place = np.empty(4, np.float32), np.empty(1, np.int32)
        options = {"num_simdgroups": simdgroups, "device": device}
        statistics[1](x, out, place, n, B=block, **options)
        np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)
        assert place[0] == x.argmax()


@iris.kernel
def along(X, Out, M: iris.constexpr, N: iris.constexpr, AXIS: iris.constexpr, KEEP: iris.constexpr):
    x = iris.tile_load(X, 0, 0, N, (M, N))
    result = iris.reduce(x, AXIS, lambda a, b: a ^ b, keepdims=KEEP)
    iris.static_assert(len(result.shape) == (2 if KEEP else 0 if AXIS is None else 1))
    iris.store(Out + iris.arange(0, M * N), iris.reshape(result + x * 0, M * N))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_a_reduction_goes_along_an_axis(axis: int | None, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 250, (16, 32)).astype(dtype)
    expected = np.bitwise_xor.reduce(x, axis, keepdims=True)
    for device in DEVICES:
        out = np.empty_like(x)
        along[1](x, out, M=16, N=32, AXIS=axis, KEEP=True, num_simdgroups=2, device=device)
        assert (out == expected).all()


@iris.kernel
def recurrence(A, X, Out, M, N, P: iris.constexpr, Q: iris.constexpr, AXIS: iris.constexpr):
    """y[i] = a[i] * y[i - 1] + x[i], which is no commutative combination, and backwards from it
    y[i] = y[i] - y[i + 1]."""
    i, j = iris.arange(0, P)[:, None], iris.arange(0, Q)[None, :]
    inside = (i < M) & (j < N)
    a = iris.load(A + i * N + j, mask=inside)
    x = iris.load(X + i * N + j, mask=inside)

    def then(a, x, b, y):
        return a * b, x * b + y

    _, y = iris.associative_scan((a, x), AXIS, then)
    _, y = iris.associative_scan((y * 0 - 1, y), AXIS, then, reverse=True)
    iris.store(Out + i * N + j, y)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "m, n, p, q, simdgroups", [(16, 32, 16, 32, 2), (3, 70, 4, 128, 4), (6, 1, 8, 1, 1)]
)
def test_a_scan_keeps_the_order(axis: int, m: int, n: int, p: int, q: int, simdgroups: int) -> None:
    rng = np.random.default_rng(m)
    a, x = (rng.integers(-9, 9, (m, n)).astype(np.int32) for _ in range(2))
    expected = np.moveaxis(x.copy(), axis, 0)
    for k in range(1, len(expected)):
        expected[k] += np.moveaxis(a, axis, 0)[k] * expected[k - 1]
    for k in reversed(range(len(expected) - 1)):
        expected[k] -= expected[k + 1]
    for device in FEW if n == 70 else DEVICES:
        out = np.empty_like(x)
        options = {"num_simdgroups": simdgroups, "device": device}
        recurrence[1](a, x, out, m, n, P=p, Q=q, AXIS=axis, **options)
        assert (np.moveaxis(out, axis, 0) == expected).all()


@iris.kernel
def reversed_sums(X, Out, Flipped, M, N, AXIS: iris.constexpr):
    i, j = iris.arange(0, 8)[:, None], iris.arange(0, 128)[None, :]
    x = iris.load(X + i * N + j, mask=(i < M) & (j < N))
    iris.store(Out + i * N + j, iris.cumsum(x, AXIS, reverse=True))
    iris.store(Flipped + i * 128 + j, iris.flip(x, AXIS))


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_from_each_element_on(axis: int) -> None:
    x = np.random.default_rng(axis).integers(-99, 99, (5, 100)).astype(np.int32)
    sums = np.flip(np.flip(x, axis).cumsum(axis), axis)
    flipped = np.flip(np.pad(x, [(0, 3), (0, 28)]), axis)
    for device in FEW:
        out, turned = np.empty_like(x), np.zeros((8, 128), np.int32)
        options = {"num_simdgroups": 4, "device": device}
        reversed_sums[1](x, out, turned, 5, 100, AXIS=axis, **options)
        assert (out == sums).all()
        assert (turned == flipped).all()


@iris.kernel
def holes(X, There, Sums, Total, B: iris.constexpr, ADD: iris.constexpr):
    i = iris.arange(0, B)
    x = iris.load(X + i, mask=iris.load(There + i))
    iris.store(Sums + i, iris.associative_scan(x, 0, ADD))
    iris.store(Total, iris.reduce(x, 0, ADD))


@pytest.mark.parametrize("share", [0, 1, 3, 10])
def test_elements_that_do_not_count_are_left_out(share: int) -> None:
    rng = np.random.default_rng(share)
    x, there = rng.integers(1, 99, 64).astype(np.int32), rng.integers(0, 10, 64) < share
    for device in DEVICES:
        sums, total = np.full(64, -1, np.int32), np.full(1, -1, np.int32)
        holes[1](x, there, sums, total, B=64, ADD=lambda a, b: a + b, device=device)
        assert (sums == np.where(there, np.cumsum(np.where(there, x, 0)), -1)).all()
        assert total[0] == (x[there].sum() if there.any() else -1)
        # Where both count, the result does, even if the function takes no notice of them.
        holes[1](x, there, sums, total, B=64, ADD=lambda a, b: 7, device=device)
        assert total[0] == (-1 if not there.any() else 7 if there.sum() > 1 else x[there][0])


@iris.kernel
def wrong(X, N, CALL: iris.constexpr):
    i = iris.arange(0, 8)
    iris.store(X + i, CALL(iris.load(X + i)))


@pytest.mark.parametrize(
    "call, kind, says",
    [
        (lambda x: iris.reduce(x, 1, welford), ShapeError, "an axis is an int from -1 to 0, not 1"),
        (lambda x: iris.reduce(x, 0, lambda a, b: (a, b)), ArgumentError, "returns 1, not 2"),
        (lambda x: iris.reduce((), 0, welford), ArgumentError, "one tile or more, not none"),
        (lambda x: iris.reduce(x, 0, lambda a, b: a > b), DTypeError, "elements that are f32"),
        (
            lambda x: iris.associative_scan(x, 0, lambda a, b: a + iris.zeros((2, 1))),
            ShapeError,
            "it may use its arguments and scalars",
        ),
        (lambda x: iris.reduce(x, 0, lambda a, b: a, keepdims=1), ArgumentError, "keepdims of red"),
    ],
)  # fmt: skip
def test_misuse_is_an_error(call: Any, kind: type[UserError], says: str) -> None:
    with pytest.raises(kind, match=says):
        wrong[1](np.zeros(8, np.float32), 8, CALL=call)
