"""Kernels by thread: launched for a number of threads, or of threadgroups."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from types import FunctionType
from typing import Any

from iris.compiler.arguments import Call, call, typed
from iris.compiler.grids import GridLike, as_grid
from iris.compiler.kernel import Kernel
from iris.compiler.options import Options, split_options
from iris.compiler.pipelines import THREAD_PIPELINE
from iris.errors import ArgumentError, DTypeError, SourceError
from iris.frontend.specs import ArraySpec, ScalarSpec, Spec, Threads
from iris.frontend.threads.function import ThreadFunction
from iris.frontend.tracing import error_here, is_tracing
from iris.ir.core import Level, Module
from iris.ir.types import i32
from iris.passes import Pipeline
from iris.runtime.device import Grid
from iris.targets import DEFAULT, Target

MOST_THREADS = 1024  # of a threadgroup
# The threadgroup of a launch that says threads= only, by the number of its axes.
_USUAL = {1: (256, 1, 1), 2: (32, 8, 1), 3: (8, 8, 4)}


def kernel(
    function: Callable[..., None] | None = None,
    *,
    param_types: Mapping[str, object] | None = None,
) -> Any:
    """Make a kernel of a function that says what one thread does.

    @iris.metal.kernel(param_types={"A": "device const float*", "B": "device float*", "n": "uint"})
    def double(A, B, n):
        i = metal.thread_id_x()
        if i < n:
            B[i] = 2 * A[i]

    double(a, b, len(a), threads=len(a))

    Types may be annotations, too; an array or a number without one has the type that is passed.
    """
    if function is None:
        return functools.partial(kernel, param_types=param_types)
    if not isinstance(function, FunctionType):
        raise SourceError(f"a kernel is made of a function, not of {function!r}")
    return ThreadKernel(function, param_types or {})


@dataclass(frozen=True)
class ThreadOptions(Options):
    """How a kernel by thread is compiled."""

    threads: Threads = field(kw_only=True)

    def pipeline(self, level: Level, target: Target = DEFAULT) -> Pipeline:
        return THREAD_PIPELINE.on(target)


class ThreadKernel(Kernel):
    """A kernel by thread: `kernel(*arguments, threads=(w, h))` launches it."""

    function: ThreadFunction

    def __init__(self, function: FunctionType, types: Mapping[str, object]):
        super().__init__(function)
        self.function = ThreadFunction(function, types)

    def __getitem__(self, shape: object) -> Any:
        """`kernel[grid, threadgroup](...)`, as of the kernels of a Metal library."""
        if isinstance(shape, tuple) and len(shape) == 2:
            return functools.partial(self, grid=shape[0], threadgroup=shape[1])
        name = self.function.name
        raise error_here(
            ArgumentError,
            f"a launch is {name}[grid, threadgroup](...), as {name}[(2, 2), (16, 16)], or "
            f"{name}(..., threads=(width, height))",
        )

    def __call__(self, *arguments: Any, grid: GridLike | None = None, **named: Any) -> Any:
        """Launch the kernel; within a kernel by thread, the function itself, traced in place."""
        if is_tracing():
            return self.function.inline(arguments, named)
        return self._launch(grid, *arguments, **named)

    def asked(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Options, Call, Grid]:
        rest = {**named}
        threads, size = rest.pop("threads", None), rest.pop("threadgroup", None)
        fast_math = rest.pop("fast_math", False)
        if fast_math is not False:
            fast_math = split_options({"fast_math": fast_math}).fast_math
        given = call(self.function, arguments, rest)
        self._check_declared(given)
        if threads is not None and grid is not None:
            raise error_here(ArgumentError, "give threads=, or grid= and threadgroup=, not both")
        if threads is None:
            known, sizes = self._by_threadgroups(grid, size, given)
        else:
            known, sizes = self._by_threads(threads, size, given)
        return _options(known, fast_math), given, _counted(known, sizes)

    def asked_but_grid(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Options, Call]:
        options, given, _ = self.asked(named.pop("grid", None), arguments, named)
        return options, given

    def _by_threadgroups(
        self, grid: GridLike | None, size: object, given: Call
    ) -> tuple[Threads, Grid]:
        if grid is None or size is None:
            raise error_here(
                ArgumentError,
                "how many threads are there? give threads=(width, height), or grid=(2, 2), "
                "threadgroup=(16, 16)",
            )
        return Threads(_threadgroup(size)), as_grid(grid, given)

    def _by_threads(self, threads: Any, size: object, given: Call) -> tuple[Threads, Grid]:
        """Of whole threadgroups as many as have all threads."""
        counts = as_grid(threads, given)
        axes = len(threads) if isinstance(threads, (tuple, list)) else 1
        width, height, depth = _USUAL[axes] if size is None else _threadgroup(size)
        sizes = width, height, depth
        edges = tuple([a for a in range(3) if counts[a] % sizes[a]])
        known = Threads(sizes, edges)
        for axis, name in zip(edges, known.counts, strict=True):
            given.told[name] = counts[axis]
        x, y, z = (-(-count // n) for count, n in zip(counts, sizes, strict=True))
        return known, (x, y, z)

    def _check_declared(self, given: Call) -> None:
        """Let arguments have the types that are declared."""
        for name, said in self.function.declared.items():
            spec, dtype = given.specs[name], said.type.element
            if isinstance(spec, ArraySpec) is not said.is_array:
                what = "an array" if said.is_array else f"a number, of type {said.type.name}"
                raise error_here(ArgumentError, f"{name} is declared as {what}")
            if said.is_array and spec.dtype is not dtype:
                raise error_here(
                    DTypeError,
                    f"{name} is declared as an array of {said.type.name}, but has {spec.dtype}",
                )
            if not said.is_array:
                given.specs[name], given.told[name] = typed(name, given.told[name], spec, dtype)

    def traced(self, given: Call, options: Options) -> Module:
        assert isinstance(options, ThreadOptions)
        return self.function.trace_threads(
            given.specs | given.constants, options.threads, fast_math=options.fast_math
        )

    def specs(self, given: Call, options: Options) -> dict[str, Spec]:
        assert isinstance(options, ThreadOptions)
        return super().specs(given, options) | {n: ScalarSpec(i32) for n in options.threads.counts}

    def again(self, grid: Grid, options: Options, **named: Any) -> None:
        assert isinstance(options, ThreadOptions)
        known = options.threads
        counts = [n * size for n, size in zip(grid, known.size, strict=True)]
        for axis, name in zip(known.edges, known.counts, strict=True):
            counts[axis] = named.pop(name)
        named |= {"threads": tuple(counts), "threadgroup": known.size}
        self._launch(None, **named, fast_math=options.fast_math)


@functools.lru_cache(maxsize=1024)  # each launch asks for them
def _options(threads: Threads, fast_math: bool) -> ThreadOptions:
    return ThreadOptions(fast_math=fast_math, threads=threads)


def _counted(threads: Threads, grid: Grid) -> Grid:
    """The numbers of threadgroups, if 32 bits count their threads."""
    if max([n * size for n, size in zip(grid, threads.size, strict=True)]) > i32.high:
        raise error_here(ArgumentError, "along an axis there are at most 2**31 - 1 threads")
    return grid


def _threadgroup(size: Any) -> tuple[int, int, int]:
    """The sizes of a threadgroup along the three axes."""
    sizes = as_grid(size, None)
    if not 1 <= prod(sizes) <= MOST_THREADS:
        raise error_here(
            ArgumentError,
            f"a threadgroup has 1 to {MOST_THREADS} threads, not {prod(sizes)}: {size!r}",
        )
    return sizes
