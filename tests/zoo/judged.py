"""What Triton says of what Iris ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from iris.ir.types import DType

TESTS = Path(__file__).parent.parent
_LONG = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i64": "int64"}


def plain(value: Any) -> Any:
    """A value that a process without Iris can read."""
    if isinstance(value, DType):
        return f"tl.{_LONG[value.name]}"
    kind = next((k for k in (bool, int, float, str) if isinstance(value, k)), None)
    return value if kind is None else kind(value)


def held_against_triton(folder: Path, at: str, triton: str) -> dict[str, str]:
    """What Triton's interpreter says of each case in a folder."""
    paths = [triton, str(Path(triton).parent / "numpy"), str(TESTS)]
    command = [sys.executable, "-m", "zoo.oracle", "--at", at, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRITON_INTERPRET": "1"}
    subprocess.run(command, env=environment, check=True)
    verdicts: dict[str, str] = json.loads((folder / "verdicts.json").read_text())
    return verdicts
