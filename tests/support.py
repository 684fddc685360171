"""What the tests share."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Tests that import NVIDIA's packages, which a Mac has not.
OF_LINUX = ["runtime/test_cuda_faults.py", "runtime/test_cuda_graph.py", "compiler/test_nvcc.py"]
ARRAY_EXAMPLES = [path for path in EXAMPLES if "@iris.jit" in path.read_text(encoding="utf-8")]


Cases = TypeVar("Cases")


def counts(n_slice: Cases, n_full: Cases) -> Cases:
    """How many cases to try, or which: `n_full` with `IRIS_CAMPAIGN=1`, else `n_slice`."""
    return n_full if os.environ.get("IRIS_CAMPAIGN") == "1" else n_slice


def load(script: Path) -> ModuleType:
    """A script as a module, newly made."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
