"""How many neighbours suit the accesses to tiles that have one layout."""

from __future__ import annotations

from textwrap import dedent

from iris.analysis.axis import Axes
from iris.ir import parse
from iris.ir.control import Func
from iris.passes.tile.layouts.access_widths import AccessWidths, has_tiles

BLOCK = "offsets=[%c0, %c0], strides=[%n, %c1], bounds=[%n, %n]"
POINTERS = (("H", "f16"), ("F", "f32"), ("B", "i8"), ("L", "i64"))
HEAD = ", ".join([f"%{name}: ptr<{element}, aligned>" for name, element in POINTERS])
HEAD += ", %m: i32, %yes: bool"
START = """
%n: i32 = assume_divisible 16 %m
%c0: i32 = constant 0
%c1: i32 = constant 1
%at: tile<64xi32> = tile.arange 0
%h: tile<64xf16> = tile.load %H, %at
"""


def widths(body: str) -> dict[str, int]:
    """Those of what is loaded, by name."""
    (function,) = parse(f"func tile @f({HEAD}) {{\n{START}{dedent(body).strip()}\nreturn\n}}\n")
    assert isinstance(function, Func)
    found = AccessWidths([op for op in function.walk() if has_tiles(op)], Axes())
    loads = [op.results[0] for op in function.walk() if op.name.startswith("tile.load")]
    return {value.name or "": found.of(value) for value in loads}


def test_as_many_as_16_bytes_have() -> None:
    body = """
        %b: tile<64xi8> = tile.load %B, %at
        %f: tile<64xf32> = tile.load %F, %at
        %l: tile<64xi64> = tile.load %L, %at
        """
    # Offsets in common are made for each.
    assert widths(body) == {"h": 8, "b": 16, "f": 4, "l": 2}


def test_the_widest_of_those_that_meet_decides() -> None:
    body = """
        %b: tile<64xi8> = tile.load %B, %at
        %x: tile<64xf32> = cast %h
        %y: tile<64xf32> = cast %b
        %z: tile<64xf32> = mul %x, %y
        """
    assert widths(body) == {"h": 8, "b": 8}
    assert widths(body + "tile.store %F, %at, %z") == {"h": 4, "b": 4}


def test_a_gather_meets_its_indices() -> None:
    body = """
        %i: tile<64xi8> = tile.load %B, %at
        %wide: tile<64xi32> = cast %i
        %f: tile<64xf32> = tile.load %F, %wide
        """
    assert widths(body) == {"h": 8, "i": 4, "f": 4}


def test_what_is_broadcast_reduced_or_staged_does_not_meet_the_rest() -> None:
    body = f"""
        %rows: tile<64x64xf16> = tile.load_tile %H, {BLOCK}
        %f: tile<64xf32> = tile.load %F, %at
        %row: tile<1x64xf32> = tile.expand_dims 0 %f
        %all: tile<64x64xf32> = tile.broadcast %row
        %x: tile<64x64xf32> = cast %rows
        %y: tile<64x64xf32> = mul %x, %all
        %s: tile<64xf32> = tile.reduce sum 1 %y
        tile.store %F, %at, %s
        """
    assert widths(body) == {"h": 8, "rows": 8, "f": 4}
    staged = f"""
        %b: tile<64x32xi8> = tile.load_tile %B, {BLOCK}
        %x: tile<64x32xf16> = cast %b
        %0: staged<64x32xf16, (64,32):(40,1)> = tile.stage %x
        """
    assert widths(staged) == {"h": 8, "b": 8}


def test_what_loops_and_branches_carry_meets() -> None:
    loop = """
        %s: tile<64xf16> = for %c0, %n, %c1 (%i: i32, %a: tile<64xf16> = %h) {
          %f: tile<64xf32> = tile.load %F, %at
          %x: tile<64xf32> = cast %a
          %y: tile<64xf32> = mul %x, %f
          %z: tile<64xf16> = cast %y
          yield %z
        }
        """
    assert widths(loop) == {"h": 4, "f": 4}
    branch = """
        %s: tile<64xf16> = if %yes {
          yield %h
        } else {
          %g: tile<64xf16> = tile.load %H, %at
          yield %g
        }
        %f: tile<64xf32> = cast %s
        tile.store %F, %at, %f
        """
    assert widths(branch) == {"h": 4, "g": 4}


def test_neighbours_that_are_not_aligned_are_accessed_one_at_a_time() -> None:
    beside = """
        %one: tile<64xi32> = constant 1
        %next: tile<64xi32> = add %at, %one
        %f: tile<64xf32> = tile.load %F, %next
        """
    assert widths(beside) == {"h": 8, "f": 1}
    sum_ = "%x: tile<64xf32> = cast %h\n%y: tile<64xf32> = add %x, %f"
    assert widths(beside + sum_) == {"h": 1, "f": 1}
    stored = "%x: tile<64xf32> = cast %h\ntile.store %F, %next, %x"
    assert widths(beside + stored) == {"h": 1, "f": 1}


def test_blocks_of_rows_that_are_not_aligned_are_accessed_as_they_are() -> None:
    for stride, width in (("%n", 4), ("%m", 1)):
        block = f"offsets=[%c0, %c0], strides=[{stride}, %c1], bounds=[%n, %n]"
        body = f"%f: tile<64x64xf32> = tile.load_tile %F, {block}"
        assert widths(body) == {"h": 8, "f": width}


def test_a_gather_leaves_the_others_wide() -> None:
    body = """
        %i: tile<64xi32> = cast %h
        %f: tile<64xf32> = tile.load %F, %i
        """
    assert widths(body) == {"h": 4, "f": 4}
