"""Kernels in the style of libraries of operators and of fine-tuning: norms, losses, activations,
selections and random numbers."""

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

MAX_FUSED_SIZE: tl.constexpr = 65536
UNROLL: tl.constexpr = 4
LOG_2_E = tl.constexpr(1.4426950408889634)
MINUS_INF: tl.constexpr = float("-inf")


@triton.jit
def program_of(axis: int) -> tl.tensor:
    return tl.program_id(axis).to(tl.int64)


@triton.jit
def greatest_of(dtype: tl.constexpr):
    if dtype.is_floating():
        return float("inf")
    if dtype.is_int_signed():
        width: tl.constexpr = dtype.int_bitwidth
        return 2 ** (width - 1) - 1
    return 2**dtype.int_bitwidth - 1


@triton.jit
def chunked_losses(
    logits_ptr, logits_row_stride, loss_ptr, logsumexp_ptr, labels_ptr, VOCAB_SIZE: tl.constexpr,
    N_CHUNKS: tl.constexpr, BLOCK_SIZE: tl.constexpr, DO_SOFTCAPPING: tl.constexpr,
    SOFTCAP: tl.constexpr, DO_LOGIT_SCALING: tl.constexpr, LOGIT_SCALE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    chunk_idx = tl.program_id(1)
    logits_ptr += row_idx * tl.cast(logits_row_stride, tl.int64)
    loss_ptr += row_idx
    logsumexp_ptr += row_idx * N_CHUNKS + chunk_idx
    labels_ptr += row_idx
    col_offsets = chunk_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < VOCAB_SIZE
    label_idx = tl.load(labels_ptr).to(tl.int32)
    logits = tl.load(logits_ptr + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)
    if DO_LOGIT_SCALING:
        logits = LOGIT_SCALE * logits
    if DO_SOFTCAPPING:
        logits = SOFTCAP * libdevice.tanh(logits / SOFTCAP)
    c = tl.max(logits, 0)
    logsumexp = c + tl.log(tl.sum(tl.exp(logits - c), 0))
    if chunk_idx == 0:
        if label_idx != -100:
            x = tl.load(logits_ptr + label_idx).to(tl.float32)
            if DO_LOGIT_SCALING:
                x = LOGIT_SCALE * x
            if DO_SOFTCAPPING:
                x = SOFTCAP * libdevice.tanh(x / SOFTCAP)
            loss = -1.0 * x
        else:
            loss = 0.0
        tl.store(loss_ptr, loss)
    tl.store(logsumexp_ptr, logsumexp)


@triton.jit
def gated_gradients(
    DW, e, g, n_elements: tl.constexpr, BLOCK_SIZE: tl.constexpr, LONG_INDEXING: tl.constexpr
):
    block_idx = tl.program_id(0)
    if LONG_INDEXING:
        offsets = block_idx.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE).to(tl.int64)
        n_elements = tl.cast(n_elements, tl.int64)
    else:
        offsets = block_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    DW_row = tl.load(DW + offsets, mask=mask, other=0)
    e_row = tl.load(e + offsets, mask=mask, other=0).to(tl.float32)
    g_row = tl.load(g + offsets, mask=mask, other=0)
    f_partial_row = 0.5 * (tl.math.erf(tl.math.rsqrt(2.0) * e_row) + 1.0)
    f_row = f_partial_row * e_row
    f_row = f_row.to(DW_row.dtype)
    h_row = f_row * g_row
    df_row = DW_row * f_row
    dg_row = DW_row * g_row
    t = 0.3989422804014327
    df_de = f_partial_row + t * e_row * tl.exp(-0.5 * e_row * e_row)
    de_row = dg_row.to(tl.float32) * df_de
    de_row = de_row.to(DW_row.dtype)
    tl.store(DW + offsets, h_row, mask=mask)
    tl.store(e + offsets, df_row, mask=mask)
    tl.store(g + offsets, de_row, mask=mask)


