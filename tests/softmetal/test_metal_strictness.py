"""Each mistake that Metal passes over is planted, and found."""

from __future__ import annotations

import ctypes as c
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import metal as m
import numpy as np
import pytest
from test_metal_commands import command, indirect, replay

from iris.runtime.messages import TIMEOUT
from iris.runtime.objc import Pointer

GO = "dispatchThreads:threadsPerThreadgroup:"
SET = "setBuffer:offset:atIndex:"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """Every report is one that a test asks for."""
    m.reports()
    yield
    assert m.reports() == ""


def add(encoder: Any, x: Any) -> None:
    m.send(encoder, "setComputePipelineState:", m.kernel("add"))
    m.bind(encoder, x, np.float32(1).tobytes())


def no_pipeline(encoder: Any) -> None:
    m.send(encoder, GO, m.size(1), m.size(1))


def nil_pipeline(encoder: Any) -> None:
    m.send(encoder, "setComputePipelineState:", None)


def pipeline_of_another_class(encoder: Any) -> None:
    m.send(encoder, "setComputePipelineState:", m.kernels())


def unbound_buffer(encoder: Any) -> None:
    m.send(encoder, "setComputePipelineState:", m.kernel("add"))
    m.bind(encoder, m.words(4))
    m.send(encoder, GO, m.size(4), m.size(4))


def taken_away_buffer(encoder: Any) -> None:
    add(encoder, m.words(4))
    m.send(encoder, SET, None, 0, 0)
    m.send(encoder, GO, m.size(4), m.size(4))


def buffer_of_another_class(encoder: Any) -> None:
    m.send(encoder, SET, m.kernels(), 0, 0)


def buffer_that_is_no_object(encoder: Any) -> None:
    m.send(encoder, SET, Pointer(0x1234), 0, 0)


def index_of_buffer(encoder: Any) -> None:
    m.send(encoder, SET, m.words(1), 0, 31)


def offset_beyond_the_end(encoder: Any) -> None:
    m.send(encoder, SET, m.words(4), 16, 0)


def later_offset_beyond_the_end(encoder: Any) -> None:
    m.send(encoder, SET, m.words(4), 0, 0)
    m.send(encoder, "setBufferOffset:atIndex:", 16, 0)


def offset_of_nothing(encoder: Any) -> None:
    m.send(encoder, "setBufferOffset:atIndex:", 0, 3)


def too_many_bytes(encoder: Any) -> None:
    m.send(encoder, "setBytes:length:atIndex:", bytes(5000), 5000, 0)


def no_bytes(encoder: Any) -> None:
    m.send(encoder, "setBytes:length:atIndex:", b"", 0, 0)


def small_buffer_of_a_reference(encoder: Any) -> None:
    m.send(encoder, "setComputePipelineState:", m.kernel("add"))
    m.bind(encoder, m.words(4), b"xy")
    m.send(encoder, GO, m.size(4), m.size(4))


def read_past_the_end(encoder: Any) -> None:
    add(encoder, m.words(4))
    m.send(encoder, GO, m.size(5), m.size(5))


def write_past_an_odd_end(encoder: Any) -> None:
    add(encoder, m.words(5))
    m.send(encoder, GO, m.size(6), m.size(6))


def write_far_past_the_end(encoder: Any) -> None:
    m.dispatch(encoder, m.kernel("reach"), 1, 1, m.words(1), m.uint(1 << 20))


def write_before_the_start(encoder: Any) -> None:
    m.send(encoder, "setComputePipelineState:", m.kernel("reach"))
    m.bind(encoder, m.words(1), m.uint(2**32 - 4096))
    m.send(encoder, GO, m.size(1), m.size(1))


def no_threads(encoder: Any) -> None:
    add(encoder, m.words(4))
    m.send(encoder, GO, m.size(0), m.size(1))


def no_threads_per_threadgroup(encoder: Any) -> None:
    add(encoder, m.words(4))
    m.send(encoder, GO, m.size(4), m.size(0))


def too_many_threads(encoder: Any) -> None:
    add(encoder, m.words(4))
    m.send(encoder, GO, m.size(4), m.size(32, 33))


