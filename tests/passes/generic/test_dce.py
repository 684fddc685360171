"""Dead code elimination, case by case."""

from __future__ import annotations

from textwrap import dedent, indent

from iris.ir import parse, verify
from iris.passes import run

HEAD = "%X: ptr<f32>, %n: i32, %a: f32, %c: bool"
START = "%z: i32 = constant 0\n%one: i32 = constant 1\n"


def dce(body: str, level: str = "tile") -> str:
    body = indent(START + dedent(body).strip(), "  ")
    module = run(parse(f"func {level} @f({HEAD}) {{\n{body}\n  return\n}}\n"), "dce")
    verify(module)
    return str(module)


def test_what_writes_stays_with_what_it_needs() -> None:
    text = dce("%p: f32 = mul %a, %a\n%q: f32 = add %p, %p\ntile.store %X, %n, %p")
    assert "mul" in text
    assert "add" not in text
    assert "barrier" in dce("metal.barrier device", "metal")


def test_carried_values_that_feed_each_other_stay_together() -> None:
    text = dce(
        """
        %s: f32, %t: f32 = for %z, %n, %one (%k: i32, %b: f32 = %a, %d: f32 = %a) {
          yield %d, %b
        }
        tile.store %X, %n, %s
        """
    )
    assert "yield %d, %b" in text


def test_a_volatile_load_stays() -> None:
    assert "volatile=true" in dce("%p: f32 = tile.load %X, %n, volatile=true")
    assert "volatile=true" in dce("%p: f32 = metal.load %X, %n, volatile=true", "metal")


def test_a_loop_kept_for_a_store_keeps_its_bounds() -> None:
    text = dce(
        """
        %m: i32 = add %n, %n
        for %z, %m, %one (%k: i32) {
          tile.store %X, %k, %a
          yield
        }
        """
    )
    assert "add %n, %n" in text


def test_results_that_are_joined_of_parts_stay_while_one_is_used() -> None:
    text = dce(
        """
        %s: regs<8xf32>, %t: regs<8xf32> = metal.foreach 2 (%i: i32) {
          %p: regs<4xf32> = metal.load %X, %i
          yield %p, %p
        }
        %u: f32 = metal.take [3] %t
        metal.store %X, %n, %u
        """,
        "metal",
    )
    assert "%s: regs<8xf32>, %t: regs<8xf32> = metal.foreach 2" in text
    assert "yield %p, %p" in text
