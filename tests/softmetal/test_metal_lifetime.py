"""How long Metal's objects live, faults on order, and threads."""

from __future__ import annotations

import ctypes as c
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import metal as m
import numpy as np
import pytest
from test_metal_commands import indirect
from test_metal_objects import Block, values

from iris.runtime.objc import Object, ObjectiveCError, Pointer
from iris.softmetal import build


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    m.reports()
    yield
    m.fail(None)
    assert m.reports() == ""


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def launch(queue: Any, size: int = 1000) -> None:
    """A command buffer, with all that belongs to it, made and forgotten."""
    x = m.buffer(4 * size)
    commands = m.command_buffer(queue)
    encoder = m.encoder(commands)
    m.dispatch(encoder, m.kernel("put"), 1, 1, x, m.uint(3))
    m.finish(commands, encoder)
    assert m.number(commands, "status") == m.COMPLETED


def test_ten_thousand_command_buffers_leave_nothing() -> None:
    queue = m.queue()
    for _ in range(2000):  # what is kept of the deallocated is full then
        launch(queue)
    before, memory, maps = m.live(), resident(), mappings()
    for _ in range(8000):
        launch(queue)
    assert m.live() == before
    assert resident() - memory < 4 << 20
    assert mappings() - maps < 50


def test_everything_goes_when_it_is_released() -> None:
    before = m.live()
    queue = m.queue()
    library = m.compile("kernel void f(device int *x) { x[0] = 1; }")
    pipeline = m.pipeline(library, "f")
    x, event = m.words(1), m.ask(m.device(), "newSharedEvent")
    commands = m.command_buffer(queue)
    encoder = m.encoder(commands)
    m.dispatch(encoder, pipeline, 1, 1, x)
    m.finish(commands, encoder)
    icb = indirect(3)
    one = m.ask(icb, "indirectComputeCommandAtIndex:", 0)
    assert m.live() - before == Counter(
        SMQueue=1,
        SMLibrary=1,
        SMFunction=1,
        SMPipeline=1,
        SMBuffer=1,
        SMSharedEvent=1,
        SMCommandBuffer=1,
        SMComputeEncoder=1,
        SMIndirectCommandBuffer=1,
        SMIndirectCommand=1,
        MTLIndirectCommandBufferDescriptor=1,
    )
    assert m.library().softmetal_live_objects() == sum(m.live().values())
    for made in (queue, library, pipeline, x, event, commands, encoder, icb, one):
        made.release()
    assert m.live() == before


def test_a_late_release_of_what_was_not_retained() -> None:
    # As of clients without pools, who take what is not given to them, and release it at some time.
    queue, before = m.queue(), m.live()
    raw = m.runtime().message("commandBuffer", Pointer)
    release = m.runtime().release
    for _ in range(3):
        commands = Pointer(raw(queue))
        encoder = Pointer(m.send(commands, "computeCommandEncoder", result=Pointer))
        m.dispatch(encoder, m.kernel("put"), 1, 1, m.words(1), m.uint(3))
        m.finish(commands, encoder)
        release(encoder)
        release(commands)
    assert m.live() == before


def test_an_error_may_be_released_late() -> None:
    commands = m.command_buffer(m.queue())
    encoder = m.encoder(commands)
    m.send(encoder, "dispatchThreads:threadsPerThreadgroup:", m.size(1), m.size(1))
    m.finish(commands, encoder)
    for _ in range(3):
        error = m.send(commands, "error", result=Pointer)
        words = m.send(Pointer(error), "localizedDescription", result=Pointer)
        assert "no pipeline" in m.runtime().text(words)
        m.runtime().release(words)
        m.runtime().release(error)
    assert "no pipeline" in m.problem(commands)


def test_pools_that_are_popped_twice() -> None:
    runtime = m.runtime()
    pool, inner = runtime.push(), runtime.push()
    runtime.pop(pool)
    for gone in (pool, inner, None):
        runtime.pop(gone)
    assert m.reports().count("is popped twice, or by a thread that has not pushed it") == 3


def test_threads_with_queues_of_their_own_and_one_for_all() -> None:
    shared = m.queue()
    wrong: list[tuple[int, int, str]] = []
    x = m.words(8)

    def work(number: int) -> None:
        try:
            own = m.queue()
            for i in range(100):
                commands = m.command_buffer(shared if i % 2 else own)
                encoder = m.encoder(commands)
                m.send(encoder, "setComputePipelineState:", m.kernel("put"))
                m.bind(encoder, x, m.uint(number * 1000 + i))
                m.send(encoder, "setBufferOffset:atIndex:", 4 * number, 0)
                go = "dispatchThreads:threadsPerThreadgroup:"
                m.send(encoder, go, m.size(1), m.size(1))
                m.finish(commands, encoder)
                if m.problem(commands) or m.word(x, number) != number * 1000 + i:
                    wrong.append((number, i, m.problem(commands)))
        except ObjectiveCError as error:
            wrong.append((number, -1, str(error)))

    m.kernel("put")
    before = m.live()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert wrong == []
    assert m.live() == before


