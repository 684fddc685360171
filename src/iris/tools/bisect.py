"""`iris bisect`: which pass makes a program do something else.

    iris bisect kernel.iris                         the passes that lower it to Metal IR
    iris bisect kernel.iris --passes "fold,cse"     these passes
    iris bisect kernel.iris --simdgroups 4          lowered for as many simdgroups
    iris bisect kernel.iris --device softmetal      if no pass is wrong, the Metal text
    iris bisect kernel.iris --seconds 0             the program as it is, not reduced

The program runs in the interpreter of its level as it is, then after each pass. What becomes of
Tile IR is compared within the error bounds of its operations, and what it stages at once must fit
in threadgroup memory; other IR is compared bit by bit. The first pass after which something is
wrong is named, with what it changed, for the smallest program found in some seconds. Comments in
the file say how to launch it; see iris run --help.

The exit status is 0 if no pass is wrong, 1 if one is or the program fails by itself, and 2 for
wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE
from iris.errors import SettingError
from iris.ir import Level, verify
from iris.passes import Pipeline
from iris.runtime.devices import DEVICES, select
from iris.testing.faults import Oracle, bisect, find_fault
from iris.testing.levels import WithinBounds, with_simdgroups
from iris.testing.oracles import same_bits
from iris.testing.quality import has_room
from iris.testing.reduce import SECONDS
from iris.testing.report import describe
from iris.testing.smallest import smallest
from iris.testing.texts import OnDevice, language_of
from iris.tools.opt import read
from iris.tools.replay import Program

PIPELINES = {
    Level.GRAPH: GRAPH_PIPELINE,
    Level.TILE: METAL_PIPELINE,
    Level.METAL: Pipeline.parse("canonicalize,fold,cse,licm,dce"),
}
ORACLES: dict[Level, Sequence[Oracle]] = {
    Level.GRAPH: [same_bits],
    Level.TILE: [WithinBounds(), has_room],
    Level.METAL: [same_bits],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="IR text (default: standard input)")
    parser.add_argument(
        "--passes", metavar="PIPELINE", help="these passes (default: the passes of the level)"
    )
    parser.add_argument(
        "--simdgroups", type=int, default=0, metavar="N", help="that run a program together"
    )
    parser.add_argument(
        "--device", choices=list(DEVICES), help="where the Metal text is to run, too"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help="for how long to look for a smaller program (default: %(default)g)",
    )


def run_command(options: argparse.Namespace) -> int:
    program = Program.parse(read(options.file), options.file)
    verify(program.module)
    level = program.function.function_level
    given = options.passes is not None
    pipeline = Pipeline.parse(options.passes) if given else PIPELINES[level]
    if options.simdgroups:
        pipeline = with_simdgroups(pipeline, options.simdgroups)
    device = select(options.device) if options.device else None
    if device is not None:
        if level is Level.GRAPH:
            raise SettingError("--device takes Tile IR or Metal IR: a graph has no text of its own")
        language_of(device)
    for oracle in ORACLES[level]:
        fault = bisect(program, pipeline, oracle)
        if fault is not None:
            break
    else:
        if device is not None:
            oracle = OnDevice(device)
            fault = find_fault(program, [pipeline if level is Level.TILE else Pipeline()], oracle)
    if fault is None:
        print(f"no pass is wrong of {pipeline}" if len(pipeline) else "the program runs")
        return 0
    print(describe(smallest(fault, oracle, seconds=options.seconds)))
    return 1
