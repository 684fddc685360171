"""A driver of an NVIDIA GPU that is not there: memory is the host's, and kernels do nothing.

It notes the work that streams are given, so that a test can ask what is in order.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from cuda.bindings import driver as cuda

from iris.runtime.cuda.cuda_device import Cuda

GOOD = (cuda.CUresult.CUDA_SUCCESS,)
#: What the device is asked for as it is opened: an H100.
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 * 1024,
    "MULTIPROCESSOR_COUNT": 132,
    "MEMORY_CLOCK_RATE": 2_619_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 5120,
}
POINTERS = 2  # of each kernel, which are noted


class Work(NamedTuple):
    """What a stream is given: a kernel with its pointers, or an event to record or to wait for."""

    kind: str
    stream: int
    what: Any


class Driver:
    """Patches NVIDIA's bindings; `set_attribute` is that of pytest's monkeypatch, or `setattr`."""

    def __init__(self, set_attribute: Callable[..., Any] = setattr, *, count: int = 1):
        self.count = count
        self.work: list[Work] = []
        self.allocated: dict[int, Any] = {}
        self.events: set[int] = set()
        self.streams: set[int] = set()
        self.graphs: set[int] = set()
        self._numbers = itertools.count(1)
        for name in dir(self):
            if name.startswith("cu"):
                set_attribute(cuda, name, getattr(self, name))
        set_attribute(Cuda, "missing", classmethod(lambda cls: None))

    def cuInit(self, flags: int) -> Any:
        return GOOD

    def cuDeviceGetCount(self) -> Any:
        return *GOOD, self.count

    def cuDeviceGet(self, number: int) -> Any:
        return *GOOD, number

    def cuDeviceGetName(self, size: int, device: Any) -> Any:
        return *GOOD, b"an imaginary GPU\0"

    def cuDeviceGetAttribute(self, attribute: Any, device: Any) -> Any:
        return *GOOD, ATTRIBUTES[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDeviceTotalMem(self, device: Any) -> Any:
        return *GOOD, 1 << 36

    def cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return *GOOD, f"context {device}"

    def cuCtxPushCurrent(self, context: Any) -> Any:
        return GOOD

    def cuCtxPopCurrent(self) -> Any:
        return *GOOD, None

    def cuModuleLoadData(self, code: Any) -> Any:
        return *GOOD, "module"

    def cuModuleGetFunction(self, module: Any, name: Any) -> Any:
        return *GOOD, cuda.CUfunction(next(self._numbers) << 8)

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> Any:
        return GOOD

    def cuMemAlloc(self, size: int) -> Any:
        memory = (ctypes.c_char * (size + 256))()
        pointer = -(-ctypes.addressof(memory) // 256) * 256
        self.allocated[pointer] = memory
        return *GOOD, pointer

    def cuMemFree(self, pointer: Any) -> Any:
        del self.allocated[int(pointer)]
        return GOOD

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: Any) -> Any:
        ctypes.memmove(to, source, size)
        return GOOD

    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync

    def cuMemcpyDtoH(self, to: int, source: int, size: int) -> Any:
        ctypes.memmove(to, source, size)
        return GOOD

    def cuMemsetD32Async(self, at: int, value: int, count: int, stream: Any) -> Any:
        (ctypes.c_uint32 * count).from_address(at)[:] = [value] * count
        return GOOD

    def cuStreamCreate(self, flags: int) -> Any:
        handle = next(self._numbers) << 8
        self.streams.add(handle)
        return *GOOD, cuda.CUstream(handle)

    def cuStreamDestroy(self, stream: Any) -> Any:
        self.streams.remove(int(stream))
        return GOOD

    def cuStreamSynchronize(self, stream: Any) -> Any:
        return GOOD

    def cuEventCreate(self, flags: int) -> Any:
        event = next(self._numbers)
        self.events.add(event)
        return *GOOD, event

    def cuEventDestroy(self, event: int) -> Any:
        self.events.remove(event)
        return GOOD

    def cuEventSynchronize(self, event: int) -> Any:
        return GOOD

    def cuEventElapsedTime(self, start: int, end: int) -> Any:
        return *GOOD, 1.0

    def cuEventRecord(self, event: int, stream: Any) -> Any:
        self.work.append(Work("record", int(stream), event))
        return GOOD

    def cuStreamWaitEvent(self, stream: Any, event: int, flags: int) -> Any:
        self.work.append(Work("wait", int(stream), event))
        return GOOD

    def cuLaunchKernel(self, function: Any, *how: Any) -> Any:
        stream, table = how[7], how[8]
        addresses = (ctypes.c_uint64 * POINTERS).from_address(table)
        pointers = [ctypes.c_uint64.from_address(at).value for at in addresses]
        self.work.append(Work("launch", int(stream), tuple(pointers)))
        return GOOD

    def cuGraphCreate(self, flags: int) -> Any:
        graph = next(self._numbers)
        self.graphs.add(graph)
        return *GOOD, graph

    def cuGraphAddKernelNode(self, graph: int, before: Any, count: int, told: Any) -> Any:
        return *GOOD, next(self._numbers)

    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:
        return self.cuGraphCreate(flags)

    def cuGraphExecKernelNodeSetParams(self, graph: int, node: int, told: Any) -> Any:
        return GOOD

    def cuGraphLaunch(self, graph: int, stream: Any) -> Any:
        return GOOD

    def cuGraphDestroy(self, graph: int) -> Any:
        self.graphs.remove(graph)
        return GOOD

    cuGraphExecDestroy = cuGraphDestroy
