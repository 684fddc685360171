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


def test_unused_chains_go() -> None:
    text = dce("%p: f32 = mul %a, %a\n%q: f32 = add %p, %a\n%r: f32 = tile.load %X, %n")
    assert text == f"func tile @f({HEAD}) {{\n  return\n}}\n"


def test_what_writes_stays_with_what_it_needs() -> None:
    text = dce("%p: f32 = mul %a, %a\n%q: f32 = add %p, %p\ntile.store %X, %n, %p")
    assert "mul" in text
    assert "add" not in text
    assert "barrier" in dce("metal.barrier device", "metal")


def test_a_loop_that_only_computes_goes() -> None:
    text = dce(
        """
        %s: f32 = for %z, %n, %one (%k: i32, %b: f32 = %a) {
          %d: f32 = add %b, %a
          yield %d
        }
        """
    )
    assert "for" not in text


def test_carried_values_that_feed_only_themselves_go() -> None:
    text = dce(
        """
        %s: f32, %t: f32 = for %z, %n, %one (%k: i32, %b: f32 = %a, %d: f32 = %a) {
          %f: f32 = add %b, %a
          %g: f32 = mul %d, %a
          yield %f, %g
        }
        tile.store %X, %n, %t
        """
    )
    assert "%t: f32 = for %z, %n, %one (%k: i32, %d: f32 = %a) {" in text
    assert "yield %g" in text
    assert text.count("add") == 0


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


def test_a_carried_value_that_the_condition_needs_stays() -> None:
    text = dce(
        """
        %s: f32, %t: i32, %u: i32 = while (%b: f32 = %a, %d: i32 = %z, %x: i32 = %z) {
          %more: bool = compare lt %d, %n
          yield %more
        } do (%e: f32, %f: i32, %y: i32) {
          %g: i32 = add %f, %one
          %h: f32 = mul %e, %a
          yield %h, %g, %g
        }
        tile.store %X, %n, %s
        """
    )
    assert "while (%b: f32 = %a, %d: i32 = %z) {" in text
    assert "} do (%e: f32, %f: i32) {" in text


def test_a_loop_that_may_not_end_stays() -> None:
    text = dce(
        """
        %s: f32 = while (%b: f32 = %a) {
          %more: bool = compare lt %b, %a
          yield %more
        } do (%e: f32) {
          yield %e
        }
        """
    )
    assert "while" in text


def test_a_volatile_load_stays() -> None:
    assert "volatile=true" in dce("%p: f32 = tile.load %X, %n, volatile=true")
    assert "volatile=true" in dce("%p: f32 = metal.load %X, %n, volatile=true", "metal")


def test_results_of_a_branch_go_one_by_one() -> None:
    text = dce(
        """
        %s: f32, %t: f32 = if %c {
          %p: f32 = mul %a, %a
          yield %p, %a
        } else {
          %q: f32 = add %a, %a
          yield %a, %q
        }
        tile.store %X, %n, %t
        """
    )
    assert "%t: f32 = if %c {" in text
    assert "mul" not in text
    assert "add" in text


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
