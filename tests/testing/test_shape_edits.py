"""Tiles and tensors get smaller along one axis, and lose axes."""

from __future__ import annotations

from contextlib import suppress

from iris.errors import IrisError
from iris.ir import to_text, verify
from iris.testing.edits import ops_of
from iris.testing.reduce import reduce
from iris.testing.shape_edits import of_shapes
from iris.tools.replay import Program

COLUMNS = """\
# grid: 1, 1, 1
# argument %X: i32[8]
# argument %Y: i32[4, 8]

func tile @f(%X: ptr<i32>, %Y: ptr<i32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c4: i32 = constant 4
  %c8: i32 = constant 8
  %i: tile<8xi32> = tile.arange 0
  %row: tile<1x8xi32> = tile.expand_dims 0 %i
  %x: tile<1x8xi32> = tile.load_tile %X, offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c1, %c8]
  %sum: tile<1x8xi32> = add %x, %row
  %all: tile<4x8xi32> = tile.broadcast %sum
  tile.store_tile %Y, %all, offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c4, %c8]
  return
}
"""


def names(program: Program) -> list[str]:
    return [op.name for op in ops_of(program) if op.name != "constant"]


def is_valid(program: Program) -> bool:
    with suppress(IrisError):
        verify(program.module)
        return True
    return False


def test_one_axis_shrinks_and_then_goes() -> None:
    """All eight columns must stay, and what they have is loaded and added."""

    def fails(candidate: Program) -> bool:
        text = str(candidate)
        found = names(candidate)
        return "8xi32" in text and {"tile.load_tile", "add", "tile.arange"} <= {*found}

    small = reduce(Program.parse(COLUMNS), fails)
    assert names(small) == ["tile.arange", "tile.load_tile", "add", "return"]
    assert "tile<8xi32>" in str(small) and "x8" not in str(small)


def test_an_axis_of_one_goes_with_its_offset_stride_and_bound() -> None:
    program = Program.parse(
        COLUMNS.replace("tile<4x8xi32>", "tile<1x8xi32>").replace("%c4,", "%c1,")
    )
    shorter = [edit(program) for edit in of_shapes(program)]
    texts = [to_text(p.module) for p in shorter if p is not None]
    (flat,) = [
        p
        for p, text in zip(shorter, texts, strict=True)
        if "1x8" not in text and "8xi32" in text and is_valid(p)
    ]
    before, after = program.make_arguments(), flat.make_arguments()
    program.run(before)
    flat.run(after)
    assert before[1].tolist() == after[1].tolist()
    assert before[1].any()
    assert names(flat) == ["tile.arange", "tile.load_tile", "add", "tile.store_tile", "return"]


def test_tensors_lose_axes_too() -> None:
    program = Program.parse(
        """\
# argument %x: i32[1, 6]

func graph @f returns=[tensor<1x6xi32>](%x: tensor<1x6xi32>) {
  %y: tensor<6xi32> = graph.reshape %x
  %z: tensor<1x6xi32> = graph.reshape %y
  return %z
}
"""
    )
    flat = [p for edit in of_shapes(program) if (p := edit(program)) is not None and is_valid(p)]
    assert [names(p) for p in flat if "1x6" not in str(p) and "6xi32" in str(p)] == [["return"]]
