"""The Metal device on softmetal: what fails, is freed, or is done by many at once."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.codegen import emit
from iris.codegen.source import Source
from iris.compiler.compilation import entry_of
from iris.errors import DeviceError, IrisError, OutOfTimeError
from iris.ir.control import Func
from iris.runtime.cache import PIPELINES, Cache, entries
from iris.runtime.devices import select
from iris.runtime.messages import PRECISE_FUNCTIONS, MathMode, Messages
from iris.runtime.metal import Metal
from iris.runtime.objc import Integer
from iris.runtime.queue import MOST_LAUNCHES
from iris.runtime.recent import Recent
from iris.runtime.softmetal import Softmetal
from iris.softmetal import build
from on_metal import library
from support import ROOT, counts

pytestmark = [pytest.mark.softmetal, pytest.mark.usefixtures("nothing_old_to_collect")]


@iris.kernel
def scale(X, Out, factor, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, factor * iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def total(X, Out, n, B: iris.constexpr = 256):
    x = iris.load(X + iris.arange(0, B), mask=iris.arange(0, B) < n, other=0)
    iris.store(Out, iris.sum(x, axis=0))


@pytest.fixture
def device() -> Metal:
    found = select("softmetal")
    assert isinstance(found, Metal)
    return found


@pytest.fixture(autouse=True)
def nothing_misused() -> Iterator[None]:
    yield
    reports = library().softmetal_reports()
    assert not reports, reports.decode()


def live() -> int:
    gc.collect()
    return int(library().softmetal_live_objects())


def lowered(kernel: Any, *arguments: Any, **named: Any) -> tuple[Func, Source]:
    stages = kernel.lower(*arguments, grid=1, **named).stages
    function = entry_of(stages[-1].module)
    return function, emit(function)


# Errors.


def line_of(kernel: Any, text: str) -> int:
    """Which line of this file a line of a kernel is."""
    import inspect

    lines, first = inspect.getsourcelines(kernel.function.function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_text_that_does_not_compile(device: Metal) -> None:
    x = np.zeros(256, np.float32)
    function, source = lowered(total, x, x[:1].copy(), 256)
    assert "simd_shuffle_xor" in source.text
    broken = replace(source, text=source.text.replace("simd_shuffle_xor", "simd_shuffle_nor"))
    with pytest.raises(DeviceError) as caught:
        device.compile(function, broken)
    assert "kernel total does not compile" in str(caught.value)
    assert "simd_shuffle_nor" in str(caught.value)
    (line,) = {line for _, line in caught.value.locations}
    assert line == line_of(total, "iris.sum")
    assert f"at {__file__}:{line}" in str(caught.value)


def test_a_kernel_without_its_text(device: Metal) -> None:
    x = np.zeros(256, np.float32)
    function, _ = lowered(total, x, x[:1].copy(), 256)
    with pytest.raises(DeviceError, match="softmetal compiles text, and @total came without any"):
        device.compile(function)


@pytest.mark.parametrize(
    ("old", "new", "grid", "message", "kind"),
    [
        ("< p.n", "< p.n + 4", 4, "past the end of buffer", DeviceError),
        (
            "float2 v",
            "volatile int on = 1; while (on) {} float2 v",
            4,
            "did not end in time",
            OutOfTimeError,
        ),
        ("< p.n", "< 7 / (p.n - 250)", 1, "divided by zero", DeviceError),
    ],
)
def test_a_kernel_that_goes_wrong_is_named(
    device: Metal,
    old: str,
    new: str,
    grid: int,
    message: str,
    kind: type[DeviceError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IRIS_SOFTMETAL_TIMEOUT", "0.3")
    x = iris.asarray(np.ones(250, np.float32), device=device)
    out = iris.empty_like(x)
    function, source = lowered(scale, x, out, 2.0, 250)
    assert old in source.text
    broken = device.compile(function, replace(source, text=source.text.replace(old, new)))
    device.launch(broken, (grid, 1, 1), [x.argument, out.argument, 2.0, 250])
    with pytest.raises(DeviceError, match=f"the kernel scale failed: .*{message}") as caught:
        out.numpy()
    assert type(caught.value) is kind
    assert caught.value.locations and __file__ in str(caught.value)
    out = iris.empty_like(x)
    scale[4](x, out, 2.0, 250)
    np.testing.assert_array_equal(out.numpy(), 2)


def test_a_fault_is_told_under_another_handler_of_faults(device: Metal) -> None:
    """Python's own, enabled since the first launch, is called first and sends the signal on."""
    script = """
import faulthandler, os, sys
import numpy as np, iris
from dataclasses import replace
import test_softmetal as test
device = test.select("softmetal")
x = iris.asarray(np.ones(250, np.float32), device=device)
out = iris.empty_like(x)
test.scale[4](x, out, 2.0, 250)
assert (out.numpy() == 2).all()
faulthandler.enable(open(os.devnull, "w"))
function, source = test.lowered(test.scale, x, out, 2.0, 250)
broken = device.compile(function, replace(source, text=source.text.replace("< p.n", "< p.n + 4")))
device.launch(broken, (4, 1, 1), [x.argument, out.argument, 2.0, 250])
try:
    out.numpy()
except iris.errors.DeviceError as error:
    print(error)
"""
    tests = ROOT / "tests"
    environment = os.environ | {"PYTHONPATH": f"{tests}{os.pathsep}{tests / 'runtime'}"}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert "8 bytes past the end of buffer 0 (X)" in ran.stdout, ran.stdout + ran.stderr


