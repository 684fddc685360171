"""Kernels in the style of those that a compiler generates: flat indices, masks of each axis, and
helpers for what reductions combine."""

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.math import rsqrt


@triton.jit
def largest(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def largest_along(x, axis):
    return tl.reduce(x, axis, largest)


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def first_least(value, index, other, other_index):
    wins = value < other
    same = value == other
    wins |= same & (index < other_index)
    return tl.where(wins, value, other), tl.where(wins, index, other_index)


@triton.jit
def joined_moments(mean, m2, weight, other_mean, other_m2, other_weight):
    delta = other_mean - mean
    total = weight + other_weight
    part = tl.where(total == 0.0, 0.0, other_weight / total)
    return mean + delta * part, m2 + other_m2 + delta * delta * weight * part, total


@triton.jit
def moments_with(value, mean, m2, weight, is_first):
    if is_first:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight


@triton.jit
def pointwise_embedding(ids, table, bias, out, xnumel, XBLOCK: tl.constexpr):
    xnumel = 96
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 12
    x0 = xindex % 12
    x2 = xindex
    tmp0 = tl.load(ids + (x1), xmask, eviction_policy="evict_last")
    tmp3 = tl.load(bias + (x0), xmask, eviction_policy="evict_last").to(tl.float32)
    tmp1 = tl.full([XBLOCK], 7, tl.int32)
    tmp2 = tmp0 + tmp1
    tmp4 = tmp0 < 0
    tmp5 = tl.where(tmp4, tmp2, tmp0)
    tl.device_assert(((tmp5 >= 0) & (tmp5 < 7)) | ~(xmask), "index out of bounds: 0 <= tmp5 < 7")
    tmp6 = tl.load(table + (x0 + 12 * tmp5), xmask)
    tmp7 = tmp6 + tmp3
    tmp8 = tl.full([1], 0, tl.int32)
    tmp9 = largest(tmp8, tmp7)
    tl.store(out + (x2), tmp9, xmask)


@triton.jit
def persistent_softmax(in_out, scale, xnumel, rnumel, XBLOCK: tl.constexpr):
    RBLOCK: tl.constexpr = 32
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, RBLOCK)[None, :]
    rmask = rindex < rnumel
    r1 = rindex
    x0 = xindex
    tmp0 = tl.load(in_out + (r1 + rnumel * x0), rmask & xmask, other=0.0)
    tmp1 = tl.load(scale + (0))
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, RBLOCK])
    tmp3 = tmp0 * tmp2
    tmp4 = tl.broadcast_to(tmp3, [XBLOCK, RBLOCK])
    tmp6 = tl.where(rmask & xmask, tmp4, float("-inf"))
    tmp7 = largest_along(tmp6, 1)[:, None]
    tmp8 = tmp3 - tmp7
    tmp9 = tl.exp(tmp8)
    tmp10 = tl.broadcast_to(tmp9, [XBLOCK, RBLOCK])
    tmp12 = tl.where(rmask & xmask, tmp10, 0)
    tmp13 = tl.sum(tmp12, 1)[:, None]
    tmp14 = tmp9 / tmp13
    tl.debug_barrier()
    tl.store(in_out + (r1 + rnumel * x0), tmp14, rmask & xmask)


@triton.jit
def looped_layer_norm(
    x, weight, bias, mean, rstd, out, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr
):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    x0 = xindex
    tmp2_mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    tmp2_m2 = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    tmp2_weight = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        r1 = rindex
        tmp0 = tl.load(
            x + (r1 + rnumel * x0), rmask & xmask, eviction_policy="evict_last", other=0.0
        )
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, RBLOCK])
        next_mean, next_m2, next_weight = moments_with(
            tmp1, tmp2_mean, tmp2_m2, tmp2_weight, roffset == 0
        )
        tmp2_mean = tl.where(rmask & xmask, next_mean, tmp2_mean)
        tmp2_m2 = tl.where(rmask & xmask, next_m2, tmp2_m2)
        tmp2_weight = tl.where(rmask & xmask, next_weight, tmp2_weight)
    tmp3, tmp4, tmp5 = tl.reduce((tmp2_mean, tmp2_m2, tmp2_weight), 1, joined_moments)
    tmp3 = tmp3[:, None]
    tmp4 = tmp4[:, None]
    tl.store(mean + (x0), tmp3, xmask)
    tmp7 = tmp4 / rnumel
    tmp9 = libdevice.rsqrt(tmp7 + 1e-05)
    tl.store(rstd + (x0), tmp9, xmask)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        r1 = rindex
        tmp10 = tl.load(
            x + (r1 + rnumel * x0), rmask & xmask, eviction_policy="evict_first", other=0.0
        )
        tmp11 = tl.load(weight + (r1), rmask, eviction_policy="evict_last", other=0.0)
        tmp12 = tl.load(bias + (r1), rmask, eviction_policy="evict_last", other=0.0)
        tl.store(out + (r1 + rnumel * x0), (tmp10 - tmp3) * tmp9 * tmp11 + tmp12, rmask & xmask)


