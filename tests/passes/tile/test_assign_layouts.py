"""Assigning layouts: where values are computed, and where they must move."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

import pytest
from hypothesis import given, settings

from iris.errors import DeclarationError
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import OPS, Facet, Module, Value
from iris.ir.declare import NUMBERS, operand, result
from iris.ir.layout.linear import LANE, SIMDGROUP
from iris.ir.tile import ConvertLayout, TileOp
from iris.ir.types import Tile, Type
from iris.passes import run
from iris.passes.tile.layouts import AssignLayouts
from iris.passes.tile.layouts.access_widths import access_width, layout_classes
from iris.passes.tile.layouts.assign import layouts_for_result
from iris.passes.tile.layouts.preferences import operand_layouts, preferred
from iris.testing import preserves, programs
from iris.tools.replay import Program
from support import counts

HEAD = "%X: ptr<f32, noalias, aligned>, %Y: ptr<f32, noalias, aligned>, %n: i32, %yes: bool"
START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%c64: i32 = constant 64
"""
LAYOUT = re.compile(r"linear<.*?\]>")


def module(body: str, simdgroups: int = 1) -> Module:
    lines = f"{START}{dedent(body).strip()}\nreturn\n"
    return parse(f"func tile @f simdgroups={simdgroups}({HEAD}) {{\n{lines}}}\n")


def assigned(body: str, simdgroups: int = 1) -> tuple[str, list[str]]:
    """The text with a letter for each layout, and the layouts."""
    done = run(module(body, simdgroups), "assign-layouts")
    verify(done)
    text = str(done)
    assert parse(text) == done
    layouts = list(dict.fromkeys(LAYOUT.findall(text)))
    for letter, layout in zip("LMNOP", layouts, strict=False):
        text = text.replace(layout, letter)
    lines = [line[2:] for line in text.strip().splitlines()[1:-2]]
    return "\n".join(lines[len(START.strip().splitlines()) :]), layouts


def becomes(body: str, expected: str, layouts: list[str], simdgroups: int = 1) -> None:
    text, found = assigned(body, simdgroups)
    assert text == dedent(expected).strip()
    assert found == [f"linear<{layout}>" for layout in layouts]


def block(offset: str = "%c0") -> str:
    return f"offsets=[{offset}, %c0], strides=[%c64, %c1], bounds=[%c64, %c64]"


def test_a_reduction_goes_back_to_where_it_came_from_without_a_conversion() -> None:
    becomes(
        f"""
        %x: tile<4x64xf32> = tile.load_tile %X, {block()}
        %m: tile<4xf32> = tile.reduce maxnum 1 %x
        %column: tile<4x1xf32> = tile.expand_dims 1 %m
        %all: tile<4x64xf32> = tile.broadcast %column
        %y: tile<4x64xf32> = sub %x, %all
        tile.store_tile %Y, %y, {block()}
        """,
        f"""
        %x: tile<4x64xf32, L> = tile.load_tile %X, {block()}
        %m: tile<4xf32, M> = tile.reduce maxnum 1 %x
        %column: tile<4x1xf32, N> = tile.expand_dims 1 %m
        %all: tile<4x64xf32, L> = tile.broadcast %column
        %y: tile<4x64xf32, L> = sub %x, %all
        tile.store_tile %Y, %y, {block()}
        """,
        [
            "4x64, register=[(0,1), (0,2)], lane=[(0,4), (0,8), (0,16), (0,32), (1,0)], "
            "simdgroup=[(2,0)]",
            "4, register=[], lane=[0, 0, 0, 0, 1], simdgroup=[2]",
            "4x1, register=[], lane=[(0,0), (0,0), (0,0), (0,0), (1,0)], simdgroup=[(2,0)]",
        ],
        simdgroups=2,
    )


def test_what_has_long_enough_runs_is_stored_from_where_it_is() -> None:
    """Each row of what is transposed here is in neighbouring lanes, eight of them."""
    text, _ = assigned(
        f"""
        %x: tile<16x16xf32> = tile.load_tile %X, {block()}
        %t: tile<16x16xf32> = tile.transpose [1, 0] %x
        tile.store_tile %Y, %t, {block()}
        """
    )
    assert "convert_layout" not in text


