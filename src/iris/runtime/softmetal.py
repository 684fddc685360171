"""The device `softmetal`: the same as on a Mac, on a Metal of our own that runs on the CPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iris import knobs
from iris.errors import SoftmetalError
from iris.runtime.device import ArrayArgument, stored
from iris.runtime.memory import Memory
from iris.runtime.metal import Metal, data_maker, device_maker
from iris.runtime.objc import Pointer, Runtime, UInteger
from iris.runtime.queue import MOST_LAUNCHES
from iris.softmetal import build
from iris.targets import Target
from iris.targets.apple import ON_CPU

if TYPE_CHECKING:
    from iris.codegen.source import Source
    from iris.runtime.messages import MathMode
    from iris.runtime.metal_text import MetalText
    from iris.runtime.objc import Object


class Softmetal(Metal):
    """Metal on the CPU of a Linux machine."""

    name = "softmetal"
    target = ON_CPU
    is_timed = False
    outlives_strays = True

    @classmethod
    def missing(cls) -> str | None:
        if not sys.platform.startswith("linux"):
            return f"softmetal runs on Linux, and this is {sys.platform}"
        packages = build.missing()
        return f"install its compilers: apt-get install {' '.join(packages)}" if packages else None

    def __init__(self) -> None:
        super().__init__()
        self.has_indirect_commands = True

    def find_target(self) -> Target:
        return self.target

    def open(self) -> tuple[Runtime, Callable[[], int | None]]:
        for setting in (knobs.sanitize, knobs.strict, knobs.flush, knobs.seed, knobs.timeout):
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
        self._set_seed = library["softmetal_set_seed"]
        self._set_seed.restype, self._set_seed.argtypes = None, (UInteger,)
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

    def shuffle(self, seed: int | None) -> None:
        self._set_seed(knobs.seed() if seed is None else seed)
        self.streams.most_launches = _MOST_LAUNCHES[(seed or 0) % len(_MOST_LAUNCHES)]

    def toolchain(self) -> str:
        # The folder is named by all that the library is made of.
        checks = " sanitized" * knobs.sanitize() + " strict" * knobs.strict()
        return f"softmetal {build.library().parent.name}{checks}"


# Where a batch ends is as free as the order within it.
_MOST_LAUNCHES = (MOST_LAUNCHES, 1, MOST_LAUNCHES, 3)


class Count(NamedTuple):
    """How often something was done.

    Accesses count instructions of a simdgroup; accesses to the stack and atomics count threads;
    operations count simdgroups; barriers count threadgroups.
    """

    times: int
    bytes: int
    cost: int  # lines of device memory that are touched, or cycles of bank conflicts


class Counted(Enum):
    """What kernels count: what their text does with memory of the device and of threadgroups; or
    accesses to variables that are left in memory once a compiler put in registers what it can."""

    TEXT = 1
    STACK = 2


class CountingSoftmetal(Softmetal):
    """Softmetal, where kernels count.

    device = CountingSoftmetal()
    kernel[grid](x, out, device=device)
    device.counts()  # {"device load 16": Count(times=64, bytes=32768, cost=256), ...}

    The names are `device load 16`, for loads of 16 bytes; `threadgroup store 8`; `device atomic`;
    `operation a shuffle` and so on; `barrier`; and `stack load` and `stack store` of the others.
    Constants of a launch are not counted.
    """

    name = "softmetal:counting"

    def __init__(self, counted: Counted = Counted.TEXT) -> None:
        self.counted = counted
        super().__init__()

    def open(self) -> tuple[Runtime, Callable[[], int | None]]:
        opened = super().open()
        library = ctypes.CDLL(str(build.library()))
        self._count, self._counts, self._free = (
            library[f"msl_{name}"] for name in ("count", "counts", "free")
        )
        self._counts.restype, self._free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        return opened

    def toolchain(self) -> str:
        return f"{super().toolchain()} counts {self.counted.name}"

    def counts(self) -> dict[str, Count]:
        """What was done since this was last asked, on all such devices."""
        self.synchronize()
        text = self._counts()
        lines = (ctypes.string_at(text) or b"").decode().splitlines()
        self._free(text)
        rows = [line.split("\t") for line in lines]
        return {name: Count(*map(int, figures)) for name, *figures in rows}

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """While this lasts, libraries that this thread makes are made to count."""
        self._count(self.counted.value)
        try:
            yield
        finally:
            self._count(0)

    def _compiled(self, source: Source | MetalText, mode: MathMode) -> Object:
        with self._counting():
            return super()._compiled(source, mode)

    def _opened(self, data: bytes, entry: str) -> Object | None:
        with self._counting():
            return super()._opened(data, entry)
