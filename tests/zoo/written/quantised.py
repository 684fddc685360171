"""Kernels in the style of those that store weights in few bits: 4-bit products, dequantisation,
and quantisation by rows, by blocks and by tokens."""

import numpy as np
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

BITS: tl.constexpr = tl.constexpr(4)
MOST_INT8 = tl.constexpr(127.0)
SHIFTS_OF_8: tl.constexpr = 8


@triton.jit
def interleaved_nibbles(
    packed, scales, zeros, out, columns, rows, group,
    BLOCK_X: tl.constexpr, BLOCK_Y: tl.constexpr,
):  # fmt: skip
    pid_x = tl.program_id(axis=0)
    pid_y = tl.program_id(axis=1)
    offsets_y = pid_y * BLOCK_Y + tl.arange(0, BLOCK_Y)
    offsets_x = pid_x * BLOCK_X + tl.arange(0, BLOCK_X)
    offsets = columns * offsets_y[:, None] + offsets_x[None, :]
    masks = (offsets_y < rows)[:, None] & (offsets_x < columns)[None, :]
    result_x = pid_x * BLOCK_X * 8 + tl.arange(0, BLOCK_X * 8)
    result_offsets = 8 * columns * offsets_y[:, None] + result_x[None, :]
    result_masks = (offsets_y < rows)[:, None] & (result_x < columns * 8)[None, :]
    words = tl.load(packed + offsets, masks, 0.0)
    words = tl.interleave(words, words)
    words = tl.interleave(words, words)
    words = tl.interleave(words, words)
    order = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8)
    shifts = order * 4
    shifts = tl.broadcast_to(shifts[None, :], (BLOCK_Y * BLOCK_X, 8))
    shifts = tl.reshape(shifts, (BLOCK_Y, BLOCK_X * 8))
    words = (words >> shifts) & 0xF
    zero_y = pid_y * BLOCK_Y // group + tl.arange(0, 1)
    zero_masks = (zero_y < rows // group)[:, None] & (offsets_x < columns)[None, :]
    zero = tl.load(zeros + columns * zero_y[:, None] + offsets_x[None, :], zero_masks, 0.0)
    zero = tl.interleave(zero, zero)
    zero = tl.interleave(zero, zero)
    zero = tl.interleave(zero, zero)
    zero = tl.broadcast_to(zero, (BLOCK_Y, BLOCK_X * 8))
    zero = (zero >> shifts) & 0xF
    scale_masks = (zero_y < rows // group)[:, None] & (result_x < columns * 8)[None, :]
    scale = tl.load(scales + columns * 8 * zero_y[:, None] + result_x[None, :], scale_masks, 0.0)
    scale = tl.broadcast_to(scale, (BLOCK_Y, BLOCK_X * 8))
    words = (words - zero) * scale
    words = words.to(out.type.element_ty)
    tl.store(out + result_offsets, words, result_masks)


@triton.jit
def grouped_product(
    a_ptr, b_ptr, c_ptr, scales_ptr, zeros_ptr, g_ptr, M, N, K, bits, maxq,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, stride_scales, stride_zeros,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    infearure_per_bits = 32 // bits
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_k = tl.cdiv(K, BLOCK_K)
    num_pid_in_group = GROUP_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + (pid % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_bn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    a_mask = offs_am[:, None] < M
    b_ptrs = b_ptr + (
        (offs_k[:, None] // infearure_per_bits) * stride_bk + offs_bn[None, :] * stride_bn
    )
    g_ptrs = g_ptr + offs_k
    scales_ptrs = scales_ptr + offs_bn[None, :]
    zeros_ptrs = zeros_ptr + (offs_bn[None, :] // infearure_per_bits)
    shifter = (offs_k % infearure_per_bits) * bits
    zeros_shifter = (offs_bn % infearure_per_bits) * bits
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(num_pid_k):
        g_idx = tl.load(g_ptrs)
        scales = tl.load(scales_ptrs + g_idx[:, None] * stride_scales)
        zeros = tl.load(zeros_ptrs + g_idx[:, None] * stride_zeros)
        zeros = (zeros >> zeros_shifter[None, :]) & maxq
        zeros = zeros + 1
        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = tl.load(b_ptrs)
        b = (b >> shifter[:, None]) & maxq
        b = (b - zeros) * scales
        accumulator += tl.dot(a, b.to(a.dtype))
        a_ptrs += BLOCK_K
        b_ptrs += (BLOCK_K // infearure_per_bits) * stride_bk
        g_ptrs += BLOCK_K
    c = accumulator.to(tl.float16)
    c_ptrs = c_ptr + stride_cm * offs_am[:, None] + stride_cn * offs_bn[None, :]
    c_mask = (offs_am[:, None] < M) & (offs_bn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@triton.jit
def quantised_rows(x_ptr, q_ptr, scale_ptr, stride_x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    greatest = tl.maximum(tl.max(tl.abs(x)), 1e-10)
    scale = greatest / MOST_INT8
    q = x * (MOST_INT8 / greatest)
    q = libdevice.round(q).to(tl.int8)
    tl.store(q_ptr + row * n + cols, q, mask=mask)
    tl.store(scale_ptr + row, scale)


@triton.jit
def quantised_groups(
    y_ptr, y_q_ptr, y_s_ptr, group_size, num_columns, row_stride, eps,
    int8_min: tl.constexpr, int8_max: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    groups_per_row = num_columns // group_size
    g_id = tl.program_id(0)
    row = g_id // groups_per_row
    row_g_id = g_id % groups_per_row
    y_ptr += (row.to(tl.int64) * row_stride) + (row_g_id.to(tl.int64) * group_size)
    y_q_ptr += g_id.to(tl.int64) * group_size
    y_s_ptr += g_id
    cols = tl.arange(0, BLOCK)
    mask = cols < group_size
    y = tl.load(y_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    _absmax = tl.maximum(tl.max(tl.abs(y)), eps)
    y_s = _absmax / int8_max
    y_q = tl.clamp(y / y_s, int8_min, int8_max).to(y_q_ptr.dtype.element_ty)
    tl.store(y_q_ptr + cols, y_q, mask=mask)
    tl.store(y_s_ptr, y_s)


@triton.jit
def block_scaled_product(
    A, B, C, As, Bs, M, N, K, group_n, group_k,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_as_m, stride_as_k, stride_bs_k, stride_bs_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = A + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = B + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    as_ptrs = As + offs_am * stride_as_m
    bs_ptrs = Bs + (offs_bn // group_n) * stride_bs_n
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        offs_ks = k * BLOCK_K // group_k
        a_s = tl.load(as_ptrs + offs_ks * stride_as_k)
        b_s = tl.load(bs_ptrs + offs_ks * stride_bs_k)
        accumulator += tl.dot(a, b).to(tl.float32) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if C.dtype.element_ty == tl.bfloat16:
        c = accumulator.to(tl.bfloat16)
    elif C.dtype.element_ty == tl.float16:
        c = accumulator.to(tl.float16)
    else:
        c = accumulator.to(tl.float32)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = C + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@triton.jit
def looked_up_nibbles(code, packed, absmax, out, n, BLOCKSIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    byte = tl.load(packed + at, mask=at < (n + 1) // 2, other=0)
    high = tl.load(code + (byte >> 4))
    low = tl.load(code + (byte & 0xF))
    both = tl.join(high, low).reshape(2 * BLOCK)
    to = tl.program_id(0) * BLOCK * 2 + tl.arange(0, 2 * BLOCK)
    scale = tl.load(absmax + to // BLOCKSIZE, mask=to < n)
    tl.store(out + to, (both * scale).to(tl.float16), mask=to < n)


@triton.jit
def packed_columns(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    word = tl.zeros((BLOCK,), dtype=tl.int32)
    at = tl.arange(0, BLOCK)
    for i in tl.static_range(0, SHIFTS_OF_8):
        part = tl.load(x + row * columns + at * 8 + i, mask=at * 8 + i < columns, other=0)
        word |= (part.to(tl.int32) & 0xF) << (i * BITS)
    tl.store(out + row * ((columns + 7) // 8) + at, word, mask=at * 8 < columns)


@triton.jit
def unpacked_mixed(w1, w2, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(w1 + at, mask=at < n)
    b = tl.load(w2 + at, mask=at < n)
    signed = (a << 4).to(tl.int8) >> 4
    half = b.to(tl.float16, bitcast=True)
    bits = (a.to(tl.uint8, bitcast=True).to(tl.uint32) << 23).to(tl.float32, bitcast=True)
    bits = tl.where(bits == bits, bits, 0.0)
    tl.store(out + at, signed.to(tl.float32) + half + tl.minimum(bits, 8.0), mask=at < n)


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _words(rng, *shape):
    return rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "interleaved_nibbles": ((2, 3), lambda rng: {
        "packed": _words(rng, 20, 3), "scales": _floats(rng, 2, 24), "zeros": _words(rng, 2, 3),
        "out": np.zeros((20, 24), np.float32), "columns": 3, "rows": 20, "group": 10,
        "BLOCK_X": 2, "BLOCK_Y": 8,
    }),
    "grouped_product": ((4,), lambda rng: {
        "a_ptr": _floats(rng, 19, 64).astype(np.float16), "b_ptr": _words(rng, 8, 32),
        "c_ptr": np.zeros((19, 32), np.float16), "scales_ptr": _floats(rng, 4, 32) / 8,
        "zeros_ptr": _words(rng, 4, 4), "g_ptr": np.sort(rng.integers(0, 4, 64)).astype(np.int32),
        "M": 19, "N": 32, "K": 64, "bits": 4, "maxq": 15, "stride_am": 64, "stride_ak": 1,
        "stride_bk": 32, "stride_bn": 1, "stride_cm": 32, "stride_cn": 1, "stride_scales": 32,
        "stride_zeros": 4, "BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32, "GROUP_M": 2,
    }),
    "quantised_rows": ((5,), lambda rng: {
        "x_ptr": _floats(rng, 5, 37).astype(np.float16), "q_ptr": np.zeros((5, 37), np.int8),
        "scale_ptr": np.zeros(5, np.float32), "stride_x": 37, "n": 37, "BLOCK": 64,
    }),
    "quantised_groups": ((9,), lambda rng: {
        "y_ptr": _floats(rng, 3, 37), "y_q_ptr": np.zeros((9, 12), np.int8),
        "y_s_ptr": np.zeros(9, np.float32), "group_size": 12, "num_columns": 36, "row_stride": 37,
        "eps": 1e-10, "int8_min": -128.0, "int8_max": 127.0, "BLOCK": 16,
    }),
    "block_scaled_product": ((2, 2), lambda rng: {
        "A": rng.integers(-128, 128, (20, 50)).astype(np.int8),
        "B": rng.integers(-128, 128, (50, 24)).astype(np.int8), "C": np.zeros((20, 24), np.float32),
        "As": _floats(rng, 20, 2), "Bs": _floats(rng, 2, 3), "M": 20, "N": 24, "K": 50,
        "group_n": 8, "group_k": 32, "stride_am": 50, "stride_ak": 1, "stride_bk": 24,
        "stride_bn": 1, "stride_cm": 24, "stride_cn": 1, "stride_as_m": 2, "stride_as_k": 1,
        "stride_bs_k": 3, "stride_bs_n": 1, "BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32,
    }),
    "looked_up_nibbles": ((3,), lambda rng: {
        "code": _floats(rng, 16), "packed": rng.integers(0, 256, 37).astype(np.uint8),
        "absmax": np.abs(_floats(rng, 10)), "out": np.zeros(73, np.float16), "n": 73,
        "BLOCKSIZE": 8, "BLOCK": 16,
    }),
    "packed_columns": ((3,), lambda rng: {
        "x": rng.integers(0, 16, (3, 52)).astype(np.uint8), "out": np.zeros((3, 7), np.int32),
        "rows": 3, "columns": 52, "BLOCK": 8,
    }),
    "unpacked_mixed": ((2,), lambda rng: {
        "w1": rng.integers(-128, 128, 50).astype(np.int8),
        "w2": _floats(rng, 50).astype(np.float16).view(np.int16), "out": np.zeros(50, np.float32),
        "n": 50, "BLOCK": 32,
    }),
}  # fmt: skip