def more_threads_than_the_kernel_allows(encoder: Any) -> None:
    m.send(encoder, "setComputePipelineState:", m.kernel("small"))
    m.bind(encoder, m.words(1))
    m.send(encoder, GO, m.size(65), m.size(65))


def too_large_a_grid(encoder: Any) -> None:
    add(encoder, m.words(4))
    m.send(encoder, GO, m.size(1 << 40), m.size(1))


def no_threadgroup_memory(encoder: Any) -> None:
    m.dispatch(encoder, m.kernel("shared"), 32, 32, m.words(32))


def uneven_threadgroup_memory(encoder: Any) -> None:
    m.send(encoder, "setThreadgroupMemoryLength:atIndex:", 100, 0)


def too_much_threadgroup_memory(encoder: Any) -> None:
    m.send(encoder, "setThreadgroupMemoryLength:atIndex:", (32 << 10) + 16, 0)


def too_much_threadgroup_memory_in_all(encoder: Any) -> None:
    m.send(encoder, "setThreadgroupMemoryLength:atIndex:", 32 << 10, 0)
    m.send(encoder, "setThreadgroupMemoryLength:atIndex:", 16, 1)
    m.dispatch(encoder, m.kernel("shared"), 32, 32, m.words(32))


def indirect_sizes_beyond_the_end(encoder: Any) -> None:
    add(encoder, m.words(4))
    selector = "dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:"
    m.send(encoder, selector, m.words(4), 8, m.size(1))


def foreign_resource(encoder: Any) -> None:
    m.send(encoder, "useResource:usage:", m.device(), 3)


def foreign_barrier(encoder: Any) -> None:
    resources = (Pointer * 1)(m.device().pointer)
    address = Pointer(c.addressof(resources))
    m.send(encoder, "memoryBarrierWithResources:count:", address, 1)


def foreign_fence(encoder: Any) -> None:
    m.send(encoder, "waitForFence:", m.words(1))


def commands_beyond_the_end(encoder: Any) -> None:
    m.send(encoder, "executeCommandsInBuffer:withRange:", indirect(2), m.Range(1, 2))


def end_twice(encoder: Any) -> None:
    m.send(encoder, "endEncoding")


def use_after_the_end(encoder: Any) -> None:
    m.send(encoder, "endEncoding")
    m.send(encoder, SET, None, 0, 0)


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (no_pipeline, "no pipeline is set"),
        (nil_pipeline, "is no pipeline"),
        (pipeline_of_another_class, "is no pipeline"),
        (unbound_buffer, r"kernel 'add': buffer 1 \(by\) is not bound"),
        (taken_away_buffer, r"kernel 'add': buffer 0 \(x\) is not bound"),
        (buffer_of_another_class, "is no buffer"),
        (buffer_that_is_no_object, "0x1234 is no buffer"),
        (index_of_buffer, "index 31: there are 31"),
        (offset_beyond_the_end, r"offset 16 is beyond the buffer of 16 bytes \(index 0\)"),
        (later_offset_beyond_the_end, "offset 16 is beyond the buffer of 16 bytes"),
        (offset_of_nothing, "no buffer is bound at index 3"),
        (too_many_bytes, "5000 bytes at index 0"),
        (no_bytes, "0 bytes at index 0"),
        (small_buffer_of_a_reference, "buffer 1 .* has 2 bytes, and 4 are needed"),
        (read_past_the_end, "kernel 'add': line 5: .* past the end of buffer 0"),
        (write_past_an_odd_end, "kernel 'add': .*past the end of buffer 0"),
        (write_far_past_the_end, "kernel 'reach': line 20: .* memory that is not there"),
        (write_before_the_start, "kernel 'reach': line 20: .* memory that is not there"),
        (no_threads, "kernel 'add': a grid of 0 x 1 x 1"),
        (no_threads_per_threadgroup, "kernel 'add': 0 x 1 x 1 threads per threadgroup"),
        (too_many_threads, "kernel 'add': 32 x 33 x 1 threads .* 1 to 1024"),
        (more_threads_than_the_kernel_allows, "kernel 'small': 65 x 1 x 1 threads .* 1 to 64"),
        (too_large_a_grid, "kernel 'add': a grid of 1099511627776"),
        (no_threadgroup_memory, "threadgroup memory 0 .* has no length"),
        (uneven_threadgroup_memory, "100 bytes at index 0: a multiple of 16"),
        (too_much_threadgroup_memory, "32784 bytes at index 0"),
        (too_much_threadgroup_memory_in_all, "32784 bytes of threadgroup memory"),
        (indirect_sizes_beyond_the_end, "12 bytes from 8 on are not in the buffer of 16"),
        (foreign_resource, "is no resource"),
        (foreign_barrier, "is no buffer"),
        (foreign_fence, "is no fence"),
        (commands_beyond_the_end, "2 commands from 1 on, of 2"),
        (end_twice, "endEncoding is sent to the encoder 'mine' after it has ended"),
        (use_after_the_end, "setBuffer:.* is sent to the encoder 'mine' after it has ended"),
    ],
)
def test_mistakes_of_encoders(mistake: Callable[[Any], None], text: str) -> None:
    queue = m.queue()
    commands = m.command_buffer(queue)
    encoder = m.encoder(commands)
    m.send(encoder, "setLabel:", m.string("mine"))
    mistake(encoder)
    if mistake is not use_after_the_end:
        m.send(encoder, "endEncoding")
    if mistake is end_twice:
        m.send(encoder, "endEncoding")
    m.finish(commands)
    error = m.ask(commands, "error")
    with m.runtime().pool():
        assert m.text(error, "domain") == "MTLCommandBufferErrorDomain"
    problem = m.problem(commands)
    assert re.search(text, problem), problem
    assert "encoder 'mine'" in problem
    # The queue is none the worse for it.
    x = m.words(1)
    again = m.command_buffer(queue)
    encoder = m.encoder(again)
    m.dispatch(encoder, m.kernel("put"), 1, 1, x, m.uint(3))
    m.finish(again, encoder)
    assert m.problem(again) == "" and m.word(x) == 3


