"""Every program runs on four devices: the default one, one that runs it at every level, one that
runs its text on Metal, and one that tells whether the comparison of levels would notice what is
wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from careless import Careless
from every_level import EveryLevel
from iris.runtime import devices
from iris.runtime.interpreters import Interpreter
from on_metal import OnMetal

DEVICES = [
    *[pytest.param(d, id=d.name) for d in (Interpreter, EveryLevel, Careless)],
    pytest.param(OnMetal, id=OnMetal.name, marks=pytest.mark.metal),
]


@pytest.fixture(autouse=True, params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The device of launches that name none."""
    monkeypatch.setitem(devices.DEVICES, request.param.name, request.param)
    monkeypatch.setenv("IRIS_DEVICE", request.param.name)
    Careless.tried = Careless.noticed = 0
    yield
    if Careless.tried:
        assert Careless.noticed, f"none of {Careless.tried} changes to the program was noticed"
