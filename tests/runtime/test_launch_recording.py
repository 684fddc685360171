"""`iris.record()`: what is recorded, what is refused, what a replay costs and leaves behind."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DeviceError, ProgramError
from iris.runtime import indirect_commands, metal
from iris.runtime.device import Device, Replay
from iris.runtime.devices import select
from iris.runtime.metal import Metal
from iris.runtime.softmetal import Softmetal
from iris.testing import conformance, kernels
from iris.tools import doctor
from on_metal import library
from support import counts, slowness

pytestmark = pytest.mark.usefixtures("nothing_old_to_collect")

softmetal = pytest.mark.softmetal


@iris.kernel
def scale(X, Out, factor, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, factor * iris.load(X + at, mask=at < n), mask=at < n)


@pytest.fixture(params=["interp", pytest.param("softmetal", marks=softmetal)])
def device(request: pytest.FixtureRequest) -> Device:
    return select(request.param)


@pytest.fixture(autouse=True)
def nothing_misused() -> Iterator[None]:
    yield
    if "softmetal" in [there.name for there in iris.devices() if there.missing is None]:
        reports = library().softmetal_reports()
        assert not reports, reports.decode()


def ones(device: Device, count: int = 100) -> iris.Buffer:
    return iris.asarray(np.ones(count, np.float32), device=device)


def test_functions_of_arrays_and_prepared_launches_are_recorded(device: Device) -> None:
    @iris.jit
    def normalised(x: Any) -> Any:
        return x / np.sqrt((x * x).sum())

    x, y = ones(device), ones(device)
    twice = scale.prepare(x, y, 2.0, 100, grid=2)
    with iris.record() as recording:
        twice()
        z = normalised(y)
        scale[2](z, y, 30.0, 100)
    assert (y.numpy() == 1).all()
    assert [repr(one).partition("[")[0] for one in recording.launches][::2] == ["scale", "scale"]
    recording.replay()
    np.testing.assert_allclose(y.numpy(), 3, rtol=1e-6)
    device.copy_in(x.argument, np.arange(100, dtype=np.float32))  # changed in place
    recording.replay()
    np.testing.assert_allclose(y.numpy()[99], 30 * 99 / 573.018324, rtol=1e-6)
    with pytest.raises(ArgumentError, match="a kernel of a function of arrays"):
        recording.launches[1].update(x=x)


def test_a_launch_is_updated(device: Device) -> None:
    x, y, z = (ones(device) for _ in "123")
    with iris.record() as recording:
        scale[2](x, y, 2.0, 100)
        scale[2](y, z, 5.0, 100)
    one, other = recording.launches
    one.update(factor=3.0)
    other.update(X=x, factor=4)  # an integer now, and no longer after the first
    recording.replay()
    assert (y.numpy() == 3).all() and (z.numpy() == 4).all()
    other.update(n=1)
    device.copy_in(z.argument, np.zeros(100, np.float32))
    recording.replay()
    assert z.numpy().sum() == 4
    with pytest.raises(ArgumentError, match=r"with an array of f32 of the shape \(100,\), and is"):
        one.update(X=ones(device, 50))
    with pytest.raises(ArgumentError, match="no parameter 'factory'"):
        one.update(factory=2.0)
    recording.replay()
    assert (y.numpy() == 3).all()


def test_what_would_wait_is_refused(device: Device) -> None:
    x, y = ones(device), ones(device)
    array = np.ones(100, np.float32)
    with iris.record() as recording:
        scale[2](x, y, 2.0, 100)
        step = scale.prepare(x, y, 2.0, 100, grid=2)
    wrong: list[tuple[Callable[[], Any], str]] = [
        (x.numpy, "a Buffer is read within iris.record"),
        (lambda: x.peek(0), "a Buffer is read"),
        (lambda: np.from_dlpack(x), "a Buffer is read"),
        (iris.synchronize, "waits for launches within iris.record"),
        (recording.replay, "a recording is replayed within"),
        (lambda: recording.launches[0].update(factor=1.0), "begun, or updated, within another"),
        (lambda: iris.record().__enter__(), "within another one"),
        (lambda: scale[2](array, y, 2.0, 100), r"pass iris.asarray\(X\) for X"),
        (lambda: iris.jit(lambda a, b: a + b)(array, x), "copies an array that is no Buffer"),
        (lambda: scale[2](x, y, 2.0, 100, stream=object()), "runs on one stream"),
        (lambda: None, "no kernel was launched"),
    ]
    for body, message in wrong:
        with pytest.raises(ArgumentError, match=message), iris.record():
            body()
    other = ones(select("interp:metal"))
    with pytest.raises(ArgumentError, match="a recording for each device"), iris.record():
        scale[2](x, y, 2.0, 100)
        scale[2](other, other, 2.0, 100)
    with pytest.raises(KeyError), iris.record() as unfinished:
        step()
        raise KeyError
    with pytest.raises(ArgumentError, match="once its `with` has ended without an error"):
        unfinished.replay()
    x.free()
    with pytest.raises(ArgumentError, match="used after it was freed"):
        recording.replay()
    recording.launches[0].update(X=y)
    recording.replay()


def test_what_reports_is_recorded(device: Device) -> None:
    out, small = (iris.asarray(np.zeros(8, np.int32), device=device) for _ in "12")
    with iris.record() as recording:
        kernels.insist[8](out, 8)
        kernels.insist[8](small, 9)
    recording.replay()
    assert out.numpy().all()
    recording.launches[1].update(limit=5)
    with pytest.raises(ProgramError, match="too many programs"):
        recording.replay()
        small.numpy()
    assert out.numpy().all()


# As Metal's indirect command buffers.


@pytest.fixture
def on_metal() -> Metal:
    found = select("softmetal")
    assert isinstance(found, Metal)
    return found


def series(device: Device, buffers: int = 3) -> tuple[Any, iris.Buffer]:
    """A recording of 100 launches, and a Buffer that each replay doubles."""
    first, *others = [ones(device, 32) for _ in range(buffers)]
    with iris.record() as recording:
        kernels.scale[1](first, 2.0)
        for n in range(99):
            scale[1](first, others[n % len(others)], 3.0, 32)
    return recording, first


@softmetal
def test_launches_that_meet_are_ordered(on_metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all orders of launches between barriers, which would be wrong without these."""
    try:
        for seed in range(4):
            on_metal.shuffle(seed)
            conformance.launches_can_be_recorded(on_metal)
        none = [False] * 40
        monkeypatch.setattr(indirect_commands, "barriers_among", lambda launches: none)
        with pytest.raises(AssertionError, match="launches that were recorded"):
            conformance.launches_can_be_recorded(on_metal)
    finally:
        on_metal.shuffle(None)