def begun() -> tuple[Any, Any]:
    commands = m.command_buffer(m.queue())
    return commands, m.encoder(commands)


def test_commit_before_the_end_of_an_encoder() -> None:
    commands, encoder = begun()
    m.finish(commands)
    assert "committed before its encoder has ended" in m.problem(commands)
    m.send(encoder, "endEncoding")
    assert "after its command buffer was committed" in m.reports()


def test_an_encoder_before_the_last_has_ended() -> None:
    commands, encoder = begun()
    assert m.encoder(commands) is None
    assert m.ask(commands, "blitCommandEncoder") is None
    m.finish(commands, encoder)
    assert "computeCommandEncoderWithDispatchType: comes before the encoder has ended" in (
        m.problem(commands)
    )


def test_an_encoder_that_is_released_before_its_end() -> None:
    commands, encoder = begun()
    encoder.release()
    m.finish(commands)
    assert "is released before it has ended" in m.problem(commands)


def test_an_event_inside_an_encoder() -> None:
    commands, encoder = begun()
    event = m.ask(m.device(), "newEvent")
    m.send(commands, "encodeSignalEvent:value:", event, c.c_uint64(1))
    m.finish(commands, encoder)
    assert "encodeSignalEvent:value: comes before the encoder has ended" in m.problem(commands)


def test_what_is_no_event() -> None:
    commands = m.command_buffer(m.queue())
    m.send(commands, "encodeWaitForEvent:value:", m.words(1), c.c_uint64(1))
    m.finish(commands)
    assert "is given no event" in m.problem(commands)


def test_commit_twice() -> None:
    commands = m.command_buffer(m.queue())
    m.finish(commands)
    m.send(commands, "commit")
    assert "is committed twice" in m.reports()
    assert m.problem(commands) == ""


def test_encoding_after_the_commit() -> None:
    commands = m.command_buffer(m.queue())
    m.send(commands, "setLabel:", m.string("old"))
    m.finish(commands)
    assert m.encoder(commands) is None
    m.send(commands, "encodeSignalEvent:value:", m.ask(m.device(), "newEvent"), c.c_uint64(1))
    m.send(commands, "addCompletedHandler:", Pointer(1))
    assert m.reports().count("the command buffer 'old' after it was committed") == 2
    assert m.problem(commands) == ""


