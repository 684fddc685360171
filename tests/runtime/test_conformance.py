"""The devices of Iris do what every device must."""

from __future__ import annotations

import pytest

from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.testing.conformance import CHECKS, Check
from on_metal import METAL


@pytest.fixture(params=["interp", "interp:metal", pytest.param(METAL, marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Device:
    return select(request.param)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_device_does_what_it_must(check: Check, device: Device) -> None:
    check(device)
