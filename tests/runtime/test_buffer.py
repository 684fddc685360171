"""Buffers: making them, looking into them, and what they refuse."""

from __future__ import annotations

import copyreg
import gc
import mmap
import weakref
from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DeviceError, DTypeError, ProgramError
from iris.ir.types import DTYPES
from iris.runtime.device import Device
from iris.runtime.devices import select
from on_metal import SHARING

pytestmark = pytest.mark.usefixtures("nothing_old_to_collect")


@pytest.fixture(params=["interp", "interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Device:
    return select(request.param)


@iris.kernel
def double(X, Out, n, B: iris.constexpr = 32):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


def on_pages(count: int) -> np.ndarray:
    """Floats that fill pages of memory of their own."""
    size = -(-4 * count // mmap.PAGESIZE) * mmap.PAGESIZE
    return np.frombuffer(mmap.mmap(-1, size), np.float32)


def test_a_launch_on_buffers(device: Device) -> None:
    x = iris.asarray(np.arange(100, dtype=np.float32), device=device)
    out = iris.empty_like(x)
    assert (out.shape, out.dtype, out.device) == ((100,), iris.f32, device)
    double[4](x, out, 100)
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(100))
    assert out.peek(7) == 14
    assert np.asarray(out).sum() == np.asarray(out, np.float64).sum() == 9900
    assert len(out) == out.size == 100 and out.nbytes == 400 and out.ndim == 1
    assert repr(out) == f"Buffer((100,), f32, device={device.name!r})"


def test_a_buffer_stays_on_its_device() -> None:
    buffer = iris.asarray(np.zeros(4, np.float32), device="interp")
    assert iris.asarray(buffer) is iris.asarray(buffer, device="interp") is buffer
    with pytest.raises(ArgumentError, match="in the memory of 'interp'; pass device='interp'"):
        iris.asarray(buffer, device="interp:metal")


def test_arrays_and_buffers_together(device: Device) -> None:
    x = np.arange(100, dtype=np.float32)
    out = iris.empty(100, device=device)
    double[4](x, out, 100)
    np.testing.assert_array_equal(out.numpy(), 2 * x)
    back = np.zeros(100, np.float32)
    double[4](out, back, 100)
    np.testing.assert_array_equal(back, 4 * x)


def test_an_array_that_fills_pages_is_shared(device: Device) -> None:
    x = on_pages(1024)
    x[:] = 1
    buffer = iris.asarray(x, device=device)
    double[32](buffer, buffer, 1024)
    device.synchronize()
    np.testing.assert_array_equal(x, 2)
    x[3] = 5
    assert buffer.peek(3) == 5
    again = iris.asarray(x.reshape(32, 32), device=device)
    double[32](buffer, again, 1024)
    assert again.peek(0, 3) == x[3] == 10
    assert "noalias" not in double.lower(buffer, again, 1024, grid=1).tile
    # A part of what is shared would be memory of its own for the device.
    part = iris.asarray(x[: x.size // 2], device=device)
    part.numpy()[:] = 0
    assert x[3] == 10


def test_another_array_is_copied(device: Device) -> None:
    x = on_pages(1024)
    for part in (x[4:], x[:100], x.reshape(32, 32)[:, :16]):
        buffer = iris.asarray(part, device=device)
        part[...] = 3
        assert buffer.peek(0) == 0
        x[:] = 0


def test_persistent_memory_is_its_own(device: Device) -> None:
    x = on_pages(1024)
    buffer = iris.asarray(x, persistent=True, device=device)
    x[0] = 9
    assert buffer.peek(0) == 0


@pytest.mark.parametrize("copies_keep_frames", [False, True])
def test_a_launch_that_failed_keeps_nothing_alive(
    device: Device, copies_keep_frames: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if copies_keep_frames:  # as where dask.distributed is imported

        def reduced(error: ProgramError) -> Any:
            return _again, (error.args, vars(error), error.__traceback__)

        monkeypatch.setitem(copyreg.dispatch_table, ProgramError, reduced)

    @iris.kernel
    def fail(Out):
        iris.store(Out, 1.0)
        iris.device_assert(iris.program_id(0) > 0)

    gc.collect()
    gc.disable()
    try:
        buffer = iris.empty(1, device=device)
        memory = weakref.ref(buffer.argument.memory)
        with suppress(ProgramError):  # which a GPU raises later
            fail[1](buffer)
        with pytest.raises(ProgramError):
            buffer.numpy()
        del buffer
        assert memory() is None
    finally:
        gc.enable()


def _again(args: Any, attributes: Any, traceback: Any) -> ProgramError:
    error = ProgramError.__new__(ProgramError, *args)
    error.__dict__.update(attributes)
    return error.with_traceback(traceback)


def test_a_view_outlives_its_buffer(device: Device) -> None:
    view = iris.asarray(np.arange(1000, dtype=np.int32), device=device).numpy()
    gc.collect()
    others = [iris.asarray(np.zeros(1000, np.int32), device=device) for _ in range(20)]
    np.testing.assert_array_equal(view, np.arange(1000))
    del others


def test_writing_through_a_view(device: Device) -> None:
    x = iris.empty((4, 8), np.float32, device=device)
    x.numpy()[...] = np.arange(32).reshape(4, 8)
    out = iris.empty_like(x)
    double[1](x, out, 32)
    assert out.peek(3, 7) == out.peek(31) == 62
    for index in ((), (3, 7, 0)):
        with pytest.raises(ArgumentError, match="an index for each of 2 axes"):
            out.peek(*index)


def test_bfloat16(device: Device) -> None:
    x = np.arange(32).astype(ml_dtypes.bfloat16)
    buffer = iris.asarray(x, device=device)
    assert buffer.dtype is iris.bf16 and buffer.numpy().dtype == x.dtype
    out = iris.empty(32, iris.bf16, device=device)
    double[1](buffer, out, 32)
    np.testing.assert_array_equal(out.numpy(), x * 2)


def test_dlpack(device: Device) -> None:
    buffer = iris.asarray(np.arange(8, dtype=np.float32), device=device)
    np.testing.assert_array_equal(np.from_dlpack(buffer), np.arange(8))


def test_shapes_and_dtypes(device: Device) -> None:
    assert iris.empty((), np.int8, device=device).numpy().shape == ()
    assert iris.empty((3, 0), iris.f16, device=device).numpy().shape == (3, 0)
    assert iris.empty(np.int64(5), "uint16", device=device).numpy().dtype == np.uint16
    assert iris.empty_like(np.ones((1, 2), np.float32), device=device).shape == (1, 2)


def test_what_is_refused(device: Device) -> None:
    with pytest.raises(DTypeError, match=r"no Buffers of float64.*astype"):
        iris.asarray([1.0, 2.0], device=device)
    with pytest.raises(DTypeError, match=r"complex64.* is no dtype"):
        iris.empty(3, np.complex64, device=device)
    with pytest.raises(ArgumentError, match="negative"):
        iris.empty((3, -1), device=device)
    buffer = iris.empty(32, device=device)
    with pytest.raises(TypeError):
        len(iris.empty((), device=device))
    with pytest.raises(ArgumentError, match=r"shares memory with the Buffer Out; pass a Buffer"):
        double[1](buffer.numpy(), buffer, 32)
    with pytest.raises(ArgumentError, match="a prepared launch is given Buffers"):
        double.prepare(np.zeros(32, np.float32), buffer, 32, grid=1)
    buffer.free()
    with pytest.raises(ArgumentError, match=r"Buffer\(\(32,\), f32.*used after it was freed"):
        double[1](buffer, buffer, 32)


def test_buffers_of_two_devices() -> None:
    here = iris.empty(32, device="interp")
    there = iris.empty(32, device="interp:metal")
    with pytest.raises(ArgumentError, match=r"Out is a Buffer on the device 'interp:metal'"):
        double[1](here, there, 32)
    with pytest.raises(ArgumentError, match=r"but the launch is on 'interp:metal'"):
        double[1](here, here, 32, device="interp:metal")


DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_sizes_that_cannot_be_counted_are_refused(device: str, dtype: Any) -> None:
    """None may wrap on its way to a device, where 2**62 + 16 numbers were 64 bytes."""
    itemsize = np.dtype(dtype).itemsize
    for size in [2**63 // itemsize, 2**64 // itemsize, 2**64 // itemsize + 16, 2**70]:
        for shape in [size, (size,), (2, size // 2), (size, 0), (0, size), (2**20,) * 4]:
            with pytest.raises(ArgumentError, match="is too big: it has over"):
                iris.empty(shape, dtype, device=device)
    # Some can be counted, and are too many all the same.
    for size in (2**63 // itemsize - 1, 2**56 // itemsize):
        with pytest.raises(DeviceError, match=f"{device} could not make a buffer of"):
            iris.empty(size, dtype, device=device)
    with pytest.raises(DeviceError, match=f"{device} could not make a buffer of"):
        select(device).allocate(2**64 + 64)


@pytest.mark.parametrize(
    "shape",
    [
        *(1.5, "4", None, (1.5,), (2, "a"), np.array(2.0), -1, (2, -3)),
        *({2, 3}, {2: 3}, b"ab", bytearray(b"ab"), iter([2, 3]), True, (2, True), frozenset([2])),
    ],
    ids=lambda shape: type(shape).__name__,
)
def test_what_is_no_shape_is_told(shape: Any) -> None:
    with pytest.raises(ArgumentError, match=r"a shape is an int or|no size of a shape is negative"):
        iris.empty(shape)


def test_what_is_a_shape() -> None:
    for shape in (3, np.int8(3), (3,), [3], np.array([3]), np.array(3), range(3, 4)):
        assert iris.empty(shape).shape == (3,)


@pytest.mark.parametrize(
    "dtype", ["foo", 5, "i8", "u8", "f8", None, object, "f32 ", ">f4", complex]
)
def test_what_is_no_dtype_is_told(dtype: Any) -> None:
    with pytest.raises(
        DTypeError, match=r"is no dtype; arrays|there are no Buffers of|8 bits in ke"
    ):
        iris.empty(4, dtype)


def test_dtypes_by_name() -> None:
    for name, dtype in DTYPES.items():
        if name not in ("i8", "u8"):
            assert iris.empty(4, name).dtype is dtype
    assert iris.empty(4, "bfloat16").dtype is iris.bf16
    assert iris.empty(4, "int64").dtype is iris.i64


def test_what_is_no_array_is_told() -> None:
    wrong: list[Any] = [3, [1, 2], None, "abc"]
    for value in wrong:
        with pytest.raises(ArgumentError, match=r"iris\.empty_like takes a Buffer or an"):
            iris.empty_like(value)
        with pytest.raises(ArgumentError, match=r"iris\.to_numpy takes a Buffer, not"):
            iris.to_numpy(value)
    with pytest.raises(ArgumentError, match="there is no Buffer of this: setting an array element"):
        iris.asarray([[1], [1, 2]])
