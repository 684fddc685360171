"""The verifier: every rule, broken by hand, is reported at the op that breaks it."""

from __future__ import annotations

import inspect
import random
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iris.errors import VerifyError
from iris.ir import math, metal, parse, verify
from iris.ir.control import Func, If, Return, Yield
from iris.ir.core import Level, Location, Module, Op, Region, Value
from iris.ir.types import Tile, f16, f32, i32, i64
from iris.ir.verify import DEEPEST
from random_ir import random_module
from support import counts
from texts import TEXTS

TEXT = """\
func tile @f returns=[f32](%x: f32, %n: i32, %flag: bool, %X: ptr<f32>) {
  %c0: i32 = constant 0
  %before: f32 = exp %x
  %loop: f32 = for %c0, %n, %n (%i: i32, %s: f32 = %x) {
    %inner: f32 = add %s, %before
    yield %inner
  }
  %chosen: f32 = if %flag {
    %left: f32 = neg %x
    yield %left
  } else {
    %right: f32 = abs %x
    %scaled: f32 = mul %right, %right
    yield %scaled
  }
  %count: i32 = while (%a: i32 = %c0) {
    %more: bool = compare lt %a, %n
    yield %more
  } do (%b: i32) {
    %next: i32 = sub %b, %n
    yield %next
  }
  %pid: i32 = tile.program_id 0
  tile.store %X, %pid, %chosen
  %after: f32 = div %loop, %chosen
  return %after
}

func tile @g(%other: f32) {
  %second: f32 = sqrt %other
  return
}

func graph @h(%image: tensor<1x1x4x4xf32>, %filter: tensor<1x1x2x2xf32>) {
  %sums: tensor<1x1x3x3xf32> = graph.conv2d [1, 1] [0, 0, 0, 0] [1, 1] 1 %image, %filter
  return
}
"""


class Broken:
    """The module of `TEXT`, its ops and values by name."""

    def __init__(self) -> None:
        self.module = parse(TEXT)
        self.ops: dict[str, Any] = {}
        self.values: dict[str, Value] = {}
        for op in self.module.walk():
            self.ops[op.name] = op
            for value in (*op.results, *(a for r in op.regions for a in r.arguments)):
                if value.op is not None and not value.name:
                    value.name = op.result_name()  # also once its op is no longer right
                self.values[value.name or ""] = value
                if value.op is not None:
                    self.ops[value.name or ""] = op
        self.f, self.g, _ = self.module
        self.ops |= {"f": self.f, "g": self.g}
        # `ops` has the last of each name: those that end a region go by what they carry.
        for op in self.module.walk():
            if op.terminator and op.operands:
                self.ops[f"end {op.operands[0].name}"] = op

    def error(self) -> VerifyError:
        with pytest.raises(VerifyError) as caught:
            verify(self.module)
        return caught.value


def marked(error: VerifyError) -> str:
    """The only line that is marked in what an error shows."""
    (line,) = [line for line in str(error).splitlines() if line.startswith(">")]
    return line[1:].strip()


Ops = dict[str, Any]
Values = dict[str, Value]
Spoil = Callable[[Ops, Values], None]
CASES: list[tuple[str, str, str, Spoil]] = []


def rule(message: str, line: str) -> Callable[[Spoil], None]:
    """Register a way to break `TEXT`: what is said, and how the line that is marked starts."""

    def register(spoil: Spoil) -> None:
        CASES.append((spoil.__name__, message, line, spoil))

    return register


# Values.


@rule("add: operands must have one type, not f32, i32", "%inner: f32 = add %s, %n")
def wrong_operand_type(ops: Ops, values: Values) -> None:
    ops["inner"].set_operands((values["s"], values["n"]))


@rule("exp: x must be floats, not i32", "%before: f32 = exp %n")
def operand_outside_its_constraint(ops: Ops, values: Values) -> None:
    ops["before"].set_operands((values["n"],))


@rule(
    "%after: f32 is not defined here: it is defined only further down", "%before: f32 = exp %after"
)
def use_before_definition(ops: Ops, values: Values) -> None:
    ops["before"].set_operands((values["after"],))


