"""Lower each kernel of some packages of Triton kernels, and say what became of it.

`make zoo` installs the packages in a folder, and runs this over them.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from iris.compiler.autotune import Chooser
from iris.compiler.triton_kernel import TritonKernel
from iris.errors import IrisError
from iris.ir.types import DType
from zoo import kernels, stand_in
from zoo.signatures import arguments_of


def outcome(kernel: TritonKernel | Chooser, trace_only: bool) -> str:
    """Why a kernel does not lower; empty if it does."""
    arguments = arguments_of(kernel)
    try:
        compilation = kernel.base.lower(grid=(1,), **arguments)
        if not trace_only:
            _ = compilation.msl
    except IrisError as error:
        return f"{type(error).__name__}: {error.message}"
    except Exception as error:  # noqa: BLE001 - the table names it
        return f"! {type(error).__name__}: {error}".partition("\n")[0]
    return ""


def run(path: str, kernel: TritonKernel | Chooser, folder: Path) -> str:
    """Run one program of a kernel on the interpreter, and keep what it was given and gave."""
    arguments = arguments_of(kernel)
    rng = np.random.default_rng(zlib.crc32(path.encode()))
    for value in arguments.values():
        if isinstance(value, np.ndarray):
            floats = value.dtype.kind == "f"
            size = value.shape
            value[...] = rng.normal(size=size) if floats else rng.integers(0, 8, size)
    results = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
    try:
        with np.errstate(all="ignore"):
            kernel.base[(1,)](**results, device="interp")
    except IrisError as error:
        return f"{type(error).__name__}: {error.message}".partition("\n")[0]
    named = {n: _plain(v) for n, v in arguments.items()}
    arrays = {n: v for n, v in results.items() if isinstance(v, np.ndarray)}
    constants = kernel.base.function.constants
    case = {"arguments": named, "constants": constants, "results": arrays}
    (folder / f"{path}.pickle").write_bytes(pickle.dumps(case))
    return ""


def _plain(value: Any) -> Any:
    """A value that a process without Iris can read."""
    if isinstance(value, DType):
        return f"tl.{_LONG[value.name]}"
    kind = next((k for k in (bool, int, float, str) if isinstance(value, k)), None)
    return value if kind is None else kind(value)


_LONG = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i64": "int64"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--at", required=True, help="the folder where the packages are")
    parser.add_argument("--trace", action="store_true", help="trace only")
    parser.add_argument("--only", default="")
    parser.add_argument("--run", type=Path, help="run what lowers, and keep results in this folder")
    given = parser.parse_args()
    sys.path.insert(0, given.at)
    stand_in.install()
    import iris.triton

    iris.triton.install()
    for package in given.packages:
        mains = kernels.launched(kernels.kernels_of(package))
        reasons = Counter()
        for path, kernel in mains.items():
            if not re.search(given.only, path):
                continue
            start = time.process_time()
            why = outcome(kernel, given.trace)
            if not why and given.run is not None:
                given.run.mkdir(parents=True, exist_ok=True)
                stopped = run(path, kernel, given.run)
                if stopped:
                    print(f"does not run: {path} {stopped}")
            spent = time.process_time() - start
            print(f"{'ok' if not why else 'NO'} {spent:6.2f}s {path}  {why}", flush=True)
            reasons[re.sub(r"[\d%<>x]+|\b[a-z_A-Z0-9]+\b(?= (starts|becomes|is))", "_", why)] += 1
        lowered = reasons.pop("", 0)
        print(f"== {package}: {lowered} of {sum(reasons.values()) + lowered}")
        for reason, count in reasons.most_common():
            print(f"{count:4}  {reason[:300]}")


main()