@triton.jit
def argmin_with_index(x, out, best, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, RBLOCK)[None, :]
    rmask = rindex < rnumel
    value = tl.load(x + rindex + rnumel * xindex, rmask & xmask, other=float("inf"))
    index = tl.broadcast_to(rindex, value.shape)
    index = tl.where(rmask, index, 2147483647)
    least, place = tl.reduce((value, index), 1, first_least)
    tl.store(best + xindex, least[:, None], xmask)
    tl.store(out + xindex, place[:, None].to(tl.int64), xmask)


@triton.jit
def scan_of_one(x, out, products, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, RBLOCK)[None, :]
    rmask = rindex < rnumel
    tmp0 = tl.load(x + rindex + rnumel * xindex, rmask & xmask, other=0.0).to(tl.float32)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, RBLOCK])
    (tmp2,) = tl.associative_scan((tmp1,), 1, plus)
    sums, scaled = tl.associative_scan((tmp1, tmp1 * 0.25), 1, pairs_added)
    tl.store(out + rindex + rnumel * xindex, tmp2 + scaled, rmask & xmask)
    tmp3 = tl.reduce(tl.where(rmask, 1 + tmp1 / 8, 1), 1, times)[:, None]
    tl.store(products + xindex, tmp3 + tl.max(sums, 1)[:, None], xmask)


@triton.jit
def pairs_added(a, x, b, y):
    return a + b, x + y


@triton.jit
def bucket_of(value, boundaries, size, BLOCK: tl.constexpr):
    low = tl.zeros([BLOCK], tl.int64)
    high = tl.full([BLOCK], size, tl.int64)
    full = size + 1
    while full > 1:
        middle = (high + low) // 2
        inside = middle < size
        bound = tl.load(boundaries + middle, mask=inside, other=float("inf"))
        above = value > bound
        low = tl.where(above & inside, middle + 1, low)
        high = tl.where(above, high, middle)
        full = (full + 1) // 2
    return low


