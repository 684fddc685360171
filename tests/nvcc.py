"""What NVIDIA's compiler makes of CUDA files as they stand, without Iris.

with Binary(path, ("add", "reduce<256>")) as binary:
    binary.launch("add", (4, 64), arguments, symbols)

NVRTC is the compiler in nvcc, as a library; what it lacks are the host's headers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.pathfinder import find_nvidia_header_directory

from iris.runtime.cuda.driver import Allocation, Context, call

Array = np.ndarray[Any, Any]
POINTER = 8  # bytes
# What kernels need of headers that the host's compiler brings, and of a library's.
HOST = """\
#define M_PI 3.14159265358979323846
#define FLT_MAX 3.402823466e+38f
#define INFINITY __int_as_float(0x7f800000)
#define NULL nullptr
typedef long ptrdiff_t;
"""
TYPE_TRAITS = """\
namespace std {
template <bool VALUE> struct bool_constant { static constexpr bool value = VALUE; };
using true_type = bool_constant<true>;
}
"""
HEADERS = {
    "host.h": HOST,
    "float.h": "",
    "math.h": "",
    "type_traits": TYPE_TRAITS,
    "cuda_profiler_api.h": "struct someHandle_t {};\nstruct anotherHandle_t {};\n",
}


class Binary:
    """The kernels of a file and its variables, compiled for a GPU."""

    def __init__(self, path: Path, names: Sequence[str], *options: str, gpu: str = "sm_90"):
        folders = [find_nvidia_header_directory(library) for library in ("cudart", "cccl")]
        listed = [f"--gpu-architecture={gpu}", "--std=c++17", "--pre-include=host.h", *options]
        # As Iris has it, products are rounded before they are added to.
        listed += ["--fmad=false", *[f"-I{folder}" for folder in folders]]
        # Without libcu++: to read it takes twenty times as long as to compile most files.
        listed += ["--define-macro=_CG_LIMIT_INCLUDED_DEPENDENCIES"]
        texts = [text.encode() for text in HEADERS.values()]
        headers = [header.encode() for header in HEADERS]
        source, name = path.read_bytes(), path.name.encode()
        program = _call(nvrtc.nvrtcCreateProgram, source, name, len(headers), texts, headers)
        try:
            for one in names:
                _call(nvrtc.nvrtcAddNameExpression, program, one.encode())
            given = [one.encode() for one in listed]
            (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
            assert not status, _log(program)
            lowered = [_call(nvrtc.nvrtcGetLoweredName, program, one.encode()) for one in names]
            self.code = b" " * _call(nvrtc.nvrtcGetCUBINSize, program)
            _call(nvrtc.nvrtcGetCUBIN, program, self.code)
        finally:
            nvrtc.nvrtcDestroyProgram(program)
        self._names = dict(zip(names, lowered, strict=True))
        self._held = ExitStack()

    def __enter__(self) -> Binary:
        """Load it, on the GPU that Iris uses."""
        call(driver.cuInit, 0)
        self._context = Context(call(driver.cuDeviceGet, 0))
        self._held.enter_context(self._context)
        self._module = call(driver.cuModuleLoadData, self.code)
        self._held.callback(call, driver.cuModuleUnload, self._module)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    def launch(
        self,
        name: str,
        shape: Sequence[Any],
        arguments: Sequence[Any],
        symbols: Mapping[str, Array],
    ) -> None:
        """Run a kernel; arrays and variables of the file hold afterwards what it stored."""
        grid, block, *shared = shape
        function = call(driver.cuModuleGetFunction, self._module, self._names[name])
        copies = [(self._variable(f"&{one}", array), array) for one, array in symbols.items()]
        parameters = []
        memories = []
        for number, size in enumerate(_sizes(function)):
            one = arguments[number] if number < len(arguments) else np.zeros(size, np.uint8)
            if np.ndim(one) and size == POINTER:
                memory = Allocation(self._context, one.nbytes)
                memories.append(memory)
                copies.append((memory.pointer, one))
                one = np.uint64(memory.pointer)
            held = np.frombuffer(np.asarray(one).tobytes(), np.uint8).copy()
            assert held.size == size, f"argument {number} of {name} has {size} bytes"
            parameters.append(held)
        for pointer, array in copies:
            call(driver.cuMemcpyHtoD, pointer, array.ctypes.data, array.nbytes)
        table = np.array([held.ctypes.data for held in parameters], np.uint64)
        along = (*_along(grid), *_along(block), *(shared or [0]))
        call(driver.cuLaunchKernel, function, *along, 0, table.ctypes.data, 0)
        call(driver.cuCtxSynchronize)
        for pointer, array in copies:
            call(driver.cuMemcpyDtoH, array.ctypes.data, pointer, array.nbytes)

    def _variable(self, name: str, array: Array) -> int:
        pointer, size = call(driver.cuModuleGetGlobal, self._module, self._names[name])
        assert size == array.nbytes
        return int(pointer)


def _sizes(function: Any) -> list[int]:
    """The bytes of a kernel's parameters."""
    sizes = []
    while True:
        status, _, size = driver.cuFuncGetParamInfo(function, len(sizes))
        if status:
            assert status == driver.CUresult.CUDA_ERROR_INVALID_VALUE
            return sizes
        sizes.append(size)


def _along(sizes: Any) -> tuple[int, ...]:
    given = sizes if isinstance(sizes, tuple) else (sizes,)
    return (*given, 1, 1)[:3]


def _call(function: Any, *arguments: Any) -> Any:
    status, *found = function(*arguments)
    assert not status, f"{function.__name__}: {status}"
    return found[0] if found else None


def _log(program: Any) -> str:
    log = b" " * _call(nvrtc.nvrtcGetProgramLogSize, program)
    _call(nvrtc.nvrtcGetProgramLog, program, log)
    return log.decode()
