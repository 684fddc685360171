"""The software Metal device: what compiling and running kernels takes, beside its bars.

Bars are for two cores that nothing else uses: a test kernel compiled in 150 ms, a product of
256x256 matrices by simdgroup matrices in 30 ms, a barrier in 15 ns per thread, a softmax of
1024x1024 in 100 ms.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/softmetal"))

Run = Callable[[Sequence[Any], tuple[int, int], tuple[int, int]], None]


def compiled(text: str, name: str) -> Run:
    """How a kernel of a text is run: (buffers, threads, threads per threadgroup)."""
    from msl import Library

    library = Library.compile(text)
    return lambda buffers, threads, per: library.run(name, buffers, threads, per)


HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"

GEMM = (
    HEAD
    + """
// 32x32 of C by four simdgroups, each of which has 16x16.
kernel void gemm(device const float* A, device const float* B, device float* C, constant uint& n,
                 uint2 group [[threadgroup_position_in_grid]],
                 ushort simd [[simdgroup_index_in_threadgroup]]) {
    const uint row = group.y * 32 + simd / 2 * 16, column = group.x * 32 + simd % 2 * 16;
    simdgroup_float8x8 a[2], b[2], c[2][2];
    for (int i = 0; i < 4; ++i) c[i / 2][i % 2] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint k = 0; k < n; k += 8) {
        for (int i = 0; i < 2; ++i) {
            simdgroup_load(a[i], A + (row + i * 8) * n + k, n);
            simdgroup_load(b[i], B + k * n + column + i * 8, n);
        }
        for (int i = 0; i < 4; ++i) {
            simdgroup_multiply_accumulate(c[i / 2][i % 2], a[i / 2], b[i % 2], c[i / 2][i % 2]);
        }
    }
    for (int i = 0; i < 4; ++i) {
        simdgroup_store(c[i / 2][i % 2], C + (row + i / 2 * 8) * n + column + i % 2 * 8, n);
    }
}
"""
)

SOFTMAX = (
    HEAD
    + """
kernel void softmax(device const float* X, device float* Y, constant uint& n,
                    uint row [[threadgroup_position_in_grid]],
                    uint l [[thread_index_in_threadgroup]], uint width [[threads_per_threadgroup]],
                    ushort lane [[thread_index_in_simdgroup]],
                    ushort simd [[simdgroup_index_in_threadgroup]]) {
    threadgroup float greatest[32], sums[32];
    float m = -INFINITY, s = 0;
    for (uint i = l; i < n; i += width) m = max(m, X[row * n + i]);
    m = simd_max(m);
    if (lane == 0) greatest[simd] = m;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    m = simd_max(lane < width / 32 ? greatest[lane] : -INFINITY);
    for (uint i = l; i < n; i += width) s += exp(X[row * n + i] - m);
    s = simd_sum(s);
    if (lane == 0) sums[simd] = s;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    s = simd_sum(lane < width / 32 ? sums[lane] : 0.0f);
    for (uint i = l; i < n; i += width) Y[row * n + i] = exp(X[row * n + i] - m) / s;
}
"""
)

BARRIERS = 2000
BARRIER = (
    HEAD + f"kernel void wait(device float* X) {{ for (int i = 0; i < {BARRIERS}; ++i)"
    " threadgroup_barrier(mem_flags::mem_threadgroup); }\n"
)


def row(seconds: list[float], unit: float, bar: float) -> dict[str, float]:
    return {**report.spread(seconds, unit), "bar": bar}


def main() -> None:
    number = itertools.count()

    def compile_afresh(_: object) -> None:
        compiled(f"{SOFTMAX}constant int number = {next(number)};\n", "softmax")

    compile_afresh(None)  # precompiles the headers
    rows = {"compile, ms": row(report.measure(compile_afresh), 1e-3, 150)}

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 256, 256)).astype(np.float32)
    c, size = np.zeros_like(a), np.array([256], np.uint32)
    gemm = compiled(GEMM, "gemm")
    seconds = report.measure(lambda _: gemm([a, b, c, size], (8 * 128, 8), (128, 1)))
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
    rows["gemm 256, ms"] = row(seconds, 1e-3, 30)

    wait = compiled(BARRIER, "wait")
    for threads in (128, 1024):
        seconds = report.measure(lambda _, n=threads: wait([c], (n, 1), (n, 1)))
        each = [s / BARRIERS / threads for s in seconds]
        rows[f"barrier of {threads}, ns per thread"] = row(each, 1e-9, 15)

    x = rng.standard_normal((1024, 1024)).astype(np.float32)
    y, size = np.zeros_like(x), np.array([1024], np.uint32)
    softmax = compiled(SOFTMAX, "softmax")
    seconds = report.measure(lambda _: softmax([x, y, size], (1024 * 128, 1), (128, 1)))
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-4)
    rows["softmax 1024, ms"] = row(seconds, 1e-3, 100)
    report.write("softmetal", rows)


if __name__ == "__main__":
    main()