@rule("%loop: f32 is not defined here: it is defined only", "%loop: f32 = for %c0, %n, %n (")
def use_by_itself(ops: Ops, values: Values) -> None:
    ops["loop"].set_operands((*ops["loop"].operands[:3], values["loop"]))


@rule(
    "%left: f32 is not defined here: it is defined in a region", "%scaled: f32 = mul %right, %left"
)
def use_from_a_sibling_region(ops: Ops, values: Values) -> None:
    ops["scaled"].set_operands((values["right"], values["left"]))


@rule("%a: i32 is not defined here: it is defined in a region", "%next: i32 = sub %b, %a")
def use_of_a_sibling_argument(ops: Ops, values: Values) -> None:
    ops["next"].set_operands((values["b"], values["a"]))


@rule("%inner: f32 is not defined here: it is defined in a region", "%after: f32 = div %inner")
def use_after_the_region(ops: Ops, values: Values) -> None:
    ops["after"].set_operands((values["inner"], values["chosen"]))


@rule("%x: f32 is not defined here: it is defined in a region", "%second: f32 = sqrt %")
def use_from_another_function(ops: Ops, values: Values) -> None:
    ops["second"].set_operands((values["x"],))


@rule("%?: f32 is not defined here: its op is in no region", "%before: f32 = exp %")
def use_of_a_removed_op(ops: Ops, values: Values) -> None:
    ops["before"].set_operands((math.Neg(values["x"]).result,))


@rule("%x: f32 does not know this user", "%before: f32 = exp %x")
def missing_user(ops: Ops, values: Values) -> None:
    del values["x"].users[ops["before"]]


@rule("result 0 does not know its place", "%before: f32 = exp %x")
def stale_result(ops: Ops, values: Values) -> None:
    values["before"].op = ops["after"]


@rule("argument 1 of a region does not know its place", "%loop: f32 = for")
def stale_argument(ops: Ops, values: Values) -> None:
    values["s"].index = 0


# Counts and types.


@rule("add: takes 2 operands, not 1", "%inner: f32 = add")
def too_few_operands(ops: Ops, values: Values) -> None:
    ops["inner"].set_operands((values["s"],))


@rule("exp: takes 1 operands, not 2", "%before: f32 = exp")
def too_many_operands(ops: Ops, values: Values) -> None:
    ops["before"].set_operands((values["x"],) * 2)


@rule("for does not take 2 operands", "%loop: f32 = for")
def too_few_operands_for_a_loop(ops: Ops, values: Values) -> None:
    ops["loop"].set_operands((values["c0"],) * 2)


@rule("tile.store does not take 5 operands", "tile.store")
def too_many_operands_for_a_store(ops: Ops, values: Values) -> None:
    ops["tile.store"].set_operands((values["X"], *[values["c0"]] * 4))


@rule("mul: the result is f32, not f16", "%scaled: f16 = mul %right, %right")
def wrong_result_type(ops: Ops, values: Values) -> None:
    values["scaled"].type = f16


@rule("constant: result must be of a type with elements", "%c0: ptr<f32> = constant 0")
def result_outside_its_constraint(ops: Ops, values: Values) -> None:
    values["c0"].type = values["X"].type


@rule("the result would be no type: a tensor has no size 4294967299", "%sums: ")
def result_that_would_be_no_type(ops: Ops, values: Values) -> None:
    ops["sums"].set_attribute("padding", (0, 0, 0, 2**32))


@rule("exp: has 1 results, not 0", "exp %x")
def missing_result(ops: Ops, values: Values) -> None:
    ops["after"].set_operands((values["x"],) * 2)
    ops["end inner"].set_operands((values["s"],))
    ops["inner"].set_operands((values["s"], values["s"]))
    ops["before"].results = ()


@rule("has 0 results, not 1", "%after: f32 = tile.store")
def extra_result(ops: Ops, values: Values) -> None:
    ops["tile.store"].results = (Value(f32, ops["tile.store"], None, 0, "after"),)


@rule("a result's type is no type", "%c0: f32 = constant 0")
def result_type_that_is_none(ops: Ops, values: Values) -> None:
    values["c0"].type = "f32"


