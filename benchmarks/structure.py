"""What kernels do to the machine, counted, beside kernels that other projects have published.

Ours are ordinary tile programs and functions of arrays, lowered as for a launch on a GPU and run by
the interpreter of Metal IR, whose counters these are.  The others' figures are data (`PEERS`):
their published MSL, run on a CPU with the same counters, 32 banks of 4 bytes and lines of 128
bytes.  Our GEMM has tiles of 64x64x32 and 4 simdgroups, attention blocks of 32 by 32; rows
have the default of simdgroups.

ld, st    lines that one instruction of a simdgroup touches, summed, over the lines of the arrays
frag      fragments of 8x8 loaded from threadgroup memory for 16 products of fragments
B/mma     bytes to and from threadgroup memory for each product of fragments
cfl       cycles of bank conflicts for each access of a simdgroup to threadgroup memory
bar       barriers of a threadgroup: for each step along K (GEMM), or in all
shfl      shuffles of the simdgroups of a threadgroup, each of one register
exp       exponentials for each element of the result
mma       products of fragments over MNK/512; over those of all keys in attention

The column `text` has the same, counted in the Metal text by softmetal, where that is here; and

stack     loads of a thread from variables that a compiler cannot keep in registers

`best` is the least of the peers' figures, and `over` what ours is above it; why, stands below the
table.  `MLX merged` is with neighbouring accesses of a thread merged into one, where that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import iris
import report
from compile import argmax, layernorm, matmul, softmax
from iris.compiler.compilation import Compilation
from iris.interp import metal
from iris.interp.metal import Counters
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.interpreters import MetalInterpreter
from iris.runtime.softmetal import Count, Counted, CountingSoftmetal, Softmetal

Array = npt.NDArray[Any]
LINE = 128  # bytes
FRAGMENT = 8 * 8  # elements
HEADS, SEQUENCE, DEPTH = 8, 128, 64
BLOCK = 32  # of queries, and of keys


@iris.kernel
def rmsnorm(X, Weight, Out, N, eps, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    weight = iris.load(Weight + cols, mask=mask)
    y = x * iris.rsqrt(iris.sum(x * x) / N + eps) * weight
    iris.store(Out + row * N + cols, y, mask=mask)


@iris.kernel
def attention(Q, K, V, Out, S, scale, D: iris.constexpr, T: iris.constexpr, causal: iris.constexpr):
    first = iris.program_id(0) * T
    head = iris.program_id(1) * S * D
    q = iris.tile_load(Q + head, first, 0, D, (T, D), rows=S, cols=D)
    m = iris.full((T,), -1e30)
    total = iris.zeros((T,))
    acc = iris.zeros((T, D))
    for start in iris.tile_range(0, first + T if causal else S, T):
        k = iris.tile_load(K + head, start, 0, D, (T, D), rows=S, cols=D)
        v = iris.tile_load(V + head, start, 0, D, (T, D), rows=S, cols=D)
        key = (start + iris.arange(0, T))[None, :]
        seen = key < S
        if causal:
            seen = seen & (key <= (first + iris.arange(0, T))[:, None])
        scores = iris.where(seen, iris.dot(q, k.T) * scale, -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        rescale = iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out + head, first, 0, D, acc / total[:, None], rows=S, cols=D)


@iris.kernel
def running_sum(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    iris.store(Out + row * N + cols, iris.cumsum(x), mask=mask)


@iris.jit
def cumsum(x):
    return np.cumsum(x, axis=1)


@iris.jit
def stencil(x):
    """Five points, zeros around the array."""
    p = np.pad(x, 1)
    return 4 * x - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


@iris.jit
def inner_stencil(x):
    """Five points, of the elements that have all neighbours."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return 4 * x[1:-1, 1:-1] - around


@iris.jit
def rope(x, cos, sin):
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


