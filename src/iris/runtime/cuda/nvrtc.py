"""NVIDIA's compiler of texts, as a library.  It needs no GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

from cuda.bindings import nvrtc
from cuda.pathfinder import find_nvidia_header_directory

from iris.errors import DeviceError


class Refused(DeviceError):
    """A text that the compiler does not take, with what it says of it."""


def version() -> str:
    """The compiler, and which."""
    _, major, minor = nvrtc.nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def compiled(text: str, entry: str, architecture: str, *, fast: bool) -> tuple[str, bytes]:
    """A kernel of a text: how it is called in what was compiled, and that, for a GPU.

    name, code = compiled(source.text, source.entry, "sm_90", fast=False)
    """
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel", 0, None, None)
    try:
        nvrtc.nvrtcAddNameExpression(program, entry.encode())
        options = compiler_options(architecture, fast)
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status:
            raise Refused(_log(program).rstrip() or str(status))
        _, name = nvrtc.nvrtcGetLoweredName(program, entry.encode())
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        code = b" " * size
        nvrtc.nvrtcGetCUBIN(program, code)
        return name.decode(), code
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compiler_options(architecture: str, fast: bool) -> list[bytes]:
    """The options of NVIDIA's compiler for a GPU, with fast math or without."""
    # Near is good enough with fast math; but nan and infinity are what they are everywhere.
    precision = ["--fmad=true", "--prec-div=false", "--prec-sqrt=false", "--ftz=true"]
    given = precision if fast else ["--fmad=false"]
    listed = [f"--gpu-architecture={architecture}", "--std=c++17", f"-I{_headers()}", *given]
    return [option.encode() for option in listed]


@cache
def _headers() -> str:
    """The folder of `cuda_fp16.h`."""
    found = find_nvidia_header_directory("cudart")
    if found is None:
        raise DeviceError(
            "the headers of CUDA are not installed; pip install 'iris-metal[cuda]' does it"
        )
    return str(found)


def _log(program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    return str(log.decode()).rstrip("\0 ")
