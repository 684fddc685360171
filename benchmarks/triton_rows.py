"""The rows of gpu.py in Triton: for each, calls that all compute it and are tuned differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
import triton
import triton.language as tl

from triton_kernels import add, transpose

Call = Callable[[], Any]
LONGEST = 32768  # elements of a row in one program
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def gelu_of(x):
    return x * tl.sigmoid(1.59576912 * (x + 0.044715 * x * x * x))


@triton.jit
def gelu(X, Out, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    tl.store(Out + i, gelu_of(tl.load(X + i, mask=inside)), mask=inside)


@triton.jit
def rows_of(M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The rows and columns of a program, where their elements are, and which of them there are."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    at = rows.to(tl.int64)[:, None] * N + cols[None, :]
    return rows, cols, at, (rows < M)[:, None] & (cols < N)[None, :]


@triton.jit
def softmax(X, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    _, _, at, inside = rows_of(M, N, ROWS, BLOCK)
    x = tl.load(X + at, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(Out + at, e / tl.sum(e, 1)[:, None], mask=inside)


@triton.jit
def largest_and_sum(X, N, BLOCK: tl.constexpr):
    """Find the maximum of a row and the sum of exp(x - maximum), in one loop."""
    top = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=-float("inf"))
        higher = tl.maximum(top, x)
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    largest = tl.max(top, 0)
    return largest, tl.sum(total * tl.exp(top - largest), 0)


@triton.jit
def softmax_looped(X, Out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    largest, total = largest_and_sum(X + row, N, BLOCK)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(X + row + cols, mask=cols < N)
        tl.store(Out + row + cols, tl.exp(x - largest) / total, mask=cols < N)


@triton.jit
def normalised(x, inside, N, gain, shift):
    mean = tl.sum(x, 1) / N
    centred = tl.where(inside, x - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, 1) / N
    return centred * tl.rsqrt(variance + 1e-5)[:, None] * gain[None, :] + shift[None, :]


@triton.jit
def layer_norm(X, Gain, Shift, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    _, cols, at, inside = rows_of(M, N, ROWS, BLOCK)
    x = tl.load(X + at, mask=inside, other=0.0)
    gain, shift = tl.load(Gain + cols, mask=cols < N), tl.load(Shift + cols, mask=cols < N)
    tl.store(Out + at, normalised(x, inside, N, gain, shift), mask=inside)


@triton.jit
def normalise_gelu(X, Gain, Shift, Residual, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    _, cols, at, inside = rows_of(M, N, ROWS, BLOCK)
    x = tl.load(X + at, mask=inside, other=0.0)
    residual = tl.load(Residual + at, mask=inside)
    gain, shift = tl.load(Gain + cols, mask=cols < N), tl.load(Shift + cols, mask=cols < N)
    tl.store(Out + at, gelu_of(normalised(x, inside, N, gain, shift)) + residual, mask=inside)


@triton.jit
def rms_norm(X, Added, Gain, Total, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    _, cols, at, inside = rows_of(M, N, ROWS, BLOCK)
    total = tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(Added + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(total * total, 1) / N + 1e-6)
    gain = tl.load(Gain + cols, mask=cols < N).to(tl.float32)
    tl.store(Total + at, total.to(tl.float16), mask=inside)
    tl.store(Out + at, (total * scale[:, None] * gain[None, :]).to(tl.float16), mask=inside)


@triton.jit
def row_sum(X, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, _, at, inside = rows_of(M, N, ROWS, BLOCK)
    tl.store(Out + rows, tl.sum(tl.load(X + at, mask=inside, other=0.0), 1), mask=rows < M)


@triton.jit
def argmax(X, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, _, at, inside = rows_of(M, N, ROWS, BLOCK)
    x = tl.load(X + at, mask=inside, other=-float("inf"))
    tl.store(Out + rows, tl.argmax(x, 1), mask=rows < M)


@triton.jit
def cumsum(X, Out, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    _, _, at, inside = rows_of(M, N, ROWS, BLOCK)
    tl.store(Out + at, tl.cumsum(tl.load(X + at, mask=inside, other=0.0), 1), mask=inside)


@triton.jit
def column_sum(X, Out, M, N, EACH, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of columns over `EACH` rows: row `program_id(1)` of the result."""
    cols = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * EACH
    last = tl.minimum(first + EACH, M)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(first, last, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < last)[:, None] & (cols < N)[None, :]
        at = rows.to(tl.int64)[:, None] * N + cols[None, :]
        total += tl.load(X + at, mask=inside, other=0.0)
    tl.store(Out + tl.program_id(1) * N + cols, tl.sum(total, 0), mask=cols < N)


