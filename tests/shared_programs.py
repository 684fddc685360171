"""Random thread programs whose threads exchange values through memory, and what they mean.

A program works on one value per thread, on memory of the threadgroup and on two arrays, of which
each threadgroup has a part of its own.  All its threads make each access at once and then go on to
the next, as tiles do, so that it has one meaning; it has no barriers, which it needs to keep it.
The meaning is computed along with the text, by closures over NumPy arrays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iris.interp import metal
from iris.ir import parse
from iris.ir.control import Func
from iris.ir.core import Module

GRID = 4
PARTS = 4  # of an array, each as long as there are threads
Array = np.ndarray[Any, Any]


@dataclass
class State:
    """What one threadgroup has."""

    program: int
    value: Array  # of each thread
    memory: dict[str, Array]
    rounds: dict[str, int] = field(default_factory=dict)  # by the name of their number
    names: dict[str, str] = field(default_factory=dict)  # what goes by another one's name now

    def __getitem__(self, name: str) -> Array:
        return self.memory[self.names.get(name, name)]


Step = Callable[[State], None]
Address = Callable[[State, int], Array]  # of each thread, in a round of a `foreach`


@dataclass
class SharedProgram:
    text: str
    threads: int
    meaning: Step

    @property
    def module(self) -> Module:
        return parse(self.text)

    def arguments(self) -> list[Array]:
        size = PARTS * self.threads * GRID
        return [np.arange(size, dtype=np.int32) * 5 % 101, np.zeros(size, np.int32)]

    def expected(self) -> list[Array]:
        arrays = self.arguments()
        for program in range(GRID):
            size = PARTS * self.threads
            here = slice(size * program, size * (program + 1))
            memory = {name: a[here] for name, a in zip("XY", arrays, strict=True)}
            self.meaning(State(program, np.arange(self.threads, dtype=np.int32), memory))
        return arrays


def execute(module: Module, arguments: Sequence[Array], seed: int | None = None) -> list[Array]:
    """What the arrays hold after a run, in lockstep or in the order that a seed gives."""
    arrays = [a.copy() for a in arguments]
    (function,) = module
    assert isinstance(function, Func)
    metal.run(function, (GRID, 1, 1), arrays, interleave=seed)
    return arrays


def shared_program(seed: int, simdgroups: int, *, provable: bool = True) -> SharedProgram:
    """A random program.  Unless it is `provable` that its conditions are uniform, they just are."""
    return _Writer(random.Random(seed), simdgroups, provable).program()


class _Writer:
    def __init__(self, rng: random.Random, simdgroups: int, provable: bool):
        self.rng = rng
        self.simdgroups = simdgroups
        self.threads = 32 * simdgroups
        self.provable = provable
        self.lines: list[str] = []
        self.count = 0
        self.value = "%t"
        self.rounds: list[str] = []  # the numbers of the rounds of the loops around
        self.names: dict[str, str] = {}  # what memory is called now, if not by its own name

    def program(self) -> SharedProgram:
        head = f"func metal @f simdgroups={self.simdgroups}"
        self.emit("%lane: i32 = metal.lane", "%sg: i32 = metal.simdgroup", "%c0: i32 = constant 0")
        self.emit("%p: i32 = metal.threadgroup_id 0")
        self.emit("%zero: i32 = mul %lane, %c0")
        self.emit(f"%t: i32 = add {self.op('mul', '%sg', self.constant(32))}, %lane")
        self.emit(f"%home: i32 = mul %p, {self.constant(PARTS * self.threads)}")
        for name in "ABC":
            self.emit(f"%{name}: threadgroup<{PARTS * self.threads}xi32> = metal.alloc")
        steps = [self.store(name, each=True) for name in "ABC"]
        steps.append(self.block(self.rng.randint(3, 9), depth=2))
        steps.append(self.store("Y", each=True))
        body = "\n".join(self.lines)
        arguments = "%X: ptr<i32, noalias>, %Y: ptr<i32, noalias>"

        def meaning(state: State) -> None:
            for name in "ABC":
                state.memory[name] = np.zeros(PARTS * self.threads, np.int32)
            for step in steps:
                step(state)

        return SharedProgram(f"{head}({arguments}) {{\n{body}\nreturn\n}}\n", self.threads, meaning)

    # Text.

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def constant(self, number: int) -> str:
        name = self.name()
        self.emit(f"{name}: i32 = constant {number}")
        return name

    def op(self, what: str, *operands: str, type_: str = "i32") -> str:
        name = self.name()
        self.emit(f"{name}: {type_} = {what} {', '.join(operands)}")
        return name

    def memory(self, name: str) -> str:
        return self.names.get(name, f"%{name}")

    # Addresses and conditions.

    def address(self, memory: str, part: str | None = None) -> tuple[str, Address]:
        """A number below the threads for each, no two the same; some parts on, or as much on in
        each round of a loop as may be less than it moves over.  Written out anew each time."""
        amount = self.rng.choice((0, 0, 1, 5, 16, self.threads // 2))
        number = self.constant(amount)
        numbers = np.arange(self.threads)
        if self.rng.random() < 0.5:
            name, own = self.op("xor", "%t", number), numbers ^ amount
        else:
            last = self.constant(self.threads - 1)
            name = self.op("and", self.op("add", "%t", number), last)
            own = (numbers + amount) % self.threads
        factor = 0
        if part is None and self.rounds and self.rng.random() < 0.6:
            part = self.rng.choice(self.rounds)
            factor = self.rng.choice((1, self.threads // 2, self.threads, self.threads))
            name = self.op("add", self.op("mul", part, self.constant(factor)), name)
        elif part is not None:
            name = self.op("add", self.op("mul", part, self.constant(self.threads)), name)

        def at(state: State, i: int) -> Array:
            return own + (factor * state.rounds[part] if factor and part else i * self.threads)

        return self.placed(memory, name), at

    def placed(self, memory: str, index: str) -> str:
        return self.op("add", "%home", index) if memory in "XY" else index

    def scalar(self) -> tuple[str, Callable[[State], int]]:
        """A number that is the same for all threads."""
        memory, index = self.rng.choice("ABCX"), self.rng.randrange(self.threads)
        if self.rng.random() < 0.3:
            return "%p", lambda state: state.program
        place = self.constant(index)
        if not self.provable:
            place = self.op("add", place, "%zero")
        name = self.op("metal.load", self.memory(memory), self.placed(memory, place))
        return name, lambda state: int(state[memory][index])

    # Steps.

    def block(self, steps: int, depth: int) -> Step:
        simple = (self.store, self.load, self.store, self.load, self.compute, self.add, self.one)
        nesting = (self.branch, self.repeat, self.repeat_while, self.rotate) if depth else ()
        done: list[Step] = []
        names = self.names
        for _ in range(steps):
            if nesting and self.rng.random() < 0.3:
                done.append(self.rng.choice(nesting)(depth - 1))
            else:
                step = self.rng.choice(simple)
                done.append(step(self.rng.choice("AABBCX")))

        self.names = names

        def run(state: State) -> None:
            names = state.names
            for step in done:
                step(state)
            state.names = names

        return run

    def store(self, memory: str, each: bool | None = None) -> Step:
        if self.rng.random() < 0.3 if each is None else each:
            parts = PARTS if each else 2
            self.emit(f"metal.foreach {parts} (%i: i32) {{")
            place, at = self.address(memory, "%i")
            self.emit(f"metal.store {self.memory(memory)}, {place}, {self.value}", "yield", "}")

            def store_each(state: State) -> None:
                for i in range(parts):
                    state[memory][at(state, i)] = state.value

            return store_each
        place, at = self.address(memory)
        least = self.rng.choice((0, 0, 3, 20))
        mask = self.op("compare", f"ge %t, {self.constant(least)}", type_="bool") if least else ""
        where = f", mask={mask}" if mask else ""
        self.emit(f"metal.store {self.memory(memory)}, {place}, {self.value}{where}")

        def store(state: State) -> None:
            state[memory][at(state, 0)[least:]] = state.value[least:]

        return store

    def load(self, memory: str) -> Step:
        if self.rng.random() < 0.3:
            both = self.name()
            self.emit(f"{both}: regs<2xi32> = metal.foreach 2 (%i: i32) {{")
            place, at = self.address(memory, "%i")
            self.emit(f"yield {self.op('metal.load', self.memory(memory), place)}", "}")
            parts = (self.op(f"metal.take [{i}]", both) for i in range(2))
            self.value = self.op("add", *parts)

            def load_each(state: State) -> None:
                state.value = sum(state[memory][at(state, i)] for i in range(2))

            return load_each
        place, at = self.address(memory)
        self.value = self.op("metal.load", self.memory(memory), place)

        def load(state: State) -> None:
            state.value = state[memory][at(state, 0)]

        return load

    def compute(self, memory: str) -> Step:
        self.value = self.op("add", self.op("mul", self.value, self.constant(3)), "%t")

        def compute(state: State) -> None:
            state.value = state.value * 3 + np.arange(self.threads, dtype=np.int32)

        return compute

    def add(self, memory: str) -> Step:
        index = self.rng.randrange(self.threads)
        place = self.placed(memory, self.constant(index))
        self.op("metal.atomic add", self.memory(memory), place, self.value)

        def add(state: State) -> None:
            state[memory][index : index + 1] += state.value.sum(dtype=np.int32)

        return add

    def one(self, memory: str) -> Step:
        thread, index = self.rng.randrange(self.threads), self.rng.randrange(self.threads)
        mask = self.op("compare", f"eq %t, {self.constant(thread)}", type_="bool")
        place = self.placed(memory, self.constant(index))
        self.emit(f"metal.store {self.memory(memory)}, {place}, {self.value}, mask={mask}")

        def one(state: State) -> None:
            state[memory][index] = state.value[thread]

        return one

    def branch(self, depth: int) -> Step:
        number, value_of = self.scalar()
        odd = self.op("and", number, self.constant(1))
        condition = self.op("compare", f"eq {odd}, {self.constant(1)}", type_="bool")
        before, result = self.value, self.name()
        self.emit(f"{result}: i32 = if {condition} {{")
        then = self.block(self.rng.randint(1, 4), depth)
        self.emit(f"yield {self.value}", "} else {")
        self.value = before
        otherwise = self.block(self.rng.randint(0, 2), depth)
        self.emit(f"yield {self.value}", "}")
        self.value = result

        def branch(state: State) -> None:
            (then if value_of(state) & 1 else otherwise)(state)

        return branch

    def repeat(self, depth: int) -> Step:
        number, value_of = self.scalar()
        bound = self.op("and", number, self.constant(3))
        result, carried = self.name(), self.name()
        one, k = self.constant(1), self.name()
        arguments = f"{k}: i32, {carried}: i32 = {self.value}"
        self.emit(f"{result}: i32 = for %c0, {bound}, {one} ({arguments}) {{")
        self.value = carried
        self.rounds.append(k)
        body = self.block(self.rng.randint(1, 4), depth)
        self.rounds.pop()
        self.emit(f"yield {self.value}", "}")
        self.value = result

        def repeat(state: State) -> None:
            for turn in range(value_of(state) & 3):
                state.rounds[k] = turn
                body(state)

        return repeat

    def repeat_while(self, depth: int) -> Step:
        """As long as the number of the round is less than a number that the body may change."""
        result, last, v, w, k, n = (self.name() for _ in range(6))
        one = self.constant(1)
        arguments = f"{k}: i32 = %c0, {v}: i32 = {self.value}"
        self.emit(f"{last}: i32, {result}: i32 = while ({arguments}) {{")
        number, value_of = self.scalar()
        few = self.op("and", number, self.constant(3))
        self.emit(f"yield {self.op('compare', f'lt {k}, {few}', type_='bool')}")
        self.emit(f"}} do ({n}: i32, {w}: i32) {{")
        self.value = w
        body = self.block(self.rng.randint(1, 4), depth)
        self.emit(f"yield {self.op('add', n, one)}, {self.value}", "}")
        self.value = result

        def repeat_while(state: State) -> None:
            turn = 0
            while turn < value_of(state) & 3:
                body(state)
                turn += 1

        return repeat_while

    def rotate(self, depth: int) -> Step:
        """A loop that carries memory, and which it calls what changes from round to round."""
        number, value_of = self.scalar()
        bound = self.op("and", number, self.constant(3))
        memories = self.rng.sample("ABC", self.rng.choice((2, 2, 3)))
        yielded = self.rng.sample(memories, len(memories))
        outside = {m: self.memory(m) for m in memories}
        inside, results = ({m: self.name() for m in memories} for _ in range(2))
        result, carried, k, one = self.name(), self.name(), self.name(), self.constant(1)
        type_ = f"threadgroup<{PARTS * self.threads}xi32>"
        arguments = [f"{inside[m]}: {type_} = {outside[m]}" for m in memories]
        head = ", ".join([f"{k}: i32", f"{carried}: i32 = {self.value}", *arguments])
        types = ", ".join([f"{result}: i32", *[f"{results[m]}: {type_}" for m in memories]])
        self.emit(f"{types} = for %c0, {bound}, {one} ({head}) {{")
        self.value, before = carried, self.names
        self.names = {**before, **inside}
        body = self.block(self.rng.randint(1, 4), depth)
        self.emit(f"yield {', '.join([self.value, *[inside[m] for m in yielded]])}", "}")
        goes_on = self.rng.random() < 0.5
        self.value, self.names = result, {**before, **results} if goes_on else before

        def rotate(state: State) -> None:
            names = state.names
            for _ in range(value_of(state) & 3):
                body(state)
                now = [state.names.get(m, m) for m in yielded]
                state.names = {**state.names, **dict(zip(memories, now, strict=True))}
            if not goes_on:
                state.names = names

        return rotate
