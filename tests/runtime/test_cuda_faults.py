"""What is said after a kernel ended all work on an NVIDIA GPU, by a driver that says it did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings.driver")

from cuda.bindings import driver as cuda

from iris.errors import DeviceError
from iris.ir.core import Location
from iris.runtime.cuda import driver
from iris.runtime.cuda.cuda_streams import Launch, Stream, Streams

GOOD, WRONG = (0,), (cuda.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[Any, ...]]]:
    """What the driver answers, by the call."""
    answers: dict[str, tuple[Any, ...]] = {}
    calls = "cuLaunchKernel cuStreamSynchronize cuStreamDestroy cuMemsetD32Async"
    for name in calls.split():
        monkeypatch.setattr(cuda, name, lambda *_, name=name: answers.get(name, GOOD))
    monkeypatch.setattr(cuda, "cuGetErrorString", lambda status: (0, b"an illegal access"))
    yield answers


def launch(name: str, line: int) -> Launch:
    source = SimpleNamespace(threads=64, threadgroup_bytes=0, entry=name)
    entry = SimpleNamespace(location=Location("mine.py", line))
    kernel: Any = SimpleNamespace(name=name, source=source, state=1, entry=entry)
    return Launch(kernel, (1, 1, 1), (1, 1, 1), (), None, 0, (), (), (), None)


def test_a_fault_names_the_kernels_of_all_streams_that_were_not_done(
    state: dict[str, tuple[Any, ...]],
) -> None:
    streams = Streams(nullcontext())
    one, other = Stream(streams, 1), Stream(streams, 2)
    one.run(launch("done", 1))
    one.synchronize()
    one.run(launch("scale", 5))
    one.run(launch("scale", 5))
    other.run(launch("shift", 9))
    state["cuStreamSynchronize"] = WRONG
    said = "one of the kernels scale, shift failed: an illegal access; nothing more runs"
    with pytest.raises(DeviceError, match=said) as raised:
        other.synchronize()
    assert raised.value.locations == (("mine.py", 5), ("mine.py", 9))
    assert re.search('device="interp".* name the line', str(raised.value))


def test_a_launch_after_a_fault_is_not_blamed(state: dict[str, tuple[Any, ...]]) -> None:
    streams = Streams(nullcontext())
    stream = Stream(streams, 1)
    stream.run(launch("scale", 5))
    state["cuLaunchKernel"] = WRONG
    with pytest.raises(DeviceError, match=r"^the kernel scale failed: an illegal access"):
        stream.run(launch("shift", 9))
    with pytest.raises(DeviceError, match=r"^the kernel scale failed: an illegal access"):
        streams.call(cuda.cuLaunchKernel)


def test_what_is_no_fault_is_of_the_call(state: dict[str, tuple[Any, ...]]) -> None:
    stream = Stream(Streams(nullcontext()), 1)
    state["cuLaunchKernel"] = (cuda.CUresult.CUDA_ERROR_INVALID_VALUE,)
    with pytest.raises(DeviceError, match=r"^the kernel shift does not start: an illegal access"):
        stream.run(launch("shift", 9))
    assert driver.call(lambda: (0, 1, 2)) == [1, 2]
