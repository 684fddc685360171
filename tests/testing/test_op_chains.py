"""Random chains of ops: that nothing is wrong with them, and which op of which other they have."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings

from iris.ir import graph, math
from iris.passes import Pipeline
from iris.testing import all_preserve, fuses, op_chains
from iris.testing.choices import Choices
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(20, 1000), deadline=None)
@given(op_chains.programs())
def test_chains_are_kept_and_fused(program: Program) -> None:
    all_preserve(["simplify"], program)
    fuses(program, pipeline=Pipeline())


def test_ops_follow_each_other() -> None:
    rng, pairs = Random(1), Counter[tuple[type, type]]()
    for _ in range(600):
        program = op_chains.made(Choices(rng.randbytes(op_chains.BYTES)))
        for op in program.module.walk():
            pairs.update([(type(op), type(v.op)) for v in op.operands if v.op is not None])
    moving = (graph.Slice, graph.Transpose, graph.Reshape, graph.Broadcast, graph.Concat, graph.Pad)
    rare = [
        (outer.__name__, inner.__name__)
        for outer in (*moving, graph.Reduce, math.Select, math.Sub)
        for inner in moving
        if pairs[outer, inner] < 2
    ]
    assert not rare
