"""Splitting off the interior: what becomes of loops and programs, and that they do the same."""

from __future__ import annotations

import itertools
import random
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from iris.compiler.pipelines import METAL_PIPELINE
from iris.interp import metal, tile
from iris.ir import control, math, parse, verify
from iris.ir import tile as tile_ir
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import run
from iris.passes.tile.split_interior import SplitInterior
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


def test_a_loop_checks_its_blocks_once() -> None:
    becomes(
        f"""
        for %c0, %m, %c64 (%i: i32) {{
          {copy("%i", "%n", 10)}
          yield
        }}
        """,
        """
        for %c0, %m, %c64 (%i: i32) {
          %last: i32 = add %n, %cm64
          %0: bool = compare lt %last, %n
          %1: bool = compare le %i, %last
          %inside: bool = and %0, %1
          if %inside {
            %2: i32 = add %i, %c64
            %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%2]
            tile.store_tile %Y, %x, offsets=[%i], strides=[%c1], bounds=[%2]
            yield
          } else {
            %x_1: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
            tile.store_tile %Y, %x_1, offsets=[%i], strides=[%c1], bounds=[%n]
            yield
          }
          yield
        }
        """,
    )


def test_a_size_is_not_negative() -> None:
    text = split(
        "%size: i32 = tile.extent 0 %X\n"
        f"for %c0, %m, %c64 (%i: i32) {{\n  {copy('%i', '%size', 2)}\n  yield\n}}"
    )
    assert "%last: i32 = add %size, %cm64" in text
    assert "%inside: bool = compare le %i, %last" in text


def test_what_combines_elements_is_there_once() -> None:
    """Sizes that are known only after the first access; two stretches."""
    text = split(
        """
        %zero: tile<64xf32> = constant 0.0
        %s: tile<64xf32> = for %c0, %n, %c64 (%i: i32, %a: tile<64xf32> = %zero) {
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          %l: i32 = assume_divisible 2 %m
          %y: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%l]
          %b: tile<64xf32> = add %x, %y
          %t: f32 = tile.reduce sum 0 %b
          %u: tile<64xf32> = tile.broadcast %t
          %d: tile<64xf32> = add %a, %u
          tile.store_tile %Y, %d, offsets=[%i], strides=[%c1], bounds=[%n]
          yield %d
        }
        """
    )
    assert text.count("tile.reduce") == 1
    assert text.count("tile.load_tile") == 3  # inside they are the same
    assert text.count("tile.store_tile") == 2
    assert text.count("if %inside") == 2
    assert text.index("%l: i32 = assume_divisible") < text.index("if %inside")
    assert "%x: tile<64xf32>, %y: tile<64xf32> = if %inside_1 {" in text


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
    _, branches = text.split("if %inside")
    interior, edge = branches.split("else")
    assert "select" not in interior
    assert "select %valid" in edge


def test_loops_that_are_left_alone() -> None:
    """What is inside is known of one block, and of the other only after the first is loaded."""
    stays(
        """
        for %c0, %n, %c64 (%i: i32) {
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%c0], strides=[%c1], bounds=[%c64]
          %v: f32 = tile.load %X, %i
          %k: i32 = cast %v
          %y: tile<64xf32> = tile.load_tile %X, offsets=[%k], strides=[%c1], bounds=[%n]
          %z: tile<64xf32> = add %x, %y
          tile.store_tile %Y, %z, offsets=[%c0], strides=[%c1], bounds=[%c64]
          yield
        }
        """
    )


# Programs.

BLOCK = "%p: i32 = tile.program_id 0\n%i: i32 = mul %p, %c64\n"


def test_a_program_all_inside_accesses_more_at_once() -> None:
    becomes(
        BLOCK + copy("%i", "%n"),
        """
        %p: i32 = tile.program_id 0
        %i: i32 = mul %p, %c64
        %last: i32 = add %n, %cm64
        %0: bool = compare lt %last, %n
        %1: bool = compare le %i, %last
        %inside: bool = and %0, %1
        if %inside {
          %2: i32 = add %i, %c64
          %x: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%2]
          tile.store_tile %Y, %x, offsets=[%i], strides=[%c1], bounds=[%2]
          yield
        } else {
          %x_1: tile<64xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          tile.store_tile %Y, %x_1, offsets=[%i], strides=[%c1], bounds=[%n]
          yield
        }
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        # As many at once already; one at a time in either case; what is inside is known.
        "%n16: i32 = assume_divisible 16 %n\n" + BLOCK + copy("%i", "%n16"),
        "%p: i32 = tile.program_id 0\n" + copy("%p", "%n"),
        copy("%c0", "%c64"),
    ],
)
def test_programs_that_are_left_alone(body: str) -> None:
    stays(body)


def test_what_is_known_later_is_asked_later() -> None:
    """Where the second block starts is loaded after something else has been done."""
    text = split(
        "%at: i32 = tile.program_id 0\n%one: f32 = constant 1.0\n"
        "%w: tile<64xf32> = tile.load_tile %X, offsets=[%c0], strides=[%c1], bounds=[%n]\n"
        "tile.store_tile %Y, %w, offsets=[%c0], strides=[%c1], bounds=[%c64]\n"
        "%v: f32 = tile.load %X, %at\n%k: i32 = cast %v\n%i: i32 = mul %k, %c64\n"
        + copy("%i", "%m")
    )
    assert text.count("if %inside") == 1
    assert text.count("bounds=[%m]") == 2


def test_it_counts_what_it_splits() -> None:
    assert SplitInterior().run(module(loop("%c0"))) == {"loops": 0, "stretches": 1}
    assert SplitInterior().run(module(BLOCK + copy("%i", "%n"))) == {"loops": 0, "stretches": 1}
    whole = "%n64: i32 = assume_divisible 64 %n\n" + loop("%c0", "%n64", bound="%n64")
    assert SplitInterior().run(module(whole)) == {"loops": 1, "stretches": 0}


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
