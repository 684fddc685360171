"""Following masks: what programs make of ragged rows is what NumPy makes of the rows."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import masked_programs
from iris.compiler.pipelines import TILE_PIPELINE
from iris.ir import Module, parse, verify
from iris.passes import run as run_passes
from iris.passes.tile.follow_masks import FollowMasks
from iris.testing import preserves, programs
from iris.tools.replay import Program
from masked_programs import run
from support import counts

LANES = """
  %lane: tile<16xi32> = tile.arange 0
  %nn: tile<16xi32> = tile.broadcast %n
  %inside: tile<16xbool> = compare lt %lane, %nn
"""
ROW = """
  %row: i32 = tile.program_id 0
  %base: i32 = mul %row, %n
  %b: tile<16xi32> = tile.broadcast %base
  %at: tile<16xi32> = add %b, %lane
  %x: tile<16xf32> = tile.masked_load %X, %at, %inside
"""


def follow(text: str) -> Module:
    module = parse(dedent(text))
    verify(module)
    FollowMasks().run(module)
    verify(module)
    assert parse(str(module)) == module
    assert "masked_load" not in str(module)
    return module


def kernel(body: str, head: str = "%X: ptr<f32>, %Y: ptr<f32>, %n: i32") -> Module:
    return follow(f"func tile @f({head}) {{{LANES}{dedent(body)}\n  return\n}}\n")


def test_what_is_masked_nowhere_stays() -> None:
    text = "%x: tile<16xf32> = tile.load %X, %lane\ntile.store %Y, %lane, %x, mask=%inside"
    head = "func tile @f(%X: ptr<f32>, %Y: ptr<f32>, %n: i32) {"
    assert kernel(text) == parse(f"{head}{LANES}{text}\n  return\n}}\n")


def test_new_ops_are_at_the_line_of_the_old_ones() -> None:
    module = kernel(
        """
        %x: tile<16xf32> = tile.masked_load %X, %lane, %inside at "k.py":3
        %m: f32 = tile.reduce sum 0 %x at "k.py":4
        %e: tile<16xf32> = exp %x at "k.py":5
        %s: f32 = tile.reduce sum 0 %e at "k.py":6
        tile.store %Y, %n, %s at "k.py":7
        """
    )
    lines = {op.name: str(op.location) for op in module.walk() if op.location}
    assert lines["tile.load"] == "k.py:3"
    assert lines["select"] == "k.py:6"


# Softmax.

EXPECTED_SIZES = [1, 5, 15, 16]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def check_softmax(module: Module, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(3, n)).astype(np.float32) - 20
    y = np.zeros_like(x)
    run(module, [x, y, n], (3, 1, 1))
    np.testing.assert_allclose(y, softmax(x), rtol=1e-5)


@pytest.mark.parametrize("n", EXPECTED_SIZES)
def test_softmax_of_a_row_in_one_pass(n: int) -> None:
    module = kernel(
        ROW
        + """
  %m: f32 = tile.reduce maxnum 0 %x
  %ms: tile<16xf32> = tile.broadcast %m
  %d: tile<16xf32> = sub %x, %ms
  %e: tile<16xf32> = exp %d
  %s: f32 = tile.reduce sum 0 %e
  %ss: tile<16xf32> = tile.broadcast %s
  %q: tile<16xf32> = div %e, %ss
  tile.store %Y, %at, %q, mask=%inside
"""
    )
    assert "mask=%inside\n" in str(module), "that some lane is there follows from the mask"
    check_softmax(module, n)


CHUNK = """
    %i: tile<16xi32> = tile.broadcast %k
    %cols: tile<16xi32> = add %i, %lane
    %inside: tile<16xbool> = compare lt %cols, %nn
    %at: tile<16xi32> = add %b, %cols
    %x: tile<16xf32> = tile.masked_load %X, %at, %inside
"""


@pytest.mark.parametrize("n", [1, 16, 17, 37, 48])
def test_softmax_in_three_loops(n: int) -> None:
    text = f"""