MLX, MERGED, METILE, TILELANG = "MLX", "MLX merged", "meTile", "TileLang"
TINYGRAD, TRITON = "tinygrad", "triton-msl"
BEST = "best peer"  # of several, where only the best figure was kept
# MLX's GEMM is `steel`, of 64x64x16; meTile's and TileLang's have 64x64x32; tinygrad's loads its
# fragments from the device.  At 250 meTile's and TileLang's are wrong at the edges, and tinygrad
# does not use the matrix units.
GEMM_F16 = {
    "ld": {MLX: 10, METILE: 8, TILELANG: 6, TINYGRAD: 64},
    "st": {MLX: 16, MERGED: 8, METILE: 8, TILELANG: 4, TINYGRAD: 4},
    "B/mma": {MLX: 96, METILE: 192, TILELANG: 96},
    "cfl": {MLX: 0, METILE: 3.7, TILELANG: 4.4},
    "bar": {MLX: 2.1, METILE: 1, TILELANG: 2},
}
PEERS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "gemm f32 256": {
        "ld": {MLX: 12, METILE: 4, TILELANG: 4, TINYGRAD: 32},
        "st": {MLX: 8, MERGED: 4, METILE: 4, TILELANG: 4, TINYGRAD: 4},
        "frag": {MLX: 8, METILE: 20, TILELANG: 8, TINYGRAD: 8},
        "B/mma": {MLX: 192, METILE: 384, TILELANG: 192},
        "cfl": {MLX: 0.89, MERGED: 0, METILE: 4.4, TILELANG: 4.8},
        "bar": {MLX: 2.1, METILE: 2, TILELANG: 2},
    },
    "gemm f32 250": {"ld": {MLX: 29, MERGED: 23}},
    "gemm f16 256": GEMM_F16,
    "gemm f16 256 to f32": GEMM_F16,
    "softmax 64x1024": {
        "ld": {MLX: 4, MERGED: 2, METILE: 2, TRITON: 3},
        "st": {MLX: 4, MERGED: 2, METILE: 1, TRITON: 1},
        "bar": {MLX: 5, METILE: 4, TRITON: 6},
        "exp": {MLX: 1, METILE: 2.25, TRITON: 2},
    },
    "softmax 64x1000": {
        "ld": {MLX: 4.8, METILE: 3.5, TRITON: 5.3},
        "bar": {METILE: 16},
    },
    "layernorm 64x1024": {
        "ld": {MLX: 23, MERGED: 17, METILE: 3.9, TRITON: 4.9},
        "st": {MLX: 8, METILE: 1, TRITON: 1},
        "bar": {MLX: 5, METILE: 4, TRITON: 6},
    },
    "rmsnorm 64x1024": {
        "ld": {MLX: 7.9, MERGED: 4.9, METILE: 3},
        "st": {MLX: 4, METILE: 1},
        "bar": {MLX: 3, METILE: 2},
    },
    "argmax 64x1000": {"bar": {BEST: 1}},
    "attention": {
        "ld": {MLX: 48},
        "st": {MLX: 8, MERGED: 4},
        "bar": {MLX: 18},
        "exp": {MLX: 2.25},
    },
    "attention causal": {"ld": {MLX: 32}, "exp": {MLX: 1.4}},
    "stencil 256x256": {"ld": {BEST: 7}},
    "rope 8x128x64": {"ld": {BEST: 1.6}},
    "cumsum 64x1000": {"ld": {BEST: 1.2}},
    "running sum 64x1000": {"ld": {BEST: 1.2}},
}
WHY = {
    ("gemm f16 256", "bar"): "one buffer for each operand, for more simdgroups on a core",
    ("gemm f16 256 to f32", "bar"): "one buffer for each operand, for more simdgroups on a core",
}


class Counting(MetalInterpreter):
    """Counts what launches do."""

    name = "counting"

    def __init__(self) -> None:
        self.counters = Counters()

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        metal.run(program.entry, grid, views, counters=self.counters)


