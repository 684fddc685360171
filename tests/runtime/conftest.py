"""What tests of lifetimes, and of other libraries' arrays, share."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from iris.runtime import borrowing, devices
from torch_stand_in import Torch


@pytest.fixture(scope="module")
def nothing_old_to_collect() -> None:
    """What the tests before these have left would make every collection slow."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    """A stand-in for torch; no array of it has been read yet."""
    made: Any = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(borrowing, "READERS", {})
    return made  # type: ignore[no-any-return]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fake driver of two GPUs; neither has been opened yet."""
    pytest.importorskip("cuda.bindings.driver")
    from fake_driver import Driver

    monkeypatch.setattr(devices, "_opened", {})
    return Driver(monkeypatch.setattr, count=2)
