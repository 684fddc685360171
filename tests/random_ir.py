"""Random modules, well typed and free of program errors by construction.

What may not be speculated (a load at any index, a division by any value) stands under the
condition or loop that makes it safe, so that a pass which moves it out makes an error that
`evaluator.run` reports.
"""

from __future__ import annotations

import random

from iris.ir import math, metal, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, Return, While, Yield
from iris.ir.core import Level, Location, Module, Region, Value
from iris.ir.math import Predicate
from iris.ir.types import (
    ElementType,
    Ptr,
    Registers,
    Tile,
    Type,
    bf16,
    bool_,
    f16,
    f32,
    i8,
    i32,
    i64,
    u32,
)

MEMORY = 8  # elements behind each pointer
NAMES = ("x", "y", "acc", "i", "mask", "x_1", "c0", None, None)

INTEGER_OPS = (math.Add, math.Sub, math.Mul, math.And, math.Or, math.Xor, math.Maximum)
FLOAT_OPS = (math.Add, math.Sub, math.Mul, math.Div, math.MinNum, math.Maximum)
FLOAT_UNARY = (math.Neg, math.Abs, math.Exp, math.Floor, math.Sigmoid)


def random_module(seed: int, *, ops: int = 25) -> Module:
    """A module of one to three functions, at the tile or the Metal level."""
    rng = random.Random(seed)
    functions = [_Generator(rng, f"f{n}", ops).function() for n in range(rng.choice((1, 1, 2, 3)))]
    return Module(functions)