def test_a_loop_carries_what_starts_as_a_constant_where_its_body_makes_it() -> None:
    becomes(
        """
        %zero: tile<64xf32> = constant 0.0
        %at: tile<64xi32> = tile.arange 0
        %sum: tile<64xf32> = for %c0, %n, %c1 (%i: i32, %a: tile<64xf32> = %zero) {
          %x: tile<64xf32> = tile.load %X, %at
          %b: tile<64xf32> = add %a, %x
          yield %b
        }
        tile.store %Y, %at, %sum
        """,
        """
        %at: tile<64xi32, L> = tile.arange 0
        %zero: tile<64xf32, L> = constant 0.0
        %sum: tile<64xf32, L> = for %c0, %n, %c1 (%i: i32, %a: tile<64xf32, L> = %zero) {
          %x: tile<64xf32, L> = tile.load %X, %at
          %b: tile<64xf32, L> = add %a, %x
          yield %b
        }
        tile.store %Y, %at, %sum
        """,
        ["64, register=[1], lane=[2, 4, 8, 16, 32], simdgroup=[]"],
    )


def test_what_is_the_same_in_all_rounds_is_converted_before_the_loop() -> None:
    sizes = "bounds=[%n, %n]"
    text, _ = assigned(
        f"""
        %x: tile<32x32xf32> = tile.load_tile %X, offsets=[%c0, %c0], strides=[%n, %c1], {sizes}
        for %c0, %n, %c1 (%i: i32) {{
          %y: tile<32x32xf32> = tile.transpose [1, 0] %x
          %z: tile<32x32xf32> = neg %y
          tile.store_tile %Y, %x, offsets=[%i, %c0], strides=[%c1, %n], {sizes}
          tile.store_tile %Y, %z, offsets=[%i, %c0], strides=[%n, %c1], {sizes}
          yield
        }}
        """
    )
    before, inside = text.split("for %c0, %n, %c1 (%i: i32) {")
    assert "tile.convert_layout %x" in before
    assert "tile.convert_layout %x" not in inside
    assert "tile.convert_layout %z" in inside


def test_what_nothing_decides_is_carried_in_the_usual_layout() -> None:
    text, layouts = assigned(
        """
        %one: tile<64xf32> = constant 1.0
        %k: tile<64xf32> = while (%a: tile<64xf32> = %one) {
          yield %yes
        } do (%b: tile<64xf32>) {
          %twice: tile<64xf32> = add %b, %b
          yield %twice
        }
        tile.print "k" %k
        """
    )
    assert "while (%a: tile<64xf32, L> = %one)" in text
    assert layouts == ["linear<64, register=[1], lane=[2, 4, 8, 16, 32], simdgroup=[]>"]


def test_what_branches_yield_is_where_one_of_them_makes_it() -> None:
    becomes(
        """
        %zero: tile<64xf32> = constant 0.0
        %at: tile<64xi32> = tile.arange 0
        %r: tile<64xf32> = if %yes {
          yield %zero
        } else {
          %x: tile<64xf32> = tile.load %X, %at
          yield %x
        }
        tile.store %Y, %at, %r
        """,
        """
        %r: tile<64xf32, L> = if %yes {
          %zero: tile<64xf32, L> = constant 0.0
          yield %zero
        } else {
          %at: tile<64xi32, L> = tile.arange 0
          %x: tile<64xf32, L> = tile.load %X, %at
          yield %x
        }
        %at_1: tile<64xi32, L> = tile.arange 0
        tile.store %Y, %at_1, %r
        """,
        ["64, register=[1], lane=[2, 4, 8, 16, 32], simdgroup=[]"],
    )


def test_a_value_wanted_in_two_layouts_is_made_twice_if_nothing_is_loaded_for_it() -> None:
    """Numbers are made where they are wanted, what is made of loaded elements is moved there."""
    text, layouts = assigned(
        """
        %at: tile<64xi32> = tile.arange 0
        %three: tile<64xi32> = constant 3
        %apart: tile<64xi32> = mul %at, %three
        %x: tile<64xf32> = tile.load %X, %at
        %e: tile<64xf32> = exp %x
        %y: tile<64xf32> = tile.load %X, %apart
        %z: tile<64xf32> = mul %y, %e
        tile.store %Y, %at, %z
        %f: tile<64xf32> = cast %at
        tile.store %Y, %at, %f
        """
    )
    assert text.count("tile.arange 0") == 2
    assert text.count("tile.convert_layout") == 1
    assert "tile.convert_layout %e" in text
    assert len(layouts) == 2


