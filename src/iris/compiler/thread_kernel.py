"""Kernels by thread: launched for a number of threads, or of threadgroups."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import prod
from types import FunctionType
from typing import Any, NamedTuple

from iris.compiler.arguments import Call, call, typed
from iris.compiler.grids import GridLike, as_grid
from iris.compiler.kernel import Kernel
from iris.compiler.options import Options, split_options
from iris.compiler.pipelines import THREAD_PIPELINE
from iris.compiler.plain_calls import PlainCall, PlainCalls
from iris.errors import ArgumentError, DTypeError, SourceError
from iris.frontend.specs import ArraySpec, ScalarSpec, Spec, Threads
from iris.frontend.threads.function import ThreadFunction
from iris.frontend.tracing import error_here, is_tracing
from iris.ir.core import Level, Module
from iris.ir.types import i32
from iris.passes import Pipeline
from iris.runtime.device import Device, Grid
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
        declared = self.function.declared.items()
        numbers = {name: said.type.element for name, said in declared if not said.is_array}
        self._plain_calls = PlainCalls(self.function, frozenset(), numbers)

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
        threads, size, fast_math = _popped(rest)
        given = call(self.function, arguments, rest)
        self._check_declared(given)
        shape = _shape(grid, threads, size, fast_math, given)
        given.told.update(zip(shape.options.threads.counts, shape.counts, strict=True))
        return shape.options, given, shape.groups

    def asked_but_grid(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Options, Call]:
        options, given, _ = self.asked(named.pop("grid", None), arguments, named)
        return options, given

    def plain(
        self,
        grid: GridLike | None,
        arguments: tuple[Any, ...],
        named: Mapping[str, Any],
        device: str | Device | None,
    ) -> PlainCall | None:
        rest = {**named}
        threads, size, fast_math = _popped(rest)
        if callable(grid) or callable(threads) or callable(size):
            return None
        shape = _shape(grid, threads, size, fast_math, None)
        return self._plain_calls.plain(
            shape.groups, arguments, rest, device, shape.key, shape.counts
        )

    def _check_declared(self, given: Call) -> None:
        """Let arguments have the types that are declared."""
        for name, said in self.function.declared.items():
            spec, dtype = given.specs[name], said.type.element
            if spec is None or isinstance(spec, ArraySpec) is not said.is_array:
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


class _Shape(NamedTuple):
    """The threads of a launch."""

    options: ThreadOptions
    groups: Grid
    counts: tuple[int, ...]  # of threads, along the axes where they are an argument
    key: tuple[Hashable, ...]  # of the options


def _popped(named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """What a launch says of its threads, taken from its arguments; and whether it is fast_math."""
    return named.pop("threads", None), named.pop("threadgroup", None), named.pop("fast_math", False)


def _shape(
    grid: GridLike | None, threads: Any, size: Any, fast_math: Any, given: Call | None
) -> _Shape:
    """The threads of a launch; its arguments are for functions of them."""
    if fast_math is not False:
        fast_math = split_options({"fast_math": fast_math}).fast_math
    if threads is None:
        if grid is None or size is None:
            raise error_here(
                ArgumentError,
                "how many threads are there? give threads=(width, height), or grid=(2, 2), "
                "threadgroup=(16, 16)",
            )
        return _of_groups(as_grid(grid, given), _threadgroup(size), fast_math)
    if grid is not None:
        raise error_here(ArgumentError, "give threads=, or grid= and threadgroup=, not both")
    axes = len(threads) if isinstance(threads, (tuple, list)) else 1
    counts = as_grid(threads, given)
    return _of_threads(counts, _USUAL[axes] if size is None else _threadgroup(size), fast_math)


@functools.lru_cache(maxsize=1024)  # each launch asks for them
def _of_groups(groups: Grid, size: Grid, fast_math: bool, edges: tuple[int, ...] = ()) -> _Shape:
    """Whole threadgroups, if 32 bits count their threads."""
    if max([n * of for n, of in zip(groups, size, strict=True)]) > i32.high:
        raise error_here(ArgumentError, "along an axis there are at most 2**31 - 1 threads")
    options = ThreadOptions(fast_math=fast_math, threads=Threads(size, edges))
    return _Shape(options, groups, (), (size, edges, fast_math))


@functools.lru_cache(maxsize=1024)
def _of_threads(counts: Grid, size: Grid, fast_math: bool) -> _Shape:
    """Of whole threadgroups as many as have all threads."""
    x, y, z = (-(-count // n) for count, n in zip(counts, size, strict=True))
    edges = tuple([a for a in range(3) if counts[a] % size[a]])
    shape = _of_groups((x, y, z), size, fast_math, edges)
    return shape._replace(counts=tuple([counts[axis] for axis in edges]))


def _threadgroup(size: Any) -> tuple[int, int, int]:
    """The sizes of a threadgroup along the three axes."""
    sizes = as_grid(size, None)
    if not 1 <= prod(sizes) <= MOST_THREADS:
        raise error_here(
            ArgumentError,
            f"a threadgroup has 1 to {MOST_THREADS} threads, not {prod(sizes)}: {size!r}",
        )
    return sizes