def test_reports_of_one_line_each() -> None:
    commands = m.command_buffer(m.queue())
    m.finish(commands)
    m.send(commands, "addCompletedHandler:", Pointer(1))
    m.send(commands, "enqueue")
    assert [line.split()[0] for line in m.reports().splitlines()] == ["addCompletedHandler:", "the"]


@pytest.mark.parametrize("selector", ["waitUntilCompleted", "waitUntilScheduled"])
def test_waiting_before_the_commit(selector: str) -> None:
    commands = m.command_buffer(m.queue())
    m.send(commands, selector)
    assert f"{selector} is sent to the command buffer before it was committed" in m.reports()


def test_a_command_buffer_that_is_never_committed() -> None:
    commands, encoder = begun()
    m.dispatch(encoder, m.kernel("put"), 1, 1, m.words(1), m.uint(1))
    m.send(encoder, "endEncoding")
    encoder.release()
    commands.release()
    assert "is released, and was never committed" in m.reports()


def test_too_many_command_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_SOFTMETAL_TIMEOUT", "0.05")
    queue = m.queue(2)
    first, second = m.command_buffer(queue), m.command_buffer(queue)
    assert m.command_buffer(queue) is None
    assert "has 2 command buffers already" in m.reports()
    m.finish(first)
    assert m.command_buffer(queue) is not None
    second.release()


def test_a_kernel_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_SOFTMETAL_TIMEOUT", "0.2")
    assert "kernel 'forever': line 21: a threadgroup did not end" in (
        m.run(m.kernel("forever"), 1, 1, m.words(2))
    )


def test_an_event_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_SOFTMETAL_TIMEOUT", "0.1")
    event = m.ask(m.device(), "newSharedEvent")
    m.send(event, "setLabel:", m.string("godot"))
    commands = m.command_buffer(m.queue())
    m.send(commands, "encodeWaitForEvent:value:", event, c.c_uint64(4))
    m.finish(commands)
    assert "the event 'godot' has not come to 4 in 0.1 seconds, but to 0" in m.problem(commands)
    error = m.ask(commands, "error")
    assert m.number(error, "code") == TIMEOUT


def test_an_event_that_goes_back() -> None:
    event = m.ask(m.device(), "newSharedEvent")
    m.send(event, "setSignaledValue:", c.c_uint64(4))
    m.send(event, "setSignaledValue:", c.c_uint64(3))
    assert "goes back from 4 to 3" in m.reports()


def test_writing_past_the_end_by_the_cpu() -> None:
    x = m.words(1)
    address = m.number(x, "contents")
    c.memset(address, 0, 5)
    assert m.run(m.kernel("put"), 1, 1, x, m.uint(1)) == ""
    assert "before kernel 'put' ran, something wrote past the end of its buffer 0" in m.reports()


@pytest.mark.parametrize("blit", [False, True])
@pytest.mark.parametrize(
    ("early", "text"),
    [
        (True, "is deallocated, and the command buffer was told not to retain it"),
        (False, "was released while it ran"),
    ],
)
def test_a_buffer_that_is_gone_before_its_use(blit: bool, early: bool, text: str) -> None:
    x, queue, event = m.words(1), m.queue(), m.ask(m.device(), "newSharedEvent")
    before = m.ask(queue, "commandBufferWithUnretainedReferences")
    commands = m.ask(queue, "commandBufferWithUnretainedReferences")
    wait = before if early else commands
    m.send(wait, "encodeWaitForEvent:value:", event, c.c_uint64(1))
    m.send(before, "commit")
    if blit:
        encoder = m.ask(commands, "blitCommandEncoder")
        m.send(encoder, "fillBuffer:range:value:", x, m.Range(0, 4), c.c_uint8(1))
    else:
        encoder = m.encoder(commands)
        m.dispatch(encoder, m.kernel("put"), 1, 1, x, m.uint(1))
    m.send(encoder, "endEncoding")
    m.send(commands, "commit")
    if not early:
        m.send(commands, "waitUntilScheduled")
        time.sleep(0.02)
    x.release()
    m.send(event, "setSignaledValue:", c.c_uint64(1))
    m.send(commands, "waitUntilCompleted")
    assert text in m.problem(commands)


