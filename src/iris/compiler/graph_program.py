"""Run a graph on a device: launch its kernels, and assign buffers to its tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from iris import knobs
from iris.compiler.compilation import entry_of, level_of, optimize, target_of
from iris.compiler.compile_times import compiling
from iris.compiler.dumps import is_dumped
from iris.compiler.graph_kernels import Cut, GraphKernel, compile_all, kernels_of
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.errors import ArgumentError
from iris.frontend.arrays import TensorSpec, spec_of
from iris.frontend.tracing import error_here
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.ir.graph import launches_in, storage_root
from iris.ir.math import element_type
from iris.ir.scalar import storage
from iris.passes.graph.tiling.kernel_regions import is_scheduled
from iris.passes.graph.tiling.overwritten import check_overwritten
from iris.runtime.buffer import Buffer
from iris.runtime.device import Array, ArrayArgument, Device, LaunchTemplate, Place, RecordedLaunch
from iris.runtime.recorder import RECORDER, refuse_while_recording
from iris.targets import Target


class _CompiledGraph(NamedTuple):
    """What a device needs to run a graph: launches, and constant arrays in its memory."""

    template: LaunchTemplate
    constants: list[Place]


class GraphProgram:
    """A graph with its kernels, which any device runs; the last arguments are some constants.

    A kernel whose schedule does not fit gets another one, unless `keep_schedules` is given.  Those
    that are `known` are not lowered again.
    """

    def __init__(
        self,
        fused: Module,
        constants: Sequence[Array] = (),
        *,
        keep_schedules: bool = False,
        known: Iterable[GraphKernel] = (),
    ):
        self.module = fused
        self.function: Func = entry_of(fused)
        check_overwritten(self.function, self.function.body.arguments)
        self.kernels = kernels_of(self.function, keep_schedules=keep_schedules, known=known)
        self.buffers = BufferAssignment(self.function, self.kernels)
        self.constants = constants
        self._compiled: dict[Device, _CompiledGraph] = {}
        self._compiling = threading.Lock()

    @cached_property
    def equal(self) -> list[GraphKernel]:
        """For each kernel the first one that is equal to it: it is compiled for all of these."""
        if len(self.kernels) < 2:
            return self.kernels
        first: dict[str, GraphKernel] = {}
        return [first.setdefault(kernel.unnamed, kernel) for kernel in self.kernels]

    def as_compiled(self, target: Target) -> Module:
        """The graph with the schedules that its kernels are lowered by."""
        copy = self.module.clone()
        for launch, kernel in zip(launches_in(entry_of(copy).body), self.kernels, strict=True):
            (fitted,) = launches_in(entry_of(kernel.fitted(Level.METAL, target)).body)
            for op, other in zip(launch.kernels, fitted.kernels, strict=True):
                op.set_attribute("schedule", other.schedule)
        return copy

    @staticmethod
    def of(module: Module, target: Target, constants: Sequence[Array] = ()) -> GraphProgram:
        """A graph in kernels, for a target; if it has kernels with schedules, those stay."""
        if is_scheduled(entry_of(module)):
            return GraphProgram(module, constants, keep_schedules=True)
        fused = optimize(module, GRAPH_PIPELINE.on(target))
        program = GraphProgram(fused, constants)
        known = _without_spills(program, target)
        return program if known is None else GraphProgram(fused, constants, known=known)

    def run(
        self, device: Device, arguments: Sequence[Any], into: Buffer | None = None
    ) -> list[Buffer]:
        """Launch the kernels; the results are Buffers that need not be filled yet.

        With `into`, which shares memory with no argument, the only result is in there.
        """
        recording = RECORDER.recording
        if recording is not None and any(isinstance(x, np.ndarray) for x in arguments):
            refuse_while_recording(f"{self.function.symbol} copies an array that is no Buffer")
        template, constants = self.compiled(device)
        parameters = self.function.body.arguments
        places: list[Place] = [
            _place(to_argument(v, x, device)) for v, x in zip(parameters, arguments, strict=False)
        ]
        places += constants
        given = None if into is None else self._slot(self._only_result(into))
        for n, size in enumerate(self.buffers.sizes, len(places)):
            if into is not None and n == given:
                places.append(_place(into.argument))
            else:
                places.append((device.allocate(size), 0))
        if recording is not None:
            for launch in template.on(places):
                recording.add(device, launch, [x for x in arguments if isinstance(x, Buffer)])
        else:
            template.run(places, device.stream_of([memory for memory, _ in places]))
        results = self.function.body.end.operands
        types = [element_type(value.type) for value in results]
        memories = [places[self._slot(value)][0] for value in results]
        made = zip(memories, types, strict=True)
        return [Buffer(device, memory, type_.element, type_.shape) for memory, type_ in made]

    def _slot(self, value: Value) -> int:
        """The number of the memory of a tensor: of all parameters, then of all buffers."""
        base, parameters = storage_root(value), self.function.body.arguments
        at = self.buffers.of.get(base)
        return parameters.index(base) if at is None else len(parameters) + at

    def _only_result(self, into: Buffer) -> Value:
        """The tensor that a Buffer is to hold, if it can."""
        results = self.function.body.end.operands
        type_ = element_type(results[0].type)
        if len(results) > 1 or (type_.shape, type_.element) != (into.shape, into.dtype):
            shapes = ", ".join([str(value.type) for value in results])
            raise error_here(ArgumentError, f"{shapes} does not go into {into!r}")
        return storage_root(results[0])

    def compiled(self, device: Device) -> _CompiledGraph:
        """The kernels for a device, compiled when first asked for."""
        with self._compiling:
            found = self._compiled.get(device)
            if found is None:
                with compiling(self.function.symbol):
                    found = self._compiled[device] = self._compile(device)
            elif knobs.dump():
                self._dump(device)
            return found

    def _dump(self, device: Device) -> None:
        """Write the dumps of kernels that were compiled before these were asked for."""
        level, target = level_of(device), target_of(device)
        for kernel in dict.fromkeys(self.equal):
            if not kernel.fitting(level, target, is_dumped):
                kernel.fitting(level, target, optimize)

    def _compile(self, device: Device) -> _CompiledGraph:
        kernels = list(dict.fromkeys(self.equal))
        compiled = dict(zip(kernels, compile_all(kernels, device), strict=True))
        same = zip(self.equal, self.kernels, strict=True)
        launches = [
            RecordedLaunch(*compiled[first], [self._unbound(v) for v in kernel.arrays])
            for first, kernel in same
        ]
        parameters = self.function.body.arguments
        own = parameters[len(parameters) - len(self.constants) :]
        kept = [_place(to_argument(v, a, device)) for v, a in zip(own, self.constants, strict=True)]
        return _CompiledGraph(device.template(launches), kept)

    def _unbound(self, value: Value) -> ArrayArgument:
        """A tensor, with the number of its memory."""
        type_ = element_type(value.type)
        return ArrayArgument(self._slot(value), 0, type_.element, type_.shape)


def _without_spills(program: GraphProgram, target: Target) -> list[GraphKernel] | None:
    """Put several kernels in the place of each that would spill registers, if that can be cut; the
    kernels that there are then, or None if none was cut."""
    kernels: list[GraphKernel] = []
    cuts: dict[GraphKernel, Cut | None] = {}  # of the first of equal kernels
    for kernel, first in zip(program.kernels, program.equal, strict=True):
        if first not in cuts:
            cuts[first] = first.cut(target) if first.spills(target) else None
        cut = cuts[first]
        if cut is None:
            kernels.append(kernel)
        else:
            kernels += kernel.replaced(cut if kernel is first else kernel.cut_for(cut.target))
    return None if all(cut is None for cut in cuts.values()) else kernels


class BufferAssignment:
    """Assign each tensor of a fused graph to a buffer; reuse a buffer after its last reader."""

    def __init__(self, function: Func, kernels: Sequence[GraphKernel]):
        self.of: dict[Value, int] = {}
        self.sizes: list[int] = []
        results = {storage_root(v) for v in function.body.end.operands}
        written_to = {
            v: storage_root(into) for kernel in kernels for v, into in kernel.written_to.items()
        }
        overwritten = set(written_to.values())
        for value, into in reversed(written_to.items()):
            if value in results:
                results.add(into)
        last = {storage_root(v): n for n, kernel in enumerate(kernels) for v in kernel.inputs}
        free: list[int] = []
        for n, kernel in enumerate(kernels):
            for value in kernel.outputs:
                if value in written_to:
                    self.of[value] = self.of[written_to[value]]
                    continue
                self.of[value] = self._assign(_bytes(value), free, value in results)
            # A kernel must not write to a buffer that it reads: it is free only now.
            for value in dict.fromkeys(map(storage_root, kernel.inputs)):
                written_in_place = value in overwritten
                if (
                    last[value] == n
                    and value in self.of
                    and value not in results
                    and not written_in_place
                ):
                    free.append(self.of[value])
            free += [self.of[v] for v in kernel.outputs if v not in last and v not in results]

    def _assign(self, size: int, free: list[int], is_result: bool) -> int:
        fits = [p for p in free if self.sizes[p] >= size] or free
        if fits and not is_result:
            buffer = min(fits, key=lambda p: abs(self.sizes[p] - size))
            free.remove(buffer)
            self.sizes[buffer] = max(self.sizes[buffer], size)
            return buffer
        self.sizes.append(size)
        return len(self.sizes) - 1


def argument_spec(name: str, value: Any) -> TensorSpec:
    """The spec of an argument, which may be a Buffer."""
    if isinstance(value, Buffer):
        return TensorSpec(value.shape, value.dtype)
    return spec_of(name, value)


def to_argument(value: Value, array: Any, device: Device) -> ArrayArgument:
    """Copy an argument to a device, unless it is a Buffer."""
    if isinstance(array, Buffer):
        return array.argument
    type_ = element_type(value.type)
    source = array if isinstance(array, np.ndarray) else np.asarray(array, storage(type_.element))
    if source.shape != type_.shape:
        raise error_here(ArgumentError, f"an array of shape {source.shape} is no {type_}")
    argument = ArrayArgument(device.allocate(_bytes(value)), 0, type_.element, type_.shape)
    device.copy_in(argument, source)
    return argument


def _place(argument: ArrayArgument) -> Place:
    return argument.memory, argument.offset


def _bytes(value: Value) -> int:
    type_ = element_type(value.type)
    return prod(type_.shape) * type_.element.bytes
