"""Command buffers, encoders, events and indirect commands, through messages."""

from __future__ import annotations

import ctypes as c
import threading
import time
from collections.abc import Iterator

import metal as m
import numpy as np
import pytest
from test_metal_objects import Block

from iris.runtime.objc import Pointer, UInteger

DISPATCH, DISPATCH_THREADS = 32, 64


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """Nothing that these do is wrong."""
    m.reports()
    m.library().softmetal_set_seed(1)
    yield
    m.library().softmetal_set_seed(0)
    assert m.reports() == ""


def test_threads_need_not_fill_the_last_threadgroup() -> None:
    x = m.words(100)
    assert m.run(m.kernel("where"), 100, 32, x) == ""
    assert m.view(x, np.uint32).tolist() == [32] * 96 + [4] * 4


def test_whole_threadgroups() -> None:
    x = m.words(64)
    commands = m.command_buffer(m.queue())
    made = m.encoder(commands)
    m.send(made, "setComputePipelineState:", m.kernel("where"))
    m.bind(made, x)
    m.send(made, "dispatchThreadgroups:threadsPerThreadgroup:", m.size(2), m.size(32))
    m.finish(commands, made)
    assert m.problem(commands) == ""
    assert m.view(x, np.uint32).tolist() == [32] * 64


def test_threadgroups_counted_in_a_buffer() -> None:
    x, counts = m.words(96), m.buffer(np.array([9, 3, 1, 1], np.uint32))
    commands = m.command_buffer(m.queue())
    made = m.encoder(commands)
    m.send(made, "setComputePipelineState:", m.kernel("where"))
    m.bind(made, x)
    selector = "dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:"
    m.send(made, selector, counts, 4, m.size(32))
    m.finish(commands, made)
    assert m.problem(commands) == ""
    assert (m.view(x, np.uint32) == 32).all()


def test_threadgroup_memory_of_an_argument() -> None:
    x = m.buffer(np.arange(32, dtype=np.uint32))
    commands = m.command_buffer(m.queue())
    made = m.encoder(commands)
    m.send(made, "setThreadgroupMemoryLength:atIndex:", 128, 0)
    m.dispatch(made, m.kernel("shared"), 32, 32, x)
    m.finish(commands, made)
    assert m.problem(commands) == ""
    assert (m.view(x, np.uint32) == np.arange(32) ^ 1).all()


@pytest.mark.parametrize("alignment", ["", "alignas(16) ", "__attribute__((aligned(16))) "])
def test_threadgroup_memory_of_a_variable(alignment: str) -> None:
    source = f"""#include <metal_stdlib>
kernel void f(device uint *x, uint i [[thread_position_in_threadgroup]]) {{
  threadgroup {alignment}uint t[32];
  *(t + i) = x[i];
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  x[i] = *(t + (i ^ 1));
}}"""
    x = m.buffer(np.arange(32, dtype=np.uint32))
    assert m.run(m.pipeline(m.compile(source), "f"), 32, 32, x) == ""
    assert (m.view(x, np.uint32) == np.arange(32) ^ 1).all()


def test_buffers_by_the_range_and_their_offsets() -> None:
    x, y = m.words(8), m.words(8, 5)
    commands = m.command_buffer(m.queue())
    made = m.encoder(commands)
    m.send(made, "setComputePipelineState:", m.kernel("put"))
    buffers = (Pointer * 2)(x.pointer, y.pointer)
    offsets = (UInteger * 2)(16, 4)
    at = [Pointer(c.addressof(x)) for x in (buffers, offsets)]
    m.send(made, "setBuffers:offsets:withRange:", *at, m.Range(0, 2))
    go = "dispatchThreads:threadsPerThreadgroup:"
    m.send(made, go, m.size(1), m.size(1))
    m.send(made, "setBufferOffset:atIndex:", 28, 0)
    m.send(made, go, m.size(1), m.size(1))
    m.finish(commands, made)
    assert m.problem(commands) == ""
    assert m.view(x, np.uint32).tolist() == [0, 0, 0, 0, 5, 0, 0, 5]


def test_bytes_are_those_of_when_they_were_set() -> None:
    x, y = m.words(1), m.words(1)
    commands = m.command_buffer(m.queue())
    made = m.encoder(commands)
    m.dispatch(made, m.kernel("put"), 1, 1, x, m.uint(1))
    m.dispatch(made, m.kernel("put"), 1, 1, y, m.uint(2))
    m.finish(commands, made)
    assert (m.word(x), m.word(y)) == (1, 2)


