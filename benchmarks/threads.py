"""What a kernel by thread costs Python: its compilation, and a launch beside that of a tile kernel.

Compilation is timed in processor time, as in compile.py: the function is fresh but its source is
parsed, the compiler's caches are empty, all passes run, verification is off. The bar is 5 ms.
`passes` and `msl` are the time in passes and in writing the text; the rest is tracing. The tile
kernel `add` of compile.py shows how fast the machine is.

A launch is that of an empty kernel on softmetal, as in dispatch.py: the whole call, without what
softmetal runs.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

import numpy as np

import compile as cold
import dispatch
import iris
import report
from iris import metal
from iris.codegen.emitter import emit
from iris.compiler.compilation import entry_of
from iris.compiler.pipelines import THREAD_PIPELINE
from iris.compiler.thread_kernel import ThreadKernel, ThreadOptions
from iris.frontend.threads.function import ThreadFunction
from iris.passes import run
from iris.runtime.devices import select

BAR = 5.0  # milliseconds


@metal.kernel
def add(A: "device const float*", B: "device const float*", C: "device float*", W: "uint"):
    x, y = metal.thread_id_x(), metal.thread_id_y()
    if x < W:
        at = y * W + x
        C[at] = A[at] + B[at]


@metal.kernel
def transpose(A: "device const float*", B: "device float*", W: "uint", H: "uint"):
    square = metal.shared((16, 17), metal.float)
    x, y = metal.thread_in_threadgroup_x(), metal.thread_in_threadgroup_y()
    row, column = metal.threadgroup_id_y() * 16, metal.threadgroup_id_x() * 16
    square[y, x] = A[(row + y) * W + column + x]
    metal.barrier()
    B[(column + y) * H + row + x] = square[x, y]


@metal.kernel
def total(X: "device const float*", Out: "device float*", n: "int"):
    sums = metal.shared(8, metal.float)
    mine = metal.float(0)
    for i in range(metal.thread_id_x(), n, metal.grid_size_x()):
        mine += X[i]
    mine = metal.simd_sum(mine)
    if metal.lane_id() == 0:
        sums[metal.simdgroup_id()] = mine
    metal.barrier()
    if metal.thread_in_threadgroup() == 0:
        for i in range(1, 8):
            sums[0] += sums[i]
        metal.atomic_add(Out, sums[0])


def pull(p, q):
    d = q.xyz - p.xyz
    inverse = metal.rsqrt(metal.dot(d, d) + 0.01)
    return d * (q.w * inverse * inverse * inverse)


@metal.kernel
def bodies(P: "device const float4*", F: "device packed_float3*"):
    near = metal.shared(64, metal.float4)
    t, i = metal.thread_in_threadgroup(), metal.thread_id_x()
    p, force = P[i], metal.float3(0)
    for first in range(0, metal.grid_size_x(), 64):
        near[t] = P[first + t]
        metal.barrier()
        for k in metal.range(64):
            force += pull(p, near[k])
        metal.barrier()
    F[i] = force


@metal.kernel
def matmul(
    A: "device const half*", B: "device const half*", C: "device float*", N: "uint", K: "uint"
):
    row, column = metal.threadgroup_id_y() * 8, metal.threadgroup_id_x() * 8
    acc = metal.simdgroup_matrix(0)
    for k in metal.range(0, K, 8):
        a = metal.simdgroup_load(A + (row * K + k), K)
        b = metal.simdgroup_load(B + (k * N + column), N)
        acc = metal.simdgroup_multiply_accumulate(a, b, acc)
    metal.simdgroup_store(acc, C + (row * N + column), N)


@metal.kernel
def nothing(X: "device float*", Y: "device float*", n: "uint"):
    if metal.thread_id_x() < n:
        X[metal.thread_id_x()] = 1


def launches() -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Kernels, their arguments, and how they are launched."""
    x, y, z = np.zeros((3, 64, 64), np.float32)
    half, four = np.zeros((2, 64, 64), np.float16), np.zeros((128, 4), np.float32)
    whole = {"grid": (4, 4), "threadgroup": (16, 16)}
    return {
        "add": (add, (x, y, z, 64), {"threads": (64, 64)}),
        "transpose": (transpose, (x, y, 64, 64), whole),
        "sum": (total, (x, y, 4096), {"threads": 512}),
        "sum, ragged": (total, (x, y, 4096), {"threads": 500}),
        "bodies": (bodies, (four, x), {"grid": 2, "threadgroup": 64}),
        "matmul": (matmul, (*half, x, 64, 64), {"grid": (8, 8), "threadgroup": 32}),
    }


def compiled(kernel: ThreadKernel, arguments: tuple[Any, ...], how: Any) -> dict[str, float]:
    """Milliseconds of a compilation, and of its stages."""
    again = ThreadFunction(kernel.function.function, {})
    again._body = kernel.function.body
    options, given = kernel.asked_but_grid(arguments, {**how})
    assert isinstance(options, ThreadOptions)
    known = given.specs | given.constants
    start = time.process_time()
    traced = again.trace_threads(known, options.threads)
    ready = time.process_time()
    lowered = run(traced, THREAD_PIPELINE)
    passed = time.process_time()
    emit(entry_of(lowered))
    end = time.process_time()
    return {
        "total": (end - start) * 1e3,
        "passes": (passed - ready) * 1e3,
        "msl": (end - passed) * 1e3,
    }


def compile_times() -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    caches = cold.Caches()
    tiles = cold.cases(1008)["add"]
    seconds = []
    for _ in range(report.times(20)):
        caches.clear()
        gc.collect()
        start = time.process_time()
        cold.compiled(tiles, cold.fresh(tiles.kernel.function))
        seconds.append(time.process_time() - start)
    rows["compile tiles of add"] = {"total": statistics.median(seconds) * 1e3}
    for name, (kernel, arguments, how) in report.some(launches(), "sum, ragged").items():
        timed = []
        for _ in range(report.times(20)):
            caches.clear()
            gc.collect()
            timed.append(compiled(kernel, arguments, how))
        medians = {key: statistics.median([one[key] for one in timed]) for key in timed[0]}
        rows[f"compile {name}"] = {"bar": BAR, **medians}
    return rows


def launch_times() -> dict[str, dict[str, float]]:
    """Microseconds of a launch, direct and prepared."""
    device = select("softmetal")
    x = iris.asarray(np.zeros(32, np.float32), device=device)
    y = iris.empty_like(x)
    by_thread = nothing.prepare(x, y, 0, grid=1, threadgroup=32)
    by_tile = dispatch.empty.prepare(x, y, 0, grid=1, B=32)
    calls = {
        "launch by thread": (lambda: nothing(x, y, 0, grid=1, threadgroup=32), by_thread),
        "launch of tiles": (lambda: dispatch.empty[1](x, y, 0, B=32), by_tile),
    }
    seconds: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(report.times(9)):  # by turns, as the machine has better and worse minutes
        for name, both in calls.items():
            both[0]()
            device.synchronize()
            found = []
            for call in both:
                found.append(dispatch.per_call(call))
                device.synchronize()
            seconds[name].append(found)
    return {
        name: {
            "direct us": statistics.median([direct for direct, _ in found]),
            "prepared": statistics.median([prepared for _, prepared in found]),
        }
        for name, found in seconds.items()
    }


def main() -> None:
    rows = {**compile_times(), **launch_times()}
    print("milliseconds of compilations; microseconds of launches")
    report.write("threads", rows)


if __name__ == "__main__":
    main()
