"""CUDA C files: their kernels, launched as kernels by thread on every device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from iris.compiler.compilation import Compilation
from iris.compiler.thread_kernel import ThreadKernel
from iris.errors import ArgumentError, FileError, IrisError, LanguageError
from iris.frontend.cuda.unit import TranslatedKernel, Unit
from iris.frontend.specs import ArraySpec, ScalarSpec, Threads
from iris.frontend.tracing import error_here
from iris.ir import scalar
from iris.ir.types import DType, i32

# For which launch `check` looks at kernels.
BLOCK = (256, 1, 1)
SHARED_BYTES = 16384


def load(path: str | Path) -> CudaFile:
    """The kernels of a CUDA C file.

    file = iris.cuda.load("kernels.cu")
    file.add[blocks, threads](a, b, out, n)
    file["reduce<256>"][blocks, 256, bytes](x, out, n)

    A launch gives the grid, the block, and the bytes of `extern __shared__` memory.
    """
    found = Path(path)
    if not found.is_file():
        raise FileError(f"there is no file {path}")
    return CudaFile(found)


class CudaFile:
    """Kernels, as attributes or, with the arguments of a template, by their names."""

    def __init__(self, path: Path):
        self.path = path
        self._unit = Unit(path)
        self._kernels: dict[str, CudaKernel] = {}
        #: What `__constant__` and `__device__` variables of the file are: arrays, by name.
        self.symbols: dict[str, Any] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kernels, and of the instances that the file makes of templates."""
        return tuple(self._unit.kernels)

    def __getitem__(self, name: str) -> CudaKernel:
        if name not in self._kernels:
            self._kernels[name] = CudaKernel(name, self._unit_with(name).kernel(name), self.symbols)
        return self._kernels[name]

    def _unit_with(self, name: str) -> Unit:
        """What has a kernel: of a template, parsed with that instance."""
        if name in self._unit.kernels:
            return self._unit
        if name.partition("<")[0] in self._unit.templates and "<" in name:
            unit = Unit(self.path, (name,))
            if name in unit.kernels:
                return unit
            made = ", ".join(unit.kernels.keys() - self._unit.kernels.keys())
            raise error_here(
                ArgumentError,
                f"{name} is no instance of the template" + f": write {made}" * bool(made),
            )
        there = [*self._unit.kernels, *[f"{t}<...>" for t in self._unit.templates]]
        raise error_here(
            ArgumentError, f"there is no kernel {name!r}; there are: {', '.join(there)}"
        )

    def __getattr__(self, name: str) -> CudaKernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.names]

    def __repr__(self) -> str:
        return f"{self.path}: {', '.join(self.names)}"


class CudaKernel:
    """A kernel; see `iris.cuda.load`."""

    def __init__(self, name: str, translated: TranslatedKernel, symbols: Mapping[str, Any]):
        self.name = name
        self._symbols, self._used = symbols, translated.symbols
        self.kernel = ThreadKernel(translated.function, translated.types)
        self._is_dynamic = translated.is_dynamic

    def __getitem__(self, shape: tuple[Any, ...]) -> Any:
        if not isinstance(shape, tuple) or len(shape) not in (2, 3):
            raise error_here(
                ArgumentError,
                f"a launch is {self.name}[grid, block](...), maybe with bytes of "
                "shared memory after these",
            )
        grid, block, *rest = shape
        sizes = self._sizes(grid, block, *rest)

        def launch(*arguments: Any, **options: Any) -> None:
            self.kernel(*self._with_symbols(arguments), **sizes, **options)

        return launch

    def lower(
        self, *arguments: Any, grid: Any, block: Any, shared: int = 0, **options: Any
    ) -> Compilation:
        """What the kernel becomes for some arguments, without running it."""
        sizes = self._sizes(grid, block, shared)
        return self.kernel.lower(*self._with_symbols(arguments), **sizes, **options)

    def _sizes(self, grid: Any, block: Any, shared: int = 0) -> dict[str, Any]:
        more = {"dynamic_shared": shared} if self._is_dynamic else {}
        return {"grid": grid, "threadgroup": block, **more}

    def _with_symbols(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a launch, and the variables of the file that the kernel uses."""
        for name in self._used:
            if name not in self._symbols:
                raise error_here(
                    ArgumentError,
                    f"{self.name} uses the variable {name} of its file: set "
                    f"file.symbols[{name!r}] to an array before",
                )
        arguments += tuple([self._symbols[name] for name in self._used])
        said = list(self.kernel.function.declared.values())
        known = zip(arguments, said, strict=False)
        words = [_as_words(one, declared.type.element) for one, declared in known]
        arguments = (*words, *arguments[len(said) :])
        for one in arguments:
            if getattr(one, "size", 0) > i32.high:
                raise error_here(
                    ArgumentError,
                    "an array has at most 2**31 - 1 elements: kernels of CUDA "
                    "files count them with 32 bits",
                )
        return arguments

    def try_out(self) -> None:
        """Trace the kernel for the usual block: an error says what a launch would say."""
        specs: dict[str, Any] = {
            name: ArraySpec(said.type.element, 1)
            if said.is_array
            else ScalarSpec(said.type.element)
            for name, said in self.kernel.function.declared.items()
        }
        if self._is_dynamic:
            specs["dynamic_shared"] = SHARED_BYTES
        self.kernel.function.trace_threads(specs, Threads(BLOCK))

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.name}>"


def _as_words(argument: Any, word: DType) -> Any:
    """Structs, which NumPy has as records, as the words that they are made of."""
    dtype = getattr(argument, "dtype", None)
    if getattr(dtype, "names", None) is None:
        return argument
    return np.atleast_1d(argument).view(scalar.storage(word))


class Checked(NamedTuple):
    """A kernel, and why it is not translated; None if it is."""

    file: str
    kernel: str
    why: str | None

    def __str__(self) -> str:
        told = "is translated" if self.why is None else self.why.replace("\n", "\n    ")
        return f"{self.file}: {self.kernel}: {told}"


class Report(tuple[Checked, ...]):
    """What of some files is translated."""

    __slots__ = ()

    def __str__(self) -> str:
        right = sum([one.why is None for one in self])
        return "\n".join([*map(str, self), f"{right} of {len(self)} kernels are translated"])


def check(folder: str | Path) -> Report:
    """What of the kernels of a folder is translated, and why others are not."""
    root = Path(folder)
    files = [root] if root.is_file() else sorted(root.rglob("*.cu"))
    if not files:
        raise FileError(f"there are no .cu files in {folder}")
    return Report([one for file in files for one in _checked(file, root)])


def _checked(file: Path, root: Path) -> Iterator[Checked]:
    shown = file.name if file == root else str(file.relative_to(root))
    try:
        unit = Unit(file)
    except LanguageError as error:
        yield Checked(shown, "all kernels", str(error))
        return
    for name in unit.kernels:
        try:
            CudaKernel(name, unit.kernel(name), {}).try_out()
        except IrisError as error:
            yield Checked(shown, name, str(error))
        else:
            yield Checked(shown, name, None)
    used = {name.partition("<")[0] for name in unit.kernels}
    for name in unit.templates.keys() - used:
        yield Checked(shown, name, "is a template that the file never uses: ask for an instance")
