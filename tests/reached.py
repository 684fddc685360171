"""Prints the lines of the compiler that random programs reach on their way to a text, as JSON.

python -m reached
"""

from __future__ import annotations

import json

import coverage
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.codegen import emit
from iris.compiler.compilation import METAL_PIPELINE
from iris.compiler.graph_program import GraphProgram
from iris.errors import OutOfResources
from iris.ir import math, tile
from iris.ir.control import For
from iris.ir.core import Level
from iris.passes import run
from iris.targets import DEFAULT
from iris.testing import programs
from iris.testing.levels import with_simdgroups
from iris.tools.replay import Program
from support import ROOT, counts

ROOMS = ("analysis", "passes", "codegen")
SIMDGROUPS = (0, 1, 2, 4, 8)  # 0: as many as the pass chooses
BLOCKS = [For, math.Add, math.FloorDiv, math.Select, tile.Load, tile.Dot, tile.Reduce, tile.Store]


def drawn(strategy: SearchStrategy[Program], number: int) -> list[Program]:
    found: list[Program] = []

    @settings(
        max_examples=number,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(strategy)
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found


def compile_all(strategy: SearchStrategy[Program], number: int) -> None:
    for index, program in enumerate(drawn(strategy, number)):
        pipeline = with_simdgroups(METAL_PIPELINE, SIMDGROUPS[index % len(SIMDGROUPS)])
        try:
            (function,) = run(program.module, pipeline)
        except OutOfResources:
            continue
        emit(function)


def compile_graphs(number: int) -> None:
    """Graphs lead to loops that random programs of tiles do not have, such as masked softmaxes."""
    for program in drawn(programs.graph(rounding=True, portable=True, max_ops=24), number):
        for kernel in GraphProgram.of(program.module, DEFAULT).equal:
            emit(kernel.lowered(Level.METAL, DEFAULT))


def main() -> None:
    rooms = [f"{ROOT / 'src' / 'iris' / room}/*" for room in ROOMS]
    watch = coverage.Coverage(data_file=None, config_file=False, include=rooms)
    watch.start()
    try:
        compile_all(programs.tile(masked=True, max_ops=20), counts(260, 2500))
        compile_all(programs.tile(fast_math=True), counts(30, 1000))
        compile_all(programs.tile(ops=BLOCKS, masked=True), counts(50, 1000))
        compile_graphs(counts(80, 1000))
    finally:
        watch.stop()
    data = watch.get_data()
    print(json.dumps({name: data.lines(name) for name in data.measured_files()}))


if __name__ == "__main__":
    main()
