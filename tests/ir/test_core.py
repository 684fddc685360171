"""Values, ops, regions, modules, and how ops are declared."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from itertools import chain

import pytest
from hypothesis import given

from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE
from iris.errors import DeclarationError, RewriteError, TypeMistake, VerifyError
from iris.ir import Facet, Level, Location, Module, Op, Value, parse, verify
from iris.ir.attributes import Integer
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, Return, Yield
from iris.ir.core import OPS, Region
from iris.ir.declare import attribute, optional, result, variadic
from iris.ir.math import Add, Compare, Constant, Mul, Neg, Predicate
from iris.ir.tile import Load
from iris.ir.types import DType, Ptr, Registers, Tensor, Tile, bool_, f16, f32, i8, i32, i64
from iris.passes import Pass, run
from iris.passes.manager import Instrument
from iris.passes.pipeline import Pipeline
from iris.testing import programs
from iris.tools.replay import Program
from random_ir import random_module
from support import counts


def function(*arguments: tuple[str, object]) -> tuple[Func, Builder]:
    func = Func("f", Level.TILE, arguments)  # type: ignore[arg-type]
    return func, Builder(func.body)


# Types.


def test_types_are_interned_and_frozen() -> None:
    assert Tile((8, 4), f32) is Tile((8, 4), f32)
    assert Tile((8, 4), f32) is not Tile((4, 8), f32)
    assert DType("f32") is f32
    assert Ptr(f32) is not Ptr(f32, noalias=True)
    assert pickle.loads(pickle.dumps(Tile((8,), f16))) is Tile((8,), f16)
    assert copy.deepcopy(Registers(4, i32)) is Registers(4, i32)
    with pytest.raises(AttributeError, match="frozen"):
        f32.bits = 64  # type: ignore[misc]


def test_a_dtype_takes_whole_bytes() -> None:
    assert [d.bytes for d in (bool_, i8, f16, f32, i64)] == [1, 1, 2, 4, 8]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tile((3,), f32), "powers of two; 3 is not"),
        (lambda: Tile((), f32), "1 to 5 dimensions, not 0"),
        (lambda: Tile((2,) * 6, f32), "1 to 5 dimensions, not 6"),
        (lambda: Tile((0,), f32), "no size 0"),
        (lambda: Tensor((-1,), f32), "no size -1"),
        (lambda: Registers(12, f32, 3), "1, 2, 4, 8 or 16 lanes, not 3"),
        (lambda: Registers(12, f32, 8), "variables of 8 lanes do not hold 12 elements"),
        (lambda: Registers(0, f32), "no size 0"),
        (lambda: DType("f64"), "no dtype is called 'f64'; there are bool, i8"),
    ],
)
def test_types_that_cannot_exist(make: object, message: str) -> None:
    with pytest.raises(TypeMistake, match=message):
        make()  # type: ignore[operator]


def test_registers_may_say_how_they_are_held() -> None:
    assert str(Registers(16, f32, 2)) == "regs<8x2xf32>"
    assert Registers(16, f32, 2).with_element(i32) is Registers(16, i32, 2)
    assert Registers(16, f32, 16) is not Registers(16, f32)


def test_tensors_may_be_empty_or_scalar() -> None:
    assert str(Tensor((0, 3), f32)) == "tensor<0x3xf32>"
    assert str(Tensor((), f32)) == "tensor<f32>"


# Building.


def test_a_function_built_by_hand() -> None:
    func, b = function(("x", f32), ("n", i32))
    x, n = func.body.arguments
    zero, one = b(Constant(0, i32)), b(Constant(1, i32))
    loop = b.insert(For(zero, n, one, [x], location=Location("k.py", 3)))
    with b.inside(loop.body):
        b.insert(Yield([b(Mul(loop.carried_arguments[0], x), "y")]))
    b.insert(Return([]))
    module = Module([func])
    verify(module)
    assert loop.results[0].type is f32
    assert parse(str(module)) == module
    assert "for %c0, %n, %c1 (%1: i32, %2: f32 = %x) {" in str(module)


def test_an_op_is_checked_when_it_is_made() -> None:
    func, _ = function(("x", f32), ("n", i32))
    x, n = func.body.arguments
    with pytest.raises(VerifyError, match="operands must have one type, not f32, i32"):
        Add(x, n)
    with pytest.raises(VerifyError, match="300 does not fit i8"):
        Constant(300, DType("i8"))


def test_arguments_by_name_and_their_mistakes() -> None:
    func, _ = function(("X", Ptr(f32)), ("n", i32), ("m", bool_), ("x", f32))
    pointer, n, m, x = func.body.arguments
    assert Load(pointer, n, mask=m, other=x).other is x
    assert Load(pointer, offset=n).mask is None
    for wrong, message in [
        (lambda: Load(pointer), "needs 'offset'; it takes base, offset, mask, other"),
        (lambda: Load(pointer, n, other=x), "'other' needs the ones before it"),
        (lambda: Load(pointer, n, maks=m), "'maks' but has no such field"),
        (lambda: Load(pointer, n, m, x, False, x), "takes 5 arguments"),
        (lambda: Load(pointer, n, base=pointer), "'base' twice"),
    ]:
        with pytest.raises(DeclarationError, match=message):
            wrong()


def test_a_location_is_the_builders_unless_the_op_has_one() -> None:
    func, b = function(("x", f32))
    b.location = Location("k.py", 7)
    (x,) = func.body.arguments
    assert b.insert(Neg(x)).location == Location("k.py", 7)
    assert b.insert(Neg(x, location=Location("h.py", 1))).location == Location("h.py", 1)


# Declaring.


def test_an_op_declared_elsewhere_prints_parses_and_clones() -> None:
    class Scale(Op):
        """A pass writer's own op."""

        name = "test.scale"
        by: int = attribute(Integer(0, 8))
        x: Value = variadic()
        bias: int = attribute(Integer(), 0)
        result: Value = result()

    try:
        text = (
            "func tile @f(%x: f32) {\n"
            "  %y: f32 = test.scale 3 %x, %x, bias=-2\n"
            "  %z: f32 = test.scale 0\n"
            "  return\n"
            "}\n"
        )
        module = parse(text)
        assert str(module) == text
        assert module.clone() == module
        op = next(iter(next(iter(module)).regions[0]))
        assert isinstance(op, Scale)
        assert (op.by, op.bias, len(op.x)) == (3, -2, 2)
    finally:
        del OPS["test.scale"]


