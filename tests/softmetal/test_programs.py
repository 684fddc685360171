"""Random programs on softmetal: what they write is what the interpreter says, in every order.

Apple's compiler would take their texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import wild
from iris.codegen import emit
from iris.codegen.source import Source
from iris.compiler.arguments import place
from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import DeviceError, OutOfResources
from iris.ir import tile
from iris.ir.control import Func
from iris.passes import run as run_passes
from iris.passes.tile.layouts.fragments import is_of_fragments
from iris.runtime import device
from iris.runtime.devices import select
from iris.targets import DEFAULT
from iris.testing import programs
from iris.testing.levels import Disagreement, Expected, with_simdgroups
from iris.testing.texts import runs_alike, together
from iris.tools.replay import Program
from on_metal import order
from support import counts

# The number of simdgroups and the order of threads of a program: of many, each has one of these.
WAYS = counts([(4, 0)], [(n, seed) for n in (1, 4) for seed in range(5)])
TOGETHER = 25  # kernels in a text: a compiler takes long to start


@pytest.fixture(autouse=True)
def held_to_apples_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_SOFTMETAL_STRICT", "1")


def run(compiled: device.Program, program: Program) -> list[Any]:
    """The arguments of a program, once it has run on softmetal."""
    on = select("softmetal")
    arguments = program.make_arguments()
    arrays = {str(i): a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
    placed = place(on, arrays)
    given = [placed.get(str(i), a) for i, a in enumerate(arguments)]
    on.launch(compiled, program.grid, given)
    on.synchronize()
    for name, array in arrays.items():
        on.copy_out(placed[name], array)
    return list(arguments)


def check(chosen: Sequence[Program]) -> None:
    """Run programs as kernels of one text."""
    lowered: list[tuple[Program, Func, Source, int]] = []
    for program, (count, seed) in zip(chosen, cycle(WAYS)):
        passes = with_simdgroups(METAL_PIPELINE, count)
        try:
            function = program.with_module(run_passes(program.module, passes)).function
        except OutOfResources:
            continue
        lowered.append((program, function, emit(function), seed))
    assert len(lowered) > 0.9 * len(chosen), "most programs fit a GPU"
    joined = together([source for _, _, source, _ in lowered])
    for (program, function, own, seed), source in zip(lowered, joined, strict=True):
        compiled = select("softmetal").compile(function, source)
        expected = Expected.of(program, exact_math=False)
        order(seed)
        try:
            expected.compare(run(compiled, program))
        except (Disagreement, DeviceError) as error:
            raise Disagreement(f"{error}\nwith seed {seed}\n\n{program}\n{own.text}") from None


def has_matrices(program: Program) -> bool:
    return any(
        isinstance(op, tile.Dot) and is_of_fragments(op, DEFAULT) for op in program.module.walk()
    )


@pytest.mark.parametrize("change", [lambda p: p, wild.inexact], ids=["as is", "inexact"])
@pytest.mark.parametrize("wanted", [lambda p: True, has_matrices], ids=["any", "with matrices"])
@pytest.mark.parametrize("fast_math", [False, True])
def test_random_programs(
    change: Callable[[Program], Program], wanted: Callable[[Program], bool], fast_math: bool
) -> None:
    drawn: list[Program] = []

    @settings(
        max_examples=counts(15, 2500),
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.filter_too_much],
    )
    @given(programs.tile(masked=True, fast_math=fast_math).filter(wanted))
    def draw(program: Program) -> None:
        drawn.append(change(program))

    draw()
    for start in range(0, len(drawn), TOGETHER):
        check(drawn[start : start + TOGETHER])


def test_random_thread_programs() -> None:
    drawn: list[Program] = []

    @settings(max_examples=counts(15, 2500), phases=[Phase.generate])
    @given(programs.metal(portable=True))
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    for start in range(0, len(drawn), TOGETHER):
        order(start // TOGETHER % 5)
        runs_alike(drawn[start : start + TOGETHER], "softmetal")


def test_equal_texts_may_take_arguments_in_another_order() -> None:
    """Numbers are in one struct, wherever they are among the arrays."""
    in_order = [("%x: ptr<f32>", "f32[8] seed=1"), ("%y: ptr<f32>", "f32[8]"), ("%n: bool", "true")]
    several = []
    for places in ([0, 1, 2], [0, 2, 1]):
        parameters = ", ".join(in_order[i][0] for i in places)
        lines = [f"# argument {in_order[i][0][:2]}: {in_order[i][1]}" for i in places]
        several.append(Program.parse("\n".join([*lines, COPIED.replace("PARAMETERS", parameters)])))
    passes = with_simdgroups(METAL_PIPELINE, 1)
    functions = [p.with_module(run_passes(p.module, passes)).function for p in several]
    assert len({emit(function).text for function in functions}) == 1
    runs_alike(several, "softmetal", simdgroups=1, seconds=1)


COPIED = """# grid: 1, 1, 1

func tile @copied(PARAMETERS) {
  %0: tile<8xi32> = tile.arange 0
  %1: tile<8xf32> = tile.load %x, %0
  tile.store %y, %0, %1
  return
}
"""