@softmetal
def test_many_replays_leave_nothing(on_metal: Metal) -> None:
    x, y = ones(on_metal), ones(on_metal)
    with iris.record() as recording:
        scale[2](x, y, 2.0, 100)
        scale[2](y, x, 0.5, 100)

    def replays(recording: Any, count: int) -> None:
        for n in range(count):
            if n % 100 == 0:
                recording.launches[1].update(factor=0.5)
            recording.replay()
        assert (x.numpy() == 1).all()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def live() -> int:
        gc.collect()
        return int(library().softmetal_live_objects())

    replays(recording, 500)
    objects, memory = live(), resident()
    replays(recording, counts(3_000, 20_000))
    assert live() <= objects
    assert resident() - memory < 4 << 20
    del recording
    assert live() < objects


@softmetal
def test_a_replay_of_100_launches_costs_little(on_metal: Metal) -> None:
    """In Python, with messages that do nothing."""
    recording, _ = series(on_metal)
    recording.replay()
    on_metal.synchronize()
    messages = library().softmetal_messages
    messages.restype = ctypes.c_ulong
    before = messages()
    recording.replay()
    # Four of them introduce the two pipelines, and one tells other streams, if there are any.
    assert messages() - before <= 10 + on_metal.streams.are_several
    on_metal.synchronize()
    quiet = Quiet(on_metal)
    try:
        costs = []
        for _ in range(10):
            times = []
            for _ in range(counts(200, 2_000)):
                start = time.perf_counter()
                recording.replay()
                times.append(time.perf_counter() - start)
            costs.append(sorted(times)[len(times) // 20] / slowness())
            on_metal.synchronize()
            time.sleep(0.05)  # what else runs on this core may be done then
    finally:
        quiet.end()
    assert min(costs) < 20e-6


class Quiet:
    """Messages of a device that send nothing, until `end`."""

    def __init__(self, device: Metal):
        self._messages = vars(device.messages)
        self._before = dict(self._messages)
        for name in self._messages:
            self._messages[name] = lambda *arguments: None
        self._messages["command_buffer"] = self._messages["encoder"] = lambda *arguments: Nothing()
        self._messages["status"] = lambda *arguments: 4
        self._messages["new_event"] = self._messages["encoder"]

    def end(self) -> None:
        self._messages.update(self._before)


class Nothing:
    def release(self) -> None:
        pass


@softmetal
def test_a_failed_replay_is_the_error_of_what_it_writes(on_metal: Metal) -> None:
    recording, first = series(on_metal)
    recording.replay()
    assert (first.numpy() == 2).all()
    fail = library().softmetal_fail
    fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    fail(b"commit", 1)
    recording.replay()
    with pytest.raises(DeviceError, match="the kernel scale failed"):
        first.numpy()
    with pytest.raises(DeviceError, match="scale failed"):
        recording.replay()
    on_metal.copy_in(first.argument, np.ones(32, np.float32))
    with pytest.raises(DeviceError, match="scale failed"):  # for the others
        recording.replay()


@softmetal
def test_each_replayed_launch_is_measured(on_metal: Metal) -> None:
    recording, first = series(on_metal)
    with iris.profile(on_metal) as measured:
        recording.replay()
    assert len(measured.launches) == 100
    assert (first.numpy() == 2).all()


class OnMac(Softmetal):
    """Has passed no check."""

    name = "on-mac"
    __init__ = Metal.__init__  # type: ignore[assignment]


@softmetal
def test_a_mac_replays_as_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from iris.softmetal import build

    (tmp_path / "softmetal").symlink_to(Path(build.library()).parents[1])
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))

    def kind(device: Metal) -> type[Replay]:
        recording, first = series(device)
        recording.replay()
        assert (first.numpy() == 2).all()
        return type(recording._replay)

    device = OnMac()
    assert kind(device) is Replay
    assert "do what launches do" in doctor._replays(device)
    for known in (device, OnMac()):
        assert kind(known) is indirect_commands.IndirectReplay
    monkeypatch.setattr(metal, "_APPLE9", 1007)  # a GPU that has no need to meet pipelines first
    assert kind(device) is indirect_commands.IndirectReplay
    monkeypatch.setattr(
        indirect_commands, "barriers_among", lambda launches: [False] * len(launches)
    )
    try:
        device.shuffle(1)
        with pytest.raises(AssertionError):
            doctor._replays(device)
    finally:
        device.shuffle(None)
    for known in (device, OnMac()):
        assert kind(known) is Replay