def test_declarations_that_make_no_sense() -> None:
    with pytest.raises(DeclarationError, match="so that their numbers can be told"):

        class Mixed(Op):
            name = "test.mixed"
            some: Value = variadic()
            maybe: Value = optional()

    with pytest.raises(DeclarationError, match="two ops are called 'add'"):

        class Again(Op):
            name = "add"

    assert "test.mixed" not in OPS
    assert OPS["add"] is Add


def test_facets() -> None:
    speed = Facet("speed")
    speed(Op)("slow")
    speed(Add)("fast")
    assert (speed[Add], speed[Mul]) == ("fast", "slow")
    with pytest.raises(DeclarationError, match="add has two speed rules"):
        speed(Add)("faster")
    colour = Facet("colour")
    with pytest.raises(DeclarationError, match="mul has no rule for 'colour'"):
        colour[Mul]
    assert colour.get(Mul) is None


# Asking for what is there.


def test_what_an_op_or_value_does_not_have_is_an_error() -> None:
    func, b = function(("x", f32))
    (x,) = func.body.arguments
    op = b.insert(Neg(x))
    assert (op.result.producer, op.enclosing, op.enclosing_op) == (op, func.body, func)
    assert x.type_as(DType) is f32
    with pytest.raises(VerifyError, match="f32 is no tile"):
        x.type_as(Tile)
    with pytest.raises(RewriteError, match="%x: f32 is an argument: no op makes it"):
        x.producer  # noqa: B018
    op.detach()
    with pytest.raises(RewriteError, match="neg is in no other op"):
        op.enclosing_op  # noqa: B018
    with pytest.raises(RewriteError, match="neg is in no region to insert into"):
        Builder.before_op(op)


def test_a_builder_makes_an_op_once_where_it_is_visible() -> None:
    func, b = function(("x", f32), ("c", bool_))
    x, c = func.body.arguments
    mark = b.insert(Neg(x))
    ahead = b.ahead(mark)
    branch = If(c, [])

    def double(b: Builder) -> Value:
        return b.once(Add, (x, x), Add.spec.defaults, f32)

    with b.inside(branch.then):
        inner = double(b)
        assert double(b) is inner
    with b.inside(branch.otherwise):
        assert double(b) is not inner  # which the other branch does not see
    outer = double(b)
    assert outer.home is func.body
    with b.inside(branch.then):
        assert double(b) is outer
    before = ahead.once(Mul, (x, x), Mul.spec.defaults, f32)
    assert before.producer.next is mark
    assert b.once(Mul, (x, x), Mul.spec.defaults, f32) is before
    assert b.once(Mul, (x, outer), Mul.spec.defaults, f32) is not before
    assert ahead.once(Add, (x, x), Add.spec.defaults, f32) is not outer  # which comes later


# Changing.


def test_users_follow_every_change() -> None:
    func, b = function(("x", f32), ("y", f32))
    x, y = func.body.arguments
    both = b.insert(Add(x, x))
    assert list(x.users) == [both]
    x.replace_by(y)
    assert (list(x.users), list(y.users)) == ([], [both])
    user = b.insert(Neg(both.result))
    with pytest.raises(RewriteError, match="add cannot be erased"):
        both.erase()
    user.erase()
    both.erase()
    assert not y.users
    assert func.body.first is None


def test_erasing_an_op_drops_the_uses_inside_it() -> None:
    func, b = function(("x", f32), ("c", bool_))
    x, c = func.body.arguments
    branch = b.insert(If(c, []))
    with b.inside(branch.then):
        b.insert(Neg(x))
    assert len(x.users) == 1
    branch.erase()
    assert not x.users
    assert not c.users