def test_threads_that_end_leave_nothing() -> None:
    queue = m.queue()

    def some(count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=launch, args=(queue,))
            thread.start()
            thread.join(20)

    some(500)
    before, memory = m.live(), resident()
    some(1500)
    assert m.live() == before
    assert resident() - memory < 4 << 20


def test_messages_are_counted() -> None:
    x = m.words(1)
    before = m.library().softmetal_messages()
    for _ in range(10):
        m.number(x, "length")
    assert m.library().softmetal_messages() - before == 10


def make_pipeline_of_descriptor() -> Any:
    return m.indirect_pipeline(m.kernels(), "put")


def make_function_with_constants() -> Any:
    selector = "newFunctionWithName:constantValues:error:"
    return m.ask(m.kernels(), selector, m.string("put"), values(), error=True)


MAKERS: dict[str, Callable[[], Any]] = {
    "newCommandQueue": m.queue,
    "newCommandQueueWithMaxCommandBufferCount:": lambda: m.queue(3),
    "newBufferWithLength:options:": lambda: m.words(1),
    "newBufferWithBytes:length:options:": lambda: m.ask(
        m.device(), "newBufferWithBytes:length:options:", b"abc", 3, 0
    ),
    "newLibraryWithSource:options:error:": lambda: m.compile("kernel void f() {}"),
    "newFunctionWithName:": lambda: m.function(m.kernels(), "put"),
    "newFunctionWithName:constantValues:error:": make_function_with_constants,
    "newComputePipelineStateWithFunction:error:": lambda: m.pipeline(m.kernels(), "put"),
    "newComputePipelineStateWithDescriptor:options:reflection:error:": make_pipeline_of_descriptor,
    "commandBuffer": lambda: m.command_buffer(m.queue()),
    "computeCommandEncoderWithDispatchType:": lambda: ended(m.encoder(m.command_buffer(m.queue()))),
    "newSharedEvent": lambda: m.ask(m.device(), "newSharedEvent"),
    "newCounterSampleBufferWithDescriptor:error:": lambda: samples(2),
    "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:": lambda: indirect(1),
    "contents": lambda: m.number(m.buffer(4), "contents") or None,
}


def samples(count: int) -> Any:
    described = m.new("MTLCounterSampleBufferDescriptor")
    times = m.ask(m.ask(m.device(), "counterSets"), "objectAtIndex:", 0)
    m.send(described, "setCounterSet:", times)
    m.send(described, "setSampleCount:", count)
    return m.ask(m.device(), "newCounterSampleBufferWithDescriptor:error:", described, error=True)


def ended(encoder: Any) -> Any:
    if encoder is not None:
        m.send(encoder, "endEncoding")
    return encoder


@pytest.mark.parametrize("selector", MAKERS)
def test_faults_on_order(selector: str) -> None:
    m.kernels()
    before = m.live()
    m.fail(selector, 2)
    assert MAKERS[selector]() is not None
    if selector == "newBufferWithLength:options:":
        assert m.ask(m.device(), selector, 4, 0) is None
    elif "error:" in selector:
        with pytest.raises(ObjectiveCError, match="failed, as was ordered"):
            MAKERS[selector]()
    else:
        assert MAKERS[selector]() is None
    assert m.fail(None)
    assert MAKERS[selector]() is not None
    assert m.live() == before


def test_a_fault_that_does_not_come() -> None:
    m.fail("newSharedEvent", 2)
    m.ask(m.device(), "newSharedEvent")
    assert not m.fail(None)


def test_the_device_fails_on_order() -> None:
    m.device()
    m.fail("MTLCreateSystemDefaultDevice")
    assert m.library().MTLCreateSystemDefaultDevice() is None
    assert m.library().MTLCreateSystemDefaultDevice() == m.device().pointer


@pytest.mark.parametrize("selector", ["commit", "waitUntilCompleted"])
def test_command_buffers_fail_on_order(selector: str) -> None:
    queue = m.queue()
    for wanted in ("failed, as was ordered", ""):
        commands = m.command_buffer(queue)
        if wanted:
            m.fail(selector)
        m.finish(commands)
        assert wanted in m.problem(commands)
        assert bool(m.problem(commands)) == bool(wanted)


def test_what_is_made_elsewhere_fails_on_order() -> None:
    found = []
    kind = c.CFUNCTYPE(None, Pointer, Pointer, Pointer)
    block = Block(kind, lambda _, made, error: found.append((made, error is not None)))
    m.fail("newLibraryWithSource:options:completionHandler:")
    source = m.string("kernel void f() {}")
    m.send(
        m.device(), "newLibraryWithSource:options:completionHandler:", source, None, block.pointer
    )
    assert found == [(None, True)]


def test_a_forked_process_has_a_device(tmp_path: Path) -> None:
    x, queue = m.words(1), m.queue()
    launch(queue)
    child = os.fork()
    if not child:
        signal.alarm(20)
        launch(queue)
        os._exit(m.run(m.kernel("put"), 1, 1, x, m.uint(1)) != "")
    assert os.waitpid(child, 0)[1] == 0