def test_an_error_tells_which_of_a_batch(device: Metal) -> None:
    x = iris.asarray(np.ones(250, np.float32), device=device)
    out = iris.empty_like(x)
    sums = iris.empty(1, device=device)
    function, source = lowered(scale, x, out, 2.0, 250)
    broken = device.compile(function, replace(source, text=source.text.replace("< p.n", "< 999")))
    total[1](x, sums, 250)
    device.launch(broken, (4, 1, 1), [x.argument, out.argument, 2.0, 250])
    total[1](x, sums, 250)
    with pytest.raises(DeviceError, match=r"one of total, scale failed: kernel 'scale'") as caught:
        device.synchronize()
    assert caught.value.locations
    device.synchronize()  # it was told once


# Every call that can fail.

# Without these there is no result.
NEEDED = {
    "MTLCreateSystemDefaultDevice",
    "new",
    "newCommandQueue",
    "newSharedEvent",
    "newLibraryWithSource:options:error:",
    "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:",
    "indirectComputeCommandAtIndex:",
    "contents",
    "commandBuffer",
    "computeCommandEncoderWithDispatchType:",
    "computeCommandEncoderWithDescriptor:",
    "commit",
    "waitUntilCompleted",
    "status",
}
# Without this there is no result, unless the pipeline is kept: then it is compiled anew.
PIPELINE = "newComputePipelineStateWithDescriptor:options:reflection:error:"
# Without these memory is asked for again or copied, what is compiled is compiled anew or not kept,
# the host signals what waits, and times are those of command buffers.
SPARED = {
    "newBinaryArchiveWithDescriptor:error:",
    "addComputePipelineFunctionsWithDescriptor:error:",
    "serializeToURL:error:",
    "fileURLWithPath:",
    "arrayWithObject:",
    "newBufferWithLength:options:",
    "newBufferWithBytesNoCopy:length:options:deallocator:",
    "newLibraryWithData:error:",
    "newFunctionWithName:",
    "libraryDataContents",
    "supportsCounterSampling:",
    "counterSets",
    "newCounterSampleBufferWithDescriptor:error:",
    "sampleBufferAttachments",
    "objectAtIndexedSubscript:",
    "resolveCounterRange:",
}


# What is sent for kernels that are text, below; for traces, in test_gputrace.py; after what failed.
OF_TEXTS = {
    "newFunctionWithName:constantValues:error:",
    "functionNames",
    "functionConstantsDictionary",
    "allValues",
    "bindings",
}
OF_TRACES = {
    "sharedCaptureManager",
    "supportsDestination:",
    "startCaptureWithDescriptor:error:",
}
AFTER_FAILURES = {"error"}
# These return numbers that describe an object: they cannot fail.
PROPERTIES = {
    "type",
    "index",
    "access",
    "isUsed",
    "bufferDataSize",
    "bufferDataType",
    "GPUStartTime",
    "GPUEndTime",
}


def selectors() -> set[str]:
    """All that the bridge sends, apart from what can only succeed: it has no result."""
    sent: set[str] = {"MTLCreateSystemDefaultDevice", "commit", "waitUntilCompleted"}

    class Recorder:
        def message(self, selector: str, result: Any, *arguments: Any, **named: Any) -> None:
            if result is not None:
                sent.add(selector)

    Messages(Recorder())  # type: ignore[arg-type]
    return sent


