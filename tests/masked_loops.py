"""Random loops over masked scores: softmaxes in one pass, and sums."""

from __future__ import annotations

import random

HEAD = """
func tile @f returns=[tile<8xf32>, tile<8xf32>, tile<8x4xf32>]GRID(\
%S: ptr<f32>, %V: ptr<f32>, %n: i32, %far: i32) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c4: i32 = constant 4
  %step: i32 = constant STEP
  %lower: i32 = constant LOWER
  %c40: i32 = constant 40
  %p: i32 = tile.program_id 0
  %c8: i32 = constant 8
  %first: i32 = mul %p, %c8
  %lanes: tile<8xi32> = tile.arange 0
  %firsts: tile<8xi32> = tile.broadcast %first
  %rows: tile<8xi32> = add %firsts, %lanes
  %column: tile<8x1xi32> = tile.expand_dims 1 %rows
  %queries: tile<8x4xi32> = tile.broadcast %column
  %keys: tile<4xi32> = tile.arange 0
  %lowest: tile<8xf32> = constant -inf
  %none: tile<8x4xf32> = constant NONE
  %start_m: tile<8xf32> = constant START_M
  %start_l: tile<8xf32> = constant START_L
  %zero: tile<8xf32> = constant 0.0
  %zeros: tile<8x4xf32> = constant 0.0
  %m: tile<8xf32>, %l: tile<8xf32>, %y: tile<8x4xf32> = for %lower, %n, %step (\
%k: i32, %m_1: tile<8xf32> = %start_m, \
%l_1: tile<8xf32> = %start_l, %y_1: tile<8x4xf32> = %zeros) {
    %s: tile<8x4xf32> = tile.load_tile %S, offsets=[%first, %k], strides=[%c40, %c1], \
bounds=[%c40, %c40]
    %v: tile<4x4xf32> = tile.load_tile %V, offsets=[%k, %c0], strides=[%c4, %c1], bounds=[%c40, %c4]
    %k_1: tile<4xi32> = tile.broadcast %k
    %k_2: tile<4xi32> = add %k_1, %keys
    %k_3: tile<1x4xi32> = tile.expand_dims 0 %k_2
    %at: tile<8x4xi32> = tile.broadcast %k_3
    %end: tile<8x4xi32> = tile.broadcast %n
    %inside: tile<8x4xbool> = compare lt %at, %end
"""
SOFTMAX = """
    %x_1: tile<8x4xf32> = select %inside, %x, %infinities
    %block: tile<8xf32> = tile.reduce REDUCED 1 %x_1
    %m_2: tile<8xf32> = MAXIMUM %m_1, %block
    %is_lowest: tile<8xbool> = compare eq %m_2, %lowest
    %finite: tile<8xf32> = select %is_lowest, %zero, %m_2
    %change: tile<8xf32> = sub %m_1, %GUARD
    %factor: tile<8xf32> = exp %change
    %m_3: tile<8x1xf32> = EXPANDED %GUARD
    %m_4: tile<8x4xf32> = tile.broadcast %m_3
    %less: tile<8x4xf32> = sub %x, %m_4
    %e_1: tile<8x4xf32> = exp %less
    %e: tile<8x4xf32> = select %inside, %e_1, %zeros
    %terms: tile<8x4xf32> = TIMES %e, %WEIGHT
    %added: tile<8xf32> = tile.reduce sum 1 %terms
    %kept: tile<8xf32> = mul %l_1, %factor
    %l_2: tile<8xf32> = add %kept, %added
    %factor_1: tile<8x1xf32> = tile.expand_dims 1 %factor
    %factors: tile<8x4xf32> = tile.broadcast %factor_1
    %y_2: tile<8x4xf32> = mul %y_1, %factors
    %y_3: tile<8x4xf32> = tile.dot %e, %v, acc=%y_2
    yield %m_2, %l_2, %y_3
  }
  return %m, %l, %y
}
"""
SUMS = """
    %block: tile<8xf32> = tile.reduce REDUCED 1 %x
    %m_2: tile<8xf32> = MAXIMUM %m_1, %block
    %x_1: tile<8x4xf32> = select %SEEN, %s, %OTHER
    %added: tile<8xf32> = tile.reduce sum 1 %x_1
    %l_2: tile<8xf32> = add %l_1, %added
    %y_2: tile<8x4xf32> = ADDED
    yield %m_2, %l_2, %y_2
  }
  return %m, %l, %y
}
"""


def some_mask(rng: random.Random) -> str:
    """Comparisons of sums of indices, and one bool of them, `%seen`."""
    lines = []
    for name in ("a", "b"):
        scale, offset = rng.choice((1, 1, 1, -1, 2, 3)), rng.randint(-20, 20)
        other = rng.choice(("%queries", "%queries", "%far_1"))
        predicate = rng.choice(("lt", "le", "gt", "ge", "eq", "ne"))
        sides = ("%left_N", other) if rng.random() < 0.5 else (other, "%left_N")
        lines += [
            f"%scale_N: tile<8x4xi32> = constant {scale}",
            f"%offset_N: tile<8x4xi32> = constant {offset}",
            "%scaled_N: tile<8x4xi32> = mul %at, %scale_N",
            "%left_N: tile<8x4xi32> = add %scaled_N, %offset_N",
            f"%N: tile<8x4xbool> = compare {predicate} {', '.join(sides)}",
        ]
        lines = [line.replace("N", name) for line in lines]
    combined = rng.choice(("and %a, %b", "and %a, %a", "and %a, %a", "or %a, %b"))
    lines += [f"%c: tile<8x4xbool> = {combined}", "%d: tile<8x4xbool> = not %c"]
    return "\n    ".join(["    %far_1: tile<8x4xi32> = tile.broadcast %far", *lines])


def some_program(rng: random.Random) -> str:
    order = rng.choice((("%c", "%s, %none"), ("%d", "%none, %s"), ("%d", "%s, %none")))
    chosen = f"\n    %x: tile<8x4xf32> = select {order[0]}, {order[1]}"
    none = rng.choice(("-inf", "-inf", "-inf", "-1e9", "0.0", "nan"))
    body = rng.choice((SOFTMAX, SOFTMAX, SUMS))
    text = HEAD + some_mask(rng) + chosen + body
    words = {
        "GRID": rng.choice(("", ", grid=[5, 1, 1]")),
        "STEP": rng.choice("444284"),
        "LOWER": rng.choice("000481"),
        "NONE": none,
        "START_M": rng.choice(("-inf", "-inf", "-1e30", "nan")),
        "START_L": rng.choice(("0.0", "0.0", "-0.0", "1.0")),
        "REDUCED": rng.choice(("maximum", "maximum", "maxnum")),
        "MAXIMUM": rng.choice(("maximum", "maximum", "maxnum")),
        "GUARD": rng.choice(("finite", "finite", "m_2")),
        "WEIGHT": rng.choice(("e", "e", "s")),
        "TIMES": rng.choice(("mul", "mul", "div")),
        "EXPANDED": rng.choice(("tile.expand_dims 1", "tile.expand_dims 1", "tile.reshape")),
        "SEEN": order[0][1:],
        "ADDED": rng.choice(("add %y_1, %x_1", "tile.dot %x_1, %v, acc=%y_1")),
        "OTHER": rng.choice(("zeros", "none")),
    }
    text = text.replace("%infinities", "%low").replace(
        "  %zero:", "  %low: tile<8x4xf32> = constant -inf\n  %zero:"
    )
    for word, by in words.items():
        text = text.replace(word, by)
    return text
