"""Arrays made like others, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from tracing_arrays import DTYPES, SHAPES, agrees, compute, numbers, same


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_like_another(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    agrees(lambda x: (np.zeros_like(x), np.ones_like(x), np.full_like(x, 2.5)), x)
    agrees(lambda x: np.full_like(x, 2, dtype=np.int32), x, dtype=np.int32)
    agrees(lambda x: np.ones_like(x, bool), x, dtype=np.bool_)
    agrees(lambda x: np.zeros_like(x, shape=(2, 3)), x, dtype=np.float32)
    same(compute(np.empty_like, x), np.zeros_like(x))
    if x.size:
        agrees(lambda x: np.full_like(x, x.ravel()[0]), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_like_another_in_its_dtype(dtype: Any) -> None:
    x = numbers((3,), dtype)
    agrees(lambda x: (np.zeros_like(x), np.ones_like(x), np.full_like(x, True)), x, dtype=dtype)


def test_concrete_ones_become_traced_with_like() -> None:
    x = numbers((3, 4))
    makers = [
        lambda x: np.arange(5, like=x),
        lambda x: np.arange(1, 9, 2, dtype=np.int32, like=x),
        lambda x: np.zeros((2, 3), like=x),
        lambda x: np.ones(3, np.int32, like=x),
        lambda x: np.full((2,), 7.0, like=x),
        lambda x: np.eye(3, like=x),
        lambda x: np.identity(2, like=x),
        lambda x: np.tri(3, like=x),
        lambda x: np.asarray([1.0, 2.0, 4.0], like=x),
        lambda x: np.array([x[0, 0], 2, x[1, 1]], like=x),
        lambda x: np.array([[x[0, 0], 2], [x[1, 1], 1.5]], like=x),
        lambda x: np.asarray(x, like=x),
    ]
    for make in makers:
        agrees(make, x)
    same(compute(lambda x: np.empty((2, 3), like=x), x), np.zeros((2, 3)))
    assert compute(lambda x: np.arange(5, like=x), x).dtype == np.int64


def test_copies_and_casts() -> None:
    x = numbers((3, 4))
    agrees(lambda x: (np.copy(x), x.copy()), x, dtype=np.float32)
    for dtype in ("f16", "int32", np.float16, np.uint8, iris.i32, np.dtype("i2"), "bf16"):
        compute(lambda x, t=dtype: x.astype(t), np.abs(x))
    agrees(lambda x: x.astype(float), x, dtype=np.float32, oracle=lambda x: x)
    agrees(lambda x: x.astype(int), x, dtype=np.int64)
    agrees(lambda x: x.astype(bool), x, dtype=np.bool_)
    if hasattr(np, "astype"):
        found = compute(lambda x: np.astype(x, np.int32), x)
        same(found, x, dtype=np.int32)


def test_evenly_spaced() -> None:
    a, b = numbers((3,)), numbers((2, 3), seed=1) + 9
    for count in (0, 1, 2, 7):
        agrees(lambda a, b, n=count: np.linspace(a, b, n), a, b, dtype=np.float32, ulps=2)
        agrees(lambda a, b, n=count: np.linspace(a, b, n, endpoint=False), a, b, ulps=2)
    agrees(lambda a, b: np.linspace(0, b, 4, axis=-1), a, b, ulps=2)
    agrees(lambda a, b: np.linspace(a, b, 5, retstep=True), a, b, ulps=2)
    agrees(lambda a, b: np.linspace(a, b, 1, retstep=True), a, b, ulps=2)  # of no gap
    for dtype in (np.int32, np.int8, np.float16):  # integers are rounded down
        agrees(lambda a, b, d=dtype: np.linspace(a, b, 7, dtype=d), np.float32(-5), np.float32(6))
    found = compute(lambda a, b: np.linspace(a, b, 11)[-1], a, b)
    same(found, np.broadcast_to(b, (2, 3)))


def test_grids() -> None:
    x, y, z = numbers((3,)), numbers((2,), seed=1), numbers((4,), seed=2)
    for indexing in ("xy", "ij"):
        for sparse in (False, True):
            agrees(
                lambda x, y, z, i=indexing, s=sparse: np.meshgrid(x, y, z, indexing=i, sparse=s),
                x,
                y,
                z,
            )
    agrees(lambda x, y: np.meshgrid(x, y), x, y)
    agrees(lambda x: np.meshgrid(x, np.arange(2)), x)
    agrees(lambda x: np.meshgrid(x), x)


def test_what_is_known_of_an_array() -> None:
    def known(x: Any) -> Any:
        assert np.shape(x) == x.shape == (3, 4)
        assert np.ndim(x) == x.ndim == 2
        assert np.size(x) == x.size == 12
        assert np.size(x, 1) == len(x[0]) == 4
        assert (len(x), x.itemsize, x.nbytes) == (3, 4, 48)
        assert x.dtype == np.float32
        assert np.finfo(x.dtype).bits == 32
        assert np.zeros(3, x.dtype).dtype == np.float32
        assert np.result_type(x, np.float16) == np.float32
        assert np.result_type(x, 1) == np.float32
        assert not np.iscomplexobj(x) and np.isrealobj(x)
        assert np.iterable(x)
        return x

    compute(known, numbers((3, 4)))
