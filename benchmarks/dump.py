"""What `iris dump` adds to the compile time of a script with ten kernels of the gallery.

A fresh process compiles each kernel once, from its arrays to the text that a device is given, with
dumps and without, in turn.  `compiled` and `dumped` are the median milliseconds by the clock of 9
processes, `ratio` is of the two, `least` and `most` are of two processes in a row.  `processor` is
the ratio of the least processor time, which says the same while others use the machine.  A device's
own compiler, which only makes the ratios less, is left out.

The dumps are deleted when all is measured: ext4 looks for the place of a new file among those that
were deleted in the last seconds, and then takes twenty times as long to make it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import report
from iris.codegen.languages.msl import MSL
from iris.runtime.interpreters import Interpreter

EXAMPLES = Path(__file__).parents[1] / "examples"
COMPILE = "--compile"  # what a process is told that compiles


class Texts(Interpreter):
    """A device that is given texts, and runs nothing."""

    name = "texts"
    accepts = MSL

    def launch(self, *given: Any) -> None:
        pass


def kernels() -> dict[str, Callable[[], object]]:
    """The kernels of the gallery, and how they are launched."""
    sys.path.insert(0, str(EXAMPLES))
    import argmax
    import black_scholes
    import flash_attention
    import gemm_bias_gelu
    import histogram
    import layernorm
    import mlp
    import softmax
    import transpose
    import vector_add

    device = Texts()
    x, y, out = (np.ones((64, 64), np.float32) for _ in range(3))
    row, bias = np.ones(64, np.float32), np.ones(64, np.float32)
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    q, k, v, heads = (np.ones((2, 64, 32), np.float32) for _ in range(4))
    apart = np.ones(64, np.float32)  # arrays that overlap would say less to the compiler
    places, bins = np.zeros(64, np.int32), np.zeros(20, np.int32)
    prices = [np.ones(1000, np.float32) for _ in range(5)]
    layers = [{"w": x, "b": row}, {"w": y, "b": bias}]
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}

    def launch(kernel: Any, *arguments: Any, **constants: Any) -> Callable[[], object]:
        return lambda: kernel[1](*arguments, device=device, **constants)

    return {
        "argmax": launch(argmax.argmax, x, places, 64, BLOCK=64),
        "black_scholes": lambda: black_scholes.black_scholes(*prices, device=device),
        "attention": launch(
            flash_attention.attention, q, k, v, heads, 64, 0.125, D=32, BQ=16, BK=32, causal=True
        ),
        "gemm_bias_gelu": launch(
            gemm_bias_gelu.gemm_bias_gelu, a, b, row, out, 64, 64, 64, 0.5, **blocks
        ),
        "histogram": launch(histogram.histogram, row, bins, -5.0, 0.5, 64, BINS=20, BLOCK=256),
        "layernorm": launch(layernorm.layernorm, x, row, bias, out, 64, 1e-5, BLOCK=64),
        "mlp": lambda: mlp.mlp(x, layers, device=device),
        "softmax": launch(softmax.softmax, x, out, 64, BLOCK=64),
        "transpose": launch(transpose.transpose, x, out, 64, 64, BLOCK=32),
        "vector_add": launch(vector_add.vector_add, row, bias, apart, 64, BLOCK=64),
    }


def compile_all() -> None:
    """Compile each kernel once; prints the seconds that each takes, and of processor time."""
    for name, compile_it in kernels().items():
        start, used = time.perf_counter(), time.process_time()
        compile_it()
        print(name, time.perf_counter() - start, time.process_time() - used)


def seconds(folder: Path | None) -> dict[str, np.ndarray]:
    """What a fresh process takes for each kernel and for all, with dumps in a folder if there is
    one: seconds by the clock, and of processor time."""
    how = {} if folder is None else {"IRIS_DUMP": "changed", "IRIS_DUMP_DIR": str(folder)}
    run = subprocess.run(
        [sys.executable, __file__, COMPILE],
        env={**os.environ, **how},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in run.stdout.splitlines()]
    taken = {name: np.array([*map(float, numbers)]) for name, *numbers in lines}
    return {**taken, "all": sum(taken.values(), np.zeros(2))}


def main() -> None:
    plain, dumped = [], []
    with tempfile.TemporaryDirectory() as root:
        for turn in range(report.times(9)):
            plain.append(seconds(None))
            folder = Path(root) / str(turn)
            dumped.append(seconds(folder))
            assert len(list(folder.glob("*/*.metal"))) >= len(plain[0]) - 1
    rows: dict[str, dict[str, float]] = {}
    for name in plain[0]:
        (before, used), (after, used_after) = (
            np.array([taken[name] for taken in times]).T for times in (plain, dumped)
        )
        rows[name] = {
            "compiled": 1e3 * float(np.median(before)),
            "dumped": 1e3 * float(np.median(after)),
            "ratio": float(np.median(after) / np.median(before)),
            "least": min(after / before),
            "most": max(after / before),
            "processor": min(used_after) / min(used),
        }
    report.write("dump", rows)


if __name__ == "__main__":
    compile_all() if COMPILE in sys.argv else main()
