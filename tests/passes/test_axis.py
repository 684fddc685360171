"""Axis analysis: what it says is true, and it says what the contract's programs need."""

from __future__ import annotations

import random
from collections import Counter
from textwrap import dedent, indent
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris.interp import tile as interp
from iris.interp.frame import Frame, interpretation
from iris.ir import math, parse, tile, verify
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, Return, While, Yield
from iris.ir.core import Level, Module, Op, Region, Value
from iris.ir.declare import ELEMENTS, operand
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Ptr, Tile, bool_, i8, i32, i64, u8, u32
from iris.passes.axis import MOST, Axes, AxisInfo, order, vector
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
        numbers = [int(x) * d for x, d in zip(rng.integers(low, high, 3), (*self.divisors, 1))]
        tiles = rng.integers(low, high, 8).astype(f"i{dtype.bits // 8}")
        wrapped = [self.wrap(x, d) for x, d in zip(numbers, (*self.divisors, 1), strict=True)]
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
            if shape and np.prod(shape) == np.prod(to):
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
        self.inside(op.body, depth, op.carried)
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
    """Elements along an axis, cut into groups of a size, a group in a row."""
    rows = np.moveaxis(x, 1 + axis, -1)
    return rows.reshape(*rows.shape[:-1], rows.shape[-1] // size, size).reshape(-1, size)


def follows(rows: Array, dtype: DType, *, wrapping: bool) -> bool:
    """Whether in each row every element is one more than the one before."""
    wide = rows.astype(np.int64)
    step = wide[:, 1:] - wide[:, :-1]
    return bool((step % (1 << min(dtype.bits, 62)) == 1 if wrapping else step == 1).all())


def wrong(info: AxisInfo, x: Array, dtype: DType) -> str | None:
    """What is said of a value and is not so."""
    for axis, said in enumerate(info.axes):
        rows = groups(x, axis, said.contiguity)
        if dtype is not bool_ and not follows(rows, dtype, wrapping=True):
            return f"contiguity {said.contiguity} along {axis}"
        if dtype is not bool_ and (rows[:, 0].astype(np.int64) % said.divisibility).any():
            return f"divisibility {said.divisibility} along {axis}"
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
            assert said[name, kind] >= programs / 100, (name, kind)


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
