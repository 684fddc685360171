"""Norms against NumPy's in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracing_arrays import FLOATS, agrees, numbers, reals

INF = float("inf")


@pytest.mark.parametrize("order", [None, 1, 2, 0, 3, 2.5, -1, INF, -INF], ids=str)
def test_of_vectors(order: Any) -> None:
    agrees(lambda x: np.linalg.norm(x, order), reals((7,)), dtype=np.float32, ulps=4)
    for keepdims in (False, True):
        agrees(
            lambda x, k=keepdims: np.linalg.norm(x, order, axis=1, keepdims=k),
            reals((3, 5, 2)),
            ulps=4,
        )


@pytest.mark.parametrize("order", [None, "fro", 1, -1, INF, -INF], ids=str)
def test_of_matrices(order: Any) -> None:
    agrees(lambda x: np.linalg.norm(x, order), reals((4, 5)), dtype=np.float32, ulps=4)
    for axes in ((0, 1), (2, 0), (-1, 1)):
        for keepdims in (False, True):
            agrees(
                lambda x, a=axes, k=keepdims: np.linalg.norm(x, order, a, k),
                reals((3, 5, 2)),
                ulps=4,
            )


def test_of_all_elements() -> None:
    agrees(np.linalg.norm, reals((2, 3, 4)), ulps=4)
    agrees(lambda x: np.linalg.norm(x, keepdims=True), reals((2, 3, 4)), ulps=4)
    agrees(np.linalg.norm, numbers((4,), np.int32), dtype=np.float32, ulps=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_halves_are_squared_in_f32(dtype: Any) -> None:
    agrees(np.linalg.norm, np.full((9,), 300.0, dtype), dtype=dtype)


@pytest.mark.skipif(not hasattr(np.linalg, "matmul"), reason="an older NumPy")
def test_other_names() -> None:
    x = numbers((2, 3, 3))
    agrees(lambda x: np.linalg.matmul(x, x), x)
    agrees(lambda x: np.linalg.tensordot(x, x[0], axes=1), x)
    agrees(lambda x: np.linalg.outer(x[0, 0], x[0, 1]), x)
    agrees(lambda x: np.linalg.matrix_transpose(x), x)
    agrees(lambda x: (np.linalg.diagonal(x, offset=1), np.linalg.trace(x)), x)