@rule("constant: has 1 results, not 0", "constant 0")
def missing_result_of_a_given_type(ops: Ops, values: Values) -> None:
    ops["c0"].results = ()


# Attributes.


@rule("tile.program_id: axis must be an integer, not 3", "%pid: i32 = tile.program_id (3,) ()")
def attribute_out_of_range(ops: Ops, values: Values) -> None:
    ops["pid"].attributes = (3,)


@rule("compare: predicate must be one of eq, ne, lt", "%more: bool = compare ('lt',) (%a, %n)")
def attribute_of_the_wrong_type(ops: Ops, values: Values) -> None:
    ops["more"].attributes = ("lt",)


@rule("compare: has 0 attributes; it is declared with 1", "%more: bool = compare () (%a, %n)")
def missing_attribute(ops: Ops, values: Values) -> None:
    ops["more"].attributes = ()


@rule("exp: has 1 attributes; it is declared with 0", "%before: f32 = exp (1,) (%x)")
def extra_attribute(ops: Ops, values: Values) -> None:
    ops["before"].attributes = (1,)


@rule("constant: 4294967296 has more bits than i32", "%c0: i32 = constant 4294967296")
def constant_too_wide(ops: Ops, values: Values) -> None:
    ops["c0"].attributes = (1 << 32,)


@rule("constant: 4294967296 has more bits than i32", "%0: i32 = constant 4294967296")
def unnamed_constant_too_wide(ops: Ops, values: Values) -> None:
    ops["c0"].attributes = (1 << 32,)
    values["c0"].name = None


@rule("constant: has 0 attributes", "%0: i32 = constant () ()")
def unnamed_constant_without_bits(ops: Ops, values: Values) -> None:
    ops["c0"].attributes = ()
    values["c0"].name = None


@rule(
    "func: symbol must be a function's name",
    "func (<Level.TILE: 'tile'>, 'größe', (), 0, False, (), 0)",
)
def symbol_that_is_no_name(ops: Ops, values: Values) -> None:
    ops["f"].attributes = (Level.TILE, "größe", (), 0, False, (), 0)


@rule("func: function_level must be one of graph, tile", "func ('tile', 'f', (), 0, False, (), 0)")
def function_of_no_level(ops: Ops, values: Values) -> None:
    ops["f"].attributes = ("tile", "f", (), 0, False, (), 0)


@rule("func: has 0 attributes; it is declared with 7", "func () ()")
def function_without_attributes(ops: Ops, values: Values) -> None:
    ops["f"].attributes = ()


# Regions.


@rule("if: a region does not end with a terminator", "%chosen: f32 = if %flag {")
def missing_terminator(ops: Ops, values: Values) -> None:
    ops["end scaled"].erase()


@rule("for: a region does not end with a terminator", "%loop: f32 = for")
def empty_region(ops: Ops, values: Values) -> None:
    for op in reversed(ops["loop"].body):
        op.erase()


@rule("func: a region does not end with a terminator", "func tile @g(%other: f32) {")
def function_without_return(ops: Ops, values: Values) -> None:
    ops["g"].body.end.erase()


@rule("yield: a terminator must come last in its region", "yield %left")
def terminator_not_last(ops: Ops, values: Values) -> None:
    ops["end left"].parent.append(Yield([values["left"]]))


@rule("yield: if expects 1 values here, not 0", "yield")
def too_few_yielded(ops: Ops, values: Values) -> None:
    ops["end left"].set_operands(())


@rule("yield: if expects 1 values here, not 2", "yield %left, %left")
def too_many_yielded(ops: Ops, values: Values) -> None:
    ops["end left"].set_operands((values["left"],) * 2)


@rule("yield: value 0 must be f32, not i32", "yield %n")
def wrong_type_yielded(ops: Ops, values: Values) -> None:
    ops["end inner"].set_operands((values["n"],))


@rule("yield: value 0 must be bool, not i32", "yield %a")
def condition_that_is_no_bool(ops: Ops, values: Values) -> None:
    ops["end more"].set_operands((values["a"],))


