"""`iris step`: run IR text op by op in the interpreter of its level, as a debugger does.

    iris step kernel.iris                           program 0, in a terminal
    iris step kernel.iris --program 1,0             another program
    iris step kernel.iris --metal --thread 37       lowered to Metal IR: one thread
    iris step kernel.iris --passes "fold,cse"       after these passes
    echo "c" | iris step kernel.iris                commands from a script: stop at an error only
    printf "break 12\\nc\\nvalues\\n" | iris step kernel.iris     stop at line 12, and show all
    iris step --html run.html kernel.iris           a page to go through the run, back and forth

Commands: step, continue, break LINE or FILE:LINE, watch VALUE, print VALUE, values, list, where,
program, thread, delete, help, quit; the first letter of most will do.  It stops before an op, and
wherever a program does what it must not: a race, an access out of bounds, a failed assertion.  When
the commands end, the run goes on to its end.  Comments in the file say how to launch it, as for
`iris run`.

The exit status is 0 if the program runs to its end, 1 if it fails or a command means nothing.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from iris.compiler.dumps import dumps
from iris.errors import ProgramError, SettingError
from iris.ir import Level, verify
from iris.passes import Pipeline
from iris.passes import run as run_passes
from iris.targets import DEFAULT
from iris.tools.opt import read
from iris.tools.replay import Program
from iris.tools.run import for_level, show_arrays
from iris.tools.step_recorder import StepRecorder
from iris.tools.stepper import Place, Quit, Stepper, numbers
from iris.tools.view import kernel_part
from iris.viewer.page import page, write_page
from iris.viewer.sources import Sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--html", metavar="FILE", help="record the run, and write a page with it here"
    )
    parser.add_argument("file", help="IR text; standard input is for commands")
    parser.add_argument(
        "--program", default="0", metavar="X,Y,Z", help="the one to show (default: %(default)s)"
    )
    parser.add_argument(
        "--thread", type=int, default=0, metavar="N", help="of the program, in Metal IR"
    )
    parser.add_argument("--metal", action="store_true", help="lower it to Metal IR first")
    parser.add_argument(
        "--passes", default="", metavar="PIPELINE", help="run these first (see iris passes)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="add this to the seed of each argument"
    )


def run_command(options: argparse.Namespace) -> int:
    if options.file == "-":
        raise SettingError("standard input is for commands: name a file with the program")
    program = Program.parse(read(options.file), options.file)
    verify(program.module)
    module = run_passes(program.module, Pipeline.parse(options.passes), dumps())
    verify(module)
    program = program.with_module(module)
    if options.metal:
        program = for_level(program, Level.METAL)
    if program.function.function_level is Level.GRAPH:
        raise SettingError(
            "a graph has no programs to step through; `iris dump` writes the Tile IR of its kernels"
        )
    place = numbers(options.program)
    if options.html is not None:
        return _record(program, place, options)
    stepper = Stepper(program.function, program.grid, place, options.thread, sys.stdin, sys.stdout)
    arguments = program.make_arguments(options.seed)
    try:
        program.run(arguments, observer=stepper)
    except Quit:
        return 0
    except ProgramError as error:
        with suppress(Quit):
            stepper.failed(error)
        return 1
    show_arrays(program.function, arguments)
    return 0


def _record(program: Program, place: tuple[int, int, int], options: argparse.Namespace) -> int:
    """Write a page with all that one thread does."""
    function, sources = program.function, Sources()
    recorder = StepRecorder(function, Place.of(function, program.grid, place, options.thread))
    try:
        program.run(program.make_arguments(options.seed), observer=recorder)
    except ProgramError as error:
        recorder.failed(error)
        print(error, file=sys.stderr)
    part = kernel_part(function, DEFAULT, sources) | {"run": recorder.data()}
    write_page(options.html, page(function.symbol, [part], sources))
    return 0 if recorder.error is None else 1
