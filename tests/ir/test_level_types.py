"""A function has values of its level's types, laid out for as many simdgroups as run it."""

from __future__ import annotations

import pytest

from iris.errors import ParseError, VerifyError
from iris.ir import verify
from iris.ir.control import Func
from iris.ir.text.parser import parse
from iris.passes import run
from iris.passes.pipeline import Pipeline

LAID_OUT = """\
func tile @k simdgroups=2(%Y: ptr<i32>) {
  %0: tile<64xi32, linear<64, register=[], lane=[1, 2, 4, 8, 16], simdgroup=[32]>> = tile.arange 0
  tile.store %Y, %0, %0
  return
}
"""
TYPES = {
    "graph": ("tensor<8xf32>", "tensor<f32>", "f32", "bool"),
    "tile": ("tile<8xf32>", "ptr<f32>", "staged<8xf32, 8:1>", "i32"),
    "metal": ("regs<8xf32>", "regs<2x4xf32>", "ptr<f32>", "threadgroup<8xf32>", "u64"),
}
PLACES = {
    "argument": "func {level} @f({x}: {type}) {{\n  return\n}}\n",
    "result": "func {level} @f() {{\n  {x}: {type} = constant 1.0\n  return\n}}\n",
    "of a loop": (
        "func {level} @f(%n: i32, %c: f32) {{\n"
        "  %r: f32 = for %n, %n, %n do (%i: i32, {x}: {type} = %c) {{\n    yield %c\n  }}\n"
        "  return\n}}\n"
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("level", TYPES)
def test_a_type_of_another_level_is_refused_where_it_stands(level: str, place: str) -> None:
    own = TYPES[level]
    others = {type_ for types in TYPES.values() for type_ in types}.difference(own)
    for type_ in sorted(others - {"f32", "bool", "i32", "u64"}):
        text = PLACES[place].format(level=level, x="%x", type=type_)
        with pytest.raises(ParseError) as raised:
            parse(text)
        said = str(raised.value)
        line = next(n for n, row in enumerate(text.splitlines(), 1) if type_ in row)
        assert f":{line}:" in said, said
        if "is no type of" in said or place == "argument":  # or another rule is broken before
            column = text.splitlines()[line - 1].index(type_) + 1
            assert f":{line}:{column}\n" in said, said
            assert f"{type_} is no type of the {level} level" in said


def test_so_is_that_of_a_result_that_any_op_could_have() -> None:
    for level, type_ in (
        ("metal", "tile<8xf32>"),
        ("tile", "regs<8xf32>"),
        ("graph", "tile<8xf32>"),
    ):
        with pytest.raises(ParseError, match=f"{type_} is no type of the {level} level"):
            parse(f"func {level} @f() {{\n  %x: {type_} = constant 1.0\n  return\n}}\n")


@pytest.mark.parametrize("level", TYPES)
def test_its_own_are_taken(level: str) -> None:
    for type_ in TYPES[level]:
        text = PLACES["argument"].format(level=level, x="%x", type=type_)
        assert str(parse(text)) == text


def test_what_a_function_gives_is_of_its_level() -> None:
    with pytest.raises(ParseError, match="tile<8xf32> is no type of the graph level") as raised:
        parse("func graph @f returns=[tile<8xf32>](%x: tensor<8xf32>) {\n  return %x\n}\n")
    assert ":1:23\n" in str(raised.value)


@pytest.mark.parametrize("count", [1, 4, 32])
def test_tiles_are_laid_out_for_the_simdgroups_of_the_function(count: int) -> None:
    """With fewer, the simdgroups that hold the rest would not run."""
    said = f"is laid out for 2 simdgroups, but the function has {count}"
    with pytest.raises(ParseError, match=said) as raised:
        parse(LAID_OUT.replace("simdgroups=2", f"simdgroups={count}"))
    assert ":2:7\n" in str(raised.value)
    module = parse(LAID_OUT)
    verify(module)
    function = module.body.first
    assert isinstance(function, Func)
    function.set_simdgroups(count)
    with pytest.raises(VerifyError, match=said):
        verify(module)


def test_a_function_for_which_none_are_chosen_is_not_lowered_as_it_is() -> None:
    with pytest.raises(Exception, match="has no number of simdgroups"):
        run(parse(LAID_OUT.replace(" simdgroups=2", "")), Pipeline.parse("lower-to-metal"))