@rule("return: func expects 1 values here, not 0", "return")
def nothing_returned(ops: Ops, values: Values) -> None:
    ops["end after"].set_operands(())


@rule("the regions of if end with yield", "return %left")
def return_from_a_branch(ops: Ops, values: Values) -> None:
    ops["end left"].insert_before(Return([values["left"]]))
    ops["end left"].erase()


@rule("the regions of func end with return", "yield %after")
def yield_from_a_function(ops: Ops, values: Values) -> None:
    ops["end after"].insert_before(Yield([values["after"]]))
    ops["end after"].erase()


@rule("argument 0 of the region must be i32, not f32", "%loop: f32 = for %c0, %n, %n (%i: f32")
def wrong_region_argument(ops: Ops, values: Values) -> None:
    values["i"].type = f32


@rule("the region takes 2 arguments, not 1", "%loop: f32 = for")
def missing_region_argument(ops: Ops, values: Values) -> None:
    ops["end inner"].set_operands((values["x"],))
    ops["inner"].erase()
    ops["loop"].body.arguments.pop()


@rule("the region takes 1 arguments, not 2", "%count: i32 = while (%a: i32 = %c0) {")
def extra_argument_of_the_second_region(ops: Ops, values: Values) -> None:
    ops["count"].body.add_argument(i32, "extra")


@rule("'f32' is no type", "func tile @g(%other: f32) {")
def function_argument_of_no_type(ops: Ops, values: Values) -> None:
    values["other"].type = "f32"  # type: ignore[assignment]


@rule("if: has 1 regions; it is declared with 2", "%chosen: f32 = if () (%flag)")
def missing_region(ops: Ops, values: Values) -> None:
    ops["chosen"].regions = ops["chosen"].regions[:1]


@rule("the region takes 0 arguments, not 4", "<if %flag: bool -> %chosen: f32>")
def regions_around_their_op(ops: Ops, values: Values) -> None:
    ops["chosen"].regions = (ops["f"].body, ops["f"].body)


@rule("a region stands in two places", "<if %flag: bool -> >")
def regions_shared_at_every_depth(ops: Ops, values: Values) -> None:
    place = ops["before"]
    for _ in range(DEEPEST - 2):
        outer = If(values["flag"], ())
        outer.regions = (outer.then, outer.then)
        place.insert_before(outer)
        place = Yield(())
        outer.then.append(place)


@rule("exp: has 1 regions; it is declared with 0", "%before: f32 = exp () (%x)")
def extra_region(ops: Ops, values: Values) -> None:
    ops["before"].regions = (Region(ops["before"]),)


@rule("lower, upper and step must have one type; upper is", "%loop: f32 = for %c0, %wide, %n (")
def bounds_of_two_types(ops: Ops, values: Values) -> None:
    wide = math.Cast(values["n"], i64)
    wide.result.name = "wide"
    ops["loop"].insert_before(wide)
    ops["loop"].set_operands((values["c0"], wide.result, *ops["loop"].operands[2:]))


@rule(f"regions nest at most {DEEPEST} deep", "")
def too_deep(ops: Ops, values: Values) -> None:
    place = ops["before"]
    for _ in range(2000):
        outer = If(values["flag"], ())
        outer.otherwise.append(Yield(()))
        place.insert_before(outer)
        place = Yield(())
        outer.then.append(place)


# Where ops are.


@rule("an op of the tile level in a metal function", "%pid: i32 = tile.program_id 0")
def op_of_another_level(ops: Ops, values: Values) -> None:
    ops["f"].attributes = (Level.METAL, *ops["f"].attributes[1:])


@rule(
    "all threads of a threadgroup must run it together, but it stands in the if at",
    "metal.barrier threadgroup",
)
def barrier_that_not_all_threads_reach(ops: Ops, values: Values) -> None:
    ops["g"].attributes = (Level.METAL, *ops["g"].attributes[1:])
    lane = metal.Lane()
    first = math.Compare(math.Predicate.EQ, lane.result, lane.result)
    branch = If(first.result, (), location=ops["second"].location)
    branch.then.append(metal.Barrier(metal.Scope.THREADGROUP, location=branch.location))
    for region in branch.regions:
        region.append(Yield(()))
    for op in (lane, first, branch):
        ops["second"].insert_before(op)


