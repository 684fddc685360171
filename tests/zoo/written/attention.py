"""Kernels in the style of servers of language models: attention over pages, its caches, rotations,
and joining the parts of a split attention."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def cdiv_by(x, y):
    return (x + y - 1) // y


@triton.jit
def paged_attention(
    out, q, k_cache, v_cache, tables, lengths, scale, alibi,
    q_stride, table_stride, block_stride, head_stride,
    HEADS: tl.constexpr, QUERIES_PER_KV: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr,
    D_PADDED: tl.constexpr, USE_ALIBI: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    seq = tl.program_id(0)
    head = tl.program_id(1)
    kv_head = head // QUERIES_PER_KV
    length = tl.load(lengths + seq)
    offs_d = tl.arange(0, D_PADDED)
    offs_p = tl.arange(0, PAGE)
    d_mask = tl.where(offs_d < D, 1, 0).to(tl.int1)
    query = tl.load(q + seq * q_stride + head * D + offs_d, mask=d_mask, other=0.0)
    if USE_ALIBI:
        slope = tl.load(alibi + head)
    best = tl.full([1], float("-inf"), dtype=tl.float32)
    total = tl.full([1], 1.0, dtype=tl.float32)
    acc = tl.zeros([D_PADDED], dtype=tl.float32)
    pages = cdiv_by(length, PAGE)
    for page in range(pages):
        block = tl.load(tables + seq * table_stride + page).to(tl.int64)
        at = block * block_stride + kv_head * head_stride
        keys = tl.load(
            k_cache + at + offs_d[:, None] * PAGE + offs_p[None, :], mask=d_mask[:, None], other=0.0
        )
        values = tl.load(
            v_cache + at + offs_d[:, None] * PAGE + offs_p[None, :], mask=d_mask[:, None], other=0.0
        )
        where = page * PAGE + offs_p
        seen = where < length
        scores = tl.where(seen, scale * tl.sum(query[:, None] * keys, axis=0), float("-inf"))
        if WINDOW > 0:
            scores = tl.where((length - where) < WINDOW, scores, -10000)
        if USE_ALIBI:
            scores += slope * (where - length + 1)
        greatest = tl.maximum(best, tl.max(scores, axis=0))
        p = tl.exp(scores - greatest)
        alpha = tl.exp(best - greatest)
        acc = acc * alpha + tl.sum(values * p[None, :], axis=1)
        total = total * alpha + tl.sum(p, axis=0)
        best = greatest
    acc = acc / total
    tl.store(out + seq * q_stride + head * D + offs_d, acc, mask=d_mask)


@triton.jit
def merged_attention(
    output, output_lse, prefix, prefix_lse, suffix, suffix_lse,
    HEAD_SIZE: tl.constexpr, PADDED: tl.constexpr, OUTPUT_LSE: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    num_tokens = tl.num_programs(0)
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    p_lse = tl.load(prefix_lse + head * num_tokens + token)
    s_lse = tl.load(suffix_lse + head * num_tokens + token)
    p_lse = float("-inf") if p_lse == float("inf") else p_lse
    s_lse = float("-inf") if s_lse == float("inf") else s_lse
    max_lse = tl.maximum(p_lse, s_lse)
    p_se = tl.exp(p_lse - max_lse)
    s_se = tl.exp(s_lse - max_lse)
    out_se = p_se + s_se
    if OUTPUT_LSE:
        tl.store(output_lse + head * num_tokens + token, tl.log(out_se) + max_lse)
    cols = tl.arange(0, PADDED)
    mask = cols < HEAD_SIZE
    at = token * heads * HEAD_SIZE + head * HEAD_SIZE + cols
    mixed = tl.load(prefix + at, mask=mask) * (p_se / out_se)
    mixed += tl.load(suffix + at, mask=mask) * (s_se / out_se)
    tl.store(output + at, mixed, mask=mask)


@triton.jit
def cache_write(
    key, value, k_cache, v_cache, slots, stride, cache_stride,
    N: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(axis=0)
    at = tl.arange(0, PADDED)
    slot = tl.load(slots + token).to(tl.int64)
    if slot < 0:
        return
    page, within = slot // 4, slot % 4
    mask = at < N
    k = tl.load(key + token * stride + at, mask=mask)
    v = tl.load(value + token * stride + at, mask=mask)
    to = page * cache_stride + within * N + at
    tl.store(k_cache + to, k, mask=mask)
    tl.store(v_cache + to, v.to(v_cache.dtype.element_ty), mask=mask)


@triton.jit
def rotated_in_place(
    Q, Q_stride, cos, cos_stride, sin, sin_stride, seqlen, head_dim: tl.constexpr,
    n_heads: tl.constexpr, BACKWARD_PASS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    ROPE_GROUP_SIZE: tl.constexpr = 4
    row = tl.program_id(0)
    group = tl.program_id(1)
    cols = tl.arange(0, BLOCK_SIZE)
    half = head_dim // 2
    mask = cols < half
    sin1 = tl.load(sin + (row % seqlen) * sin_stride + half * 0 + cols, mask=mask, other=0)
    cos1 = tl.load(cos + (row % seqlen) * cos_stride + half * 0 + cols, mask=mask, other=0)
    if BACKWARD_PASS:
        sin1 = -sin1
    head_start = group * ROPE_GROUP_SIZE
    head_end = min((head_start + ROPE_GROUP_SIZE), n_heads)
    for k in range(head_start, head_end):
        at1 = row * Q_stride + k * head_dim + cols
        at2 = row * Q_stride + k * head_dim + cols + half
        Q1 = tl.load(Q + at1, mask=mask, other=0).to(sin1.dtype)
        Q2 = tl.load(Q + at2, mask=mask, other=0).to(sin1.dtype)
        tl.store(Q + at1, Q1 * cos1 - Q2 * sin1, mask=mask)
        tl.store(Q + at2, Q2 * cos1 + Q1 * sin1, mask=mask)


rotated_with_rule = triton.heuristics(
    {
        "BACKWARD_PASS": lambda args: bool(args["BACKWARD_PASS"]),
        "BLOCK_SIZE": lambda args: triton.next_power_of_2(args["head_dim"] // 2),
    }
)(rotated_in_place)


@triton.jit
def rotated_pairs(
    x, cos, sin, out, seqlen, rotary: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr
):
    at = tl.program_id(0)
    pairs = tl.arange(0, HALF)
    whole = tl.arange(0, 2 * HALF)
    both = tl.load(x + at * D + whole, mask=whole < D, other=0.0)
    even, odd = tl.split(both.reshape(HALF, 2))
    c = tl.load(cos + (at % seqlen) * (rotary // 2) + pairs, mask=pairs < rotary // 2, other=1.0)
    s = tl.load(sin + (at % seqlen) * (rotary // 2) + pairs, mask=pairs < rotary // 2, other=0.0)
    turned = tl.interleave(even * c - odd * s, odd * c + even * s)
    tl.store(out + at * D + whole, turned, mask=whole < D)


@triton.jit
def either_rotated(q, k, cos, sin, n_q, n_k, D: tl.constexpr, HALF: tl.constexpr):
    """The queries' heads come first; each program turns a head of one of the two arrays."""
    token = tl.program_id(0)
    head = tl.program_id(1)
    pairs = tl.arange(0, HALF)
    if head < n_q:
        base = q + (token * n_q + head) * D
    else:
        base = k + (token * n_k + head - n_q) * D
    first = tl.load(base + pairs)
    second = tl.load(base + pairs + HALF)
    c = tl.load(cos + token * HALF + pairs)
    s = tl.load(sin + token * HALF + pairs)
    tl.store(base + pairs, first * c - second * s)
    tl.store(base + pairs + HALF, second * c + first * s)


