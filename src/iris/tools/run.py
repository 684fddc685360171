"""`iris run`: launch IR text in the interpreter of its level.

    iris run kernel.iris                        what each written array holds in the end
    iris run kernel.iris --print %Y             all of an array
    iris run graph.iris                         what each array holds that a graph returns
    iris run graph.iris --print "returned[0]"   all of one
    iris run kernel.iris --passes "fold,cse"    after these passes: is anything different?
    iris run kernel.iris --seed 7               on other data
    iris run kernel.iris --device interp:metal  lowered to Metal IR first, if it is Tile IR
    iris run graph.iris --device interp         the kernels that it becomes
    iris run kernel.iris --counters             ... and what a profiler would count (Metal IR)
    iris run kernel.iris --interleave 1         ... its simdgroups by turns in a random order

Comments at the top of the file say how to launch it:

    # entry: @scale                             may be left out if there is one function only
    # grid: 4, 1, 1
    # argument %X: f32[8, 16] seed=3 range=[-4, 4]     whole numbers, drawn; see --seed
    # argument %U: f32[64] seed=3 range=[0.0, 1.0]     any numbers, drawn
    # argument %W: f16[8] data=[1.0, -0.0, nan]        repeated until the array is full
    # argument %Y: f32[64] alias=%X at=32              in the memory of %X, from element 32 on
    # argument %Z: f32[128]                            zeros
    # argument %n: 128                                 a number

A graph has no grid; its arguments have the shapes of its parameters. Where the comments are
missing, the error shows some for the function that is there.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from iris.codegen.emitter import emit
from iris.codegen.language import Language
from iris.compiler.arguments import place
from iris.compiler.compilation import target_of
from iris.compiler.dumps import dumps
from iris.compiler.graph_program import GraphProgram
from iris.errors import SettingError
from iris.interp.memory import memory_dtype
from iris.interp.metal import Counters
from iris.ir import Level, literal, scalar, verify
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.effects import effects_within, writes
from iris.ir.types import DType, Ptr, Tensor
from iris.passes import Pipeline
from iris.passes import run as run_passes
from iris.runtime.device import Device
from iris.runtime.devices import DEVICES, select
from iris.tools.emit import lowering
from iris.tools.opt import read
from iris.tools.replay import Program, Values

FIRST = 8  # how many values of each array are shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="IR text (default: standard input)")
    parser.add_argument(
        "--passes", default="", metavar="PIPELINE", help="run these first (see iris passes)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="add this to the seed of each argument"
    )
    parser.add_argument(
        "--print",
        action="append",
        default=[],
        dest="shown",
        metavar="ARG",
        help="print all of this array, too (may be given more than once)",
    )
    parser.add_argument(
        "--device",
        choices=list(DEVICES),
        help="where to run it (default: the interpreter of its level)",
    )
    parser.add_argument("--counters", action="store_true", help="print what a profiler would count")
    parser.add_argument(
        "--interleave", type=int, metavar="SEED", help="run the simdgroups in a random order"
    )


def run_command(options: argparse.Namespace) -> None:
    for name in ("seed", "interleave"):
        number = getattr(options, name)
        if number is not None and number < 0:
            raise SettingError(f"--{name} is 0 or greater, not {number}")
    pipeline = Pipeline.parse(options.passes)
    program = Program.parse(read(options.file), options.file)
    verify(program.module)
    arrays = _arrays(program.function)
    shown = [name.lstrip("%") for name in options.shown]
    returned = _returned(program.function)
    for name in shown:
        if name not in arrays and name not in returned:
            known = ", ".join([*[f"%{a}" for a in arrays], *returned]) or "none"
            raise SettingError(f"--print: no array is called %{name}; there are {known}")
    if pipeline.passes:
        module = run_passes(program.module, pipeline, dumps())
        verify(module)
        after = program.with_module(module)
        was, now = (p.function.function_level for p in (program, after))
        if was is Level.GRAPH and now is not Level.GRAPH:
            raise SettingError(
                "--passes made a tile program, whose output arrays this file does not declare; "
                f"without {str(pipeline)!r}, --device interp runs the kernels of the graph"
            )
        program = after
    device = None if options.device is None else select(options.device)
    is_graph = program.function.function_level is Level.GRAPH
    if device is not None and not is_graph:
        accepts = device.accepts
        program = for_level(program, Level.METAL if isinstance(accepts, Language) else accepts)
    watching = _watching(program, options)
    arguments = program.make_arguments(options.seed)
    # What the program prints is shown as it ran, also when it ends with an error.
    if device is not None and is_graph:
        results = _run_graph(device, program, arguments)
    elif device is not None and isinstance(device.accepts, Language):
        if watching:
            raise SettingError(
                f"only interpreters have --counters and --interleave, and {device.name} is none"
            )
        results = launch_text(device, device.accepts, program, arguments)
    else:
        results = program.run(arguments, **watching)
    show_arrays(program.function, arguments, shown)
    for name, type_, values in zip(returned, program.function.returns, results, strict=True):
        dtype = type_.element
        if name in shown:
            print(f"{name} = {_listed(dtype, values)}")
        else:
            print(describe(name, dtype, values))
    if options.counters:
        print(watching["counters"])


def launch_text(
    device: Device, language: Language, program: Program, arguments: list[Any]
) -> list[Values]:
    """Run a program as text on a device, where it returns nothing."""
    function = program.function
    names = [parameter.name or "" for parameter in function.body.arguments]
    arrays = {
        name: value
        for name, value in zip(names, arguments, strict=True)
        if isinstance(value, np.ndarray)
    }
    placed = place(device, arrays)
    given = [placed.get(name, value) for name, value in zip(names, arguments, strict=True)]
    device.launch(device.compile(function, emit(function, language)), program.grid, given)
    device.synchronize()
    for name, array in arrays.items():
        device.copy_out(placed[name], array)
    return []


def _run_graph(device: Device, program: Program, arguments: list[Any]) -> list[Values]:
    """Run the kernels of a graph, what they return being kept as the arguments are."""
    made = GraphProgram.of(program.module, target_of(device)).run(device, arguments)
    results = [np.empty(buffer.shape, memory_dtype(buffer.dtype)) for buffer in made]
    for buffer, array in zip(made, results, strict=True):
        device.synchronize(buffer.argument.memory)
        device.copy_out(buffer.argument, array)
    return results


def for_level(program: Program, level: Level) -> Program:
    """The program at the level that a device takes."""
    if level is Level.METAL:
        module = run_passes(program.module, lowering(program.function), dumps())
        verify(module)
        program = program.with_module(module)
    there = program.function.function_level
    if there is not level:
        raise SettingError(
            f"@{program.entry} is at the {there.value} level; "
            f"--device is one that takes the {level.value} level"
        )
    return program


def _watching(program: Program, options: argparse.Namespace) -> dict[str, Any]:
    """What the interpreter is to count, and in which order to go."""
    watching: dict[str, Any] = {}
    if options.counters:
        watching["counters"] = Counters()
    if options.interleave is not None:
        watching["interleave"] = options.interleave
    if watching and program.function.function_level is not Level.METAL:
        raise SettingError(
            f"--{next(iter(watching))} is for Metal IR; add --device interp:metal to lower to it"
        )
    return watching


def show_arrays(function: Func, arguments: Sequence[Any], whole: Collection[str] = ()) -> None:
    """Print a line for each array that a function writes, and all of some arrays."""
    for name, parameter in _arrays(function).items():
        dtype, values = parameter.type.element, arguments[parameter.index]
        if name in whole:
            print(f"%{name} = {_listed(dtype, values)}")
        elif _is_written(function, parameter.index):
            print(describe(f"%{name}", dtype, values))


def _arrays(function: Func) -> dict[str, Value]:
    parameters = function.body.arguments
    return {str(v.name): v for v in parameters if isinstance(v.type, Ptr | Tensor)}


def _is_written(function: Func, index: int) -> bool:
    return function.body.arguments[index] in writes(effects_within(function))


def _returned(function: Func) -> list[str]:
    """What the arrays are called that a function returns."""
    return [f"returned[{index}]" for index in range(len(function.returns))]


def describe(name: str, dtype: DType, values: Values) -> str:
    """An array in a line: what it is, a checksum, and its first values."""
    bits = bits_of(dtype, values)
    shape = ", ".join(map(str, values.shape))
    first = [literal.text(b, dtype) for b in bits[:FIRST].tolist()]
    more = ", ..." if values.size > FIRST else ""
    checksum = zlib.crc32(bits.tobytes())
    return f"{name}: {dtype}[{shape}]  crc {checksum:08x}  [{', '.join(first)}{more}]"


def bits_of(dtype: DType, values: Values) -> Values:
    """The bits of an array's elements in a row, one nan being like another."""
    if values.dtype == np.uint16 and dtype.is_float:  # bf16 is kept as its bits
        values = scalar.from_bits(dtype, values)
    bits = scalar.to_bits(dtype, np.ascontiguousarray(values).reshape(-1))
    if dtype.is_float:
        nan = literal.encode(float("nan"), dtype)
        bits = np.where(np.isnan(values.reshape(-1)), bits.dtype.type(nan), bits)
    return np.asarray(bits)


def _listed(dtype: DType, values: Values) -> str:
    bits = bits_of(dtype, values).reshape(values.shape)
    return np.array2string(
        bits,
        separator=", ",
        formatter={"int": lambda b: literal.text(int(b), dtype)},
        threshold=max(1, bits.size),
        max_line_width=96,
    )
