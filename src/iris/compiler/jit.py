"""Functions of arrays, compiled when they are called: tracing, kernels, and running these."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iris.compiler.arrays import ArrayCompilation, KernelCompilation
from iris.compiler.compilation import GRAPH_PIPELINE, entry_of, optimize
from iris.compiler.kernels import GraphKernel, Places, kernels_of, placed, root
from iris.errors import ArgumentError
from iris.frontend.arrays import ArrayFunction, Call, TensorSpec, Tree, spec_of
from iris.frontend.tracing import error_here
from iris.ir.core import Module, Value
from iris.ir.math import element_type
from iris.runtime.buffer import Buffer
from iris.runtime.device import Array, ArrayArgument, Device, Grid, Program
from iris.runtime.devices import select


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    static_argnums: int | Sequence[int] = (),
    fast_math: bool = False,
) -> Any:
    """Make few, fused kernels of a function written in NumPy.

    @iris.jit
    def layer(x, w, b):
        return np.maximum(x @ w + b, 0)

    y = layer(x, w, b)

    Arguments and results are arrays and numbers, or tuples, lists and dicts of them; what is
    neither is named in `static_argnames`, and the function is traced anew for each value of it.
    The results are NumPy arrays, or Buffers if some argument is one.
    """
    if function is None:
        return functools.partial(
            jit, static_argnames=static_argnames, static_argnums=static_argnums, fast_math=fast_math
        )
    return Jit(ArrayFunction(function, static_argnames, static_argnums), fast_math)


@dataclass(frozen=True)
class _Traced:
    """A function for some shapes and dtypes: its graph, before and after fusion."""

    module: Module
    fused: Module
    kernels: list[GraphKernel]
    places: Places
    captured: list[Array]
    results: Tree


@dataclass(frozen=True)
class _Step:
    """A launch: of which arrays, as places and arguments."""

    program: Program
    grid: Grid
    arrays: tuple[Value, ...]


class Jit:
    """A function of arrays; `function(*arguments)` runs it as kernels."""

    def __init__(self, function: ArrayFunction, fast_math: bool = False):
        self.function = function
        self.fast_math = fast_math
        self._traces: dict[Any, _Traced] = {}
        self._steps: dict[Any, tuple[list[_Step], list[ArrayArgument]]] = {}
        self._compiling = threading.Lock()
        functools.update_wrapper(self, function.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        device = named.pop("device", None)
        call = self.function.bind(arguments, named)
        buffers = [leaf.value for leaf in call.leaves if isinstance(leaf.value, Buffer)]
        on = _device(device, buffers)
        key, traced = self._traced(call)
        with self._compiling:
            found = self._steps.get((key, on))
            if found is None:
                found = self._steps[key, on] = _compiled(traced, on), _kept(traced, on)
        results = _run(traced, *found, on, [leaf.value for leaf in call.leaves])
        return traced.results.unflatten(results if buffers else [b.numpy() for b in results])

    def lower(self, *arguments: Any, **named: Any) -> ArrayCompilation:
        """What the function becomes for some arguments, without running it."""
        _, traced = self._traced(self.function.bind(arguments, named))
        return ArrayCompilation(traced.module, traced.kernels, self)

    def kernels(self, *arguments: Any, **named: Any) -> list[KernelCompilation]:
        """The kernels that the function becomes for some arguments."""
        return self.lower(*arguments, **named).kernels

    def _traced(self, call: Call) -> tuple[Any, _Traced]:
        specs = tuple([_spec(leaf.name, leaf.value) for leaf in call.leaves])
        key = call.structure, specs
        with self._compiling:
            found = self._traces.get(key)
            if found is None:
                made = self.function.trace(call, specs, fast_math=self.fast_math)
                fused = optimize(made.module, GRAPH_PIPELINE)
                function = entry_of(fused)
                kernels = kernels_of(function)
                found = self._traces[key] = _Traced(
                    made.module,
                    fused,
                    kernels,
                    Places(function, kernels),
                    made.captured,
                    made.results,
                )
        return key, found


def _spec(name: str, value: Any) -> TensorSpec:
    if isinstance(value, Buffer):
        return TensorSpec(value.shape, value.dtype)
    return spec_of(name, value)


def _device(device: str | Device | None, buffers: Sequence[Buffer]) -> Device:
    """Where a function runs: the device that is named, or where its Buffers are."""
    on = buffers[0].device if device is None and buffers else select(device)
    for buffer in buffers:
        if buffer.device is not on:
            raise error_here(
                ArgumentError,
                f"a Buffer is of the device {buffer.device.name!r}, and the function runs on "
                f"{on.name!r}",
            )
    return on


def _compiled(traced: _Traced, device: Device) -> list[_Step]:
    """The kernels as programs of a device."""
    return [_Step(*k.compile(device), tuple(k.arrays)) for k in traced.kernels]


def _kept(traced: _Traced, device: Device) -> list[ArrayArgument]:
    """The arrays that a trace captured, in the memory of a device."""
    values = entry_of(traced.fused).body.arguments
    hidden = values[len(values) - len(traced.captured) :]
    return [placed(v, a, device) for v, a in zip(hidden, traced.captured, strict=True)]


def _run(
    traced: _Traced,
    steps: Sequence[_Step],
    captured: Sequence[ArrayArgument],
    device: Device,
    leaves: Sequence[Any],
) -> list[Buffer]:
    """Launch the kernels; what is returned need not be there yet."""
    function = entry_of(traced.fused)
    parameters = function.body.arguments
    known = {v: placed(v, x, device) for v, x in zip(parameters, leaves, strict=False)}
    known |= dict(zip(parameters[len(leaves) :], captured, strict=True))
    memories = [device.allocate(size) for size in traced.places.sizes]

    def argument(value: Value) -> ArrayArgument:
        base = root(value)
        type_ = element_type(value.type)
        memory = known[base].memory if base in known else memories[traced.places.of[base]]
        offset = known[base].offset if base in known else 0
        return ArrayArgument(memory, offset, type_.element, type_.shape)

    for step in steps:
        device.launch(step.program, step.grid, [argument(v) for v in step.arrays])
    results = []
    for value in function.body.end.operands:
        made = argument(value)
        results.append(Buffer(device, made.memory, made.dtype, made.shape))
    return results
