"""What kernels do to the machine, counted: lines of memory, barriers, bank conflicts, shuffles.

The kernels are lowered as a launch on a GPU would.  A line is one of 128 bytes that one
instruction of a simdgroup touches; a line is compulsory if the launch touches it at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from counting import Counting, count
from iris.errors import OutOfResources
from iris.interp.metal import Counters
from iris.targets import DEFAULT

F32, F16, BF16, I8 = np.float32, np.float16, ml_dtypes.bfloat16, np.int8
WIDE = 512  # bytes of an instruction of a simdgroup, 16 a lane


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch here names its own, and what is counted is of one target, wherever it runs."""
    monkeypatch.setenv("IRIS_TARGET", DEFAULT.name)


def random(shape: Any, dtype: Any = F32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def lines(*arrays: Any) -> int:
    return sum(-(-a.nbytes // 128) for a in arrays)


def stays_in_registers(counters: Counters) -> None:
    """No memory is shared and nobody waits."""
    assert counters.threadgroup_loads.instructions == 0
    assert counters.threadgroup_stores.instructions == 0
    assert not counters.barriers


# Elementwise.


@iris.kernel
def add(X, Y, Out, N, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    mask = at < N
    x, y = iris.load(X + at, mask=mask), iris.load(Y + at, mask=mask)
    iris.store(Out + at, x + y, mask=mask)


@iris.kernel
def gelu(X, Out, N, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    x = iris.load(X + at, mask=at < N)
    y = 0.5 * x * (1 + iris.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    iris.store(Out + at, y, mask=at < N)


@iris.kernel
def add_row_2d(X, Row, Out, M, N, BM: iris.constexpr, BN: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    cols = j + iris.arange(0, BN)
    x = iris.tile_load(X, i, j, N, (BM, BN))
    iris.tile_store(Out, i, j, N, x + iris.load(Row + cols, mask=cols < N)[None, :])


@iris.kernel
def sum_row(X, Out, N, B: iris.constexpr):
    row, total = iris.program_id(0), 0.0
    for i in iris.tile_range(0, N, B):
        cols = i + iris.arange(0, B)
        total = total + iris.load(X + row * N + cols, mask=cols < N)
    iris.store(Out + row, iris.sum(total))


@pytest.mark.parametrize("n", [4096, 4000, 1040])
def test_elementwise_kernels_touch_each_line_once_four_elements_a_thread(n: int) -> None:
    """Also where the last program is only partly inside: 16 divides the size."""
    x, y, out = random(n), random(n, seed=1), np.zeros(n, F32)
    counters = count(add, iris.cdiv(n, 1024), x, y, out, n, B=1024)
    assert (out == x + y).all()
    stays_in_registers(counters)
    loads, stores = counters.device_loads, counters.device_stores
    assert loads.lines == loads.compulsory_lines == lines(x, y)
    assert stores.lines == stores.compulsory_lines == lines(out)
    assert stores.bytes == out.nbytes
    assert loads.bytes == 2 * out.nbytes
    # Simdgroups that are all outside make none.
    assert stores.instructions == -(-out.nbytes // WIDE)
    assert loads.instructions == 2 * stores.instructions
    assert counters.flops == 1024 * iris.cdiv(n, 1024)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I8])
@pytest.mark.parametrize("n", [8192, 8000])
def test_sixteen_bytes_a_lane_of_any_dtype(dtype: Any, n: int) -> None:
    x, out = random(n, dtype), np.zeros(n, dtype)
    counters = count(add, 4, x, x, out, n, B=2048)
    assert (out == x + x).all()
    stays_in_registers(counters)
    loads, stores = counters.device_loads, counters.device_stores
    assert stores.lines == stores.compulsory_lines == lines(out)
    assert loads.lines == loads.compulsory_lines == lines(x, x)
    assert stores.instructions == -(-out.nbytes // WIDE)
    assert loads.instructions == 2 * stores.instructions


@iris.kernel
def scale(X, Out, N, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    x = iris.load(X + at, mask=at < N)
    iris.store(Out + at, x.to(iris.f32) * 0.5, mask=at < N)


@pytest.mark.parametrize("dtype", [F16, I8])
def test_tiles_of_several_dtypes_meet_where_the_widest_has_sixteen_bytes(dtype: Any) -> None:
    x, out = random(4096, dtype), np.zeros(4096, F32)
    counters = count(scale, 4, x, out, 4096, B=1024)
    assert (out == x * F32(0.5)).all()
    stays_in_registers(counters)
    assert not counters.shuffles
    loads, stores = counters.device_loads, counters.device_stores
    assert stores.instructions == loads.instructions == out.nbytes // WIDE
    assert stores.lines == lines(out)
    assert loads.lines == lines(x)


def test_a_ragged_size_is_loaded_wide_but_in_the_last_program() -> None:
    n = 4095
    x, out = random(n), np.zeros(n, F32)
    counters = count(gelu, 4, x, out, n, B=1024)
    stays_in_registers(counters)
    # Three programs are all inside; in the last one each element is checked.
    inside, ragged = 3 * 1024 * 4 // WIDE, 1024 // 32
    assert counters.device_loads.instructions == inside + ragged
    assert counters.device_stores.instructions == inside + ragged
    assert counters.device_loads.lines == counters.device_loads.compulsory_lines == lines(x)
    assert counters.device_stores.lines == lines(out)


def test_what_is_inside_is_not_checked() -> None:
    x = random(4095)
    text = add.lower(x, x.copy(), x.copy(), 4095, B=1024, grid=4).metal
    inside, edge = text.split("} else {")
    assert inside.count("= metal.load") == edge.count("= metal.load") == 2
    assert "mask=" not in inside
    assert edge.count("mask=") == 3
    text = sum_row.lower(random((4, 1000)), x, 1000, B=64, grid=4).metal
    rounds, last = text.split("= metal.load")[1:]
    assert "mask=" not in rounds.splitlines()[0]
    assert "mask=" in last.splitlines()[0]


def test_a_row_is_added_to_each_of_a_block() -> None:
    x, row, out = random((64, 256)), random(256, seed=1), np.zeros((64, 256), F32)
    counters = count(add_row_2d, (4, 2), x, row, out, 64, 256, BM=16, BN=128)
    assert (out == x + row).all()
    stays_in_registers(counters)
    assert counters.device_stores.lines == lines(out)
    assert counters.device_stores.instructions == out.nbytes // WIDE
    # Each of 8 programs loads its part of the row once per simdgroup, the block once in all.
    simdgroups = 8
    assert counters.device_loads.lines == lines(x) + 8 * simdgroups * lines(row) // 2


# Rows: each is one tile, which stays in registers.


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):
    row, cols = iris.program_id(0), iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=cols < N)


@iris.kernel
def layernorm(X, Weight, Bias, Out, N, eps, BLOCK: iris.constexpr):
    row, cols = iris.program_id(0), iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N)
    centred = x - iris.sum(x) / N
    r = iris.rsqrt(iris.sum(centred * centred) / N + eps)
    weight = iris.load(Weight + cols, mask=cols < N)
    bias = iris.load(Bias + cols, mask=cols < N)
    iris.store(Out + row * N + cols, centred * r * weight + bias, mask=cols < N)


@iris.kernel
def rmsnorm(X, Weight, Out, N, eps, BLOCK: iris.constexpr):
    row, cols = iris.program_id(0), iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N)
    r = iris.rsqrt(iris.sum(x * x) / N + eps)
    weight = iris.load(Weight + cols, mask=cols < N)
    iris.store(Out + row * N + cols, x * r * weight, mask=cols < N)


ROWS = 64
# A row of 1000 starts in the middle of a line three times out of four.  Its 8 accesses of 512
# bytes then touch a line more each, but the last of them, which is shorter.
ROW_LINES = {1024: ROWS * 32, 1000: ROWS // 4 * 32 + 3 * ROWS // 4 * (32 + 7)}


def barriers_of(counters: Counters, simdgroups: int, reductions: int) -> None:
    """One simdgroup needs none.  Several meet once for each reduction, which is the fewest: what
    comes of it depends on what each has, and the next one on what comes of it."""
    assert dict(counters.barriers) == (
        {} if simdgroups == 1 else {"threadgroup": reductions * ROWS}
    )
    assert counters.threadgroup_loads.conflicts == counters.threadgroup_stores.conflicts == 0
    # Within a simdgroup a sum takes the five shuffles that 32 lanes need.
    assert dict(counters.shuffles) == {"shuffle_xor": 5 * reductions * simdgroups * ROWS}


@pytest.mark.parametrize("simdgroups", [1, 2, 4, 8])
@pytest.mark.parametrize("n", [1024, 1000])
def test_softmax(n: int, simdgroups: int) -> None:
    x, out = random((ROWS, n)), np.zeros((ROWS, n), F32)
    counters = count(softmax, ROWS, x, out, n, BLOCK=1024, num_simdgroups=simdgroups)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1100 * 2.0**-24)
    for traffic in (counters.device_loads, counters.device_stores):
        assert traffic.bytes == x.nbytes
        assert traffic.compulsory_lines == lines(x)
        assert traffic.lines == ROW_LINES[n]
        assert traffic.instructions == ROWS * 1024 * 4 // WIDE
    # One exponential for each element of the tile, of which a few are outside.
    assert dict(counters.transcendentals) == {"exp": ROWS * 1024}
    barriers_of(counters, simdgroups, reductions=2)


@pytest.mark.parametrize("simdgroups", [1, 4])
@pytest.mark.parametrize("n", [1024, 1000])
def test_layernorm(n: int, simdgroups: int) -> None:
    x, weight, bias, out = random((ROWS, n)), random(n), random(n, seed=1), np.zeros((ROWS, n), F32)
    named = {"BLOCK": 1024, "num_simdgroups": simdgroups}
    counters = count(layernorm, ROWS, x, weight, bias, out, n, 1e-5, **named)
    # Weight and bias, which start at a line, once by each program.
    assert counters.device_loads.lines == ROW_LINES[n] + ROWS * lines(weight, bias)
    assert counters.device_stores.lines == ROW_LINES[n]
    assert counters.device_loads.instructions == 3 * counters.device_stores.instructions
    assert counters.device_stores.instructions == ROWS * 1024 * 4 // WIDE
    barriers_of(counters, simdgroups, reductions=2)


@pytest.mark.parametrize("simdgroups", [1, 4])
@pytest.mark.parametrize("n", [1024, 1000])
def test_rmsnorm(n: int, simdgroups: int) -> None:
    x, weight, out = random((ROWS, n)), random(n), np.zeros((ROWS, n), F32)
    named = {"BLOCK": 1024, "num_simdgroups": simdgroups}
    counters = count(rmsnorm, ROWS, x, weight, out, n, 1e-5, **named)
    assert counters.device_loads.lines == ROW_LINES[n] + ROWS * lines(weight)
    assert counters.device_stores.lines == ROW_LINES[n]
    assert counters.device_loads.instructions == 2 * counters.device_stores.instructions
    barriers_of(counters, simdgroups, reductions=1)


@iris.kernel
def moments(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N, other=0.0)
    mean = iris.sum(x) / N
    iris.store(Out + row, iris.sum(x * x) / N - mean * mean)


@iris.kernel
def argmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    iris.store(Out + row, iris.argmax(iris.load(X + row * N + cols, mask=cols < N)))


@pytest.mark.parametrize("kernel", [moments, argmax])
def test_two_values_of_a_row_share_a_barrier(kernel: Any) -> None:
    """Two sums, and an extremum with its place."""
    x = random((ROWS, 1000))
    expected = x.var(1) if kernel is moments else x.argmax(1)
    out = np.zeros(ROWS, F32 if kernel is moments else np.int32)
    counters = count(kernel, ROWS, x, out, 1000, BLOCK=1024, num_simdgroups=4)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert dict(counters.barriers) == {"threadgroup": ROWS}
    assert dict(counters.shuffles) == {"shuffle_xor": 2 * 5 * 4 * ROWS}


def test_two_values_of_a_function_of_arrays_share_a_barrier() -> None:
    x, device = random((ROWS, 1000)), Counting()
    least = iris.jit(lambda x: np.argmin(x, axis=1))(x, device=device)
    np.testing.assert_array_equal(least, x.argmin(1))
    assert dict(device.counters.barriers) == {"threadgroup": ROWS}


@iris.kernel
def softmax_rows(X, Out, M, N, BM: iris.constexpr, BN: iris.constexpr):
    rows, cols = iris.program_id(0) * BM + iris.arange(0, BM), iris.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offsets = rows[:, None] * N + cols[None, :]
    x = iris.load(X + offsets, mask=mask)
    e = iris.exp(x - iris.max(x, axis=1, keepdims=True))
    iris.store(Out + offsets, e / iris.sum(e, axis=1, keepdims=True), mask=mask)


@pytest.mark.parametrize("simdgroups", [1, 4])
def test_rows_that_a_simdgroup_holds_are_summed_without_barriers(simdgroups: int) -> None:
    x, out = random((64, 128)), np.zeros((64, 128), F32)
    named = {"BM": 8, "BN": 128, "num_simdgroups": simdgroups}
    counters = count(softmax_rows, 8, x, out, 64, 128, **named)
    stays_in_registers(counters)
    for traffic in (counters.device_loads, counters.device_stores):
        assert traffic.lines == traffic.compulsory_lines == lines(x)
        assert traffic.instructions == x.nbytes // WIDE
    assert dict(counters.transcendentals) == {"exp": x.size}


# Transposes.


@iris.kernel
def transpose(X, Out, M, N, B: iris.constexpr):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    iris.tile_store(Out, j, i, M, iris.tile_load(X, i, j, N, (B, B)).T)


@pytest.mark.parametrize("simdgroups", [1, 4])
@pytest.mark.parametrize("block", [32, 64])
def test_a_transpose_is_coalesced_on_both_sides_and_has_no_bank_conflicts(
    block: int, simdgroups: int
) -> None:
    x, out = random((128, 256)), np.zeros((256, 128), F32)
    grid = (128 // block, 256 // block)
    counters = count(transpose, grid, x, out, 128, 256, B=block, num_simdgroups=simdgroups)
    assert (out == x.T).all()
    for traffic in (counters.device_loads, counters.device_stores):
        assert traffic.lines == traffic.compulsory_lines == lines(x)
        assert traffic.instructions == x.nbytes // WIDE
    for side in (counters.threadgroup_loads, counters.threadgroup_stores):
        assert side.bytes == x.nbytes
        assert side.conflicts == 0
    # Between writing and reading, which for one simdgroup is no matter of the threadgroup.
    scope = "simdgroup" if simdgroups == 1 else "threadgroup"
    assert dict(counters.barriers) == {scope: grid[0] * grid[1]}


@pytest.mark.parametrize("dtype", [F16, I8])
def test_a_transpose_of_smaller_elements(dtype: Any) -> None:
    x, out = random((128, 256), dtype), np.zeros((256, 128), dtype)
    block = 128 // x.itemsize  # a line
    counters = count(transpose, (128 // block, 256 // block), x, out, 128, 256, B=block)
    assert (out == x.T).all()
    for traffic in (counters.device_loads, counters.device_stores):
        assert traffic.lines == traffic.compulsory_lines == lines(x)
    for side in (counters.threadgroup_loads, counters.threadgroup_stores):
        assert side.conflicts == 0


# Products.


@iris.kernel
def product(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    acc = iris.zeros((BM, BN), dtype="f32")
    for k in iris.tile_range(0, K, BK):
        a = iris.tile_load(A, i, k, K, (BM, BK))
        acc = iris.dot(a, iris.tile_load(B, k, j, N, (BK, BN)), acc)
    iris.tile_store(C, i, j, N, acc, (BM, BN))


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_a_product_moves_its_tiles_by_sixteen_bytes(dtype: Any) -> None:
    n = 128
    a, b, c = random((n, n), dtype), random((n, n), dtype, 1), np.zeros((n, n), F32)
    named = {"BM": 64, "BN": 64, "BK": 32, "num_simdgroups": 4}
    counters = count(product, (2, 2), a, b, c, n, n, n, **named)
    assert (c == a.astype(F32) @ b.astype(F32)).all()
    # Each program loads its rows of A and its columns of B once; others of the same do, too.
    moved = 2 * (a.nbytes + b.nbytes)
    loads, staged = counters.device_loads, counters.threadgroup_stores
    assert loads.bytes == staged.bytes == moved
    assert loads.instructions == staged.instructions == moved // WIDE
    # A row of a block of A is half a line, or a quarter of it.
    assert loads.lines == 2 * (n * n // 32 + b.nbytes // 128)
    assert staged.conflicts == counters.threadgroup_loads.conflicts == 0
    assert counters.mmas == n**3 // 512


# One simdgroup.


@iris.kernel
def cumsum_rows(X, Out, N: iris.constexpr):
    x = iris.tile_load(X, 0, 0, N, (N, N))
    iris.tile_store(Out, 0, 0, N, iris.cumsum(x, axis=0) + iris.sum(x) + iris.argmax(x, axis=1))


@iris.kernel
def histogram(X, Bins, Old, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Old + at, iris.atomic_add(Bins + iris.load(X + at), 1))


def test_one_simdgroup_never_waits_for_a_threadgroup() -> None:
    x, out = random((32, 32)), np.zeros((32, 32), F32)
    counters = count(cumsum_rows, 1, x, out, N=32, num_simdgroups=1)
    assert (out == x.cumsum(0) + x.sum() + x.argmax(1)).all()
    assert "threadgroup" not in counters.barriers
    x, bins, old = random(256, np.int32) + 4, np.zeros(9, np.int32), np.zeros(256, np.int32)
    counters = count(histogram, 4, x, bins, old, B=64, num_simdgroups=1)
    assert (bins == np.bincount(x, minlength=9)).all()
    assert "threadgroup" not in counters.barriers


# Limits.


def refused(kernel: Any, *arguments: Any, **named: Any) -> OutOfResources:
    with pytest.raises(OutOfResources) as caught:
        count(kernel, 1, *arguments, **named)
    assert caught.value.spot is not None
    assert Path(caught.value.spot.file) == Path(__file__)
    return caught.value


@iris.kernel
def turned(X, Out, N, B: iris.constexpr):
    x = iris.cumsum(iris.tile_load(X, 0, 0, N, (B, B)), axis=1)
    iris.tile_store(Out, 0, 0, N, x + iris.cumsum(x.T, axis=1))


def test_too_much_threadgroup_memory() -> None:
    x = random((128, 128))
    error = refused(turned, x, np.zeros_like(x), 128, B=128)
    assert error.message.startswith(
        "@turned needs 65536 bytes of threadgroup memory, 32768 more than there are; "
        "use smaller tiles.\nThe most take\n"
    )
    assert f"threadgroup<16384xf32>: 65536 ({__file__}:{error.spot.line})" in error.message
    assert "iris.tile_store(Out" in (error.spot.source or "")


def test_what_is_turned_over_without_room_is_stored_as_it_is() -> None:
    x, out = random((128, 128)), np.zeros((128, 128), F32)
    stays_in_registers(count(transpose, 1, x, out, 128, 128, B=128))
    assert (out == x.T).all()


def test_a_tile_too_large_for_the_registers() -> None:
    x = random(1 << 19)
    error = refused(softmax, x, np.zeros_like(x), x.size, BLOCK=x.size)
    assert "more than are bearable where 128 fit in registers" in error.message
    assert "use smaller tiles or more simdgroups" in error.message
    assert "x, regs<512xf32>: 512" in error.message
    assert any(line in (error.spot.source or "") for line in ("x = iris.load", "e = iris.exp"))
    # With fewer threads a smaller one is too large; the default has enough.
    x = random(16384)
    refused(softmax, x, np.zeros_like(x), 16384, BLOCK=16384, num_simdgroups=1)
    count(softmax, 1, x, np.zeros_like(x), 16384, BLOCK=16384)


def test_all_the_threads_there_may_be() -> None:
    """More than 32 simdgroups cannot be asked for, so that there are never too many threads."""
    x, out = random(4096), np.zeros(4096, F32)
    counters = count(add, 1, x, x, out, 4096, B=4096, num_simdgroups=32)
    assert counters.device_stores.instructions == 4096 * 4 // WIDE
    with pytest.raises(iris.errors.ArgumentError, match="a power of two from 1 to 32, not 64"):
        count(add, 1, x, x, out, 4096, B=4096, num_simdgroups=64)
