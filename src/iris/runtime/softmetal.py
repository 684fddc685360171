"""The device `softmetal`: the same as on a Mac, on a Metal of our own that runs on the CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence

import numpy as np

from iris import knobs
from iris.errors import SoftmetalError
from iris.runtime.device import ArrayArgument, stored
from iris.runtime.memory import Memory
from iris.runtime.metal import Metal, data_maker, device_maker
from iris.runtime.objc import Pointer, Runtime, UInteger
from iris.softmetal import build
from iris.target import ON_CPU


class Softmetal(Metal):
    """Metal on the CPU of a Linux machine."""

    name = "softmetal"
    target = ON_CPU

    @classmethod
    def missing(cls) -> str | None:
        if not sys.platform.startswith("linux"):
            return f"softmetal runs on Linux, and this is {sys.platform}"
        packages = build.missing()
        return f"install its compilers: apt-get install {' '.join(packages)}" if packages else None

    def open(self) -> tuple[Runtime, Callable[[], int | None]]:
        for setting in (knobs.sanitize, knobs.seed, knobs.timeout):
            setting()  # refused, if it means nothing
        path = build.library()
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise SoftmetalError(
                f"the library of softmetal cannot be loaded: {error}; remove {path.parent}, and it "
                "is built again"
            ) from None
        self._data = data_maker(library)
        self._make_gaps = library["msl_make_gaps"]
        self._make_gaps.restype, self._make_gaps.argtypes = None, (Pointer, UInteger, Pointer)
        return Runtime(library), device_maker(library)

    def bound(self, memory: Memory, elements: Sequence[ArrayArgument]) -> None:
        if not knobs.sanitize():
            return
        touchable = np.zeros(memory.block.size, np.uint8)
        for one in elements:
            bits = np.ndarray(one.shape, stored(one.dtype), touchable, one.offset, one.byte_strides)
            bits.view(f"u{bits.itemsize}")[...] = np.iinfo(f"u{bits.itemsize}").max
        self._make_gaps(memory.block.contents, touchable.nbytes, touchable.ctypes.data)

    def toolchain(self) -> str:
        # The folder is named by all that the library is made of.
        checks = " sanitized" if knobs.sanitize() else ""
        return f"softmetal {build.library().parent.name}{checks}"
