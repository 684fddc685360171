"""Running graphs kernel by kernel, and holding each kernel against what the graph says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from iris.compiler.compilation import entry_of
from iris.compiler.graph_kernels import GraphKernel, compile_all
from iris.compiler.graph_program import GraphProgram
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.interp import graph as graph_interpreter
from iris.interp.memory import memory_dtype
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import Module, Value
from iris.ir.graph import storage_root
from iris.ir.math import element_type
from iris.ir.scalar import from_bits
from iris.ir.types import bf16, f16, f32
from iris.passes import run
from iris.passes.instruments import Check
from iris.runtime.device import Array, ArrayArgument, Device, Grid, Program


def fused(module: Module) -> GraphProgram:
    """A graph with its kernels, after all passes; every stage is valid."""
    return GraphProgram(run(module, GRAPH_PIPELINE, [Check(verify)]))


def function_of(text: str) -> Func:
    return entry_of(parse(text))


def arguments_for(function: Func, seed: int = 0) -> list[Array]:
    """Small numbers, integers among them, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    made = []
    for parameter in function.body.arguments:
        type_ = element_type(parameter.type)
        numbers = rng.integers(-3, 4, type_.shape)
        if type_.element is f32 or type_.element is f16:
            made.append(numbers.astype(f"f{type_.element.bits // 8}"))
        else:
            made.append(np.abs(numbers).astype(np.int32))
    return made


def meaning(function: Func, arguments: Sequence[Array]) -> list[Array]:
    """What a graph returns."""
    return graph_interpreter.run(function, [np.array(a) for a in arguments])


def check_kernels(
    program: GraphProgram,
    device: Device,
    arguments: Sequence[Array],
    compiled: Iterable[tuple[Program, Grid]] | None = None,
) -> None:
    """Each kernel, given what the graph says that it reads, writes what the graph says; the kernels
    may be compiled already."""
    known: dict[Value, Array] = dict(zip(program.function.body.arguments, arguments, strict=True))
    if compiled is None:
        compiled = compile_all(program.kernels, device)
    for kernel, (code, grid) in zip(program.kernels, compiled, strict=True):
        given = [known[storage_root(v)].reshape(element_type(v.type).shape) for v in kernel.inputs]
        expected = meaning(entry_of(kernel.module), given)
        found = _run(kernel, device, given, code, grid)
        for value, was, now in zip(kernel.outputs, expected, found, strict=True):
            both = (_numbers(value, x) for x in (now, was))
            np.testing.assert_array_equal(*both, err_msg=f"{kernel.name}\n{kernel.module}")
            known[value] = was


def run_kernel(kernel: GraphKernel, device: Device, given: Sequence[Array]) -> list[Array]:
    """What a kernel writes on a device."""
    return _run(kernel, device, given, *compile_all([kernel], device)[0])


def _run(
    kernel: GraphKernel, device: Device, given: Sequence[Array], compiled: Program, grid: Grid
) -> list[Array]:
    placed: dict[Value, Any] = {}
    for value, array in zip(kernel.inputs, given, strict=True):
        placed[value] = _memory(value, device)
        device.copy_in(placed[value], array)
    for value in kernel.outputs:
        into = kernel.written_to.get(value)
        placed[value] = _memory(value, device) if into is None else placed[into]
    device.launch(compiled, grid, [placed[v] for v in kernel.arrays])
    results = []
    for value in kernel.outputs:
        argument = placed[value]
        device.synchronize(argument.memory)
        results.append(np.empty(argument.shape, stored(value)))
        device.copy_out(argument, results[-1])
    return results


def _numbers(value: Value, array: Array) -> Array:
    """The numbers of an array, of which nan is one, whatever its bits."""
    element = element_type(value.type).element
    return from_bits(element, array) if element is bf16 else array


def stored(value: Value) -> np.dtype[Any]:
    """The dtype of a tensor's elements in memory."""
    return memory_dtype(element_type(value.type).element)


def _memory(value: Value, device: Device) -> Any:
    type_ = element_type(value.type)
    size = int(np.prod(type_.shape)) * stored(value).itemsize
    return ArrayArgument(device.allocate(size), 0, type_.element, type_.shape)
