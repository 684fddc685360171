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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from iris.compiler.autotune import Chooser
from iris.compiler.triton_kernel import TritonKernel
from iris.errors import IrisError
from zoo import kernels, stand_in
from zoo.judged import held_against_triton, plain
from zoo.oracle import are_equal, arrays_of, copied
from zoo.signatures import arguments_of

#: Grids to run a kernel on: of the next one where no program of the last one writes anything.
_GRIDS = ((1, 1, 1), (4, 1, 1), (4, 4, 1), (4, 4, 2))


def lowering(kernel: TritonKernel | Chooser) -> dict[str, Any] | str:
    """Arguments with which a kernel lowers, in one of its configurations, or why it does not."""
    reasons = []
    for arguments in arguments_of(kernel):
        try:
            _ = kernel.base.lower(grid=(1,), **arguments).msl
        except Exception as error:  # noqa: BLE001 - the table names it
            reasons.append(_first_line(error))
        else:
            return arguments
    return reasons[0]


def _first_line(error: Exception) -> str:
    message = error.message if isinstance(error, IrisError) else repr(error)
    return message.partition("\n")[0]


def why_not_with(variant: TritonKernel, callers: Iterable[TritonKernel | Chooser]) -> str:
    """Why none of some kernels lowers that call a function; empty if one does."""
    why = "no kernel calls it"
    for caller in callers:
        scope, name = caller.fn.__globals__, variant.fn.__name__
        if name in caller.fn.__code__.co_names and name in scope:
            usual, scope[name] = scope[name], variant
            try:
                found = lowering(caller)
            finally:
                scope[name] = usual
            if not isinstance(found, str):
                return ""
            why = found
    return why


def run(
    path: str,
    kernel: TritonKernel | Chooser,
    arguments: dict[str, Any],
    folder: Path,
    also: str,
) -> str:
    """Run a kernel on the interpreter, and keep what it was given and gave; or say why it does not
    run, or what another device gives."""
    rng = np.random.default_rng(zlib.crc32(path.encode()))
    before = dict(arrays_of(arguments))
    for value in before.values():
        if not value.any():
            is_float, size = value.dtype.kind == "f", value.shape
            value[...] = rng.normal(size=size) if is_float else rng.integers(0, 8, size)
    for grid in _GRIDS:
        try:
            results = _given(kernel, arguments, grid, "interp")
        except IrisError as error:
            return _first_line(error)
        if not all(np.array_equal(v, before[n], True) for n, v in results.items()):
            break
    if also:
        try:
            other = _given(kernel, arguments, grid, also)
        except IrisError as error:
            return f"{also} refuses: {_first_line(error)}"
        wrong = [n for n, v in results.items() if not are_equal(other[n], v)]
        if wrong:
            return f"{also} differs: {', '.join(wrong)}"
    case = {
        "arguments": {n: plain(v) for n, v in arguments.items()},
        "constants": kernel.base.function.constants,
        "results": results,
        "grid": grid,
    }
    (folder / f"{path}.pickle").write_bytes(pickle.dumps(case))
    return ""


def _given(
    kernel: TritonKernel | Chooser, arguments: dict[str, Any], grid: tuple[int, ...], device: str
) -> dict[str, np.ndarray]:
    """What a kernel makes of copies of its arrays on a device."""
    passed = {n: copied(v) for n, v in arguments.items()}
    with np.errstate(all="ignore"):
        kernel.base[grid](**passed, device=device)
    return dict(arrays_of(passed))


def outcomes_of(package: str, only: str, folder: Path, also: str) -> dict[str, str]:
    """What becomes of each function of a package; those that others call count by their callers."""
    outcomes: dict[str, str] = {}
    defined = {d: kernels.kernel_of(d) for d in kernels.definitions(package)}
    made = {d.path: kernel for d, kernel in defined.items() if kernel is not None}
    called = set().union(*[k.fn.__code__.co_names for k in made.values()])
    launched = {
        path: kernel
        for path, kernel in made.items()
        if path.rpartition(".")[2] not in called and kernels.is_launched(kernel)
    }
    for path, kernel in launched.items():
        if re.search(only, path):
            found = lowering(kernel)
            if isinstance(found, str):
                outcomes[path] = f"refused: {found}"
            else:
                outcomes[path] = f"lowers: {run(path, kernel, found, folder, also)}"
            print(path, outcomes[path], flush=True)
    lowered = {path for path, outcome in outcomes.items() if outcome.startswith("lowers")}
    reached = set().union(*[kernels.reached_from(launched[path]) for path in lowered])
    for definition, kernel in defined.items():
        path = definition.path
        if path in launched or not re.search(only, path):
            continue
        if kernel is not None:
            lowers = definition.node.name in reached
            outcomes[path] = (
                "called: lowers" if lowers else "refused: no kernel that calls it lowers"
            )
            continue
        variant = kernels.variant_of(definition)
        callers = [launched[name] for name in lowered]
        why = "its module cannot be imported"
        if variant is not None:
            why = why_not_with(variant, callers)
        outcomes[f"{path}@{definition.line}"] = f"refused: {why}" if why else "called: lowers"
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--at", required=True, help="the folder where the packages are")
    parser.add_argument("--triton", help="the folder where Triton is")
    parser.add_argument("--only", default="", help="only kernels whose path has this in it")
    parser.add_argument("--also", default="", help="another device to run each kernel on")
    parser.add_argument("--to", type=Path, help="the file for what became of each kernel")
    given = parser.parse_args()
    sys.path.insert(0, given.at)
    stand_in.install()
    import iris.triton

    iris.triton.install()
    table: dict[str, dict[str, str]] = {}
    for package in given.packages:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = table[package] = outcomes_of(package, given.only, Path(folder), given.also)
            if given.triton:
                for path, verdict in held_against_triton(
                    Path(folder), given.at, given.triton
                ).items():
                    outcomes[path] = f"lowers: {verdict}"
        reasons = Counter([re.sub(r"\d+", "N", outcome) for outcome in outcomes.values()])
        print(f"== {package}: {len(outcomes)} functions")
        for reason, count in reasons.most_common():
            print(f"{count:4}  {reason[:200]}")
    if given.to:
        given.to.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")


main()
