"""Edits of what programs load and store do what they say, and lead to small programs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from iris.errors import IrisError, ProgramError
from iris.ir import verify
from iris.ir.math import Constant
from iris.testing import programs
from iris.testing.edits import ops_of
from iris.testing.memory_edits import of_allocations, of_memory
from iris.testing.reduce import reduce
from iris.tools.replay import Program
from iris.tools.run import bits_of


def written(program: Program) -> list[bytes]:
    """The bits of the arguments after a run."""
    arguments = program.make_arguments()
    program.run(arguments, output=lambda line: None)
    return [
        bits_of(recipe.dtype, np.asarray(x)).tobytes()
        for recipe, x in zip(program.arguments, arguments, strict=True)
    ]


def is_valid(program: Program) -> bool:
    try:
        verify(program.module)
    except IrisError:
        return False
    return True


def check_data(program: Program) -> int:
    """A value outside loops and branches is what it was, wherever it is taken from; how many edits
    there were."""
    expected, tried = written(program), 0
    for position, op in enumerate(ops_of(program)):
        if op.parent is not program.function.body or not op.results:
            continue
        for edit in of_memory(op, position):
            made = edit(program)
            if made is not None:
                verify(made.module)
                assert written(made)[: len(expected)] == expected
                tried += 1
    return tried


@settings(max_examples=20)
@given(programs.tile(max_ops=8))
def test_what_is_computed_once_is_data(program: Program) -> None:
    check_data(program)


def test_what_is_computed_in_a_layout_is_data() -> None:
    """What is loaded from the array that has it is laid out as it was."""
    layout = "linear<8, register=[4], lane=[1, 2, 0, 0, 0], simdgroup=[]>"
    tiles, floats = f"tile<8xi32, {layout}>", f"tile<8xf32, {layout}>"
    program = Program.parse(
        f"""\
# grid: 1, 1, 1
# argument %X: f32[8] seed=1
# argument %Y: f32[8]

func tile @f simdgroups=1(%X: ptr<f32>, %Y: ptr<f32>) {{
  %i: {tiles} = tile.arange 0
  %x: {floats} = tile.load %X, %i
  %y: {floats} = tile.scan sum 0 %x
  tile.store %Y, %i, %y
  return
}}
"""
    )
    assert check_data(program) == 1


def computing(program: Program) -> list[str]:
    """The ops of a program but for constants."""
    return [op.name for op in ops_of(program) if not isinstance(op, Constant)]


MASKED = """\
# grid: 1, 1, 1
# argument %X: f32[16] seed=3 range=[2, 8]
# argument %Y: i32[64] data=[1]

func tile @f(%X: ptr<f32>, %Y: ptr<i32>) {
  %i: tile<8xi32> = tile.arange 0
  %column: tile<8x1xi32> = tile.expand_dims 1 %i
  %columns: tile<8x8xi32> = tile.broadcast %column
  %row: tile<1x8xi32> = tile.expand_dims 0 %i
  %rows: tile<8x8xi32> = tile.broadcast %row
  %below: tile<8x8xbool> = compare gt %columns, %rows
  %at: tile<8x8xi32> = add %columns, %rows
  %x: tile<8x8xf32> = tile.masked_load %X, %at, %below
  %y: tile<8x8xi32> = cast %x
  %c8: tile<8x8xi32> = constant 8
  %start: tile<8x8xi32> = mul %columns, %c8
  %place: tile<8x8xi32> = add %start, %rows
  tile.store %Y, %place, %y
  return
}
"""


def test_a_mask_is_loaded_and_a_tile_is_stored_as_a_whole() -> None:
    def fails(candidate: Program) -> bool:
        """What is masked is not stored: 28 elements are."""
        before, after = candidate.make_arguments(), candidate.make_arguments()
        with suppress(ProgramError):
            candidate.run(after)
        return any((x != y).sum() == 28 for x, y in zip(before, after, strict=True))

    small = reduce(Program.parse(MASKED), fails)
    assert computing(small) == ["tile.load_tile", "tile.masked_load", "tile.store_tile", "return"]


STORES = """\
# grid: 1, 1, 1
# argument %X: f32[1]
# argument %Y: f32[32]

func metal @f simdgroups=1(%X: ptr<f32>, %Y: ptr<f32>) {
  %lane: i32 = metal.lane
  %c0: i32 = constant 0
  %one: f32 = constant 1.0
  %shared: threadgroup<100xf32> = metal.alloc
  metal.store %shared, %lane, %one
  %x: f32 = metal.load %X, %c0
  %y: f32 = metal.load %shared, %lane
  %z: f32 = add %y, %y
  metal.store %Y, %lane, %z
  return
}
"""


def edited(text: str, name: str, *, number: int = 0) -> list[Program]:
    """What becomes of a program by the edits of one of the ops of a name."""
    program = Program.parse(text)
    found = [i for i, op in enumerate(ops_of(program)) if op.name == name]
    op = ops_of(program)[found[number]]
    made = [edit(program) for edit in of_memory(op, found[number])]
    return [p for p in made if p is not None and is_valid(p)]


def test_a_number_is_in_place_of_what_threads_compute_alike() -> None:
    """What only that needed goes."""
    (small,) = [p for p in edited(STORES, "add") if "constant 2.0" in str(p)]
    assert written(small) == written(Program.parse(STORES))
    assert [name for name in computing(small) if name != "metal.store"] == [
        *("metal.lane", "metal.alloc", "metal.load", "return")
    ]


def test_one_store_stands_for_two() -> None:
    smaller = [computing(p).count("metal.store") for p in edited(STORES, "metal.store", number=1)]
    assert 1 in smaller


def test_a_number_is_stored_where_a_value_was_loaded() -> None:
    text = STORES.replace("metal.store %Y, %lane, %z", "metal.store %Y, %lane, %y")
    stored = [p for p in edited(text, "metal.store", number=1) if "%Y, " not in str(p)]
    assert any(computing(p).count("metal.store") == 2 for p in stored)


BLOCKS = """\
# grid: 1, 1, 1
# argument %X: i32[20] seed=1
# argument %Y: i32[8]
# argument %Z: i32[9] data=[1, 2, 3]

