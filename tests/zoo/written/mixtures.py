"""Kernels in the style of mixtures of experts, of adapters, and of models that scan states."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def write_zeros_to_output(
    c_ptr, stride_cm, stride_cn, pid_n, N, offs_token, token_mask,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, compute_type: tl.constexpr,
):  # fmt: skip
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=compute_type)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_token[:, None] + stride_cn * offs_cn[None, :]
    c_mask = token_mask[:, None] & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


@triton.jit
def experts_product(
    a_ptr, b_ptr, c_ptr, b_bias_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
    num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens,
    stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr,
    compute_type: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(EM, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    num_tokens_post_padded = tl.load(num_tokens_post_padded_ptr)
    if pid_m * BLOCK_SIZE_M >= num_tokens_post_padded:
        return
    offs_token_id = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M).to(tl.int64)
    offs_token = tl.load(sorted_token_ids_ptr + offs_token_id)
    token_mask = offs_token < num_valid_tokens
    off_experts = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    if off_experts == -1:
        write_zeros_to_output(
            c_ptr, stride_cm, stride_cn, pid_n, N, offs_token, token_mask,
            BLOCK_SIZE_M, BLOCK_SIZE_N, compute_type,
        )  # fmt: skip
        return
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_token[:, None] // top_k * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = (
        b_ptr
        + off_experts * stride_be
        + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    )
    if HAS_BIAS:
        bias = tl.load(b_bias_ptr + off_experts * N + offs_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(
            a_ptrs,
            mask=token_mask[:, None] & (offs_k[None, :] < K - k * BLOCK_SIZE_K),
            other=0.0,
        )
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator += tl.dot(a, b)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if HAS_BIAS:
        accumulator = accumulator + bias[None, :]
    if MUL_ROUTED_WEIGHT:
        moe_weight = tl.load(topk_weights_ptr + offs_token, mask=token_mask, other=0)
        accumulator = accumulator * moe_weight[:, None]
    accumulator = accumulator.to(compute_type)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_token[:, None] + stride_cn * offs_cn[None, :]
    c_mask = token_mask[:, None] & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


@triton.jit
def routed(logits, weights, ids, experts, K: tl.constexpr, EXPERTS: tl.constexpr):
    row = tl.program_id(0)
    e = tl.arange(0, EXPERTS)
    x = tl.load(logits + row * experts + e, mask=e < experts, other=-float("inf"))
    p = tl.softmax(x)
    total = 0.0
    for i in tl.static_range(K):
        best, at = tl.max(p, axis=0, return_indices=True)
        tl.store(weights + row * K + i, best)
        tl.store(ids + row * K + i, at)
        total += best
        p = tl.where(e == at, -1.0, p)
    for i in tl.static_range(K):
        tl.debug_barrier()
        tl.store(weights + row * K + i, tl.load(weights + row * K + i) / total)


@triton.jit
def sorted_by_expert(ids, sorted_ids, starts, n, N: tl.constexpr, EXPERTS: tl.constexpr):
    at = tl.arange(0, N)
    expert = tl.load(ids + at, mask=at < n, other=EXPERTS)
    keys = tl.sort(expert * N + at)
    counts = tl.histogram(expert, EXPERTS, mask=at < n)
    tl.store(starts + tl.arange(0, EXPERTS), tl.cumsum(counts, 0) - counts)
    tl.store(sorted_ids + at, keys % N, mask=at < n)


@triton.jit
def shrunk_by_adapters(
    input_ptr, lora_ptr, out_ptr, N, K, token_indices, lora_ids, num_tokens_per_lora, lora_starts,
    scaling, M, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    cta_n_num = tl.cdiv(N, BLOCK_N)
    cta_m_num = tl.cdiv(M, BLOCK_M)
    pid_sk_m_n = tl.program_id(axis=0)
    pid_sk = pid_sk_m_n % SPLIT_K
    pid_m = (pid_sk_m_n // SPLIT_K) % cta_m_num
    pid_n = pid_sk_m_n // (SPLIT_K * cta_m_num) % cta_n_num
    lora_idx = tl.program_id(axis=1)
    lora_id = tl.load(lora_ids + lora_idx)
    if lora_id == -1:
        return
    lora_m_size = tl.load(num_tokens_per_lora + lora_idx)
    cta_m_offset = pid_m * BLOCK_M
    if cta_m_offset >= lora_m_size:
        return
    cta_m_len = min(BLOCK_M, lora_m_size - cta_m_offset)
    first = token_indices + tl.load(lora_starts + lora_idx) + cta_m_offset
    offset_m = tl.arange(0, BLOCK_M) % cta_m_len
    ram = tl.load(first + offset_m)
    offset_n = tl.arange(0, BLOCK_N) + pid_n * BLOCK_N
    rbn = tl.max_contiguous(tl.multiple_of(offset_n % N, BLOCK_N), BLOCK_N)
    offset_k = pid_sk * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptr = input_ptr + ram[:, None] * K + offset_k[None, :]
    b_ptr = lora_ptr + N * K * lora_id + rbn[None, :] * K + offset_k[:, None]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        if EVEN_K:
            tiled_a = tl.load(a_ptr)
            tiled_b = tl.load(b_ptr)
        else:
            left = K - k * (BLOCK_K * SPLIT_K)
            tiled_a = tl.load(a_ptr, mask=offset_k[None, :] < left, other=0)
            tiled_b = tl.load(b_ptr, mask=offset_k[:, None] < left, other=0)
        accumulator += tl.dot(tiled_a, tiled_b)
        a_ptr += BLOCK_K * SPLIT_K
        b_ptr += BLOCK_K * SPLIT_K
    accumulator *= scaling
    offset_cn = tl.arange(0, BLOCK_N) + pid_n * BLOCK_N
    offset_cm = tl.arange(0, BLOCK_M)
    c_ptr = out_ptr + ram[:, None] * N + offset_cn[None, :]
    c_mask = (offset_cm[:, None] < cta_m_len) & (offset_cn[None, :] < N)
    if SPLIT_K == 1:
        tl.store(c_ptr, accumulator, mask=c_mask)
    else:
        tl.atomic_add(c_ptr, accumulator, mask=c_mask, sem="relaxed")


@triton.heuristics({"HAS_DT_BIAS": lambda args: args["dt_bias_ptr"] is not None})
@triton.heuristics({"HAS_D": lambda args: args["D_ptr"] is not None})
@triton.heuristics({"HAS_Z": lambda args: args["z_ptr"] is not None})
@triton.heuristics({"HAS_INDICES": lambda args: args["state_indices_ptr"] is not None})
@triton.heuristics({"BLOCK_DSTATE": lambda args: triton.next_power_of_2(args["dstate"])})
@triton.jit
def state_update(
    state_ptr, x_ptr, dt_ptr, dt_bias_ptr, A_ptr, B_ptr, C_ptr, D_ptr, z_ptr, out_ptr,
    state_indices_ptr, pad_slot_id, nheads, dim, dstate, nheads_ngroups_ratio,
    stride_state_batch, stride_state_head, stride_x_batch, stride_B_batch,
    DT_SOFTPLUS: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, HAS_DT_BIAS: tl.constexpr,
    HAS_D: tl.constexpr, HAS_Z: tl.constexpr, HAS_INDICES: tl.constexpr,
    BLOCK_DSTATE: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(axis=0)
    pid_b = tl.program_id(axis=1)
    pid_h = tl.program_id(axis=2)
    if HAS_INDICES:
        state_indices_ptr += pid_b
        state_batch_idx = tl.load(state_indices_ptr).to(tl.int64)
        state_ptr += state_batch_idx * stride_state_batch + pid_h * stride_state_head
    else:
        state_ptr += pid_b * stride_state_batch + pid_h * stride_state_head
    x_ptr += pid_b * stride_x_batch + pid_h * dim
    dt_ptr += pid_b * stride_x_batch + pid_h * dim
    if HAS_DT_BIAS:
        dt_bias_ptr += pid_h * dim
    A_ptr += pid_h * dim * dstate
    B_ptr += pid_b * stride_B_batch + (pid_h // nheads_ngroups_ratio) * dstate
    C_ptr += pid_b * stride_B_batch + (pid_h // nheads_ngroups_ratio) * dstate
    if HAS_Z:
        z_ptr += pid_b * stride_x_batch + pid_h * dim
    out_ptr += pid_b * stride_x_batch + pid_h * dim
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.arange(0, BLOCK_DSTATE)
    state_ptrs = state_ptr + (offs_m[:, None] * dstate + offs_n[None, :])
    mask = (offs_m[:, None] < dim) & (offs_n[None, :] < dstate)
    if HAS_INDICES:
        mask &= state_batch_idx != pad_slot_id
    state = tl.load(state_ptrs, mask=mask, other=0.0)
    x = tl.load(x_ptr + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    dt = tl.load(dt_ptr + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    if HAS_DT_BIAS:
        dt += tl.load(dt_bias_ptr + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    if DT_SOFTPLUS:
        dt = tl.where(dt <= 20.0, tl.math.log(tl.math.exp(dt) + 1), dt)
    A = tl.load(
        A_ptr + offs_m[:, None] * dstate + offs_n[None, :],
        mask=(offs_m[:, None] < dim) & (offs_n[None, :] < dstate), other=0.0,
    )  # fmt: skip
    dA = tl.exp(A * dt[:, None])
    B = tl.load(B_ptr + offs_n, mask=offs_n < dstate, other=0.0).to(tl.float32)
    C = tl.load(C_ptr + offs_n, mask=offs_n < dstate, other=0.0).to(tl.float32)
    if HAS_D:
        D = tl.load(D_ptr + pid_h * dim + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    if HAS_Z:
        z = tl.load(z_ptr + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    dB = B[None, :] * dt[:, None]
    state = state * dA + dB * x[:, None]
    tl.store(state_ptrs, state, mask=mask)
    out = tl.sum(state * C[None, :], axis=1)
    if HAS_D:
        out += x * D
    if HAS_Z:
        out *= z * tl.sigmoid(z)
    tl.store(out_ptr + offs_m, out, mask=offs_m < dim)


@triton.jit
def scan_step(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def gated_scan(
    x, gate, start, out, end, length, dim, BT: tl.constexpr, BD: tl.constexpr, REVERSE: tl.constexpr
):
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    t = tl.arange(0, BT)
    carry = tl.load(start + d, mask=d < dim, other=0.0)
    for first in range(0, length, BT):
        rows = (length - 1 - first - t) if REVERSE else first + t
        mask = (rows >= 0)[:, None] & (rows < length)[:, None] & (d < dim)[None, :]
        at = rows[:, None] * dim + d[None, :]
        g = tl.load(gate + at, mask=mask, other=1.0)
        v = tl.load(x + at, mask=mask, other=0.0)
        products, h = tl.associative_scan((g, v), 0, scan_step)
        h += products * carry[None, :]
        tl.store(out + at, h, mask=mask)
        carry = tl.sum(tl.where((t == BT - 1)[:, None], h, 0.0), axis=0)
    tl.store(end + d, carry, mask=d < dim)


@triton.jit
def conv_update(
    x, state, weight, bias, out, dim, KERNEL: tl.constexpr, SILU: tl.constexpr, BD: tl.constexpr
):
    row = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    mask = d < dim
    base = state + (row * dim + d) * (KERNEL - 1)
    total = tl.load(bias + d, mask=mask, other=0.0)
    fresh = tl.load(x + row * dim + d, mask=mask, other=0.0)
    for k in tl.static_range(KERNEL - 1):
        old = tl.load(base + k, mask=mask, other=0.0)
        total += old * tl.load(weight + d * KERNEL + k, mask=mask, other=0.0)
        if k > 0:
            tl.store(base + k - 1, old, mask=mask)
    tl.store(base + (KERNEL - 2), fresh, mask=mask)
    total += fresh * tl.load(weight + d * KERNEL + (KERNEL - 1), mask=mask, other=0.0)
    if SILU:
        total = total / (1 + tl.exp(-total))
    tl.store(out + row * dim + d, total, mask=mask)


@triton.jit
def chunk_states(x, b, decay, out, T, D: tl.constexpr, N: tl.constexpr, BT: tl.constexpr):
    chunk = tl.program_id(0)
    p_x = tl.make_block_ptr(x, (T, D), (D, 1), (chunk * BT, 0), (BT, D), (1, 0))
    p_b = tl.make_block_ptr(b, (N, T), (1, N), (0, chunk * BT), (N, BT), (0, 1))
    steps = chunk * BT + tl.arange(0, BT)
    g = tl.load(decay + steps, mask=steps < T, other=0.0)
    last = min(BT, T - chunk * BT) - 1
    run = tl.cumsum(g, 0)
    total = tl.sum(tl.where(tl.arange(0, BT) == last, run, 0.0))
    weight = tl.exp(total - run)
    b_x = tl.load(p_x, boundary_check=(0, 1))
    b_b = tl.load(p_b, boundary_check=(0, 1)) * weight[None, :]
    state = tl.dot(b_b.to(b_x.dtype), b_x, allow_tf32=False)
    p_o = tl.make_block_ptr(out + chunk * N * D, (N, D), (D, 1), (0, 0), (N, D), (1, 0))
    tl.store(p_o, state.to(p_o.dtype.element_ty), boundary_check=(0, 1))


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "experts_product": ((8,), lambda rng: {
        "a_ptr": _floats(rng, 11, 40).astype(np.float16),
        "b_ptr": _floats(rng, 3, 24, 40).astype(np.float16), "c_ptr": np.ones((22, 24), np.float32),
        "b_bias_ptr": _floats(rng, 3, 24), "topk_weights_ptr": _floats(rng, 22),
        "sorted_token_ids_ptr": np.concatenate(
            [rng.permutation(22), np.full(42, 22)]
        ).astype(np.int32),
        "expert_ids_ptr": np.array([2, -1, 0, 1], np.int32),
        "num_tokens_post_padded_ptr": np.array([48], np.int32), "N": 24, "K": 40, "EM": 64,
        "num_valid_tokens": 22, "stride_am": 40, "stride_ak": 1, "stride_be": 960, "stride_bk": 1,
        "stride_bn": 40, "stride_cm": 24, "stride_cn": 1, "BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 16,
        "BLOCK_SIZE_K": 16, "GROUP_SIZE_M": 2, "MUL_ROUTED_WEIGHT": True, "top_k": 2,
        "compute_type": tl.float32, "HAS_BIAS": True,
    }),
    "routed": ((5,), lambda rng: {
        "logits": _floats(rng, 5, 13), "weights": np.zeros((5, 3), np.float32),
        "ids": np.zeros((5, 3), np.int64), "experts": 13, "K": 3, "EXPERTS": 16,
    }),
    "sorted_by_expert": ((1,), lambda rng: {
        "ids": rng.integers(0, 8, 27).astype(np.int32), "sorted_ids": np.zeros(27, np.int32),
        "starts": np.zeros(8, np.int32), "n": 27, "N": 32, "EXPERTS": 8,
    }),
    "shrunk_by_adapters": ((8, 3), lambda rng: {
        "input_ptr": _floats(rng, 20, 72), "lora_ptr": _floats(rng, 2, 8, 72),
        "out_ptr": np.zeros((20, 8), np.float32), "N": 8, "K": 72,
        "token_indices": rng.permutation(20).astype(np.int32),
        "lora_ids": np.array([-1, 1, 0], np.int32),
        "num_tokens_per_lora": np.array([3, 7, 10], np.int32),
        "lora_starts": np.array([0, 3, 10], np.int32), "scaling": 0.5, "M": 20, "BLOCK_M": 16,
        "BLOCK_N": 8, "BLOCK_K": 16, "EVEN_K": False, "SPLIT_K": 4,
    }),
    "state_update": ((2, 3, 4), lambda rng: {
        "state_ptr": _floats(rng, 5, 4, 11, 6), "x_ptr": _floats(rng, 3, 4, 11),
        "dt_ptr": _floats(rng, 3, 4, 11), "dt_bias_ptr": _floats(rng, 4, 11),
        "A_ptr": -np.abs(_floats(rng, 4, 11, 6)), "B_ptr": _floats(rng, 3, 2, 6),
        "C_ptr": _floats(rng, 3, 2, 6), "D_ptr": _floats(rng, 4, 11), "z_ptr": None,
        "out_ptr": np.zeros((3, 4, 11), np.float32),
        "state_indices_ptr": np.array([4, 0, 2], np.int32), "pad_slot_id": 0, "nheads": 4,
        "dim": 11, "dstate": 6, "nheads_ngroups_ratio": 2, "stride_state_batch": 264,
        "stride_state_head": 66, "stride_x_batch": 44, "stride_B_batch": 12, "DT_SOFTPLUS": True,
        "BLOCK_SIZE_M": 8,
    }),
    "gated_scan": ((2,), lambda rng: {
        "x": _floats(rng, 21, 7), "gate": rng.random((21, 7)).astype(np.float32),
        "start": _floats(rng, 7), "out": np.zeros((21, 7), np.float32),
        "end": np.zeros(7, np.float32), "length": 21, "dim": 7, "BT": 8, "BD": 4, "REVERSE": True,
    }),
    "conv_update": ((3, 2), lambda rng: {
        "x": _floats(rng, 3, 13), "state": _floats(rng, 3, 13, 3), "weight": _floats(rng, 13, 4),
        "bias": _floats(rng, 13), "out": np.zeros((3, 13), np.float32), "dim": 13, "KERNEL": 4,
        "SILU": True, "BD": 8,
    }),
    "chunk_states": ((3,), lambda rng: {
        "x": _floats(rng, 40, 16), "b": _floats(rng, 40, 16),
        "decay": -rng.random(40).astype(np.float32),
        "out": np.zeros((3, 16, 16), np.float32), "T": 40, "D": 16, "N": 16, "BT": 16,
    }),
}  # fmt: skip
