"""How many kernels of large functions do not fit a GPU: 300 random functions of arrays, of 200 to
2,000 ops, with up to 200 values alive and 60 arrays.

A row counts functions by the number of their ops: those that `failed`, and kernels that `spill`,
whose threads have too few registers by the estimate.  `seconds` are the processor's, of all.

    python benchmarks/large_functions.py             300 functions
    python benchmarks/large_functions.py 40 41       the functions of these seeds
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import report
from iris.compiler.graph_program import GraphProgram
from iris.cost.resources import needs_of
from iris.errors import IrisError
from iris.frontend.arrays import ArrayFunction
from iris.ir.core import Level
from iris.targets import DEFAULT

FUNCTIONS = 300
SMALL = 195  # the seed of one of the smallest
OPS = (200, 2000)
MOST_ALIVE = 200
MOST_ARRAYS = 60
N = 64  # the arrays are N by N, rows of N, or columns
SHAPES = ((N, N), (N,), (N, 1))


def _positive(x: Any) -> Any:
    return np.abs(x) + 1


UNARY: tuple[Callable[[Any], Any], ...] = (
    np.exp,
    np.tanh,
    np.sin,
    np.negative,
    np.abs,
    lambda x: np.sqrt(_positive(x)),
    lambda x: np.log(_positive(x)),
    lambda x: 1 / _positive(x),
    lambda x: x * 0.5,
    lambda x: x + 1,
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    np.add,
    np.subtract,
    np.multiply,
    np.maximum,
    np.minimum,
    lambda x, y: x / _positive(y),
    lambda x, y: np.where(x < y, x, y * 0.5),
)
# What gives an element of many, or elements of other places; a matrix becomes one again.
OF_MATRIX: tuple[Callable[[Any], Any], ...] = (
    lambda x: x - np.max(x, axis=1, keepdims=True),
    lambda x: x / _positive(np.sum(x, axis=1, keepdims=True)),
    lambda x: x - np.mean(x, axis=0),
    lambda x: np.transpose(x),
    lambda x: np.concatenate([x[1:], x[:1]]),
    lambda x: x[::-1],
    lambda x: np.pad(x, 1)[1:-1, :-2],
    lambda x: np.cumsum(x, axis=1),
)


@dataclass(frozen=True)
class Drawn:
    """What the seed of a function says of it."""

    ops: int
    arrays: int
    alive: int
    structured: float  # the part of the ops that is not elementwise


def drawn(seed: int) -> tuple[Drawn, np.random.Generator]:
    random = np.random.default_rng(seed)
    low, high = OPS
    return Drawn(
        # As many of each power of two.
        ops=int(low * (high / low) ** random.random()),
        arrays=int(random.integers(1, MOST_ARRAYS + 1)),
        alive=int(random.integers(1, MOST_ALIVE + 1)),
        structured=float(random.choice([0, 0.01, 0.05])),
    ), random


def function(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """A function and its arguments: the same for the same seed."""
    shape, random = drawn(seed)
    kinds = [0, *random.choice(len(SHAPES), shape.arrays - 1, p=(0.8, 0.1, 0.1))]
    arrays = [np.ones(SHAPES[kind], np.float32) for kind in kinds]

    def body(*given: Any) -> Any:
        choose = np.random.default_rng((seed, 1))
        alive = list(given)

        def one(values: Sequence[Any]) -> Any:
            return values[int(choose.integers(len(values)))]

        for _ in range(shape.ops):
            kind = choose.random()
            matrices = [x for x in alive if x.shape == SHAPES[0]]
            if kind < shape.structured / 5 and matrices:
                new = one(matrices) @ one(matrices)
            elif kind < shape.structured and matrices:
                new = one(OF_MATRIX)(one(matrices))
            elif kind < 0.3:
                new = one(UNARY)(one(alive))
            else:
                new = one(BINARY)(one(alive), one(alive))
            if len(alive) < shape.alive:
                alive.append(new)
            else:
                alive[int(choose.integers(len(alive)))] = new
        # All that is alive is needed, some of it as a result of its own.
        total = alive[0]
        for x in alive[1:]:
            total = total + x
        return total, *alive[: int(choose.integers(1, 5))]

    return body, arrays


def spilling(seed: int) -> list[str]:
    """The kernels of a function whose threads have too few registers."""
    body, arrays = function(seed)
    compiled = ArrayFunction(body)
    traced = compiled.trace(compiled.bind(arrays, {}))
    program = GraphProgram.of(traced.module, DEFAULT, traced.captured)
    found = []
    for kernel in dict.fromkeys(program.equal):
        registers = needs_of(kernel.lowered(Level.METAL, DEFAULT), DEFAULT).registers
        if registers > DEFAULT.thread_registers:
            found.append(f"{kernel.name} needs {registers} registers")
    return found


def main() -> None:
    usual = [SMALL] if report.SHORT else range(FUNCTIONS)
    seeds = [int(a) for a in sys.argv[1:] if a.isdigit()] or usual
    rows: dict[str, dict[str, float]] = {}
    for seed in seeds:
        shape, _ = drawn(seed)
        row = rows.setdefault(
            f"{shape.ops // 500 * 500} ops or more",
            dict.fromkeys(("functions", "failed", "spill", "seconds"), 0.0),
        )
        start = time.process_time()
        try:
            spills = spilling(seed)
        except IrisError as error:
            row["failed"] += 1
            print(f"seed {seed}, {shape}: {type(error).__name__}: {error}", flush=True)
        else:
            row["spill"] += len(spills)
            for kernel in spills:
                print(f"seed {seed}, {shape}: {kernel}", flush=True)
        row["functions"] += 1
        row["seconds"] += time.process_time() - start
    report.write("large_functions", dict(sorted(rows.items())))


if __name__ == "__main__":
    main()