def in_fresh_process(code: str, *arguments: str, **environment: str) -> str:
    path = os.pathsep.join([str(Path(build.__file__).parents[2]), str(Path(m.__file__).parent)])
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stderr == ""
    return run.stdout


FRESH = """
import sys
import metal as m
data = open(sys.argv[1], "rb").read()
held = m.ask(m.runtime().get_class("NSData"), "dataWithBytes:length:", data, len(data))
library = m.ask(m.device(), "newLibraryWithData:error:", held, error=True)
x = m.words(1)
assert m.run(m.pipeline(library, "put"), 1, 1, x, m.uint(42)) == ""
print(m.word(x))
"""


def contents(library: Any) -> bytes:
    data = m.ask(library, "libraryDataContents")
    return c.string_at(m.number(data, "bytes"), m.number(data, "length"))


def test_a_library_opens_in_a_fresh_process(tmp_path: Path) -> None:
    data = contents(m.kernels())
    assert data.startswith(b"MTLB") and data.endswith(b"ENDT")
    file = tmp_path / "kernels.metallib"
    file.write_bytes(data)
    assert in_fresh_process(FRESH, str(file)) == "42\n"


ORDERS = """
import test_metal_commands as t
print({t.in_order(True, None) for _ in range(16)} == {True})
"""


@pytest.mark.parametrize(("seed", "in_order"), [("1", "False"), ("", "True")])
def test_the_seed_of_the_environment(seed: str, in_order: str) -> None:
    assert in_fresh_process(ORDERS, IRIS_SOFTMETAL_SEED=seed) == f"{in_order}\n"


def open_data(data: bytes) -> Any:
    create = m.library()["dispatch_data_create"]
    create.restype, create.argtypes = Pointer, [c.c_char_p, c.c_size_t, Pointer, Pointer]
    held = Object(m.runtime(), create(data, len(data), None, None))
    return m.ask(m.device(), "newLibraryWithData:error:", held, error=True)


def test_libraries_open_from_data_and_files(tmp_path: Path) -> None:
    data = contents(m.kernels())
    assert m.function(open_data(data), "put") is not None
    file = tmp_path / "kernels.metallib"
    file.write_bytes(data)
    name = m.string(str(file))
    opened = m.ask(m.device(), "newLibraryWithFile:error:", name, error=True)
    assert m.function(opened, "put") is not None
    url = m.ask(m.runtime().get_class("NSURL"), "fileURLWithPath:", name)
    opened = m.ask(m.device(), "newLibraryWithURL:error:", url, error=True)
    x = m.words(1)
    assert m.run(m.pipeline(opened, "put"), 1, 1, x, m.uint(4)) == "" and m.word(x) == 4
    with pytest.raises(ObjectiveCError, match="no library at /nowhere"):
        m.ask(m.device(), "newLibraryWithFile:error:", m.string("/nowhere"), error=True)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other", "middle"])
def test_damaged_data_is_an_error(damage: str) -> None:
    data = bytearray(contents(m.kernels()))
    if damage == "flip":
        data[len(data) // 3] ^= 4
    elif damage == "cut":
        data = data[:-100]
    elif damage == "middle":
        del data[500:516]
    elif damage == "empty":
        data = bytearray()
    else:
        data = bytearray(b"MTLB") + bytes(1000) + b"ENDT"
    with pytest.raises(ObjectiveCError) as caught:
        open_data(bytes(data))
    assert caught.value.domain == "MTLLibraryErrorDomain"


def build_request(source: str, options: str, kind: int = 13) -> tuple[int, bytes, str]:
    """What the compiler's service answers."""
    answers = []

    @c.CFUNCTYPE(None, Pointer, c.c_int32, Pointer, c.c_size_t, c.c_char_p)
    def answer(_: int, error: int, data: int, size: int, message: bytes | None) -> None:
        answers.append((error, c.string_at(data, size) if data else b"", (message or b"").decode()))

    library = m.library()
    library.MTLCodeGenServiceCreate.restype = Pointer
    service = Pointer(library.MTLCodeGenServiceCreate(b"test"))
    text = source.encode() + bytes(4 - len(source.encode()) % 4)
    more = options.encode() + b"\0"
    request = np.array([len(text), len(more)], np.uint64).tobytes() + text + more
    # Only where its function is, is known of the block.
    library.MTLCodeGenServiceBuildRequest(
        service, None, kind, request, c.c_size_t(len(request)), c.byref(answer, -16)
    )
    return answers[0]


def test_the_compilers_service() -> None:
    source = "kernel void f(device int *x) { x[0] = __METAL_VERSION__; }"
    error, reply, _ = build_request(source, "-fno-fast-math -std=metal3.1 -x metal")
    assert error == 0
    head, warnings = np.frombuffer(reply, np.uint32, 2, 8)
    data = reply[int(head) + int(warnings) :]
    x = m.words(1)
    assert m.run(m.pipeline(open_data(data), "f"), 1, 1, x) == ""
    assert m.word(x) == 310
    error, _, message = build_request("kernel void f(", "-std=metal3.1")
    assert error != 0 and message
    error, _, message = build_request(source, "", 12)
    assert error != 0 and "does not know" in message
