"""From a Python function to the text of its Metal kernel, in milliseconds, beside Triton's way to
PTX and tinygrad's to Metal.

`cold` is a program's first compilation; the others have a fresh function object of which only the
source is parsed already, every cache of the compiler empty, every pass of the default pipeline run
and verification off: `median`, `least` and `most` of 20.  `trace`, `tile`, `metal` and `msl` say
how the median is spent: on tracing, on passes over Tile IR (the lowering is the last), on passes
over Metal IR, on the text.  Each program is compiled for sizes that 16 divides, and (`ragged`) for
sizes that it knows nothing of.  `dumped` is the median when the IR after each pass is written to
files, as `iris dump` does.

The other columns need `triton` and `torch`, and `tinygrad`; `ratio` is Triton's median to ours.
Both compile anew each time: Triton with its cache off, until it has PTX for sm_80; tinygrad, which
is given whole arrays and may make several kernels of them, from its tensors to Metal sources.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import iris
import report
from iris.codegen.emitter import emit
from iris.compiler import arguments
from iris.compiler.compilation import entry_of
from iris.compiler.dumps import Dump
from iris.compiler.pipelines import METAL_PIPELINE
from iris.frontend.function import TileFunction
from iris.ir.types import Type
from iris.passes import run
from iris.passes.instruments import Timing
from iris.passes.manager import Instrument

STAGES = ("trace", "tile", "metal", "msl")


@iris.kernel
def add(X, Y, Out, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    inside = i < N
    iris.store(Out + i, iris.load(X + i, mask=inside) + iris.load(Y + i, mask=inside), mask=inside)


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=mask)


@iris.kernel
def softmax_loops(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    m = -1e38
    for i in iris.tile_range(0, N, BLOCK):
        cols = i + iris.arange(0, BLOCK)
        mask = cols < N
        x = iris.load(X + row * N + cols, mask=mask)
        m = iris.maximum(m, x)
    m = iris.max(m)
    s = 0.0
    for i in iris.tile_range(0, N, BLOCK):
        cols = i + iris.arange(0, BLOCK)
        mask = cols < N
        x = iris.load(X + row * N + cols, mask=mask)
        s = s + iris.exp(x - m)
    s = iris.sum(s)
    for i in iris.tile_range(0, N, BLOCK):
        cols = i + iris.arange(0, BLOCK)
        mask = cols < N
        x = iris.load(X + row * N + cols, mask=mask)
        iris.store(Out + row * N + cols, iris.exp(x - m) / s, mask=mask)


@iris.kernel
def layernorm(X, Weight, Bias, Out, N, eps, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    centred = x - iris.sum(x) / N
    variance = iris.sum(centred * centred) / N
    weight = iris.load(Weight + cols, mask=mask)
    bias = iris.load(Bias + cols, mask=mask)
    y = centred * iris.rsqrt(variance + eps) * weight + bias
    iris.store(Out + row * N + cols, y, mask=mask)


@iris.kernel
def transpose(X, Out, M, N, BLOCK: iris.constexpr):
    i, j = iris.program_id(0) * BLOCK, iris.program_id(1) * BLOCK
    x = iris.tile_load(X, i, j, N, (BLOCK, BLOCK))
    iris.tile_store(Out, j, i, M, x.T)


@iris.kernel
def histogram(X, Bins, low, width, N, BINS: iris.constexpr, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + i, mask=i < N)
    place = iris.floor((x - low) / width).to(iris.i32)
    iris.atomic_add(Bins + place, 1, mask=(place >= 0) & (place < BINS))


@iris.kernel
def argmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    iris.store(Out + row, iris.argmax(iris.load(X + row * N + cols, mask=cols < N)))


@iris.kernel
def matmul(
    A, B, C, M, N, K, BLOCK_M: iris.constexpr, BLOCK_N: iris.constexpr, BLOCK_K: iris.constexpr
):
    pid_m = iris.program_id(0)
    pid_n = iris.program_id(1)
    acc = iris.zeros((BLOCK_M, BLOCK_N), dtype="f32")
    for k in iris.tile_range(0, K, BLOCK_K):
        a = iris.tile_load(A, pid_m * BLOCK_M, k, K, (BLOCK_M, BLOCK_K))
        b = iris.tile_load(B, k, pid_n * BLOCK_N, N, (BLOCK_K, BLOCK_N))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, pid_m * BLOCK_M, pid_n * BLOCK_N, N, acc, (BLOCK_M, BLOCK_N))


@iris.kernel
def flash_attention(Q, K, V, Out, S, scale, D: iris.constexpr, T: iris.constexpr):
    first = iris.program_id(0) * T
    q = iris.tile_load(Q, first, 0, D, (T, D))
    m = iris.full((T,), -1e30)
    total = iris.zeros((T,))
    acc = iris.zeros((T, D))
    for start in iris.tile_range(0, S, T):
        k = iris.tile_load(K, start, 0, D, (T, D))
        v = iris.tile_load(V, start, 0, D, (T, D))
        scores = iris.dot(q, k.T) * scale
        seen = start + iris.arange(0, T) < S
        scores = iris.where(seen[None, :], scores, -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        rescale = iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out, first, 0, D, acc / total[:, None])


@dataclass(frozen=True)
class Case:
    """A program, and what it is called with."""

    kernel: Any
    arguments: tuple[Any, ...]
    constants: dict[str, int]
    bar: float | None = None  # in milliseconds


def cases(n: int) -> dict[str, Case]:
    """The programs for matrices of n by n."""
    x = np.zeros((n, n), np.float32)
    half, head = x.astype(np.float16), np.zeros((n, 64), np.float16)
    # Copies: arrays that overlap would say less to the compiler.
    y, z, row, weight, bias = x.copy(), x.copy(), *(np.zeros(n, np.float32) for _ in range(3))
    places, bins = np.zeros(n, np.int32), np.zeros(64, np.int32)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    return {
        "add": Case(add, (x, y, z, n * n), {"BLOCK": 1024}, 2),
        "softmax": Case(softmax, (x, y, n), {"BLOCK": 1024}, 5),
        "softmax, loops": Case(softmax_loops, (x, y, n), {"BLOCK": 256}, 5),
        "layernorm": Case(layernorm, (x, weight, bias, y, n, 1e-5), {"BLOCK": 1024}),
        "transpose": Case(transpose, (x, y, n, n), {"BLOCK": 32}),
        "histogram": Case(histogram, (row, bins, -4.0, 0.5, n), {"BINS": 64, "BLOCK": 1024}),
        "argmax": Case(argmax, (x, places, n), {"BLOCK": 1024}),
        "gemm": Case(matmul, (half, half.copy(), x, n, n, n), blocks, 10),
        "attention": Case(
            flash_attention,
            (head, head.copy(), head.copy(), np.zeros((n, 64), np.float32), n, 0.125),
            {"D": 64, "T": 64},
            25,
        ),
    }


def fresh(function: TileFunction) -> TileFunction:
    """A function that was never traced, its source parsed already."""
    again = TileFunction(function.function)
    again._body = function.body
    return again


def compiled(case: Case, function: TileFunction, *watching: Instrument) -> dict[str, float]:
    """Compile a program; gives the seconds of each stage, and of all."""
    timing = Timing()
    given = arguments.call(function, case.arguments, case.constants)
    known = given.constants | given.specs
    start = time.perf_counter()
    traced = function.trace(known)
    ready = time.perf_counter()
    lowered = run(traced, METAL_PIPELINE, [timing, *watching])
    passed = time.perf_counter()
    emit(entry_of(lowered))
    end = time.perf_counter()
    names = [done.name for done, _, _ in timing.rows]
    lowering = names.index("lower-to-metal") + 1
    metal = sum(seconds for _, seconds, _ in timing.rows[lowering:])
    return {
        "trace": ready - start,
        "tile": passed - ready - metal,
        "metal": metal,
        "msl": end - passed,
        "warm": end - start,
    }


class Caches:
    """What the compiler remembers from one compilation to the next."""

    def __init__(self) -> None:
        self.types = dict(Type._known)  # those that the compiler itself refers to

    def clear(self) -> None:
        for cache in gc.get_objects():
            if type(cache) is functools._lru_cache_wrapper and cache.__module__.startswith(
                f"{iris.__name__}."
            ):
                cache.cache_clear()
        Type._known.clear()
        Type._known.update(self.types)


def triton_times(case: Case, kernel: Any, *, repeat: int) -> list[float]:
    """The seconds that Triton takes to PTX, as its own clock says."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    seconds: list[float] = []

    def listen(*, times: Any, **_: Any) -> None:
        stages = dict(times.lowering_stages)
        to_ptx = list(stages).index("ptx") + 1
        microseconds = times.ir_initialization + sum(list(stages.values())[:to_ptx])
        seconds.append(microseconds * 1e-6)

    triton.knobs.compilation.always_compile = True
    triton.knobs.compilation.listener = listen
    signature: dict[str, str] = dict.fromkeys(kernel.arg_names, "constexpr")
    known = {}
    for i, (name, value) in enumerate(zip(kernel.arg_names, case.arguments, strict=False)):
        if isinstance(value, np.ndarray):
            signature[name] = "*" + TRITON_TYPES[value.dtype.name]
        else:
            signature[name] = "i32" if isinstance(value, int) else "fp32"
        if isinstance(value, np.ndarray) or (isinstance(value, int) and value % 16 == 0):
            known[(i,)] = [["tt.divisibility", 16]]
    for _ in range(repeat + 1):
        source = ASTSource(kernel, signature, case.constants, known)
        triton.compile(source, target=GPUTarget("cuda", 80, 32))
    return seconds[1:]  # the first one loads what it needs