class _Generator:
    def __init__(self, rng: random.Random, symbol: str, ops: int):
        self.rng = rng
        self.level = rng.choice((Level.TILE, Level.METAL))
        noalias = rng.random() < 0.4
        arguments = [
            ("X", Ptr(f32, noalias)),
            ("Y", Ptr(f32, noalias)),
            ("I", Ptr(i32)),
            ("n", i32),
            ("k", i32),
            ("flag", bool_),
            ("a", f32),
            ("b", f32),
            ("h", f16),
            ("w", i64),
        ]
        self.func = Func(symbol, self.level, arguments, location=Location("model.py", 1))
        self.builder = Builder(self.func.body)
        self.visible: list[Value] = list(self.func.body.arguments)
        self.offsets: list[Value] = []  # known to be inside memory
        self.budget = ops
        vector = Tile((4,), f32) if self.level is Level.TILE else Registers(4, f32)
        self.types: list[ElementType] = [f32, i32, bool_, f16, bf16, i8, u32, i64]
        self.types += [vector.with_element(d) for d in (f32, i32, bool_)]

    def function(self) -> Func:
        while self.budget > 0:
            self.step(depth=0)
        # What is returned matters, and so keeps what it is made of.
        values = [v for v in self.visible if isinstance(v.type, ElementType)]
        returned = self.rng.sample(values, min(5, len(values)))
        self.builder.insert(Return(returned))
        returns = tuple(v.type for v in returned)
        self.func.attributes = (self.level, self.func.symbol, returns, *self.func.attributes[3:])
        return self.func

    # Picking.

    def emit(self, op: math.Op) -> Value:
        self.builder.location = Location("model.py", self.rng.randrange(2, 90))
        value = self.builder(op, self.rng.choice(NAMES))
        self.visible.append(value)
        return value

    def constant(self, type_: ElementType) -> Value:
        dtype = type_.element
        if dtype is bool_:
            number: float = self.rng.random() < 0.5
        elif dtype.is_float:
            number = self.rng.choice((0.0, -0.0, 1.0, 0.5, -2.0, 3.25, float("inf")))
        else:
            number = self.rng.choice((0, 1, 2, 7, dtype.high, dtype.low))
        return self.emit(math.Constant(number, type_))

    def pick(self, type_: Type) -> Value:
        known = [v for v in self.visible if v.type is type_]
        if known and self.rng.random() < 0.85:
            return self.rng.choice(known)
        assert isinstance(type_, ElementType)
        return self.constant(type_)

    def small(self, low: int, high: int) -> Value:
        """A scalar i32 between two bounds."""
        x = self.emit(math.Maximum(self.pick(i32), self.emit(math.Constant(low, i32))))
        return self.emit(math.Minimum(x, self.emit(math.Constant(high, i32))))

    def offset(self) -> Value:
        """An index into memory, often one used already."""
        known = [v for v in self.offsets if v in self.visible]
        if known and self.rng.random() < 0.8:
            return self.rng.choice(known)
        self.offsets.append(self.small(0, MEMORY - 1))
        return self.offsets[-1]

    # Making ops.

    def step(self, depth: int) -> None:
        self.budget -= 1
        nested = (self.branch, self.loop, self.while_loop)
        nested += (self.guarded, self.guarded_loop, self.memory_loop)
        straight = (self.arithmetic,) * 8 + (self.repeat,) * 2
        straight += (self.load,) * 3 + (self.store, self.reload, self.convert, self.special)
        self.rng.choice(straight + (nested if depth < 3 else ()))(depth)

    def arithmetic(self, depth: int) -> None:
        rng = self.rng
        type_ = rng.choice(self.types)
        if rng.random() < 0.2:
            predicate = rng.choice(list(Predicate))
            self.emit(math.Compare(predicate, self.pick(type_), self.pick(type_)))
        elif rng.random() < 0.2:
            condition = self.pick(rng.choice((bool_, type_.with_element(bool_))))
            self.emit(math.Select(condition, self.pick(type_), self.pick(type_)))
        elif type_.element is bool_:
            one_of = (math.And, math.Or, math.Xor)
            self.emit(rng.choice(one_of)(self.pick(type_), self.pick(type_)))
        elif not type_.element.is_float:
            self.emit(rng.choice(INTEGER_OPS)(self.pick(type_), self.pick(type_)))
        elif rng.random() < 0.3:
            self.emit(rng.choice(FLOAT_UNARY)(self.pick(type_)))
        else:
            self.emit(rng.choice(FLOAT_OPS)(self.pick(type_), self.pick(type_)))

    def repeat(self, depth: int) -> None:
        """Something computed already, so that there is something to merge."""
        ops = [v.op for v in self.visible if v.op is not None and not v.op.regions]
        if ops:
            again = self.rng.choice(ops).clone({})
            if all(v in self.visible for v in again.operands):
                self.emit(again)
            else:
                again.set_operands(())

    def convert(self, depth: int) -> None:
        rng = self.rng
        source = self.pick(rng.choice(self.types))
        assert isinstance(source.type, ElementType)
        target = rng.choice((f32, f16, i32, i64, bool_, u32))
        if not (source.type.element.is_float and target.is_integer):
            self.emit(math.Cast(source, source.type.with_element(target)))

    def load(self, depth: int) -> None:
        if self.level is Level.TILE:
            pointer = self.pick_pointer()
            self.emit(tile.Load(pointer, self.offset()))

    def store(self, depth: int) -> None:
        if self.level is Level.TILE:
            pointer = self.pick_pointer()
            assert isinstance(pointer.type, Ptr)
            offset, value = self.offset(), self.pick(pointer.type.element)
            self.builder.insert(tile.Store(pointer, offset, value))

    def reload(self, depth: int) -> None:
        """A load, a store that may or may not write what it read, and the load again."""
        if self.level is Level.TILE:
            first, second = self.func.body.arguments[:2]
            offset = self.offset()
            self.emit(tile.Load(first, offset))
            self.builder.insert(tile.Store(second, offset, self.pick(f32)))
            self.emit(tile.Load(first, offset))

    def pick_pointer(self) -> Value:
        return self.rng.choice(self.func.body.arguments[:3])

    def special(self, depth: int) -> None:
        rng = self.rng
        if self.level is Level.METAL:
            if rng.random() < 0.5:
                self.builder.insert(metal.Barrier(rng.choice(list(metal.Scope))))
            else:
                self.emit(metal.ShuffleXor(rng.randrange(1, 32), self.pick(rng.choice((f32, i32)))))
            return
        cols = self.emit(tile.Arange(rng.choice((0, 2)), Tile((4,), i32)))
        spread = self.emit(tile.Broadcast(self.pick(i32), Tile((4,), i32)))
        mask = self.emit(math.Compare(Predicate.LT, cols, spread))
        other = self.emit(tile.Broadcast(self.pick(f32), Tile((4,), f32)))
        pointer = self.func.body.arguments[rng.randrange(2)]
        if rng.random() < 0.5:
            self.emit(tile.Load(pointer, cols, mask, other))
        else:
            self.builder.insert(tile.Store(pointer, cols, other, mask))

    # Control flow.

    def inside(self, region: Region, depth: int, end: list[Type]) -> None:
        """Fill a region whose terminator carries values of some types."""
        outside = list(self.visible)
        self.visible += region.arguments
        for argument in region.arguments:
            argument.name = self.rng.choice(NAMES)
        with self.builder.inside(region):
            for _ in range(self.rng.randrange(1, 5)):
                self.step(depth + 1)
            self.builder.insert(Yield([self.pick(t) for t in end]))
        self.visible = outside

    def carried_types(self) -> list[ElementType]:
        return [self.rng.choice(self.types) for _ in range(self.rng.randrange(3))]

    def name_results(self, op: math.Op) -> None:
        for value in op.results:
            value.name = self.rng.choice(NAMES)
            self.visible.append(value)

    def branch(self, depth: int) -> None:
        types = self.carried_types()
        op = self.builder.insert(If(self.pick(bool_), types))
        self.inside(op.then, depth, list(types))
        self.inside(op.otherwise, depth, list(types))
        self.name_results(op)

    def loop(self, depth: int) -> None:
        types = self.carried_types()
        lower, upper = self.small(0, 2), self.small(0, 3)
        step = self.emit(math.Constant(self.rng.choice((1, 2, -1)), i32))
        op = self.builder.insert(For(lower, upper, step, [self.pick(t) for t in types]))
        self.inside(op.body, depth, list(types))
        self.name_results(op)

    def while_loop(self, depth: int) -> None:
        types: list[ElementType] = [i32, *self.carried_types()]
        start = self.small(0, 3)
        op = self.builder.insert(While([start, *[self.pick(t) for t in types[1:]]]))
        outside = list(self.visible)
        with self.builder.inside(op.condition):
            self.visible += op.condition.arguments
            limit = self.emit(math.Constant(3, i32))
            count = op.condition.arguments[0]
            more = self.emit(math.Compare(Predicate.LT, count, limit))
            self.builder.insert(Yield([more]))
        self.visible = outside
        self.inside(op.body, depth, list(types))
        end = op.body.end
        with self.builder.inside(op.body):
            end.detach()
            one = self.builder(math.Constant(1, i32))
            count = self.builder(math.Add(op.body.arguments[0], one))
            end.set_operands((count, *end.operands[1:]))
            self.builder.insert(end)
        self.name_results(op)

    def guarded(self, depth: int) -> None:
        """What is safe only under its condition."""
        zero = self.emit(math.Constant(0, i32))
        divisor = self.pick(i32)
        safe = self.emit(math.Compare(Predicate.NE, divisor, zero))
        op = self.builder.insert(If(safe, [i32]))
        with self.builder.inside(op.then):
            kind = self.rng.choice((math.FloorDiv, math.Mod))
            self.builder.insert(Yield([self.builder(kind(self.pick_outer(i32), divisor))]))
        with self.builder.inside(op.otherwise):
            self.builder.insert(Yield([zero]))
        self.name_results(op)

    def guarded_loop(self, depth: int) -> None:
        """What is safe only where the loop runs: a division by its upper bound, a load at it."""
        zero, one = (self.emit(math.Constant(n, i32)) for n in (0, 1))
        upper = self.small(0, 2)
        start = self.pick_outer(i32)
        op = self.builder.insert(For(zero, upper, one, [start]))
        with self.builder.inside(op.body):
            value = self.builder(math.FloorDiv(start, upper))
            if self.level is Level.TILE:
                index = self.builder(math.Sub(upper, one))
                element = self.builder(tile.Load(self.func.body.arguments[2], index))
                value = self.builder(math.Add(value, element))
            self.builder.insert(Yield([self.builder(math.Add(value, op.body.arguments[1]))]))
        self.name_results(op)

    def memory_loop(self, depth: int) -> None:
        """A loop that reads an element and writes one, which may or may not be the same."""
        if self.level is not Level.TILE:
            return
        offset, addend = self.offset(), self.pick(f32)
        zero, one = (self.emit(math.Constant(n, i32)) for n in (0, 1))
        upper = self.emit(math.Constant(self.rng.randrange(1, 4), i32))
        op = self.builder.insert(For(zero, upper, one, []))
        with self.builder.inside(op.body):
            source, target = self.func.body.arguments[:2]
            value = self.builder(math.Add(self.builder(tile.Load(source, offset)), addend))
            self.builder.insert(tile.Store(self.rng.choice((source, target)), offset, value))
            self.builder.insert(Yield([]))

    def pick_outer(self, type_: Type) -> Value:
        """A value that is already there: a region's ops are not to be made for another's."""
        return self.rng.choice([v for v in self.visible if v.type is type_])