def scenario() -> np.ndarray:
    """A device from its making to the result of a launch and of a replay."""
    device = Softmetal()
    pages = np.frombuffer(bytearray(1 << 16), np.uint8)
    start = -pages.ctypes.data % 4096
    x = pages[start : start + 4096].view(np.float32)
    x[:] = 1
    given = iris.asarray(x, device=device)
    out = iris.empty_like(given)
    scale[16](given, out, 3.0, 1024)
    assert (out.numpy() == 3).all()
    with iris.record() as recording:
        scale[16](out, out, 2.0, 1024)
    recording.replay()
    recording.launches[0].update(factor=0.5)
    recording.replay()
    with iris.profile(device) as measured:
        scale[16](out, out, 2.0, 1024, stream=device.new_stream())
        scale[16](out, out, 0.5, 1024)
    assert [ran.end >= ran.start > 0 for ran in measured.launches] == [True, True]
    return np.array(out.numpy())


def test_each_call_can_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A cache of its own, but for the library of softmetal itself.
    (tmp_path / "softmetal").symlink_to(Path(build.library()).parents[1])
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    fail = library().softmetal_fail
    fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    np.testing.assert_array_equal(scenario(), 3)
    carried_out = set()
    for selector in sorted(selectors()):
        for kept in (False, True):
            # An empty cache for what compiles, a filled one for what opens.
            scale._current = None
            if not kept:
                for room in ("libraries", "pipelines"):
                    for path in entries(tmp_path / room):
                        path.unlink()
            before = live()
            fail(selector.encode(), 1)
            error = None
            try:
                found = scenario()
            except IrisError as raised:
                error = raised
            if fail(None, 0):
                carried_out.add(selector)
                is_needed = selector in NEEDED or (selector == PIPELINE and not kept)
                assert error is not None or not is_needed, selector
                assert error is None or selector not in SPARED, f"{selector}: {error}"
            else:
                assert error is None, f"{selector}: {error}"
            if error is None:
                np.testing.assert_array_equal(found, 3)
            del error
            scale._current = None
            assert live() <= before, f"{selector} leaks"
            np.testing.assert_array_equal(scenario(), 3)
    assert carried_out >= NEEDED | SPARED | {PIPELINE}
    assert selectors() - carried_out == OF_TEXTS | OF_TRACES | AFTER_FAILURES | PROPERTIES


TEXT = """#include <metal_stdlib>
using namespace metal;
constant float factor [[function_constant(0)]];
kernel void times(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    x[i] *= factor;
}
"""


@pytest.mark.parametrize("selector", sorted(OF_TEXTS))
def test_each_call_for_a_text_can_fail(selector: str, device: Metal) -> None:
    fail = library().softmetal_fail
    fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]

    def times() -> np.ndarray:
        x = iris.asarray(np.ones(32, np.float32), device=device)
        texts = iris.metal.library(TEXT, device=device).specialize(factor=3.0)
        texts["times"](x, threads=32)
        return np.array(x.numpy())

    assert (times() == 3).all()
    before = live()
    fail(selector.encode(), 1)
    with pytest.raises(IrisError):
        times()
    assert fail(None, 0)
    assert live() <= before, f"{selector} leaks"
    assert (times() == 3).all()


def test_a_failure_without_an_error_is_told(device: Metal) -> None:
    fail = library().softmetal_fail
    fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    x = iris.asarray(np.ones(1024, np.float32), device=device)
    fail(b"commit", 1)
    for _ in range(MOST_LAUNCHES):
        scale[16](x, x, 2.0, 1024)
    assert fail(b"error", 1)
    with pytest.raises(DeviceError, match="the kernel scale failed: failed without an error"):
        x.numpy()
    assert fail(None, 0)


# Memory.


def resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_many_launches_leave_nothing(device: Metal) -> None:
    def launches(count: int) -> None:
        for _ in range(count):
            x = iris.asarray(np.ones(100, np.float32), device=device)
            out = iris.empty_like(x)
            scale[2](x, out, 2.0, 100)
        np.testing.assert_array_equal(out.numpy(), 2)

    launches(1000)
    objects, memory = live(), resident()
    launches(counts(3_000, 10_000))
    assert live() <= objects
    assert resident() - memory < 4 << 20


