"""Random graphs of long axes: that nothing is wrong with them, and that these are split."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings

from iris.passes.graph.split_reductions import SplitReductions
from iris.targets import imaginary
from iris.testing import all_preserve, divided_axes
from iris.testing.choices import Choices
from iris.tools.replay import Program
from support import counts

SPLIT = SplitReductions(min_part=5, target=imaginary.SLOW_CORES)


@settings(max_examples=counts(20, 1000), deadline=None)
@given(divided_axes.programs())
def test_parts_make_what_the_whole_does(program: Program) -> None:
    all_preserve([SPLIT], program)


def test_many_are_split() -> None:
    rng, found = Random(1), Counter[str]()
    for _ in range(100):
        program = divided_axes.made(Choices(rng.randbytes(divided_axes.BYTES)))
        module = program.module.clone()
        kinds = [str(op.kind.value) for op in module.walk() if hasattr(op, "kind")]
        if SPLIT.run(module)["split"]:
            found.update(kinds)
    assert all(found[kind] for kind in ("prod", "argmax", "argmin", "any", "all", "sum")), found
