"""The GPU that is compiled for: that of the device, or what the environment names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.compilation import target_of
from iris.compiler.options import Options
from iris.errors import SettingError
from iris.ir import Level
from iris.runtime.devices import select
from iris.targets import DEFAULT
from iris.targets.apple import M4, ON_CPU


@iris.kernel
def double(X, N, B: iris.constexpr):  # type: ignore[no-untyped-def]
    at = iris.arange(0, B)
    iris.store(X + at, 2 * iris.load(X + at, mask=at < N), mask=at < N)


def test_the_target_is_that_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of(None) is DEFAULT
    assert target_of(select("interp:metal")) is ON_CPU
    monkeypatch.setenv("IRIS_TARGET", "apple-m4")
    assert target_of(None) is target_of(select("interp:metal")) is M4
    monkeypatch.setenv("IRIS_TARGET", "m4")
    with pytest.raises(SettingError, match="no target is called 'm4'"):
        target_of(None)


def test_passes_are_told_the_target() -> None:
    text = str(Options().pipeline(Level.METAL, M4))
    for name in ("check-target", "stage-dots", "assign-layouts", "lower-to-metal"):
        assert f"{name}{{target=apple-m4}}" in text


def test_a_kernel_is_compiled_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    x: Any = np.ones(64, np.float32)
    assert "nvidia-h200" not in str(double.lower(x, 60, B=64, grid=1).estimate)
    monkeypatch.setenv("IRIS_TARGET", "nvidia-h200")
    assert "nvidia-h200" in str(double.lower(x, 60, B=64, grid=1).estimate)
    double[1](x, 60, B=64, device="interp:metal")
    assert (x[:60] == 2).all() and (x[60:] == 1).all()


def test_a_function_of_arrays_is_compiled_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    @iris.jit
    def scaled(x: Any) -> Any:
        return x * 2 + 1

    x = np.ones(8, np.float32)
    assert "nvidia-h200" not in str(scaled.lower(x).kernels[0].estimate)
    monkeypatch.setenv("IRIS_TARGET", "nvidia-h200")
    kernel = scaled.lower(x).kernels[0]
    assert "nvidia-h200" in str(kernel.estimate)
    assert kernel.costs[0].target.name == "nvidia-h200"
    np.testing.assert_array_equal(scaled(x), np.full(8, 3, np.float32))
