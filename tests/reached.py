"""Prints the lines of the compiler that random programs reach on their way to a text, as JSON.

python -m reached
"""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Sequence

from marked_lines import forget, marked

# isort: split
# What is imported from here on is marked.
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.codegen import emit
from iris.compiler.options import Options
from iris.errors import OutOfResources
from iris.ir import math, parse, tile
from iris.ir.control import For, If, While
from iris.ir.core import Level
from iris.passes import run
from iris.targets import DEFAULT, Target
from iris.targets.apple import M5_TENSORS, M5_TENSORS_IN_MEMORY
from iris.targets.nvidia import H200
from iris.testing import bands, long_rows, plain_products, programs
from iris.tools.replay import Program
from masked_loops import some_program
from support import counts

# What launches may ask for, each with another number of simdgroups; None: what the pass chooses.
OPTIONS = (
    Options(),
    Options(num_simdgroups=1, swizzle=2, preload=True),
    Options(num_simdgroups=2, num_stages=3),
    Options(num_simdgroups=4, swizzle=4, serpentine=True),
    Options(num_simdgroups=8),
)
BLOCKS = [For, math.Add, math.FloorDiv, math.Select, tile.Load, tile.Dot, tile.Reduce, tile.Store]
MOVES = [
    *(math.AssumeDivisible, tile.Flip, tile.Gather, tile.MaskedLoad, tile.Pick, tile.Print),
    *(tile.Reshape, tile.Scan),
]
TURNS = [If, While, For, math.Compare, tile.Atomic, tile.Load, tile.Reduce]
FAST = [math.Add, math.Div, math.Exp, tile.Broadcast, tile.Dot]


def some(strategy: SearchStrategy[Program], number: int) -> list[Program]:
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
    return drawn


def compile_all(drawn: list[Program], targets: Sequence[Target]) -> None:
    for index, program in enumerate(drawn):
        target = targets[index % len(targets)]
        pipeline = OPTIONS[index % len(OPTIONS)].pipeline(Level.METAL, target)
        try:
            (function,) = run(program.module, pipeline)
        except OutOfResources:
            continue
        emit(function)


def skip_masked(number: int) -> None:
    """Masked loops return values, as no kernel does, so only the pass that is for them is run."""
    for seed in range(number):
        module = parse(some_program(random.Random(seed)))
        run(module, ("skip-neutral", "cse,licm,skip-neutral")[seed % 2])


def main() -> None:
    gc.set_threshold(10_000, 50)  # as for tests themselves: see conftest.py
    drawn = [
        some(programs.tile(masked=True, max_ops=20), counts(220, 2500)),
        some(programs.tile(fast_math=True), counts(20, 1000)),
        some(programs.tile(ops=FAST, fast_math=True), counts(30, 300)),
        some(programs.tile(ops=BLOCKS, masked=True), counts(50, 1000)),
        some(programs.tile(ops=MOVES, masked=True), counts(60, 300)),
        some(programs.tile(ops=TURNS), counts(40, 300)),
        some(bands.programs(), counts(60, 500)),
    ]
    copied = some(plain_products.programs(), counts(64, 500))
    long = some(long_rows.programs(), counts(30, 200))
    forget()  # what is called to import and to draw
    for program in long:
        lowering = Options(num_simdgroups=long_rows.SIMDGROUPS).pipeline(Level.METAL, H200)
        run(program.module, lowering)
    for some_programs in drawn:
        compile_all(some_programs, (H200, DEFAULT, M5_TENSORS, DEFAULT))
    for target in (H200, M5_TENSORS_IN_MEMORY):
        compile_all(copied, [target])
    skip_masked(100)
    print(json.dumps(marked()))


if __name__ == "__main__":
    main()
