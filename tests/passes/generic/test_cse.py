"""Common subexpression elimination, case by case."""

from __future__ import annotations

from textwrap import dedent, indent

from iris.ir import parse, verify
from iris.passes import run

HEAD = "%X: ptr<f32>, %Y: ptr<f32>, %Z: ptr<f32, noalias>, %i: i32, %n: i32, %a: f32, %c: bool"


def cse(body: str, level: str = "tile") -> str:
    """The body of a function after the pass."""
    body = indent(dedent(body).strip(), "  ")
    module = run(parse(f"func {level} @f({HEAD}) {{\n{body}\n  return\n}}\n"), "cse")
    verify(module)
    return str(module)


def loads(text: str) -> int:
    return text.count("tile.load")


def test_the_same_is_computed_once_whatever_the_order_of_its_operands() -> None:
    text = cse(
        """
        %p: i32 = mul %i, %n
        %q: i32 = mul %n, %i
        %r: i32 = sub %p, %q
        %s: i32 = sub %n, %i
        %t: i32 = sub %i, %n
        """
    )
    assert text.count("mul") == 1
    assert "%r: i32 = sub %p, %p" in text
    assert text.count("sub") == 3, "subtraction does not commute"


def test_attributes_and_types_tell_ops_apart() -> None:
    text = cse(
        """
        %p: bool = compare lt %i, %n
        %q: bool = compare le %i, %n
        %z: f32 = constant 0.0
        %m: f32 = constant -0.0
        %h: f16 = cast %a
        %b: bf16 = cast %a
        """
    )
    assert [text.count(w) for w in ("compare", "constant", "cast")] == [2, 2, 2]


def test_loads_merge_while_nothing_writes() -> None:
    assert loads(cse("%p: f32 = tile.load %X, %i\n%q: f32 = tile.load %X, %i")) == 1


def test_loads_do_not_merge_across_a_store_that_may_alias() -> None:
    for pointer in ("%X", "%Y"):
        text = cse(
            f"""
            %p: f32 = tile.load %X, %i
            tile.store {pointer}, %n, %a
            %q: f32 = tile.load %X, %i
            """
        )
        assert loads(text) == 2


def test_loads_merge_across_a_store_that_cannot_alias() -> None:
    text = cse(
        """
        %p: f32 = tile.load %X, %i
        tile.store %Z, %n, %a
        %q: f32 = tile.load %X, %i
        """
    )
    assert loads(text) == 1


def test_a_store_later_in_a_loop_comes_before_its_next_round() -> None:
    text = cse(
        """
        %p: f32 = tile.load %X, %i
        for %i, %n, %n (%k: i32) {
          %q: f32 = tile.load %X, %i
          tile.store %X, %k, %a
          yield
        }
        """
    )
    assert loads(text) == 2


def test_a_store_in_a_branch_counts_after_it() -> None:
    text = cse(
        """
        %p: f32 = tile.load %X, %i
        if %c {
          %q: f32 = tile.load %X, %i
          tile.store %Y, %n, %q
          yield
        } else {
          yield
        }
        %r: f32 = tile.load %X, %i
        """
    )
    assert loads(text) == 2, "the one in the branch comes before the store"


def test_what_a_branch_computes_is_not_seen_after_it() -> None:
    text = cse(
        """
        if %c {
          %p: i32 = add %i, %n
          yield
        } else {
          %q: i32 = add %i, %n
          yield
        }
        %r: i32 = add %i, %n
        """
    )
    assert text.count("add") == 3


def test_convergent_ops_merge_only_within_a_region() -> None:
    text = cse(
        """
        %p: f32 = metal.shuffle_xor 1 %a
        %q: f32 = metal.shuffle_xor 1 %a
        if %c {
          %r: f32 = metal.shuffle_xor 1 %a
          yield
        } else {
          yield
        }
        """,
        "metal",
    )
    assert text.count("shuffle") == 2


def test_barriers_and_stores_are_all_kept() -> None:
    text = cse("metal.barrier threadgroup\nmetal.barrier threadgroup", "metal")
    assert text.count("barrier") == 2
    assert cse("tile.store %X, %i, %a\ntile.store %X, %i, %a").count("store") == 2


def test_allocations_are_not_merged() -> None:
    text = cse(
        """
        %t: tile<8x8xf32> = constant 1.0
        %p: staged<8x8xf32, (8,8):(1,8)> = tile.stage %t
        %q: staged<8x8xf32, (8,8):(1,8)> = tile.stage %t
        %u: tile<8x8xf32> = tile.unstage %p
        %v: tile<8x8xf32> = tile.unstage %p
        """
    )
    assert text.count("tile.stage") == 2
    assert text.count("tile.unstage") == 1
