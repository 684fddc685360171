"""Record what Triton's interpreter gives for the kernels of this folder.

    TRITON_INTERPRET=1 python -m zoo.written --to tests/zoo/written.npz

Here `triton` is Triton; tests hold Iris against what is recorded.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from zoo import oracle
from zoo.oracle import arrays_of
from zoo.written import MODULES, case


def changed_by(module: ModuleType, name: str) -> dict[str, np.ndarray]:
    """The arrays that a kernel changes, as it leaves them."""
    oracle.adapt(module)
    grid, given = case(module, name)
    _, passed = case(module, name)
    with np.errstate(all="ignore"):
        getattr(module, name)[grid](**{n: oracle.dressed(v) for n, v in passed.items()})
    before = dict(arrays_of(given))
    after = dict(arrays_of(passed)).items()
    changed = {n: v for n, v in after if not np.array_equal(v, before[n], v.dtype.kind == "f")}
    if not changed:
        raise ValueError(f"{name} changes nothing")
    return changed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    oracle.give_functions()
    recorded: dict[str, Any] = {}
    for part in MODULES:
        module = importlib.import_module(f"zoo.written.{part}")
        for name in module.CASES:
            for array, value in changed_by(module, name).items():
                recorded[f"{part}.{name}.{array}"] = value
    np.savez_compressed(given.to, **recorded)


if __name__ == "__main__":
    main()
