"""Arrays put together, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracing_arrays import DTYPES, SHAPES, agrees, numbers


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_put_together(shape: tuple[int, ...]) -> None:
    x, y, rank = numbers(shape), numbers(shape, seed=1), len(shape)
    for axis in range(-rank, rank):
        other = numbers(tuple(n + (i == axis % rank) for i, n in enumerate(shape)), seed=2)
        agrees(lambda x, y, a=axis: np.concatenate([x, y, x], axis=a), x, other)
        agrees(lambda x, y, a=axis: np.append(x, y, a), x, other)
    for axis in range(-rank - 1, rank + 1):
        agrees(lambda x, y, a=axis: np.stack([x, y], axis=a), x, y)
    agrees(lambda x, y: np.concatenate((x, y), axis=None), x, y)
    agrees(lambda x, y: (np.vstack([x, y]), np.hstack([x, y]), np.dstack([x, y])), x, y)
    agrees(lambda x, y: np.append(x, y), x, y)
    if rank in (1, 2):
        agrees(lambda x, y: np.column_stack([x, y]), x, y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_the_dtype_in_which_they_meet(dtype: Any) -> None:
    x = numbers((3,), dtype)
    agrees(lambda x: np.concatenate([x, x]), x, dtype=dtype)
    agrees(lambda x: np.stack([x, x]), x, dtype=dtype)
    agrees(lambda x: np.concatenate([x, x], dtype=np.float32), x, dtype=np.float32)
    y = numbers((2,), np.float32)
    agrees(lambda x, y: np.concatenate([x, y]), x, y, dtype=np.float32)


def test_with_concrete_arrays() -> None:
    x = numbers((2, 3))
    agrees(lambda x: np.concatenate([np.zeros((1, 3)), x, [[1, 2, 4]]]), x, dtype=np.float32)
    agrees(lambda x: np.stack([x[0, 0], 2, x[1, 1]]), x, dtype=np.float32)
    agrees(lambda x: np.concatenate(x), x)


def test_numbers_do_not_give_way() -> None:
    """NumPy makes arrays of them here."""
    x = np.array([1, 200, 255], np.uint8)
    agrees(lambda x: (np.append(x, 300), np.hstack([x, -1])), x, dtype=np.int64)
    agrees(lambda x: np.stack([x[0], 300]) * 200, x, dtype=np.int64)


def test_blocks() -> None:
    a, b = numbers((2, 2)), numbers((2, 3), seed=1)
    c, d = numbers((1, 2), seed=2), numbers((1, 3), seed=3)
    agrees(lambda a, b, c, d: np.block([[a, b], [c, d]]), a, b, c, d)
    agrees(lambda a, b, c, d: np.block([a, b]), a, b, c, d)
    agrees(lambda a, b, c, d: np.block([[a, np.zeros((2, 1))], [1.0, c]]), a, b, c, d)
    agrees(lambda a, b, c, d: np.block(a), a, b, c, d)
