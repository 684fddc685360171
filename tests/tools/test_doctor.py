"""`iris doctor` and `iris softmetal`, with devices that work and one that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iris.codegen.source import Source
from iris.ir.control import Func
from iris.runtime import devices
from iris.runtime.device import Program
from iris.runtime.softmetal import Softmetal
from iris.tools.cli import main
from on_metal import METAL


@pytest.mark.parametrize("device", ["interp", pytest.param(METAL, marks=pytest.mark.metal)])
def test_a_device_that_works(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", device]) == 0
    said = capsys.readouterr().out
    assert "everything is as it must be" in said
    assert "20 of 20 checks" in said
    assert said.count("right, off by") == 8
    assert ("a matrix lies in a simdgroup as it must" in said) == (device != "interp")


class Twisted(Softmetal):
    """Swaps the two elements that each lane has of a matrix."""

    name = "twisted"

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        assert source is not None
        text = source.text.replace("thread_elements()[0]", "thread_elements()[2 - 1]")
        return super().compile(entry, replace(source, text=text))


@pytest.mark.softmetal
def test_a_device_that_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(devices.DEVICES, "twisted", Twisted)
    opened: dict[str, Any] = {}
    monkeypatch.setattr(devices, "_opened", opened)
    assert main(["doctor", "--device", "twisted"]) == 1
    output = capsys.readouterr()
    assert "lane 0 has the elements [1 1], not [0 1]" in output.out
    assert "not as they must be" in output.err and "lanes" in output.err


@pytest.mark.softmetal
def test_building(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["softmetal", "build"]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_what_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Softmetal, "missing", classmethod(lambda cls: "install it"))
    assert main(["softmetal", "build"]) == 1
    assert "softmetal cannot be built here: install it" in capsys.readouterr().err
