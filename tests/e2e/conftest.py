"""Every program runs twice: on the default device, and at every level."""

from __future__ import annotations

import pytest

from every_level import EveryLevel
from iris.compiler import devices


@pytest.fixture(autouse=True, params=["interp", EveryLevel.name])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of launches that name none."""
    monkeypatch.setitem(devices.DEVICES, EveryLevel.name, EveryLevel)
    monkeypatch.setenv("IRIS_DEVICE", request.param)