@triton.jit
def cross_entropy(X, Labels, Out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    X += row.to(tl.int64) * N
    largest, total = largest_and_sum(X, N, BLOCK)
    picked = tl.load(X + tl.load(Labels + row))
    tl.store(Out + row, largest + tl.log(total) - picked)


@triton.jit
def rope(X, Cos, Sin, Out, M, POSITIONS, HALF: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, HALF)[None, :]
    inside = (rows < M)[:, None]
    at = rows.to(tl.int64)[:, None] * (2 * HALF) + cols
    angles = (rows % POSITIONS)[:, None] * HALF + cols
    a = tl.load(X + at, mask=inside).to(tl.float32)
    b = tl.load(X + at + HALF, mask=inside).to(tl.float32)
    cos, sin = tl.load(Cos + angles, mask=inside), tl.load(Sin + angles, mask=inside)
    tl.store(Out + at, (a * cos - b * sin).to(tl.float16), mask=inside)
    tl.store(Out + at + HALF, (b * cos + a * sin).to(tl.float16), mask=inside)


@triton.jit
def channel_sums(X, Sums, IMAGES, CHANNELS, N, EACH, BLOCK: tl.constexpr):
    """The sum of a channel, and of its squares, over `EACH` images."""
    channel, part = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for image in range(part * EACH, tl.minimum((part + 1) * EACH, IMAGES)):
        first = (image * CHANNELS + channel).to(tl.int64) * N
        for start in range(0, N, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(X + first + cols, mask=cols < N, other=0.0)
            total += x
            squares += x * x
    at = Sums + (part * CHANNELS + channel) * 2
    tl.store(at, tl.sum(total, 0))
    tl.store(at + 1, tl.sum(squares, 0))


@triton.jit
def channel_norm(
    X, Sums, Gain, Shift, Out, IMAGES, CHANNELS, N, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    channel = tl.program_id(0)
    parts = Sums + (tl.arange(0, PARTS) * CHANNELS + channel) * 2
    count = IMAGES * N
    mean = tl.sum(tl.load(parts), 0) / count
    variance = tl.sum(tl.load(parts + 1), 0) / count - mean * mean
    scale = tl.load(Gain + channel) * tl.rsqrt(variance + 1e-5)
    shift = tl.load(Shift + channel) - mean * scale
    first = (tl.program_id(1) * CHANNELS + channel).to(tl.int64) * N
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(X + first + cols, mask=cols < N)
        tl.store(Out + first + cols, x * scale + shift, mask=cols < N)


@triton.jit
def matmul(
    A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
):
    """A product of matrices that the blocks divide; 8 blocks of rows share what the cache has."""
    program, wide = tl.program_id(0), N // BN
    group = program // (8 * wide)
    tall = tl.minimum(M // BM - group * 8, 8)
    row = group * 8 + program % (8 * wide) % tall
    column = program % (8 * wide) // tall
    rows = (row * BM + tl.arange(0, BM))[:, None]
    cols = (column * BN + tl.arange(0, BN))[None, :]
    a = A + rows * K + tl.arange(0, BK)[None, :]
    b = B + tl.arange(0, BK)[:, None] * N + cols
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a), tl.load(b), total, input_precision=PRECISION)
        a += BK
        b += BK * N
    tl.store(C + rows * N + cols, total.to(C.dtype.element_ty))


@triton.jit
def attention(Q, K, V, Out, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Attention where the blocks divide the positions; exponentials are of 2."""
    head = tl.program_id(1).to(tl.int64) * S * D
    d = tl.arange(0, D)[None, :]
    queries = head + (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * D + d
    keys = head + tl.arange(0, BN)[:, None] * D + d
    q = tl.load(Q + queries)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for _ in range(0, S, BN):
        scores = tl.dot(q, tl.trans(tl.load(K + keys)))
        higher = tl.maximum(top, tl.max(scores, 1) * scale * LOG2_E)
        p = tl.exp2(scores * (scale * LOG2_E) - higher[:, None])
        rescale = tl.exp2(top - higher)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(V + keys), acc * rescale[:, None])
        top = higher
        keys += BN * D
    tl.store(Out + queries, (acc / total[:, None]).to(tl.float16))


def elementwise(kernel: Any) -> Callable[..., Iterator[Call]]:
    def calls(*given: Any) -> Iterator[Call]:
        n = given[0].numel()
        for block, warps in ((1024, 4), (2048, 4), (2048, 8), (4096, 8)):

            def call(block: int = block, warps: int = warps) -> Any:
                out = torch.empty_like(given[0])
                kernel[triton.cdiv(n, block),](*given, out, n, BLOCK=block, num_warps=warps)
                return out

            yield call

    return calls


def by_rows(kernel: Any, *empty: Callable[[Any], Any]) -> Callable[..., Iterator[Call]]:
    """Calls of a kernel that has whole rows in a program: its results are made by `empty`."""

    def calls(*given: Any) -> Iterator[Call]:
        m, n = given[0].shape
        block = triton.next_power_of_2(n)
        for rows, warps in product((1, 2, 4), (2, 4, 8, 16, 32)):
            # From 4 to 64 elements in a thread, and only of short rows more than one.
            each = rows * block // (32 * warps)
            if block > LONGEST or not 4 <= each <= 64 or (rows > 1 and n > 2048):
                continue

            def call(rows: int = rows, warps: int = warps) -> Any:
                out = tuple(make(given[0]) for make in empty)
                kernel[triton.cdiv(m, rows),](
                    *given, *out, m, n, ROWS=rows, BLOCK=block, num_warps=warps
                )
                return out if len(out) > 1 else out[0]

            yield call

    return calls


def looped(kernel: Any, empty: Callable[[Any], Any]) -> Callable[..., Iterator[Call]]:
    """Calls of a kernel that has one row in a program, a part of it at a time."""

    def calls(*given: Any) -> Iterator[Call]:
        m, n = given[0].shape
        for block, warps in ((1024, 4), (2048, 4), (4096, 8), (8192, 16)):

            def call(block: int = block, warps: int = warps) -> Any:
                out = empty(given[0])
                kernel[m,](*given, out, n, BLOCK=block, num_warps=warps)
                return out

            if block <= n:
                yield call

    return calls


def softmaxes(x: Any) -> Iterator[Call]:
    yield from by_rows(softmax, torch.empty_like)(x)
    if x.shape[1] > 4096:
        yield from looped(softmax_looped, torch.empty_like)(x)


def column_sums(x: Any) -> Iterator[Call]:
    m, n = x.shape
    for columns, rows, parts in product((64, 128), (16, 32), (1, 16, 64)):

        def call(columns: int = columns, rows: int = rows, parts: int = parts) -> Any:
            wide = triton.cdiv(n, columns)
            some = torch.empty((parts, n), device=x.device)
            each = triton.cdiv(m, parts)
            column_sum[wide, parts](x, some, m, n, each, ROWS=rows, COLUMNS=columns)
            if parts == 1:
                return some[0]
            out = torch.empty(n, device=x.device)
            column_sum[wide, 1](some, out, parts, n, parts, ROWS=rows, COLUMNS=columns)
            return out

        yield call


def transposes(x: Any) -> Iterator[Call]:
    m, n = x.shape
    for block, warps in ((32, 4), (64, 4), (64, 8), (128, 8)):

        def call(block: int = block, warps: int = warps) -> Any:
            out = torch.empty((n, m), device=x.device)
            grid = (triton.cdiv(m, block), triton.cdiv(n, block))
            transpose[grid](x, out, m, n, BLOCK=block, num_warps=warps)
            return out

        yield call


def ropes(x: Any, cos: Any, sin: Any) -> Iterator[Call]:
    heads, positions, width = x.shape
    for rows, warps in ((16, 4), (32, 4), (32, 8), (64, 8)):

        def call(rows: int = rows, warps: int = warps) -> Any:
            out = torch.empty_like(x)
            m = heads * positions
            kernel = rope[triton.cdiv(m, rows),]
            kernel(x, cos, sin, out, m, positions, HALF=width // 2, ROWS=rows, num_warps=warps)
            return out

        yield call


def batch_norms(x: Any, gain: Any, shift: Any) -> Iterator[Call]:
    images, channels = x.shape[:2]
    n = x.shape[2] * x.shape[3]
    for parts, warps in product((4, 16, 32), (4, 8)):

        def call(parts: int = parts, warps: int = warps) -> Any:
            sums, out = torch.empty((parts, channels, 2), device=x.device), torch.empty_like(x)
            each, block = triton.cdiv(images, parts), min(4096, triton.next_power_of_2(n))
            of = images, channels, n
            channel_sums[channels, parts](x, sums, *of, each, BLOCK=block, num_warps=warps)
            channel_norm[channels, images](
                x, sums, gain, shift, out, *of, PARTS=parts, BLOCK=block, num_warps=warps
            )
            return out

        yield call


def products(precision: str, *blocks: tuple[int, ...]) -> Callable[..., Iterator[Call]]:
    """Calls of `matmul` by blocks of rows, columns and depth, with warps and stages."""

    def calls(a: Any, b: Any) -> Iterator[Call]:
        (m, k), n = a.shape, b.shape[1]
        for bm, bn, bk, warps, stages in blocks:
            if m % bm or n % bn or k % bk:
                continue

            def call(
                bm: int = bm, bn: int = bn, bk: int = bk, warps: int = warps, stages: int = stages
            ) -> Any:
                out = torch.empty((m, n), dtype=a.dtype, device=a.device)
                kernel = matmul[(m // bm) * (n // bn),]
                tuned = {"PRECISION": precision, "num_warps": warps, "num_stages": stages}
                kernel(a, b, out, m, n, k, BM=bm, BN=bn, BK=bk, **tuned)
                return out

            yield call

    return calls


def attentions(q: Any, k: Any, v: Any) -> Iterator[Call]:
    heads, s, d = q.shape
    for bm, bn, warps, stages in (
        (128, 64, 4, 3),
        (128, 64, 8, 3),
        (128, 128, 8, 2),
        (128, 128, 8, 3),
        (64, 64, 4, 3),
    ):

        def call(bm: int = bm, bn: int = bn, warps: int = warps, stages: int = stages) -> Any:
            out = torch.empty_like(q)
            kernel = attention[s // bm, heads]
            tuned = {"BM": bm, "BN": bn, "num_warps": warps, "num_stages": stages}
            kernel(q, k, v, out, s, d**-0.5, D=d, **tuned)
            return out

        yield call


def one_a_row(x: Any) -> Any:
    return torch.empty(x.shape[0], dtype=x.dtype, device=x.device)


def index_a_row(x: Any) -> Any:
    return torch.empty(x.shape[0], dtype=torch.int32, device=x.device)


#: By the names of gpu.py.
ROWS: dict[str, Callable[..., Iterator[Call]]] = {
    "add": elementwise(add),
    "gelu": elementwise(gelu),
    "softmax": softmaxes,
    "layernorm": by_rows(layer_norm, torch.empty_like),
    "rmsnorm f16": by_rows(rms_norm, torch.empty_like, torch.empty_like),
    "row sum": by_rows(row_sum, one_a_row),
    "column sum": column_sums,
    "argmax": by_rows(argmax, index_a_row),
    "cumsum": by_rows(cumsum, torch.empty_like),
    "transpose": transposes,
    "cross-entropy": looped(cross_entropy, one_a_row),
    "rope f16": ropes,
    "batch norm": batch_norms,
    "normalise, gelu, residual": by_rows(normalise_gelu, torch.empty_like),
    "matmul f16": products(
        "tf32",  # of f16 all are exact
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (256, 128, 64, 8, 3),
        (128, 128, 64, 4, 4),
        (128, 128, 64, 8, 3),
        (64, 128, 64, 4, 4),
    ),
    "matmul f32": products(
        "ieee",
        (64, 64, 16, 4, 3),
        (64, 128, 16, 4, 3),
        (128, 64, 16, 4, 3),
        (64, 64, 32, 4, 3),
        (128, 128, 16, 8, 3),
    ),
    "attention f16": attentions,
}