def test_memory_that_a_kernel_finds_by_itself_is_gone() -> None:
    source = "kernel void f(device ulong *at) { *(device uint *)at[0] = 1; }"
    x = m.words(1)
    at = m.buffer(np.array([m.number(x, "gpuAddress")], np.uint64))
    f = m.pipeline(m.compile(source), "f")
    assert m.run(f, 1, 1, at) == "" and m.word(x) == 1
    x.release()
    assert "memory that is not there" in m.run(f, 1, 1, at)


def test_an_unknown_message_answers_nothing() -> None:
    x = m.words(1)
    assert m.number(x, "juggle") == 0
    assert m.send(x, "juggleFor:", 3, result=c.c_double) == 0
    assert m.send(x, "shape", result=m.Size).width == 0
    assert m.number(m.runtime().get_class("MTLCompileOptions"), "juggle") == 0
    assert m.number(m.string("text"), "juggle") == 0
    found = m.reports()
    for name in (
        "-[SMBuffer juggle]",
        "-[SMBuffer juggleFor:]",
        "-[SMBuffer shape]",
        "+[MTLCompileOptions juggle]",
    ):
        assert f"{name}: there is no such method" in found
    assert len(found.splitlines()) == 5


def test_a_message_to_what_is_deallocated() -> None:
    x = m.words(1)
    pointer = Pointer(x.pointer)
    x.release()
    assert m.number(pointer, "length") == 0
    m.runtime().release(pointer)
    assert m.reports().splitlines() == [
        "-[SMBuffer length]: the object is deallocated",
        "-[SMBuffer release]: the object is deallocated",
    ]


def test_a_deallocated_buffer_is_no_argument() -> None:
    x = m.words(1)
    pointer = Pointer(x.pointer)
    x.release()
    commands, encoder = begun()
    m.send(encoder, SET, pointer, 0, 0)
    m.finish(commands, encoder)
    assert "is no buffer, or none that is still there" in m.problem(commands)


COPY = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 0, 20), "20 bytes from 0 on are not in the buffer of 16"),
        ((8, 0, 12), "12 bytes from 8 on are not in the buffer of 16"),
        ((2**63, 0, 8), "are not in the buffer of 16"),
        ((0, 0, 0), "0 bytes"),
    ],
)
def test_copies_beyond_the_end(arguments: tuple[int, int, int], text: str) -> None:
    source, destination, length = arguments
    commands = m.command_buffer(m.queue())
    blit = m.ask(commands, "blitCommandEncoder")
    m.send(blit, COPY, m.words(4), source, m.words(8), destination, length)
    m.finish(commands, blit)
    assert text in m.problem(commands)


def test_errors_name_the_command_buffer() -> None:
    commands, encoder = begun()
    m.send(commands, "setLabel:", m.string("step 3"))
    m.dispatch(encoder, m.kernel("reach"), 1, 1, m.words(1), m.uint(1))
    m.finish(commands, encoder)
    assert m.problem(commands).endswith("past the end of buffer 0 (command buffer 'step 3')")


def test_synchronizing_what_is_not_managed() -> None:
    commands = m.command_buffer(m.queue())
    blit = m.ask(commands, "blitCommandEncoder")
    m.send(blit, "synchronizeResource:", m.words(4))
    m.finish(commands, blit)
    assert "has not the storage mode managed" in m.problem(commands)


def test_copies_that_overlap() -> None:
    x = m.words(4)
    commands = m.command_buffer(m.queue())
    blit = m.ask(commands, "blitCommandEncoder")
    m.send(blit, COPY, x, 0, x, 4, 8)
    m.finish(commands, blit)
    assert "overlap" in m.problem(commands)


def test_modifying_what_is_not_managed() -> None:
    m.send(m.words(2), "didModifyRange:", m.Range(0, 4))
    assert "has not the storage mode managed" in m.reports()
    managed = m.buffer(8, 1 << 4)
    m.send(managed, "didModifyRange:", m.Range(0, 8))
    m.send(managed, "didModifyRange:", m.Range(4, 8))
    assert m.reports().splitlines() == [
        "didModifyRange: of 8 bytes from 4 on: beyond the buffer of 8 bytes"
    ]


