"""Random expressions over one dtype, evaluated op by op on every combination of special values
at once: enough to see whether a rewrite is exact."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from textwrap import dedent, indent
from typing import Any

import numpy as np

from iris.ir import math, parse, scalar, verify
from iris.ir.control import For, Func, If, Return, While, Yield
from iris.ir.core import Level, Module, Op, Region, Value
from iris.ir.math import Predicate
from iris.ir.types import DTYPES, DType, Kind, bool_, i32, u32
from iris.passes import run

Array = np.ndarray[Any, Any]
MOST_ROUNDS = 8

BINARY_OF_INTEGERS = (
    *(math.Add, math.Sub, math.Mul, math.And, math.Or, math.Xor, math.Shl, math.Shr),
    *(math.FloorDiv, math.Mod, math.Maximum, math.Minimum, math.MaxNum, math.MinNum),
)
BINARY_OF_FLOATS = (
    *(math.Add, math.Sub, math.Mul, math.Div, math.FloorDiv, math.Mod, math.Pow),
    *(math.Maximum, math.Minimum, math.MaxNum, math.MinNum),
)
UNARY_OF_FLOATS = (math.Neg, math.Abs, math.Floor, math.Round, math.Sqrt, math.Neg)


def special_bits(dtype: DType) -> list[int]:
    """Zeros, ones, the ends of the range, infinities, nans, and what rounds as a tie."""
    top = (1 << dtype.bits) - 1
    if dtype is bool_:
        return [0, 1]
    if not dtype.is_float:
        return [0, 1, top, 2, top >> 1, (top >> 1) + 1, 5]
    one, infinity, nan = {
        "f16": (0x3C00, 0x7C00, 0x7E00),
        "bf16": (0x3F80, 0x7F80, 0x7FC0),
        "f32": (0x3F800000, 0x7F800000, 0x7FC00000),
    }[dtype.name]
    found = [0, one, infinity, infinity - 1, one + 1, 1]
    return [b | sign for b in found for sign in (0, 1 << top.bit_length() - 1)] + [nan, nan + 1]


# Evaluation: each value is an array with one lane per combination of arguments.


@dataclass
class Run:
    """The values of a function, and the lanes in which it has made a program error."""

    lanes: int
    values: dict[Value, Array] = field(default_factory=dict)
    wrong: Array = field(init=False)

    def __post_init__(self) -> None:
        self.wrong = np.zeros(self.lanes, np.bool_)

    def region(self, region: Region, arguments: Sequence[Array], active: Array) -> list[Array]:
        self.values.update(zip(region.arguments, arguments, strict=True))
        for op in region:
            operands = [self.values[v] for v in op.operands]
            if op.terminator:
                return operands
            results = self.op(op, operands, active)
            self.values.update(zip(op.results, results, strict=True))
        raise AssertionError("a region without a terminator")

    def op(self, op: Op, operands: list[Array], active: Array) -> list[Array]:
        if isinstance(op, math.Constant):
            bits = np.full(self.lanes, op.bits, np.uint64)
            return [scalar.from_bits(op.dtype, bits)]
        if isinstance(op, If):
            condition = operands[0]
            then = self.region(op.then, [], active & condition)
            otherwise = self.region(op.otherwise, [], active & ~condition)
            return [np.where(condition, *pair) for pair in zip(then, otherwise, strict=True)]
        if isinstance(op, For):
            lower, upper, step = (x.astype(np.int64) for x in operands[:3])
            trips = np.maximum(0, -((lower - upper) // step))
            assert trips.max() <= MOST_ROUNDS
            carried = operands[3:]
            for n in range(int(trips.max())):
                runs = active & (n < trips)
                index = (lower + n * step).astype(operands[0].dtype)
                new = self.region(op.body, [index, *carried], runs)
                carried = [np.where(runs, *pair) for pair in zip(new, carried, strict=True)]
            return carried
        if isinstance(op, While):
            carried, runs = operands, active
            for _ in range(MOST_ROUNDS):
                (goes_on,) = self.region(op.condition, carried, runs)
                runs = runs & goes_on
                new = self.region(op.body, carried, runs)
                carried = [np.where(runs, *pair) for pair in zip(new, carried, strict=True)]
            assert not runs.any()
            return carried
        for where, _ in scalar.program_errors(op, *operands):
            self.wrong |= where & active
        return [scalar.evaluate(op, *operands)]


def evaluate(module: Module) -> tuple[list[tuple[DType, Array]], Array]:
    """What the function returns, and where it made no program error, on every combination of
    special arguments."""
    (function,) = module
    assert isinstance(function, Func)
    types = [a.type for a in function.body.arguments]
    grid = np.meshgrid(*[np.array(special_bits(t), np.uint64) for t in types], indexing="ij")
    columns = [scalar.from_bits(t, g.reshape(-1)) for t, g in zip(types, grid, strict=True)]
    lanes = grid[0].size if grid else 1
    state = Run(lanes)
    returned = state.region(function.body, columns, np.ones(lanes, np.bool_))
    return list(zip(function.returns, returned, strict=True)), ~state.wrong


def differs(before: Module, after: Module) -> bool:
    """Whether two functions differ, where the first makes no program error.  Any nan is as good
    as any other."""
    wanted, right = evaluate(before)
    found, still_right = evaluate(after)
    if (right & ~still_right).any():
        return True
    for (dtype, one), (_, other) in zip(wanted, found, strict=True):
        same = scalar.to_bits(dtype, one) == scalar.to_bits(dtype, other)
        if dtype.is_float:
            same |= np.isnan(one) & np.isnan(other)
        if (right & ~same).any():
            return True
    return False


# Generation.


def random_expressions(seed: int, dtype: DType) -> Module:
    """One function of a few ops, that returns all it computes."""
    return Module([_Generator(random.Random(f"{dtype}{seed}"), dtype).function()])


class _Generator:
    def __init__(self, rng: random.Random, dtype: DType):
        self.rng = rng
        self.dtype = dtype
        arguments = [("x", dtype), ("y", dtype), ("p", bool_)]
        self.func = Func("f", Level.TILE, arguments)
        self.region = self.func.body
        self.visible = list(self.region.arguments)
        # Values whose bits may be looked at: not what arithmetic made, which may be any nan.
        self.solid = set(self.visible)

    def function(self) -> Func:
        for _ in range(self.rng.randint(6, 14)):
            self.step(0)
        self.region.append(Return(self.visible))
        returns = tuple([v.type for v in self.visible])
        self.func.attributes = (*self.func.attributes[:2], returns, *self.func.attributes[3:])
        return self.func

    def emit(self, op: Op, *, solid: bool = False) -> Value:
        self.region.append(op)
        value = op.results[0]
        self.visible.append(value)
        if solid or isinstance(op, math.Constant):
            self.solid.add(value)
        return value

    def constant(self, dtype: DType) -> Value:
        return self.emit(math.Constant.of_bits(self.rng.choice(special_bits(dtype)), dtype))

    def number(self, value: int) -> Value:
        return self.emit(math.Constant(value, self.dtype))

    def pick(self, dtype: DType, *, solid: bool = False) -> Value:
        """A value of the dtype, rather a late one, or a new constant."""
        known = [v for v in self.visible if v.type is dtype and (v in self.solid or not solid)]
        if not known or self.rng.random() < 0.3:
            return self.constant(dtype)
        return self.rng.choice(known[-self.rng.randint(1, len(known)) :])

    def step(self, depth: int) -> None:
        kinds = [self.arithmetic] * 8 + [self.logic] * 3 + [self.choice] * 2 + [self.conversion] * 2
        if depth < 2:
            kinds += [self.branch, self.loop, self.while_loop]
        self.rng.choice(kinds)(depth)

    def arithmetic(self, depth: int) -> None:
        rng, dtype = self.rng, self.dtype
        if dtype is bool_:
            self.logic(depth)
            return
        lhs = self.pick(dtype)
        rhs = lhs if rng.random() < 0.15 else self.pick(dtype)
        if dtype.is_float:
            cls = rng.choice(BINARY_OF_FLOATS)
            if rng.random() < 0.25:
                self.emit(rng.choice(UNARY_OF_FLOATS)(lhs))
                return
        else:
            cls = rng.choice(BINARY_OF_INTEGERS)
            if rng.random() < 0.15:
                self.emit(rng.choice((math.Neg, math.Not, math.Abs))(lhs))
                return
            if cls in (math.Shl, math.Shr):
                rhs = self.emit(math.And(rhs, self.number(dtype.bits - 1)))
            elif cls in (math.FloorDiv, math.Mod):
                rhs = self.emit(math.Or(rhs, self.number(1)))
        if rng.random() < 0.2:  # constants in a row
            bitwise = () if dtype.is_float else (math.And, math.Or, math.Xor)
            cls = rng.choice((math.Add, math.Sub, math.Mul, *bitwise))
            lhs = self.emit(cls(lhs, self.constant(dtype)))
            rhs = self.constant(dtype)
        self.emit(cls(lhs, rhs))

    def logic(self, depth: int) -> None:
        rng = self.rng
        if rng.random() < 0.4:
            lhs = self.pick(self.dtype)
            rhs = lhs if rng.random() < 0.3 else self.pick(self.dtype)
            condition = self.emit(math.Compare(rng.choice(list(Predicate)), lhs, rhs))
            if rng.random() < 0.4:
                self.emit(math.Not(condition))
        elif rng.random() < 0.4:
            self.emit(math.Not(self.pick(bool_)))
        else:
            cls = rng.choice((math.And, math.Or, math.Xor))
            self.emit(cls(self.pick(bool_), self.pick(bool_)))

    def choice(self, depth: int) -> None:
        dtype = self.rng.choice((self.dtype, bool_))
        condition = self.pick(bool_)
        if self.rng.random() < 0.3:
            condition = self.emit(math.Not(condition))
        one = self.pick(dtype)
        other = one if self.rng.random() < 0.2 else self.pick(dtype)
        self.emit(math.Select(condition, one, other))

    def conversion(self, depth: int) -> None:
        rng, dtype = self.rng, self.dtype
        if rng.random() < 0.5:
            twins = [d for d in DTYPES.values() if d.bits == dtype.bits]
            x = self.pick(dtype, solid=True)
            for _ in range(rng.randint(1, 2)):
                x = self.emit(math.Bitcast(x, rng.choice(twins)), solid=True)
            return
        if dtype.kind in (Kind.SIGNED, Kind.UNSIGNED) and rng.random() < 0.3:
            x = self.emit(math.Mul(self.pick(dtype), self.number(4)))
            for _ in range(rng.randint(1, 2)):
                x = self.emit(math.AssumeDivisible(rng.choice((2, 4)), x))
            return
        source = rng.choice((dtype, dtype, bool_))
        middle = rng.choice(
            (*(d for d in DTYPES.values() if d.is_float or not source.is_float), source)
        )
        inner = self.emit(math.Cast(self.pick(source), middle))
        if source.is_float or not middle.is_float:
            self.emit(math.Cast(inner, rng.choice((source, middle))))

    # Control flow.

    def inside(self, region: Region, depth: int, end: Sequence[DType], kept: int = 0) -> None:
        """Fill a region.  Each value it ends with is one of it, or its own argument unchanged,
        or another argument; the first `kept` arguments are not carried."""
        outer, outside = self.region, list(self.visible)
        self.region = region
        self.visible += region.arguments
        for _ in range(self.rng.randint(0, 3)):
            self.step(depth + 1)
        values = []
        for n, dtype in enumerate(end):
            carried = region.arguments[kept + n : kept + n + 1]
            values.append(carried[0] if carried and self.rng.random() < 0.4 else self.pick(dtype))
        region.append(Yield(values))
        self.region, self.visible = outer, outside

    def carried(self) -> list[DType]:
        return [self.rng.choice((self.dtype, bool_)) for _ in range(self.rng.randint(0, 3))]

    def finish(self, op: Op) -> None:
        self.visible += op.results

    def add(self, op: Op) -> None:
        self.region.append(op)

    def branch(self, depth: int) -> None:
        types = self.carried()
        condition = self.pick(bool_)
        if self.rng.random() < 0.4:
            condition = self.emit(math.Not(condition))
        op = If(condition, types)
        self.add(op)
        self.inside(op.then, depth, types)
        self.inside(op.otherwise, depth, types)
        if types and self.rng.random() < 0.5:  # the same from both
            value = self.rng.choice([v for v in self.visible if v.type is types[0]] or [None])
            if value is not None:
                for region in op.regions:
                    end = region.end
                    end.set_operands((value, *end.operands[1:]))
        self.finish(op)

    def loop(self, depth: int) -> None:
        types = self.carried()
        upper = self.emit(math.Constant(self.rng.choice((0, 1, 1, 2, 3)), i32))
        if self.rng.random() < 0.3:
            upper = self.emit(math.Cast(self.pick(bool_), i32))
        lower, step = (self.emit(math.Constant(n, i32)) for n in (0, self.rng.choice((1, 2))))
        op = For(lower, upper, step, [self.pick(t) for t in types])
        self.add(op)
        self.inside(op.body, depth, types, kept=1)
        self.finish(op)

    def while_loop(self, depth: int) -> None:
        """A loop that a count ends, if its condition does not."""
        types: list[DType] = [u32, *self.carried()]
        start = self.emit(math.Constant(self.rng.choice((0, 1, 2, 9)), u32))
        op = While([start, *[self.pick(t) for t in types[1:]]])
        self.add(op)
        outer, outside = self.region, list(self.visible)
        self.region = op.condition
        self.visible += op.condition.arguments
        limit = self.emit(math.Constant(3, u32))
        more = self.emit(math.Compare(Predicate.LT, op.condition.arguments[0], limit))
        if self.rng.random() < 0.5:
            more = self.emit(math.And(more, self.pick(bool_)))
        op.condition.append(Yield([more]))
        self.region, self.visible = outer, outside
        self.inside(op.body, depth, types)
        end = op.body.end
        one = math.Constant(1, u32)
        count = math.Add(op.body.arguments[0], one.result)
        end.insert_before(one)
        end.insert_before(count)
        end.set_operands((count.result, *end.operands[1:]))
        self.finish(op)


# What is asked of a pass made of rules.


def first_difference(rewrite: Callable[[Module], object], seeds: int) -> str | None:
    """The first expression for which a rewrite changes the value, and what it became."""
    for seed in range(seeds):
        for dtype in DTYPES.values():
            before = random_expressions(seed, dtype)
            after = before.clone()
            rewrite(after)
            verify(after)
            if differs(before, after):
                return f"{before}\nbecame\n{after}"
    return None


def body_after(passes: str, arguments: str, body: str) -> str:
    """The body of a function after passes; the last op's first result is returned."""
    lines = dedent(body).strip().splitlines()
    last = [line for line in lines if line.startswith("%")][-1]
    value, _, type_ = last.partition(" = ")[0].partition(",")[0].partition(": ")
    inner = indent("\n".join([*lines, f"return {value}"]), "  ")
    module = parse(f"func tile @f returns=[{type_}]({arguments}) {{\n{inner}\n}}\n")
    verify(module)
    after = run(module, f"{passes},dce")
    verify(after)
    assert parse(str(after)) == after
    return dedent("\n".join(str(after).strip().splitlines()[1:-1]))