def test_the_life_of_a_command_buffer() -> None:
    queue, x = m.queue(), m.words(1)
    commands = m.command_buffer(queue)
    assert m.number(commands, "status") == 0
    assert m.send(commands, "GPUEndTime", result=c.c_double) == 0
    m.send(commands, "setLabel:", m.string("first"))
    assert m.text(commands, "label") == "first"
    assert m.number(commands, "commandQueue") == queue.pointer
    made = m.encoder(commands)
    m.dispatch(made, m.kernel("put"), 1, 1, x, m.uint(1))
    m.send(made, "endEncoding")
    m.send(commands, "enqueue")
    assert m.number(commands, "status") == 1
    m.send(commands, "commit")
    m.send(commands, "waitUntilScheduled")
    assert m.number(commands, "status") >= 3
    m.send(commands, "waitUntilCompleted")
    assert m.number(commands, "status") == m.COMPLETED
    assert m.number(commands, "error") == 0
    names = ("kernelStartTime", "kernelEndTime", "GPUStartTime", "GPUEndTime")
    times = [m.send(commands, name, result=c.c_double) for name in names]
    assert times == sorted(times) and times[0] > 0 and times[3] > times[2]


def test_handlers_are_called_before_the_wait_is_over() -> None:
    seen = []
    kind = c.CFUNCTYPE(None, Pointer, Pointer)
    scheduled = Block(kind, lambda _, b: seen.append(("scheduled", m.number(b, "status"))))
    completed = Block(kind, lambda _, b: seen.append(("completed", m.number(b, "status"))))
    commands = m.command_buffer(m.queue())
    m.send(commands, "addCompletedHandler:", completed.pointer)
    m.send(commands, "addScheduledHandler:", scheduled.pointer)
    m.finish(commands)
    assert seen == [("scheduled", 3), ("completed", 4)]


def test_a_handler_may_wait_for_its_own_command_buffer() -> None:
    kind = c.CFUNCTYPE(None, Pointer, Pointer)
    block = Block(kind, lambda _, b: m.send(Pointer(b), "waitUntilCompleted"))
    commands = m.command_buffer(m.queue())
    m.send(commands, "addCompletedHandler:", block.pointer)
    m.finish(commands)


def test_command_buffers_run_in_the_order_of_commits() -> None:
    queue, x = m.queue(), m.words(1)
    all_commands = []
    for i in range(20):
        commands = m.command_buffer(queue)
        made = m.encoder(commands)
        m.dispatch(made, m.kernel("put" if i == 0 else "twice"), 1, 1, x, m.uint(0))
        m.send(made, "endEncoding")
        m.send(commands, "commit")
        all_commands.append(commands)
    m.send(all_commands[-1], "waitUntilCompleted")
    assert [m.problem(commands) for commands in all_commands] == [""] * 20
    assert m.word(x) == 2**19 - 1


def test_what_is_enqueued_has_its_place() -> None:
    queue, x = m.queue(), m.words(1)
    first, second = m.command_buffer(queue), m.command_buffer(queue)
    for commands, name in ((second, "twice"), (first, "put")):
        made = m.encoder(commands)
        m.dispatch(made, m.kernel(name), 1, 1, x, m.uint(20))
        m.send(made, "endEncoding")
    m.send(first, "enqueue")
    m.send(second, "commit")
    time.sleep(0.05)
    assert m.number(second, "status") == 2
    m.send(first, "commit")
    m.send(second, "waitUntilCompleted")
    assert m.word(x) == 41


def test_a_place_is_given_up_with_its_command_buffer() -> None:
    queue = m.queue()
    first, second = m.command_buffer(queue), m.command_buffer(queue)
    m.send(first, "enqueue")
    m.send(second, "commit")
    first.release()
    m.send(second, "waitUntilCompleted")
    assert m.problem(second) == ""


def test_a_queue_goes_on_after_an_error() -> None:
    queue, x = m.queue(), m.words(1)
    bad, good = m.command_buffer(queue), m.command_buffer(queue)
    for commands, name in ((bad, "reach"), (good, "put")):
        made = m.encoder(commands)
        m.dispatch(made, m.kernel(name), 1, 1, x, m.uint(1 << 16))
        m.send(made, "endEncoding")
        m.send(commands, "commit")
    m.send(good, "waitUntilCompleted")
    assert "memory that is not there" in m.problem(bad)
    assert m.problem(good) == ""
    assert m.word(x) == 1 << 16


