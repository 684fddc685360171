"""The device `cuda`, and arrays of other libraries in the memory of a GPU."""

from __future__ import annotations

import gc
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DTypeError
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.testing.conformance import CHECKS, Check

pytestmark = pytest.mark.cuda


@pytest.fixture
def device() -> Device:
    return select("cuda")


@iris.kernel
def double(X, Out, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def shift(X, n, B: iris.constexpr = 64):
    at = iris.arange(0, B)
    x = iris.load(X + at, mask=at < n, other=0)
    iris.store(X + at + 1, x, mask=at < n - 1)


@iris.kernel
def scale_in_place(X, n, B: iris.constexpr = 256):
    at = iris.arange(0, B)
    iris.store(X + at, iris.load(X + at, mask=at < n) * 3 % 7, mask=at < n)


@iris.kernel
def number(Out):
    n = iris.program_id(1) + iris.program_id(0) * iris.num_programs(1)
    iris.store(Out + n, n)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_does_what_a_device_must(check: Check, device: Device) -> None:
    check(device)


def test_there_may_be_more_programs_than_the_hardware_numbers(device: Device) -> None:
    out = iris.empty(2 * 70_000, np.int32, device=device)
    number[2, 70_000](out)
    np.testing.assert_array_equal(out.numpy(), np.arange(140_000))


@pytest.mark.parametrize("function", [np.exp, np.exp2], ids=["exp", "exp2"])
def test_all_exponentials_of_f16_are_rounded_nearly_right(function: Any, device: Device) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = iris.jit(lambda x: function(x))(iris.asarray(x, device=device)).numpy()
    with np.errstate(all="ignore"):
        right = function(x.astype(np.float64))
        unit = np.spacing(right.astype(np.float16)).astype(np.float64)
        near = np.abs(found - right) <= 0.51 * unit
        assert (near | (found == right.astype(np.float16)) | (np.isnan(found) & np.isnan(x))).all()


def test_what_other_threads_write_is_read_anew(device: Device) -> None:
    x = iris.asarray(np.arange(64, dtype=np.float32), device=device)
    for _ in range(3):
        shift[1](x, 64)
    expected = np.arange(64, dtype=np.float32)
    for _ in range(3):
        expected[1:] = expected[:-1].copy()
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_replay_costs_little_and_leaves_nothing(device: Device) -> None:
    x, out = (iris.asarray(np.ones(64, np.float32), device=device) for _ in "12")
    with iris.record() as recording:
        for _ in range(100):
            double[1](x, out, 64)
    recording.replay()
    assert (out.numpy() == 2).all()
    costs = []
    for _ in range(1000):
        start = time.perf_counter()
        recording.replay()
        costs.append(time.perf_counter() - start)
    assert sorted(costs)[50] < 20e-6  # what waits for room in the stream takes longer
    iris.synchronize()
    tracemalloc.start()
    for _ in range(20_000):
        recording.replay()
    iris.synchronize()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1 << 20


def test_functions_of_several_kernels_run_on_any_memory(device: Device) -> None:
    """What is given lies elsewhere, is given twice, or is a result: all kernels are a graph."""

    def steps(x: Any, y: Any) -> Any:
        for _ in range(4):
            x = x @ y % 7  # whole numbers, which floats hold
        return x

    compiled = iris.jit(lambda x, y: steps(x, y))
    choose = np.random.default_rng(3)
    known = [choose.integers(0, 7, (12, 12)).astype(np.float32) for _ in range(3)]
    given = [iris.asarray(x, device=device) for x in known]
    streams = [None, iris.stream(device)]
    for call in range(200):
        one, other, into = choose.integers(0, 3, 3)
        given[into] = compiled(given[one], given[other])
        known[into] = steps(known[one], known[other])
        if call % 7 == 0:
            given[one] = iris.asarray(known[one], device=device)
        scale_in_place[1](given[one], 144, stream=streams[call % 2])
        known[one] = known[one] * 3 % 7
    for found, right in zip(given, known, strict=True):
        np.testing.assert_array_equal(found.numpy(), right)


def test_a_recording_is_in_order_with_the_stream_of_torch() -> None:
    torch = pytest.importorskip("torch")
    stream, n = torch.cuda.Stream(), 1 << 20
    with torch.cuda.stream(stream):
        x, out = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
        with iris.record() as recording:
            double[1 << 14](x, out, n)
            double[1 << 14](out, x, n)
        for _ in TWICE:
            x.fill_(0)
            torch.cuda._sleep(100_000_000)
            x += 1
            recording.replay()
            then = x + 1
            stream.synchronize()
            assert (then == 5).all()


def test_a_kernel_takes_and_fills_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    double[16](x, out, 1000)
    assert torch.equal(out, 2 * x)


# The first time, the kernel is compiled, which takes longer than the GPU is kept busy.
TWICE = range(2)


def test_launches_are_in_order_with_the_stream_of_torch() -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    for _ in TWICE:
        with torch.cuda.stream(stream):
            x = torch.randn(1 << 20, device="cuda")
            torch.cuda._sleep(100_000_000)
            x += 1
            out = torch.empty_like(x)
            double[1 << 14](x, out, 1 << 20)
            then = out + 1
        stream.synchronize()
        assert torch.equal(then, 2 * x + 1)


def test_a_launch_on_another_stream_is_in_order_with_torch() -> None:
    """Torch works on the tensor before the launch, and after it."""
    torch = pytest.importorskip("torch")
    stream, n = iris.stream("cuda"), 1 << 20
    for _ in TWICE:
        with torch.cuda.stream(torch.cuda.Stream()):
            x, out = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
            torch.cuda._sleep(100_000_000)
            x += 1
            double[1 << 14](x, out, n, stream=stream)
            then = out + 1
            torch.cuda.current_stream().synchronize()
        assert (then == 3).all()


def test_arrays_of_two_libraries_are_in_order_with_both() -> None:
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    n, own, other = 1 << 20, torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    for _ in TWICE:
        with torch.cuda.stream(own), other:
            x, out = torch.zeros(n, device="cuda"), cupy.zeros(n, dtype=cupy.float32)
            torch.cuda._sleep(100_000_000)
            x += 1
            double[1 << 14](x, out, n)
            then = out + 1
            own.synchronize()
            other.synchronize()
        assert (then == 3).all()


def test_functions_of_tensors_give_buffers_that_torch_takes() -> None:
    torch = pytest.importorskip("torch")

    @iris.jit
    def both(x: Any, y: Any) -> Any:
        return x * y + 1, x.sum(1)

    x, y = (torch.randn(100, 300, device="cuda") for _ in range(2))
    first, second = (torch.from_dlpack(found) for found in both(x, y))
    torch.testing.assert_close(first, x * y + 1)
    torch.testing.assert_close(second, x.sum(1), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "int8", "uint8", "int32", "int64", "bool"]
)
def test_tensors_keep_their_dtype(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(100, device="cuda").to(getattr(torch, dtype))
    back = torch.from_dlpack(iris.asarray(x))
    assert back.dtype is x.dtype
    assert torch.equal(back, x)


def test_tensors_that_overlap_are_known_to() -> None:
    torch = pytest.importorskip("torch")

    @iris.kernel
    def halve_and_double(X, Y, B: iris.constexpr = 32):
        at = iris.arange(0, B)
        iris.store(X + at, iris.load(X + at) / 2)
        iris.store(Y + at, iris.load(Y + at) * 2)

    x = torch.arange(48, device="cuda", dtype=torch.float32)
    halve_and_double[1](x, x[16:])
    expected = np.arange(48, dtype=np.float32)
    expected[:32] /= 2
    expected[16:] *= 2
    np.testing.assert_array_equal(x.cpu().numpy(), expected)


def test_tensors_may_start_anywhere() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(1000.0, device="cuda")[1:]
    out = torch.zeros_like(x)
    double[16](x, out, 999)
    assert torch.equal(out, 2 * x)


def test_what_tensors_are_refused() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 4, device="cuda")
    with pytest.raises(ArgumentError, match="is not contiguous"):
        double[1](x.T, x, 16)
    with pytest.raises(DTypeError, match="complex64"):
        double[1](x.to(torch.complex64), x, 16)


