"""Random graphs: kernels do what the graph says, at every level and on Metal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import one_of

from array_graphs import check_kernels, fused
from every_level import EveryLevel, each_lowered
from iris.compiler.compilation import entry_of
from iris.compiler.graph_program import BufferAssignment
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes import Pipeline, run
from iris.runtime.interpreters import Interpreter
from iris.targets import DEFAULT
from iris.testing import fuses, preserves, programs
from iris.tools.replay import Program
from on_metal import SIMDGROUPS, OnMetal
from support import counts

TOGETHER = 10  # graphs whose kernels are compiled from one text


@given(programs.graph())
def test_the_passes_keep_what_a_graph_returns(program: Program) -> None:
    preserves(GRAPH_PIPELINE, program)


@given(programs.graph(portable=True))
def test_tile_programs_do_what_their_graphs_say(program: Program) -> None:
    check_kernels(fused(program.module), Interpreter(), program.make_arguments())


@settings(max_examples=counts(50, 2000))
@given(one_of(programs.graph(portable=True), programs.graph(portable=True, rounding=True)))
def test_the_kernels_return_what_graphs_do(program: Program) -> None:
    fuses(program)


def test_memory_that_is_taken_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel reads and what it writes are in the same place, which is not right."""

    def in_one_place(self: BufferAssignment, size: int, free: list[int], is_result: bool) -> int:
        self.sizes[:] = [max(size, *self.sizes, 0)]
        return 0

    monkeypatch.setattr(BufferAssignment, "_assign", in_one_place)
    program = Program.parse("""
# argument %x: f32[8, 8] seed=1
func graph @sums returns=[tensor<8x8xf32>, tensor<8x8xf32>](%x: tensor<8x8xf32>) {
  %y: tensor<8x8xf32> = graph.scan sum 0 %x
  %z: tensor<8x8xf32> = graph.scan sum 1 %y
  return %y, %z
}
""")
    with pytest.raises(AssertionError, match="the kernels"):
        fuses(program, seconds=0)


@settings(max_examples=counts(15, 2000))
@given(programs.graph(portable=True))
def test_every_level_does_what_graphs_say(program: Program) -> None:
    check_kernels(fused(program.module), EveryLevel(), program.make_arguments())


@pytest.mark.metal
@pytest.mark.parametrize("fast_math", [False, True])
def test_metal_does_what_graphs_say(fast_math: bool) -> None:
    drawn: list[Program] = []

    @settings(max_examples=counts(10, 2500), phases=[Phase.generate])
    @given(programs.graph(fast_math=fast_math, portable=True))
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    for start in range(0, len(drawn), TOGETHER):
        check_on_metal(drawn[start : start + TOGETHER])


def _lowered(module: Module, pipeline: Pipeline) -> Func:
    """A kernel that can be lowered further, for as many simdgroups as it is run by."""
    entry = entry_of(run(module, pipeline))
    assert [*each_lowered(entry, SIMDGROUPS)]
    return entry


def check_on_metal(chosen: Sequence[Program]) -> None:
    """Run the kernels of some graphs, made from one text."""
    made = [fused(program.module) for program in chosen]
    tiles = [
        [kernel.fitting(Level.TILE, DEFAULT, _lowered) for kernel in one.kernels] for one in made
    ]
    device = OnMetal()
    compiled = iter(device.compile_together([entry for kernels in tiles for entry in kernels]))
    for program, one, kernels in zip(chosen, made, tiles, strict=True):
        launches = [(next(compiled), entry.grid) for entry in kernels]
        try:
            check_kernels(one, device, program.make_arguments(), launches)
        except AssertionError as error:
            raise AssertionError(f"{error}\n\n{program}") from None
