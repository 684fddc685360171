"""Compile the kernels of MLX and llama.cpp on softmetal, run some, and print a table of what works.

    PYTHONPATH=tests python -m foreign [name ...]

Names choose files: each is a part of one's path.  The packages are fetched into a folder that goes
when this ends, or into the one that IRIS_FOREIGN names, which stays.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "softmetal"))

import numpy as np
from msl import Failure, Library, check

from foreign import heads, instances, kernels, packages

_MACROS = {"GGML_METAL_HAS_BF16": "1"}
_FRAGMENTS = ("fa_common", "fa_vec_common")  # of other files, which include more before them


def texts(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Every file, with what it includes and instances of its templates, and its language."""
    roots = packages.mlx_roots(folder)
    for name, header in instances.HEADERS.items():
        text = packages.flat([*header.before, name], roots)
        yield f"mlx {name}", text + instances.lines(header), header.version
    before = packages.flat(instances.BEFORE_TEXTS, roots)
    host = (roots[0].parent / instances.TEXTS).read_text()
    yield f"mlx {instances.TEXTS}", before + instances.completed(host), 310
    for path in sorted(packages.llama_kernels(folder).glob("*.metal")):
        before = ["common.h", "dequantize.h"] if path.stem in _FRAGMENTS else []
        roots = [path.parent, path.parents[1], path.parents[2]]
        yield f"llama.cpp {path.name}", packages.flat([*before, path.name], roots), 310


def compiled(text: str, version: int = 310) -> tuple[Library | None, str]:
    try:
        return Library.compile(text, _MACROS, version=version), ""
    except Failure as error:
        return None, first(str(error))


def first(said: str) -> str:
    """The first error that a compiler tells."""
    errors = [line for line in said.splitlines() if "error: " in line]
    return (errors or [said])[0]


def results(file: str, library: Library) -> Iterator[tuple[str, str]]:
    """The kernels of a file that are run, each with what is wrong with its results, or nothing."""
    for run in kernels.RUNS:
        if run.file != file:
            continue
        try:
            made, exact = run.check(library)
            scale = max(1.0, float(np.abs(exact).max()))
            worst = float(np.abs(made.astype(np.float64) - exact).max()) / scale
            wrong = "" if worst <= run.tolerance else f"off by {worst:.2g} of the greatest"
        except Failure as error:
            wrong = str(error)
        yield run.name, wrong


def main(chosen: list[str]) -> int:
    with tempfile.TemporaryDirectory() as own:
        folder = Path(os.environ.get("IRIS_FOREIGN", own))
        if not any(folder.glob("*.whl")):
            folder.mkdir(parents=True, exist_ok=True)
            packages.fetch(folder)
        failed = right = strict = 0
        for name, text, version in texts(folder):
            if chosen and not any(part in name for part in chosen):
                continue
            library, error = compiled(text, version)
            refused = check(text, version, _MACROS)
            failed += library is None or refused is not None
            strict += refused is None
            said = f"{len(library.names)} kernels" if library else error
            rules = "by Apple's rules" if refused is None else f"REFUSED: {first(refused)}"
            print(f"{name:<50} {said:<12} {rules}", flush=True)
            for kernel, wrong in results(name, library) if library else ():
                right += not wrong
                failed += bool(wrong)
                print(f"    {kernel}: {wrong or 'right'}", flush=True)
        for name, ours, theirs in heads.texts(packages.python_site(folder)) if not chosen else ():
            before = packages.flat(["utils.h"], packages.mlx_roots(folder))
            _, error = compiled(before + theirs)
            wrong = error or ("" if heads.is_same(ours, theirs) else "another head than ours")
            failed += bool(wrong)
            print(f"{'mlx.core.fast.metal_kernel ' + name:<50} {wrong or 'as ours'}")
        print(f"{right} kernels right, {strict} files by Apple's rules, {failed} of all that fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