def test_launches_on_arrays_leave_nothing(device: Metal) -> None:
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)

    def launches(count: int) -> None:
        for _ in range(count):
            scale[16](x, out, 2.0, 1000, device=device)

    launches(100)
    objects, memory = live(), resident()
    launches(counts(300, 10_000))
    assert live() <= objects
    assert resident() - memory < 4 << 20


def test_memory_in_a_circle_of_objects(device: Metal) -> None:
    """The collector ends the objects of a circle in any order; the pool must not get what ended."""
    for _ in range(3):
        circle: list[Any] = [iris.empty(777, device=device)]
        circle.append(circle)
        del circle
        gc.collect()
        again = iris.empty(777, device=device)
        again.numpy()[:] = 1
        assert again.peek(776) == 1


# Threads.


def in_threads(work: Callable[[int], None]) -> None:
    """Run something in eight threads; what goes wrong in one is raised."""
    errors: list[Exception] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except (AssertionError, IrisError) as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("own", [False, True], ids=["one stream", "streams of their own"])
def test_threads_launch_at_once(device: Metal, own: bool) -> None:
    launches = counts(300, 10_000)
    shared = iris.asarray(np.ones(64, np.float32), device=device)

    def work(number: int) -> None:
        stream = device.new_stream() if own else None
        x = iris.asarray(np.zeros(64, np.float32), device=device)
        for _ in range(launches):
            add_one[1](shared, x, stream=stream)
        np.testing.assert_array_equal(x.numpy(), launches)

    in_threads(work)


@iris.kernel
def add_one(One, X):
    at = iris.arange(0, 64)
    iris.store(X + at, iris.load(X + at) + iris.load(One + at))


def test_threads_count_together(device: Metal) -> None:
    """Launches of many streams on the same memory do what they would one after the other."""
    launches = counts(20, 1000)
    one = iris.asarray(np.ones(64, np.float32), device=device)
    x = iris.asarray(np.zeros(64, np.float32), device=device)

    def work(number: int) -> None:
        stream = device.new_stream()
        for _ in range(launches):
            add_one[1](one, x, stream=stream)

    in_threads(work)
    np.testing.assert_array_equal(x.numpy(), 8 * launches)


# The cache, by many processes.

COMPILING = """
import sys
import numpy as np
import iris

@iris.kernel
def plus(X, Out, n, B: iris.constexpr):
    at = iris.arange(0, 32)
    iris.store(Out + at, iris.load(X + at) + B)

x, out = np.zeros(32, np.float32), np.zeros(32, np.float32)
for number in range(int(sys.argv[1])):
    plus[1](x, out, 32, B=number, device="softmetal")
    assert (out == number).all(), (number, out)
print("right")
"""


