"""`iris view`: show in a browser what kernels are compiled to, pass by pass.

    iris view kernel.iris               writes kernel.html, which is complete in itself
    iris view graph.iris                the graph, and each kernel that it becomes
    iris view train.py                  each kernel and function of arrays that a script launches
    iris view train.py --steps 3        what follows the script's name is the script's
    iris view -o page.html kernel.iris  another file for the page
    iris view --serve train.py          serve the page; a saved file is compiled anew, and shown

The page needs no network.  A kernel from IR text is lowered for sizes of about 1000.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from iris.codegen.emitter import emit
from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import entry_of, stages_of
from iris.compiler.graph_program import GraphProgram
from iris.compiler.recording import recorded
from iris.cost.estimate import estimate
from iris.cost.sample import Sizes
from iris.errors import SettingError
from iris.ir import Level, Module, parse, verify
from iris.ir.control import Func
from iris.targets import DEFAULT, Target
from iris.tools.emit import functions, lowering
from iris.tools.opt import add_target, asked_for, read
from iris.tools.script import environment, run_script
from iris.viewer.page import page, write_page
from iris.viewer.record import kernel_data
from iris.viewer.sources import Sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the page (default: the name.html)")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve the page, and compile again when the file is saved",
    )
    parser.add_argument("file", help="IR text, or a Python script that launches kernels")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run_command(options: argparse.Namespace) -> None:
    if options.serve:
        from iris.tools.view_server import serve  # opened when first used

        asked = ["--target", options.target] if options.target else []
        serve(Path(options.file), [*asked, options.file, *options.arguments])
        return
    target = asked_for(options)
    sources = Sources()
    parts = parts_of(options.file, options.arguments, target, sources)
    name = Path(options.file).stem
    output = options.output or f"{name}.html"
    write_page(output, page(name, parts, sources))
    print(output, file=sys.stderr)


def parts_of(
    file: str, arguments: list[str], target: Target | None, sources: Sources
) -> list[dict[str, Any]]:
    """What there is to show of IR text, or of all that a script launches."""
    if not file.endswith(".py"):
        return parts_of_text(file, target or DEFAULT, sources)
    with environment({} if target is None else {"IRIS_TARGET": target.name}):
        return parts_of_script(file, arguments, sources)


def parts_of_script(script: str, arguments: list[str], sources: Sources) -> list[dict[str, Any]]:
    """What a page shows of all that a script launches."""
    with recorded() as compilations:
        run_script(script, arguments)
    if not compilations:
        raise SettingError(f"{script} launches no kernel that Iris compiles")
    return [part for compilation in compilations for part in compilation.page_parts(sources)]


def parts_of_text(file: str, target: Target, sources: Sources) -> list[dict[str, Any]]:
    """What a page shows of the functions of IR text."""
    module = parse(read(file), file)
    verify(module)
    found = functions(module)
    if not found:
        raise SettingError(f"{file} has no function")
    return [part for function in found for part in _parts_of(function, target, sources)]


def _parts_of(function: Func, target: Target, sources: Sources) -> list[dict[str, Any]]:
    module = Module([function.clone({})])
    if function.function_level is Level.GRAPH:
        program = GraphProgram.of(module, target)
        return ArrayCompilation(module, program, program.run, target).page_parts(sources)
    return [kernel_part(function, target, sources)]


def kernel_part(function: Func, target: Target, sources: Sources) -> dict[str, Any]:
    """What a page shows of a kernel of IR text."""
    module = Module([function.clone({})])
    stages = stages_of(module, lowering(function).on(target))
    last, sizes = entry_of(stages[-1].module), Sizes()
    cost = estimate(last, sizes, target)
    return kernel_data(function.symbol, stages, emit(last), cost, sizes, target, sources)