func tile @f(%X: ptr<i32>, %Y: ptr<i32>, %Z: ptr<i32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c8: i32 = constant 8
  %i: tile<8xi32> = tile.arange 0
  %twelve: tile<8xi32> = constant 12
  %at: tile<8xi32> = add %i, %twelve
  %x: tile<8xi32> = tile.load %X, %at
  tile.store_tile %Y, %x, offsets=[%c0], strides=[%c1], bounds=[%c8]
  %one: tile<8xi32> = constant 1
  %next: tile<8xi32> = add %one, %i
  %z: tile<8xi32> = tile.load %Z, %next
  tile.store %Y, %i, %z
  return
}
"""


def test_a_number_is_stored_where_a_block_was_loaded() -> None:
    (stored,) = [p for p in edited(BLOCKS, "tile.store_tile") if "%X, %at" in str(p)]
    assert "tile.store_tile" not in computing(stored)
    x, y, _ = stored.make_arguments()
    stored.run([x, y, np.zeros(9, np.int32)], output=lambda line: None)
    np.testing.assert_array_equal(x[12:], 1)


@pytest.mark.parametrize(("array", "number"), [(0, 0), (2, 1)])
def test_an_array_begins_where_it_is_accessed(array: int, number: int) -> None:
    """What is loaded is what it was, and an index past the end would be past it again."""
    shorter = [
        p for p in edited(BLOCKS, "tile.load", number=number) if p.arguments[array].shape == (8,)
    ]
    (small,) = shorter
    assert computing(small).count("add") == 1
    if small.arguments[array].data:
        assert written(small)[1] == written(Program.parse(BLOCKS))[1]
    fewer = [replace(r, shape=(7,)) if n == array else r for n, r in enumerate(small.arguments)]
    with pytest.raises(ProgramError, match="index 7 is outside"):
        written(replace(small, arguments=tuple(fewer)))


def test_allocations_shrink() -> None:
    program = Program.parse(STORES)
    counts = [str(edit(program)).count("threadgroup<50xf32>") for edit in of_allocations(program)]
    assert sorted(counts) == [0, 0, 1, 1]
    small = reduce(program, lambda p: "metal.alloc" in computing(p))
    assert "threadgroup<1xf32>" in str(small)


def test_one_allocation_of_a_size_shrinks_alone() -> None:
    line = "  %shared: threadgroup<100xf32> = metal.alloc\n"
    program = Program.parse(STORES.replace(line, line + line.replace("shared", "other")))

    def fails(candidate: Program) -> bool:
        """The one needs all that it has."""
        return "threadgroup<100xf32>" in str(candidate) and (
            computing(candidate).count("metal.alloc") == 2
        )

    assert "threadgroup<1xf32>" in str(reduce(program, fails))


def test_memory_of_the_threadgroup_becomes_an_argument() -> None:
    (made,) = [p for p in edited(STORES, "metal.alloc") if "metal.alloc" not in computing(p)]
    assert written(made)[:2] == written(Program.parse(STORES))
    assert len(made.arguments) == 3


def test_an_element_is_loaded_in_place_of_what_is_made_of_several() -> None:
    text = STORES.replace(
        "%y: f32 = metal.load %shared, %lane",
        "%c4: i32 = constant 4\n  %at: i32 = mul %c0, %c4\n"
        "  %part: regs<4xf32> = metal.load %shared, %at\n  %y: f32 = metal.take [0] %part",
    )
    made = [p for p in edited(text, "metal.take") if computing(p).count("metal.load") == 2]
    # One loads what its lane has stored.
    (same,) = [p for p in made if str(p).count("metal.load %shared, %lane")]
    assert written(same) == written(Program.parse(STORES))


def test_what_a_loop_yields_is_stored_in_it() -> None:
    text = """\
# grid: 1, 1, 1
# argument %Y: i32[1]

func tile @f(%Y: ptr<i32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c5: i32 = constant 5
  %last: i32 = for %c0, %c5, %c1 (%i: i32, %x: i32 = %c0) {
    %next: i32 = add %i, %c5
    yield %next
  }
  tile.store %Y, %c0, %last
  return
}
"""
    made = [p for p in edited(text, "tile.store") if "data" not in str(p)]
    assert [written(p) for p in made] == [written(Program.parse(text))]
    assert computing(made[0]) == ["for", "add", "tile.store", "yield", "return"]
