"""Kernels whose programs share work in uncommon ways: persistent ones, split products, locks,
pointers that are chosen, and arguments that are tuples."""

from typing import NamedTuple

import numpy as np
import triton
import triton.language as tl

NUM_STAGES = tl.constexpr(2)


class Pair(NamedTuple):
    first: tl.tensor
    second: tl.tensor


@triton.jit
def tile_of(tile_id, tiles_m, tiles_n, GROUP: tl.constexpr):
    return tl.swizzle2d(tile_id // tiles_n, tile_id % tiles_n, tiles_m, tiles_n, GROUP)


@triton.jit
def persistent_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0)
    programs = tl.num_programs(axis=0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile_id in tl.range(
        first, tiles_m * tiles_n, programs, flatten=True, warp_specialize=False
    ):
        pid_m, pid_n = tile_of(tile_id, tiles_m, tiles_n, GROUP)
        offs_m = pid_m * BM + tl.arange(0, BM)
        offs_n = pid_n * BN + tl.arange(0, BN)
        rows = tl.where(offs_m < M, offs_m, 0)
        columns = tl.where(offs_n < N, offs_n, 0)
        rows = tl.max_contiguous(tl.multiple_of(rows, BM), BM)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in tl.range(0, tl.cdiv(K, BK), num_stages=NUM_STAGES, loop_unroll_factor=2):
            offs_k = k * BK + tl.arange(0, BK)
            a = tl.load(
                a_ptr + rows[:, None] * stride_am + offs_k[None, :] * stride_ak,
                mask=offs_k[None, :] < K, other=0.0,
            )  # fmt: skip
            b = tl.load(
                b_ptr + offs_k[:, None] * stride_bk + columns[None, :] * stride_bn,
                mask=offs_k[:, None] < K, other=0.0,
            )  # fmt: skip
            acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=tl.float32)
        c = acc.to(c_ptr.type.element_ty)
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn, c, mask=mask)


