"""The device `softmetal`: the same as on a Mac, on a Metal of our own that runs on the CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

from iris import knobs
from iris.runtime.metal import Metal, data_maker, device_maker
from iris.runtime.objc import Runtime
from iris.softmetal import build


class Softmetal(Metal):
    """Metal on the CPU of a Linux machine."""

    name = "softmetal"

    @classmethod
    def missing(cls) -> str | None:
        if not sys.platform.startswith("linux"):
            return f"softmetal runs on Linux, and this is {sys.platform}"
        packages = build.missing()
        return f"install its compilers: apt-get install {' '.join(packages)}" if packages else None

    def open(self) -> tuple[Runtime, Callable[[], int | None]]:
        library = ctypes.CDLL(str(build.library()))
        self._data = data_maker(library)
        return Runtime(library), device_maker(library)

    def toolchain(self) -> str:
        # The folder is named by all that the library is made of.
        checks = " sanitized" if knobs.sanitize() else ""
        return f"softmetal {build.library().parent.name}{checks}"
