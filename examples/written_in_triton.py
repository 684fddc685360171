"""Kernels in Triton's language alone: a sum, softmax, a product, dropout, layer norm, attention.

Only the two imports are Iris's. With `python -m iris.triton`, or after `iris.triton.install()`,
they are `import triton` and `import triton.language as tl`, as in code written for Triton.

python examples/written_in_triton.py
"""

from __future__ import annotations

import numpy as np

import iris.triton as triton
import iris.triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


def add(rng: np.random.Generator) -> float:
    n = 1000
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    out = np.empty_like(x)
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    add_kernel[grid](x, y, out, n, BLOCK=256, num_warps=2)
    return np.abs(out - (x + y)).max()


@triton.jit
def softmax_kernel(x_ptr, out_ptr, row_stride, rows, cols, BLOCK: tl.constexpr):
    """Of n programs, program i takes the rows i, i + n, i + 2n and so on."""
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(x_ptr + row * row_stride + at, mask=at < cols, other=-float("inf"))
        powers = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * row_stride + at, powers / tl.sum(powers, axis=0), mask=at < cols)


def softmax(rng: np.random.Generator) -> float:
    x = rng.standard_normal((9, 77), dtype=np.float32)
    out = np.empty_like(x)
    softmax_kernel[(4,)](x, out, x.shape[1], *x.shape, BLOCK=triton.next_power_of_2(x.shape[1]))
    powers = np.exp(x.astype(float))
    return np.abs(out - powers / powers.sum(1, keepdims=True)).max()


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 16, "BK": 16, "GROUP": 2}, num_warps=1, num_stages=1),
        triton.Config({"BM": 32, "BN": 16, "BK": 32, "GROUP": 2}, num_warps=2, num_stages=2),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    LEAKY: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(m, BM), tl.cdiv(n, BN)
    program = tl.program_id(0)
    i, j = tl.swizzle2d(program // across, program % across, down, across, GROUP)
    rows = i * BM + tl.arange(0, BM)
    cols = j * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a = a_ptr + rows[:, None] * a_row + inner[None, :] * a_col
    b = b_ptr + inner[:, None] * b_row + cols[None, :] * b_col
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        left = inner < k - step * BK
        x = tl.load(a, mask=(rows < m)[:, None] & left[None, :], other=0.0)
        y = tl.load(b, mask=left[:, None] & (cols < n)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
        a += BK * a_col
        b += BK * b_row
    if LEAKY:
        acc = tl.where(acc >= 0, acc, 0.01 * acc)
    c = c_ptr + rows[:, None] * c_row + cols[None, :] * c_col
    tl.store(c, acc.to(c_ptr.dtype.element_ty), mask=(rows < m)[:, None] & (cols < n)[None, :])


def product(rng: np.random.Generator) -> float:
    m, n, k = 37, 29, 45
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((n, k), dtype=np.float32).T  # its strides say so
    c = np.empty((m, n), np.float32)
    strides = [s // 4 for x in (a, b, c) for s in x.strides]
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    product_kernel[grid](a, b, c, m, n, k, *strides, LEAKY=True)
    expected = a.astype(float) @ b
    return np.abs(c - np.where(expected >= 0, expected, 0.01 * expected)).max()


@triton.jit
def noise(seed, at):
    """A number from 0 to 1 for each place: the bits of the place, well mixed."""
    bits = at.to(tl.uint32) ^ seed.to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = bits ^ (bits >> 16)
    return (bits >> 8).to(tl.float32) * (1.0 / (1 << 24))


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """The mask is computed again where it is needed, and never stored."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    kept = noise(seed, at) > p
    tl.store(out_ptr + at, tl.where(kept, x / (1 - p), 0.0), mask=at < n)


def dropout(rng: np.random.Generator) -> float:
    n, p = 3000, 0.25
    x = np.ones(n, np.float32)
    out, again = np.empty_like(x), np.empty_like(x)
    for result in (out, again):
        dropout_kernel[(triton.cdiv(n, 512),)](x, result, n, p, 12345, BLOCK=512)
    assert (out == again).all() and set(np.unique(out)) == {0, np.float32(1 / 0.75)}
    assert abs((out == 0).mean() - p) < 0.03
    return 0.0


@triton.jit
def norm_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, scale_ptr, n, eps, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x) / n
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred) / n + eps)
    w, b = tl.load(w_ptr + at, mask=inside), tl.load(b_ptr + at, mask=inside)
    tl.store(out_ptr + row * n + at, centred * scale * w + b, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)


@triton.jit
def norm_backward_kernel(
    grad_ptr, x_ptr, w_ptr, mean_ptr, scale_ptr, dx_ptr, dw_ptr, db_ptr, rows, n,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Of n programs, program i takes the rows i, i + n and so on, and adds its sums by atomics."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    w = tl.load(w_ptr + at, mask=inside, other=0.0)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        grad = tl.load(grad_ptr + row * n + at, mask=inside, other=0.0)
        x = tl.load(x_ptr + row * n + at, mask=inside, other=0.0)
        scale = tl.load(scale_ptr + row)
        normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * scale, 0.0)
        along = tl.sum(normal * w * grad) / n
        level = tl.sum(w * grad) / n
        dx = (w * grad - (normal * along + level)) * scale
        tl.store(dx_ptr + row * n + at, dx, mask=inside)
        dw += grad * normal
        db += grad
    tl.atomic_add(dw_ptr + at, dw, mask=inside)
    tl.atomic_add(db_ptr + at, db, mask=inside)


def layer_norm(rng: np.random.Generator) -> float:
    rows, n, eps = 7, 50, 1e-5
    x, grad = rng.standard_normal((2, rows, n), dtype=np.float32)
    w, b = rng.standard_normal((2, n), dtype=np.float32)
    out, dx = np.empty_like(x), np.empty_like(x)
    mean, scale = np.empty((2, rows), np.float32)
    dw, db = np.zeros((2, n), np.float32)
    norm_kernel[(rows,)](x, w, b, out, mean, scale, n, eps, BLOCK=64)
    norm_backward_kernel[(3,)](grad, x, w, mean, scale, dx, dw, db, rows, n, BLOCK=64)
    wide = x.astype(float)
    sigma = np.sqrt(wide.var(1, keepdims=True) + eps)
    normal = (wide - wide.mean(1, keepdims=True)) / sigma
    weighed = grad * w
    level = weighed.mean(1, keepdims=True) + normal * (weighed * normal).mean(1, keepdims=True)
    pairs = (out, normal * w + b), (dx, (weighed - level) / sigma)
    pairs += (dw, (grad * normal).sum(0)), (db, grad.sum(0))
    return max(np.abs(got - expected).max() for got, expected in pairs)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """A block of queries meets the keys block by block, with a running maximum and sum."""
    first = tl.program_id(0) * BM
    head = tl.program_id(1) * length * D
    shape, strides = (length, D), (D, 1)
    queries = tl.make_block_ptr(q_ptr + head, shape, strides, (first, 0), (BM, D), (1, 0))
    keys = tl.make_block_ptr(k_ptr + head, (D, length), (1, D), (0, 0), (D, BN), (0, 1))
    values = tl.make_block_ptr(v_ptr + head, shape, strides, (0, 0), (BN, D), (1, 0))
    q = tl.load(queries, boundary_check=(0,), padding_option="zero")
    rows = first + tl.arange(0, BM)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = min(first + BM, length) if CAUSAL else length
    for start in range(0, end, BN):
        cols = start + tl.arange(0, BN)
        scores = tl.dot(q, tl.load(keys, boundary_check=(1,), padding_option="zero")) * scale
        visible = cols[None, :] < length
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp2((top - higher) * 1.44269504)
        powers = tl.exp2((scores - higher[:, None]) * 1.44269504)
        total = total * shrink + tl.sum(powers, 1)
        v = tl.load(values, boundary_check=(0,), padding_option="zero")
        acc = acc * shrink[:, None] + tl.dot(powers.to(v.dtype), v)
        top = higher
        keys = tl.advance(keys, (0, BN))
        values = tl.advance(values, (BN, 0))
    result = tl.make_block_ptr(out_ptr + head, shape, strides, (first, 0), (BM, D), (1, 0))
    tl.store(result, (acc / total[:, None]).to(out_ptr.dtype.element_ty), boundary_check=(0,))


def attention(rng: np.random.Generator) -> float:
    heads, length, d = 2, 21, 16
    q, k, v = rng.standard_normal((3, heads, length, d), dtype=np.float32)
    out = np.empty_like(q)
    grid = (triton.cdiv(length, 16), heads)
    attention_kernel[grid](q, k, v, out, d**-0.5, length, D=d, BM=16, BN=8, CAUSAL=True)
    scores = q.astype(float) @ k.swapaxes(1, 2) * d**-0.5
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(2, keepdims=True))
    return np.abs(out - powers / powers.sum(2, keepdims=True) @ v).max()


def main() -> None:
    rng = np.random.default_rng(0)
    for task in (add, softmax, product, dropout, layer_norm, attention):
        error = task(rng)
        print(f"{task.__name__:10} is off by at most {error:.1e}")
        assert error < 2e-5


if __name__ == "__main__":
    main()
