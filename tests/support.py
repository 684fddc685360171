"""What the tests share."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Tests that import NVIDIA's packages, which a Mac has not.
OF_LINUX = [
    "runtime/test_borrowed_launches.py",
    "runtime/test_cuda_faults.py",
    "runtime/test_cuda_graph.py",
    "compiler/test_nvcc.py",
]
ARRAY_EXAMPLES = [path for path in EXAMPLES if "@iris.jit" in path.read_text(encoding="utf-8")]


Cases = TypeVar("Cases")


def counts(n_slice: Cases, n_full: Cases) -> Cases:
    """How many cases to try, or which: `n_full` with `IRIS_CAMPAIGN=1`, else `n_slice`."""
    return n_full if os.environ.get("IRIS_CAMPAIGN") == "1" else n_slice


def slowness() -> float:
    """How slow Python is here and now, at least 1: bars of time are for a core and a build of it
    that do a million rounds of a loop in 30 ms."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        total = 0
        for number in range(100_000):
            total += number & 3
        seconds.append(time.perf_counter() - start)
    return max(1.0, min(seconds) / 0.003)


def load(script: Path) -> ModuleType:
    """A script as a module, newly made; it may import those beside it, as when Python runs it."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(script.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(script.parent))
    return module


def copy_package(package: Path, folder: Path) -> Path:
    """A copy in a folder, with its bytecode, so that only what changes is compiled again."""
    copy = folder / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in package.rglob("*.py"):
        module = copy / path.relative_to(package)
        made, wanted = (Path(cache_from_source(str(source))) for source in (path, module))
        if made.exists():
            wanted.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, wanted)
    return copy