@triton.jit
def bucketize(x, boundaries, out, n, size: tl.constexpr, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < n
    value = tl.load(x + xindex, xmask)
    tl.store(out + xindex, bucket_of(value, boundaries, size, XBLOCK), xmask)


@triton.jit
def seeded_dropout(seeds, x, out, mask_out, n, which, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < n
    seed = tl.load(seeds + which)
    drawn = tl.rand(seed, xindex.to(tl.uint32))
    keep = (drawn > 0.25).to(tl.float32)
    low, high, _, _ = tl.randint4x(seed, xindex)
    wide = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    number = (wide % 100).to(tl.int64) - 50
    value = tl.load(x + xindex, xmask)
    tl.store(out + xindex, keep * value * 1.3333333 + number.to(tl.float32), xmask)
    tl.store(mask_out + xindex, drawn > 0.25, xmask)


@triton.jit
def activations(x, out, n, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < n
    tmp0 = tl.load(x + xindex, xmask).to(tl.float32)
    gelu = tmp0 * 0.5 * (libdevice.erf(tmp0 * 0.7071067811865476) + 1.0)
    near = 0.5 * tmp0 * (1 + libdevice.tanh(0.7978845608 * (tmp0 + 0.044715 * tmp0 * tmp0 * tmp0)))
    soft = tl.where(tmp0 > 20.0, tmp0, libdevice.log1p(libdevice.exp(tmp0)))
    raised = libdevice.pow(tl.math.abs(tmp0) + 0.5, 1.5)
    whole = libdevice.trunc(tmp0 * 3) + libdevice.nearbyint(tmp0 * 2)
    edges = tl.where(
        libdevice.isinf(tmp0) | libdevice.isnan(tmp0), 0.0, libdevice.expm1(-tl.abs(tmp0))
    )
    signs = tl.where(libdevice.signbit(tmp0) != 0, -1.0, 1.0)
    total = gelu + near + soft + raised + whole + edges + rsqrt(tmp0 * tmp0 + 1) + signs
    total += libdevice.fmod(tmp0, 0.75) + libdevice.hypot(tmp0, 2.0) + libdevice.ceil(tmp0)
    tl.store(out + xindex, total, xmask)


@triton.jit
def concatenated(a, b, c, out, n, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < n
    x0 = xindex % 9
    x1 = xindex // 9
    tmp0 = x0
    tmp3 = tl.full([1], 4, tl.int64)
    tmp4 = tmp0 < tmp3
    tmp5 = tl.load(a + (4 * x1 + (x0)), tmp4 & xmask, eviction_policy="evict_last", other=0.0)
    tmp6 = tmp0 >= tmp3
    tmp7 = tl.full([1], 7, tl.int64)
    tmp8 = tmp0 < tmp7
    tmp9 = tmp6 & tmp8
    tmp10 = tl.load(b + (3 * x1 + ((-4) + x0)), tmp9 & xmask, other=0.0).to(tl.float32)
    tmp11 = tmp10 * 2
    tmp12 = tl.full(tmp11.shape, 0.0, tmp11.dtype)
    tmp13 = tl.where(tmp9, tmp11, tmp12)
    tmp14 = tmp0 >= tmp7
    tmp15 = tl.load(c + (2 * x1 + ((-7) + x0)), tmp14 & xmask, other=0.0).to(tl.int1)
    tmp16 = tmp15.to(tl.float32)
    tl.store(out + (xindex), tl.where(tmp4, tmp5, tl.where(tmp9, tmp13, tmp16)), xmask)


@triton.jit
def any_and_all(x, some, every, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, RBLOCK)[None, :]
    rmask = rindex < rnumel
    bits = tl.load(x + rindex + rnumel * xindex, rmask & xmask).to(tl.int1)
    tmp1 = tl.reduce(tl.where(rmask & xmask, bits, 0).to(tl.int1), 1, either)[:, None]
    tmp2 = tl.reduce(tl.where(rmask & xmask, bits == 0, 0).to(tl.int1), 1, either)[:, None]
    tl.store(some + xindex, tmp1, xmask)
    tl.store(every + xindex, tmp2 == 0, xmask)


@triton.jit
def scattered(index, values, out, n, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < n
    to = tl.load(index + xindex, xmask)
    to = tl.where(to < 0, to + 16, to)
    tl.device_assert((to >= 0) & (to < 16), "index out of bounds", mask=xmask)
    tl.atomic_add(
        out + tl.broadcast_to(to, [XBLOCK]), tl.load(values + xindex, xmask), xmask, sem="relaxed"
    )


@triton.jit
def whole_sum(x, out, count, rnumel, RBLOCK: tl.constexpr):
    rbase = tl.arange(0, RBLOCK)[None, :]
    _total = tl.full([1, RBLOCK], 0, tl.float32)
    _seen = tl.full([1, RBLOCK], 0, tl.int64)
    for roffset in tl.range(0, rnumel, RBLOCK, num_stages=2):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        value = tl.load(x + rindex, rmask, eviction_policy="evict_first", other=0.0)
        kept = value > 0
        _total = tl.where(rmask, _total + tl.where(kept, value, 0), _total)
        _seen = tl.where(rmask, _seen + kept.to(tl.int64), _seen)
    total = tl.sum(_total, 1)[:, None]
    seen = tl.sum(_seen, 1)[:, None]
    tl.store(out + (tl.full([1, 1], 0, tl.int32)), total / seen.to(tl.float32), None)
    tl.store(count + (tl.full([1, 1], 0, tl.int32)), seen, None)


@triton.jit
def product_template(
    A,
    B,
    bias,
    out,
    M,
    N,
    K,
    GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr,
    ALLOW_TF32: tl.constexpr,
    ACC_TYPE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    stride_am = K
    stride_ak = 1
    stride_bk = N
    stride_bn = 1
    pid = tl.program_id(0).to(tl.int64)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * grid_n
    group_id = pid // width
    group_size = min(grid_m - group_id * GROUP_M, GROUP_M)
    pid_m = group_id * GROUP_M + (pid % group_size)
    pid_n = (pid % width) // (group_size)
    tl.assume(pid_m >= 0)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    if (stride_am == 1 and stride_ak == M) or (stride_am == K and stride_ak == 1):
        ram = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    else:
        ram = rm % M
    rbn = rn % N
    rk = tl.arange(0, BLOCK_K)
    A = A + (ram[:, None] * stride_am + rk[None, :] * stride_ak)
    B = B + (rk[:, None] * stride_bk + rbn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)
    for k in range(K, 0, -BLOCK_K):
        if EVEN_K:
            a = tl.load(A)
            b = tl.load(B)
        else:
            a = tl.load(A, mask=rk[None, :] < k, other=0.0)
            b = tl.load(B, mask=rk[:, None] < k, other=0.0)
        acc += tl.dot(a, b, allow_tf32=ALLOW_TF32)
        A += BLOCK_K * stride_ak
        B += BLOCK_K * stride_bk
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    xindex = idx_n + N * idx_m
    tmp0 = tl.load(bias + (tl.broadcast_to(idx_n, acc.shape)), mask, eviction_policy="evict_last")
    tl.store(out + (tl.broadcast_to(xindex, acc.shape)), acc + tmp0, mask)


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _product(rng):
    return {
        "A": _floats(rng, 40, 37), "B": _floats(rng, 37, 23), "bias": _floats(rng, 23),
        "out": np.zeros((40, 23), np.float32), "M": 40, "N": 23, "K": 37, "GROUP_M": 2,
        "EVEN_K": False, "ALLOW_TF32": False, "ACC_TYPE": tl.float32, "BLOCK_M": 16,
        "BLOCK_N": 16, "BLOCK_K": 16,
    }  # fmt: skip


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "pointwise_embedding": ((3,), lambda rng: {
        "ids": rng.integers(-7, 7, 8).astype(np.int64), "table": _floats(rng, 7, 12),
        "bias": _floats(rng, 12).astype(np.float16), "out": np.zeros(96, np.float32), "xnumel": 96,
        "XBLOCK": 32,
    }),
    "persistent_softmax": ((2,), lambda rng: {
        "in_out": _floats(rng, 7, 29), "scale": _floats(rng, 1), "xnumel": 7, "rnumel": 29,
        "XBLOCK": 4,
    }),
    "looped_layer_norm": ((2,), lambda rng: {
        "x": _floats(rng, 3, 75), "weight": _floats(rng, 75), "bias": _floats(rng, 75),
        "mean": np.zeros(3, np.float32), "rstd": np.zeros(3, np.float32),
        "out": np.zeros((3, 75), np.float32), "xnumel": 3, "rnumel": 75, "XBLOCK": 2, "RBLOCK": 32,
    }),
    "argmin_with_index": ((2,), lambda rng: {
        "x": rng.integers(-9, 9, (5, 27)).astype(np.float32), "out": np.zeros(5, np.int64),
        "best": np.zeros(5, np.float32), "xnumel": 5, "rnumel": 27, "XBLOCK": 4, "RBLOCK": 32,
    }),
    "scan_of_one": ((2,), lambda rng: {
        "x": _floats(rng, 3, 13).astype(np.float16), "out": np.zeros((3, 13), np.float32),
        "products": np.zeros(3, np.float32), "xnumel": 3, "rnumel": 13, "XBLOCK": 2, "RBLOCK": 16,
    }),
    "bucketize": ((3,), lambda rng: {
        "x": _floats(rng, 70), "boundaries": np.sort(_floats(rng, 11)),
        "out": np.zeros(70, np.int64), "n": 70, "size": 11, "XBLOCK": 32,
    }),
    "seeded_dropout": ((3,), lambda rng: {
        "seeds": rng.integers(0, 1 << 30, 3), "x": _floats(rng, 75),
        "out": np.zeros(75, np.float32), "mask_out": np.zeros(75, np.bool_), "n": 75, "which": 2,
        "XBLOCK": 32,
    }),
    "activations": ((3,), lambda rng: {
        "x": (3 * _floats(rng, 75)).astype(np.float16), "out": np.zeros(75, np.float32), "n": 75,
        "XBLOCK": 32,
    }),
    "concatenated": ((3,), lambda rng: {
        "a": _floats(rng, 8, 4), "b": _floats(rng, 8, 3).astype(np.float16),
        "c": rng.integers(0, 2, (8, 2)).astype(np.bool_), "out": np.zeros(72, np.float32), "n": 72,
        "XBLOCK": 32,
    }),
    "any_and_all": ((3,), lambda rng: {
        "x": rng.random((5, 9)) < 0.15 * np.arange(1, 6)[:, None] ** 2,
        "some": np.zeros(5, np.bool_), "every": np.zeros(5, np.bool_), "xnumel": 5, "rnumel": 9,
        "XBLOCK": 2, "RBLOCK": 16,
    }),
    "scattered": ((2,), lambda rng: {
        "index": rng.integers(-16, 16, 50), "values": rng.integers(-9, 9, 50).astype(np.float32),
        "out": np.zeros(16, np.float32), "n": 50, "XBLOCK": 32,
    }),
    "whole_sum": ((1,), lambda rng: {
        "x": _floats(rng, 213), "out": np.zeros(1, np.float32), "count": np.zeros(1, np.int64),
        "rnumel": 213, "RBLOCK": 64,
    }),
    "product_template": ((6,), _product),
}  # fmt: skip
