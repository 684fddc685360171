"""Random programs are made of every op that docs/ops.md lists, and of every kind of it.

Each test prints how many programs have an op that takes part in what they compute, rarest first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.compiler.pipelines import METAL_PIPELINE
from iris.ir import metal, tile
from iris.ir.attributes import OneOf
from iris.ir.core import OPS, Op
from iris.ir.types import DTYPES, DType, ElementType
from iris.passes import Pipeline
from iris.passes import run as run_passes
from iris.passes.tile.lowering.lower_to_metal import LowerToMetal
from iris.testing import programs
from iris.tools.replay import Program
from support import ROOT, counts

# What programs are made in, which all of them have.
FRAME = {"func", "return", "yield"}
# Control flow is of programs that run step by step; a graph has none.
STEPS = {"for", "while", "if"}
# Passes make these of tiles once they have layouts; a program before those passes has none.
OF_PASSES = {"tile.stage", "tile.convert_layout"}
# No pass makes it: it is for programs that are written with layouts.
WRITTEN = {"tile.unstage"}
EFFECTS = (
    tile.Store,
    tile.StoreTile,
    tile.Atomic,
    tile.AtomicCas,
    tile.Assert,
    tile.Print,
    metal.Store,
    metal.Atomic,
    metal.CompareExchange,
    metal.Barrier,
    metal.Copy,
    metal.Fence,
    metal.WaitCopies,
    metal.Assert,
    metal.Print,
)


def listed(*levels: str) -> set[str]:
    """The ops in the sections of docs/ops.md."""
    names: set[str] = set()
    text = (ROOT / "docs/ops.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        if section.split("\n")[0] in levels:
            signatures = re.findall(r"^### `(?:%.* = )?([\w.]+)", section, flags=re.MULTILINE)
            names.update(signatures)
    assert names <= {*OPS}
    return names


def kinds_of(cls: type[Op]) -> set[str]:
    """The op, as a word for each kind that it must be given: `tile.reduce sum`."""
    kinds = {cls.name}
    for attribute in cls.spec.positional_attributes:
        if isinstance(attribute.kind, OneOf):
            kinds |= {f"{cls.name} {word}" for word in attribute.kind.members}
    return kinds


def kinds_in(op: Op) -> set[str]:
    fields = zip(type(op).spec.positional_attributes, op.attributes, strict=False)
    words = {str(value.value) for field, value in fields if isinstance(field.kind, OneOf)}
    return {op.name, *[f"{op.name} {word}" for word in words]}


def reaching(roots: Iterator[Op], outermost: object) -> set[Op]:
    """These ops, and those that take part in what they do."""
    found: set[Op] = set()
    pending = [*roots]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending += [v.op for v in op.operands if v.op is not None]
            pending += [region.end for region in op.regions if region is not outermost]
            pending += [op.parent_op] if op.parent_op is not None else []
    return found


def having_effects(program: Program) -> set[Op]:
    body = program.function.body
    return reaching((op for op in program.function.walk() if isinstance(op, EFFECTS)), body)


def returned(program: Program) -> set[Op]:
    return reaching(iter([program.function.body.end]), program.function.body)


def drawn(strategy: SearchStrategy[Program], number: int) -> list[Program]:
    found: list[Program] = []

    @settings(max_examples=number, phases=[Phase.generate])
    @given(strategy)
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found


LEVELS = [
    pytest.param(
        [programs.tile(masked=False), programs.tile(masked=True)],
        having_effects,
        listed("Shared by all levels", "The tile level") - FRAME - OF_PASSES - WRITTEN,
        id="tile",
    ),
    pytest.param(
        [programs.graph()],
        returned,
        listed("Shared by all levels", "The graph level") - FRAME - STEPS,
        id="graph",
    ),
    pytest.param(
        [programs.metal()],
        having_effects,
        listed("Shared by all levels", "The metal level") - FRAME,
        id="metal",
    ),
]


@pytest.mark.parametrize("strategies, taking_part, ops", LEVELS)
def test_every_op_takes_part_in_what_programs_compute(
    strategies: list[SearchStrategy[Program]],
    taking_part: Callable[[Program], set[Op]],
    ops: set[str],
) -> None:
    number = counts(400, 4000)
    found, dtypes = Counter[str](), Counter[DType]()
    occurring: set[str] = set()
    for strategy in strategies:
        for program in drawn(strategy, number // len(strategies)):
            occurring |= {op.name for op in program.module.walk()}
            reached = taking_part(program)
            found.update({kind for op in reached for kind in kinds_in(op)})
            types = {v.type for op in reached for v in op.results}
            dtypes.update({t.element for t in types if isinstance(t, ElementType)})
    wanted = {kind for name in ops for kind in kinds_of(OPS[name])}
    print(f"\nof {number} programs, those in which an op takes part in what is computed:")
    for name in sorted(wanted, key=lambda name: (found[name], name)):
        print(f"  {name:28} {found[name] / number:5.1%}")
    print("and those with a dtype:")
    for dtype in sorted(DTYPES.values(), key=lambda dtype: dtypes[dtype]):
        print(f"  {dtype.name:28} {dtypes[dtype] / number:5.1%}")
    assert occurring - FRAME <= ops
    assert min(dtypes[dtype] for dtype in DTYPES.values()) >= number // 20
    assert min(found[name] for name in ops) >= number // 200
    assert not [name for name in wanted if not found[name]]


def test_passes_make_the_ops_of_layouts_of_random_programs() -> None:
    passes = METAL_PIPELINE.passes
    lowering = next(n for n, step in enumerate(passes) if isinstance(step, LowerToMetal))
    missing = set(OF_PASSES)
    for program in drawn(programs.tile(ops=[tile.Dot, tile.Store, tile.Transpose]), 40):
        module = run_passes(program.module, Pipeline(passes[:lowering]))
        missing -= {op.name for op in module.walk()}
        if not missing:
            break
    assert not missing
