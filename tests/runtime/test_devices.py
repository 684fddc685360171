"""Which devices there are, and how one is chosen."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, SettingError
from iris.runtime import devices
from iris.runtime.interpreters import Interpreter


def _this_module() -> ModuleType:
    """This file as what the entry points name."""
    module = ModuleType(__name__)
    module.__dict__.update(globals())
    return module


class Mine(Interpreter):
    name = "mine"


class Absent(Interpreter):
    name = "absent"

    @classmethod
    def missing(cls) -> str | None:
        return "buy one"


def test_devices_say_whether_they_are_here() -> None:
    found = {device.name: device.missing for device in iris.devices()}
    assert {"metal", "softmetal", "interp", "interp:metal"} <= set(found)
    assert found["interp"] is None
    if sys.platform != "darwin":
        assert str(iris.devices()[0]) == f"metal: Metal is on Macs, and this is {sys.platform}"


def test_a_module_that_is_called_cuda_is_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not run either, as a script of that name would be."""
    (tmp_path / "cuda.py").write_text("raise SystemExit('this was run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    found = {device.name: device.missing for device in iris.devices()}
    assert found["cuda"] == "install NVIDIA's bindings: pip install 'iris-metal[cuda]'"


def test_a_number_says_which_of_several_a_device_is() -> None:
    assert devices.select("interp:0") is devices.select("interp")
    with pytest.raises(ArgumentError, match="no interp:1: this machine has 1 of the kind"):
        devices.select("interp:1")


def test_devices_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        metadata.EntryPoint(d.name, f"{__name__}:{d.__name__}", devices.GROUP)
        for d in (Mine, Absent)
    ]
    monkeypatch.setattr(devices, "_entry_points", lambda: points)
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this_module())
    assert devices.Presence("absent", "buy one") in iris.devices()
    assert iris.empty(3, device="mine").device.name == "mine"
    with pytest.raises(ArgumentError, match="the device 'absent' is not here: buy one"):
        iris.empty(3, device="absent")
    with pytest.raises(ArgumentError, match=r"no device 'gpu'; there are .*interp, .*mine, absent"):
        iris.empty(3, device="gpu")
    with pytest.raises(ArgumentError, match="a device is given by its name, or is one; not 3"):
        iris.empty(3, device=3)  # type: ignore[arg-type]


def test_a_device_is_a_class_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [metadata.EntryPoint("far", "numpy:zeros", devices.GROUP)]
    monkeypatch.setattr(devices, "_entry_points", lambda: points)
    with pytest.raises(ArgumentError, match=r"'far' is <.*zeros>, which is no subclass of Device"):
        iris.empty(3, device="far")


def test_a_device_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_DEVICE", "gpu")
    with pytest.raises(SettingError, match="no device 'gpu'; there are metal, interp"):
        iris.empty(3)


def test_threads_open_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Interpreter):
        def __init__(self) -> None:
            time.sleep(0.05)

    monkeypatch.setitem(devices.DEVICES, "slow", Slow)
    with ThreadPoolExecutor(4) as pool:
        opened = set(pool.map(devices.select, ["slow"] * 4))
    assert len(opened) == 1


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_DEVICE", "interp:metal")
    assert iris.asarray(np.ones(3, np.float32)).device.name == "interp:metal"
    monkeypatch.delenv("IRIS_DEVICE")
    default = "metal" if sys.platform == "darwin" else "interp"
    assert iris.asarray(np.ones(3, np.float32)).device.name == default
    assert iris.stream("interp") is None
