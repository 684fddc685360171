"""Loops over bands of rows, drawn at random."""

from __future__ import annotations

from random import Random

from iris.compiler.pipelines import TILE_PIPELINE
from iris.passes import Pipeline, run
from iris.passes.tile.skip_neutral import SkipNeutral
from iris.testing import bands
from iris.testing.choices import Choices
from iris.tools.replay import Program


def some(count: int) -> list[Program]:
    return [bands.made(Choices(Random(seed).randbytes(bands.BYTES))) for seed in range(count)]


def test_iterations_of_many_loops_are_skipped() -> None:
    passes = list(TILE_PIPELINE)
    before = passes[: [p.name for p in passes].index(SkipNeutral.name)]
    skipped = 0
    for program in some(40):
        module = run(program.module, Pipeline(tuple(before)))
        skipped += SkipNeutral().run(module)["loops"] > 0
    assert skipped >= 8