@dataclass(frozen=True)
class Case:
    """A launch, and what is right."""

    kernel: Any
    grid: tuple[int, ...]
    inputs: Sequence[Array]
    rest: Sequence[Any]  # arguments after the arrays
    constants: Mapping[str, Any]
    expected: Array  # in the dtype of the result
    steps: int = 1  # along K
    products: int = 0  # of elements

    def figures(self) -> dict[str, float]:
        device = Counting()
        self.run(device)
        counted = device.counters
        out = self.expected
        shared = (counted.threadgroup_loads, counted.threadgroup_stores)
        barriers = counted.barriers["threadgroup"]
        found = {
            "ld": counted.device_loads.lines / sum(map(lines, self.inputs)),
            "st": counted.device_stores.lines / lines(out),
            "bar": barriers / int(np.prod(self.grid)) / self.steps,
        }
        if accesses := sum(s.instructions for s in shared):
            found["cfl"] = sum(s.conflicts for s in shared) / accesses
        if counted.mmas:
            fragments = counted.threadgroup_loads.bytes / (FRAGMENT * self.inputs[0].itemsize)
            found["frag"] = 16 * fragments / counted.mmas
            found["B/mma"] = sum(s.bytes for s in shared) / counted.mmas
            found["mma"] = counted.mmas / (self.products / 512)
        if shuffles := sum(counted.shuffles.values()):
            found["shfl"] = shuffles / int(np.prod(self.grid))
        if "exp" in counted.transcendentals:
            found["exp"] = counted.transcendentals["exp"] / out.size
        return found

    def run(self, device: Any) -> None:
        np.testing.assert_allclose(self.result(device), self.expected, rtol=1e-2, atol=1e-2)

    def result(self, device: Any) -> Array:
        out = np.zeros_like(self.expected)
        self.kernel[self.grid](*self.inputs, out, *self.rest, device=device, **self.constants)
        return out

    def lowered(self) -> Compilation:
        return self.kernel.lower(
            *self.inputs, self.expected, *self.rest, grid=self.grid, **self.constants
        )

    def figures_of_text(
        self, text: CountingSoftmetal, stack: CountingSoftmetal
    ) -> dict[str, float]:
        self.run(text)
        counts = text.counts()

        def total(start: str) -> Count:
            chosen = [figures for name, figures in counts.items() if name.startswith(start)]
            return Count(*map(sum, zip((0, 0, 0), *chosen, strict=True)))

        shared, mmas = total("threadgroup "), total("operation a matrix multiplication").times
        programs = int(np.prod(self.grid))
        found = {
            "ld": total("device load").cost / sum(map(lines, self.inputs)),
            "st": total("device store").cost / lines(self.expected),
            "bar": total("barrier").times / programs / self.steps,
        }
        if shared.times:
            found["cfl"] = shared.cost / shared.times
        if mmas:
            fragments = total("threadgroup load").bytes / (FRAGMENT * self.inputs[0].itemsize)
            found |= {"frag": 16 * fragments / mmas, "B/mma": shared.bytes / mmas}
            found["mma"] = mmas / (self.products / 512)
        if shuffles := total("operation a shuffle").times:
            found["shfl"] = shuffles / programs
        self.run(stack)
        kept = stack.counts().get("stack load", Count(0, 0, 0)).times
        found["stack"] = kept / (programs * 32 * self.lowered().estimate.simdgroups)
        return found


class FunctionCase(Case):
    """A call of a function of arrays that becomes one kernel, and what is right."""

    def result(self, device: Any) -> Array:
        return np.asarray(self.kernel(*self.inputs, device=device))

    def lowered(self) -> Compilation:
        (kernel,) = self.kernel.kernels(*self.inputs)
        return kernel


