"""What `iris dump` adds to the compile time of a script with ten kernels of the gallery.

A fresh process compiles each kernel once, from its arrays to the text that a device is given, with
dumps and without: `compiled` and `dumped` are the least milliseconds of CPU time of 9 processes,
`ratio` is of the two.  A device's own compiler, which only makes the ratio less, is left
out.
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
    """Compile each kernel once; prints the seconds of CPU time that each takes."""
    for name, compile_it in kernels().items():
        start = time.process_time()
        compile_it()
        print(name, time.process_time() - start)


def seconds(folder: str | None) -> dict[str, float]:
    """What a fresh process takes for each kernel, with dumps in a folder if there is one."""
    how = {} if folder is None else {"IRIS_DUMP": "changed", "IRIS_DUMP_DIR": folder}
    run = subprocess.run(
        [sys.executable, __file__, COMPILE],
        env={**os.environ, **how},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in run.stdout.splitlines()]
    return {name: float(taken) for name, taken in lines}


def main() -> None:
    plain, dumped = [], []
    for _ in range(report.times(9)):
        plain.append(seconds(None))
        with tempfile.TemporaryDirectory() as folder:
            dumped.append(seconds(folder))
            assert len(list(Path(folder).glob("*/*.metal"))) >= len(dumped[0])
    rows = {}
    for name in [*plain[0], "all"]:
        before, after = (
            1e3 * min([sum(t.values()) if name == "all" else t[name] for t in times])
            for times in (plain, dumped)
        )
        rows[name] = {"compiled": before, "dumped": after, "ratio": after / before}
    report.write("dump", rows)


if __name__ == "__main__":
    compile_all() if COMPILE in sys.argv else main()
