"""Axis analysis: what it says is true, and it says what the contract's programs need."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris.analysis.axis import MOST, Axes, AxisFacts, AxisInfo, order, vector
from iris.interp import tile as interp
from iris.interp.frame import Frame, interpretation
from iris.ir import math, parse, tile, verify
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, Return, While, Yield
from iris.ir.core import Level, Module, Op, Region, Value
from iris.ir.declare import ELEMENTS, operand
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, bool_, i8, i32, i64, u8, u32
from support import counts

Array = npt.NDArray[Any]

# What is said of random programs.


class Observe(tile.TileOp):
    """Hands a value, where it is, to the test."""

    name = "test.observe"
    x: Value = operand(ELEMENTS)

    def infer(self) -> tuple[()]:
        return ()


observed: list[tuple[Value, Array]] = []


@interpretation(Observe)
def observe(frame: Frame, op: Observe, x: Array) -> list[Any]:
    shape = element_type(op.x.type).shape
    observed.append((op.x, np.broadcast_to(x, (len(x), *(shape or (1,))))))
    return []


SHAPES = ((), (8,), (16,), (1, 8), (8, 1), (4, 8), (8, 4), (2, 8), (2, 4, 4))
SMALL = (0, 1, 2, 3, 4, 6, 8, 16, 24, 64, -1, -4, -16)


class _Generator:
    """A function of integers and bools, all of which are observed.  Those that a cast widens are
    small: what is said of them is true only while they do not wrap."""

    def __init__(self, seed: int):
        self.rng = rng = random.Random(seed)
        self.widens = rng.random() < 0.3
        self.dtype: DType = i32 if self.widens else rng.choice((i32, i32, i64, u32, i8, u8))
        dtype = self.dtype
        arguments = [("n", dtype), ("m", dtype), ("k", dtype), ("flag", bool_)]
        self.func = Func("f", Level.TILE, [*arguments, ("t", Tile((8,), dtype))])
        self.builder = Builder(self.func.body)
        self.visible: list[Value] = list(self.func.body.arguments)
        self.divisors = rng.choice((16, 48, 64)), rng.choice((2, 4, 100))
        for argument, divisor in zip(self.visible[:2], self.divisors, strict=True):
            self.emit(math.AssumeDivisible(divisor, argument))

    def function(self) -> Func:
        for _ in range(self.rng.randrange(12, 30)):
            self.step(0)
        self.builder.insert(Return([]))
        return self.func

    def arguments(self, seed: int) -> list[Any]:
        rng, dtype = np.random.default_rng(seed), self.dtype
        low, high = (-2, 3) if self.widens or seed % 3 else (-(2**40), 2**40)
        numbers = zip(rng.integers(low, high, 3).tolist(), (*self.divisors, 1), strict=True)
        wrapped = [self.wrap(number * divisor, divisor) for number, divisor in numbers]
        tiles = rng.integers(low, high, 8).astype(f"i{dtype.bits // 8}")
        return [*wrapped, bool(rng.integers(2)), tiles]

    def wrap(self, number: int, divisor: int) -> int:
        """A multiple of a number within the range of the dtype."""
        dtype = self.dtype
        fits = (number - dtype.low) % (1 << dtype.bits) + dtype.low
        return fits - fits % divisor if fits - fits % divisor >= dtype.low else 0

    def emit(self, op: Op) -> Value:
        value = self.builder(op)
        self.see(value)
        return value

    def see(self, value: Value) -> None:
        self.visible.append(value)
        self.builder.insert(Observe(value))

    def number(self, value: int, type_: ElementType) -> Value:
        low, high = type_.element.low, type_.element.high
        return self.emit(math.Constant(min(max(value, low), high), type_))

    def any_of(self, *wanted: bool) -> Value:
        """Any tile or scalar, of truths if that is wanted."""
        values = [v for v in self.visible if (element_type(v.type).element is bool_) in wanted]
        return self.rng.choice(values[-12:] if self.rng.random() < 0.7 else values)

    def pick(self, type_: ElementType) -> Value:
        """A value of a type, which may have to be made."""
        rng = self.rng
        known = [v for v in self.visible if v.type is type_]
        if known and rng.random() < 0.6:
            return rng.choice(known)
        if type_.element is bool_ and not known:
            other = type_.with_element(self.dtype)
            return self.emit(math.Compare(Predicate.LT, self.pick(other), self.pick(other)))
        kind = rng.randrange(3)
        if len(type_.shape) == 1 and kind == 0 and type_.element is not bool_:
            return self.arange(type_)
        scalars = [v for v in self.visible if v.type is type_.element]
        if type_.shape and kind == 1 and scalars:
            return self.emit(tile.Broadcast(rng.choice(scalars), type_))
        return self.number(rng.choice(SMALL) if type_.element is not bool_ else 1, type_)

    def arange(self, type_: ElementType) -> Value:
        starts = [s for s in SMALL if type_.element.low <= s < type_.element.high - 16]
        return self.emit(tile.Arange(self.rng.choice(starts), type_))

    def step(self, depth: int) -> None:
        nested = [self.loop, self.while_loop, self.branch] if depth < 2 else []
        kinds = [self.arithmetic] * 6 + [self.by_constant] * 4 + [self.truth] * 3
        kinds += [self.move] * 6 + [self.choose] * 3 + [self.convert] * 2 + nested
        self.rng.choice(kinds)(depth)

    def arithmetic(self, depth: int) -> None:
        x = self.any_of(False)
        type_ = element_type(x.type)
        ops = (math.Add, math.Add, math.Add, math.Sub, math.Mul, math.Maximum, math.Minimum)
        bits = (math.And, math.Or, math.Xor)
        if self.rng.random() < 0.1:
            self.emit(self.rng.choice((math.Neg, math.Abs, math.Not))(x))
        else:
            self.emit(self.rng.choice((*ops, *bits))(x, self.pick(type_)))

    def by_constant(self, depth: int) -> None:
        x = self.any_of(False)
        type_ = element_type(x.type)
        cls = self.rng.choice((math.FloorDiv, math.Mod, math.Shl, math.Shr, math.Mul))
        shifts = cls in (math.Shl, math.Shr)
        by = self.rng.choice((0, 1, 2, 4) if shifts else (1, 2, 4, 8, 16, 3, 12, -4))
        signed = type_.element.is_signed
        self.emit(cls(x, self.number(by if signed else abs(by), type_)))

    def truth(self, depth: int) -> None:
        if self.rng.random() < 0.3:
            x = self.any_of(True)
            cls = self.rng.choice((math.And, math.Or, math.Xor))
            self.emit(cls(x, self.pick(element_type(x.type))))
            return
        x = self.any_of(False)
        pair = [x, self.pick(element_type(x.type))]
        self.rng.shuffle(pair)
        self.emit(math.Compare(self.rng.choice(list(Predicate)), *pair))

    def choose(self, depth: int) -> None:
        x = self.any_of(False)
        type_ = element_type(x.type)
        condition = self.pick(self.rng.choice((bool_, type_.with_element(bool_))))
        if self.rng.random() < 0.3:
            x = self.number(self.rng.choice(SMALL), type_)
        self.emit(math.Select(condition, x, self.pick(type_)))

    def convert(self, depth: int) -> None:
        x, rng = self.any_of(False, True), self.rng
        type_ = element_type(x.type)
        twin = {i8: u8, u8: i8, i32: u32, u32: i32}.get(type_.element)
        if twin is not None and not self.widens and rng.random() < 0.5:
            x = self.emit(math.Bitcast(x, type_.with_element(twin)))
        to = rng.choice((i64, i32, bool_) if self.widens else (self.dtype, bool_))
        x = self.emit(math.Cast(x, type_.with_element(to)))
        if to is bool_:
            self.emit(math.Cast(x, type_.with_element(self.dtype)))

    def move(self, depth: int) -> None:
        """The same elements in another shape."""
        x, rng = self.any_of(False, False, True), self.rng
        type_ = element_type(x.type)
        shape = type_.shape
        ways: list[Op] = []
        for to in SHAPES:
            whole = Tile(to, type_.element) if to else None
            if whole is None or to == shape:
                continue
            spreads = len(to) == len(shape) and all(
                a in (1, b) for a, b in zip(shape, to, strict=True)
            )
            if not shape or spreads:
                ways.append(tile.Broadcast(x, whole))
            if shape and prod(shape) == prod(to):
                ways.append(tile.Reshape(x, whole))
        if 0 < len(shape) < 3:
            ways += [tile.ExpandDims(axis, x) for axis in range(len(shape) + 1)]
        if len(shape) > 1:
            order = list(range(len(shape)))
            rng.shuffle(order)
            ways.append(tile.Transpose(tuple(order), x))
        if ways:
            chosen = rng.choice(ways)
            for way in ways:
                if way is not chosen:
                    way.set_operands(())
            self.emit(chosen)

    # Control flow.

    def inside(self, region: Region, depth: int, end: list[Value]) -> None:
        """Fill a region that ends with values of the types of some others."""
        outside = list(self.visible)
        with self.builder.inside(region):
            for argument in region.arguments:
                self.see(argument)
            for _ in range(self.rng.randrange(1, 5)):
                self.step(depth + 1)
            self.builder.insert(Yield([self.next(v) for v in end]))
        self.visible = outside

    def next(self, value: Value) -> Value:
        """What a carried value becomes: often itself and a little more."""
        type_ = element_type(value.type)
        if type_.element is not bool_ and value in self.visible and self.rng.random() < 0.5:
            return self.emit(math.Add(value, self.number(self.rng.choice(SMALL), type_)))
        return self.pick(type_)

    def carried(self) -> list[Value]:
        values = [self.any_of(False, True) for _ in range(self.rng.randrange(1, 3))]
        return [*values, self.arange(Tile((8,), self.dtype))]

    def finish(self, op: Op) -> None:
        for value in op.results:
            self.see(value)

    def loop(self, depth: int) -> None:
        bounds = self.rng.choice(((0, 8, 4), (0, 64, 16), (16, 0, -8), (3, 9, 2), (0, 0, 1)))
        start = self.carried()
        op = For(*[self.builder(math.Constant(n, i32)) for n in bounds], start)
        self.builder.insert(op)
        self.inside(op.body, depth, op.carried_arguments)
        self.finish(op)

    def while_loop(self, depth: int) -> None:
        """A loop of two rounds, whatever else it carries."""
        count = self.builder(math.Constant(0, i32))
        op = While([count, *self.carried()])
        self.builder.insert(op)
        with self.builder.inside(op.condition):
            for argument in op.condition.arguments:
                self.builder.insert(Observe(argument))
            two = self.builder(math.Constant(2, i32))
            more = self.builder(math.Compare(Predicate.LT, op.condition.arguments[0], two))
            self.builder.insert(Yield([more]))
        self.inside(op.body, depth, op.body.arguments)
        end = op.body.end
        builder = Builder(op.body, end)
        one = builder(math.Constant(1, i32))
        count = builder(math.Add(op.body.arguments[0], one))
        end.set_operands((count, *end.operands[1:]))
        self.finish(op)

    def branch(self, depth: int) -> None:
        given = self.carried()
        op = If(self.pick(bool_), [v.type for v in given])
        self.builder.insert(op)
        self.inside(op.then, depth, given)
        self.inside(op.otherwise, depth, given)
        self.finish(op)


def groups(x: Array, axis: int, size: int) -> Array:
    """Elements along an axis, cut into groups of a size, a group in a row; in any order."""
    rows = x.swapaxes(1 + axis, -1)
    return rows.reshape(*rows.shape[:-1], rows.shape[-1] // size, size).reshape(-1, size)


def follows(rows: Array, dtype: DType, *, wrapping: bool) -> bool:
    """Whether in each row every element is one more than the one before."""
    wide = rows.astype(np.int64)
    step = wide[:, 1:] - wide[:, :-1]
    return bool((step % (1 << min(dtype.bits, 62)) == 1 if wrapping else step == 1).all())


def wrong(info: AxisInfo, x: Array, dtype: DType) -> str | None:
    """What is said of a value and is not so.  A 1 says nothing."""
    for axis, said in enumerate(info.axes):
        if dtype is not bool_ and (said.contiguity != 1 or said.divisibility != 1):
            rows = groups(x, axis, said.contiguity)
            if not follows(rows, dtype, wrapping=True):
                return f"contiguity {said.contiguity} along {axis}"
            if (rows[:, 0].astype(np.int64) % said.divisibility).any():
                return f"divisibility {said.divisibility} along {axis}"
        if said.constancy != 1:
            rows = groups(x, axis, said.constancy)
            if (rows != rows[:, :1]).any():
                return f"constancy {said.constancy} along {axis}"
    if info.constant is not None and (x != info.constant).any():
        return f"constant {info.constant}"
    return None


def widened(value: Value) -> bool:
    element = element_type(value.type).element
    return any(
        isinstance(user, math.Cast) and element_type(user.result.type).element.bits > element.bits
        for user in value.users
    )


SAYS_NOTHING = (Func, Observe, Return, Yield)


def test_what_is_said_is_so() -> None:
    programs = counts(300, 5000)
    said: Counter[tuple[str, str]] = Counter()
    wrapped = 0
    for seed in range(programs):
        generator = _Generator(seed)
        func = generator.function()
        if seed % 20 == 0:
            verify(Module([func]))
        ops = [op for op in func.walk() if not isinstance(op, SAYS_NOTHING)]
        asked = [v for op in ops for v in op.results]
        asked += [v for op in ops for region in op.regions for v in region.arguments]
        generator.rng.shuffle(asked)  # it does not matter what is asked first
        axes = Axes()
        infos = {value: axes.of(value) for value in asked}
        observed.clear()
        for again in range(3):
            interp.run(func, (2, 2, 1), generator.arguments(seed + again))
        for value, x in observed:
            info, dtype = infos[value], element_type(value.type).element
            assert wrong(info, x, dtype) is None, f"{wrong(info, x, dtype)} of {value}\n{func}"
            if widened(value) and any(
                not follows(groups(x, axis, a.contiguity), dtype, wrapping=False)
                for axis, a in enumerate(info.axes)
                if a.contiguity != 1
            ):
                wrapped += 1
                break
        for value, info in infos.items():
            name = value.op.name if value.op is not None else "argument"
            said[name, "contiguity"] += max(info.contiguity) > 1
            said[name, "divisibility"] += max(info.divisibility) > 1
            said[name, "constancy"] += max(info.constancy) > 1
    assert wrapped < programs / 20
    # It could be right by saying nothing.
    for name, kinds in SAID.items():
        for kind in kinds.split():
            assert said[name, kind] > programs / 200, (name, kind)


SAID = {
    "argument": "contiguity divisibility constancy",
    "add": "contiguity divisibility constancy",
    "sub": "contiguity divisibility constancy",
    "mul": "divisibility constancy",
    "neg": "divisibility constancy",
    "abs": "divisibility constancy",
    "not": "constancy",
    "floordiv": "divisibility constancy",
    "mod": "contiguity divisibility constancy",
    "shl": "divisibility constancy",
    "shr": "divisibility constancy",
    "and": "divisibility constancy",
    "or": "divisibility constancy",
    "xor": "divisibility constancy",
    "maximum": "divisibility constancy",
    "minimum": "divisibility constancy",
    "compare": "constancy",
    "select": "contiguity divisibility constancy",
    "cast": "contiguity divisibility constancy",
    "bitcast": "contiguity divisibility constancy",
    "assume_divisible": "divisibility",
    "tile.broadcast": "contiguity divisibility constancy",
    "tile.expand_dims": "contiguity divisibility constancy",
    "tile.transpose": "contiguity divisibility constancy",
    "tile.reshape": "contiguity divisibility constancy",
    "for": "contiguity divisibility constancy",
    "while": "contiguity divisibility constancy",
    "if": "contiguity divisibility constancy",
}


# Cases that random programs seldom hit.


def run(func: Func, *arguments: Any) -> dict[Value, Array]:
    """What every value of a function is, its arguments being given."""
    for op in func.body:
        for value in op.results:
            op.parent.insert(Observe(value), op.next)
    observed.clear()
    interp.run(func, (1, 1, 1), arguments)
    return dict(observed)


def function(body: str, head: str = "") -> Func:
    module = parse(f"func tile @f({head}) {{\n{body}\nreturn\n}}\n")
    verify(module)
    func = next(iter(module))
    assert isinstance(func, Func)
    return func


@pytest.mark.parametrize("predicate", list(Predicate), ids=lambda p: p.value)
@pytest.mark.parametrize("operands", ["%i, %b", "%b, %i"])
def test_comparisons_near_the_bound(predicate: Predicate, operands: str) -> None:
    text = f"""
      %s: i32 = assume_divisible 4 %s_arg
      %n: i32 = assume_divisible 4 %n_arg
      %a: tile<8xi32> = tile.arange 0
      %ss: tile<8xi32> = tile.broadcast %s
      %i: tile<8xi32> = add %a, %ss
      %b: tile<8xi32> = tile.broadcast %n
      %x: tile<8xbool> = compare {predicate.value} {operands}
    """
    for s, n in product((-8, -4, 0, 4, 2**31 - 8, -(2**31)), repeat=2):
        for value, x in run(function(text, "%s_arg: i32, %n_arg: i32"), s, n).items():
            info = Axes().of(value)
            assert wrong(info, x, element_type(value.type).element) is None
            if value.name == "x":
                whole = (predicate in (Predicate.LT, Predicate.GE)) is (operands[1] == "i")
                whole = whole and predicate not in (Predicate.EQ, Predicate.NE)
                assert info.constancy == (4 if whole else 1,)


@pytest.mark.parametrize("start", [0, 4, 3])
@pytest.mark.parametrize("shape", [(1, 8), (8, 1), (4, 8), (8, 4), (2, 4, 4)])
def test_reshapes(shape: tuple[int, ...], start: int) -> None:
    along = shape.index(8) if 8 in shape else 2
    row = tuple(n if axis == along else 1 for axis, n in enumerate(shape))
    for to in ((32,), (8,), (4, 8), (8, 4), (2, 16), (4, 1, 8), (2, 4, 4), (16, 2), (1, 8, 1)):
        if prod(to) != prod(shape):
            continue
        func = Func("f", Level.TILE, [])
        b = Builder(func.body)
        x = b(tile.Arange(start, Tile((shape[along],), i32)))
        x = b(tile.Reshape(x, Tile(row, i32)))
        x = b(tile.Broadcast(x, Tile(shape, i32)))
        x = b(tile.Reshape(x, Tile(to, i32)))
        b.insert(Return([]))
        assert any(max(a.contiguity, a.constancy) > 1 for a in Axes().of(x).axes)
        for value, found in run(func).items():
            assert wrong(Axes().of(value), found, i32) is None


def test_a_loop_within_a_loop() -> None:
    """What the inner one carries is known only when the outer one is."""
    func = function("""
      %c0: i32 = constant 0
      %c1: i32 = constant 1
      %c4: i32 = constant 4
      %c8: i32 = constant 8
      %c2: i32 = constant 2
      %x: i32, %y: i32 = for %c0, %c2, %c1 (%i: i32, %a: i32 = %c8, %b: i32 = %c0) {
        %p: i32, %q: i32 = for %c0, %c2, %c1 (%j: i32, %c: i32 = %c8, %d: i32 = %b) {
          %e: i32 = add %c, %a
          %f: i32 = add %d, %c8
          yield %e, %f
        }
        %r: i32 = add %p, %c4
        yield %r, %q
      }
    """)
    (outer,) = [op for op in func.body if isinstance(op, For)]
    (inner,) = [op for op in outer.body if isinstance(op, For)]
    for asked in (inner.body.arguments, outer.body.arguments, inner.results, outer.results):
        axes = Axes()
        for value in asked:
            axes.of(value)
        assert [axes.of(v).divisibility for v in outer.results] == [(4,), (8,)]
        assert [axes.of(v).divisibility for v in inner.body.arguments] == [(1,), (4,), (8,)]


def test_long_chains() -> None:
    lines = ["%x0: i32 = constant 4"]
    lines += [f"%x{n + 1}: i32 = add %x{n}, %x0" for n in range(3000)]
    *_, end, _ = function("\n".join(lines)).body
    assert Axes().of(end.results[0]).divisibility == (4,)


# What the contract's programs need.

ROWS = """
  %row: i32 = tile.program_id 0
  %n: i32 = {n}
  %c64: i32 = constant 64
  %first: i32 = mul %row, %c64
  %lane: tile<64xi32> = tile.arange 0
  %f: tile<64xi32> = tile.broadcast %first
  %cols: tile<64xi32> = add %f, %lane
  %nn: tile<64xi32> = tile.broadcast %n
  %inside: tile<64xbool> = compare lt %cols, %nn
  %base: i32 = mul %row, %n
  %bs: tile<64xi32> = tile.broadcast %base
  %at: tile<64xi32> = add %bs, %cols
  %zero: tile<64x{dtype}> = constant {zero}
  %x: tile<64x{dtype}> = tile.load %X, %at, mask=%inside, other=%zero
  tile.store %X, %cols, %x