def in_order(concurrent: bool, barrier: str | None) -> bool:
    """Whether two dispatches, of which one needs the other, ran in order."""
    x, other = m.words(1), m.words(1)
    commands = m.command_buffer(order_queue())
    made = m.encoder(commands, concurrent)
    m.dispatch(made, m.kernel("put"), 1, 1, x, m.uint(3))
    if barrier == "everything":
        m.send(made, "memoryBarrierWithScope:", 1)
    elif barrier is not None:
        resources = (Pointer * 1)((x if barrier == "it" else other).pointer)
        address = Pointer(c.addressof(resources))
        m.send(made, "memoryBarrierWithResources:count:", address, 1)
    m.dispatch(made, m.kernel("twice"), 1, 1, x)
    m.finish(commands, made)
    assert m.problem(commands) == ""
    assert m.word(x) in (7, 3)
    return m.word(x) == 7


_queues: list[object] = []


def order_queue() -> object:
    """One for all, as what is left to chance depends on how much ran there."""
    if not _queues:
        _queues.append(m.queue())
    return _queues[0]


@pytest.mark.parametrize(
    ("concurrent", "barrier", "always"),
    [
        (False, None, True),
        (True, None, False),
        (True, "everything", True),
        (True, "it", True),
        (True, "another", False),
    ],
)
def test_a_missing_barrier_shows(concurrent: bool, barrier: str | None, always: bool) -> None:
    results = {in_order(concurrent, barrier) for _ in range(16)}
    assert results == ({True} if always else {True, False})


def test_without_a_seed_all_is_in_order() -> None:
    m.library().softmetal_set_seed(0)
    assert {in_order(True, None) for _ in range(16)} == {True}


def test_copies_and_fills() -> None:
    x, y = m.buffer(np.arange(8, dtype=np.uint32)), m.words(8, 9)
    commands = m.command_buffer(m.queue())
    made = m.ask(commands, "blitCommandEncoder")
    copy = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"
    m.send(made, copy, x, 4, y, 8, 12)
    m.send(made, "fillBuffer:range:value:", x, m.Range(0, 8), c.c_uint8(0xFF))
    m.finish(commands, made)
    assert m.problem(commands) == ""
    assert m.view(y, np.uint32).tolist() == [9, 9, 1, 2, 3, 9, 9, 9]
    assert m.view(x, np.uint32).tolist() == [2**32 - 1] * 2 + [2, 3, 4, 5, 6, 7]


def commit_put(
    queue: object,
    x: object,
    value: int,
    *,
    wait: tuple[object, int] | None = None,
    signal: tuple[object, int] | None = None,
    kernel: str = "put",
) -> object:
    commands = m.command_buffer(queue)
    if wait:
        m.send(commands, "encodeWaitForEvent:value:", wait[0], c.c_uint64(wait[1]))
    made = m.encoder(commands)
    m.dispatch(made, m.kernel(kernel), 1, 1, x, m.uint(value))
    m.send(made, "endEncoding")
    if signal:
        m.send(commands, "encodeSignalEvent:value:", signal[0], c.c_uint64(signal[1]))
    m.send(commands, "commit")
    return commands


@pytest.mark.parametrize("kind", ["newEvent", "newSharedEvent"])
def test_who_waits_may_be_committed_first(kind: str) -> None:
    event, x = m.ask(m.device(), kind), m.words(1)
    waiting = commit_put(m.queue(), x, 0, wait=(event, 5), kernel="twice")
    time.sleep(0.02)
    assert m.number(waiting, "status") == 3
    commit_put(m.queue(), x, 10, signal=(event, 5))
    m.send(waiting, "waitUntilCompleted")
    assert m.problem(waiting) == "" and m.word(x) == 21


def test_the_cpu_signals_and_waits() -> None:
    event, x = m.ask(m.device(), "newSharedEvent"), m.words(1)
    waiting = commit_put(m.queue(), x, 4, wait=(event, 1), signal=(event, 2))
    wait = m.runtime().message(
        "waitUntilSignaledValue:timeoutMS:", c.c_bool, c.c_uint64, c.c_uint64
    )
    assert not wait(event, 2, 20)
    m.send(event, "setSignaledValue:", c.c_uint64(1))
    assert wait(event, 2, 10_000)
    assert m.send(event, "signaledValue", result=c.c_uint64) == 2
    assert m.word(x) == 4
    m.send(waiting, "waitUntilCompleted")