def test_what_is_in_an_erased_function_keeps_its_operands() -> None:
    func, b = function(("x", f32))
    other, _ = function(("y", f32))
    module = Module([func, other])
    (x,) = func.body.arguments
    negative = b.insert(Neg(x))
    func.erase()
    assert list(module) == [other]
    assert negative.operands == (x,)  # nothing that stays has it as a user


def test_a_region_may_change_while_it_is_walked() -> None:
    func, b = function(("x", f32))
    (x,) = func.body.arguments
    for _ in range(5):
        b.insert(Neg(x))
    for op in func.body:
        op.erase()
    assert list(func.body) == []


def found_in(region: Region) -> list[Op]:
    """The ops in a region, from the links between them alone."""
    return [op for outer in region for op in (outer, *chain(*map(found_in, outer.regions)))]


def test_a_walk_is_of_what_is_there_now() -> None:
    func, b = function(("x", f32), ("c", bool_))
    x, c = func.body.arguments
    branch = b.insert(If(c, []))
    with b.inside(branch.then):
        b.insert(Neg(x))
    b.insert(Return([]))
    module = Module([func])

    def walked() -> list[str]:
        ops = module.walk()
        assert [*ops] == found_in(module.body)
        assert [*func.walk()] == [*ops]
        assert [func, *func.body.walk()] == [*ops]
        return [op.name for op in ops[1:]]

    before = module.walk()
    assert walked() == ["if", "neg", "return"]
    with b.inside(branch.otherwise):
        b.insert(Mul(x, x))
    assert walked() == ["if", "neg", "mul", "return"]
    branch.set_regions((branch.otherwise, branch.then))
    assert walked() == ["if", "mul", "neg", "return"]
    func.body.end.insert_before(Add(x, x))
    assert walked() == ["if", "mul", "neg", "add", "return"]
    moved = branch.then.first
    assert moved is not None
    moved.detach()
    assert walked() == ["if", "neg", "add", "return"]
    branch.insert_before(moved)
    assert walked() == ["mul", "if", "neg", "add", "return"]
    branch.erase()
    assert walked() == ["mul", "add", "return"]
    assert [op.name for op in before] == ["func", "if", "neg", "return"]


class WalksAgain(Instrument):
    """Compares walks with the links between ops, before and after each pass."""

    changes = 0

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.walked = [*module.walk()]

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        before, self.walked = self.walked, [*module.walk()]
        assert self.walked == found_in(module.body), done
        self.changes += self.walked != before


def test_random_passes_are_seen_by_walks() -> None:
    watch = WalksAgain()
    for seed in range(counts(50, 500)):
        run(random_module(seed), "fold,canonicalize,cse,licm,dce", [watch])
    assert watch.changes > counts(50, 500)


@given(programs.tile())
def test_passes_over_tiles_are_seen_by_walks(program: Program) -> None:
    run(program.module, METAL_PIPELINE, [WalksAgain()])


@given(programs.graph())
def test_passes_over_graphs_are_seen_by_walks(program: Program) -> None:
    run(program.module, GRAPH_PIPELINE, [WalksAgain()])


@given(programs.metal(), programs.pipelines())
def test_passes_over_threads_are_seen_by_walks(program: Program, pipeline: Pipeline) -> None:
    run(program.module, pipeline, [WalksAgain()])


# Equality.


def test_equality_sees_everything_but_names_and_locations() -> None:
    def make(**changes: object) -> Module:
        parts: dict[str, object] = {"n": 1, "predicate": Predicate.LT, "name": "x", "line": 1}
        parts |= changes
        func, b = function((str(parts["name"]), i32))
        b.location = Location("k.py", int(str(parts["line"])))
        one = b(Constant(int(str(parts["n"])), i32))
        b(Compare(parts["predicate"], func.body.arguments[0], one))
        b.insert(Return([]))
        return Module([func])

    assert make() == make()
    assert make() == make(name="y", line=2)
    assert make() != make(n=2)
    assert make() != make(predicate=Predicate.LE)
    assert make() != "text"


def test_random_modules_clone_equal_and_apart() -> None:
    for seed in range(counts(200, 2000)):
        module = random_module(seed)
        text = str(module)
        clone = module.clone()
        assert clone == module
        verify(clone)
        for op in clone.walk():
            assert all(op in v.users for v in op.operands)
        originals = set(module.walk())
        assert not originals & set(clone.walk())
        for function_ in clone:
            function_.regions[0].end.set_operands(())
        assert str(module) == text, "changing the clone changed the original"


def test_a_random_change_makes_modules_differ() -> None:
    for seed in range(counts(100, 1000)):
        module = random_module(seed)
        clone = module.clone()
        victims = [
            op
            for op in clone.walk()
            if len(set(op.operands)) == len(op.operands) == 2 and not op.regions
        ]
        op = victims[seed % len(victims)]
        op.set_operands(op.operands[::-1])
        assert clone != module
