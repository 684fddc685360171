"""Products of matrices and the like, against NumPy in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracing_arrays import BF16, DTYPES, FLOATS, INTEGERS, agrees, compute, numbers, same

PAIRS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((1, 3), (3, 1)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (4, 3, 2)),
    ((3,), (2, 5, 3, 4)),
    ((2, 5, 4, 3), (3,)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((0, 2, 3), (3, 4)),
    ((2, 3), (3, 0)),
]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = numbers(a), numbers(b, seed=1)
    agrees(lambda x, y: (x @ y, np.matmul(x, y)), x, y, dtype=np.float32)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_dot_and_inner(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = numbers(a), numbers(b, seed=1)
    agrees(lambda x, y: (np.dot(x, y), x.dot(y)), x, y, dtype=np.float32)
    turned = np.swapaxes(y, -1, -2) if y.ndim > 1 else y
    agrees(np.inner, x, turned, dtype=np.float32)
    agrees(np.outer, x, y, dtype=np.float32)
    agrees(np.kron, x, y, dtype=np.float32)


def test_of_numbers() -> None:
    x = numbers((3,))
    agrees(lambda x: (np.dot(x, 2), np.dot(3.0, x), np.inner(x, 2)), x, dtype=np.float32)
    agrees(lambda x: np.vdot(x, x), x)
    agrees(lambda x: np.vdot(x.reshape(3, 1), x), x)
    agrees(lambda x: x @ np.arange(3) + [1, 2, 3] @ x, x)
    agrees(lambda x: np.kron(x[0], x), x)


def test_numbers_do_not_give_way() -> None:
    """NumPy makes arrays of them here."""
    x = np.array([1, 200, 255], np.uint8)
    for function in (np.dot, np.inner, lambda x, y: np.tensordot(x, y, 0)):
        agrees(lambda x, f=function: (f(x, 255), f(-3, x)), x, dtype=np.int64)
    agrees(lambda x: np.einsum("i,->i", x, 255), x, dtype=np.int64)
    agrees(lambda x: np.polyval(x, 100), x, dtype=np.int64)
    found = compute(lambda x, n: np.dot(x, n), x, 255)
    assert found.tolist() == [255, 255 * 200, 255 * 255]


def result(dtype: Any) -> Any:
    """The dtype of a product of matrices."""
    if dtype in FLOATS or dtype == np.bool_ or dtype.itemsize >= 4:
        return dtype
    return np.uint32 if dtype.kind == "u" else np.int32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: Any) -> None:
    x, y = numbers((4, 5), dtype), numbers((5, 3), dtype, seed=1)
    agrees(np.matmul, x, y, dtype=result(dtype))
    agrees(np.dot, x[0], y, dtype=result(dtype))
    agrees(lambda x, y: np.tensordot(x, y, 1), x, y, dtype=result(dtype))
    agrees(lambda x, y: np.einsum("ij,jk->ki", x, y), x, y, dtype=result(dtype))
    agrees(lambda x, y: np.einsum("ij,jk->k", x, y), x, y, dtype=result(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(dtype: Any) -> None:
    x = np.full((2, 300), np.iinfo(dtype).max, dtype)
    wide = x.astype(result(dtype))
    same(compute(lambda x: x @ x.T, x), wide @ wide.T, dtype=result(dtype))
    same(compute(lambda x: x[0] @ x[1], x), wide[0] @ wide[1], dtype=result(dtype))


def test_sums_of_halves_are_made_in_f32() -> None:
    x = np.full((3, 5000), 0.5, np.float16)
    agrees(lambda x: x @ x.T, x, dtype=np.float16)
    agrees(lambda x: x[0] @ x[1], x, dtype=np.float16)
    agrees(lambda x: np.matmul(x, x.T, dtype=np.float32), x, dtype=np.float32)
    y = x.astype(BF16)
    same(compute(lambda x: x @ x.T, y), np.full((3, 3), 1248), dtype=BF16)


def test_dtypes_meet() -> None:
    x, y = numbers((2, 3), np.float16), numbers((3, 2), np.int32)
    agrees(np.matmul, x, y, dtype=np.float16)
    agrees(np.matmul, x, y.astype(np.float32), dtype=np.float32)


def test_tensordot() -> None:
    x, y = numbers((3, 4, 5)), numbers((4, 3, 2), seed=1)
    agrees(lambda x, y: np.tensordot(x, y, axes=([1, 0], [0, 1])), x, y)
    agrees(lambda x, y: np.tensordot(x, y, axes=(1, 0)), x, y)
    agrees(lambda x, y: np.tensordot(x, y, axes=([-2], [0])), x, y)
    agrees(lambda x, y: np.tensordot(x, y, axes=0), x, y)
    agrees(lambda x, y: np.tensordot(x, x, axes=3), x, y)
    agrees(lambda x, y: np.tensordot(x, x, axes=((0, 2), (0, 2))), x, y)
    agrees(lambda x, y: np.tensordot(x, np.ones((5, 2)), 1), x, y)


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="an older NumPy")
def test_products_of_vectors() -> None:
    m, v = numbers((2, 1, 3, 4)), numbers((5, 4), seed=1)
    agrees(lambda m, v: np.matvec(m, v), m, v)
    agrees(lambda m, v: np.vecmat(v, np.swapaxes(m, -1, -2)), m, v)
    agrees(lambda m, v: np.vecdot(v, v[0]), m, v)


def test_a_matrix_for_all_is_one_product_and_batches_are_spread() -> None:
    from tracing_arrays import trace

    def kinds(function: Any, *arguments: Any) -> list[str]:
        (func,) = trace(function, *arguments).module
        return [op.name.removeprefix("graph.") for op in func.body]  # type: ignore[attr-defined]

    x, w, b = numbers((2, 3, 4)), numbers((4, 5)), numbers((2, 4, 5))
    assert kinds(np.matmul, x, w) == ["reshape", "matmul", "reshape", "return"]
    assert kinds(np.matmul, x, b) == ["matmul", "return"]
    assert kinds(np.matmul, x[0], b) == ["reshape", "broadcast", "matmul", "return"]
    # What has no axis of its own needs no matrices.
    assert "matmul" not in kinds(np.matmul, x[0], w[:, 0])
    assert kinds(lambda x, b: np.einsum("bij,bjk->bik", x, b), x, b) == ["matmul", "return"]
    assert kinds(lambda x, w: np.einsum("bij,jk->bik", x, w), x, w) == kinds(np.matmul, x, w)
