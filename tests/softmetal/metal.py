"""A small client of Metal for tests, over the messages of `iris.runtime.objc`.

It knows of softmetal's own functions (`reports`, `live`, `fail`), and of Iris only its messages.
"""

from __future__ import annotations

import ctypes as c
from collections import Counter
from functools import cache
from typing import Any

import numpy as np

from iris.runtime.objc import Object, Pointer, Runtime, UInteger
from iris.softmetal import build

COMPLETED, ERROR = 4, 5


class Size(c.Structure):
    _fields_ = [("width", UInteger), ("height", UInteger), ("depth", UInteger)]


class Range(c.Structure):
    _fields_ = [("location", UInteger), ("length", UInteger)]


def size(*sizes: int) -> Size:
    return Size(*(*sizes, 1, 1)[:3])


@cache
def library() -> c.CDLL:
    made = c.CDLL(str(build.library()))
    made.MTLCreateSystemDefaultDevice.restype = Pointer
    made.softmetal_reports.restype = made.softmetal_live_text.restype = c.c_char_p
    made.softmetal_live_objects.restype = made.softmetal_messages.restype = c.c_ulong
    made.softmetal_set_seed.argtypes = [c.c_ulong]
    return made


@cache
def runtime() -> Runtime:
    return Runtime(library())


@cache
def _message(selector: str, result: Any, types: tuple[Any, ...], error: bool) -> Any:
    return runtime().message(selector, result, *types, error=error)


def send(
    receiver: Any, selector: str, *arguments: Any, result: Any = None, error: bool = False
) -> Any:
    """A message whose arguments say by themselves what they are: an int is an NSUInteger."""
    known = {int: UInteger, bool: c.c_bool, bytes: c.c_char_p}
    types = [known.get(type(a), Pointer if a is None else type(a)) for a in arguments]
    types = [Pointer if t is Object else t for t in types]
    return _message(selector, result, tuple(types), error)(receiver, *arguments)


def ask(receiver: Any, selector: str, *arguments: Any, error: bool = False) -> Any:
    """A message that gives an object."""
    with runtime().pool():
        return send(receiver, selector, *arguments, result=Object, error=error)


def number(receiver: Any, selector: str, *arguments: Any) -> int:
    return int(send(receiver, selector, *arguments, result=UInteger))


def text(receiver: Any, selector: str) -> str:
    with runtime().pool():
        return runtime().text(send(receiver, selector, result=Pointer))


def string(value: str) -> Object:
    return runtime().string(value)


def new(name: str) -> Any:
    return ask(runtime().get_class(name), "new")


@cache
def device() -> Object:
    return Object(runtime(), library().MTLCreateSystemDefaultDevice())


def reports() -> str:
    """What was reported since this was asked last."""
    return str(library().softmetal_reports().decode())


def live() -> Counter[str]:
    """How many objects there are of each class."""
    lines = library().softmetal_live_text().decode().splitlines()
    return Counter({name: int(count) for name, count in map(str.split, lines)})


def fail(selector: str | None, nth: int = 1) -> bool:
    """Orders a fault; whether the one ordered before came."""
    return bool(library().softmetal_fail(selector and selector.encode(), nth))


def compile(source: str, options: Any = None) -> Object:
    made = ask(device(), "newLibraryWithSource:options:error:", string(source), options, error=True)
    assert isinstance(made, Object)
    return made


def function(library: Object, name: str) -> Any:
    return ask(library, "newFunctionWithName:", string(name))


def pipeline(library: Object, name: str) -> Any:
    found = function(library, name)
    return ask(device(), "newComputePipelineStateWithFunction:error:", found, error=True)


def indirect_pipeline(library: Object, name: str) -> Any:
    described = new("MTLComputePipelineDescriptor")
    send(described, "setComputeFunction:", function(library, name))
    send(described, "setSupportIndirectCommandBuffers:", True)
    selector = "newComputePipelineStateWithDescriptor:options:reflection:error:"
    return ask(device(), selector, described, 0, None, error=True)