"""


def rows(n: str, dtype: str = "f32", flags: str = ", aligned") -> tuple[Func, dict[str, Value]]:
    zero = "0.0" if dtype[0] == "f" else "0"
    func = function(
        ROWS.format(n=n, dtype=dtype, zero=zero), f"%X: ptr<{dtype}{flags}>, %n_arg: i32"
    )
    return func, {str(v.name): v for op in func.body for v in op.results}


def test_rows_of_a_multiple_of_16() -> None:
    _, values = rows("assume_divisible 16 %n_arg")
    axes = Axes()
    assert axes.of(values["first"]) == AxisInfo((AxisFacts(divisibility=64),))
    assert axes.of(values["lane"]) == AxisInfo((AxisFacts(64, MOST, 1),))
    assert axes.of(values["cols"]) == AxisInfo((AxisFacts(64, 64, 1),))
    assert axes.of(values["inside"]) == AxisInfo((AxisFacts(constancy=16),))
    assert axes.of(values["bs"]) == AxisInfo((AxisFacts(1, 16, 64),))
    assert axes.of(values["at"]) == AxisInfo((AxisFacts(64, 16, 1),))


def test_rows_of_any_length() -> None:
    _, values = rows("add %n_arg, %n_arg")
    axes = Axes()
    assert axes.of(values["inside"]) == AxisInfo((AxisFacts(),))
    assert axes.of(values["at"]) == AxisInfo((AxisFacts(64, 1, 1),))


@pytest.mark.parametrize(
    ("n", "dtype", "flags", "load", "store"),
    [
        ("assume_divisible 16 %n_arg", "f32", ", aligned", 4, 4),
        ("assume_divisible 16 %n_arg", "f16", ", noalias, aligned", 8, 8),
        ("assume_divisible 16 %n_arg", "i8", ", aligned", 16, 16),
        ("assume_divisible 16 %n_arg", "i64", ", aligned", 2, 2),
        ("assume_divisible 4 %n_arg", "f16", ", aligned", 4, 8),
        ("assume_divisible 6 %n_arg", "f32", ", aligned", 2, 4),
        ("assume_divisible 16 %n_arg", "f32", "", 1, 1),
        ("add %row, %n_arg", "f32", ", aligned", 1, 4),
        ("constant 100", "f32", ", aligned", 4, 4),
    ],
)
def test_vectors(n: str, dtype: str, flags: str, load: int, store: int) -> None:
    func, _ = rows(n, dtype, flags)
    axes = Axes()
    *_, read, write, _ = func.body
    assert (vector(read, 0, axes), vector(write, 0, axes)) == (load, store)


BLOCK = """
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c4: i32 = constant 4
  %c64: i32 = constant 64
  %pid: i32 = tile.program_id 0
  %i: i32 = mul %pid, %c64
  %n: i32 = assume_divisible 16 %n_arg
  %p: i32 = assume_divisible 2 %p_arg
  %x: tile<{shape}xf16> = tile.load_tile %X, {block}
