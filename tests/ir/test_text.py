"""The text form: what is printed parses back, and what is edited in it is what changes."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from iris.errors import ParseError
from iris.ir import attributes, math, metal, parse, tile, to_text, verify
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import OPS, Level, Location, Module, Op
from iris.ir.declare import attribute, variadic
from iris.ir.layout.cute import Layout
from iris.ir.layout.swizzle import Swizzle
from iris.ir.math import Predicate
from iris.ir.text.cursor import Cursor
from iris.ir.text.types import read_type
from iris.ir.types import (
    DType,
    ElementType,
    Ptr,
    Registers,
    Staged,
    Tensor,
    Tile,
    Type,
    bf16,
    f16,
    f32,
    i32,
    i64,
    u64,
)
from random_ir import random_module
from support import counts
from texts import TEXTS


def locations(module: Module) -> list[Location | None]:
    return [op.location for op in module.walk()]


def test_hints_that_end_in_a_number_come_back() -> None:
    """Also where several values share one, and where what it seems to number is gone."""
    function = Func("f", Level.TILE)
    b = Builder(function.body)
    hints = ["x_1", "x_1", "x_2", "x_1_1", "y", "y_2"]
    for hint in hints:
        b.insert(math.Constant.of_bits(0, f32)).result.name = hint
    b.insert(Return([]))
    again = parse(to_text(Module([function])))
    found = [op.result.name for op in find(again, math.Constant)]
    # More than one x_1, and more than one y: that is what the text can say.
    assert found == ["x_1", "x_1", "x_2", "x_1", "y", "y"]
    assert to_text(again) == to_text(Module([function]))


def find(module: Module, cls: type[Op]) -> list[Any]:
    return [op for op in module.walk() if type(op) is cls]


def constant(bits: int, type_: ElementType) -> Module:
    """A function of one constant."""
    level = {Tensor: Level.GRAPH, Registers: Level.METAL}.get(type(type_), Level.TILE)
    function = Func("f", level)
    b = Builder(function.body)
    b.insert(math.Constant.of_bits(bits, type_))
    b.insert(Return([]))
    return Module([function])


# Round trips.


@pytest.mark.parametrize("name", TEXTS)
def test_canonical_text_comes_back(name: str) -> None:
    module = parse(TEXTS[name])
    verify(module)
    assert to_text(module) == TEXTS[name]
    assert str(module) == TEXTS[name]


def test_random_modules_come_back() -> None:
    for seed in range(counts(200, 2000)):
        module = random_module(seed)
        text = to_text(module)
        again = parse(text)
        assert again == module
        assert to_text(again) == text
        located = to_text(module, locations=True)
        again = parse(located)
        assert again == module
        assert locations(again) == locations(module)
        assert to_text(again, locations=True) == located


def test_texts_hold_every_op() -> None:
    held = {op.name for text in TEXTS.values() for op in parse(text).walk()}
    assert held == {name for name, cls in OPS.items() if cls.__module__.startswith("iris.")}


def test_texts_hold_every_kind_of_attribute() -> None:
    held = {
        type(field.kind)
        for text in TEXTS.values()
        for op in parse(text).walk()
        for field in op.spec.attributes
    }
    # No op of Iris has a bool; `Sample` below does.
    assert held | {attributes.Boolean} == set(attributes.AttributeKind.__subclasses__())


def test_texts_hold_every_type() -> None:
    types = {
        value.type
        for text in TEXTS.values()
        for op in parse(text).walk()
        for value in (*op.results, *(a for r in op.regions for a in r.arguments))
    }
    assert {type(t) for t in types} == set(Type.__subclasses__()) - {ElementType} | set(
        ElementType.__subclasses__()
    )
    assert any(isinstance(t, Tile) and t.layout for t in types)
    assert any(isinstance(t, Tensor) and t.shape == () for t in types)
    assert any(isinstance(t, Ptr) and t.noalias for t in types)
    assert {type(t.layout).__name__ for t in types if isinstance(t, Staged)} == {
        "Layout",
        "Swizzled",
    }
    names = " ".join(map(str, types))
    for dtype in ("bool", *(f"{s}{n}" for s in "iu" for n in (8, 16, 32, 64)), "f16", "bf16"):
        assert re.search(rf"\b{dtype}\b", names)


def test_every_type_reads_itself() -> None:
    for type_ in list(Type._known.values()):
        cursor = Cursor(str(type_), "<type>")
        assert read_type(cursor) is type_
        assert cursor.kind == "end"


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_every_16_bit_float_comes_back(dtype: ElementType) -> None:
    # In one function: 65536 modules would take too long.
    function = Func("f", Level.TILE)
    b = Builder(function.body)
    for bits in range(0, 1 << 16, counts(13, 1)):
        b.insert(math.Constant.of_bits(bits, dtype))
    b.insert(Return([]))
    module = Module([function])
    assert parse(to_text(module)) == module


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x00000000, "0.0"),
        (0x80000000, "-0.0"),
        (0x00000001, "1e-45"),
        (0x80000001, "-1e-45"),
        (0x007FFFFF, "1.1754942e-38"),
        (0x00800000, "1.1754944e-38"),
        (0x7F7FFFFF, "3.4028235e+38"),
        (0x7F800000, "inf"),
        (0xFF800000, "-inf"),
        (0x7FC00000, "nan"),
        (0xFFC00000, "nan(4290772992)"),
        (0x7F800001, "nan(2139095041)"),
    ],
)
@pytest.mark.parametrize("type_", [f32, Tile((8,), f32), Tensor((), f32), Registers(2, f32)])
def test_special_floats(bits: int, text: str, type_: ElementType) -> None:
    module = constant(bits, type_)
    printed = to_text(module)
    assert f"constant {text}\n" in printed
    assert parse(printed) == module


# Names and locations.


@pytest.mark.parametrize("type_", [i64, u64])
def test_literals_of_64_bits_come_back(type_: DType) -> None:
    function = Func("f", Level.METAL, simdgroups=1)
    b = Builder(function.body)
    b.insert(metal.Literal((type_.low, type_.high), Registers(2, type_)))
    b.insert(Return([]))
    module = Module([function])
    assert parse(str(module)) == module


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("größe", "gr__e"),
        ("a b", "a_b"),
        ("1x", "_1x"),
        ("12", "_12"),
        ("", "0"),
        ("x.y", "x_y"),
        ("%x", "_x"),
        ("²", "_"),
        ('"\n', "__"),
        ("\ud800", "_"),
        ("x_1", "x_1"),
        (None, "0"),
    ],
)
def test_any_hint_prints_a_name(hint: str | None, name: str) -> None:
    function = Func("f", Level.TILE, [("x", f32)])
    b = Builder(function.body)
    value = b(math.Neg(function.body.arguments[0]))
    value.name = hint
    b.insert(Return([]))
    module = Module([function])
    text = to_text(module)
    assert f"  %{name}: f32 = neg %x\n" in text
    assert parse(text) == module
    assert to_text(parse(text)) == text


def test_equal_hints_get_suffixes() -> None:
    function = Func("f", Level.TILE, [("x", f32), ("x_1", f32), ("x", f32)])
    b = Builder(function.body)
    for name in ("x", "x y", "x_y", "x_1", None, "x_1_1"):
        b(math.Neg(function.body.arguments[0]), name)
    b.insert(Return([]))
    text = to_text(Module([function]))
    names = re.findall(r"(%\w+):", text)
    assert len(set(names)) == len(names) == 9
    assert to_text(parse(text)) == text


@pytest.mark.parametrize(
    "file", ["model.py", 'a"b.py', "größe/模型.py", "C:\\new\\table.py", "\n\t\0", "\ud800", ""]
)
@pytest.mark.parametrize("line", [0, 1, 2**31 - 1])
def test_locations_come_back(file: str, line: int) -> None:
    module = parse(TEXTS["control"])
    for n, op in enumerate(module.walk()):
        op.location = Location(file, line) if n % 3 else None
    text = to_text(module, locations=True)
    again = parse(text)
    assert again == module
    assert locations(again) == locations(module)
    assert " at " not in to_text(module)


@pytest.mark.parametrize("place", ['at "a.py":7', 'at\t"a.py" : 7', 'at "\\u0061.py":007'])
def test_a_location_may_be_written_otherwise(place: str) -> None:
    module = parse(f"func tile @f() {{\n  return {place}\n}} {place}\n")
    assert locations(module) == [Location("a.py", 7)] * 2


def test_ops_without_a_location_get_their_line() -> None:
    text = "# A comment.\n\n" + TEXTS["control"]
    lines = text.splitlines()
    for op in parse(text, "control.iris").walk():
        assert op.location is not None
        assert op.location.file == "control.iris"
        assert re.search(rf"\b{op.name}\b", lines[op.location.line - 1])
    assert set(locations(parse(text))) == {None}


# What no op of Iris has.


class Sample(Op):
    """Attributes of every sort that is printed by name, and two groups of operands."""

    name = "test.sample"
    flag: bool = attribute(attributes.Boolean())
    text: str = attribute(attributes.String())
    left: tuple[Any, ...] = variadic()
    right: tuple[Any, ...] = variadic()
    count: int = attribute(attributes.Integer(), 1)
    types: tuple[Type, ...] = attribute(attributes.Types(), ())

    def infer(self) -> tuple[Type, ...]:
        return ()


@pytest.mark.parametrize("string", ["", 'say "hi"', "tab\tnewline\n", "größe 模", "\\", "\0"])
@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("count", [1, -(2**63), 2**63 - 1])
def test_other_attributes_and_groups(string: str, flag: bool, count: int) -> None:
    function = Func("f", Level.GRAPH, [("x", f32), ("y", i32)])
    x, y = function.body.arguments
    b = Builder(function.body)
    for groups in (((), ()), ((x,), (y,)), ((x, y), (y, x))):
        b.insert(Sample(flag, string, *groups, count=count, types=(f32, Tile((4,), i32))))
    b.insert(Sample(flag, string))
    b.insert(Return([]))
    module = Module([function])
    verify(module)
    text = to_text(module)
    again = parse(text)
    assert again == module
    assert to_text(again) == text
    assert find(again, Sample)[2].left == tuple(find(again, Func)[0].body.arguments)


def test_groups_are_of_one_size() -> None:
    text = 'func graph @f(%x: f32) {\n  test.sample true "" left=[%x], right=[]\n  return\n}\n'
    with pytest.raises(ParseError, match="right and left differ in number") as caught:
        parse(text)
    assert caught.value.spot.column == text.splitlines()[1].index("[]") + 1


# Editing.


@pytest.mark.parametrize(
    ("name", "old", "new", "cls", "read", "value"),
    [
        ("scalars", "constant 7", "constant -3", math.Constant, lambda op: op.value, -3),
        ("scalars", "constant -0.0", "constant 2.5", math.Constant, lambda op: op.value, 2.5),
        ("tiles", "compare lt", "compare ge", math.Compare, lambda op: op.predicate, Predicate.GE),
        (
            "tiles",
            "mask=%inside, other=%zero\n",
            "mask=%inside, other=%x\n",
            tile.Load,
            lambda op: op.other and op.other.name,
            "x",
        ),
        (
            "tiles",
            "= tile.load %X, %cols\n",
            "= tile.load %X, %cols, mask=%inside, other=%zero\n",
            tile.Load,
            lambda op: op.mask and op.mask.name,
            "inside",
        ),
        (
            "tiles",
            "%5: tile<8x2x4xf32> = tile.transpose [2, 0, 1]",
            "%5: tile<8x4x2xf32> = tile.transpose [2, 1, 0]",
            tile.Transpose,
            lambda op: op.permutation,
            (2, 1, 0),
        ),
        ("tiles", '"nothing"', '"all"', tile.Print, lambda op: op.prefix, "all"),
        (
            "tiles",
            "(8,8):(8,1)> = tile.stage %3\n  %5: tile<8x8xf16> = tile.unstage %4",
            "(8,8):(1,8)> = tile.stage %3\n  %5: tile<8x8xf16> = tile.convert_layout %3",
            tile.Stage,
            lambda op: op.result.type.layout,
            Layout((8, 8), (1, 8)),
        ),
        (
            "tiles",
            "swizzle<1,4,-2>",
            "swizzle<2,0,3>",
            tile.Stage,
            lambda op: getattr(op.result.type.layout, "swizzle", None),
            Swizzle(2, 0, 3),
        ),
        (
            "tiles",
            "register=[32, 64], lane=[1, 2, 4, 8, 16]",
            "register=[16, 64], lane=[1, 2, 4, 8, 32]",
            tile.ConvertLayout,
            lambda op: op.result.type.layout and op.result.type.layout.bases[0],
            ("register", ((16,), (64,))),
        ),
        ("tiles", "program_id 2", "program_id 1", tile.ProgramId, lambda op: op.axis, 1),
        (
            "metal",
            "barrier device",
            "barrier simdgroup",
            metal.Barrier,
            lambda op: op.scope,
            metal.Scope.SIMDGROUP,
        ),
        ("metal", "shuffle_xor 31", "shuffle_xor 16", metal.ShuffleXor, lambda op: op.mask, 16),
    ],
)
def test_an_edit_of_the_text_changes_the_program(
    name: str, old: str, new: str, cls: type[Op], read: Any, value: object
) -> None:
    before = parse(TEXTS[name])
    assert old in TEXTS[name]
    text = TEXTS[name].replace(old, new, 1)
    after = parse(text)
    verify(after)
    assert after != before
    assert to_text(after) == text
    have = [read(op) for op in find(after, cls)]
    was = [read(op) for op in find(before, cls)]
    assert have.count(value) == was.count(value) + 1


def test_an_edit_of_a_name_does_not() -> None:
    text = TEXTS["control"]
    assert parse(text.replace("%sum", "%total")) == parse(text)


# Errors.


def error(body: str, arguments: str = "%x: f32, %n: i32, %X: ptr<f32>") -> tuple[str, str]:
    """The message for a function's body, and what stands from the caret to the end of the
    line."""
    text = f"func tile @f({arguments}) {{\n{body}\n  return\n}}\n"
    with pytest.raises(ParseError) as caught:
        parse(text)
    spot = caught.value.spot
    assert spot.source == text.split("\n")[spot.line - 1]
    return caught.value.message, spot.source[spot.column - 1 :]


@pytest.mark.parametrize(
    ("body", "message", "at"),
    [
        ("  %y: f32 = frob %x", "expected an op, found 'frob'", "frob %x"),
        ("  %y: f32 = tile.lod %X", "expected an op, found 'tile.lod'", "lod %X"),
        ("  %y: f31 = exp %x", "expected a type: a dtype, or ptr<...>", "f31 = exp %x"),
        ("  %y: ptrf32> = exp %x", "expected a type", "f32> = exp %x"),
        ("  %y: tile<63xf32> = constant 1.0", "powers of two; 63 is not", "63xf32> = constant 1.0"),
        ("  %y: tile<4x5xf32> = constant 1.0", "powers of two; 5", "5xf32> = constant 1.0"),
        ("  %y: tile<4xf33> = constant 1.0", "no dtype is called 'f33'", "f33> = constant 1.0"),
        ("  %y: tile<4xx4> = constant 1.0", "no dtype is called 'x4'", "x4> = constant 1.0"),
        ("  %y: tile<4xf32, linear<4xx2>> = exp %x", "the layout's sizes", "4xx2>> = exp %x"),
        ("  %y: tile<4> = constant 1.0", "expected x and a dtype", "> = constant 1.0"),
        ("  %y: f32 = exp %z", "%z is not defined", "%z"),
        ("  %y: f32 = exp %n", "exp: x must be floats, not i32", "%n"),
        ("  %y: i32 = exp %x", "exp: the result is f32, not i32", "i32 = exp %x"),
        ("  %y: f32 = add %x, %n", "add: operands must have one type, not f32, i32", "%n"),
        ("  %y: f32 = add %n, %x", "add: operands must have one type, not i32, f32", "%n, %x"),
        ("  %y: f32 = add %x", "add takes 2 operands: lhs, rhs", "add %x"),
        ("  %y: f32 = add %x %x", "expected ',', found '%x'", "%x"),
        ("  %y: f32 = exp %n, %n", "exp: x must be floats, not i32", "%n, %n"),
        ("  return\n  %y: f32 = exp %x", "expected '}' after return", "%y: f32 = exp %x"),
        (
            "  %t: tile<4x8xf32> = constant 1.0\n  %y: tile<4x4xf32> = exp %t",
            "exp: the result is tile<4x8xf32>, not tile<4x4xf32>",
            "4xf32> = exp %t",
        ),
        (
            "  %y: staged<8x8xf32, (8,4):(1,8)> = tile.stage %x",
            "the memory layout (8,4):(1,8) is not one of 8x8xf32",
            "(8,4):(1,8)> = tile.stage %x",
        ),
        ("  %y: f32 = exp %x, %x", "expected no more operands of exp", "%x"),
        ("  add %x, %x", "add gives a result: write %x: type = ...", "add %x, %x"),
        ("  %y: i32 = yield", "yield gives no result", "yield"),
        ("  %x", "expected an op or a result", "%x"),
        ("  %y f32 = exp %x", "expected ':', found 'f32'", "f32 = exp %x"),
        ("  %y: f32 = constant 1", "expected a float of f32, such as 1.0", "1"),
        ("  %y: i8 = constant 128", "out of range: -128 to 127", "128"),
        ("  %y: f16 = constant 1e9", "does not fit f16", "1e9"),
        ("  %x: f32 = exp %x", "%x is defined twice", "%x: f32 = exp %x"),
        ("  %y: bool = compare less %x, %x", "one of eq, ne, lt, le, gt, ge", "less %x, %x"),
        ("  %y: f32 = tile.load %X, %n, other=%x", "other needs mask as well", "other=%x"),
        ("  %y: f32 = tile.load %X, %n, mast=%x", "expected mask= or other=", "mast=%x"),
        (
            "  metal.barrier device",
            "metal.barrier is no op of the tile level",
            "metal.barrier device",
        ),
        ("  func tile @g() {", "func cannot stand here", "func tile @g() {"),
        ("  if %n {", "if: condition must be a scalar bool, not i32", "%n {"),
        ("  for %n, %n, %n (%i: f32) {", "argument 0 of the region must be i32", "f32) {"),
        ("  for %n, %n, %n {", "the region takes 1 arguments, not 0", "{"),
        (
            "  for %n, %x, %n (%i: i32) {",
            "for: upper must be a scalar integer",
            "%x, %n (%i: i32) {",
        ),
        ("  %y: f32 = for %n, %n, %n (%i: i32, %s: f32 = %n) {", "the result is i32", "%n) {"),
        ("  return %x", "func expects 0 values here, not 1", "%x"),
        ("  yield", "the regions of func end with return", "yield"),
        ('  return at "model.py', "the string does not end on its line", '"model.py'),
        ('  return at "\\q":1', "bad escape", '"\\q":1'),
        ('  return at "a\tb":1', "bad escape", '"a\tb":1'),
        ('  return at "a":2147483648', "out of range: 0 to 2147483647", "2147483648"),
        ('  return at "a":7x8', "expected a line number", "7x8"),
        ('  return at "a" 7', "expected ':'", "7"),
        ("  ünused", "no token starts with 'ü'", "ünused"),
        ("  %ü: f32 = exp %x", "'%' starts a name, of ASCII letters", "%ü: f32 = exp %x"),
        (
            "  %y: tensor<1048576x1048576x1048576xi8> = constant 0",
            "a tensor has at most 281474976710656 elements, not 1152921504606846976",
            "1048576x1048576x1048576xi8> = constant 0",
        ),
        (
            "  %y: tile<4x1048576xf32> = constant 0.0",
            "a tile has at most 1048576 elements, not 4194304",
            "4x1048576xf32> = constant 0.0",
        ),
    ],
)
def test_an_error_says_what_and_where(body: str, message: str, at: str) -> None:
    said, place = error(body)
    assert message in said
    assert place == at


def test_an_error_shows_its_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse("func tile @f() {\n\treturn %x\n}\n", "f.iris")
    assert str(caught.value) == (
        "%x is not defined\n --> f.iris:2:9\n2 |  return %x\n  |         ^"
    )


def test_an_error_in_a_long_line_shows_what_is_around() -> None:
    with pytest.raises(ParseError) as caught:
        parse("func tile @f(" + ", ".join(f"%x{i}: f32" for i in range(10**4)) + ", 1) {")
    _, shown, caret = str(caught.value).splitlines()[1:]
    assert len(shown) < 130
    assert shown[caret.index("^")] == "1"


def test_an_error_is_safe_to_print() -> None:
    with pytest.raises(ParseError) as caught:
        parse("func \x1b[31m \ud800 \0")
    str(caught.value).encode("utf-8")
    assert str(caught.value).replace("\n", "").isprintable()


def test_text_parses_where_no_python_source_is() -> None:
    program = (
        "import sys\nfrom iris.ir import parse, to_text\n"
        "sys.stdout.write(to_text(parse(sys.stdin.read()), locations=True))"
    )
    text = to_text(random_module(1), locations=True) + "\n" + TEXTS["tiles"]
    run = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True
    )
    assert run.stdout == text


def test_a_part_without_elements_is_none() -> None:
    text = """func metal @f(%x: regs<4xf32>, %i: i32) {
  %p: regs<0xf32> = metal.slice %x, %i
  return
}
"""
    with pytest.raises(ParseError, match="a register array has no size 0"):
        parse(text)
    with pytest.raises(ParseError, match="regs<4xf32> has no parts of 0"):
        parse(text.replace("regs<0xf32>", "tensor<0xf32>"))


def test_a_result_that_would_be_no_type() -> None:
    text = """func graph @f(%x: tensor<1x2x3x4xf32>, %w: tensor<2x2x2x2xf32>) {
  %y: tensor<1x2x3x4xf32> = graph.conv2d [1, 1] [0, 0, 2, 4294967296] [1, 1] 1 %x, %w
  return
}
"""
    with pytest.raises(ParseError, match="would be no type: a tensor has no size 4294967301") as e:
        parse(text)
    assert e.value.spot.line == 2


@pytest.mark.parametrize(
    ("numbers", "message", "at"),
    [
        ("limit=%n, offsets=[%k], strides=[%n], bounds=[%n]", "i32 and i64", "%k]"),
        ("limit=%k, offsets=[%n], strides=[%n], bounds=[%n]", "i32 and i64", "%k, offsets"),
        ("limit=%n, offsets=[%k], strides=[%k], bounds=[%k]", "i64 and i32", "%n, offsets"),
        ("offsets=[%n], strides=[%n], bounds=[%k]", "i32 and i64", "%k]"),
        ("offsets=[%b], strides=[%b], bounds=[%b]", "not i8", "%b]"),
        ("offsets=[%n], strides=[%b], bounds=[%n]", "i32 and i8", "%b]"),
    ],
)
def test_the_numbers_of_a_block_are_of_one_width(numbers: str, message: str, at: str) -> None:
    arguments = "%x: tile<8xf32>, %X: ptr<f32>, %n: i32, %k: i64, %b: i8"
    for access in ("%y: tile<8xf32> = tile.load_tile %X", "tile.store_tile %X, %x"):
        found, rest = error(f"  {access}, {numbers}", arguments)
        assert message in found
        assert rest.startswith(at)


def test_a_volatile_load_is_of_one_element() -> None:
    text = """func metal @f(%X: ptr<f32>, %i: i32) {
  %v: regs<2xf32> = metal.load %X, %i, volatile=true
  return
}
"""
    message = "a volatile load is of one element, not of regs<2xf32>"
    with pytest.raises(ParseError, match=message):
        parse(text)
    parse(text.replace("regs<2xf32>", "regs<1xf32>"))


def test_a_tile_whose_threads_lack_elements_is_none() -> None:
    whole = "tile<64xi32, linear<64, register=[32], lane=[1, 2, 4, 8, 16], simdgroup=[]>>"
    text = f"func tile @f simdgroups=1() {{\n  %at: {whole} = tile.arange 0\n  return\n}}\n"
    parse(text)
    for lacking in ("register=[]", "register=[31]", "register=[0]"):
        with pytest.raises(ParseError, match="does not hold every element") as caught:
            parse(text.replace("register=[32]", lacking))
        assert caught.value.spot.line == 2
