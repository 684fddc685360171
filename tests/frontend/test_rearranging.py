"""Joins, divisions and sorts of tiles, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import DTypeError, ShapeError, UserError

DEVICES = ("interp", "interp:metal")


@iris.kernel
def apply(X, Y, Out, M: iris.constexpr, N: iris.constexpr, CALL: iris.constexpr):
    at = iris.arange(0, M)[:, None] * N + iris.arange(0, N)[None, :]
    result = iris.ravel(CALL(iris.load(X + at), iris.load(Y + at)))
    iris.store(Out + iris.arange(0, result.shape[0]), result)


CALLS: list[tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    (lambda x, y: iris.join(x, y), lambda x, y: np.stack([x, y], -1)),
    (lambda x, y: iris.interleave(x, y), lambda x, y: np.stack([x, y], -1).reshape(len(x), -1)),
    (lambda x, y: iris.cat(x, y), lambda x, y: np.concatenate([x, y])),
    (lambda x, y: iris.cat(x, y, axis=-1), lambda x, y: np.concatenate([x, y], 1)),
    (lambda x, y: iris.split(iris.join(x, y))[1], lambda x, y: y),
    (lambda x, y: iris.expand_dims(iris.ravel(x), 0) + y * 0, lambda x, y: x),
]


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_tiles_are_joined_and_divided(call: int) -> None:
    traced, expected = CALLS[call]
    m, n = (1, 64) if call == 5 else (4, 16)
    x, y = np.random.default_rng(call).normal(size=(2, m, n)).astype(np.float32)
    for device in DEVICES:
        out = np.empty(expected(x, y).size, np.float32)
        apply[1](x, y, out, M=m, N=n, CALL=traced, num_simdgroups=2, device=device)
        assert (out == expected(x, y).ravel()).all()


@iris.kernel
def sorts(X, Up, Down, Most, M, N, P: iris.constexpr, Q: iris.constexpr, AXIS: iris.constexpr):
    i, j = iris.arange(0, P)[:, None], iris.arange(0, Q)[None, :]
    inside = (i < M) & (j < N)
    x = iris.load(X + i * N + j, mask=inside)
    iris.store(Up + i * N + j, iris.sort(x, AXIS), mask=inside)
    iris.store(Down + i * N + j, iris.sort(x, AXIS, descending=True), mask=inside)
    most = iris.topk(x, 2, AXIS)
    iris.store(Most + iris.arange(0, 2 * (Q if AXIS == 0 else P)), iris.ravel(most))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_elements_are_sorted(axis: int, dtype: Any) -> None:
    x = (np.random.default_rng(axis).normal(size=(7, 32)) * 9).astype(dtype)
    if dtype is np.float32:
        x[2, 5], x[3, 7], x[4, 9] = np.nan, np.inf, -np.inf
    up = np.sort(x, axis)
    for device in (*DEVICES, "softmetal") if dtype is np.int16 and axis else DEVICES:
        found, down = np.empty_like(x), np.empty_like(x)
        most = np.zeros(2 * (32 if axis == 0 else 8), dtype)
        options = {"num_simdgroups": 2, "device": device}
        sorts[1](x, found, down, most, 7, 32, P=8, Q=32, AXIS=axis, **options)
        np.testing.assert_array_equal(found, up)
        np.testing.assert_array_equal(down, np.flip(up, axis))
        two = np.moveaxis(np.flip(up, axis), axis, 0)[:2]
        rows = most.reshape((2, 32) if axis == 0 else (8, 2))
        np.testing.assert_array_equal(np.moveaxis(rows, axis, 0)[:, : two.shape[1]], two)


@pytest.mark.parametrize(
    "call, kind, says",
    [
        (lambda x, y: iris.split(x), ShapeError, "whose last axis has size 2, not a traced tile"),
        (lambda x, y: iris.join(x, iris.arange(0, 8)), ShapeError, "do not fit together"),
        (lambda x, y: iris.cat(x, y, axis=2), ShapeError, "an axis is an int from -2 to 1, not 2"),
        (lambda x, y: iris.topk(x, 32), ShapeError, "at most 16 elements, not 32"),
        (lambda x, y: iris.topk(x, 3), ShapeError, "powers? of two"),
        (lambda x, y: iris.sort(x > 0), DTypeError, "not bools; cast them"),
    ],
)
def test_misuse_is_an_error(call: Any, kind: type[UserError], says: str) -> None:
    x = np.zeros((4, 16), np.float32)
    with pytest.raises(kind, match=says):
        apply[1](x, x, x.ravel(), M=4, N=16, CALL=call)