def test_arrays_of_cupy_are_used_on_their_stream() -> None:
    cupy = pytest.importorskip("cupy")
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            x = cupy.arange(1000, dtype=cupy.float32)
            out = cupy.zeros_like(x)
            double[16](x, out, 1000)
            same = (out == 2 * x).all()
        stream.synchronize()
        assert same


def test_arrays_of_jax_are_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    numpy = pytest.importorskip("jax.numpy")
    x = numpy.arange(1000, dtype=numpy.float32)
    out = iris.empty(1000, device="cuda")
    double[16](x, out, 1000)
    np.testing.assert_array_equal(np.asarray(numpy.from_dlpack(out)), 2 * np.arange(1000))
    with pytest.raises(ArgumentError, match="Out is written to"):
        double[16](x, x, 1000)


def test_memory_lives_as_long_as_another_library_has_it() -> None:
    torch = pytest.importorskip("torch")
    buffer = iris.asarray(np.arange(1000, dtype=np.float32), device="cuda")
    tensor = torch.from_dlpack(buffer)
    del buffer
    gc.collect()
    for _ in range(4):  # which would take the memory, were it free
        iris.asarray(np.zeros(1000, np.float32), device="cuda")
    assert torch.equal(tensor, torch.arange(1000.0, device="cuda"))


