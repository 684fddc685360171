"""Functions of several kernels on Metal: bound once, and encoded on other memory each time."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DeviceError
from iris.runtime import encoded_template
from iris.runtime.devices import select
from iris.runtime.metal import Metal
from iris.runtime.queue import MOST_LAUNCHES, Stream
from on_metal import library
from support import counts

pytestmark = pytest.mark.softmetal
SIZE = 12
Array = np.ndarray[Any, Any]


def _steps(x: Any, y: Any) -> Any:
    for _ in range(4):
        x = x @ y % 7  # whole numbers, which floats hold
    return x


steps = iris.jit(_steps)


@pytest.fixture(autouse=True)
def nothing_misused() -> Iterator[None]:
    yield
    reports = library().softmetal_reports()
    assert not reports, reports.decode()


@pytest.fixture
def device() -> Metal:
    found = select("softmetal")
    assert isinstance(found, Metal)
    return found


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, 7, shape or (SIZE, SIZE)).astype(np.float32)


def test_a_call_is_one_piece_of_work(device: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    run = Stream.run
    monkeypatch.setattr(Stream, "run", lambda on, work: ran.append(work) or run(on, work))
    x, y = numbers(0), numbers(1)
    for _ in range(2):
        np.testing.assert_array_equal(steps(x, y, device=device), _steps(x, y))
    assert [work.dispatches for work in ran] == [4, 4]
    with iris.profile(device) as measured:
        np.testing.assert_array_equal(steps(x, y, device=device), _steps(x, y))
    assert [len({*measured.launches}), len(ran)] == [4, 6]  # each is timed


def test_memory_changes_with_each_call(device: Metal) -> None:
    """What is given lies elsewhere, is given twice, or is a result; in any order of launches."""
    given = [iris.asarray(numbers(n), device=device) for n in range(3)]
    known = [numbers(n) for n in range(3)]
    choose = np.random.default_rng(3)
    try:
        for call in range(60):
            device.shuffle(call % 4)
            one, other, into = choose.integers(0, 3, 3)
            given[into] = steps(given[one], given[other])
            known[into] = _steps(known[one], known[other])
            if call % 7 == 0:
                given[one] = iris.asarray(known[one], device=device)
        for found, right in zip(given, known, strict=True):
            np.testing.assert_array_equal(found.numpy(), right)
    finally:
        device.shuffle(None)


def test_barriers_are_needed(device: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_template, "barriers_among", lambda launches: [False] * 4)
    without = iris.jit(lambda x, y: _steps(x, y))
    x, y = numbers(0), numbers(1)
    try:
        device.shuffle(1)
        wrong = [not (without(x, y, device=device) == _steps(x, y)).all() for _ in range(5)]
    finally:
        device.shuffle(None)
    assert any(wrong)


def test_a_result_goes_into_a_part_of_memory(device: Metal) -> None:
    x, y = (iris.asarray(numbers(n), device=device) for n in range(2))
    memory = device.allocate(4 * SIZE * SIZE + 64)
    part = iris.Buffer(device, memory, iris.f32, (SIZE, SIZE), offset=64)
    for _ in range(2):
        steps.into(part, x, y)
        np.testing.assert_array_equal(part.numpy(), _steps(x.numpy(), y.numpy()))
    with pytest.raises(ArgumentError, match="does not go into"):
        steps.into(iris.empty(SIZE, np.float32, device=device), x, y)


def test_many_kernels_are_several_batches(device: Metal) -> None:
    count = MOST_LAUNCHES + 3

    @iris.jit
    def many(x: Any, y: Any) -> Any:
        for _ in range(count):
            x = x @ y % 7
        return x

    x, y = iris.asarray(numbers(0, 3, 3), device=device), numbers(1, 3, 3)
    expected = x.numpy()
    for _ in range(count):
        expected = expected @ y % 7
    np.testing.assert_array_equal(many(x, y).numpy(), expected)
    assert len(many.kernels(x, y)) == count


def test_threads_share_what_is_bound(device: Metal) -> None:
    wrong: list[Any] = []

    def calls(seed: int) -> None:
        x, y = numbers(seed), numbers(seed + 100)
        for _ in range(20):
            if not (steps(x, y, device=device) == _steps(x, y)).all():
                wrong.append(seed)

    threads = [threading.Thread(target=calls, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_fails_is_named(device: Metal) -> None:
    x, y = (iris.asarray(numbers(n), device=device) for n in range(2))
    good = steps(x, y)
    device.synchronize()
    fail = library().softmetal_fail
    fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    fail(b"commit", 1)
    bad = steps(x, y)
    with pytest.raises(DeviceError, match="one of steps_x, steps_x_2 failed"):
        bad.numpy()
    with pytest.raises(DeviceError, match="failed"):
        steps(bad, y)
    np.testing.assert_array_equal(good.numpy(), _steps(x.numpy(), y.numpy()))
    np.testing.assert_array_equal(steps(x, y).numpy(), good.numpy())


def test_calls_leave_nothing(device: Metal) -> None:
    y = iris.asarray(numbers(1), device=device)

    def calls(count: int) -> None:
        x = iris.asarray(numbers(0), device=device)
        for _ in range(count):
            x = steps(x, y)
        x.numpy()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def live() -> int:
        gc.collect()
        return int(library().softmetal_live_objects())

    calls(500)
    objects, memory = live(), resident()
    calls(counts(1_000, 20_000))
    assert live() <= objects + MOST_LAUNCHES  # how far the GPU had come
    assert resident() - memory < 4 << 20