def compiling(folder: Path, kernels: int) -> subprocess.Popen[str]:
    script = folder / "compiling.py"
    if not script.exists():
        script.write_text(COMPILING)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "IRIS_CACHE_DIR": str(folder / "cache"),
    }
    # The library of softmetal itself is built once.
    built = folder / "cache" / "softmetal"
    if not built.exists():
        built.parent.mkdir(exist_ok=True)
        built.symlink_to(Path(build.library()).parents[1])
    return subprocess.Popen(
        [sys.executable, str(script), str(kernels)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_processes_share_an_empty_cache(tmp_path: Path) -> None:
    kernels = counts(6, 50)
    processes = [compiling(tmp_path, kernels) for _ in range(counts(4, 8))]
    killed = compiling(tmp_path, kernels)
    time.sleep(2)
    killed.kill()
    killed.communicate()
    for process in processes:
        output, _ = process.communicate()
        assert output == "right\n", (process.returncode, output)
    for room in ("libraries", "pipelines"):
        kept = entries(tmp_path / "cache" / room)
        assert len(kept) == kernels
        # Entries that are damaged, swapped or cut are compiled again.
        content = kept[0].read_bytes()
        kept[0].write_bytes(content[: len(content) // 2])
        kept[1].write_bytes(content)
        flipped = bytearray(kept[2].read_bytes())
        flipped[len(flipped) // 2] ^= 4
        kept[2].write_bytes(flipped)
    output, _ = compiling(tmp_path, kernels).communicate()
    assert output == "right\n", output
    for room in ("libraries", "pipelines"):
        assert len(entries(tmp_path / "cache" / room)) == kernels


def test_pipelines_are_kept_that_open_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "softmetal").symlink_to(Path(build.library()).parents[1])
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    x = np.ones(64, np.float32)
    functions = [lowered(scale, x, x.copy(), factor, 64) for factor in (2.0, 2)]
    options: list[int] = []

    def compile_both() -> list[int]:
        """How each pipeline is asked for: 4 wants it from an archive."""
        device, seen = Softmetal(), len(options)
        make = device.messages.new_pipeline

        def new_pipeline(*given: Any) -> Any:
            options.append(given[2])
            return make(*given)

        device.messages.new_pipeline = new_pipeline
        for function, source in functions:
            device.compile(function, source)
        return options[seen:]

    assert compile_both() == [0, 4, 0, 4]
    assert compile_both() == [4, 4]
    cache = Cache(f"{Softmetal().toolchain()} softmetal", PIPELINES)
    one, other = entries(tmp_path / "pipelines")
    contents = [cache.get(one.name), cache.get(other.name)]
    assert None not in contents
    cache.put(one.name, contents[1] or b"")  # an archive without the pipeline
    cache.put(other.name, b"no archive")
    assert sorted(compile_both()) == [0, 0, 4, 4, 4]
    assert compile_both() == [4, 4]
    assert [cache.get(one.name), cache.get(other.name)] == contents


def test_bytes_of_another_library_are_not_kept(
    device: Metal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Some systems give such: they open a library, and it has other functions."""
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(device, "_cache", Cache("tools"))
    monkeypatch.setattr(device, "_libraries", Recent(4))
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    one, other = lowered(scale, x, out, 2.0, 64), lowered(total, x, out, 64)

    folder = tmp_path / "libraries"
    with device.runtime.pool():
        wrong = device._bytes_of(device._library(other[1], MathMode.SAFE))
        right = device._bytes_of(device._library(one[1], MathMode.SAFE))
    assert wrong and right and len(entries(folder)) == 2
    again = replace(one[1], text=one[1].text + "// again")
    monkeypatch.setattr(device, "_bytes_of", lambda library: wrong)
    device.compile(one[0], again)
    assert len(entries(folder)) == 2
    # Nor used, if an earlier version kept them.
    monkeypatch.setattr(device, "_bytes_of", lambda library: right)
    monkeypatch.setattr(device, "_libraries", Recent(1))
    key = device._cache.key(again.text, "SAFE", "(3, 1)")
    device._cache.put(key, wrong)
    device.compile(one[0], again)
    assert device._cache.get(key) == right


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "libraries").write_text("no folder")
    output, _ = compiling(tmp_path, 1).communicate()
    assert "cannot be kept" in output and output.endswith("right\n"), output


@pytest.mark.parametrize(("fast", "mode"), [(False, MathMode.SAFE), (True, MathMode.RELAXED)])
def test_the_math_mode_that_is_asked_for(device: Metal, fast: bool, mode: MathMode) -> None:
    with device.runtime.pool():
        options = device.compile_options(mode)
        numbers = {
            name: device.runtime.message(name, Integer)(options)
            for name in ("mathMode", "mathFloatingPointFunctions", "fastMathEnabled")
        }
    assert numbers == {
        "mathMode": mode,
        "mathFloatingPointFunctions": PRECISE_FUNCTIONS,
        "fastMathEnabled": 0,
    }


def test_fast_math_is_off_where_there_are_no_modes(
    device: Metal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before macOS 15 there is only a fast math that knows no nan."""
    monkeypatch.setattr(device.messages, "responds", lambda *_: 0)
    with device.runtime.pool():
        options = device.compile_options(MathMode.RELAXED)
        assert device.runtime.message("fastMathEnabled", Integer)(options) == 0
        assert device.runtime.message("mathMode", Integer)(options) == MathMode.SAFE


def test_a_library_is_kept_for_each_math_mode(device: Metal) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(1, np.float32)
    source = lowered(total, x, out, 64)[1]
    with device.runtime.pool():
        found = [device._library(source, mode) for mode in MathMode]
    assert found[0] is not found[1]


def test_a_buffer_that_cannot_be_made_is_told_with_how_many_there_are(
    device: Metal, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [iris.empty(4, device=device) for _ in range(3)]
    monkeypatch.setattr(device.messages, "new_buffer", lambda *arguments: None)
    with pytest.raises(
        DeviceError, match=r"a buffer of 999 bytes beside \d+ that are in use; free"
    ):
        device.allocate(999, persistent=True)
    assert len(kept) == 3
