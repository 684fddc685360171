"""MSL texts run on the CPU, through the C functions of softmetal's compiler and machine."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache, cached_property
from typing import Any

import numpy as np

from iris.softmetal import build


class Failure(Exception):
    """What the compiler or the machine said."""


class MathMode(IntEnum):
    """MTLMathMode."""

    SAFE = 0
    RELAXED = 1
    FAST = 2


class Options(c.Structure):
    _fields_ = [
        ("language_version", c.c_uint),
        ("math_mode", c.c_int),
        ("macro_count", c.c_uint),
        ("macro_names", c.POINTER(c.c_char_p)),
        ("macro_values", c.POINTER(c.c_char_p)),
    ]


class ConstantValue(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("index", c.c_uint),
        ("kind", c.c_char),
        ("lanes", c.c_uint),
        ("bytes", c.c_void_p),
    ]


class Argument(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("kind", c.c_int),
        ("index", c.c_uint),
        ("element_bytes", c.c_uint),
        ("alignment", c.c_uint),
        ("reference", c.c_int),
        ("read_only", c.c_int),
        ("active", c.c_int),
        ("data_type", c.c_uint),
    ]


class Memory(c.Structure):
    _fields_ = [("start", c.c_void_p), ("bytes", c.c_ulong)]


class Launch(c.Structure):
    _fields_ = [
        ("function", c.c_void_p),
        ("buffers", Memory * 31),
        ("threadgroup_bytes", c.c_uint * 31),
        ("threads", c.c_uint * 3),
        ("threads_per_threadgroup", c.c_uint * 3),
        ("seed", c.c_ulong),
        ("seconds", c.c_double),
        ("has_unbound", c.c_int),
    ]


@cache
def machine() -> c.CDLL:
    """The library of softmetal, with its functions typed."""
    made = c.CDLL(str(build.library()))
    made.msl_compile.restype = made.msl_open.restype = made.msl_specialize.restype = c.c_void_p
    made.msl_open_bytes.restype = made.msl_library_bytes.restype = c.c_void_p
    made.msl_function_named.restype = made.msl_function_at.restype = c.c_void_p
    made.msl_check.restype = made.msl_run.restype = c.c_void_p
    made.msl_function_name.restype = made.msl_library_path.restype = c.c_char_p
    made.msl_function_argument.restype = Argument
    return made


def _text(address: int | None) -> str | None:
    """A text that is ours to free."""
    if not address:
        return None
    text = c.string_at(address).decode()
    machine().msl_free(c.c_void_p(address))
    return text


def _options(macros: Mapping[str, str], version: int, math: MathMode) -> Options:
    names = (c.c_char_p * len(macros))(*[x.encode() for x in macros])
    values = (c.c_char_p * len(macros))(*[x.encode() for x in macros.values()])
    return Options(version, math, len(macros), names, values)


class Library:
    """The kernels of one text."""

    def __init__(self, handle: int):
        self.handle = c.c_void_p(handle)

    def __del__(self) -> None:
        machine().msl_release(self.handle)

    @classmethod
    def compile(
        cls,
        source: str,
        macros: Mapping[str, str] = {},
        version: int = 0,
        math: MathMode = MathMode.SAFE,
    ) -> Library:
        options = _options(macros, version, math)
        return cls._made(machine().msl_compile, source.encode(), c.byref(options))

    @classmethod
    def open(cls, path: str) -> Library:
        return cls._made(machine().msl_open, path.encode())

    @classmethod
    def open_bytes(cls, image: bytes) -> Library:
        return cls._made(machine().msl_open_bytes, image, c.c_ulong(len(image)))

    @classmethod
    def _made(cls, function: Any, *arguments: Any) -> Library:
        error = c.c_void_p()
        handle = function(*arguments, c.byref(error))
        if not handle:
            raise Failure(_text(error.value))
        return cls(handle)

    @property
    def path(self) -> str:
        return str(machine().msl_library_path(self.handle).decode())

    @property
    def image(self) -> bytes:
        size = c.c_ulong()
        address = machine().msl_library_bytes(self.handle, c.byref(size))
        return c.string_at(address, size.value)

    @property
    def names(self) -> list[str]:
        count = machine().msl_function_count(self.handle)
        functions = [machine().msl_function_at(self.handle, i) for i in range(count)]
        return [machine().msl_function_name(c.c_void_p(x)).decode() for x in functions]

    def specialize(self, **values: tuple[str, Any]) -> Library:
        """With values of function constants: (kind, array) by name, or by index as _7."""
        arrays = {name: np.atleast_1d(value) for name, (_, value) in values.items()}
        made = [
            ConstantValue(
                None if name.startswith("_") else name.encode(),
                int(name[1:]) if name.startswith("_") else 0,
                kind.encode(),
                len(arrays[name]),
                arrays[name].ctypes.data,
            )
            for name, (kind, _) in values.items()
        ]
        array = (ConstantValue * len(made))(*made)
        return self._made(machine().msl_specialize, self.handle, array, len(made))

    def function(self, name: str) -> c.c_void_p:
        found = machine().msl_function_named(self.handle, name.encode())
        if not found:
            raise Failure(f"no kernel is called {name}")
        return c.c_void_p(found)

    def threadgroup_bytes(self, name: str) -> int:
        return int(machine().msl_function_threadgroup_bytes(self.function(name)))

    def max_threads(self, name: str) -> int:
        return int(machine().msl_function_max_threads(self.function(name)))

    def arguments(self, name: str) -> list[Argument]:
        function = self.function(name)
        count = machine().msl_function_argument_count(function)
        return [machine().msl_function_argument(function, i) for i in range(count)]

    def run(
        self,
        name: str,
        buffers: Sequence[np.ndarray[Any, Any] | None],
        threads: int | tuple[int, ...],
        threads_per_threadgroup: int | tuple[int, ...],
        *,
        threadgroup_bytes: Sequence[int] = (),
        seed: int = 1,
        seconds: float = 0,
    ) -> None:
        launch = Launch(function=self.function(name), seed=seed, seconds=seconds)
        for i, array in enumerate(buffers):
            if array is not None:
                assert array.flags.c_contiguous
                launch.buffers[i] = Memory(array.ctypes.data, array.nbytes)
        for i, count in enumerate(threadgroup_bytes):
            launch.threadgroup_bytes[i] = count
        for field, size in (
            (launch.threads, threads),
            (launch.threads_per_threadgroup, threads_per_threadgroup),
        ):
            sizes = (size,) if isinstance(size, int) else size
            for i, n in enumerate((*sizes, 1, 1)[:3]):
                field[i] = n
        if (error := _text(machine().msl_run(c.byref(launch), c.byref(c.c_int())))) is not None:
            raise Failure(error)


class Kernels:
    """Kernels that are alike but for a part of their bodies, compiled as one text when the first of
    them runs: a compiler takes about as long to start as to compile ten of them."""

    def __init__(self, head: str, kernel: Callable[[str, str], str], parts: Iterable[str]):
        self._names = {part: f"k{n}" for n, part in enumerate(parts)}
        self._text = head + "\n".join([kernel(name, part) for part, name in self._names.items()])

    @cached_property
    def _library(self) -> Library:
        return Library.compile(self._text)

    def run(self, part: str, *arguments: Any, **named: Any) -> None:
        self._library.run(self._names[part], *arguments, **named)


def check(source: str, version: int = 0, macros: Mapping[str, str] = {}) -> str | None:
    """What is wrong with a text whose address spaces are real."""
    options = _options(macros, version, MathMode.SAFE)
    return _text(machine().msl_check(source.encode(), c.byref(options)))
