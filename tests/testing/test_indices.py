"""Random programs of a few accesses: what holds of them, and what there is among them."""

from __future__ import annotations

from hypothesis import Phase, given, settings

from iris.ir import metal, tile
from iris.ir.control import For
from iris.ir.types import Ptr
from iris.passes import run
from iris.testing import agree, indices
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(60, 5000))
@given(indices.programs())
def test_lowering_accesses_what_indices_say(program: Program) -> None:
    agree(program, pipeline=indices.INDEXED, simdgroups=(0,))


def test_there_are_all_kinds_of_accesses() -> None:
    """Many move several elements at once, which is what is to be got wrong."""
    drawn: list[Program] = []

    @settings(max_examples=200, phases=[Phase.generate], database=None)
    @given(indices.programs())
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    kinds = [{type(op) for op in program.module.walk()} for program in drawn]
    for kind in (tile.LoadTile, tile.StoreTile, For):
        assert sum(kind in found for found in kinds) > len(drawn) // 20, kind
    wide = sum(map(is_wide, drawn))
    assert wide > len(drawn) // 12


def is_wide(program: Program) -> bool:
    """Whether each access moves several elements: the narrowest decides for all that meet it."""
    lowered = run(program.module, indices.INDEXED)
    moved = [
        op.value if isinstance(op, metal.Store) else op.result
        for op in lowered.walk()
        if isinstance(op, metal.Load | metal.Store) and isinstance(op.base.type, Ptr)
    ]
    return bool(moved) and all(metal.count_of(value.type) > 1 for value in moved)
