"""`iris emit`: print the kernel text of IR text, in the Metal Shading Language or CUDA C++.

    iris emit kernel.iris                   Tile IR, after the passes that lead to Metal IR
    iris emit lowered.iris                  Metal IR, once its register shapes are chosen
    iris emit graph.iris                    Graph IR: all kernels that it becomes
    iris emit --passes "..." kernel.iris    after these passes instead
    iris emit --entry @scale kernels.iris   one function of several
    iris emit --target apple-m4 kernel.iris for another GPU
    iris emit --language cuda kernel.iris   in CUDA C++
    iris emit --metallib app.metallib kernel.iris
                                            compiled by Xcode, as a library, instead of the text
    iris emit --estimate kernel.iris        what it costs on some GPUs, instead of the text

Comments in the file, such as those for `iris run`, do not matter.
"""

from __future__ import annotations

import argparse

from iris.codegen.emitter import emit
from iris.codegen.languages.cuda import CUDA
from iris.codegen.languages.msl import MSL
from iris.compiler.compilation import optimize
from iris.compiler.graph_program import GraphProgram
from iris.compiler.metallib import link
from iris.compiler.pipelines import METAL_PIPELINE, TEXT_PIPELINE
from iris.cost.estimate import estimate
from iris.errors import SettingError
from iris.ir import Level, Module, parse, verify
from iris.ir.control import Func
from iris.passes import Pipeline
from iris.passes.graph.graph_to_tile import GraphToTile
from iris.passes.graph.schedule import Schedule
from iris.passes.graph.tiling.kernel_regions import is_scheduled
from iris.targets import DEFAULT, Target
from iris.tools.colours import show
from iris.tools.opt import add_target, asked_for, read, write

LANGUAGES = {"msl": MSL, "cuda": CUDA}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="IR text (default: standard input)")
    parser.add_argument(
        "--passes", metavar="PIPELINE", help="run these first, and no others (see iris passes)"
    )
    parser.add_argument("--entry", metavar="FUNC", help="the function, where there are several")
    parser.add_argument(
        "--estimate",
        action="store_true",
        help="print what a program costs, for sizes of about 1000",
    )
    add_target(parser)
    parser.add_argument(
        "--language", choices=LANGUAGES, default="msl", help="of the text (default: %(default)s)"
    )
    parser.add_argument(
        "--metallib", metavar="FILE", help="compile it with Xcode, and write the library here"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write here, not to standard output")


def run_command(options: argparse.Namespace) -> None:
    module = parse(read(options.file), options.file)
    verify(module)
    function = choose(module, options.entry)
    target = asked_for(options)
    if options.passes is not None:
        pipeline = Pipeline.parse(options.passes)
        if target is not None:
            pipeline = pipeline.on(target)
        kernels = after(pipeline, function, target or DEFAULT)
    else:
        kernels = lowered(function, target or DEFAULT)
    if options.metallib is not None:
        link([emit(kernel) for kernel in kernels], options.metallib)
        return
    if options.estimate:
        texts = [f"{estimate(k, target=target or DEFAULT)}\n" for k in kernels]
    else:
        texts = [emit(k, LANGUAGES[options.language]).text for k in kernels]
    text = "\n".join(texts)
    if options.output is None:
        show(text, "metal")
    else:
        write(options.output, text)


def after(pipeline: Pipeline, function: Func, target: Target = DEFAULT) -> list[Func]:
    """The function at the level of Metal IR, which some passes lead to; of a graph for whose
    kernels they choose schedules, the kernels."""
    module = optimize(Module([function.clone({})]), pipeline)
    verify(module)
    (made,) = functions(module)
    level = made.function_level
    if level is Level.GRAPH and is_scheduled(made):
        return _kernels(GraphProgram(module), target)
    if level is not Level.METAL:
        first = f"{Schedule.name},{GraphToTile.name}," if level is Level.GRAPH else ""
        raise SettingError(
            f"@{function.symbol} is at the {level.value} level, after the passes "
            f"{str(pipeline)!r}; those that lead to Metal IR from there are {first}{METAL_PIPELINE}"
        )
    return [made]


def lowered(function: Func, target: Target = DEFAULT) -> list[Func]:
    """What a function becomes at the level of Metal IR: several kernels, if it is a graph."""
    module = Module([function.clone({})])
    if function.function_level is Level.GRAPH:
        return _kernels(GraphProgram.of(module, target), target)
    module = optimize(module, lowering(function).on(target))
    verify(module)
    return functions(module)


def _kernels(program: GraphProgram, target: Target) -> list[Func]:
    return [kernel.lowered(Level.METAL, target) for kernel in program.kernels]


def lowering(function: Func) -> Pipeline:
    """The passes that lead from a function to Metal IR."""
    is_metal = function.function_level is Level.METAL
    return TEXT_PIPELINE if is_metal else METAL_PIPELINE


def functions(module: Module) -> list[Func]:
    return [op for op in module if isinstance(op, Func)]


def choose(module: Module, name: str | None) -> Func:
    """The function called so, or the only one."""
    there = {f.symbol: f for f in functions(module)}
    if not there:
        raise SettingError("the text has no function")
    listed = ", ".join(f"@{symbol}" for symbol in there) or "none"
    if name is None:
        if len(there) != 1:
            raise SettingError(f"name one function with --entry; there are {listed}")
        (name,) = there
    name = name.removeprefix("@")
    if name not in there:
        raise SettingError(f"--entry: no function is called @{name}; there are {listed}")
    return there[name]