def lines(array: Array) -> int:
    return -(-array.nbytes // LINE)


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    found: dict[str, Case] = {}
    for n in (256, 250):
        found[f"gemm f32 {n}"] = gemm_case(n, np.float32, np.float32, rng)
        found[f"gemm f16 {n}"] = gemm_case(n, np.float16, np.float16, rng)
        found[f"gemm f16 {n} to f32"] = gemm_case(n, np.float16, np.float32, rng)
    for n in (1024, 1000):
        found |= row_cases(n, rng)
    found |= neighbour_cases(rng)
    found["attention"] = attention_case(False, rng)
    found["attention causal"] = attention_case(True, rng)
    return found


def gemm_case(n: int, operands: Any, result: Any, rng: np.random.Generator) -> Case:
    a, b = (rng.standard_normal((n, n)).astype(operands) for _ in range(2))
    tiles = iris.cdiv(n, 64)
    return Case(
        matmul,
        (tiles, tiles),
        (a, b),
        (n, n, n),
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_simdgroups": 4},
        (a.astype(np.float32) @ b.astype(np.float32)).astype(result),
        steps=iris.cdiv(n, 32),
        products=n**3,
    )


def row_cases(n: int, rng: np.random.Generator) -> dict[str, Case]:
    rows = 64
    x = rng.standard_normal((rows, n)).astype(np.float32)
    weight, bias = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    e = np.exp(x - x.max(1, keepdims=True))
    centred = x - x.mean(1, keepdims=True)
    normed = centred / np.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5)
    root = np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
    grid, constants = (rows,), {"BLOCK": 1024}
    programs = {
        "softmax": Case(softmax, grid, [x], (n,), constants, e / e.sum(1, keepdims=True)),
        "layernorm": Case(
            layernorm, grid, [x, weight, bias], (n, 1e-5), constants, normed * weight + bias
        ),
        "rmsnorm": Case(rmsnorm, grid, [x, weight], (n, 1e-5), constants, x / root * weight),
    }
    if n == 1000:
        places = x.argmax(1).astype(np.int32)
        programs["argmax"] = Case(argmax, grid, [x], (n,), constants, places)
    return {f"{name} {rows}x{n}": case for name, case in programs.items()}


def neighbour_cases(rng: np.random.Generator) -> dict[str, Case]:
    """Functions of arrays whose elements need others near them."""

    def drawn(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    found: dict[str, Case] = {
        "stencil 256x256": function_case(stencil, drawn(256, 256)),
        "inner stencil 258x258": function_case(inner_stencil, drawn(258, 258)),
        "rope 8x128x64": function_case(rope, drawn(8, 128, 64), drawn(128, 32), drawn(128, 32)),
    }
    for n in (1024, 1000):
        x = drawn(64, n)
        found[f"cumsum 64x{n}"] = function_case(cumsum, x)
        found[f"running sum 64x{n}"] = Case(
            running_sum, (64,), [x], (n,), {"BLOCK": 1024}, np.cumsum(x, axis=1)
        )
    return found


def function_case(function: Any, *inputs: Array) -> Case:
    (kernel,) = function.kernels(*inputs)
    expected = function.__wrapped__(*inputs)
    return FunctionCase(function, kernel.grid, inputs, (), {}, expected)


def attention_case(causal: bool, rng: np.random.Generator) -> Case:
    q, k, v = (rng.standard_normal((HEADS, SEQUENCE, DEPTH)).astype(np.float32) for _ in range(3))
    scale = DEPTH**-0.5
    scores = q @ k.swapaxes(1, 2) * scale
    if causal:
        scores = np.where(np.tri(SEQUENCE, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(2, keepdims=True))
    return Case(
        attention,
        (SEQUENCE // BLOCK, HEADS),
        (q, k, v),
        (SEQUENCE, scale),
        {"D": DEPTH, "T": BLOCK, "causal": causal, "num_simdgroups": 4},
        (p / p.sum(2, keepdims=True)) @ v,
        products=HEADS * 2 * SEQUENCE**2 * DEPTH,
    )


def main() -> None:
    rows: dict[str, dict[str, float]] = {}
    worse: list[str] = []
    missing = Softmetal.missing()
    if missing:
        print(f"the text is not counted: {missing}")
    counting = [] if missing else [CountingSoftmetal(what) for what in Counted]
    chosen = report.some(cases(), "gemm f16 256", "softmax 64x1000", "attention causal")
    for name, case in chosen.items():
        theirs = PEERS.get(name, {})
        of_text = case.figures_of_text(*counting) if counting else {}
        for figure, ours in (of_text | case.figures()).items():
            row = rows[f"{name}: {figure}"] = {}
            if figure != "stack":
                row["ours"] = ours
            if figure in of_text:
                row["text"] = of_text[figure]
            peers = theirs.get(figure)
            if not peers:
                continue
            best = min(peers.values())
            # The peers' figures are rounded to two digits.
            over = ours - best if ours > best * 1.05 else 0.0
            row |= {"best": best, "over": over}
            if over:
                worse.append(f"{name}: {figure}: {WHY.get((name, figure), 'not explained')}")
            row |= peers
    report.write("structure", rows)
    print("\nworse than the best of the peers:", *(worse or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