def test_who_listens_is_told() -> None:
    told, done = [], threading.Event()

    def tell(_: int, event: int, value: int) -> None:
        told.append((event, value))
        done.set()

    event = m.ask(m.device(), "newSharedEvent")
    block = Block(c.CFUNCTYPE(None, Pointer, Pointer, c.c_uint64), tell)
    listener = m.new("MTLSharedEventListener")
    m.send(event, "notifyListener:atValue:block:", listener, c.c_uint64(3), block.pointer)
    m.send(event, "setSignaledValue:", c.c_uint64(2))
    assert told == []
    commit_put(m.queue(), m.words(1), 0, signal=(event, 4))
    assert done.wait(10) and told == [(event.pointer, 3)]


def indirect(count: int, types: int = DISPATCH, **settings: bool) -> object:
    described = m.new("MTLIndirectCommandBufferDescriptor")
    m.send(described, "setCommandTypes:", types)
    m.send(described, "setInheritBuffers:", settings.get("buffers", False))
    m.send(described, "setInheritPipelineState:", settings.get("pipeline", False))
    m.send(described, "setMaxKernelBufferBindCount:", 31)
    selector = "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:"
    return m.ask(m.device(), selector, described, count, 0)


def command(
    indirect: object, at: int, kernel: str, *buffers: object, barrier: bool = True
) -> object:
    made = m.ask(indirect, "indirectComputeCommandAtIndex:", at)
    m.send(made, "setComputePipelineState:", m.indirect_kernel(kernel))
    for i, one in enumerate(buffers):
        m.send(made, "setKernelBuffer:offset:atIndex:", one, 0, i)
    go = "concurrentDispatchThreadgroups:threadsPerThreadgroup:"
    m.send(made, go, m.size(1), m.size(1))
    if barrier:
        m.send(made, "setBarrier")
    return made


def replay(indirect: object, count: int, *used: object, at: int = 0) -> str:
    commands = m.command_buffer(order_queue())
    made = m.encoder(commands)
    for one in used:
        m.send(made, "useResource:usage:", one, 3)
    # What some clients do for the sake of older GPUs.
    m.send(made, "setComputePipelineState:", m.indirect_kernel("put"))
    m.send(made, "dispatchThreadgroups:threadsPerThreadgroup:", m.Size(), m.Size())
    m.send(made, "executeCommandsInBuffer:withRange:", indirect, m.Range(at, count))
    m.finish(commands, made)
    return m.problem(commands)


def test_indirect_commands_are_replayed() -> None:
    x, value = m.words(1), m.words(1, 6)
    made = indirect(4)
    assert m.number(made, "size") == 4
    command(made, 0, "put", x, value)
    command(made, 1, "twice", x)
    command(made, 2, "twice", x)
    assert replay(made, 4, x, value) == ""  # the last one is empty
    assert m.word(x) == 27
    m.view(value, np.uint32)[:] = 1
    assert replay(made, 4, x, value) == ""
    assert m.word(x) == 7
    assert replay(made, 1, x, value, at=1) == ""
    assert m.word(x) == 15


def test_indirect_commands_without_a_barrier_have_no_order() -> None:
    x, value = m.words(1), m.words(1, 3)
    made = indirect(2)
    command(made, 0, "put", x, value, barrier=False)
    later = command(made, 1, "twice", x, barrier=False)
    found = set()
    for _ in range(16):
        assert replay(made, 2, x, value) == ""
        found.add(m.word(x))
    assert found == {3, 7}
    m.send(later, "setBarrier")
    for _ in range(8):
        assert replay(made, 2, x, value) == ""
        assert m.word(x) == 7
    m.send(later, "clearBarrier")


def test_indirect_commands_change_and_are_emptied() -> None:
    x, y, value = m.words(1), m.words(1), m.words(1, 8)
    made = indirect(2)
    first = command(made, 0, "put", x, value)
    m.send(first, "setKernelBuffer:offset:atIndex:", y, 0, 0)
    assert replay(made, 1, y, value) == ""
    assert (m.word(x), m.word(y)) == (0, 8)
    m.send(first, "reset")
    m.view(y, np.uint32)[:] = 0
    assert replay(made, 2) == ""
    assert m.word(y) == 0