TRITON_TYPES = {"float32": "fp32", "float16": "fp16", "int32": "i32"}


def tinygrad_programs(n: int) -> dict[str, Callable[[], Any]]:
    """The programs as tinygrad's users write them, as far as they would."""
    os.environ.setdefault("DEV", "METAL")
    from tinygrad import Tensor, dtypes

    def new(*shape: int, dtype: Any = dtypes.float32) -> Any:
        return Tensor.empty(*shape, dtype=dtype)

    def half(*shape: int) -> Any:
        return new(*shape, dtype=dtypes.float16)

    return {
        "add": lambda: new(n, n) + new(n, n),
        "softmax": lambda: new(n, n).softmax(),
        "layernorm": lambda: new(n, n).layernorm() * new(n) + new(n),
        "transpose": lambda: new(n, n).T.contiguous(),
        "argmax": lambda: new(n, n).argmax(axis=1),
        "gemm": lambda: half(n, n).matmul(half(n, n), dtype=dtypes.float32),
        "attention": lambda: half(n, 64).scaled_dot_product_attention(half(n, 64), half(n, 64)),
    }


def tinygrad_times(program: Callable[[], Any], *, repeat: int) -> list[float]:
    """The seconds that tinygrad takes to Metal sources, without a Metal compiler."""
    from tinygrad.codegen import do_to_program
    from tinygrad.codegen.opt import tc
    from tinygrad.helpers import Target
    from tinygrad.renderer.cstyle import CStyleLanguage, MetalRenderer
    from tinygrad.uop.ops import Ops

    class Renderer(MetalRenderer):  # type: ignore[misc]
        def __init__(self) -> None:
            CStyleLanguage.__init__(self, Target("METAL", "", "Apple7"))
            self.compiler, self.tensor_cores = self, tc.metal

        def compile_cached(self, source: str) -> bytes:
            return b""

    renderer = Renderer()

    def sources(_: object) -> None:
        for call in program().schedule_linear().toposort():
            if call.op is Ops.CALL and call.src[0].op is Ops.SINK:
                do_to_program(call.src[0], renderer)

    return report.measure(sources, repeat=repeat + 1)[-repeat:]


