"""What tests of matrix products share: the GEMM of the contract, attention, and a device that runs
kernels as lowered for a GPU, in lockstep or by turns, and counts what they do to each array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import iris
from iris.interp import metal
from iris.interp.metal import Counters
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.interpreters import MetalInterpreter

Array = npt.NDArray[Any]
F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
LINE = 128  # bytes
WIDE = 32 * 16  # bytes of one instruction of a simdgroup, 16 a lane


@iris.kernel
def gemm(
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
def attention(
    Q,
    K,
    V,
    Out,
    S,
    scale,
    D: iris.constexpr,
    BQ: iris.constexpr,
    BK: iris.constexpr,
    causal: iris.constexpr,
):
    """One block of BQ queries of one head; Q, K, V and Out are (heads, S, D)."""
    first = iris.program_id(0) * BQ
    head = iris.program_id(1) * S * D
    rows = first + iris.arange(0, BQ)
    q = iris.tile_load(Q + head, first, 0, D, (BQ, D), rows=S, cols=D)
    m = iris.full((BQ,), -1e30)
    total = iris.zeros((BQ,))
    acc = iris.zeros((BQ, D))
    end = iris.minimum(S, first + BQ) if causal else S
    for start in iris.tile_range(0, end, BK):
        cols = start + iris.arange(0, BK)
        k = iris.tile_load(K + head, start, 0, D, (BK, D), rows=S, cols=D)
        v = iris.tile_load(V + head, start, 0, D, (BK, D), rows=S, cols=D)
        scores = iris.dot(q, k.T) * scale
        seen = cols[None, :] < S
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = iris.where(seen, scores, -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        rescale = iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out + head, first, 0, D, acc / total[:, None], rows=S, cols=D)


@dataclass
class PerArray(Counters):
    """Counts also what is loaded from each array, by its name."""

    loaded: Counter[str] = field(default_factory=Counter)  # bytes
    lines: Counter[str] = field(default_factory=Counter)  # of an instruction, summed

    def device(self, array: Any, size: int, first: Array, width: int, loads: bool) -> None:
        bytes_before, lines_before = self.device_loads.bytes, self.device_loads.lines
        super().device(array, size, first, width, loads)
        self.loaded[array.name] += self.device_loads.bytes - bytes_before
        self.lines[array.name] += self.device_loads.lines - lines_before

    @property
    def shared_bytes(self) -> int:
        """Those to threadgroup memory and from it."""
        return self.threadgroup_loads.bytes + self.threadgroup_stores.bytes

    @property
    def shared_cycles(self) -> int:
        """What threadgroup memory is busy for, with all banks, and with those that conflict."""
        target, sides = self.target, (self.threadgroup_loads, self.threadgroup_stores)
        well_spread = self.shared_bytes // (target.banks * target.bank_bytes)
        return well_spread + sum(side.conflicts for side in sides)


class Lowered(MetalInterpreter):
    """Runs kernels as lowered for a GPU: in lockstep, or with simdgroups that take turns."""

    def __init__(self, seed: int | None = None):
        self.seed = seed
        self.counters = PerArray()

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        metal.run(program.entry, grid, views, counters=self.counters, interleave=self.seed)


def count(kernel: Any, grid: Any, *arguments: Any, **named: Any) -> PerArray:
    """What a launch does."""
    device = Lowered()
    kernel[grid](*arguments, device=device, **named)
    return device.counters


def whole(shape: Any, dtype: Any = F32, seed: int = 0) -> Array:
    """Small integers, of which any sum of products is exact in f32."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def product(a: Array, b: Array) -> Array:
    """The exact product of matrices of small integers."""
    return a.astype(F32) @ b.astype(F32)