def test_indirect_commands_need_their_resources() -> None:
    x, value = m.words(1), m.words(1, 6)
    made = indirect(1)
    command(made, 0, "put", x, value)
    assert "kernel 'put': the encoder was not told to use the buffer at index 1" in (
        replay(made, 1, x)
    )
    value.release()
    assert "not told to use the buffer at index 1" in replay(made, 1, x)


def test_indirect_commands_need_pipelines_made_for_them() -> None:
    x, value = m.words(1), m.words(1)
    made = indirect(1)
    one = command(made, 0, "put", x, value)
    m.send(one, "setComputePipelineState:", m.kernel("put"))
    assert "was not made to support indirect command buffers" in m.reports()
    assert "was not made to support indirect command buffers" in replay(made, 1, x, value)


def test_indirect_commands_need_a_pipeline() -> None:
    made = indirect(1)
    one = m.ask(made, "indirectComputeCommandAtIndex:", 0)
    m.send(one, "concurrentDispatchThreadgroups:threadsPerThreadgroup:", m.size(1), m.size(1))
    assert "command 0 of an indirect command buffer: no pipeline is set" in replay(made, 1)


def test_indirect_commands_that_change_while_they_run() -> None:
    x, value, event = m.words(1), m.words(1), m.ask(m.device(), "newSharedEvent")
    made = indirect(1)
    one = command(made, 0, "put", x, value)
    commands = m.command_buffer(m.queue())
    m.send(commands, "encodeWaitForEvent:value:", event, c.c_uint64(1))
    encoder = m.encoder(commands)
    for used in (x, value):
        m.send(encoder, "useResource:usage:", used, 3)
    m.send(encoder, "executeCommandsInBuffer:withRange:", made, m.Range(0, 1))
    m.send(encoder, "endEncoding")
    m.send(commands, "commit")
    m.send(one, "setBarrier")
    assert "while a command buffer that runs it has not completed" in m.reports()
    m.send(event, "setSignaledValue:", c.c_uint64(1))
    m.send(commands, "waitUntilCompleted")
    assert m.problem(commands) == ""
    m.send(one, "setBarrier")


@pytest.mark.parametrize(
    ("selector", "arguments", "text"),
    [
        ("setComputePipelineState:", [None], "is no pipeline"),
        ("setKernelBuffer:offset:atIndex:", [None, 0, 0], "is no buffer"),
        ("setKernelBuffer:offset:atIndex:", [None, 0, 31], "of which 31 can be set"),
        ("setThreadgroupMemoryLength:atIndex:", [8, 0], "a multiple of 16"),
        (
            "concurrentDispatchThreads:threadsPerThreadgroup:",
            [m.size(1), m.size(1)],
            "without that type of commands",
        ),
    ],
)
def test_mistakes_of_indirect_commands(selector: str, arguments: list[Any], text: str) -> None:
    m.send(m.ask(indirect(1), "indirectComputeCommandAtIndex:", 0), selector, *arguments)
    assert text in m.reports()


def test_indirect_command_buffers_that_cannot_be() -> None:
    assert indirect(0) is None and indirect(1, 0) is None and indirect(1, 1) is None
    assert m.reports().count("an indirect command buffer of") == 3
    assert m.ask(indirect(2), "indirectComputeCommandAtIndex:", 2) is None
    assert "command 2 of an indirect command buffer of 2" in m.reports()


def test_a_pipeline_told_of_whole_simdgroups() -> None:
    described = m.new("MTLComputePipelineDescriptor")
    m.send(described, "setComputeFunction:", m.function(m.kernels(), "where"))
    m.send(described, "setThreadGroupSizeIsMultipleOfThreadExecutionWidth:", True)
    selector = "newComputePipelineStateWithDescriptor:options:reflection:error:"
    made = m.ask(m.device(), selector, described, 0, None, error=True)
    assert m.run(made, 32, 32, m.words(32)) == ""
    assert "there are whole simdgroups of 32" in m.run(made, 33, 33, m.words(33))