func tile @softmax(%X: ptr<f32>, %Y: ptr<f32>, %n: i32) {{
  %c0: i32 = constant 0
  %c16: i32 = constant 16
  %row: i32 = tile.program_id 0
  %base: i32 = mul %row, %n
  %b: tile<16xi32> = tile.broadcast %base
  %lane: tile<16xi32> = tile.arange 0
  %nn: tile<16xi32> = tile.broadcast %n
  %low: tile<16xf32> = constant -1e38
  %ms: tile<16xf32> = for %c0, %n, %c16 (%k: i32, %m: tile<16xf32> = %low) {{{CHUNK}
    %next: tile<16xf32> = maxnum %m, %x
    yield %next
  }}
  %top: f32 = tile.reduce maxnum 0 %ms
  %tops: tile<16xf32> = tile.broadcast %top
  %none: tile<16xf32> = constant 0.0
  %es: tile<16xf32> = for %c0, %n, %c16 (%k: i32, %s: tile<16xf32> = %none) {{{CHUNK}
    %d: tile<16xf32> = sub %x, %tops
    %e: tile<16xf32> = exp %d
    %next: tile<16xf32> = add %s, %e
    yield %next
  }}
  %sum: f32 = tile.reduce sum 0 %es
  %sums: tile<16xf32> = tile.broadcast %sum
  for %c0, %n, %c16 (%k: i32) {{{CHUNK}
    %d: tile<16xf32> = sub %x, %tops
    %e: tile<16xf32> = exp %d
    %q: tile<16xf32> = div %e, %sums
    tile.store %Y, %at, %q, mask=%inside
    yield
  }}
  return
}}
"""
    check_softmax(follow(text), n)


# Reductions.


@pytest.mark.parametrize("kind", ["argmax", "argmin", "maxnum", "maximum", "minnum", "sum"])
@pytest.mark.parametrize(
    "row",
    [
        [-np.inf, -np.inf],
        [np.inf, np.inf, np.inf],
        [np.nan],
        [np.nan, np.nan, 1.0],
        [-np.inf, np.nan],
        [3.0, 7.0, 7.0, -1.0],
        [-3.0, -3.0],
    ],
)
@pytest.mark.parametrize("first", [0, 5])
def test_reductions_of_odd_rows(kind: str, row: list[float], first: int) -> None:
    """Also where lanes before the row are masked."""
    dtype = "i32" if kind.startswith("arg") else "f32"
    module = kernel(
        f"""
        %fs: tile<16xi32> = tile.broadcast %first
        %ge: tile<16xbool> = compare ge %lane, %fs
        %in: tile<16xbool> = and %inside, %ge
        %at: tile<16xi32> = sub %lane, %fs
        %x: tile<16xf32> = tile.masked_load %X, %at, %in
        %r: {dtype} = tile.reduce {kind} 0 %x
        %c0: i32 = constant 0
        tile.store %Y, %c0, %r
        """,
        f"%X: ptr<f32>, %Y: ptr<{dtype}>, %n: i32, %first: i32",
    )
    x = np.array(row, np.float32)
    y = np.full(1, 99, np.int32 if dtype == "i32" else np.float32)
    run(module, [x, y, first + len(row), first])
    functions = {
        "argmax": lambda: x.argmax() + first,
        "argmin": lambda: x.argmin() + first,
        "maxnum": lambda: np.fmax.reduce(x),
        "minnum": lambda: np.fmin.reduce(x),
        "maximum": lambda: x.max(),
        "sum": lambda: x.sum(),
    }
    np.testing.assert_array_equal(y[0], functions[kind]())


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32"])
@pytest.mark.parametrize("kind", ["argmax", "argmin", "maximum", "minimum"])
def test_integers_at_the_end_of_their_range(dtype: str, kind: str) -> None:
    to = "i32" if kind.startswith("arg") else dtype
    module = kernel(
        f"""
        %x: tile<16x{dtype}> = tile.masked_load %X, %lane, %inside
        %r: {to} = tile.reduce {kind} 0 %x
        %c0: i32 = constant 0
        tile.store %Y, %c0, %r
        """,
        f"%X: ptr<{dtype}>, %Y: ptr<{to}>, %n: i32",
    )
    names = {"i8": np.int8, "u8": np.uint8, "i32": np.int32}
    for end in (np.iinfo(names[dtype]).min, np.iinfo(names[dtype]).max):
        x = np.full(3, end, names[dtype])
        y = np.full(1, 77, names[to])
        run(module, [x, y, 3])
        assert y[0] == (0 if kind.startswith("arg") else end)


def test_nothing_is_written_where_there_was_nothing() -> None:
    module = kernel(ROW + "  %s: f32 = tile.reduce sum 0 %x\n  tile.store %Y, %row, %s\n")
    y = np.full(2, 7, np.float32)
    run(module, [np.zeros(1, np.float32), y, 0], (2, 1, 1))
    assert y.tolist() == [7, 7]


def test_a_chosen_number_counts() -> None:
    """sum(where(mask, x, 5)): the fives are not masked."""
    module = kernel(
        ROW
        + """
  %five: tile<16xf32> = constant 5.0
  %y: tile<16xf32> = select %inside, %x, %five
  %s: f32 = tile.reduce sum 0 %y
  tile.store %Y, %row, %s
