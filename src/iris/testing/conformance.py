"""What every device must do: run it on yours.

    from iris.testing import conformance

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_my_device(check):
        check(MyDevice())

or `conformance.check(MyDevice())`, which runs them all.  A check raises `AssertionError`, with what
was promised and is not so.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

import iris
from iris.errors import ArgumentError, ProgramError
from iris.runtime.device import ArrayArgument, Device, Timing
from iris.testing import kernels

Array = npt.NDArray[Any]
Check = Callable[[Device], None]

#: The checks, in the order from what others rest on to what rests on others.
CHECKS: list[Check] = []


def check(device: Device) -> None:
    """Check all that is promised of a device."""
    for one in CHECKS:
        one(device)


def _check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def _equal(found: npt.ArrayLike, expected: npt.ArrayLike, what: str) -> None:
    np.testing.assert_array_equal(found, expected, err_msg=what)


# Memory.

_NUMPY = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_SHAPES: Sequence[tuple[int, ...]] = ((), (0,), (1,), (5,), (3, 0, 2), (4, 8), (2, 3, 5))


@_check
def arrays_come_back_as_they_went(device: Device) -> None:
    rng = np.random.default_rng(0)
    for name in (*_NUMPY, "float16", "float32"):
        for shape in _SHAPES:
            array = rng.integers(0, 2, shape).astype(name)
            buffer = iris.asarray(array, device=device, persistent=True)
            _equal(buffer.numpy(), array, f"{name}{list(shape)} is not what was copied in")
            _equal(iris.to_numpy(buffer), array, f"{name}{list(shape)} is copied out wrongly")


@_check
def arrays_need_not_be_contiguous(device: Device) -> None:
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    for array in (base[::2], base[:, ::-1], base.T, base[1:3, 2:5]):
        buffer = iris.asarray(array, device=device, persistent=True)
        _equal(buffer.numpy(), array, "an array that is not contiguous is copied in wrongly")
        out = np.zeros((8, 16), np.float32)[: array.shape[0], : 2 * array.shape[1] : 2]
        device.copy_out(buffer.argument, out)
        _equal(out, array, "an array is copied out wrongly to one that is not contiguous")


@_check
def memory_is_apart_and_aligned(device: Device) -> None:
    sizes = (1, 4, 15, 16, 17, 100, 4096, 4097)
    buffers = [iris.empty(size, np.uint8, device=device) for size in sizes]
    for number, buffer in enumerate(buffers):
        device.copy_in(buffer.argument, np.full(buffer.shape, number, np.uint8))
    for number, buffer in enumerate(buffers):
        _equal(buffer.numpy(), np.uint8(number), f"memory of {buffer.size} bytes is not its own")
        view = device.view(buffer.argument)
        assert view is None or view.ctypes.data % 16 == 0, "memory is not at a multiple of 16"


@_check
def arrays_may_share_memory(device: Device) -> None:
    memory = device.allocate(64)
    whole = ArrayArgument(memory, 0, iris.f32, (16,))
    part = ArrayArgument(memory, 16, iris.f32, (4,))
    device.copy_in(whole, np.arange(16, dtype=np.float32))
    found = np.zeros(4, np.float32)
    device.copy_out(part, found)
    _equal(found, np.arange(4, 8), "an array at an offset is not that part of the memory")
    x, out = np.zeros(4, np.float32), np.zeros(1, np.float32)
    kernels.first_two[1](x, x[:2], out, device=device)
    _equal((x[0], out[0]), (5, 5), "arrays that overlap do not share memory")


@_check
def arrays_may_have_strides(device: Device) -> None:
    memory = device.allocate(96)
    whole = ArrayArgument(memory, 0, iris.f32, (24,))
    part = ArrayArgument(memory, 8, iris.f32, (2, 3), (12, 4))
    device.copy_in(whole, np.arange(24, dtype=np.float32))
    found = np.zeros((2, 3), np.float32)
    device.copy_out(part, found)
    _equal(found, [[2, 6, 10], [14, 18, 22]], "strides do not say where elements are")
    device.copy_in(part, np.zeros((2, 3), np.float32))
    expected = np.where(np.arange(24) % 4 == 2, 0, np.arange(24))
    everything = np.zeros(24, np.float32)
    device.copy_out(whole, everything)
    _equal(everything, expected, "what lies between the elements of an array is changed")


@_check
def arrays_of_the_same_pages_are_used_in_order(device: Device) -> None:
    """Buffers of arrays that overlap share their memory, or have each their own."""
    for slices in (((0, 2), (1, 3)), ((0, 2), (0, 2)), ((0, 3), (1, 2))):
        pages, alike = (_pages(3) for _ in range(2))
        size = pages.size // 3
        parts = [slice(first * size, end * size) for first, end in slices]
        buffers = [iris.asarray(pages[part], device=device) for part in parts]
        shared = [alike[part] for part in parts]
        apart = [array.copy() for array in shared]
        device.shuffle(parts[1].start)
        for number in range(6):
            x = buffers[number % 2]
            kernels.mix[x.size // 32](x, x, x, number)
            for array in (shared[number % 2], apart[number % 2]):
                array[...] = (8 * array + number + np.arange(array.size)) % 1024
        found = [x.numpy() for x in buffers]
        device.shuffle(None)
        assert any(all(map(np.array_equal, found, expected)) for expected in (shared, apart)), (
            f"launches on the same pages are out of order, pages {slices}"
        )


def _pages(count: int) -> Array:
    """An array of whole pages, which a device may use where they are."""
    return np.frombuffer(mmap.mmap(-1, count * mmap.PAGESIZE), np.int32)


@_check
def a_freed_buffer_is_no_more(device: Device) -> None:
    buffer = iris.asarray(np.zeros(4, np.float32), device=device)
    kept = buffer.numpy()
    buffer.free()
    _equal(kept, 0, "what was taken from a buffer does not outlive it")
    for use in (buffer.numpy, lambda: buffer.peek(0), lambda: kernels.scale[1](buffer, 2.0)):
        try:
            use()
        except ArgumentError:
            continue
        raise AssertionError("a buffer that was freed can still be used")


# Launches.


@_check
def kernels_compute(device: Device) -> None:
    rng = np.random.default_rng(1)
    for n in (1, 31, 64, 1000):
        x, y = rng.integers(-99, 99, (2, n)).astype(np.float32)
        out = np.zeros(n + 1, np.float32)
        kernels.add[iris.cdiv(n, 64)](x, y, out, n, B=64, device=device)
        _equal(out, [*(x + y), 0], f"adding {n} numbers")
        total = np.zeros(3, np.float32)
        kernels.row_sum[3](np.stack([x, y, x + y]), total, n, B=1024, device=device)
        _equal(total, [x.sum(), y.sum(), (x + y).sum()], f"the sum of {n} numbers")


@_check
def matrices_are_multiplied(device: Device) -> None:
    x, y = np.random.default_rng(2).integers(-9, 9, (2, 32, 32)).astype(np.float32)
    out = np.zeros((32, 32), np.float32)
    for count in (1, 2, 4):
        kernels.product[1](x, y, out, N=32, device=device, num_simdgroups=count)
        _equal(out, x @ y, f"a product of matrices by {count} simdgroups")


@_check
def programs_know_where_they_are(device: Device) -> None:
    for grid in (5, (3, 4), (2, 3, 4), (1, 1, 7)):
        x, y, z = (*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3]
        out = np.full(x * y * z + 1, -1, np.int32)
        kernels.where_am_i[grid](out, device=device)
        zs, ys, xs = np.indices((z, y, x))
        expected = (xs + 10 * ys + 100 * zs).reshape(-1)
        _equal(out, [*expected, -1], f"the programs of the grid {grid}")


@_check
def a_grid_may_be_empty(device: Device) -> None:
    x = np.ones(32, np.float32)
    for grid in (0, (0, 3), (2, 0, 2)):
        kernels.scale[grid](x, 2.0, device=device)
    _equal(x, 1, "a grid of no programs does something")


@_check
def numbers_are_passed(device: Device) -> None:
    out = np.zeros(2, np.float32)
    for a, b, c, d in ((3, 0.5, True, 1 << 40), (-7, -2.25, False, -(1 << 33)), (1, 0.0, True, 16)):
        kernels.scalars[1](out, a, b, c, d, device=device)
        _equal(out, [np.float32(a) + np.float32(b) + np.float32(d), 1 if c else 2], "numbers")


@_check
def atomics_of_all_programs_count(device: Device) -> None:
    x = np.random.default_rng(3).integers(0, 8, 64 * 32).astype(np.int32)
    out = np.zeros(8, np.int32)
    kernels.count[64](x, out, device=device)
    _equal(out, np.bincount(x, minlength=8), "atomic additions")


@_check
def launches_follow_one_another(device: Device) -> None:
    x = iris.asarray(np.ones(32 * 8, np.float32), device=device)
    y = iris.empty_like(x)
    for _ in range(100):
        kernels.add[8](x, x, y, 256, B=32)  # y = 2 x
        kernels.scale[8](x, 0.5)  # after x was read
        kernels.add[8](x, y, x, 256, B=32)  # x = 2.5 x, after both were written
        kernels.scale[8](x, 0.4)
        kernels.scale[8](x, 1.0)
    _equal(np.round(x.numpy(), 3), 1, "what is launched later comes before what it depends on")


@_check
def launches_can_be_prepared(device: Device) -> None:
    x = iris.asarray(np.ones(32, np.float32), device=device)
    double = kernels.scale.prepare(x, 2.0, grid=1)
    for _ in range(10):
        double()
    _equal(x.numpy(), 1024, "a prepared launch that is repeated")


@_check
def functions_run_on_parts_of_memory(device: Device) -> None:
    """One after the other, each on other memory; of one kernel, and of several."""
    functions = [iris.jit(f) for f in (lambda x: x * 2 + 1, lambda x: (x @ x.T) @ x)]
    for number in range(3):
        memory = device.allocate(256)
        numbers = np.arange(64, dtype=np.float32) % 7 + number
        device.copy_in(ArrayArgument(memory, 0, iris.f32, (64,)), numbers)
        for start in (0, 16, 28):
            part = iris.Buffer(device, memory, iris.f32, (6, 6), None, 4 * start)
            x = numbers[start : start + 36].reshape(6, 6)
            for function, expected in zip(functions, (x * 2 + 1, (x @ x.T) @ x), strict=True):
                found = function(part, device=device)
                _equal(found.numpy(), expected, f"a function of an array at byte {4 * start}")


class _Series:
    """Launches that use what others write, and what NumPy makes of them."""

    def __init__(self, device: Device, count: int):
        self._rng = np.random.default_rng(4)
        self._expected = [np.zeros(64, np.int32) for _ in range(6)]
        self.buffers = [iris.asarray(x, device=device, persistent=True) for x in self._expected]
        self._launches = [self._drawn() for _ in range(count)]

    def _drawn(self) -> tuple[int, ...]:
        return (*self._rng.integers(0, len(self.buffers), 3).tolist(), int(self._rng.integers(99)))

    def launch(self) -> None:
        for number in range(len(self._launches)):
            kernels.mix[2](**self.arguments(number))

    def change(self, number: int) -> dict[str, Any]:
        """Give a launch other arguments."""
        self._launches[number] = self._drawn()
        return self.arguments(number)

    def arguments(self, number: int) -> dict[str, Any]:
        x, y, out, term = self._launches[number]
        buffers = self.buffers
        return {"X": buffers[x], "Y": buffers[y], "Out": buffers[out], "term": term}

    def check(self, times: int) -> None:
        """Compare, after it has run as many times since the last check."""
        made, at = self._expected, np.arange(64)
        for x, y, out, term in self._launches * times:
            made[out] = (3 * made[x] + 5 * made[y] + term + at) % 1024
        for buffer, expected in zip(self.buffers, made, strict=True):
            _equal(buffer.numpy(), expected, f"launches that were recorded, {times} times")


@_check
def launches_can_be_recorded(device: Device) -> None:
    series = _Series(device, 40)
    with iris.record() as recording:
        series.launch()
    series.check(0)
    for number in (0, 7, 39, 0):
        recording.replay()
        series.launch()  # before and after, on the same memory
        recording.replay()
        series.check(3)
        recording.launches[number].update(**series.change(number))
    for _ in range(20):
        recording.replay()
    series.check(20)


@_check
def streams_see_what_others_did(device: Device) -> None:
    streams = [device.new_stream() for _ in range(3)]
    x = iris.asarray(np.ones(32, np.float32), device=device)
    for _ in range(5):
        for stream in (*streams, None):
            kernels.scale[1](x, 2.0, stream=stream)
    _equal(x.numpy(), 2**20, "launches of several streams on the same memory")
    apart = [iris.asarray(np.ones(32, np.float32), device=device) for _ in streams]
    for _ in range(5):
        for stream, own in zip(streams, apart, strict=True):
            kernels.scale[1](own, 3.0, stream=stream)
    for own in apart:
        _equal(own.numpy(), 3**5, "launches of a stream")


@_check
def threads_can_share_it(device: Device) -> None:
    results: list[Array] = []

    def work(number: int) -> None:
        x = iris.asarray(np.full(64, number, np.float32), device=device)
        out = iris.empty_like(x)
        for _ in range(20):
            kernels.add[2](x, x, out, 64, B=32)
        results.append(out.numpy() - 2 * number)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4, "a launch failed in a thread"
    _equal(results, 0, "launches of several threads")


@_check
def programs_print(device: Device) -> None:
    for grid in ((3, 1, 1), (2, 3, 2)):
        output = io.StringIO()
        with redirect_stdout(output):
            kernels.say[grid](40, device=device)
            device.synchronize()
        places = [tuple(reversed(place)) for place in np.ndindex(*reversed(grid))]
        lines = [f"number[program ({x},{y},{z})] {40 + x}" for x, y, z in places]
        assert output.getvalue().splitlines() == lines, f"what is printed: {output.getvalue()!r}"


@_check
def a_failed_assertion_is_raised(device: Device) -> None:
    out = iris.asarray(np.zeros(8, np.int32), device=device)
    try:
        kernels.insist[8](out, 5, device=device)
        device.synchronize()
    except ProgramError as error:
        assert "too many programs" in str(error) and error.program == (5, 0, 0), str(error)
    else:
        raise AssertionError("an assertion that does not hold is not raised")
    again = np.zeros(4, np.int32)
    kernels.insist[4](again, 5, device=device)
    _equal(again, 1, "a launch after one that failed")


@_check
def what_a_failed_launch_was_to_write_is_an_error(device: Device) -> None:
    given, out = (iris.asarray(np.zeros(8, np.int32), device=device) for _ in range(2))
    for stream in (None, device.new_stream()):
        try:
            kernels.insist[8](out, 5, device=device, stream=stream)
        except ProgramError:
            continue
    for use in (out.numpy, lambda: out.peek(0), lambda: kernels.insist[4](out, 5)) * 2:
        try:
            use()
        except ProgramError as error:
            assert "too many programs" in str(error), str(error)
        else:
            raise AssertionError("what a failed launch was to write can be used")
    device.synchronize()
    _equal(given.numpy(), 0, "memory that no failed launch was to write")
    device.copy_in(out.argument, np.ones(8, np.int32))
    _equal(out.numpy(), 1, "memory that was written anew")


@_check
def launches_are_timed(device: Device) -> None:
    x = iris.asarray(np.ones(32, np.float32), device=device)
    timings: list[Timing] = []
    others: list[Timing] = []
    with device.timed(timings.append):
        kernels.scale[1](x, 2.0)
        with device.timed(others.append):
            kernels.scale[1](x, 2.0)
        kernels.scale[1](x, 2.0)
    kernels.scale[1](x, 2.0)
    device.synchronize()
    assert [t.kernel for t in timings] == ["scale"] * 3, "not every launch is timed"
    assert len(others) == 1, "who listens to one launch is not told of that one"
    assert all(t.start <= t.end for t in timings), "a launch ends before it starts"
