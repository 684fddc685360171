"""Kernels: launching, specialisation, and the cache of what is compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np

from iris import knobs
from iris.compiler.arguments import bind, place, specs
from iris.compiler.check import check_stages
from iris.compiler.compilation import Compilation, Options, dumps, entry_of, optimize
from iris.compiler.devices import Device, Grid, Program, select
from iris.errors import ArgumentError, SourceError
from iris.frontend.function import TileFunction
from iris.frontend.tracing import error_here, is_tracing
from iris.frontend.values import Traced
from iris.ir.core import Module
from iris.ir.effects import effects_within, writes
from iris.passes.sample import Size, Sizes

GridLike: TypeAlias = "int | tuple[int, ...] | Callable[[dict[str, Any]], int | tuple[int, ...]]"


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a function written in the tile language.

    @iris.kernel
    def double(X, N, BLOCK: iris.constexpr):
        i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
        iris.store(X + i, 2 * iris.load(X + i, mask=i < N), mask=i < N)

    double[iris.cdiv(n, 64)](x, n, BLOCK=64)
    """
    if not isinstance(function, FunctionType):
        raise SourceError(f"a kernel is made of a function, not of {function!r}")
    return Kernel(function)


@dataclass(frozen=True)
class _Compiled:
    """A kernel for some facts about its arguments, on a device."""

    traced: Module
    program: Program
    written: frozenset[str]  # the parameters it writes to


class Kernel:
    """A kernel: `kernel[grid](*arguments, **constexprs)` launches it."""

    def __init__(self, function: FunctionType):
        self.function = TileFunction(function)
        self._cache: dict[Any, _Compiled] = {}
        functools.update_wrapper(self, function)

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        return functools.partial(self._launch, grid)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Within a kernel: the function itself, traced in place."""
        if is_tracing():
            return self.function.inline(arguments, named)
        name = self.function.name
        raise error_here(ArgumentError, f"launch the kernel with a grid: {name}[grid](...)")

    def lower(self, *arguments: Any, grid: GridLike, **named: Any) -> Compilation:
        """What the kernel becomes for some arguments, without running it."""
        device = named.pop("device", None)
        options = _options(named)
        bound = bind(self.function, arguments, named)
        known, passed = specs(self.function, bound)
        compiled = self._compiled(known, options, select(device))
        launch = functools.partial(self._launch, grid, device=device, **asdict(options))
        sizes = Sizes(_grid(grid, self.function, bound), _sizes(passed))
        return Compilation(compiled.traced, options, launch, sizes)

    def _launch(
        self, grid: GridLike, *arguments: Any, device: str | Device | None = None, **named: Any
    ) -> None:
        options = _options(named)
        bound = bind(self.function, arguments, named)
        known, passed = specs(self.function, bound)
        sizes = _grid(grid, self.function, bound)
        on = select(device)
        compiled = self._compiled(known, options, on)
        if knobs.check():
            check_stages(compiled.traced, sizes, passed, compiled.written)
        _run(on, compiled, sizes, passed)

    def _compiled(self, known: Mapping[str, Any], options: Options, device: Device) -> _Compiled:
        names = [p.name for p in self.function.parameters]
        key = (device.name, options, *[_exactly(known[name]) for name in names])
        try:
            found = self._cache.get(key)
        except TypeError:
            unhashable = next(n for n, v in known.items() if getattr(v, "__hash__", None) is None)
            raise error_here(
                ArgumentError,
                f"the constexpr {unhashable} must be hashable; give a tuple for a list",
            ) from None
        if found is not None and dumps():
            # Dumps are wanted of what is compiled already, too.
            optimize(found.traced, options.pipeline(device.accepts))
        if found is None:
            traced = self.function.trace(known, fast_math=options.fast_math)
            entry = entry_of(optimize(traced, options.pipeline(device.accepts)))
            written = {v.name or "" for v in writes(effects_within(entry)) if hasattr(v, "name")}
            found = _Compiled(traced, device.compile(entry), frozenset(written))
            self._cache[key] = found
        return found


def _options(named: dict[str, Any]) -> Options:
    """What a launch says of how to compile, taken from its arguments."""
    given = {f.name: named.pop(f.name) for f in fields(Options) if f.name in named}
    options = Options(**given)
    count = options.num_simdgroups
    if count is not None and (type(count) is not int or count not in (1, 2, 4, 8, 16, 32)):
        raise error_here(
            ArgumentError, f"num_simdgroups is a power of two from 1 to 32, not {count!r}"
        )
    if type(options.fast_math) is not bool:
        raise error_here(ArgumentError, f"fast_math is True or False, not {options.fast_math!r}")
    return options


def _sizes(passed: Mapping[str, Any]) -> dict[str, Size]:
    """The shapes of arrays, and the integers, that a kernel is given."""
    shapes: dict[str, Size] = {n: v.shape for n, v in passed.items() if isinstance(v, np.ndarray)}
    return shapes | {n: int(v) for n, v in passed.items() if isinstance(v, int | np.integer)}


def _exactly(value: Any) -> Any:
    """A key that tells apart what `==` does not: 1, 1.0 and True, and 0.0 and -0.0."""
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, tuple):
        return tuple, *map(_exactly, value)
    return type(value), value


def _grid(grid: GridLike, function: TileFunction, bound: Mapping[str, Any]) -> Grid:
    """The numbers of programs along the three axes."""
    if callable(grid):
        grid = grid({p.name: bound[p.name] for p in function.parameters if p.is_constexpr})
    sizes = grid if isinstance(grid, tuple) else (grid,)
    whole = all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in sizes
    )
    if not 1 <= len(sizes) <= 3 or not whole or any(isinstance(n, Traced) for n in sizes):
        raise error_here(
            ArgumentError,
            f"a grid is an int or a tuple of up to three, none negative; not {grid!r}",
        )
    padded = (*[int(n) for n in sizes], 1, 1)[:3]
    return padded[0], padded[1], padded[2]


def _run(device: Device, compiled: _Compiled, grid: Grid, passed: Mapping[str, Any]) -> None:
    """Run a kernel on copies of the arrays, and copy back what it wrote."""
    arrays = {n: a for n, a in passed.items() if isinstance(a, np.ndarray)}
    for name in compiled.written & arrays.keys():
        if not arrays[name].flags.writeable:
            raise error_here(ArgumentError, f"{name} is written to, but its array is read-only")
    placed = place(device, arrays)
    device.launch(compiled.program, grid, [placed.get(n, v) for n, v in passed.items()])
    device.synchronize()
    for name in compiled.written & arrays.keys():
        device.copy_out(placed[name], arrays[name])