def main() -> None:
    rows: dict[str, dict[str, float]] = {}
    has_triton = all(map(importlib.util.find_spec, ("triton", "torch")))
    has_tinygrad = importlib.util.find_spec("tinygrad") is not None
    caches = Caches()
    sizes = report.some({"": 1008, ", ragged": 1001}, ", ragged")
    for kind, n in sizes.items():
        theirs = tinygrad_programs(n) if has_tinygrad else {}
        for name, case in cases(n).items():
            function = TileFunction(case.kernel.function.function)
            caches.clear()
            cold = compiled(case, function)["warm"]
            timed = []
            for _ in range(report.times(20)):
                caches.clear()
                gc.collect()
                timed.append(compiled(case, fresh(function)))
            dumped = []
            with tempfile.TemporaryDirectory() as folder:
                for number in range(report.times(5)):
                    caches.clear()
                    gc.collect()
                    dump = Dump(Path(folder) / str(number))
                    dumped.append(compiled(case, fresh(function), dump)["warm"])
            row = {"cold": cold * 1e3} | report.spread([t["warm"] for t in timed], 1e-3)
            row |= {stage: statistics.median(t[stage] for t in timed) * 1e3 for stage in STAGES}
            row["dumped"] = statistics.median(dumped) * 1e3
            if case.bar is not None:
                row["bar"] = case.bar
            if has_triton:
                import triton_kernels

                with tempfile.TemporaryDirectory() as folder:
                    os.environ["TRITON_CACHE_DIR"] = folder
                    kernel = getattr(triton_kernels, case.kernel.__name__)
                    row["triton"] = statistics.median(triton_times(case, kernel, repeat=5)) * 1e3
                row["ratio"] = row["triton"] / row["median"]
            if name in theirs:
                times = tinygrad_times(theirs[name], repeat=5)
                row["tinygrad"] = statistics.median(times) * 1e3
            rows[name + kind] = row
    missing = [n for n, has in (("triton", has_triton), ("tinygrad", has_tinygrad)) if not has]
    print("milliseconds" + (f" ({' and '.join(missing)} not installed)" if missing else ""))
    report.write("compile", rows)


if __name__ == "__main__":
    main()
