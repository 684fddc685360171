"""Staged tiles that a loop carries: in two memories, which take turns."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import PipelineError
from iris.passes import run
from iris.testing import preserves
from iris.testing.levels import agree, with_simdgroups
from iris.tools.replay import Program

S = "staged<8x8xf16, (8,8):(8,1)>"
T = "tile<8x8xf32>"
HEAD = """\
# entry: @f
# grid: 1, 1, 1
# argument %A: f16[1024] seed=1 range=[-4, 4]
# argument %C: f32[64]
# argument %n: {rounds}

func tile @f(%A: ptr<f16, noalias>, %C: ptr<f32, noalias>, %n: i32) {{
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c8: i32 = constant 8
  %rows: i32 = constant 64
  %zero: tile<8x8xf32> = constant 0.0
"""


def load(name: str, row: str) -> str:
    place = f"offsets=[{row}, %c0], strides=[%c8, %c1], bounds=[%rows, %c8]"
    return (
        f"%t{name}: tile<8x8xf16> = tile.load_tile %A, {place}\n"
        f"%{name}: {S} = tile.stage %t{name}\n"
    )


def program(body: str, rounds: int) -> Program:
    end = (
        "tile.store_tile %C, %y, offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c8, %c8]\nreturn"
    )
    lines = indent(f"{dedent(body).strip()}\n{end}", "  ")
    return Program.parse(f"{HEAD.format(rounds=rounds)}{lines}\n}}\n")


def lowered(body: str) -> str:
    return str(run(program(body, 3).module, with_simdgroups(METAL_PIPELINE, 1)))


def same(body: str) -> None:
    for rounds in (0, 1, 2, 3, 4):
        agree(program(body, rounds), simdgroups=(1, 2))


def refused(body: str, why: str) -> None:
    preserves("cse", program(body, 3))  # it means something
    with pytest.raises(PipelineError, match=why):
        lowered(body)


def loop(body: str, carried: str, yielded: str) -> str:
    """A loop that carries a sum and staged tiles."""
    names = [pair.split(" = ")[0] for pair in carried.split(", ")]
    given = ", ".join(
        f"{name}: {S} = {start}"
        for name, start in (pair.split(" = ") for pair in carried.split(", "))
    )
    results = ", ".join([f"%y: {T}", *[f"{name}r: {S}" for name in names]])
    lines = indent(dedent(body).strip(), "  ")
    return (
        f"{results} = for %c0, %n, %c1 (%k: i32, %x: {T} = %zero, {given}) {{\n{lines}\n"
        f"  yield %z, {yielded}\n}}\n"
    )


DOT = f"%z: {T} = tile.dot %a, %b, acc=%x\n"
BOTH = load("p", "%c0") + load("q", "%c8")


def test_the_tile_of_the_next_round_is_in_the_other_memory() -> None:
    body = load("p", "%c0") + loop(
        f"%z: {T} = tile.dot %a, %a, acc=%x\n" + load("s", "%k"), "%a = %p", "%s"
    )
    text = lowered(body)
    head = next(line for line in text.splitlines() if " = for " in line and "%p" in line)
    assert "%a: threadgroup<64xf16> = %p, %a_next: threadgroup<64xf16> = %p_1" in head
    assert "metal.store %a_next" in text
    assert ", %a_next, %a\n" in text
    assert text.count("metal.alloc") == 2
    same(body)


def test_a_tile_may_stay_or_move_on() -> None:
    """As the second operand it is used one round later, or in every round."""
    stage = load("s", "%k")
    for yielded in ("%s, %a", "%a, %s", "%s, %b", "%b, %a", "%a, %b", "%b, %s"):
        same(BOTH + loop(DOT + stage, "%a = %p, %b = %q", yielded))
        same(BOTH + loop(stage + DOT, "%a = %p, %b = %q", yielded))


def test_two_are_staged() -> None:
    more = load("t", "%c8")
    same(BOTH + loop(DOT + load("s", "%k") + more, "%a = %p, %b = %q", "%s, %t"))
    same(BOTH + loop(DOT + load("s", "%k") + more, "%a = %p, %b = %q", "%t, %s"))


def test_one_loop_goes_on_where_another_ends() -> None:
    """With its memories, and no others."""
    step = f"%z: {T} = tile.dot %a, %a, acc=%x\n" + load("s", "%k")
    first = loop(step, "%a = %p", "%s").replace("%y:", "%zero1:")
    again = step.replace("%s", "%u").replace("%ts", "%tu")
    second = loop(again.replace("%a", "%b"), "%b = %ar", "%u").replace("= %zero,", "= %zero1,")
    same(load("p", "%c0") + first + second)
    assert lowered(load("p", "%c0") + first + second).count("metal.alloc") == 2


def test_a_tile_that_was_carried_is_there_after_the_loop() -> None:
    body = load("p", "%c0") + loop(
        f"%z: {T} = tile.dot %a, %a, acc=%x\n" + load("s", "%k"), "%a = %p", "%s"
    ).replace("%y:", "%v:")
    same(body + f"%y: {T} = tile.dot %ar, %ar, acc=%v\n")


def test_what_is_refused() -> None:
    once = "each staged tile that a loop yields must be staged in that iteration"
    alone = "must be staged for it alone"
    stage = load("s", "%k")
    refused(BOTH + loop(DOT + stage, "%a = %p, %b = %q", "%s, %s"), once)
    refused(BOTH + loop(DOT + stage, "%a = %p, %b = %q", "%a, %a"), once)
    refused(
        BOTH + load("o", "%c8") + loop(DOT, "%a = %p, %b = %q", "%a, %o"),
        once,
    )
    refused(load("p", "%c0") + loop(DOT + stage, "%a = %p, %b = %p", "%s, %b"), alone)
    used = f"%more: {T} = tile.dot %p, %p\n"
    one = loop(f"%z: {T} = tile.dot %a, %a, acc=%x\n" + stage, "%a = %p", "%s")
    refused(
        load("p", "%c0") + one.replace("%y:", "%w:") + used + f"%y: {T} = add %w, %more\n", alone
    )
    # The second time around the outer loop it would be gone.
    inner = one.replace("%x", "%u").replace("= %zero", "= %o").replace("%y:", "%v:")
    around = f"%y: {T} = for %c0, %n, %c1 (%j: i32, %o: {T} = %zero) {{\n{inner}yield %v\n}}\n"
    refused(load("p", "%c0") + around, alone)
    branch = f"""
        %few: bool = compare lt %n, %c1
        %v: {T}, %e: {S} = if %few {{
          yield %zero, %p
        }} else {{
          yield %zero, %q
        }}
        %y: {T} = tile.dot %e, %e, acc=%v
        """
    refused(BOTH + dedent(branch), "are carried by for loops only, not by if")
