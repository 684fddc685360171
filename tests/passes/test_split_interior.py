"""Splitting off the interior: what becomes of loops and programs, and that they do the same."""

from __future__ import annotations

import itertools
import random
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from iris.compiler.compilation import METAL_PIPELINE
from iris.interp import metal, tile
from iris.ir import control, math, parse, verify
from iris.ir import tile as tile_ir
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import run
from iris.passes.split_interior import SplitInterior
from iris.testing import preserves, programs
from iris.testing.levels import with_simdgroups
from iris.tools.replay import Program
from support import counts

HEAD = "%X: ptr<f32, noalias, aligned>, %Y: ptr<f32, noalias, aligned>, %n: i32, %m: i32"
START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%c64: i32 = constant 64
"""
PASSES = "split-interior,fold,canonicalize,cse,dce"
LEAST, MOST = -(2**31), 2**31 - 1


def module(body: str) -> Module:
    lines = f"{START.strip()}\n{dedent(body).strip()}\nreturn"
    return parse(f"func tile @f({HEAD}) {{\n{indent(lines, '  ')}\n}}\n")


def split(body: str) -> str:
    done = run(module(body), PASSES)
    verify(done)
    assert parse(str(done)) == done
    lines = dedent("\n".join(str(done).splitlines()[1:-2])).splitlines()
    return "\n".join(line for line in lines if " = constant" not in line)


def becomes(body: str, expected: str) -> None:
    assert split(body) == dedent(expected).strip()


def stays(body: str) -> None:
    assert run(module(body), "split-interior") == module(body)


def copy(at: str, bound: str, pad: int = 0) -> str:
    place = f"offsets=[{at}], strides=[%c1], bounds=[{bound}]"
    lines = f"%x: tile<64xf32> = tile.load_tile %X, {place}\ntile.store_tile %Y, %x, {place}"
    return indent(lines, " " * pad).strip()


def loop(lower: str, upper: str = "%n", step: str = "%c64", bound: str = "%n") -> str:
    return f"for {lower}, {upper}, {step} (%i: i32) {{\n  {copy('%i', bound, 2)}\n  yield\n}}"


# Loops.


def test_a_loop_is_split_at_its_last_whole_block() -> None:
    becomes(
        f"""
        for %c0, %n, %c64 (%i: i32) {{
          {copy("%i", "%n", 10)}
          yield
        }}
        """,
        """
        %0: i32 = maximum %n, %c0
        %1: i32 = floordiv %0, %c64
        %whole: i32 = mul %1, %c64
        for %c0, %whole, %c64 (%i: i32) {
          %2: i32 = add %i, %c64
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%2]
          tile.store_tile %Y, %x, offsets=[%i], strides=[%c1], bounds=[%2]
          yield
        }
        for %whole, %n, %c64 (%i_1: i32) {
          %x_1: tile<64xf32> = tile.load_tile %X, offsets=[%i_1], strides=[%c1], bounds=[%n]
          tile.store_tile %Y, %x_1, offsets=[%i_1], strides=[%c1], bounds=[%n]
          yield
        }
        """,
    )


def test_where_the_block_divides_the_size_there_is_no_edge() -> None:
    becomes(
        f"""
        %n64: i32 = assume_divisible 64 %n
        for %c0, %n64, %c64 (%i: i32) {{
          {copy("%i", "%n64", 10)}
          yield
        }}
        """,
        """
        %n64: i32 = assume_divisible 64 %n
        for %c0, %n64, %c64 (%i: i32) {
          %0: i32 = add %i, %c64
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%0]
          tile.store_tile %Y, %x, offsets=[%i], strides=[%c1], bounds=[%0]
          yield
        }
        """,
    )


def test_what_a_loop_carries_goes_on_at_the_edge() -> None:
    text = split(
        """
        %zero: tile<64xf32> = constant 0.0
        %s: tile<64xf32> = for %c0, %n, %c64 (%i: i32, %a: tile<64xf32> = %zero) {
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          %b: tile<64xf32> = add %a, %x
          yield %b
        }
        tile.store_tile %Y, %s, offsets=[%c0], strides=[%c1], bounds=[%n]
        """
    )
    assert "%s: tile<64xf32> = for %c0, %whole, %c64 (%i: i32, %a: tile<64xf32> = %zero)" in text
    assert "%s_1: tile<64xf32> = for %whole, %n, %c64 (%i_1: i32, %a_1: tile<64xf32> = %s)" in text
    assert "tile.store_tile %Y, %s_1" in text


def test_a_comparison_that_holds_inside_is_true_there() -> None:
    text = split(
        """
        %limit: tile<64xi32> = tile.broadcast %n
        %zero: tile<64xf32> = constant 0.0
        for %c0, %n, %c64 (%i: i32) {
          %at: tile<64xi32> = tile.arange 0
          %first: tile<64xi32> = tile.broadcast %i
          %cols: tile<64xi32> = add %first, %at
          %valid: tile<64xbool> = compare lt %cols, %limit
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          %y: tile<64xf32> = select %valid, %x, %zero
          tile.store_tile %Y, %y, offsets=[%i], strides=[%c1], bounds=[%n]
          yield
        }
        """
    )
    interior, edge = text.split("for %whole")
    assert "compare" not in interior
    assert "select" not in interior
    assert "compare lt" in edge


@pytest.mark.parametrize(
    "body",
    [
        # It may start below 0, so that the distance may be over the range.
        loop("%m"),
        # Downwards; by a step that is not known; of blocks that end elsewhere.
        "%step: i32 = constant -64\n" + loop("%n", "%c0", "%step"),
        loop("%c0", step="%m"),
        loop("%c0", bound="%m"),
        # Its rounds are known; blocks that are larger than its step.
        loop("%c0", "%c64"),
        loop("%c0", step="%c1"),
    ],
)
def test_loops_that_are_not_split(body: str) -> None:
    stays(body)


# Programs.

BLOCK = "%p: i32 = tile.program_id 0\n%i: i32 = mul %p, %c64\n"


def test_a_program_all_inside_accesses_more_at_once() -> None:
    becomes(
        BLOCK + copy("%i", "%n"),
        """
        %p: i32 = tile.program_id 0
        %i: i32 = mul %p, %c64
        %0: i32 = add %i, %c64
        %1: bool = compare le %0, %n
        if %1 {
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%0]
          tile.store_tile %Y, %x, offsets=[%i], strides=[%c1], bounds=[%0]
          yield
        } else {
          %x_1: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          tile.store_tile %Y, %x_1, offsets=[%i], strides=[%c1], bounds=[%n]
          yield
        }
        """,
    )


def test_the_end_of_what_may_be_any_number_is_no_smaller_number() -> None:
    text = split("%at: i32 = assume_divisible 16 %m\n" + copy("%at", "%n"))
    assert text.startswith(
        "%at: i32 = assume_divisible 16 %m\n"
        "%0: i32 = add %at, %c64\n"
        "%1: bool = compare le %0, %n\n"
        "%2: bool = compare le %at, %0\n"
        "%3: bool = and %1, %2\n"
        "if %3 {\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        # As many at once already; one at a time in either case; what is inside is known.
        "%n16: i32 = assume_divisible 16 %n\n" + BLOCK + copy("%i", "%n16"),
        "%p: i32 = tile.program_id 0\n" + copy("%p", "%n"),
        copy("%c0", "%c64"),
        # Where it starts is loaded after something else has been done.
        "%at: i32 = tile.program_id 0\n%one: f32 = constant 1.0\ntile.store %Y, %at, %one\n"
        "%v: f32 = tile.load %X, %at\n%k: i32 = cast %v\n%i: i32 = mul %k, %c64\n"
        + copy("%i", "%n"),
    ],
)
def test_programs_that_are_not_split(body: str) -> None:
    stays(body)


def test_it_counts_what_it_splits() -> None:
    assert SplitInterior().run(module(loop("%c0"))) == {"loops": 1, "programs": 0}
    assert SplitInterior().run(module(BLOCK + copy("%i", "%n"))) == {"loops": 0, "programs": 1}


# That they do the same, whatever the bounds.


def outcome(text: Module, grid: int, arguments: list[Any], interpreter: Any) -> np.ndarray:
    (function,) = text
    assert isinstance(function, Func)
    memory = [np.arange(1, 257, dtype=np.float32), np.zeros(256, np.float32)]
    interpreter.run(function, (grid, 1, 1), [*memory, *arguments])
    return memory[1]


LOWERING = METAL_PIPELINE.after([p.name for p in METAL_PIPELINE].index("split-interior") + 1)


def same(body: str, grid: int, arguments: list[Any]) -> None:
    """Split or not, as tiles and lowered."""
    before = module(body)
    after = run(before, PASSES)
    assert before != after
    expected = outcome(before, grid, arguments, tile)
    assert np.array_equal(outcome(after, grid, arguments, tile), expected), arguments
    for count in (1, 2):
        lowered = run(after, with_simdgroups(LOWERING, count))
        assert np.array_equal(outcome(lowered, grid, arguments, metal), expected), arguments


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 128, 200, 256, -3, -64, LEAST, LEAST + 63])
def test_a_split_loop_does_the_same(n: int) -> None:
    same(loop("%c0"), 1, [n, 0])
    # One that starts later: a size far below that does not make it a long one.
    same(loop("%c64"), 1, [n, 0])
    at = "%from: i32 = maximum %m, %c0\n" + loop("%from")
    for m in (0, 5, 130, 256, MOST, LEAST):
        same(at, 1, [n, m])


@pytest.mark.parametrize("n", [0, 1, 63, 64, 100, 256, -3, LEAST, LEAST + 5])
def test_a_split_program_does_the_same(n: int) -> None:
    same(BLOCK + copy("%i", "%n"), 5, [n, 0])
    text = "%at: i32 = assume_divisible 16 %m\n" + copy("%at", "%n")
    for m in (0, 16, 192, 256, -16, -64, -80, 2**30, MOST - 15, MOST - 63, LEAST, LEAST + 64):
        same(text, 1, [n, m])


def test_a_size_that_nothing_reaches() -> None:
    """As large as can be; what there is ends the blocks along the other axis."""
    place = "offsets=[%c0, %i], strides=[%c64, %c1], bounds=[%m, %n]"
    body = f"{BLOCK}%x: tile<4x64xf32> = tile.load_tile %X, {place}\n"
    body += f"tile.store_tile %Y, %x, {place}"
    for n, m in itertools.product((MOST, MOST - 62, 64, 40), (4, 2, 0, -1)):
        same(body, 1, [n, m])


@pytest.mark.parametrize("seed", range(counts(25, 500)))
def test_random_blocks_in_loops(seed: int) -> None:
    """Blocks that start before or behind the round's number, of any size, some all the same."""
    rnd = random.Random(seed)
    step = rnd.choice((16, 32, 64))
    lines = [f"%step: i32 = constant {step}", "%low: i32 = maximum %m, %c0"]
    inner = []
    for k in range(rnd.randint(1, 3)):
        size = rnd.choice((step, step, step // 2, 2 * step))
        shift = rnd.choice((0, 0, 0, 8, -8, step // 2))
        bound = rnd.choice(("%n", "%n", "%m"))
        inner += [
            f"%s{k}: i32 = constant {shift}",
            f"%o{k}: i32 = add %i, %s{k}",
            f"%x{k}: tile<{size}xf32> = tile.load_tile %X, "
            f"offsets=[%o{k}], strides=[%c1], bounds=[{bound}]",
            f"tile.store_tile %Y, %x{k}, offsets=[%o{k}], strides=[%c1], bounds=[{bound}]",
        ]
    body = "\n".join([*lines, "for %low, %n, %step (%i: i32) {", *inner, "yield", "}"])
    before = module(body)
    after = run(before, PASSES)
    for n, m in [(rnd.randint(-70, 256), rnd.randint(-70, 256)) for _ in range(6)]:
        expected = outcome(before, 1, [n, m], tile)
        assert np.array_equal(outcome(after, 1, [n, m], tile), expected), (body, n, m)
        lowered = run(after, with_simdgroups(LOWERING, 2))
        assert np.array_equal(outcome(lowered, 1, [n, m], metal), expected), (body, n, m)


@settings(max_examples=counts(60, 2000))
@given(
    programs.tile(ops=[control.For, tile_ir.LoadTile, tile_ir.StoreTile, math.Add, math.Compare])
)
def test_random_programs_do_the_same(program: Program) -> None:
    preserves("split-interior", program)
