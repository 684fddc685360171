"""NVIDIA's compiler of kernels, as a library: what it says of a text.  It needs no GPU."""

from __future__ import annotations

from ctypes import CDLL, byref, c_char_p, c_size_t, c_void_p, create_string_buffer
from functools import cache
from importlib.metadata import files
from pathlib import Path

ARCHITECTURE = "sm_90"


def _installed(package: str, name: str) -> Path:
    """A file of an installed package."""
    listed = files(package)
    assert listed is not None
    (found,) = [file for file in listed if file.match(name)]
    return Path(str(found.locate()))


@cache
def _library() -> CDLL:
    return CDLL(str(_installed("nvidia-cuda-nvrtc-cu12", "lib/libnvrtc.so.12")))


def complaints(text: str, *options: str) -> str:
    """What the compiler says of a text that it refuses; nothing, if it takes it."""
    library, program = _library(), c_void_p()
    assert library.nvrtcCreateProgram(byref(program), text.encode(), b"kernel", 0, None, None) == 0
    headers = _installed("nvidia-cuda-runtime-cu12", "include/cuda_fp16.h").parent
    listed = [f"--gpu-architecture={ARCHITECTURE}", "--std=c++17", f"-I{headers}", *options]
    given = (c_char_p * len(listed))(*[option.encode() for option in listed])
    refused = library.nvrtcCompileProgram(program, len(listed), given)
    size = c_size_t()
    library.nvrtcGetProgramLogSize(program, byref(size))
    log = create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(byref(program))
    return log.value.decode() or "it says nothing" if refused else ""