"""
    )
    assert str(module).count("select") == 1
    y = np.zeros(1, np.float32)
    run(module, [np.array([1, 2, 3], np.float32), y, 3])
    assert y[0] == 6 + 13 * 5


# Carried values.


def test_a_prefetched_tile_takes_its_mask_along() -> None:
    """`cur = next`: what is masked in one round is used in the next one."""
    module = follow(
        """
        func tile @f(%A: ptr<f32>, %B: ptr<f32>, %C: ptr<f32>, %n: i32) {
          %c0: i32 = constant 0
          %c1: i32 = constant 1
          %c4: i32 = constant 4
          %lane: tile<4xi32> = tile.arange 0
          %line: tile<1x4xi32> = tile.expand_dims 0 %lane
          %column: tile<4x1xi32> = tile.expand_dims 1 %lane
          %cols: tile<4x4xi32> = tile.broadcast %line
          %rows: tile<4x4xi32> = tile.broadcast %column
          %ns: tile<4x4xi32> = tile.broadcast %n
          %four: tile<4x4xi32> = constant 4
          %first: tile<4x4xf32> = constant 1.0
          %zero: tile<4x4xf32> = constant 0.0
          %rest: tile<4x4xf32>, %sum: tile<4x4xf32> = for %c0, %n, %c4 (
              %k: i32, %cur: tile<4x4xf32> = %first, %acc: tile<4x4xf32> = %zero) {
            %ks: tile<4x4xi32> = tile.broadcast %k
            %at: tile<4x4xi32> = add %ks, %cols
            %in: tile<4x4xbool> = compare lt %at, %ns
            %row: tile<4x4xi32> = mul %rows, %ns
            %place: tile<4x4xi32> = add %row, %at
            %next: tile<4x4xf32> = tile.masked_load %A, %place, %in
            %bs: tile<4x4xi32> = mul %rows, %four
            %bat: tile<4x4xi32> = add %bs, %cols
            %b: tile<4x4xf32> = tile.load %B, %bat
            %acc2: tile<4x4xf32> = tile.dot %cur, %b, acc=%acc
            yield %next, %acc2
          }
          %bs: tile<4x4xi32> = mul %rows, %four
          %bat: tile<4x4xi32> = add %bs, %cols
          %b: tile<4x4xf32> = tile.load %B, %bat
          %all: tile<4x4xf32> = tile.dot %rest, %b, acc=%sum
          tile.store %C, %bat, %all
          return
        }
        """
    )
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    b = np.ones((4, 4), np.float32)
    b[3] = 2
    c = np.zeros((4, 4), np.float32)
    run(module, [a, b, c, 6])
    weights = np.array([1, 1, 1, 2], np.float32)
    expected = weights.sum() + a[:, :4] @ weights + a[:, 4:] @ weights[:2]
    np.testing.assert_array_equal(c, np.repeat(expected[:, None], 4, 1))


def test_a_row_mask_is_applied_once_after_the_loop() -> None:
    """An accumulator that nothing else uses may hold anything in masked rows meanwhile."""
    module = kernel(
        """
        %x: tile<16xf32> = tile.masked_load %X, %lane, %inside
        %c0: i32 = constant 0
        %c1: i32 = constant 1
        %c3: i32 = constant 3
        %one: tile<16xf32> = constant 1.0
        %sum: tile<16xf32> = for %c0, %c3, %c1 (%k: i32, %s: tile<16xf32> = %one) {
          %e: tile<16xf32> = exp %x
          %next: tile<16xf32> = add %s, %e
          yield %next
        }
        tile.store %Y, %lane, %sum
        """
    )
    loop = str(module).split("for %")[1].split("}")[0]
    assert "select" not in loop
    y = np.zeros(16, np.float32)
    run(module, [np.zeros(5, np.float32), y, 5])
    assert y.tolist() == [4] * 5 + [1] * 11


def test_a_carried_value_that_is_read_keeps_its_old_elements() -> None:
    module = kernel(
        """
        %x: tile<16xf32> = tile.masked_load %X, %lane, %inside
        %c0: i32 = constant 0
        %c1: i32 = constant 1
        %c3: i32 = constant 3
        %c9: i32 = constant 16
        %one: tile<16xf32> = constant 1.0
        %sum: tile<16xf32> = for %c0, %c3, %c1 (%k: i32, %s: tile<16xf32> = %one) {
          %next: tile<16xf32> = add %s, %one
          %then: tile<16xf32> = add %next, %x
          %all: f32 = tile.reduce sum 0 %s
          %to: i32 = add %k, %c9
          tile.store %Y, %to, %all
          yield %then
        }
        tile.store %Y, %lane, %sum
        """
    )
    y = np.zeros(19, np.float32)
    run(module, [np.ones(5, np.float32), y, 5])
    assert y.tolist() == [7] * 5 + [1] * 11 + [16, 26, 36]


def test_branches_yield_their_masks() -> None:
    module = kernel(
        """
        %c0: i32 = constant 0
        %flag: bool = compare gt %n, %c0
        %ones: tile<16xf32> = constant 1.0
        %y: tile<16xf32> = if %flag {
          %x: tile<16xf32> = tile.masked_load %X, %lane, %inside
          %e: tile<16xf32> = exp %x
          yield %e
        } else {
          yield %ones
        }
        %s: f32 = tile.reduce sum 0 %y
        tile.store %Y, %c0, %s
        """
    )
    for n, expected in ((3, 3), (0, 16)):
        y = np.zeros(1, np.float32)
        run(module, [np.zeros(3, np.float32), y, n])
        assert y[0] == expected


def test_masked_conditions_and_bounds_are_as_if_nothing_held() -> None:
    module = follow(
        """
        func tile @f(%X: ptr<i32>, %Y: ptr<i32>, %there: bool) {
          %c0: i32 = constant 0
          %c1: i32 = constant 1
          %c2: i32 = constant 2
          %x: i32 = tile.masked_load %X, %c0, %there
          %zero: bool = compare eq %x, %c0
          if %zero {
            tile.store %Y, %c0, %c2
            yield
          } else {
            tile.store %Y, %c0, %c1
            yield
          }
          for %x, %c2, %x (%k: i32) {
            tile.store %Y, %c1, %k
            yield
          }
          %i: i32 = while (%a: i32 = %c0) {
            %more: bool = compare le %a, %x
            yield %more
          } do (%b: i32) {
            %c: i32 = add %b, %c1
            yield %c
          }
          tile.store %Y, %c2, %i
          return
        }
        """
    )
    for there, expected in ((True, [1, 1, 2]), (False, [1, 9, 0])):
        y = np.full(3, 9, np.int32)
        run(module, [np.ones(1, np.int32), y, there])
        assert y.tolist() == expected


# Dots.


def test_a_masked_column_counts_neither_for_itself_nor_for_the_other_operand() -> None:
    """k masked along its kept axis in attention: the scores' columns are masked, and the values'
    rows, whatever those are."""
    module = kernel(
        """
        %line: tile<1x16xi32> = tile.expand_dims 0 %lane
        %column: tile<16x1xi32> = tile.expand_dims 1 %lane
        %cols: tile<16x16xi32> = tile.broadcast %line
        %rows: tile<16x16xi32> = tile.broadcast %column
        %w: tile<16x16xi32> = constant 16
        %start: tile<16x16xi32> = mul %rows, %w
        %at: tile<16x16xi32> = add %start, %cols
        %mark: tile<16x1xbool> = tile.expand_dims 1 %inside
        %in: tile<16x16xbool> = tile.broadcast %mark
        %q: tile<16x16xf32> = tile.load %Q, %at
        %k: tile<16x16xf32> = tile.masked_load %K, %at, %in
        %v: tile<16x16xf32> = tile.load %V, %at
        %kt: tile<16x16xf32> = tile.transpose [1, 0] %k
        %s: tile<16x16xf32> = tile.dot %q, %kt
        %m: tile<16xf32> = tile.reduce maxnum 1 %s
        %m1: tile<16x1xf32> = tile.expand_dims 1 %m
        %m2: tile<16x16xf32> = tile.broadcast %m1
        %d: tile<16x16xf32> = sub %s, %m2
        %p: tile<16x16xf32> = exp %d
        %t: tile<16xf32> = tile.reduce sum 1 %p
        %t1: tile<16x1xf32> = tile.expand_dims 1 %t
        %t2: tile<16x16xf32> = tile.broadcast %t1
        %o: tile<16x16xf32> = tile.dot %p, %v
        %r: tile<16x16xf32> = div %o, %t2
        tile.store %O, %at, %r
        """,
        "%Q: ptr<f32>, %K: ptr<f32>, %V: ptr<f32>, %O: ptr<f32>, %n: i32",
    )
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(16, 16)).astype(np.float32) for _ in range(3))
    q -= 4
    v[11:] = np.inf
    o = np.zeros((16, 16), np.float32)
    run(module, [q, k, v, o, 11])
    np.testing.assert_allclose(o, softmax(q @ k[:11].T) @ v[:11], rtol=1e-4, atol=1e-5)


# Memory, and ops that can fail.


def test_a_gather_follows_its_index() -> None:
    module = kernel(
        """
        %i: tile<16xi32> = tile.masked_load %I, %lane, %inside
        %one: tile<16xi32> = constant 1
        %j: tile<16xi32> = sub %i, %one
        %x: tile<16xf32> = tile.load %X, %j
        %s: f32 = tile.reduce sum 0 %x
        %c0: i32 = constant 0
        tile.store %Y, %c0, %s
        tile.store %Y, %i, %x
        """,
        "%I: ptr<i32>, %X: ptr<f32>, %Y: ptr<f32>, %n: i32",
    )
    y = np.zeros(4, np.float32)
    run(module, [np.array([3, 1], np.int32), np.array([1, 2, 4], np.float32), y, 2])
    assert y.tolist() == [5, 1, 0, 4]


@pytest.mark.parametrize("word", ["floordiv", "mod", "shl", "assume_divisible"])
def test_masked_lanes_make_no_program_error(word: str) -> None:
    operands = {"shl": "%nine, %far", "assume_divisible": "2 %x"}
    operands |= dict.fromkeys(("floordiv", "mod"), "%nine, %x")
    module = kernel(
        f"""
        %x: tile<16xi32> = tile.masked_load %X, %lane, %inside
        %nine: tile<16xi32> = constant 9
        %big: tile<16xi32> = constant 40
        %far: tile<16xi32> = sub %big, %x
        %q: tile<16xi32> = {word} {operands[word]}
        %s: i32 = tile.reduce sum 0 %q
        %c0: i32 = constant 0
        tile.store %Y, %c0, %s
        %p: tile<16xbool> = compare gt %x, %lane
        tile.assert "more than the lane" %p
        """,
        "%X: ptr<i32>, %Y: ptr<i32>, %n: i32",
    )
    x = np.array([38, 36, 36], np.int32)
    y = np.zeros(1, np.int32)
    run(module, [x, y, 3])
    far = 40 - x
    values = {"floordiv": 9 // x, "mod": 9 % x, "shl": 9 << far, "assume_divisible": x}
    assert y[0] == values[word].sum()


def test_a_float_becomes_an_integer_only_where_it_counts() -> None:
    module = kernel(
        """
        %x: tile<16xf32> = tile.masked_load %X, %lane, %inside
        %one: tile<16xf32> = constant 1.0
        %r: tile<16xf32> = div %one, %x
        %i: tile<16xi32> = cast %r
        tile.store %Y, %lane, %i
        """,
        "%X: ptr<f32>, %Y: ptr<i32>, %n: i32",
    )
    y = np.full(16, 7, np.int32)
    run(module, [np.array([0.5, 0.25], np.float32), y, 2])
    assert y.tolist() == [2, 4, *[7] * 14]


def test_blocks_atomics_and_prints() -> None:
    module = kernel(
        """
        %x: tile<16xi32> = tile.masked_load %X, %lane, %inside
        %one: tile<16xi32> = constant 1
        %y: tile<16xi32> = add %x, %one
        %c0: i32 = constant 0
        %c1: i32 = constant 1
        %c16: i32 = constant 16
        tile.store_tile %Y, %y, offsets=[%c0], strides=[%c1], bounds=[%c16]
        %zero: tile<16xi32> = constant 0
        %old: tile<16xi32> = tile.atomic add %Z, %zero, %y
        %s: i32 = tile.reduce sum 0 %y
        tile.store_tile %Z, %y, limit=%s, offsets=[%s], strides=[%c1], bounds=[%s]
        tile.print "sum" %s
        """,
        "%X: ptr<i32>, %Y: ptr<i32>, %Z: ptr<i32>, %n: i32",
    )
    for n, total in ((3, 6), (0, 0)):
        y, z = np.zeros(16, np.int32), np.zeros(1, np.int32)
        run(module, [np.arange(3, dtype=np.int32), y, z, n])
        assert y.tolist() == [1, 2, 3, *[0] * 13] if n else not y.any()
        assert z[0] == total


# Shapes.


def reshaped(shapes: list[str], wide: str, inside: str) -> str:
    lines = [f"%x0: tile<{wide}xf32> = tile.masked_load %X, %at, %in"]
    for number, shape in enumerate(shapes):
        lines.append(f"%x{number + 1}: tile<{shape}xf32> = tile.reshape %x{number}")
    last = shapes[-1].count("x") + 1
    lines.append(f"%e: tile<{shapes[-1]}xf32> = exp %x{len(shapes)}")
    value, rest = "%e", shapes[-1].split("x")
    for axis in reversed(range(last)):
        rest.pop()
        type_ = f"tile<{'x'.join(rest)}xf32>" if rest else "f32"
        lines.append(f"%s{axis}: {type_} = tile.reduce sum {axis} {value}")
        value = f"%s{axis}"
    return inside + "\n  ".join([*lines, "%c0: i32 = constant 0", f"tile.store %Y, %c0, {value}"])


WIDE = """
  %line: tile<1x16xi32> = tile.expand_dims 0 %lane
  %cols: tile<2x16xi32> = tile.broadcast %line
  %two: tile<2xi32> = tile.arange 0
  %column: tile<2x1xi32> = tile.expand_dims 1 %two
  %rows: tile<2x16xi32> = tile.broadcast %column
  %w: tile<2x16xi32> = constant 16
  %start: tile<2x16xi32> = mul %rows, %w
  %at: tile<2x16xi32> = add %start, %cols
  %mark: tile<1x16xbool> = tile.expand_dims 0 %inside
  %in: tile<2x16xbool> = tile.broadcast %mark
  """


@pytest.mark.parametrize(
    "shapes",
    [
        ["2x1x16", "2x16"],
        ["2x4x4"],
        ["2x4x4", "2x16", "1x2x16"],
        ["32"],
        ["16x2"],
        ["2x4x4", "8x4"],
        ["4x8", "32", "2x16"],
    ],
)
def test_masks_are_followed_through_any_reshape(shapes: list[str]) -> None:
    module = kernel(reshaped(shapes, "2x16", WIDE))
    y = np.zeros(1, np.float32)
    run(module, [np.zeros(32, np.float32), y, 5])
    assert y[0] == 10


# Random programs.


@pytest.mark.parametrize("seed", range(counts(24, 2000)))
def test_lanes_that_are_not_there_change_nothing(seed: int) -> None:
    exact, front, every_other = (masked_programs.written(seed, s, 20) for s in range(3))
    for one, other, third in zip(exact, front, every_other, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


@given(programs.tile(masked=True))
def test_what_is_not_masked_stays_as_it_was(program: Program) -> None:
    preserves("follow-masks", program)


@given(programs.tile(masked=True))
def test_the_pipeline_preserves_masked_programs(program: Program) -> None:
    preserves(TILE_PIPELINE, program)


ADDED = """
# grid: 1
# argument %X: f32[16] seed=1 range=[-4.0, 4.0]
# argument %Y: f32[3]
# argument %n: 5