@triton.jit
def described_product(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = a_desc.load([row, k * BK])
        b = b_desc.load([column, k * BK])
        acc = tl.dot(a, b.T, acc, input_precision="ieee")
    c_desc.store([row, column], acc.to(tl.float32))


def cleared(arguments):
    arguments["c_ptr"][...] = 0


@triton.autotune(
    configs=[triton.Config({"BK": 16, "SPLIT": 3}, num_warps=4, num_stages=2, pre_hook=cleared)],
    key=["M", "N", "K"],
)
@triton.jit
def split_product(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SPLIT: tl.constexpr,
):
    pid, pid_k = tl.program_id(0), tl.program_id(1)
    tiles_n = tl.cdiv(N, BN)
    rm = (pid // tiles_n) * BM + tl.arange(0, BM)
    rn = (pid % tiles_n) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(pid_k, tl.cdiv(K, BK), SPLIT):
        rk = k * BK + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rm[:, None] * K + rk[None, :], (rm < M)[:, None] & (rk < K)[None, :], 0.0
        )
        b = tl.load(
            b_ptr + rk[:, None] * N + rn[None, :], (rk < K)[:, None] & (rn < N)[None, :], 0.0
        )
        acc += tl.dot(a, b, input_precision="ieee")
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    tl.atomic_add(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=mask, sem="relaxed", scope="gpu")


@triton.jit
def locked_sum(x, out, locks, counts, n, groups, BLOCK: tl.constexpr):
    """Programs add to one of several sums, each in turn; the first one writes."""
    row = tl.program_id(0)
    group = row % groups
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    part = tl.load(x + row * n + cols, mask=mask, other=0.0)
    lock = locks + group
    count = counts + group
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(out + group * n + cols, mask=mask)
    tl.store(out + group * n + cols, part, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def greatest_of_all(x, out, least, last, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask, other=float("-inf"))
    tl.atomic_max(out, tl.max(value, axis=0))
    tl.atomic_min(least + at % 4, tl.where(mask, value, float("inf")), mask=mask)
    tl.atomic_xchg(last + at, tl.where(mask, value * 16, 0).to(tl.int32), mask=mask)


@triton.jit
def gathered_from(a, b, c, which, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    array = tl.load(which + at, mask=mask, other=0)
    source = a + at * 0
    source = tl.where(array == 1, b, source)
    source = tl.where(array == 2, c, source)
    value = tl.load(source + at, mask=mask, other=0.0)
    half = tl.load(tl.where(at % 2 == 0, a + at // 2, a + 3), mask=mask, other=0.0)
    tl.store(out + at, value + 2 * half, mask=mask)


@triton.jit
def scattered_to(x, a, b, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    target = tl.where(row % 2 == 0, a, b) + (row // 2) * n
    value = tl.load(x + row * n + cols, mask=cols < n)
    for _ in range(2):
        tl.store(target + cols, value, mask=cols < n)
        target += 3 * n
    tl.atomic_add(tl.where(cols < 2, a, b) + cols + 6 * n, value, mask=cols < n)


@triton.jit
def chosen_by_branch(a, b, c, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    if pid == 0:
        source = a
        scale = 1.0
    elif pid == 1:
        source = b + n
        scale = 2.0
    else:
        source = c
        scale = 3.0
    source += cols
    tl.store(out + pid * n + cols, tl.load(source, mask=cols < n) * scale, mask=cols < n)


@triton.jit
def summed(values, scales, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(len(values)):
        total += tl.load(values[i] + at) * scales[i]
    return Pair(total, total * 2)


@triton.jit
def of_tuples(values, scales, out, BLOCK: tl.constexpr):
    pair = summed(values, scales, BLOCK)
    at = tl.arange(0, BLOCK)
    first, second = pair
    tl.store(out + at, first + pair.second)
    tl.store(out + BLOCK + at, second)


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "persistent_product": ((4,), lambda rng: {
        "a_ptr": _floats(rng, 50, 37).astype(np.float16),
        "b_ptr": _floats(rng, 37, 41).astype(np.float16), "c_ptr": np.zeros((50, 41), np.float16),
        "M": 50, "N": 41, "K": 37, "stride_am": 37, "stride_ak": 1, "stride_bk": 41,
        "stride_bn": 1, "stride_cm": 41, "stride_cn": 1, "BM": 16, "BN": 16, "BK": 16, "GROUP": 3,
    }),
    "described_product": ((3, 2), lambda rng: {
        "a_ptr": _floats(rng, 37, 48), "b_ptr": _floats(rng, 32, 48),
        "c_ptr": np.zeros((37, 32), np.float32), "M": 37, "N": 32, "K": 48, "BM": 16, "BN": 16,
        "BK": 16,
    }),
    "split_product": ((4, 3), lambda rng: {
        "a_ptr": _floats(rng, 20, 70), "b_ptr": _floats(rng, 70, 20),
        "c_ptr": np.full((20, 20), 9, np.float32), "M": 20, "N": 20, "K": 70, "BM": 16, "BN": 16,
    }),
    "locked_sum": ((7,), lambda rng: {
        "x": rng.integers(-9, 9, (7, 20)).astype(np.float32), "out": np.zeros((2, 20), np.float32),
        "locks": np.zeros(2, np.int32), "counts": np.zeros(2, np.int32), "n": 20, "groups": 2,
        "BLOCK": 32,
    }),
    "greatest_of_all": ((3,), lambda rng: {
        "x": _floats(rng, 75), "out": np.full(1, -1e30, np.float32),
        "least": np.full(4, 1e30, np.float32), "last": np.zeros(75, np.int32), "n": 75,
        "BLOCK": 32,
    }),
    "gathered_from": ((2,), lambda rng: {
        "a": _floats(rng, 50), "b": _floats(rng, 50), "c": _floats(rng, 50),
        "which": rng.integers(0, 3, 50).astype(np.int32), "out": np.zeros(50, np.float32), "n": 50,
        "BLOCK": 32,
    }),
    "scattered_to": ((5,), lambda rng: {
        "x": rng.integers(-9, 9, (5, 11)).astype(np.float32), "a": np.zeros((7, 11), np.float32),
        "b": np.zeros((7, 11), np.float32), "n": 11, "BLOCK": 16,
    }),
    "chosen_by_branch": ((4,), lambda rng: {
        "a": _floats(rng, 11), "b": _floats(rng, 2, 11), "c": _floats(rng, 11),
        "out": np.zeros((4, 11), np.float32), "n": 11, "BLOCK": 16,
    }),
    "of_tuples": ((1,), lambda rng: {
        "values": (_floats(rng, 16), _floats(rng, 16), _floats(rng, 16)), "scales": (2, 0.5, 3),
        "out": np.zeros(32, np.float32), "BLOCK": 16,
    }),
}  # fmt: skip