@triton.jit
def rms_norm_backward(
    dY, dY_row_stride, X, X_row_stride, W, r, n_cols: tl.constexpr, GEMMA: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dY += row_idx * dY_row_stride
    X += row_idx * X_row_stride
    r += row_idx
    dY_row = tl.load(dY + col_offsets, mask=mask, other=0).to(tl.float32)
    X_row = tl.load(X + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0).to(tl.float32)
    inv_var = tl.load(r).to(tl.float32)
    normed = X_row * inv_var
    if GEMMA:
        dY_W = dY_row * (W_row + 1.0)
    else:
        dY_W = dY_row * W_row
    rowsum_dY_normed = tl.sum(dY_W * normed, axis=0)
    output = inv_var / n_cols * (n_cols * dY_W - normed * rowsum_dY_normed)
    tl.store(dY + col_offsets, output, mask=mask)


@triton.jit
def joined_variance(mean_1, count_1, m2_1, mean_2, count_2, m2_2):
    count = count_1 + count_2
    safe = tl.maximum(count, 1)
    delta = mean_1 - mean_2
    mean = (mean_1 * count_1 + mean_2 * count_2) / safe
    return mean, count, m2_1 + m2_2 + delta * delta * count_1 * count_2 / safe


@triton.jit(do_not_specialize=["correction"])
def var_mean(X, Var, Mean, M, N, correction, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = program_of(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    X = X + pid * N
    Var = Var + pid
    Mean = Mean + pid
    row_mask = pid < M
    _mean = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    _acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    _count = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for off in range(0, N, BLOCK_N):
        cols = off + tl.arange(0, BLOCK_N)[None, :]
        mask = row_mask and cols < N
        x = tl.load(X + cols, mask, other=0.0).to(tl.float32)
        count = _count + mask
        cnt = tl.maximum(count, 1)
        cur_mean = (_mean * _count + x) / cnt
        _acc += (x - cur_mean) * (x - _mean) * mask
        _mean = tl.where(mask, cur_mean, _mean)
        _count = count
    mean, _, acc = tl.reduce((_mean, _count, _acc), axis=1, combine_fn=joined_variance)
    var = (acc / (N - correction))[:, None]
    tl.store(Mean, mean[:, None], row_mask)
    tl.store(Var, var, row_mask)


@triton.jit
def least_along(inp, out_value, out_index, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m_offset = program_of(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dtype = inp.type.element_ty
    limit: tl.constexpr = greatest_of(dtype)
    acc_type = tl.float32 if dtype is tl.bfloat16 or dtype is tl.float16 else dtype
    min_values = tl.full([BLOCK_M], dtype=acc_type, value=limit)
    argmin_values = tl.full([BLOCK_M], dtype=tl.int64, value=0)
    for start_n in range(0, N, BLOCK_N):
        n_offset = start_n + tl.arange(0, BLOCK_N)
        offset = m_offset[:, None] * N + n_offset[None, :]
        mask = m_offset[:, None] < M and n_offset[None, :] < N
        inp_vals = tl.load(inp + offset, mask=mask, other=limit)
        local_min, local_argmin = tl.min(inp_vals, 1, return_indices=True)
        update = local_min < min_values
        min_values = tl.where(update, local_min, min_values)
        argmin_values = tl.where(update, start_n + local_argmin, argmin_values)
    mask1 = m_offset < M
    tl.store(out_value + m_offset, min_values, mask=mask1)
    tl.store(out_index + m_offset, argmin_values, mask=mask1)


@triton.heuristics(
    values={
        "BLOCK": lambda args: 16 if args["N"] <= 512 else 1024,
        "num_warps": lambda args: 4 if args["N"] <= 512 else 8,
    }
)
@triton.jit(do_not_specialize=["philox_seed", "philox_offset"])
def exponentials(out_ptr, N, lambd, philox_seed, philox_offset, BLOCK: tl.constexpr):
    philox_seed = philox_seed.to(tl.int64)
    philox_offset = philox_offset.to(tl.int64)
    c0 = (philox_offset & 0xFFFFFFFF).to(tl.uint32)
    c1 = ((philox_offset >> 32) & 0xFFFFFFFF).to(tl.uint32)
    i4 = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c0 += i4
    _O = c0 * 0
    r0, r1, r2, r3 = tl.philox(philox_seed, c0, c1, _O, _O)
    inv = -1.0 / lambd
    y0 = inv * tl.log(tl.maximum(tl.uint_to_uniform_float(r0), 1e-7))
    y1 = inv * tl.log(tl.maximum(tl.uint_to_uniform_float(r1), 1e-7))
    y2, y3 = tl.pair_uniform_to_normal(tl.uint_to_uniform_float(r2), tl.uint_to_uniform_float(r3))
    start = tl.program_id(0).to(tl.uint64) * BLOCK * UNROLL
    off_0 = start + tl.arange(0, BLOCK)
    off_1 = off_0 + BLOCK
    off_2 = off_1 + BLOCK
    off_3 = off_2 + BLOCK
    tl.store(out_ptr + off_0, y0, mask=off_0 < N, eviction_policy="evict_first")
    tl.store(out_ptr + off_1, y1, mask=off_1 < N, eviction_policy="evict_first")
    tl.store(out_ptr + off_2, y2, mask=off_2 < N, eviction_policy="evict_first")
    tl.store(out_ptr + off_3, y3, mask=off_3 < N, eviction_policy="evict_first")


@triton.jit
def compacted(x, out, count, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    keep = value != 0
    to = tl.cumsum(keep.to(tl.int32), axis=0) - 1
    tl.store(out + to, at, mask=keep)
    tl.store(count, tl.sum(keep))


@triton.jit
def nearest_upsampled(out, x, N, C, OH, OW, IH, IW, scale_h, scale_w, BLOCK: tl.constexpr):
    idx = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    ow = idx % OW
    oh = idx // OW % OH
    ih = tl.minimum((oh * scale_h).to(tl.int32), IH - 1)
    iw = tl.minimum(tl.math.floor(ow.to(tl.float32) * scale_w).to(tl.int32), IW - 1)
    offset_o = oh * OW + ow
    offset_i = ih * IW + iw
    for n in range(0, N, 1):
        for c in range(0, C, 1):
            data = tl.load(x + (n * C + c) * IH * IW + offset_i, mask=idx < OH * OW)
            tl.store(out + (n * C + c) * OH * OW + offset_o, data, mask=idx < OH * OW)


@triton.jit
def convolved(
    x, w, out, H, W, OH, OW, CI: tl.constexpr, CO: tl.constexpr, KH: tl.constexpr,
    KW: tl.constexpr, stride: tl.constexpr, pad: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BP + tl.arange(0, BP)
    n = tl.program_id(1)
    oh, ow = at // OW, at % OW
    co = tl.arange(0, BC)
    acc = tl.zeros((BP, BC), dtype=tl.float32)
    for step in range(KH * KW):
        kh = step // KW
        kw = step % KW
        ih = oh * stride - pad + kh
        iw = ow * stride - pad + kw
        ci = tl.arange(0, CI)
        inside = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
        a = tl.load(
            x + (n * CI + ci[None, :]) * H * W + ih[:, None] * W + iw[:, None],
            mask=inside[:, None], other=0.0,
        )  # fmt: skip
        b = tl.load(
            w + (co[None, :] * CI + ci[:, None]) * KH * KW + kh * KW + kw,
            mask=(co < CO)[None, :], other=0.0,
        )  # fmt: skip
        acc += tl.dot(a, b, allow_tf32=False)
    to = out + (n * CO + co[None, :]) * OH * OW + at[:, None]
    tl.store(to, acc, mask=(at < OH * OW)[:, None] & (co < CO)[None, :])


@triton.jit
def compared(
    a, b, out, flags, n, rtol, atol: tl.constexpr, EQUAL_NAN: tl.constexpr, BLOCK: tl.constexpr
):
    at = program_of(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(a + at, mask=mask, other=0.0).cast(tl.float32)
    y = tl.load(b + at, mask=mask, other=0.0).cast(tl.float32)
    close = tl.abs(x - y) <= atol + tl.abs(rtol * y)
    if EQUAL_NAN:
        close = tl.where((x != x) & (y != y), True, close)
    finite = libdevice.finitef(x) if hasattr(libdevice, "finitef") else x == x
    close = close & ((x == y) | (finite.to(tl.int1)))
    tl.store(out + at, close.to(tl.int8), mask=mask)
    tl.atomic_and(flags, tl.reduce(tl.where(mask, close, True).to(tl.int32), 0, lesser))


@triton.jit
def lesser(a, b):
    return tl.minimum(a, b)


@triton.jit
def integer_operators(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(a + at, mask=mask, other=1)
    y = tl.load(b + at, mask=mask, other=1)
    y = tl.where(y == 0, 1, y)
    remainder = x % y
    floored = tl.where((remainder != 0) & ((remainder < 0) != (y < 0)), x // y - 1, x // y)
    modulo = tl.where((remainder != 0) & ((remainder ^ y) < 0), remainder + y, remainder)
    shifted = (x << 3) ^ (x >> 2) ^ (x.to(tl.uint32, bitcast=True) >> 5).to(tl.int32, bitcast=True)
    inverted = ~x | (not 0)
    high = tl.umulhi(x.to(tl.uint32), y.to(tl.uint32)).to(tl.int32)
    tl.store(out + at * 5, floored, mask=mask)
    tl.store(out + at * 5 + 1, modulo, mask=mask)
    tl.store(out + at * 5 + 2, shifted, mask=mask)
    tl.store(out + at * 5 + 3, inverted, mask=mask)
    tl.store(out + at * 5 + 4, high, mask=mask)


@triton.jit
def penalised(
    logits, tokens, counts, repetition, frequency, presence, temperature, vocab, max_len,
    BLOCK: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    block = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    rep = tl.load(repetition + request)
    freq = tl.load(frequency + request)
    pres = tl.load(presence + request)
    temp = tl.load(temperature + request)
    temp = tl.where(temp == 0.0, 1.0, temp)
    use = (rep != 1.0) or (freq != 0.0) or (pres != 0.0)
    x = tl.load(logits + request * vocab + block, mask=block < vocab).to(tl.float32)
    if use:
        count = tl.zeros([BLOCK], tl.int32)
        for i in range(tl.load(counts + request)):
            token = tl.load(tokens + request * max_len + i)
            count += (block == token).to(tl.int32)
        seen = count > 0
        x *= tl.where(seen, tl.where(x > 0, 1.0 / rep, rep), 1.0)
        x -= freq * count
        x -= pres * seen
    x = x / temp
    tl.store(logits + request * vocab + block, x, mask=block < vocab)


@triton.jit
def sum_of_products(
    x, w, out, B, M, N, BLOCK_B: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    b = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)[:, None, None]
    m = tl.arange(0, BLOCK_M)[None, :, None]
    n = tl.arange(0, BLOCK_N)[None, None, :]
    cube = tl.load(x + (b * M + m) * N + n, mask=(b < B) & (m < M) & (n < N), other=0.0)
    weight = tl.load(w + m, mask=m < M, other=0.0)
    batch = tl.dot(
        cube.permute(0, 2, 1),
        tl.broadcast_to(cube, (BLOCK_B, BLOCK_M, BLOCK_N)),
        input_precision="ieee",
    )
    total = tl.sum(cube * weight, axis=1, keep_dims=True) + tl.max(batch, axis=1, keep_dims=True)
    tl.store(out + b * N + n, total, mask=(b < B) & (n < N))


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _with_some(rng, value, x):
    return np.where(rng.random(x.shape) < 0.2, np.float32(value), x)


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "chunked_losses": ((5, 3), lambda rng: {
        "logits_ptr": _floats(rng, 5, 43), "logits_row_stride": 43,
        "loss_ptr": np.zeros(5, np.float32), "logsumexp_ptr": np.zeros((5, 3), np.float32),
        "labels_ptr": np.array([3, -100, 42, 0, 17]), "VOCAB_SIZE": 43, "N_CHUNKS": 3,
        "BLOCK_SIZE": 16, "DO_SOFTCAPPING": True, "SOFTCAP": 3.0, "DO_LOGIT_SCALING": True,
        "LOGIT_SCALE": 1.5,
    }),
    "gated_gradients": ((3,), lambda rng: {
        "DW": _floats(rng, 75).astype(np.float16), "e": _floats(rng, 75).astype(np.float16),
        "g": _floats(rng, 75).astype(np.float16), "n_elements": 75, "BLOCK_SIZE": 32,
        "LONG_INDEXING": True,
    }),
    "rms_norm_backward": ((4,), lambda rng: {
        "dY": _floats(rng, 4, 27), "dY_row_stride": 27, "X": _floats(rng, 4, 27),
        "X_row_stride": 27, "W": _floats(rng, 27), "r": rng.random(4).astype(np.float32) + 0.5,
        "n_cols": 27, "GEMMA": True, "BLOCK_SIZE": 32,
    }),
    "var_mean": ((2,), lambda rng: {
        "X": _floats(rng, 5, 43), "Var": np.zeros(5, np.float32), "Mean": np.zeros(5, np.float32),
        "M": 5, "N": 43, "correction": 1, "BLOCK_M": 4, "BLOCK_N": 16,
    }),
    "least_along": ((2,), lambda rng: {
        "inp": rng.integers(-99, 99, (6, 43)).astype(np.int32), "out_value": np.zeros(6, np.int32),
        "out_index": np.zeros(6, np.int64), "M": 6, "N": 43, "BLOCK_M": 4, "BLOCK_N": 16,
    }),
    "exponentials": ((2,), lambda rng: {
        "out_ptr": np.zeros(110, np.float32), "N": 110, "lambd": 1.5, "philox_seed": 77,
        "philox_offset": 4,
    }),
    "compacted": ((1,), lambda rng: {
        "x": rng.integers(0, 3, 53).astype(np.int32), "out": np.full(53, -1, np.int32),
        "count": np.zeros(1, np.int32), "n": 53, "BLOCK": 64,
    }),
    "nearest_upsampled": ((5,), lambda rng: {
        "out": np.zeros((2, 3, 9, 8), np.float32), "x": _floats(rng, 2, 3, 4, 5), "N": 2, "C": 3,
        "OH": 9, "OW": 8, "IH": 4, "IW": 5, "scale_h": 0.4444, "scale_w": 0.625, "BLOCK": 16,
    }),
    "convolved": ((3, 2), lambda rng: {
        "x": _floats(rng, 2, 16, 9, 11), "w": _floats(rng, 12, 16, 3, 3),
        "out": np.zeros((2, 12, 5, 6), np.float32), "H": 9, "W": 11, "OH": 5, "OW": 6, "CI": 16,
        "CO": 12, "KH": 3, "KW": 3, "stride": 2, "pad": 1, "BP": 16, "BC": 16,
    }),
    "compared": ((3,), lambda rng: {
        "a": _with_some(rng, np.nan, np.ones(75, np.float32)),
        "b": _with_some(rng, np.nan, _with_some(rng, 1.5, np.ones(75, np.float32))),
        "out": np.zeros(75, np.int8), "flags": np.ones(1, np.int32), "n": 75, "rtol": 0.01,
        "atol": 0.01, "EQUAL_NAN": True, "BLOCK": 32,
    }),
    "integer_operators": ((3,), lambda rng: {
        "a": rng.integers(-(1 << 31), 1 << 31, 75).astype(np.int32),
        "b": rng.integers(-9, 9, 75).astype(np.int32), "out": np.zeros((75, 5), np.int32), "n": 75,
        "BLOCK": 32,
    }),
    "penalised": ((3, 2), lambda rng: {
        "logits": _floats(rng, 3, 27), "tokens": rng.integers(0, 27, (3, 9)).astype(np.int32),
        "counts": np.array([9, 4, 6], np.int32), "repetition": np.array([1.2, 1, 1], np.float32),
        "frequency": np.array([0.5, 0, 0], np.float32),
        "presence": np.array([0, 0.3, 0], np.float32),
        "temperature": np.array([0.7, 0, 1], np.float32), "vocab": 27, "max_len": 9, "BLOCK": 16,
    }),
    "sum_of_products": ((2,), lambda rng: {
        "x": _floats(rng, 3, 13, 15), "w": _floats(rng, 13), "out": np.zeros((3, 15), np.float32),
        "B": 3, "M": 13, "N": 15, "BLOCK_B": 2, "BLOCK_M": 16, "BLOCK_N": 16,
    }),
}  # fmt: skip
