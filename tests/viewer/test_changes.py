"""The text of stages by lines, what passes changed of it, and values that are followed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from iris.compiler.compilation import Compilation, stages_of
from iris.errors import ArgumentError
from iris.ir import parse, to_text
from iris.passes import Pipeline
from iris.viewer.changes import renamed, rows, size
from iris.viewer.listing import listing
from iris.viewer.record import listings_of

KERNEL = """\
func tile @twice(%X: ptr<f32>) {
  %i: tile<64xi32> = tile.arange 0
  %x: tile<64xf32> = tile.load %X, %i
  %dead: tile<64xf32> = neg %x
  %1: tile<64xf32> = add %x, %x
  %2: tile<64xf32> = add %x, %x
  %y: tile<64xf32> = mul %1, %2
  tile.store %X, %i, %y
  return
}
"""


def test_a_listing_is_the_text_with_an_op_for_each_line(attention: Compilation) -> None:
    for stage in (attention.stages[0], attention.stages[-1]):
        text = listing(stage.module)
        assert "\n".join(text.lines) + "\n" == to_text(stage.module)
        assert [op for op in text.ops if op is not None] == stage.module.walk()
        for op, line in zip(text.ops, text.lines, strict=True):
            assert (op is None) == (line.strip() == "}") or "else" in line
            assert op is None or op.name in line
        for value, name in text.names.items():
            defined = text.definition(value)
            assert defined is not None and f"{name}: {value.type}" in text.lines[defined]


def test_lines_of_one_value_stand_beside_each_other() -> None:
    stages = stages_of(parse(KERNEL), Pipeline.parse("cse,dce"))
    one, two, three = listings_of(stages)
    # The second sum is the first one now, and the product has it twice.
    names = renamed(one, two, stages[1].became)
    assert names == {"%1": "%0"}
    paired = rows(one, two, stages[1].became)
    assert [(i, j) for i, j in paired if i is None or j is None] == [(5, None)]
    assert size(paired, one, two, names) == 1  # not the product: it only reads otherwise
    names = renamed(two, three, stages[2].became)
    assert names == {"%dead": ""}
    paired = rows(two, three, stages[2].became)
    assert [(i, j) for i, j in paired if i is None or j is None] == [(3, None)]
    assert size(paired, two, three, names) == 1


def test_rows_have_each_line_once_and_in_order(attention: Compilation) -> None:
    stages = attention.stages
    listings = listings_of(stages)
    for (before, after), stage in zip(pairwise(listings), stages[1:], strict=True):
        paired = rows(before, after, stage.became)
        assert [i for i, _ in paired if i is not None] == list(range(len(before.lines)))
        assert [j for _, j in paired if j is not None] == list(range(len(after.lines)))


@pytest.mark.parametrize("name", ["q", "scores", "p", "rescale", "new", "total_2", "S"])
def test_a_value_is_followed_to_the_end(attention: Compilation, name: str) -> None:
    """Names and lines of Python are carried by other means, and must agree."""
    first, *rest = attention.stages
    (value,) = [v for v, known in listing(first.module).names.items() if known == f"%{name}"]
    place, hint = value.op and value.op.location, value.name
    for stage in rest:
        value = stage.became[value]
        assert value in set(stage.module.values())
        if place is not None:
            assert value.name == hint and value.op is not None and value.op.location == place
    assert stage.name == "mark-nowrap"


def test_a_trace_names_the_passes_that_change_a_value(attention: Compilation) -> None:
    lines = attention.trace("scores").splitlines()
    stages = [line.split()[0] for line in lines]
    assert stages[:3] == ["traced", "assign-layouts", "lower-to-metal"]
    assert "tile<16x32xf32> = mul" in lines[0]
    assert "linear<16x32" in lines[1]
    assert "regs<8xf32> = mul" in lines[2]
    with pytest.raises(ArgumentError, match="no stage has a value called %nothing"):
        attention.trace("%nothing")
