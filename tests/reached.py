"""Prints the lines of the compiler that random programs reach on their way to a text, as JSON.

python -m reached
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager

import coverage
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.codegen import emit
from iris.compiler.compilation import Options
from iris.errors import OutOfResources
from iris.ir import math, parse, tile
from iris.ir.control import For
from iris.ir.core import Level
from iris.passes import run
from iris.testing import bands, programs
from iris.tools.replay import Program
from masked_loops import some_program
from support import ROOT, counts

ROOMS = ("analysis", "passes", "codegen")
# What launches may ask for, each with another number of simdgroups; None: what the pass chooses.
OPTIONS = (
    Options(),
    Options(num_simdgroups=1, swizzle=2, preload=True),
    Options(num_simdgroups=2, num_stages=3),
    Options(num_simdgroups=4, swizzle=4, serpentine=True),
    Options(num_simdgroups=8),
)
BLOCKS = [For, math.Add, math.FloorDiv, math.Select, tile.Load, tile.Dot, tile.Reduce, tile.Store]


@contextmanager
def watching(watch: coverage.Coverage) -> Iterator[None]:
    """It makes the code within it slow, so nothing is drawn in there."""
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def compile_all(watch: coverage.Coverage, strategy: SearchStrategy[Program], number: int) -> None:
    drawn: list[Program] = []

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
        drawn.append(program)

    draw()
    with watching(watch):
        for index, program in enumerate(drawn):
            pipeline = OPTIONS[index % len(OPTIONS)].pipeline(Level.METAL)
            try:
                (function,) = run(program.module, pipeline)
            except OutOfResources:
                continue
            emit(function)


def skip_masked(watch: coverage.Coverage, number: int) -> None:
    """Masked loops return values, as no kernel does, so only the pass that is for them is run."""
    modules = [parse(some_program(random.Random(seed))) for seed in range(number)]
    with watching(watch):
        for index, module in enumerate(modules):
            run(module, ("skip-neutral", "cse,licm,skip-neutral")[index % 2])


def main() -> None:
    rooms = [f"{ROOT / 'src' / 'iris' / room}/*" for room in ROOMS]
    watch = coverage.Coverage(data_file=None, config_file=False, include=rooms)
    compile_all(watch, programs.tile(masked=True, max_ops=20), counts(260, 2500))
    compile_all(watch, programs.tile(fast_math=True), counts(30, 1000))
    compile_all(watch, programs.tile(ops=BLOCKS, masked=True), counts(50, 1000))
    compile_all(watch, bands.programs(), counts(40, 500))
    skip_masked(watch, 100)
    data = watch.get_data()
    print(json.dumps({name: data.lines(name) for name in data.measured_files()}))


if __name__ == "__main__":
    main()
