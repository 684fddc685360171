"""Random programs that do little but use memory: what holds of them, and what is among them."""

from __future__ import annotations

from collections import Counter

from hypothesis import Phase, given, settings

from iris.ir import metal
from iris.ir.control import For, If, While
from iris.ir.types import Ptr
from iris.passes import run
from iris.testing import exchanges
from iris.testing.simdgroups import interleaves
from iris.testing.turns import DropBarriers
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(40, 2000))
@given(exchanges.programs())
def test_barriers_order_what_they_do(program: Program) -> None:
    interleaves(program)


def test_there_are_all_kinds_of_accesses() -> None:
    """Most have a loop, and need barriers in it, but not as many as they have accesses."""
    drawn: list[Program] = []

    @settings(max_examples=200, phases=[Phase.generate], database=None)
    @given(exchanges.programs())
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    found: Counter[type] = Counter()
    inside = arrays = 0
    for program in drawn:
        found.update({type(op) for op in program.module.walk()})
        arrays += any(isinstance(v.type, Ptr) for v in program.function.body.arguments[:-1])
        made = program.module.clone()
        DropBarriers().run(made)
        made = run(made, "insert-barriers")
        barriers = [op for op in made.walk() if isinstance(op, metal.Barrier)]
        inside += any(isinstance(op.parent_op, For | While) for op in barriers)
    assert found[For] > len(drawn) // 2
    assert inside > len(drawn) // 2
    assert arrays > len(drawn) // 10
    for kind in (While, If, metal.View, metal.Atomic, metal.Foreach):
        assert found[kind] > len(drawn) // 20, kind