"""


@pytest.mark.parametrize(
    ("shape", "block", "widths", "axes"),
    [
        # A matrix, by rows and by columns.
        ("8x64", "offsets=[%pid, %i], strides=[%n, %c1], bounds=[%m, %n]", (1, 8), (1, 0)),
        ("64x8", "offsets=[%i, %pid], strides=[%c1, %n], bounds=[%n, %m]", (8, 1), (0, 1)),
        # The bound, the limit, the other stride, the start: each may stand in the way.
        ("8x64", "offsets=[%pid, %i], strides=[%n, %c1], bounds=[%m, %p]", (1, 2), (1, 0)),
        (
            "8x64",
            "limit=%p, offsets=[%pid, %i], strides=[%n, %c1], bounds=[%m, %n]",
            (1, 2),
            (1, 0),
        ),
        ("8x64", "offsets=[%pid, %i], strides=[%m, %c1], bounds=[%m, %n]", (1, 1), (1, 0)),
        ("8x64", "offsets=[%pid, %p], strides=[%n, %c1], bounds=[%m, %n]", (1, 2), (1, 0)),
        # Of an axis of one element only the product counts.
        ("1x64", "offsets=[%i, %i], strides=[%m, %c1], bounds=[%m, %n]", (1, 8), (1, 0)),
        ("1x64", "offsets=[%pid, %i], strides=[%c4, %c1], bounds=[%m, %n]", (1, 4), (1, 0)),
        # A tile that is all of the axis.
        ("8x64", "offsets=[%pid, %c0], strides=[%c64, %c1], bounds=[%m, %c64]", (1, 8), (1, 0)),
        ("8x4", "offsets=[%pid, %c0], strides=[%c4, %c1], bounds=[%m, %c4]", (1, 4), (1, 0)),
        # No axis of stride 1, and strides in no usual order.
        ("8x64", "offsets=[%pid, %i], strides=[%c4, %n], bounds=[%m, %n]", (1, 1), (0, 1)),
        ("8x64", "offsets=[%pid, %i], strides=[%n, %m], bounds=[%m, %n]", (1, 1), (1, 0)),
    ],
)
def test_vectors_of_blocks(
    shape: str, block: str, widths: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    head = "%X: ptr<f16, noalias, aligned>, %m: i32, %n_arg: i32, %p_arg: i32"
    *_, load, _ = function(BLOCK.format(shape=shape, block=block), head).body
    known = Axes()
    assert tuple(vector(load, axis, known) for axis in range(2)) == widths
    assert order(load, known) == axes


def test_vectors_of_random_blocks() -> None:
    """Every group is one vector in memory: in a row, from a multiple of its size on, and all of
    it inside or none."""
    rng = random.Random(0)
    wide = 0
    for _ in range(counts(500, 5000)):
        values = {n: rng.choice((0, 1, 2, 4, 8, 16, 3, 12, 40)) for n in "abcdefg"} | {"one": 1}
        facts = {
            n: rng.choice([d for d in (1, 2, 4, 8, 16) if v % d == 0]) for n, v in values.items()
        }
        lines = []
        for name, value in values.items():
            known = value == 1 or rng.random() < 0.3
            fact = f"assume_divisible {facts[name]} %{name}_arg" if facts[name] > 1 else ""
            op = f"constant {value}" if known else fact or f"maximum %{name}_arg, %{name}_arg"
            lines.append(f"%{name}: i32 = {op}")
        names = [rng.choice("abcdefg") for _ in range(7)]
        names[rng.choice((2, 3))] = "one"
        sizes = rng.choice(((4, 16), (1, 16), (16, 4), (16, 1)))
        offsets, strides, bounds = names[:2], names[2:4], names[4:6]
        limit = [names[6]] if rng.random() < 0.3 else []
        listed = [", ".join(f"%{n}" for n in group) for group in (offsets, strides, bounds)]
        lines.append(
            f"%x: tile<{sizes[0]}x{sizes[1]}xf16> = tile.load_tile %X, "
            + "".join(f"limit=%{n}, " for n in limit)
            + "offsets=[{}], strides=[{}], bounds=[{}]".format(*listed)
        )
        head = ["%X: ptr<f16, aligned>", *(f"%{n}_arg: i32" for n in values)]
        *_, load, _ = function("\n".join(lines), ", ".join(head)).body
        o, s, b = ([values[n] for n in group] for group in (offsets, strides, bounds))
        i, j = np.ogrid[o[0] : o[0] + sizes[0], o[1] : o[1] + sizes[1]]
        address = i * s[0] + j * s[1]
        inside = (i < b[0]) & (j < b[1])
        if limit:
            inside = inside & (address < values[limit[0]])
        for axis in range(2):
            width = vector(load, axis, Axes())
            assert width <= min(8, sizes[axis])
            wide += width > 1
            at, within = (groups(x[None], axis, width) for x in (address, inside))
            assert (at - at[:, :1] == np.arange(width)).all()
            assert not (at[:, 0] % width).any()
            assert (within == within[:, :1]).all()
    assert wide > counts(500, 5000) / 20


def test_the_order_of_axes() -> None:
    func = function(
        """
        %a: tile<8xi32> = tile.arange 0
        %c: tile<8xi32> = constant 24
        %down: tile<8x1xi32> = tile.expand_dims 1 %a
        %far: tile<8xi32> = mul %a, %c
        %across: tile<1x8xi32> = tile.expand_dims 0 %far
        %x: tile<8x8xi32> = tile.broadcast %down
        %y: tile<8x8xi32> = tile.broadcast %across
        %columns: tile<8x8xi32> = add %x, %y
        %rows: tile<8x8xi32> = tile.transpose [1, 0] %columns
        %0: tile<8x8xf32> = tile.load %X, %columns
        %1: tile<8x8xf32> = tile.load %X, %rows
        %2: tile<8x8xf32> = tile.load %X, %y
        %one: i32 = constant 1
        %3: f32 = tile.load %X, %one
        %two: tile<8x1xi32> = constant 2
        %half: tile<8x1xi32> = floordiv %down, %two
        %even: tile<8x1xi32> = mul %half, %two
        %z: tile<8x8xi32> = tile.broadcast %even
        %pairs: tile<8x8xi32> = add %z, %y
        %4: tile<8x8xf32> = tile.load %X, %pairs
        """,
        "%X: ptr<f32, aligned>",
    )
    loads = [op for op in func.body if isinstance(op, tile.Load)]
    axes = Axes()
    assert [order(op, axes) for op in loads] == [(0, 1), (1, 0), (1, 0), (), (0, 1)]
    assert [vector(op, 0, axes) for op in loads] == [4, 1, 1, 1, 1]
    assert vector(loads[1], 1, axes) == 4