@rule("two functions are called @f", "func tile @f(%other: f32) {")
def two_functions_of_one_name(ops: Ops, values: Values) -> None:
    ops["g"].attributes = (Level.TILE, "f", (), 0, False, (), 0)


@rule("a module holds functions only", "%stray: f32 = neg %x")
def an_op_in_the_module(ops: Ops, values: Values) -> None:
    stray = math.Neg(values["x"])
    stray.result.name = "stray"
    ops["f"].parent.insert(stray, ops["g"])


@rule("a function cannot stand within another op", "func tile @h() {")
def a_function_in_a_function(ops: Ops, values: Values) -> None:
    function = Func("h", Level.TILE)
    function.body.append(Return([]))
    ops["before"].insert_before(function)


@rule("the op does not know the region it is in", "%inner: f32 = add %s, %before")
def stale_parent(ops: Ops, values: Values) -> None:
    ops["inner"].parent = ops["f"].body


@rule("the op does not know the region it is in", "func tile @g")
def stale_parent_of_a_function(ops: Ops, values: Values) -> None:
    ops["g"].parent = None


@rule("a region does not know the op it belongs to", "%chosen: f32 = if %flag {")
def stale_owner(ops: Ops, values: Values) -> None:
    ops["chosen"].regions[1].owner = ops["loop"]


@rule("the op does not know the one before it", "<exp %x: f32 -> %before: f32>")
def stale_previous(ops: Ops, values: Values) -> None:
    ops["before"].previous = None


@rule("the op does not know the one before it", "<constant  -> %c0: i32>")
def a_loop_of_ops(ops: Ops, values: Values) -> None:
    ops["before"].next = ops["c0"]


@rule("the region does not know its last op", "%loop: f32 = for")
def stale_last(ops: Ops, values: Values) -> None:
    ops["loop"].body.append(ops["end inner"])
    ops["inner"].next = None


@pytest.mark.parametrize(("name", "message", "line", "spoil"), CASES, ids=[c[0] for c in CASES])
def test_a_broken_rule_is_reported_in_its_surroundings(
    name: str, message: str, line: str, spoil: Spoil, tmp_path: Path
) -> None:
    broken = Broken()
    verify(broken.module)
    model = tmp_path / "model.py"
    model.write_text("".join(f"line {n}\n" for n in range(1, 100)))
    for number, op in enumerate(broken.module.walk(), start=1):
        op.location = Location(str(model), number)
    spoil(broken.ops, broken.values)
    error = broken.error()
    assert message in error.message
    assert marked(error).startswith(line)
    location = error.context.partition("which comes from ")[2]
    if location:  # what the case has added comes from nowhere
        number = int(location.partition("\n")[0].removeprefix(f"{model}:"))
        assert location.endswith(f"\n    line {number}")
        if not line.startswith("<"):
            assert f'at "{model}":{number}' in marked(error) or marked(error).endswith("{")


def test_every_rule_of_the_verifier_is_broken_by_a_case() -> None:
    module = sys.modules["iris.ir.verify"]
    source = inspect.getsource(module).splitlines()
    rules = {n for n, line in enumerate(source, start=1) if re.search(r"raise \w+\.invalid", line)}
    broken_rules = set()
    for _, _, _, spoil in CASES:
        broken = Broken()
        spoil(broken.ops, broken.values)
        cause = broken.error().__context__
        assert cause is not None
        for frame in traceback.extract_tb(cause.__traceback__):
            if frame.filename == module.__file__:
                broken_rules.add(frame.lineno)
    missed = rules - broken_rules
    assert [source[n - 1].strip() for n in sorted(missed)] == []