func tile @added(%X: ptr<f32>, %Y: ptr<f32>, %n: i32) {
  %lane: tile<16xi32> = tile.arange 0
  %nn: tile<16xi32> = tile.broadcast %n
  %inside: tile<16xbool> = compare lt %lane, %nn
  %zero: tile<16xf32> = constant START
  %full: tile<16xf32> = tile.load %X, %lane
  %x: tile<16xf32> = tile.masked_load %X, %lane, %inside
  %first: tile<16xf32> = add %zero, %full
  %s: tile<16xf32> = tile.update %zero, %first
  %t: tile<16xf32> = add %s, %x
  %u: tile<16xf32> = tile.update %s, %t
  %all: f32 = tile.reduce maxnum 0 %u
  %c0: i32 = constant 0
  tile.store %Y, %c0, %all
  %own: f32 = tile.reduce maxnum 0 USED
  %c1: i32 = constant 1
  tile.store %Y, %c1, %own
  return
}
"""


@pytest.mark.parametrize("start", ["0.0", "-0.0", "1.0"])
@pytest.mark.parametrize("used", ["%t", "%u"])
def test_a_sum_that_zeros_are_added_to_stays(start: str, used: str) -> None:
    program = Program.parse(ADDED.replace("START", start).replace("USED", used))
    preserves("follow-masks", program)
    after = str(run_passes(program.module, "follow-masks"))
    assert ("select" not in after) is (used == "%u" and start != "-0.0")
