"""The kernels of a graph, and the memory that they hand on to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from iris.compiler.compilation import Options, entry_of, optimize
from iris.ir import graph
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Value
from iris.ir.math import element_type
from iris.ir.scalar import storage
from iris.runtime.buffer import Buffer
from iris.runtime.device import ArrayArgument, Device, Grid, Program


@dataclass(frozen=True)
class GraphKernel:
    """One kernel of a fused graph: what it reads and writes, and its own graph."""

    op: graph.Kernel
    inputs: tuple[Value, ...]
    module: Module  # a function of the inputs

    @property
    def name(self) -> str:
        return self.op.symbol

    @property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(self.op.results)

    @property
    def written_to(self) -> dict[Value, Value]:
        """Of what is scattered to in place, the input whose memory it is in."""
        function = entry_of(self.module)
        parameters = dict(zip(function.body.arguments, self.inputs, strict=True))
        ends = zip(self.outputs, function.body.end.operands, strict=True)
        return {v: parameters[end.op.x] for v, end in ends if isinstance(end.op, graph.Scatter)}

    @property
    def arrays(self) -> list[Value]:
        """What the kernel is given."""
        return [*self.inputs, *(v for v in self.outputs if v not in self.written_to)]

    def compile(self, device: Device) -> tuple[Program, Grid]:
        """What a device runs for it, and on which grid."""
        level = device.accepts if isinstance(device.accepts, Level) else Level.METAL
        options = Options(fast_math=entry_of(self.module).fast_math)
        entry = entry_of(optimize(self.module, options.pipeline(level, Level.GRAPH)))
        source = None
        if not isinstance(device.accepts, Level):
            from iris.codegen.msl import emit  # opened when first used

            source = emit(entry, device.accepts)
        x, y, z = entry.grid
        return device.compile(entry, source), (x, y, z)


def kernels_of(function: Func) -> list[GraphKernel]:
    """The kernels of a function that `fuse` has worked on, in order."""
    return [outlined(op, function) for op in function.body if isinstance(op, graph.Kernel)]


def outlined(op: graph.Kernel, function: Func) -> GraphKernel:
    """What one kernel computes as a function of its own."""
    inside = {v for inner in op.body for v in inner.results}
    used = (v for inner in op.body for v in inner.operands)
    inputs = list(dict.fromkeys(v for v in used if v not in inside))
    made = Func(
        op.symbol,
        Level.GRAPH,
        [(v.name, v.type) for v in inputs],
        returns=tuple([v.type for v in op.results]),
        fast_math=function.fast_math,
        location=op.location,
    )
    mapping = dict(zip(inputs, made.body.arguments, strict=True))
    for inner in op.body:
        if not inner.terminator:
            made.body.append(inner.clone(mapping))
    end = op.body.end
    made.body.append(Return([mapping[v] for v in end.operands], location=end.location))
    return GraphKernel(op, tuple(inputs), Module([made]))


class Places:
    """Where each tensor of a fused graph is: which of some pieces of memory, of which one is used
    again when nobody needs any more what it holds."""

    def __init__(self, function: Func, kernels: Sequence[GraphKernel]):
        self.of: dict[Value, int] = {}
        self.sizes: list[int] = []
        results = {root(v) for v in function.body.end.operands}
        last = {root(v): n for n, kernel in enumerate(kernels) for v in kernel.inputs}
        free: list[int] = []
        for n, kernel in enumerate(kernels):
            for value in kernel.outputs:
                into = kernel.written_to.get(value)
                if into is not None:
                    self.of[value] = self.of[into]
                    continue
                self.of[value] = self._place(_bytes(value), free, value in results)
            # What a kernel reads, it may not write to: it is free only now.
            for value in dict.fromkeys(map(root, kernel.inputs)):
                taken = value in kernel.written_to.values()
                if last[value] == n and value in self.of and value not in results and not taken:
                    free.append(self.of[value])
            free += [self.of[v] for v in kernel.outputs if v not in last and v not in results]

    def _place(self, size: int, free: list[int], is_result: bool) -> int:
        fits = [p for p in free if self.sizes[p] >= size] or free
        if fits and not is_result:
            place = min(fits, key=lambda p: abs(self.sizes[p] - size))
            free.remove(place)
            self.sizes[place] = max(self.sizes[place], size)
            return place
        self.sizes.append(size)
        return len(self.sizes) - 1


def placed(value: Value, array: Any, device: Device) -> ArrayArgument:
    """An argument in the memory of a device."""
    if isinstance(array, Buffer):
        return array.argument
    type_ = element_type(value.type)
    source = array if isinstance(array, np.ndarray) else np.asarray(array, storage(type_.element))
    argument = ArrayArgument(device.allocate(source.nbytes), 0, type_.element, type_.shape)
    device.copy_in(argument, source)
    return argument


def root(value: Value) -> Value:
    """What lies in memory for a value: a reshaped tensor lies there as it was before."""
    while isinstance(value.op, graph.Reshape):
        value = value.op.x
    return value


def _bytes(value: Value) -> int:
    type_ = element_type(value.type)
    return prod(type_.shape) * max(1, type_.element.bits // 8)