def test_the_source_line_is_shown(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("def model(x):\n    return exp(x)\n")
    broken = Broken()
    broken.ops["before"].location = Location(str(model), 2)
    broken.ops["before"].set_operands((broken.values["n"],))
    assert str(broken.error()) == (
        "exp: x must be floats, not i32\n"
        "in this IR:\n"
        "  func tile @f returns=[f32](%x: f32, %n: i32, %flag: bool, %X: ptr<f32>) {\n"
        "    %c0: i32 = constant 0\n"
        f'>   %before: f32 = exp %n at "{model}":2\n'
        "    %loop: f32 = for %c0, %n, %n (%i: i32, %s: f32 = %x) {\n"
        "      %inner: f32 = add %s, %before\n"
        "      yield %inner\n"
        "    }\n"
        "    %chosen: f32 = if %flag {\n"
        f"which comes from {model}:2\n"
        "        return exp(x)"
    )


def test_a_source_that_is_gone_is_left_out() -> None:
    broken = Broken()
    broken.ops["before"].location = Location("/nowhere/model.py", 2)
    broken.ops["before"].set_operands((broken.values["n"],))
    assert str(broken.error()).endswith("which comes from /nowhere/model.py:2")


def test_every_op_is_marked_on_its_own_line() -> None:
    """Whichever op is at fault, in whatever region."""
    names = {op.name for text in TEXTS.values() for op in parse(text).walk()}
    marks = set()
    for text in TEXTS.values():
        for position, op in enumerate(parse(text).walk()):
            module = parse(text, "f.iris")
            op = module.walk()[position]
            op.attributes = (*op.attributes, "stray")
            with pytest.raises(VerifyError) as caught:
                verify(module)
            assert "attributes; it is declared with" in caught.value.message
            line = marked(caught.value)
            assert f"{op.name} {op.attributes}" in line
            assert f"which comes from f.iris:{op.location.line}" in caught.value.context
            marks.add(op.name)
    assert marks == names


def test_good_ir_passes() -> None:
    for text in TEXTS.values():
        verify(parse(text))
    verify(Module())


# Whatever the damage.


def damage(rng: random.Random, ops: list[Op]) -> None:
    """Break something in a module that has these ops, with no regard for rules."""
    values = [v for op in ops for v in (*op.results, *(a for r in op.regions for a in r.arguments))]
    op, other, value = rng.choice(ops), rng.choice(ops), rng.choice(values)
    pieces: list[Any] = [None, 0, -1, 1 << 70, "x", 1.5, Level.TILE, (), (f32,), math.Predicate.EQ]
    match rng.randrange(14):
        case 0:
            op.operands = op.operands[:-1]
        case 1:
            op.set_operands((*op.operands, value))
        case 2:
            op.set_operands(tuple(rng.choice(values) for _ in op.operands))
        case 3:
            op.attributes = op.attributes[:-1]
        case 4:
            op.attributes = tuple(rng.choice(pieces) for _ in op.attributes)
        case 5:
            op.attributes = (*op.attributes, rng.choice(pieces))
        case 6:
            op.results = ()
        case 7:
            op.results = (*op.results, Value(f32, op, None, len(op.results), None))
        case 8:
            value.type = rng.choice((f32, i32, Tile((4,), f32), rng.choice(values).type, None))  # type: ignore[assignment]
        case 9:
            op.regions = rng.choice((op.regions[:-1], (*op.regions, Region(op)), other.regions))
        case 10:
            op.parent = rng.choice((None, other.parent, *op.regions))
        case 11:
            op.next = rng.choice((None, other, op))
        case 12:
            op.previous = rng.choice((None, other, op))
        case 13:
            for region in op.regions:
                region.last = rng.choice((None, region.first, other))
                del region.arguments[rng.randrange(3) :]


def test_no_damage_is_too_much() -> None:
    rng = random.Random(3)
    found = 0
    total = counts(1500, 30000)
    for n in range(total):
        module = parse(rng.choice(list(TEXTS.values()))) if n % 2 else random_module(n, ops=8)
        ops = module.walk()
        for value in [v for op in ops for v in op.results]:
            if rng.random() < 0.3:
                value.name = None
        for _ in range(rng.choice((1, 1, 2, 5))):
            damage(rng, ops)
        try:
            verify(module)
        except VerifyError as error:
            assert error.message
            assert marked(error)
            found += 1
    assert found > total / 2