def buffer(data: np.ndarray[Any, Any] | int, options: int = 0) -> Any:
    if isinstance(data, int):
        return ask(device(), "newBufferWithLength:options:", data, options)
    made = ask(device(), "newBufferWithLength:options:", data.nbytes, options)
    view(made, data.dtype)[:] = data.reshape(-1)
    return made


def view(buffer: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """The memory of a buffer, as long as that is there."""
    address = send(buffer, "contents", result=Pointer)
    memory = (c.c_byte * number(buffer, "length")).from_address(address)
    return np.frombuffer(memory, dtype)


def queue(most: int | None = None) -> Any:
    if most is None:
        return ask(device(), "newCommandQueue")
    return ask(device(), "newCommandQueueWithMaxCommandBufferCount:", most)


def command_buffer(queue: Any) -> Any:
    return ask(queue, "commandBuffer")


def encoder(commands: Any, concurrent: bool = False) -> Any:
    return ask(commands, "computeCommandEncoderWithDispatchType:", int(concurrent))


def bind(encoder: Any, *buffers: Any) -> None:
    for i, one in enumerate(buffers):
        if isinstance(one, bytes):
            send(encoder, "setBytes:length:atIndex:", one, len(one), i)
        else:
            send(encoder, "setBuffer:offset:atIndex:", one, 0, i)


def dispatch(encoder: Any, pipeline: Any, grid: int, per: int, *buffers: Any) -> None:
    send(encoder, "setComputePipelineState:", pipeline)
    bind(encoder, *buffers)
    send(encoder, "dispatchThreads:threadsPerThreadgroup:", size(grid), size(per))


def finish(commands: Any, *encoders: Any) -> None:
    """Ends the encoders, and waits."""
    for one in encoders:
        send(one, "endEncoding")
    send(commands, "commit")
    send(commands, "waitUntilCompleted")


def problem(commands: Any) -> str:
    """What went wrong with a command buffer that has completed; nothing, if it is well."""
    status = number(commands, "status")
    error = ask(commands, "error")
    assert (status, error is None) in ((COMPLETED, True), (ERROR, False))
    return "" if error is None else text(error, "localizedDescription")


def run(pipeline: Any, grid: int, per: int, *buffers: Any) -> str:
    """One dispatch, from beginning to end."""
    commands = command_buffer(queue())
    made = encoder(commands)
    dispatch(made, pipeline, grid, per, *buffers)
    finish(commands, made)
    return problem(commands)


SOURCE = """#include <metal_stdlib>
using namespace metal;

kernel void add(device float *x, constant float &by, uint i [[thread_position_in_grid]]) {
  x[i] += by;
}
kernel void put(device uint *x, constant uint &value) { x[0] = value; }
kernel void twice(device uint *x) { x[0] = x[0] * 2 + 1; }
kernel void where(device uint *x, uint i [[thread_position_in_grid]],
                  uint n [[threads_per_threadgroup]]) {
  x[i] = n;
}
kernel void shared(device uint *x, threadgroup uint *t [[threadgroup(0)]],
                   uint i [[thread_position_in_threadgroup]]) {
  t[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = t[i ^ 1];
}
[[max_total_threads_per_threadgroup(64)]] kernel void small(device uint *x) { x[0] = 1; }
kernel void reach(device uint *x, constant uint &at) { x[at] = 7; }
kernel void forever(device volatile uint *x) { while (x[0] != 12345) x[1] += 1; }
"""


@cache
def kernels() -> Object:
    """The kernels of most tests."""
    return compile(SOURCE)


@cache
def kernel(name: str) -> Any:
    return pipeline(kernels(), name)


@cache
def indirect_kernel(name: str) -> Any:
    return indirect_pipeline(kernels(), name)


def uint(value: int) -> bytes:
    return np.uint32(value).tobytes()


def word(buffer: Any, at: int = 0) -> int:
    return int(view(buffer, np.uint32)[at])


def words(count: int, value: int = 0) -> Any:
    return buffer(np.full(count, value, np.uint32))
