"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def counts(n_slice: int, n_full: int) -> int:
    """How many cases to try: `n_slice` in `make test`, `n_full` in `make campaign`."""
    return n_full if os.environ.get("IRIS_CAMPAIGN") == "1" else n_slice
