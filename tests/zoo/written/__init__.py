"""Kernels in the styles of packages that use Triton, written for these tests.

Each module has kernels, and `CASES`: how each one is launched.  `import triton` in them gives
Triton where what they compute is recorded, and Iris where it is tested.
"""

from __future__ import annotations

import zlib
from types import ModuleType
from typing import Any

import numpy as np

MODULES = (
    *(
        "attention",
        "idioms",
        "inductor",
        "mixtures",
        "operators",
        "quantised",
        "schedules",
        "tutorials",
    ),
)


def case(module: ModuleType, name: str) -> tuple[Any, dict[str, Any]]:
    """The grid and the arguments of a kernel: the same each time."""
    grid, make = module.CASES[name]
    return grid, make(np.random.default_rng(zlib.crc32(name.encode())))
