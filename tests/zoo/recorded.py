"""Record what Triton gives on an NVIDIA GPU for random kernels, with torch and Triton installed.

    python -m zoo.recorded --count 330 --to tests/zoo/recorded.npz

The kernels and what they are given come from a seed, so that only results are kept.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from zoo.drawn import OUTPUTS, PROGRAMS, arguments, module

SEED = 1


def record(folder: str, name: str) -> dict[str, np.ndarray] | str:
    """The results of a kernel, or why there are none."""
    sys.path.insert(0, folder)
    import torch

    kernel = getattr(importlib.import_module("recorded_kernels"), name)
    given = arguments(name, SEED)
    passed = {
        n: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for n, v in given.items()
    }
    try:
        kernel[(PROGRAMS,)](**passed)
        return {f"{name}.{n}": passed[n].cpu().numpy() for n in OUTPUTS}
    except Exception as error:  # noqa: BLE001 - it is said which kernels are left out
        return f"{name}: {str(error).strip()[:300]!r}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=330)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    results: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "recorded_kernels.py").write_text(module(range(given.count), SEED))
        with ProcessPoolExecutor(given.jobs) as pool:
            names = [f"k{i}" for i in range(given.count)]
            for outcome in pool.map(partial(record, folder), names, chunksize=5):
                if isinstance(outcome, str):
                    print(outcome, flush=True)
                else:
                    results |= outcome
    np.savez_compressed(given.to, **results)


if __name__ == "__main__":
    main()