def test_indirect_commands_inherit() -> None:
    x = m.words(1)
    made = indirect(1, DISPATCH_THREADS, buffers=True, pipeline=True)
    one = m.ask(made, "indirectComputeCommandAtIndex:", 0)
    m.send(one, "concurrentDispatchThreads:threadsPerThreadgroup:", m.size(1), m.size(1))
    commands = m.command_buffer(m.queue())
    encoder = m.encoder(commands)
    m.send(encoder, "setComputePipelineState:", m.indirect_kernel("put"))
    m.bind(encoder, x, m.uint(77))
    m.send(encoder, "executeCommandsInBuffer:withRange:", made, m.Range(0, 1))
    m.finish(commands, encoder)
    assert m.problem(commands) == "" and m.word(x) == 77


def test_indirect_commands_are_copied_and_emptied_by_the_gpu() -> None:
    x, value = m.words(1), m.words(1, 4)
    made, other = indirect(1), indirect(3)
    command(made, 0, "put", x, value)
    commands = m.command_buffer(m.queue())
    blit = m.ask(commands, "blitCommandEncoder")
    copy = "copyIndirectCommandBuffer:sourceRange:destination:destinationIndex:"
    m.send(blit, copy, made, m.Range(0, 1), other, 2)
    m.send(blit, "resetCommandsInBuffer:withRange:", made, m.Range(0, 1))
    m.send(blit, "optimizeIndirectCommandBuffer:withRange:", other, m.Range(0, 3))
    m.finish(commands, blit)
    assert replay(made, 1) == "" and m.word(x) == 0
    assert replay(other, 3, x, value) == "" and m.word(x) == 4


def test_unretained_references() -> None:
    x = m.words(1)
    commands = m.ask(m.queue(), "commandBufferWithUnretainedReferences")
    assert m.number(commands, "retainedReferences") == 0
    made = m.encoder(commands)
    m.dispatch(made, m.kernel("put"), 1, 1, x, m.uint(5))
    m.finish(commands, made)
    assert m.problem(commands) == "" and m.word(x) == 5


def test_references_are_retained() -> None:
    x, queue = m.words(1), m.queue()
    before = m.live()["SMBuffer"]
    commands = m.command_buffer(queue)
    made = m.encoder(commands)
    m.dispatch(made, m.kernel("put"), 1, 1, x, m.uint(5))
    x.release()
    assert m.live()["SMBuffer"] == before
    m.finish(commands, made)
    assert m.problem(commands) == ""
    made.release()
    assert m.live()["SMBuffer"] == before - 1


def test_fences_and_debug_groups_pass() -> None:
    fence = m.ask(m.device(), "newFence")
    commands = m.command_buffer(m.queue())
    m.send(commands, "pushDebugGroup:", m.string("group"))
    for concurrent in (False, True):
        made = m.encoder(commands, concurrent)
        m.send(made, "waitForFence:" if concurrent else "updateFence:", fence)
        m.send(made, "pushDebugGroup:", m.string("inner"))
        m.send(made, "insertDebugSignpost:", m.string("here"))
        m.send(made, "popDebugGroup")
        m.send(made, "endEncoding")
    m.send(commands, "popDebugGroup")
    m.finish(commands)
    assert m.problem(commands) == ""


def test_command_buffers_and_encoders_of_descriptors() -> None:
    described = m.new("MTLCommandBufferDescriptor")
    m.send(described, "setRetainedReferences:", False)
    commands = m.ask(m.queue(), "commandBufferWithDescriptor:", described)
    assert m.number(commands, "retainedReferences") == 0
    pass_ = m.ask(m.runtime().get_class("MTLComputePassDescriptor"), "computePassDescriptor")
    m.send(pass_, "setDispatchType:", 1)
    made = m.ask(commands, "computeCommandEncoderWithDescriptor:", pass_)
    assert m.number(made, "dispatchType") == 1
    m.finish(commands, made)
    assert m.problem(commands) == ""


def test_managed_memory_is_synchronized() -> None:
    x = m.buffer(16, 1 << 4)
    commands = m.command_buffer(m.queue())
    made = m.ask(commands, "blitCommandEncoder")
    m.send(made, "synchronizeResource:", x)
    m.finish(commands, made)
    assert m.problem(commands) == ""
