"""Random thread programs, each thread of which is also run for itself, one op at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iris.interp.metal import run
from iris.ir import control, math, metal, scalar
from iris.ir.core import Op, Region, Value
from iris.ir.math import element_type
from metal_programs import function
from support import counts

Array = np.ndarray[Any, Any]
GRID, SIMDGROUPS, OWN = 3, 2, 4
THREADS = 32 * SIMDGROUPS
BINARY = ["add", "sub", "mul", "xor", "and", "or", "minnum", "maxnum"]


class Draft:
    """Lines of a program, and the names of what they make: scalars and arrays of 4 registers."""

    def __init__(self, seed: int):
        self.chance = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.scalars = ["t", "p", "lane", "sg", "c0", "c1", "c2", "c3", "c4"]
        self.arrays = ["k"]
        self.names = 0

    def new(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def one(self, names: list[str]) -> str:
        return names[self.chance.integers(len(names))]

    def scalar(self, text: str) -> str:
        name = self.new()
        self.lines.append(f"%{name}: i32 = {text}")
        self.scalars.append(name)
        return name

    def array(self, text: str) -> str:
        name = self.new()
        self.lines.append(f"%{name}: regs<4xi32> = {text}")
        self.arrays.append(name)
        return name

    def small(self) -> str:
        """A number from 0 to 3."""
        return self.scalar(f"and %{self.one(self.scalars)}, %c3")

    def condition(self) -> str:
        name = self.new()
        predicate = self.one(["eq", "ne", "lt", "ge"])
        a, b = self.one(self.scalars), self.one(self.scalars)
        self.lines.append(f"%{name}: bool = compare {predicate} %{a}, %{b}")
        return name

    def block(self, depth: int, count: int) -> tuple[str, str]:
        """Some ops; gives the names of what a region may yield."""
        made = [
            self.binary,
            self.arithmetic,
            self.choose,
            self.registers,
            self.part,
            self.memory,
            self.negate,
        ]
        nested: list[Callable[[int], None]] = [self.branch, self.loop, self.repeat, self.rounds]
        for _ in range(count):
            kind = self.chance.integers(len(made) + (4 if depth else 0))
            if kind < len(made):
                made[kind]()
            else:
                nested[kind - len(made)](depth - 1)
        return self.one(self.scalars), self.one(self.arrays)

    def region(self, depth: int, before: str, result: str | None = None) -> None:
        scalars, arrays = list(self.scalars), list(self.arrays)
        names = before.split()
        self.scalars += [n for n in names if n.startswith("s")]
        self.arrays += [n for n in names if n.startswith("a")]
        x, y = self.block(depth, int(self.chance.integers(1, 5)))
        self.lines.append(f"yield {result}" if result is not None else f"yield %{x}, %{y}")
        self.scalars, self.arrays = scalars, arrays

    def binary(self) -> None:
        self.scalar(f"{self.one(BINARY)} %{self.one(self.scalars)}, %{self.one(self.scalars)}")

    def arithmetic(self) -> None:
        self.array(f"{self.one(BINARY)} %{self.one(self.arrays)}, %{self.one(self.arrays)}")

    def choose(self) -> None:
        condition = self.condition()
        self.array(f"select %{condition}, %{self.one(self.arrays)}, %{self.one(self.arrays)}")

    def registers(self) -> None:
        a, b, c = (self.one(self.scalars) for _ in range(3))
        self.array(f"metal.join %{a}, %{b}, %{c}, %{a}")
        self.array(f"metal.take [3, 0, 0, 2] %{self.one(self.arrays)}")
        self.scalar(f"metal.take [1] %{self.one(self.arrays)}")
        self.array(f"metal.splat %{self.one(self.scalars)}")

    def part(self) -> None:
        index = self.small()
        self.scalar(f"metal.slice %{self.one(self.arrays)}, %{index}")

    def memory(self) -> None:
        """Each thread has elements of its own."""
        at = self.scalar(f"add %own, %{self.small()}")
        if self.chance.integers(2):
            self.scalar(f"metal.load %X, %{at}")
        else:
            self.lines.append(f"metal.store %X, %{at}, %{self.one(self.scalars)}")
        if self.chance.integers(2):
            self.array("metal.load %X, %own")
        else:
            mask = self.condition()
            self.lines.append(f"metal.store %X, %own, %{self.one(self.arrays)}, mask=%{mask}")

    def negate(self) -> None:
        self.scalar(f"neg %{self.one(self.scalars)}")

    def branch(self, depth: int) -> None:
        condition, x, y = self.condition(), self.new(), self.new()
        self.lines.append(f"%{x}: i32, %{y}: regs<4xi32> = if %{condition} {{")
        self.region(depth, "")
        self.lines.append("} else {")
        self.region(depth, "")
        self.lines.append("}")
        self.scalars.append(x)
        self.arrays.append(y)

    def loop(self, depth: int) -> None:
        bound, x, y, n = self.small(), self.new(), self.new(), self.new()
        start = (
            f"%s{n}: i32 = %{self.one(self.scalars)}, %a{n}: regs<4xi32> = %{self.one(self.arrays)}"
        )
        head = f"%{x}: i32, %{y}: regs<4xi32> = for %c0, %{bound}, %c1"
        self.lines.append(f"{head} (%si{n}: i32, {start}) {{")
        self.region(depth, f"si{n} s{n} a{n}")
        self.lines.append("}")
        self.scalars.append(x)
        self.arrays.append(y)

    def repeat(self, depth: int) -> None:
        bound, x, z, n = self.small(), self.new(), self.new(), self.new()
        start = f"%i{n}: i32 = %c0, %w{n}: i32 = %{self.one(self.scalars)}"
        head = f"%{x}: i32, %{z}: i32 = while ({start})"
        self.lines += [
            f"{head} {{",
            f"%m{n}: bool = compare lt %i{n}, %{bound}",
            f"yield %m{n}",
            f"}} do (%sj{n}: i32, %sw{n}: i32) {{",
            f"%next{n}: i32 = add %sj{n}, %c1",
        ]
        scalars, arrays = list(self.scalars), list(self.arrays)
        self.scalars += [f"sj{n}", f"sw{n}"]
        kept, _ = self.block(depth, 3)
        self.lines += [f"yield %next{n}, %{kept}", "}"]
        self.scalars, self.arrays = scalars, arrays
        self.scalars += [x, z]

    def rounds(self, depth: int) -> None:
        y, n = self.new(), self.new()
        array = self.one(self.arrays)
        self.lines += [
            f"%{y}: regs<4xi32> = metal.foreach 4 (%si{n}: i32) {{",
            f"%sp{n}: i32 = metal.slice %{array}, %si{n}",
        ]
        scalars, arrays = list(self.scalars), list(self.arrays)
        self.scalars += [f"si{n}", f"sp{n}"]
        kept, _ = self.block(depth if self.chance.integers(2) else 0, 3)
        self.lines += [f"yield %{kept}", "}"]
        self.scalars, self.arrays = scalars, arrays
        self.arrays.append(y)

    def text(self) -> str:
        start = [
            "%c3: i32 = constant 3",
            f"%c64: i32 = constant {THREADS}",
            "%row: i32 = mul %p, %c64",
            "%mine: i32 = add %row, %t",
            "%own: i32 = mul %mine, %c4",
            "%k: regs<4xi32> = metal.literal [5, -7, 2, 0]",
        ]
        x, y = self.block(3, 12)
        return "\n".join([*start, *self.lines, f"return %{x}, %{y}"])


class Thread:
    """One thread, whose every value is an array without further axes."""

    def __init__(self, memory: Array, program: int, number: int):
        self.memory = memory
        self.program = program
        self.number = number
        self.values: dict[Value, Any] = {}

    def region(self, region: Region, *arguments: Any) -> list[Any]:
        self.values.update(zip(region.arguments, arguments, strict=True))
        for op in region:
            operands = [self.values[v] for v in op.operands]
            if op.terminator:
                return operands
            rule = RULES.get(type(op), shared)
            self.values.update(zip(op.results, rule(self, op, *operands), strict=True))
        raise AssertionError("a region without an end")


def shared(thread: Thread, op: Op, *operands: Array) -> list[Array]:
    return [scalar.evaluate(op, *[np.asarray(x) for x in operands])]


def constant(thread: Thread, op: Any) -> list[Array]:
    return [np.asarray(op.value, np.int32)]


def branch(thread: Thread, op: Any, condition: Array) -> list[Any]:
    return thread.region(op.then if condition else op.otherwise)


def loop(thread: Thread, op: Any, lower: Array, upper: Array, step: Array, *carried: Any) -> Any:
    for index in range(int(lower), int(upper), int(step)):
        carried = tuple(thread.region(op.body, np.int32(index), *carried))
    return carried


def repeat(thread: Thread, op: Any, *carried: Any) -> Any:
    while thread.region(op.condition, *carried)[0]:
        carried = tuple(thread.region(op.body, *carried))
    return carried


def rounds(thread: Thread, op: Any) -> list[Any]:
    parts = [thread.region(op.body, np.int32(index)) for index in range(op.count)]
    return [
        np.concatenate([np.atleast_1d(x) for x in column]) for column in zip(*parts, strict=True)
    ]


def load(thread: Thread, op: Any, memory: Array, offset: Array) -> list[Array]:
    count = metal.count_of(op.result.type)
    found = memory[int(offset) : int(offset) + count].copy()
    return [found if element_type(op.result.type).shape else found[0]]


def store(thread: Thread, op: Any, memory: Array, offset: Array, x: Array, mask: Any = True) -> Any:
    if mask:
        memory[int(offset) : int(offset) + np.size(x)] = x
    return []


def part(thread: Thread, op: Any, x: Array, index: Array) -> list[Array]:
    return [x[int(index)]]


RULES: dict[type[Op], Callable[..., Any]] = {
    math.Constant: constant,
    control.If: branch,
    control.For: loop,
    control.While: repeat,
    metal.Foreach: rounds,
    metal.Load: load,
    metal.Store: store,
    metal.Slice: part,
    metal.Lane: lambda thread, op: [np.int32(thread.number % 32)],
    metal.Simdgroup: lambda thread, op: [np.int32(thread.number // 32)],
    metal.ThreadgroupId: lambda thread, op: [np.int32(thread.program)],
    metal.Splat: lambda thread, op, x: [np.full(4, x)],
    metal.Literal: lambda thread, op: [np.array(op.values, np.int32)],
    metal.Take: lambda thread, op, x: [
        x[list(op.indices)] if len(op.indices) > 1 else x[op.indices[0]]
    ],
    metal.Join: lambda thread, op, *parts: [np.array(parts, np.int32)],
}


@pytest.mark.parametrize("seed", range(counts(15, 300)))
def test_threads_together_do_what_each_does_alone(seed: int) -> None:
    f = function("%X: ptr<i32>", Draft(seed).text(), SIMDGROUPS, "i32, regs<4xi32>")
    start = np.random.default_rng(seed).integers(-5, 6, GRID * THREADS * OWN).astype(np.int32)
    want = start.copy()
    ends = [
        Thread(want, program, number).region(f.body, want)
        for program in range(GRID)
        for number in range(THREADS)
    ]
    for way in ({}, {"chunk_bytes": 1}, {"interleave": seed}):
        memory = start.copy()
        found = run(f, (GRID, 1, 1), [memory], **way)  # type: ignore[arg-type]
        np.testing.assert_array_equal(memory, want)
        for have, column in zip(found, zip(*ends, strict=True), strict=True):
            np.testing.assert_array_equal(have, np.array(column).reshape(have.shape))
