"""Lower each kernel of some packages of Triton kernels, run it, and hold it against Triton.

`make zoo` installs the packages and Triton in folders of their own, and runs this over them.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from iris.compiler.autotune import Chooser
from iris.compiler.triton_kernel import TritonKernel
from iris.errors import IrisError
from zoo import kernels, stand_in
from zoo.judged import held_against_triton, plain
from zoo.signatures import arguments_of


def why_not(kernel: TritonKernel | Chooser) -> str:
    """Why a kernel does not lower; empty if it does."""
    try:
        compilation = kernel.base.lower(grid=(1,), **arguments_of(kernel))
        _ = compilation.msl
    except Exception as error:  # noqa: BLE001 - the table names it
        message = error.message if isinstance(error, IrisError) else repr(error)
        return message.partition("\n")[0]
    return ""


def run(path: str, kernel: TritonKernel | Chooser, folder: Path) -> str:
    """Run one program of a kernel on the interpreter, and keep what it was given and gave; or say
    why it does not run."""
    arguments = arguments_of(kernel)
    rng = np.random.default_rng(zlib.crc32(path.encode()))
    for value in arguments.values():
        if isinstance(value, np.ndarray):
            is_float, size = value.dtype.kind == "f", value.shape
            value[...] = rng.normal(size=size) if is_float else rng.integers(0, 8, size)
    passed = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
    try:
        with np.errstate(all="ignore"):
            kernel.base[(1,)](**passed, device="interp")
    except IrisError as error:
        return error.message.partition("\n")[0]
    case = {
        "arguments": {n: plain(v) for n, v in arguments.items()},
        "constants": kernel.base.function.constants,
        "results": {n: v for n, v in passed.items() if isinstance(v, np.ndarray)},
    }
    (folder / f"{path}.pickle").write_bytes(pickle.dumps(case))
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--at", required=True, help="the folder where the packages are")
    parser.add_argument("--triton", help="the folder where Triton is")
    parser.add_argument("--only", default="", help="only kernels whose path has this in it")
    parser.add_argument("--to", type=Path, help="the file for what became of each kernel")
    given = parser.parse_args()
    sys.path.insert(0, given.at)
    stand_in.install()
    import iris.triton

    iris.triton.install()
    table: dict[str, dict[str, str]] = {}
    for package in given.packages:
        outcomes = table[package] = {}
        with tempfile.TemporaryDirectory() as folder:
            for path, kernel in kernels.launched(kernels.kernels_of(package)).items():
                if re.search(given.only, path):
                    why = why_not(kernel)
                    stopped = "" if why else run(path, kernel, Path(folder))
                    outcomes[path] = f"refused: {why}" if why else f"lowers: {stopped}"
                    print(path, outcomes[path], flush=True)
            if given.triton:
                for path, verdict in held_against_triton(
                    Path(folder), given.at, given.triton
                ).items():
                    outcomes[path] = f"lowers: {verdict}"
        reasons = Counter([re.sub(r"\d+", "N", outcome) for outcome in outcomes.values()])
        print(f"== {package}: {len(outcomes)} kernels")
        for reason, count in reasons.most_common():
            print(f"{count:4}  {reason[:200]}")
    if given.to:
        given.to.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")


main()