@triton.jit
def reduced_splits(
    out, parts, maxima, sums, splits: tl.constexpr, D: tl.constexpr, S: tl.constexpr
):
    row = tl.program_id(0)
    s = tl.arange(0, S)
    d = tl.arange(0, D)
    m = tl.load(maxima + row * splits + s, mask=s < splits, other=float("-inf"))
    l = tl.load(sums + row * splits + s, mask=s < splits, other=0.0)
    greatest = tl.max(m, axis=0)
    weight = tl.where(s < splits, tl.math.exp2(m - greatest), 0.0)
    total = tl.sum(l * weight)
    o = tl.load(
        parts + (row * splits + s[:, None]) * D + d[None, :], mask=s[:, None] < splits, other=0.0
    )
    o = tl.sum(o * weight[:, None], axis=0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + row * D + d, o)


@triton.jit
def sampled_tokens(
    out, starts, draft, draft_probs, target_probs, bonus, uniform, max_spec,
    vocab, NO_DRAFT: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    start = 0 if request == 0 else tl.load(starts + request - 1)
    end = tl.load(starts + request)
    count = end - start
    rejected = False
    for at in range(count):
        if not rejected:
            token = tl.load(draft + start + at)
            if NO_DRAFT:
                p = 1.0
            else:
                p = tl.load(draft_probs + (start + at) * vocab + token)
            t = tl.load(target_probs + (start + at) * vocab + token)
            u = tl.load(uniform + start + at)
            if p > 0 and t / p >= u:
                chosen = token
            else:
                rejected = True
                words = tl.arange(0, PADDED)
                row = tl.load(
                    target_probs + (start + at) * vocab + words, mask=words < vocab, other=0.0
                )
                chosen = tl.argmax(row, axis=-1)
            tl.store(out + request * (max_spec + 1) + at, chosen)
    if not rejected:
        tl.store(out + request * (max_spec + 1) + count, tl.load(bonus + request))


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _angles(rng, *shape):
    turned = rng.random(shape).astype(np.float32) * 6
    return {"cos": np.cos(turned), "sin": np.sin(turned)}


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "paged_attention": ((3, 4), lambda rng: {
        "out": np.zeros((3, 4, 12), np.float32), "q": _floats(rng, 3, 4, 12),
        "k_cache": _floats(rng, 9, 2, 12, 8), "v_cache": _floats(rng, 9, 2, 12, 8),
        "tables": rng.permutation(9).astype(np.int32).reshape(3, 3),
        "lengths": np.array([5, 24, 17], np.int32), "scale": 0.3, "alibi": _floats(rng, 4),
        "q_stride": 48, "table_stride": 3, "block_stride": 192, "head_stride": 96, "HEADS": 4,
        "QUERIES_PER_KV": 2, "PAGE": 8, "D": 12, "D_PADDED": 16, "USE_ALIBI": True, "WINDOW": 12,
    }),
    "merged_attention": ((5, 3), lambda rng: {
        "output": np.zeros((5, 3, 20), np.float32), "output_lse": np.zeros((3, 5), np.float32),
        "prefix": _floats(rng, 5, 3, 20), "suffix": _floats(rng, 5, 3, 20),
        "prefix_lse": np.where(rng.random((3, 5)) < 0.3, np.inf, _floats(rng, 3, 5)),
        "suffix_lse": _floats(rng, 3, 5), "HEAD_SIZE": 20, "PADDED": 32, "OUTPUT_LSE": True,
    }),
    "cache_write": ((6,), lambda rng: {
        "key": _floats(rng, 6, 10), "value": _floats(rng, 6, 10),
        "k_cache": np.zeros((3, 40), np.float32), "v_cache": np.zeros((3, 40), np.float16),
        "slots": np.array([3, -1, 0, 11, 6, -1]), "stride": 10, "cache_stride": 40, "N": 10,
        "PADDED": 16,
    }),
    "rotated_in_place": ((5, 2), lambda rng: {
        "Q": _floats(rng, 5, 6, 20), "Q_stride": 120, **_angles(rng, 3, 10), "cos_stride": 10,
        "sin_stride": 10, "seqlen": 3, "head_dim": 20, "n_heads": 6, "BACKWARD_PASS": True,
        "BLOCK_SIZE": 16,
    }),
    "rotated_with_rule": ((5, 2), lambda rng: {
        "Q": _floats(rng, 5, 6, 20), "Q_stride": 120, **_angles(rng, 3, 10), "cos_stride": 10,
        "sin_stride": 10, "seqlen": 3, "head_dim": 20, "n_heads": 6, "BACKWARD_PASS": False,
    }),
    "rotated_pairs": ((6,), lambda rng: {
        "x": _floats(rng, 6, 26), **_angles(rng, 3, 10), "out": np.zeros((6, 26), np.float32),
        "seqlen": 3, "rotary": 20, "D": 26, "HALF": 16,
    }),
    "either_rotated": ((3, 5), lambda rng: {
        "q": _floats(rng, 3, 3, 16), "k": _floats(rng, 3, 2, 16), **_angles(rng, 3, 8), "n_q": 3,
        "n_k": 2, "D": 16, "HALF": 8,
    }),
    "reduced_splits": ((5,), lambda rng: {
        "out": np.zeros((5, 16), np.float32), "parts": _floats(rng, 5, 3, 16),
        "maxima": _floats(rng, 5, 3), "sums": rng.random((5, 3)).astype(np.float32), "splits": 3,
        "D": 16, "S": 4,
    }),
    "sampled_tokens": ((4,), lambda rng: {
        "out": np.full((4, 4), -1, np.int32), "starts": np.array([2, 2, 5, 8], np.int32),
        "draft": rng.integers(0, 20, 8).astype(np.int32),
        "draft_probs": rng.random((8, 20)).astype(np.float32),
        "target_probs": rng.random((8, 20)).astype(np.float32),
        "bonus": rng.integers(0, 20, 4).astype(np.int32),
        "uniform": rng.random(8).astype(np.float32), "max_spec": 3, "vocab": 20,
        "NO_DRAFT": False, "PADDED": 32,
    }),
}  # fmt: skip
