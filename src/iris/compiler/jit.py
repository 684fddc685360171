"""Functions of arrays, compiled when they are called: tracing, kernels, and running these."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from iris import knobs
from iris.compiler.arguments import as_array, shared_buffer
from iris.compiler.array_compilation import ArrayCompilation, KernelCompilation
from iris.compiler.compilation import is_called_as, optimize, target_of
from iris.compiler.compile_times import compiling
from iris.compiler.dumps import is_dumped
from iris.compiler.graph_program import GraphProgram, argument_spec
from iris.compiler.kernel import MOST_SPECIALISATIONS
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.compiler.recording import RECORDERS, record
from iris.errors import ArgumentError
from iris.frontend.arrays import (
    ArrayCall,
    ArrayFunction,
    Leaf,
    Tree,
    WeakScalarCheck,
    is_tracing,
)
from iris.frontend.captured import Captured
from iris.frontend.decorated import Decorated
from iris.frontend.tracing import error_here
from iris.ir.core import Module
from iris.ir.text.printer import to_text
from iris.runtime.borrowing import Borrowing
from iris.runtime.buffer import Buffer
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.runtime.recent import Recent
from iris.targets import Target

if TYPE_CHECKING:
    from iris.compiler.candidates import Report


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    static_argnums: int | Sequence[int] = (),
    fast_math: bool = False,
    tune: bool = False,
    reorder: bool = False,
    executor: Executor | None = None,
) -> Any:
    """Make few, fused kernels of a function written in NumPy.

    @iris.jit
    def layer(x, w, b):
        return np.maximum(x @ w + b, 0)

    y = layer(x, w, b)

    Arguments and results are arrays and numbers, or tuples, lists and dicts of them; what is
    neither is named in `static_argnames`, and the function is traced anew for each value of it.
    The results are NumPy arrays, or Buffers if some argument is one.

    With `tune=True` the first call for some shapes compares schedules of each kernel, and the
    fastest is kept, in memory and on disk.  A schedule that computes other bits is not taken;
    with `reorder=True` sums may be added in another order.  An `executor` compiles and measures
    them, and `print(*function.reports)` shows how they compare.
    """
    if function is None:
        return functools.partial(
            jit,
            static_argnames=static_argnames,
            static_argnums=static_argnums,
            fast_math=fast_math,
            tune=tune,
            reorder=reorder,
            executor=executor,
        )
    if not tune and (reorder or executor is not None):
        raise error_here(ArgumentError, "reorder= and executor= are for tune=True")
    if not callable(function):
        raise error_here(ArgumentError, f"@iris.jit is for a function, not for {function!r}")
    made = ArrayFunction(function, static_argnames, static_argnums)
    return Jit(made, fast_math, Tuning(reorder, executor) if tune else None)


DEVICE = "device"  # the option of a call


@dataclass(frozen=True, eq=False)
class _Traced:
    """A function for some shapes and dtypes: its graph, and what runs it."""

    module: Module
    program: GraphProgram
    results: Tree
    narrowed: list[WeakScalarCheck]


class Tuning(NamedTuple):
    """How the schedules of kernels are compared."""

    reorder: bool
    executor: Executor | None


class Jit(Decorated):
    """A function of arrays; `function(*arguments)` runs it as kernels."""

    def __init__(
        self, function: ArrayFunction, fast_math: bool = False, tuning: Tuning | None = None
    ):
        self.function = function
        self.fast_math = fast_math
        self.reports: list[Report] = []  # of the comparisons so far
        self._tuning = tuning
        self._tuned: Recent[Any, GraphProgram] = Recent(MOST_SPECIALISATIONS)
        if DEVICE in function.signature.parameters:
            raise function.error(
                ArgumentError,
                f"{DEVICE}= of a call says where the function runs; give the parameter another "
                "name",
            )
        self._traces: Recent[Any, _Traced] = Recent(MOST_SPECIALISATIONS)
        self._captured: Captured | None = None  # by these traces
        self._tracing = threading.Lock()
        functools.update_wrapper(self, function.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if is_tracing():  # within another: as if it stood there
            if DEVICE in named:
                raise error_here(
                    ArgumentError,
                    f"pass {DEVICE}= to the outer compiled function that makes this call",
                )
            return self.function.function(*arguments, **named)
        return self._launch(arguments, named)

    def into(self, out: Buffer, *arguments: Any, **named: Any) -> None:
        """Compute the only result of the function in a Buffer that is no argument."""
        self._launch(arguments, {**named, DEVICE: out.device}, into=out)

    def _launch(
        self,
        arguments: Sequence[Any],
        named: dict[str, Any],
        program: GraphProgram | None = None,
        into: Buffer | None = None,
    ) -> Any:
        """Run the kernels of the function, or those of a program that computes the same."""
        device = named.pop(DEVICE, None)
        call = self._bound(arguments, named)
        buffers = [leaf.value for leaf in call.leaves if isinstance(leaf.value, Buffer)]
        on = _device(device, buffers)
        if into is not None and any(on.overlap(b.argument, into.argument) for b in buffers):
            raise error_here(
                ArgumentError,
                f"a result of {self.function.name} does not go into memory of an argument",
            )
        traced = self._traced(call, target_of(on))
        if RECORDERS:
            record(traced, functools.partial(self.lower, *arguments, **named, device=device))
        for number in traced.narrowed:
            number.check(call.leaves)
        values = [leaf.value for leaf in call.leaves]
        if program is None:
            program = self._program(traced, on, values)
        elif not is_called_as(program.function, traced.program.function):
            raise error_here(
                ArgumentError,
                f"{self.function.name} was lowered for arguments of other shapes or dtypes",
            )
        results = program.run(on, values, into)
        return traced.results.unflatten(results if buffers else [b.numpy() for b in results])

    def _program(self, traced: _Traced, device: Device, arguments: Sequence[Any]) -> GraphProgram:
        """What runs the function: tuned for a device, if that is wanted."""
        if self._tuning is None:
            return traced.program
        key = traced.program, device
        with self._tracing:
            found = self._tuned.get(key)
            if found is None:
                from iris.compiler.tuned_schedules import tuned  # opened when first used

                found, reports = tuned(traced.program, device, arguments, **self._tuning._asdict())
                self._tuned.put(key, found)
                self.reports += reports
            return found

    def __getitem__(self, grid: object) -> NoReturn:
        name = self.function.name
        raise error_here(
            ArgumentError,
            f"{name} is a function of arrays, and has no grid: call {name}(...); a kernel that is "
            "launched on a grid is made with @iris.kernel",
        )

    def lower(self, *arguments: Any, **named: Any) -> ArrayCompilation:
        """What the function becomes for some arguments, without running it; `device=` says where
        that is to run."""
        device = named.pop(DEVICE, None)
        on = None if device is None else select(device)
        target = target_of(on)
        traced = self._traced(self._bound(arguments, named), target)
        made = ArrayCompilation(traced.module, traced.program, self._launch, target, device)
        tuned = None if on is None else self._tuned.get((traced.program, on))
        return made if tuned is None else made.edited(to_text(Module([tuned.function.clone({})])))

    def kernels(self, *arguments: Any, **named: Any) -> list[KernelCompilation]:
        """The kernels that the function becomes for some arguments."""
        return self.lower(*arguments, **named).kernels

    def _bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> ArrayCall:
        """The arguments of a call, arrays of other libraries being NumPy's over the same memory."""
        call = self.function.bind(arguments, named)
        borrowing = Borrowing()
        leaves = [
            leaf if isinstance(leaf.value, _OWN) else _shared(leaf, borrowing)
            for leaf in call.leaves
        ]
        return ArrayCall(leaves, call.structure)

    def _traced(self, call: ArrayCall, target: Target) -> _Traced:
        specs = tuple([argument_spec(*leaf) for leaf in call.leaves])
        key = call.structure, specs, target.name
        with self._tracing:
            if self._captured is None or self._captured.changed():
                self._traces.clear()
                self._captured = Captured(self.function.function)
            found = self._traces.get(key)
            if found is None:
                self._captured.follow(call.static)
                with compiling(self.function.name):
                    module, captured, results, narrowed = self.function.trace(
                        call, specs, fast_math=self.fast_math
                    )
                    program = GraphProgram.of(module, target, captured)
                found = _Traced(module, program, results, narrowed)
                self._traces.put(key, found)
            elif knobs.dump():
                pipeline = GRAPH_PIPELINE.on(target)
                if not is_dumped(found.module, pipeline):
                    optimize(found.module, pipeline)
            return found


_OWN = (np.ndarray, np.generic, bool, int, float, Buffer)


def _shared(leaf: Leaf, borrowing: Borrowing) -> Leaf:
    """An array of another library as NumPy's, or as a Buffer where it is in the memory of a device;
    what is no array stays what it is."""
    buffer = shared_buffer(leaf.name, leaf.value, borrowing)
    if buffer is not None:
        if buffer.lent is not None and not buffer.lent.is_aligned:
            raise error_here(
                ArgumentError, f"{leaf.name} does not start at a multiple of 16 bytes; pass a copy"
            )
        return Leaf(leaf.name, buffer)
    array = as_array(leaf.name, leaf.value)
    return leaf if array is None else Leaf(leaf.name, array)


def _device(device: str | Device | None, buffers: Sequence[Buffer]) -> Device:
    """Where a function runs: the device that is named, or where its Buffers are."""
    on = buffers[0].device if device is None and buffers else select(device)
    for buffer in buffers:
        if buffer.device is not on:
            raise error_here(
                ArgumentError,
                f"a Buffer is on the device {buffer.device.name!r}, but the function runs on "
                f"{on.name!r}",
            )
    return on