def test_what_meets_an_access_that_is_not_aligned_is_accessed_lane_by_lane() -> None:
    """Neighbours in one thread would leave gaps between what the lanes access at once."""
    becomes(
        """
        %at: tile<64xi32> = tile.arange 0
        %next: tile<64xi32> = tile.arange 1
        %x: tile<64xf32> = tile.load %X, %at
        %y: tile<64xf32> = tile.load %X, %next
        %z: tile<64xf32> = sub %y, %x
        tile.store %Y, %at, %z
        """,
        """
        %at: tile<64xi32, L> = tile.arange 0
        %x: tile<64xf32, L> = tile.load %X, %at
        %next: tile<64xi32, L> = tile.arange 1
        %y: tile<64xf32, L> = tile.load %X, %next
        %z: tile<64xf32, L> = sub %y, %x
        tile.store %Y, %at, %z
        """,
        ["64, register=[32], lane=[1, 2, 4, 8, 16], simdgroup=[]"],
    )


def test_a_dot_gets_something_to_add_to() -> None:
    text, _ = assigned(
        f"""
        %a: tile<16x16xf32> = tile.load_tile %X, {block()}
        %d: tile<16x16xf32> = tile.dot %a, %a
        tile.store_tile %Y, %d, {block()}
        """
    )
    assert re.search(r"%(\w+): tile<16x16xf32, \w> = constant 0.0\n.*acc=%\1\b", text, re.DOTALL)


# What must hold of any program.


@settings(max_examples=counts(80, 2000))
@given(programs.tile())
def test_every_tile_of_a_random_program_has_a_layout(program: Program) -> None:
    for count in (1, 4):
        (function,) = run(program.module, f"choose-simdgroups{{count={count}}},assign-layouts")
        values = [v for op in function.walk() for v in op.results]
        values += [v for op in function.walk() for region in op.regions for v in region.arguments]
        layouts = [v.type.layout for v in values if isinstance(v.type, Tile)]
        for layout in layouts:
            assert layout is not None
            assert layout.is_surjective
            assert (layout.size(LANE), layout.size(SIMDGROUP)) == (32, count)
        for op in function.walk():
            if isinstance(op, ConvertLayout):
                assert op.x.type is not op.result.type


@settings(max_examples=counts(50, 2000))
@given(programs.tile())
def test_a_random_program_does_the_same_with_layouts(program: Program) -> None:
    preserves("choose-simdgroups{count=2},assign-layouts", program)


# Errors.


def test_an_op_without_a_rule_is_named_with_the_facet() -> None:
    class Reverse(TileOp):
        name = "test.reverse"
        x: Value = operand(NUMBERS)
        result: Value = result()

        def infer(self) -> tuple[Type, ...]:
            return (self.x.type,)

    body = """
        %i: tile<32xi32> = tile.arange 0
        %r: tile<32xi32> = test.reverse %i
        %x: tile<32xf32> = cast %r
        tile.store %Y, %i, %x
        """
    rules: list[tuple[Facet, Callable[..., object]]] = [
        (layout_classes, lambda op, known: []),
        (access_width, lambda op, axes: None),
        (preferred, lambda layouts, op: None),
        (layouts_for_result, lambda op, layout: [layout]),
    ]
    try:
        for facet, rule in rules:
            with pytest.raises(
                DeclarationError, match=f"test.reverse has no rule for '{facet.what}'"
            ):
                AssignLayouts().run(module(body))
            facet(Reverse)(rule)
        assert AssignLayouts().run(module(body)) == {"conversions": 0}
        with pytest.raises(DeclarationError, match=r"test\.reverse has no rule"):
            operand_layouts[Reverse]
    finally:
        del OPS["test.reverse"]


def test_what_is_done_is_recorded() -> None:
    given_module = module(
        f"""
        %x: tile<64x64xf32> = tile.load_tile %X, {block()}
        %t: tile<64x64xf32> = tile.transpose [1, 0] %x
        tile.store_tile %Y, %t, {block()}
        """
    )
    assert AssignLayouts().run(given_module) == {"conversions": 1}
    (function,) = given_module
    assert isinstance(function, Func)
    assert function.simdgroups == 1
