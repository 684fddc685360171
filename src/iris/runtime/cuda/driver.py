"""Calls of NVIDIA's driver; each raises the error that the driver reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cuda

from iris.errors import DeviceError
from iris.runtime.finalizers import until_shutdown

_STATUS = cuda.CUresult
# What a kernel does that ends all work of the process on the GPU.  Whichever call comes next
# reports it.  [CUDA Driver API: CUresult]
_FAULTS = frozenset(
    {
        _STATUS.CUDA_ERROR_ILLEGAL_ADDRESS,
        _STATUS.CUDA_ERROR_MISALIGNED_ADDRESS,
        _STATUS.CUDA_ERROR_INVALID_ADDRESS_SPACE,
        _STATUS.CUDA_ERROR_INVALID_PC,
        _STATUS.CUDA_ERROR_ILLEGAL_INSTRUCTION,
        _STATUS.CUDA_ERROR_HARDWARE_STACK_ERROR,
        _STATUS.CUDA_ERROR_LAUNCH_TIMEOUT,
        _STATUS.CUDA_ERROR_LAUNCH_FAILED,
    }
)


class OutOfMemory(DeviceError):
    """The GPU has not as much memory."""


class Fault(DeviceError):
    """A kernel did what ends all work on the GPU; which one, the driver does not tell."""


def failed(status: Any, what: str) -> DeviceError:
    """The error for a status of the driver, and what it was asked to do."""
    if status in _FAULTS:
        return Fault(error_text(status))
    wrong = OutOfMemory if status == _STATUS.CUDA_ERROR_OUT_OF_MEMORY else DeviceError
    return wrong(f"{what}: {error_text(status)}")


def call(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:
    """What a function of the driver gives: nothing, a value, or a list of several."""
    found = function(*arguments)
    if status := found[0]:
        raise failed(status, function.__name__)
    return found[1] if len(found) == 2 else list(found[1:])


def error_text(status: Any) -> str:
    """What the driver says of a status."""
    unknown, text = cuda.cuGetErrorString(status)
    return str(status) if unknown else text.decode()


class Context:
    """A GPU, to be the one that this thread's calls are about within a `with`: afterwards it is the
    one that other libraries work on again."""

    __slots__ = ("_handle", "_pop", "_push")

    def __init__(self, device: Any):
        # Looked up once, for each launch needs them.
        self._push, self._pop = cuda.cuCtxPushCurrent, cuda.cuCtxPopCurrent
        self._handle = call(cuda.cuDevicePrimaryCtxRetain, device)

    def __enter__(self) -> None:
        (status,) = self._push(self._handle)
        if status:
            raise failed(status, "cuCtxPushCurrent")

    def __exit__(self, *error: object) -> None:
        self._pop()


class Allocation:
    """Memory of a GPU, for as long as somebody refers to this."""

    __slots__ = ("_context", "_free", "pointer")

    def __init__(self, context: Context, size: int):
        self._context, self._free = context, cuda.cuMemFree
        with context:
            self.pointer = int(call(cuda.cuMemAlloc, size))

    @until_shutdown
    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            with self._context:
                self._free(self.pointer)


class Event:
    """A point in a stream; a moment, once the GPU has passed it."""

    __slots__ = ("_destroy", "handle")

    def __init__(self, *, timed: bool = False):
        self._destroy = cuda.cuEventDestroy
        flags = cuda.CUevent_flags
        flag = flags.CU_EVENT_DEFAULT if timed else flags.CU_EVENT_DISABLE_TIMING
        self.handle = call(cuda.cuEventCreate, flag)

    def record(self, stream: Any) -> None:
        """Put it behind all that a stream was given."""
        call(cuda.cuEventRecord, self.handle, stream)

    def wait(self) -> None:
        """Until the GPU has passed it."""
        call(cuda.cuEventSynchronize, self.handle)

    def seconds_since(self, other: Event) -> float:
        return float(call(cuda.cuEventElapsedTime, other.handle, self.handle)) / 1000

    @until_shutdown
    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._destroy(self.handle)
