"""Profiles: every launch with its time and its work."""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path

import numpy as np
import pytest

import iris
from iris.runtime.devices import select
from on_metal import METAL, library

DEVICES = ["interp", pytest.param(METAL, marks=pytest.mark.metal)]


@iris.kernel
def scale(X, Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2.0 * iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def square(X, Out, N: iris.constexpr):
    at = iris.arange(0, N)[:, None] * N + iris.arange(0, N)[None, :]
    iris.store(Out + at, iris.dot(iris.load(X + at), iris.load(X + at)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_profile(device: str, tmp_path: Path) -> None:
    x = iris.asarray(np.ones(1024, np.float32), device=device)
    out = iris.empty_like(x)
    scale[4](x, out, 1024, B=256)
    with iris.profile(device) as measured:
        for _ in range(3):
            scale[4](x, out, 1024, B=256)
        square[1](x, out, N=32)
        prepared = scale.prepare(x, out, 512, grid=2, B=256)
        prepared()
    scale[4](x, out, 1024, B=256)
    ran = measured.launches
    assert [r.kernel for r in ran] == ["scale", "scale", "scale", "square", "scale"]
    assert [r.grid for r in ran] == [(4, 1, 1)] * 3 + [(1, 1, 1), (2, 1, 1)]
    assert ran[0].bytes == 2 * 4 * 1024 and ran[0].flops == 1024
    assert ran[3].bytes == 2 * 4 * 1024 and ran[3].flops == 2 * 32**3
    assert ran[4].bytes == 2 * 4 * 512
    assert all(0 <= r.start <= r.end for r in ran)
    # What the cost model says of the target, which `lower` asks, too.
    one = scale.lower(x, out, 512, grid=2, B=256, device=device).estimate.chips
    predicted = {on.chip: (on.simdgroups, on.milliseconds / 1e3) for on in one}
    assert (ran[4].occupancy, ran[4].predicted) == predicted[select(device).target]
    lines = str(measured).splitlines()
    assert lines[0] == f"on {device}"
    assert {line.split()[0]: line.split()[1] for line in lines[2:]} == {"scale": "4", "square": "1"}
    measured.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == [r.kernel for r in ran]
    assert events[0]["ph"] == "X" and min(event["ts"] for event in events) == 0


#: What a device without counters, or without room for samples, does not do.
FAULTS = (
    *("", "supportsCounterSampling:", "counterSets", "resolveCounterRange:"),
    *("newCounterSampleBufferWithDescriptor:error:", "sampleBufferAttachments"),
    "objectAtIndexedSubscript:",
)


@pytest.mark.softmetal
@pytest.mark.parametrize("fault", FAULTS)
def test_times_are_those_of_the_encoder(fault: str) -> None:
    """Or of the command buffer, where there are no others; the clock is the same."""
    device = select("softmetal")
    x = iris.asarray(np.ones(64, np.float32), device=device)
    stream, other = device.new_stream(), device.new_stream()
    scale[1](x, x, 64, B=64, stream=stream)
    device.synchronize()
    fail = library().softmetal_fail
    fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    fail(fault.encode(), 1 if fault else 0)
    before = time.monotonic()
    with iris.profile(device) as measured:
        scale[1](x, x, 64, B=64, stream=stream)
        scale[1](x, x, 64, B=64, stream=other)  # its command buffer waits for the first
    after = time.monotonic()
    assert bool(fault) == fail(None, 0)
    first, second = measured.launches
    assert before < first.start < first.end < after + 1e-3
    assert before < second.start < second.end < after + 1e-3
    if not fault:
        assert first.end < second.start
    assert (x.numpy() == 8).all()


def test_a_profile_of_nothing() -> None:
    with iris.profile("interp") as measured:
        pass
    assert measured.launches == [] and "kernel" in str(measured)
