"""Lanes that share elements: what one loads, none has stored since; all load what was stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iris

LEVELS = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]


@iris.kernel
def updates(X: iris.Ptr, N: iris.constexpr, SHARED: iris.constexpr) -> None:
    at = iris.arange(0, N) % SHARED
    iris.store(X + at, iris.load(X + at) + 1)


@iris.kernel
def in_turns(X: iris.Ptr, n: Any, N: iris.constexpr, SHARED: iris.constexpr) -> None:
    at = iris.arange(0, N) // SHARED
    for k in range(n):
        iris.store(X + at, iris.load(X + at) * 2 + k + at)
    iris.store(X + at, 3 * iris.load(X + at))


@iris.kernel
def rows(X: iris.Ptr, stride: Any, N: iris.constexpr, SHARED: iris.constexpr) -> None:
    at = iris.arange(0, N)[:, None] // SHARED * stride + iris.arange(0, 4)[None, :] % 2
    iris.store(X + at, iris.load(X + at) + 1)
    iris.store(X + at, iris.load(X + at) * 2)


@pytest.mark.parametrize("device", LEVELS)
@given(
    size=st.sampled_from([32, 64, 256, 1024]),
    shared=st.integers(1, 200),
    simdgroups=st.sampled_from([1, 2, 4]),
)
def test_each_update_is_made_once(device: str, size: int, shared: int, simdgroups: int) -> None:
    how = {"N": size, "SHARED": shared, "num_simdgroups": simdgroups, "device": device}
    start = np.arange(1024, dtype=np.int32)

    x = start.copy()
    updates[1](x, **how)
    expected = start + (start < min(size, shared))
    np.testing.assert_array_equal(x, expected)

    x = start.copy()
    in_turns[1](x, 3, **how)
    touched = np.unique(np.arange(size) // shared)
    expected = start.copy()
    for k in range(3):
        expected[touched] = expected[touched] * 2 + k + touched
    expected[touched] *= 3
    np.testing.assert_array_equal(x, expected)

    for stride in (0, 1, 4):
        x = np.arange(4 * 1024 + 4, dtype=np.int32)
        expected = x.copy()
        rows[1](x, stride, **how)
        touched = np.unique(np.arange(size)[:, None] // shared * stride + np.arange(2))
        expected[touched] = (expected[touched] + 1) * 2
        np.testing.assert_array_equal(x, expected)


@iris.kernel
def wraps_in_offsets(X: iris.Ptr, n: Any, N: iris.constexpr) -> None:
    i = iris.arange(0, N)
    wrapping = (i % 32).to(iris.i8) + n.to(iris.i8)
    at = wrapping.to(iris.i32) + 248 * (i // 32) + 128
    iris.store(X + at, iris.load(X + at) + 1)


@iris.kernel
def wraps_in_masks(X: iris.Ptr, n: Any, N: iris.constexpr) -> None:
    i = iris.arange(0, N)
    wrapping = (n + i % 32).to(iris.i64) + (i // 32).to(iris.i64) * ((1 << 32) - 8)
    inside = wrapping == (1 << 31) - 1
    at = i // N
    iris.store(X + at, iris.load(X + at, mask=inside, other=0) + 1, mask=inside)


@pytest.mark.parametrize("device", LEVELS)
@pytest.mark.parametrize("simdgroups", [1, 2, 4])
def test_lanes_that_share_elements_as_numbers_wrap(device: str, simdgroups: int) -> None:
    how = {"N": 64, "num_simdgroups": simdgroups, "device": device}
    i = np.arange(64)

    for n in (0, 120):
        x = np.zeros(512, np.int32)
        wraps_in_offsets[1](x, n, **how)
        expected = np.zeros(512, np.int32)
        expected[(i % 32 + n).astype(np.int8).astype(np.int32) + 248 * (i // 32) + 128] = 1
        np.testing.assert_array_equal(x, expected)

    most = (1 << 31) - 1
    numbers = (most - 7 + i % 32).astype(np.int32).astype(np.int64) + i // 32 * ((1 << 32) - 8)
    assert np.flatnonzero(numbers == most).tolist() == [7, 47]
    x = np.zeros(64, np.int32)
    wraps_in_masks[1](x, most - 7, **how)
    assert x.tolist() == [1, *[0] * 63]
