"""What tests of lifetimes share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module")
def nothing_old_to_collect() -> None:
    """What the tests before these have left would make every collection slow."""
    gc.collect()
    gc.freeze()
