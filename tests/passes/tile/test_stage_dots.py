"""Which operands of products are staged, and where and how."""

from __future__ import annotations

from textwrap import dedent, indent

from iris.ir import parse, verify
from iris.passes import run

HEAD = "%X: ptr<f32>, %Y: ptr<f32>, %Out: ptr<f32>, %n: i32"
START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%c8: i32 = constant 8
%far: i32 = constant 4096
"""


def staged(body: str, simdgroups: int = 4) -> str:
    lines = f"{START.strip()}\n{dedent(body).strip()}\nreturn"
    text = f"func tile @f simdgroups={simdgroups}({HEAD}) {{\n{indent(lines, '  ')}\n}}\n"
    done = run(parse(text), "stage-dots")
    verify(done)
    assert parse(str(done)) == done
    return dedent("\n".join(str(done).splitlines()[len(START.split("\n")) - 1 : -2]))


def load(name: str, shape: str, element: str = "f32", base: str = "%X", row: str = "%c0") -> str:
    place = f"offsets=[{row}, %c0], strides=[%far, %c1], bounds=[%far, %far]"
    return f"%{name}: tile<{shape}x{element}> = tile.load_tile {base}, {place}\n"


def test_how_an_operand_lies_is_not_asked_of_scalars() -> None:
    text = staged(
        "%x: f32 = tile.load %X, %n\n%p: bool = compare lt %x, %x\n"
        + load("a", "64x32")
        + load("b", "64x32")
        + "%t: tile<32x64xf32> = tile.transpose [1, 0] %b\n"
        + "%u: tile<32x64xf32> = exp %t\n"
        + "%e: tile<32x64xf32> = select %p, %u, %t\n"
        + "%c: tile<64x64xf32> = tile.dot %a, %e\n"
    )
    assert "staged<32x64xf32, swizzle<2,3,4> (32,64):(1,32)> = tile.stage %e" in text


def test_one_value_is_staged_once() -> None:
    text = staged(load("a", "32x32") + "%c: tile<32x32xf32> = tile.dot %a, %a\n")
    assert text.count("tile.stage") == 1
    assert "tile.dot %a_1, %a_1" in text


ATTENTION = (
    load("q", "64x64")
    + """%zero: tile<64x64xf32> = constant 0.0
%acc: tile<64x64xf32> = for %c0, %n, %c8 (%i: i32, %old: tile<64x64xf32> = %zero) {
"""
    + indent(load("k", "64x64", base="%Y", row="%i"), "  ")
    + """  %s: tile<64x64xf32> = tile.dot %q, %k
  %p: tile<64x64xf32> = exp %s
  %m: tile<64xf32> = tile.reduce maxnum 1 %p
  %new: tile<64x64xf32> = tile.dot %p, %k, acc=%old
  yield %new
}
"""
)


def test_rows_that_no_other_simdgroup_needs_stay_in_registers() -> None:
    """The left operand of the first product is the same in all rounds, that of the second is
    made of the first; the right one is the same, and staged once."""
    text = staged(ATTENTION)
    assert "tile.stage %q" not in text
    assert "tile.stage %p" not in text
    assert "%s: tile<64x64xf32> = tile.dot %q, %k_1" in text
    assert "%new: tile<64x64xf32> = tile.dot %p, %k_1, acc=%old" in text


def test_rows_that_take_too_many_registers_are_staged_before_the_loop() -> None:
    text = staged(ATTENTION, simdgroups=1)
    assert text.index("tile.stage %q") < text.index("for %c0")
    assert "tile.stage %p" not in text


def test_rows_that_change_are_staged() -> None:
    text = staged(
        """%zero: tile<64xf32> = constant 0.0
%r: tile<64xf32> = for %c0, %n, %c8 (%i: i32, %old: tile<64xf32> = %zero) {
"""
        + indent(load("q", "64x32", row="%i"), "  ")
        + indent(load("k", "32x64", base="%Y", row="%i"), "  ")
        + """  %s: tile<64x64xf32> = tile.dot %q, %k
  %m: tile<64xf32> = tile.reduce maxnum 1 %s
  yield %m
}
"""
    )
    assert text.count("tile.stage") == 2
