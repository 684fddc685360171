"""Macs of all kinds, as the software Objective-C runtime answers for them."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from iris.codegen import emit
from iris.compiler.compilation import entry_of
from iris.errors import DeviceError, PipelineError
from iris.passes import Pipeline
from iris.runtime import metal
from iris.runtime.devices import select
from iris.runtime.metal import Metal
from iris.runtime.objc import Integer, Object, Pointer, UInteger
from iris.runtime.softmetal import Softmetal
from iris.targets import find
from iris.targets.apple import M1, M4, M5
from iris.testing import kernels

pytestmark = pytest.mark.softmetal

Answer = Callable[[Object, str, Any, Any], None]


class Mac(Softmetal):
    """What a Mac asks, of softmetal."""

    name = "mac"
    missing = classmethod(Metal.missing.__func__)  # type: ignore[attr-defined]
    find_target = Metal.find_target


@pytest.fixture
def answer() -> Iterator[Answer]:
    """Replaces a method of an object's class, by a ctypes function of its arguments."""
    objc = ctypes.CDLL("libobjc.so.4")
    for name, arguments in {
        "class_getInstanceMethod": [Pointer, Pointer],
        "method_setImplementation": [Pointer, Pointer],
    }.items():
        function = getattr(objc, name)
        function.restype, function.argtypes = Pointer, arguments
    undo: list[tuple[int, int]] = []
    kept: list[Any] = []

    def replace(of: Object, selector: str, types: Any, method: Any) -> None:
        of_class = ctypes.cast(of.pointer or 0, ctypes.POINTER(Pointer))[0]  # its first word
        found = objc.class_getInstanceMethod(of_class, of._runtime.selector(selector))
        made = ctypes.CFUNCTYPE(*types)(method)
        kept.append(made)
        undo.append((found, objc.method_setImplementation(found, ctypes.cast(made, Pointer))))

    yield replace
    for found, before in reversed(undo):
        objc.method_setImplementation(found, before)


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this machine a Mac, with a processor, a system and a number of GPU cores."""
    select("softmetal")  # which is for Linux

    def become(processor: str = "arm64", system: str = "15.1", cores: int | None = None) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(platform, "machine", lambda: processor)
        monkeypatch.setattr(platform, "mac_ver", lambda: (system, ("", "", ""), processor))
        monkeypatch.setattr(metal, "_cores_of_gpu", lambda: cores)

    return become


def named(answer: Answer, name: str) -> None:
    device = select("softmetal")
    assert isinstance(device, Metal)
    text = device.runtime.string(name)
    answer(device._device, "name", (Pointer, Pointer, Pointer), lambda *_, t=text: t.pointer)


def lacking(answer: Answer, *families: int) -> None:
    device = select("softmetal")
    assert isinstance(device, Metal)
    types = (Integer, Pointer, Pointer, Integer)
    answer(device._device, "supportsFamily:", types, lambda _, __, asked: asked not in families)


@pytest.mark.parametrize(
    ("processor", "system", "families", "why"),
    [
        ("x86_64", "15.1", (), "a GPU of Apple's, and this is a Mac with another processor"),
        ("arm64", "13.6.1", (), "kernels need macOS 14 or newer, and this is macOS 13.6.1"),
        ("arm64", "14.0", (1007,), "the GPU Radeon has no matrices of simdgroups, which kernels"),
        ("arm64", "26.0", (5001,), "the GPU Radeon has no bfloat, which kernels need"),
    ],
)
def test_a_mac_that_does_not_do_is_told_so(
    processor: str,
    system: str,
    families: tuple[int, ...],
    why: str,
    mac: Callable[..., None],
    answer: Answer,
) -> None:
    named(answer, "Radeon")
    lacking(answer, *families)
    mac(processor, system)
    assert why in str(Mac.missing())
    if families:
        with pytest.raises(DeviceError, match=why):
            Mac()


def test_a_mac_that_does(mac: Callable[..., None], answer: Answer) -> None:
    mac(system="14.0")
    assert Mac.missing() is None
    # A virtual machine says that it has little.
    named(answer, "Apple Paravirtual device")
    lacking(answer, 1007)
    assert Mac.missing() is None
    x = np.ones(32, np.float32)
    kernels.scale[1](x, 2.0, device=Mac())
    np.testing.assert_array_equal(x, 2)


def test_no_gpu(mac: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    mac()
    opened = Softmetal.open
    monkeypatch.setattr(Softmetal, "open", lambda self: (opened(self)[0], lambda: None))
    assert Mac.missing() == "mac has no GPU that runs Metal"


@pytest.mark.parametrize(
    ("name", "cores", "system", "target", "language"),
    [
        ("Apple M1", 8, "14.2", "apple-m1", (3, 1)),
        ("Apple M1", 7, "15.0", "apple-m1-7-cores", (3, 2)),
        ("Apple M4 Pro", 16, "15.6", "apple-m4-pro-16-cores", (3, 2)),
        ("Apple M2 Ultra", None, "26.1", "apple-m2-ultra", (4, 0)),
        ("Apple M5", 10, "26.1", "apple-m5", (4, 0)),
        ("Apple M7 Max", 50, "28.0", "apple-m5-50-cores", (4, 0)),
        ("Apple Paravirtual device", None, "14.0", "apple-m1", (3, 1)),
    ],
)
def test_the_target_follows_the_mac(
    name: str,
    cores: int | None,
    system: str,
    target: str,
    language: tuple[int, int],
    mac: Callable[..., None],
    answer: Answer,
) -> None:
    named(answer, name)
    mac(system=system, cores=cores)
    device = Mac()
    assert str(device.target) == target and device.target.language == language
    assert device.target.cores == (cores or find(target).cores)
    assert f"{name}, {target}, the Metal Shading Language 3.1" in device.describe()
    takes_no_fences = "which it does not take" in device.describe()
    assert takes_no_fences == (language == (3, 1))
    # A pipeline's text says for which it is, and makes it again.
    pipeline = Pipeline.parse("stage-dots").on(device.target)
    (again,) = Pipeline.parse(str(pipeline))
    assert again.target.cores == device.target.cores  # type: ignore[attr-defined]


def test_targets_with_other_numbers_of_cores() -> None:
    assert find("apple-m1-7-cores") == M1.with_cores(7)
    assert M4.with_cores(10) is M4
    assert find("apple-m4-pro").bandwidth == 273 and find("apple-m1-ultra").cores == 64
    assert M5.with_cores(9).name == "apple-m5-9-cores"
    with pytest.raises(PipelineError, match=r"is one of apple-m1, .*, not 'apple-m9-7-cores'"):
        Pipeline.parse("stage-dots{target=apple-m9-7-cores}")


def test_simdgroups_of_another_width(answer: Answer) -> None:
    device = select("softmetal")
    x = np.ones(32, np.float32)
    function = entry_of(kernels.scale.lower(x, 2.0, grid=1).stages[-1].module)
    source = emit(function)
    state = device.compile(function, source).code.state
    answer(state, "threadExecutionWidth", (UInteger, Pointer, Pointer), lambda *_: 16)
    with pytest.raises(DeviceError, match="of 32 threads, and this GPU has simdgroups of 16"):
        device.compile(function, source)
