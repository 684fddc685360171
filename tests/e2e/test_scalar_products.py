"""Matrix products that no matrix hardware computes: right for every shape, and their operands read
from threadgroup memory no more often than blocks need.

The data are small integers, so that a product is exact in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.ir import parse
from iris.ir.control import For
from iris.ir.metal import Copy
from iris.targets.nvidia import H200
from matrix_programs import count

DTYPES = {
    "f32": (np.float32, iris.f32),
    "f16": (np.float16, iris.f32),
    "i32": (np.int32, iris.i32),
    "i8": (np.int8, iris.i32),
}


@pytest.fixture(autouse=True)
def device() -> None:
    """Each launch here names its own."""


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no matrices of f32."""
    monkeypatch.setenv("IRIS_TARGET", H200.name)


@iris.kernel
def product(
    A,
    B,
    C,
    N,
    K,
    SUM: iris.constexpr,
    BM: iris.constexpr,
    BN: iris.constexpr,
    BK: iris.constexpr,
):
    rows = iris.program_id(1) * BM + iris.arange(0, BM)
    columns = iris.program_id(0) * BN + iris.arange(0, BN)
    acc = iris.zeros((BM, BN), SUM)
    for k in range(0, K, BK):
        terms = k + iris.arange(0, BK)
        a = iris.load(A + rows[:, None] * K + terms[None, :])
        b = iris.load(B + terms[:, None] * N + columns[None, :])
        acc = iris.dot(a, b, acc)
    iris.store(C + rows[:, None] * N + columns[None, :], acc)


def matrices(kind: str, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    dtype, total = DTYPES[kind]
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
    return a, b, np.zeros((m, n), np.float32 if total is iris.f32 else np.int32)


@pytest.mark.parametrize("kind", ["f32", "i32", "i8"])
@pytest.mark.parametrize("block", [(2, 2), (4, 8), (8, 8), (16, 8), (8, 32), (32, 64)], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 8, 16])
@pytest.mark.parametrize("simdgroups", [1, 4])
def test_every_block(kind: str, block: tuple[int, int], depth: int, simdgroups: int) -> None:
    (bm, bn), total = block, DTYPES[kind][1]
    a, b, c = matrices(kind, bm, 2 * bn, 16)
    product[(2, 1)](
        a,
        b,
        c,
        2 * bn,
        16,
        SUM=total,
        BM=bm,
        BN=bn,
        BK=depth,
        num_simdgroups=simdgroups,
        device="interp:metal",
    )
    np.testing.assert_array_equal(c, a.astype(c.dtype) @ b.astype(c.dtype))


@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_a_lane_reads_its_rows_and_columns_once_a_term(kind: str) -> None:
    m, n, k, simdgroups = 128, 64, 32, 2
    a, b, c = matrices(kind, m, n, k)
    blocks = {"SUM": DTYPES[kind][1], "BM": m, "BN": n, "BK": k}
    found = count(product, (1, 1), a, b, c, n, k, **blocks, num_simdgroups=simdgroups)
    np.testing.assert_array_equal(c, a @ b)
    # A simdgroup has 64 rows and all columns, a lane of it 8 of those rows and 16 of the columns.
    assert found.threadgroup_loads.bytes == simdgroups * 32 * k * (8 + 16) * 4
    assert found.threadgroup_loads.conflicts == 0
    assert not found.mmas and not found.shuffles


@pytest.mark.parametrize(("kind", "simdgroups"), [("f32", 1), ("f16", 1), ("f16", 4)])
def test_copies_begin_between_products(kind: str, simdgroups: int) -> None:
    """The interpreter reports what is read before a copy of it is waited for."""
    m, n, k = 64, 64, 192
    a, b, c = matrices(kind, m, n, k)
    named = {"SUM": iris.f32, "BM": m, "BN": n, "BK": 32, "num_simdgroups": simdgroups}
    product[(1, 1)](a, b, c, n, k, **named, device="interp:metal")
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)))
    lowered = parse(product.lower(a, b, c, n, k, grid=1, **named).metal)
    rounds = [op for op in lowered.walk() if isinstance(op, For) and op.trip_count() is not None]
    assert any(isinstance(op, Copy) for loop in rounds for op in loop.body.walk())