def test_the_host_does_not_see_the_memory(device: Device) -> None:
    buffer = iris.asarray(np.arange(4, dtype=np.float32), device=device)
    assert not buffer.numpy().flags.writeable
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(buffer)
    assert buffer.__dlpack_device__() == (2, 0)


@pytest.fixture
def second() -> Device:
    if select("cuda").count() < 2:
        pytest.skip("this machine has one GPU")
    return select("cuda:1")


def test_each_gpu_has_memory_and_streams_of_its_own(device: Device, second: Device) -> None:
    assert select("cuda:0") is device is not second and second.name == "cuda:1"
    n = 1000
    for _ in range(3):
        pairs = [
            (iris.asarray(np.full(n, at + 1, np.float32), device=on), on)
            for at, on in enumerate((device, second))
        ]
        outs = [iris.empty(n, np.float32, device=on) for _, on in pairs]
        for (x, _), out in zip(pairs, outs, strict=True):
            double[iris.cdiv(n, 64)](x, out, n)
        assert [out.numpy()[-1] for out in outs] == [2, 4]
    with pytest.raises(ArgumentError, match="'cuda:1', but the launch is on 'cuda'"):
        double[1](pairs[0][0], outs[1], n)


def test_threads_use_two_gpus_at_a_time(device: Device, second: Device) -> None:
    def work(on: Device) -> Any:
        x = iris.asarray(np.arange(5000, dtype=np.float32), device=on)
        for _ in range(50):
            out = iris.empty_like(x)
            double[iris.cdiv(5000, 64)](x, out, 5000)
        return out.numpy()

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, [device, second] * 4):
            np.testing.assert_array_equal(found, 2 * np.arange(5000))


def test_a_recording_runs_on_the_second_gpu(second: Device) -> None:
    x = iris.asarray(np.ones(64, np.float32), device=second)
    out = iris.empty_like(x)
    with iris.record() as recording:
        double[1](x, out, 64)
    recording.replay()
    assert out.numpy().tolist() == [2] * 64


def test_torch_stays_on_its_gpu(second: Device) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(1000, device="cuda:1")
    out = torch.empty_like(x)
    double[iris.cdiv(1000, 64)](x, out, 1000)
    assert torch.cuda.current_device() == 0 and torch.empty(1, device="cuda").get_device() == 0
    assert torch.equal(out, 2 * x)
    found = iris.jit(lambda x: x + 1)(x)
    assert found.device is second and torch.from_dlpack(found).get_device() == 1
