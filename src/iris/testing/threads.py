"""Random kernels by thread as Python source, and what a plain evaluation says that they store.

    @given(programs.threads())
    def test_threads(kernel):
        kernel.check()

Threads diverge in branches and loops, return early, and meet at barriers; they give each other
values by shared memory, shuffles, reductions and atomics.  The evaluation goes statement by
statement over all threads at once, with a mask of those that run it.  No program has a race, and
each barrier stands between accesses that it orders, so that one without it may have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.compiler.compilation import Compilation
from iris.compiler.cuda_file import CudaFile, load
from iris.compiler.thread_kernel import ThreadKernel
from iris.errors import RaceError
from iris.frontend.specs import Threads
from iris.ir import scalar
from iris.ir.types import i32
from iris.passes import Pipeline
from iris.passes import run as run_passes
from iris.testing.choices import Choices
from iris.testing.sources import defined, evaluated
from iris.testing.thread_c import HELPERS as C_HELPERS
from iris.testing.thread_c import as_c
from iris.tools.replay import Array as ArrayRecipe
from iris.tools.replay import Program, Scalar

Array = npt.NDArray[Any]
BYTES = 192
LANES = 32
DATA = 16  # elements of the input
BINS = 8  # elements of what atomics update
SLOTS = 6  # elements of the output for each thread
VARIABLES = ("a", "b", "c")
FLOATS = ("f", "h")


# What a kernel means.


class Machine:
    """The threads of a launch, and what each of them holds."""

    def __init__(self, kernel: Kernel):
        # Each simdgroup has all its lanes, though not all are threads of the grid.
        self.size = group = Threads(kernel.size).simdgroups * LANES
        every = np.arange(prod(kernel.grid) * group, dtype=np.int32)
        self.group, self.number = every // group, every % group
        position: dict[str, Array] = {"g": self.group, "t": self.number}
        position["lane"] = self.number % LANES
        groups, threads = self.group, self.number
        for axis, name in enumerate("xyz"):
            n, size = kernel.grid[axis], kernel.size[axis]
            position[name] = (groups % n * size + threads % size).astype(np.int32)
            groups, threads = groups // n, threads // size
        width, height, _ = kernel.threads
        x, y, z = (position[name] for name in "xyz")
        self.at = x + width * (y + height * z)
        inside = [i < n for i, n in zip((x, y, z), kernel.threads, strict=True)]
        self.there = np.logical_and.reduce([self.number < prod(kernel.size), *inside])
        self.variables: dict[str, Array] = position
        self.variables["n"] = np.full_like(every, kernel.n)
        self.variables["p"] = np.zeros((len(every), 4), np.int32)
        self.simdgroup = every // LANES * LANES
        self.data = kernel.data
        self.own = np.zeros(len(every), np.int32)
        self.own[self.there] = kernel.own[self.at[self.there]]
        self.bins = np.zeros(BINS, np.int32)
        self.returned = np.zeros(len(every), np.bool_)

    def assign(self, name: str, value: Array, mask: Array) -> None:
        old = self.variables.get(name, np.zeros_like(value))
        self.variables[name] = np.where(mask, value, old).astype(value.dtype)

    def existing(self, value: Array, otherwise: int = 0) -> Array:
        """Values, with another one for threads that are not of the grid."""
        return np.where(self.there, value, np.int32(otherwise))

    def met(self, number: Array) -> Array:
        """Threads of the threadgroup, the first of it for those that are not of the grid."""
        return np.where(self.there[self.group * self.size + number], number, 0)

    def of_simdgroup(self, value: Array, reduce: np.ufunc, otherwise: int = 0) -> Array:
        """What the lanes of each simdgroup make of their values together."""
        rows = self.existing(value, otherwise).reshape(-1, LANES)
        return np.repeat(reduce.reduce(rows, axis=1), LANES).astype(value.dtype)


class Expression(NamedTuple):
    """Python, and what each thread makes of it."""

    text: str
    value: Callable[[Machine], Array]


class Statement:
    """A part of a kernel."""

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self, machine: Machine, mask: Array) -> None:
        raise NotImplementedError


@dataclass
class Assign(Statement):
    name: str
    value: Expression
    operator: str = ""

    def lines(self) -> Iterator[str]:
        yield f"{self.name} {self.operator}= {self.value.text}"

    def run(self, machine: Machine, mask: Array) -> None:
        value, old = self.value.value(machine), machine.variables.get(self.name)
        if self.operator and old is not None:
            value = _OPERATORS[self.operator](old, value)
        machine.assign(self.name, value, mask)


@dataclass
class SetElement(Statement):
    """An element of the thread's own array."""

    index: Expression
    value: Expression

    def lines(self) -> Iterator[str]:
        yield f"p[{self.index.text}] = {self.value.text}"

    def run(self, machine: Machine, mask: Array) -> None:
        index, value = self.index.value(machine), self.value.value(machine)
        new = machine.variables["p"].copy()
        new[np.arange(len(new)), index] = value
        machine.assign("p", new, mask[:, None])


@dataclass
class If(Statement):
    condition: Expression
    body: list[Statement]
    otherwise: list[Statement] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"if {self.condition.text}:"
        yield from _indented(self.body)
        if self.otherwise:
            yield "else:"
            yield from _indented(self.otherwise)

    def run(self, machine: Machine, mask: Array) -> None:
        holds = self.condition.value(machine)
        _run(self.body, machine, mask & holds)
        _run(self.otherwise, machine, mask & ~holds)


@dataclass
class Repeat(Statement):
    """A `for`, or a `while` that counts down."""

    name: str
    bound: Expression
    body: list[Statement]
    counts_down: bool

    def lines(self) -> Iterator[str]:
        if self.counts_down:
            yield f"{self.name} = {self.bound.text}"
            yield f"while {self.name} > 0:"
            yield from _indented(self.body)
            yield f"    {self.name} -= 1"
        else:
            yield f"for {self.name} in range({self.bound.text}):"
            yield from _indented(self.body)

    def run(self, machine: Machine, mask: Array) -> None:
        bound = self.bound.value(machine)
        for turn in range(int(bound.max(initial=0))):
            number = bound - turn if self.counts_down else np.full_like(bound, turn)
            machine.assign(self.name, number, mask)
            _run(self.body, machine, mask & (turn < bound))


@dataclass
class Return(Statement):
    condition: Expression

    def lines(self) -> Iterator[str]:
        yield f"if {self.condition.text}:"
        yield "    return"

    def run(self, machine: Machine, mask: Array) -> None:
        machine.returned |= mask & self.condition.value(machine)


@dataclass
class Update(Statement):
    """An atomic op on an array, in some order."""

    kind: str
    index: Expression
    value: Expression

    def lines(self) -> Iterator[str]:
        yield f"metal.atomic_{self.kind}(Bins + ({self.index.text}), {self.value.text})"

    def run(self, machine: Machine, mask: Array) -> None:
        index, value = self.index.value(machine)[mask], self.value.value(machine)[mask]
        _ATOMICS[self.kind].at(machine.bins, index, value)


@dataclass
class Exchange(Statement):
    """What another thread of the threadgroup has written to shared memory."""

    name: str
    value: Expression
    other: Expression

    def lines(self) -> Iterator[str]:
        yield f"s[t] = {self.value.text}"
        yield "metal.barrier()"
        yield f"{self.name} = s[{self.other.text}]"
        yield "metal.barrier()"

    def run(self, machine: Machine, mask: Array) -> None:
        value, other = self.value.value(machine), self.other.value(machine)
        machine.assign(self.name, value[machine.group * machine.size + other], mask)


@dataclass
class ExchangePairs(Statement):
    """The same by memory of two axes, of vectors."""

    name: str
    values: tuple[Expression, Expression]
    other: Expression
    width: int  # of a row

    def lines(self) -> Iterator[str]:
        one, two = self.values
        yield f"w[t // {self.width}, t % {self.width}] = metal.int2({one.text}, {two.text})"
        yield "metal.barrier()"
        yield f"o = {self.other.text}"
        yield f"{self.name} = w[o // {self.width}, o % {self.width}].y"
        yield "metal.barrier()"

    def run(self, machine: Machine, mask: Array) -> None:
        value, other = self.values[1].value(machine), self.other.value(machine)
        machine.assign(self.name, value[machine.group * machine.size + other], mask)


@dataclass
class Count(Statement):
    """How many threads of the threadgroup count each number, by atomics on shared memory."""

    name: str
    condition: Expression
    index: Expression
    lacks: bool  # whether there may be fewer threads than numbers

    def lines(self) -> Iterator[str]:
        if self.lacks:
            yield "if t == 0:"
            yield f"    for i in range({BINS}):"
            yield "        s[i] = 0"
        else:
            yield f"if t < {BINS}:"
            yield "    s[t] = 0"
        yield "metal.barrier()"
        yield f"if {self.condition.text}:"
        yield f"    metal.atomic_add(s + ({self.index.text}), 1)"
        yield "metal.barrier()"
        yield f"{self.name} = s[t & {BINS - 1}]"
        yield "metal.barrier()"

    def run(self, machine: Machine, mask: Array) -> None:
        counted = mask & self.condition.value(machine)
        groups = int(machine.group.max()) + 1
        counts = np.zeros((groups, BINS), np.int32)
        np.add.at(counts, (machine.group[counted], self.index.value(machine)[counted]), 1)
        machine.assign(self.name, counts[machine.group, machine.number & BINS - 1], mask)


def _run(body: Sequence[Statement], machine: Machine, mask: Array) -> None:
    for statement in body:
        statement.run(machine, mask & ~machine.returned)


def _indented(body: Sequence[Statement]) -> Iterator[str]:
    for statement in body:
        for line in statement.lines():
            yield f"    {line}"


# Expressions.

_OPERATORS: dict[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}
_COMPARISONS: dict[str, Callable[..., Array]] = {
    "<": np.less,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_ATOMICS: dict[str, np.ufunc] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "xor": np.bitwise_xor,
}
# With what leaves the result as it is.
_REDUCTIONS: dict[str, tuple[np.ufunc, int]] = {
    "sum": (np.add, 0),
    "max": (np.maximum, i32.low),
    "min": (np.minimum, i32.high),
    "product": (np.multiply, 1),
}


# How many integers a vector of an array has, and how far vectors are apart.
_LENGTHS = {"int4": 4, "int2": 2, "int3": 3, "packed_int3": 3}
_STRIDES = {"int4": 4, "int2": 2, "int3": 4, "packed_int3": 3}


def _made(form: str, function: Callable[..., Array], *parts: Expression) -> Expression:
    """Python with parts in it, and what it means, given what these do."""

    def value(machine: Machine) -> Array:
        with np.errstate(all="ignore"):  # integers wrap
            return np.asarray(function(*[part.value(machine) for part in parts]))

    return Expression(form.format(*[part.text for part in parts]), value)


def _named(name: str) -> Expression:
    return Expression(name, lambda machine: machine.variables[name])


def _number(number: int) -> Expression:
    return Expression(f"{number}", lambda machine: np.full_like(machine.number, number))


def _selected(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, b, a)


def _picked(a: Array, b: Array) -> Array:
    """The helper of each kernel, which returns early."""
    return np.where(a > b, np.where(a == 3, 7, a - b), b + 1)


# What kernels call.
HELPERS = """\
def pick(a, b):
    if a > b:
        if a == 3:
            return 7
        return a - b
    return b + 1
def low_bit(a):
    bit, at = 1, 4
    for i in range(metal.int(4)):
        if a & bit != 0 and at == 4:
            at = i
        bit = bit * 2
    return at
def met(other):
    width, height = metal.threadgroup_size_x(), metal.threadgroup_size_y()
    x = metal.threadgroup_id_x() * width + other % width
    y = metal.threadgroup_id_y() * height + other // width % height
    z = metal.threadgroup_id_z() * metal.threadgroup_size_z() + other // (width * height)
    if x < metal.grid_size_x() and y < metal.grid_size_y() and z < metal.grid_size_z():
        return other
    return 0
"""


def _low_bit(a: Array) -> Array:
    """The other helper, which looks for something in a loop."""
    return np.select([a >> i & 1 != 0 for i in range(4)], range(4), 4)


class Kernel:
    """One kernel, and how it is launched."""

    def __init__(self, choices: Choices):
        self.choices = choices
        self.meets = not choices.flag(3)  # whether threads do something together
        group = choices.of((32, 64, 128, 48) if self.meets else (32, 48, 80))
        self.size = choices.of(((group, 1, 1), (8, group // 8, 1), (4, 4, group // 16)))
        self.grid = choices.of(((1, 1, 1), (2, 1, 1), (1, 2, 1)))
        self.n = choices.below(4)
        self.data = np.random.default_rng(choices.below(256)).integers(-9, 10, DATA, np.int32)
        whole = [n * size for n, size in zip(self.grid, self.size, strict=True)]
        # How many threads there are along each axis; the last threadgroup may lack some.
        self.lacks = not self.meets or choices.flag(2)
        lacking = [choices.below(size) if self.lacks else 0 for size in self.size]
        self.threads = tuple([n - less for n, less in zip(whole, lacking, strict=True)])
        # One element for each thread that exists: the others must not look theirs up.
        self.own = np.resize(np.roll(self.data, self.n), prod(self.threads))
        self.loops = 0
        self.names = ["t", "lane", "g", "x", "y", "z", "n"]
        self.atomic = choices.of(list(_ATOMICS))
        self.vector = choices.of(list(_STRIDES))  # of the input, seen as an array of these
        self.start: list[Statement] = [Assign(name, self.whole(1)) for name in VARIABLES]
        self.names = [*VARIABLES, *self.names]
        self.start += [Assign(name, self.floating(0)) for name in FLOATS]
        self.start += self.computed_alike()
        self.names.append("u")
        self.body = self.block(2, 3 + choices.below(4), together=self.meets)
        if choices.flag():
            self.body += [Return(self.condition()), *self.block(1, 2, together=False)]

    # Drawing statements.

    def computed_alike(self) -> list[Statement]:
        """What all threads of a threadgroup make of arrays in one way: at once, in a loop, or in a
        branch, in which each may do something of its own, too."""
        choices = self.choices
        first = _made("X[({} & 7)]", lambda i: self.data[i & 7], _named(choices.of(("n", "g"))))
        found: list[Statement] = [Assign("u", first)]
        beside: list[Statement] = []
        if choices.flag():
            beside = [Update(self.atomic, self.below(BINS), self.whole(1))]
        if choices.flag():
            each = _made("X[{}]", lambda i: self.data[i], _named("ku"))
            found.append(
                Repeat("ku", _named("n"), [Assign("u", each, "+"), *beside], choices.flag())
            )
        elif choices.flag():
            condition = _made("({} > 0)", lambda a: a > 0, _named("u"))
            found.append(If(condition, [Assign("u", first, choices.of(("+", "-"))), *beside]))
        return found

    def block(self, depth: int, count: int, *, together: bool) -> list[Statement]:
        """Statements; `together`: all threads of a threadgroup come here."""
        return [self.statement(depth, together) for _ in range(count)]

    def statement(self, depth: int, together: bool) -> Statement:
        choices, name = self.choices, self.choices.of(VARIABLES)
        ways: list[Callable[[], Statement]] = [
            lambda: Assign(name, self.whole(2)),
            lambda: Assign(name, self.whole(1), choices.of(("+", "-", "^", "*"))),
            lambda: Assign(choices.of(FLOATS), self.floating(2)),
            lambda: SetElement(self.element_index(), self.whole(1)),
            lambda: Update(self.atomic, self.below(BINS), self.whole(1)),
        ]
        if depth:
            ways += 2 * [lambda: self.branch(depth, together), lambda: self.loop(depth, together)]
        if together:
            other = self.other()
            ways += 3 * [
                lambda: Exchange(name, self.whole(1), other),
                lambda: ExchangePairs(
                    name, (self.whole(1), self.whole(1)), other, prod(self.size) // 4
                ),
                lambda: Count(name, self.condition(), self.below(BINS), self.lacks),
                lambda: Assign(name, self.exchanged()),
            ]
        return choices.of(ways)()

    def branch(self, depth: int, together: bool) -> Statement:
        """A branch that the threads of a threadgroup take alike, or each for itself."""
        alike = together and self.choices.flag()
        condition = self.comparison(self.uniform(), _number(1)) if alike else self.condition()
        body = self.block(depth - 1, 1 + self.choices.below(2), together=alike)
        otherwise = self.block(depth - 1, self.choices.below(2), together=alike)
        return If(condition, body, otherwise)

    def loop(self, depth: int, together: bool) -> Statement:
        alike = together and self.choices.flag()
        name, self.loops = f"k{self.loops}", self.loops + 1
        bound = self.choices.of((_named("n"), _number(2))) if alike else self.below(4)
        self.names.append(name)
        body = self.block(depth - 1, 1 + self.choices.below(2), together=alike)
        self.names.remove(name)
        return Repeat(name, bound, body, self.choices.flag())

    # Drawing expressions.

    def leaf(self) -> Expression:
        choices = self.choices
        if choices.flag(4):
            return _number(choices.below(9) - 4)
        return _named(choices.of(self.names))

    def whole(self, depth: int) -> Expression:
        """An integer."""
        if not depth:
            return self.leaf()
        choices = self.choices

        def part() -> Expression:
            return self.whole(depth - 1)

        def binary() -> Expression:
            operator = choices.of(list(_OPERATORS))
            return _made(f"({{}} {operator} {{}})", _OPERATORS[operator], part(), part())

        # One part at least is traced: what Python knows does not wrap.
        ways: list[Callable[[], Expression]] = [
            self.leaf,
            binary,
            binary,
            lambda: _made("pick(metal.int({}), {})", _picked, part(), part()),
            lambda: _made("low_bit(metal.int({}))", _low_bit, part()),
            lambda: _made("metal.min({}, metal.int({}))", np.minimum, part(), part()),
            lambda: _made("metal.max({}, metal.int({}))", np.maximum, part(), part()),
            lambda: _made("({} >> 2)", lambda a: a >> 2, part()),
            lambda: _made("({} // 3)", lambda a: a // 3, part()),
            lambda: _made("(metal.int({}) % 5)", lambda a: a % 5, part()),
            lambda: _made("X[{}]", lambda i: self.data[i], self.below(DATA)),
            lambda: Expression("Y[at]", lambda machine: machine.own),
            self.vector_of_array,
            lambda: Expression(
                f"metal.int(metal.uint(metal.int({(x := part()).text})) // 3)",
                lambda m: (x.value(m).astype(np.uint32) // 3).astype(np.int32),
            ),
            lambda: _made(
                "(metal.int3({}, {}, {}).zxy + metal.int3({}, 1, 2)).y",
                lambda a, b, c, d: a + 1,
                *[part() for _ in range(4)],
            ),
            lambda: _made(
                "({} if {} else {})",
                lambda a, c, b: _selected(c, b, a),
                part(),
                self.condition(),
                part(),
            ),
            lambda: _made(
                "metal.select({1}, metal.int({2}), {0})",
                _selected,
                *(self.condition(), part(), part()),
            ),
            self.element,
        ]
        return choices.of(ways)()

    def vector_of_array(self) -> Expression:
        """A component of a vector of the input."""
        letter, stride = self.choices.below(_LENGTHS[self.vector]), _STRIDES[self.vector]
        return _made(
            f"V[{{}}].{'xyzw'[letter]}", lambda i: self.data[i * stride + letter], self.below(4)
        )

    def element(self) -> Expression:
        """An element of the thread's own array."""
        index = self.element_index()

        def value(machine: Machine) -> Array:
            held = machine.variables["p"]
            return held[np.arange(len(held)), index.value(machine)]

        return Expression(f"p[{index.text}]", value)

    def element_index(self) -> Expression:
        """Which element of an array: known while tracing, or not."""
        return self.choices.of((self.below(4), _number(self.choices.below(4))))

    def below(self, limit: int) -> Expression:
        """A number from 0 up to a power of two."""
        return _made(
            f"({{}} & {limit - 1})", lambda a: a & limit - 1, _named(self.choices.of(self.names))
        )

    def other(self) -> Expression:
        """A thread of the threadgroup."""
        number = self.below(1 << prod(self.size).bit_length() - 1)
        if not self.lacks:
            return number
        return Expression(f"met({number.text})", lambda m: m.met(number.value(m)))

    def uniform(self) -> Expression:
        """What all threads of a threadgroup have alike."""
        return _named(self.choices.of(("n", "g", "u")))

    def comparison(self, a: Expression, b: Expression) -> Expression:
        word = self.choices.of(list(_COMPARISONS))
        return _made(f"{{}} {word} {{}}", _COMPARISONS[word], a, b)

    def condition(self) -> Expression:
        choices = self.choices

        def compared() -> Expression:
            return self.comparison(_named(choices.of(self.names)), self.whole(1))

        one = compared()
        match choices.below(5):
            case 1:
                return _made("({} and {})", np.logical_and, one, compared())
            case 2:
                return _made("({} or {})", np.logical_or, one, compared())
            case 3:
                return _made("(not {})", np.logical_not, one)
            case 4:
                return _made("(-2 < {} < 6)", lambda a: (a > -2) & (a < 6), self.leaf_of_thread())
        return _made("({})", np.asarray, one)

    def leaf_of_thread(self) -> Expression:
        return _named(self.choices.of(self.names))

    def floating(self, depth: int) -> Expression:
        """A float: all are multiples of 1/4, and small."""
        choices = self.choices
        if not depth:
            return _made(
                "metal.float({})",
                lambda a: a.astype(np.float32),
                _made("({} & 15)", lambda a: a & 15, self.leaf_of_thread()),
            )
        a = choices.of((self.floating(0), _named(choices.of(FLOATS))))
        b = self.floating(0)
        return choices.of(
            (
                _made("({} * 0.5 + {})", lambda a, b: a * np.float32(0.5) + b, a, b),
                _made("metal.max({}, {})", np.maximum, a, b),
                _made("(metal.float2({}, {}) - 1).x", lambda a, b: a - 1, a, b),
                _made("({} - {})", np.subtract, a, b),
                _made("abs({})", np.abs, a),
            )
        )

    def exchanged(self) -> Expression:
        """What the lanes of a simdgroup give each other."""
        choices, x = self.choices, self.whole(1)
        traced = Expression(f"metal.int({x.text})", x.value)
        number = choices.below(LANES)

        def from_lane(lane: Callable[[Machine], Any]) -> Callable[[Machine], Array]:
            return lambda m: m.existing(x.value(m))[m.simdgroup + lane(m)]

        reduction, condition = choices.of(list(_REDUCTIONS)), self.condition()
        text, other = traced.text, self.below(LANES)

        def lanes(machine: Machine) -> Array:
            return machine.variables["lane"]

        def ballot(machine: Machine) -> Array:
            bits = condition.value(machine).astype(np.int64) << lanes(machine)
            return machine.of_simdgroup(bits, np.add).astype(np.uint32).astype(np.int32)

        def before(machine: Machine) -> Array:
            rows = machine.existing(x.value(machine)).reshape(-1, LANES)
            with np.errstate(all="ignore"):
                return np.cumsum(rows, axis=1, dtype=np.int32).reshape(-1)

        return choices.of(
            (
                Expression(f"metal.simd_shuffle({text}, {other.text})", from_lane(other.value)),
                Expression(
                    f"metal.simd_shuffle_xor({text}, {number or 1})",
                    from_lane(lambda m: lanes(m) ^ (number or 1)),
                ),
                Expression(f"metal.simd_broadcast({text}, {number})", from_lane(lambda m: number)),
                Expression(
                    f"metal.simd_shuffle_up({text}, {number})",
                    from_lane(lambda m: np.where(lanes(m) < number, lanes(m), lanes(m) - number)),
                ),
                Expression(
                    f"metal.simd_{reduction}({text})",
                    lambda m: m.of_simdgroup(x.value(m), *_REDUCTIONS[reduction]),
                ),
                Expression(
                    f"metal.simd_shuffle_down({text}, {number})",
                    from_lane(
                        lambda m: np.where(lanes(m) + number < LANES, lanes(m) + number, lanes(m))
                    ),
                ),
                Expression(f"metal.int(metal.simd_ballot({condition.text}))", ballot),
                Expression(f"metal.simd_prefix_inclusive_sum({text})", before),
                Expression(
                    f"metal.simd_prefix_exclusive_sum({text})", lambda m: before(m) - x.value(m)
                ),
                Expression(
                    f"metal.int(metal.simd_all({condition.text}))",
                    lambda m: m.of_simdgroup(condition.value(m).astype(np.int32), np.minimum, 1),
                ),
                Expression(
                    f"metal.int(metal.simd_any({condition.text}))",
                    lambda m: m.of_simdgroup(condition.value(m).astype(np.int32), np.maximum),
                ),
            )
        )

    # Running.

    def __repr__(self) -> str:
        how = ", ".join(f"{name}={value}" for name, value in self.how.items())
        given = f"X = {self.data.tolist()}; Y = {self.own.tolist()}; n = {self.n}"
        return f"{given}; {how}\n{HELPERS}{self.text}"

    @property
    def text(self) -> str:
        lines = [
            "t, lane = metal.thread_in_threadgroup(), metal.lane_id()",
            "x, y, z = metal.thread_id_x(), metal.thread_id_y(), metal.thread_id_z()",
            "g = metal.threadgroup_id_x() + metal.threadgroup_id_y() * metal.num_threadgroups_x()",
            "at = x + metal.grid_size_x() * (y + metal.grid_size_y() * z)",
            f"s = metal.shared({prod(self.size)}, metal.int)",
            f"w = metal.shared((4, {prod(self.size) // 4}), metal.int2)",
            "p = metal.array(4, metal.int)",
        ]
        for statement in [*self.start, *self.body]:
            lines += statement.lines()
        lines += [f"Out[at * {SLOTS} + {i}] = {name}" for i, name in enumerate(VARIABLES)]
        lines += [f"Out[at * {SLOTS} + 3] = p[n & 3]"]
        lines += [f"Out[at * {SLOTS} + {i + 4}] = metal.int({f} * 4)" for i, f in enumerate(FLOATS)]
        head = '@metal.kernel\ndef drawn(X: "device const int*", Out: "device int*", '
        head += f'Bins: "device int*", V: "device const {self.vector}*", '
        head += 'Y: "device const int*", n: "int"):'
        return "\n".join([head, *[f"    {line}" for line in lines], ""])

    def expected(self) -> tuple[Array, Array]:
        """What a launch writes."""
        machine = Machine(self)
        _run([*self.start, *self.body], machine, machine.there)
        out = np.zeros((prod(self.threads), SLOTS), np.int32)
        stores = machine.there & ~machine.returned
        held, at = machine.variables, machine.at[stores]
        for slot, name in enumerate(VARIABLES):
            out[at, slot] = held[name][stores]
        out[at, 3] = held["p"][stores, self.n & 3]
        for slot, name in enumerate(FLOATS):
            out[at, slot + 4] = (held[name][stores] * 4).astype(np.int32)
        return out, machine.bins

    @cached_property
    def kernel(self) -> ThreadKernel:
        """What the text defines."""
        return _kernel(self.text)

    @property
    def how(self) -> dict[str, Any]:
        """How the kernel is launched."""
        sizes = {"threads": self.threads} if self.lacks else {"grid": self.grid}
        return {**sizes, "threadgroup": self.size}

    def outputs(self) -> tuple[Array, Array]:
        return np.zeros((prod(self.threads), SLOTS), np.int32), np.zeros(BINS, np.int32)

    def launch(self, kernel: ThreadKernel, device: str) -> tuple[Array, Array]:
        out, bins = self.outputs()
        kernel(self.data, out, bins, self.data, self.own, self.n, device=device, **self.how)
        return out, bins

    def lower(self) -> Compilation:
        """What becomes of the kernel."""
        return self.kernel.lower(
            self.data, *self.outputs(), self.data, self.own, self.n, **self.how
        )

    def program(self, passes: Pipeline) -> Program:
        """The launch of the traced kernel after some passes."""
        module = run_passes(self.lower().traced, passes)
        bits, own = (tuple(map(int, scalar.to_bits(i32, x))) for x in (self.data, self.own))
        out, bins = self.outputs()
        recipes: list[ArrayRecipe | Scalar] = [
            ArrayRecipe(i32, (DATA,), data=bits),
            ArrayRecipe(i32, out.shape),
            ArrayRecipe(i32, bins.shape),
            ArrayRecipe(i32, (DATA,), data=bits),
            ArrayRecipe(i32, self.own.shape, data=own),
            Scalar(i32, self.n),
        ]
        recipes += [
            Scalar(i32, count)
            for count, size in zip(self.threads, self.size, strict=True)
            if count % size
        ]
        return Program(module, "drawn", self.grid, tuple(recipes))

    def check(self, devices: Sequence[str] = ("interp",)) -> None:
        """Assert that devices store what the evaluation says."""
        for device in devices:
            self.compare(device, self.launch(self.kernel, device), HELPERS + self.text)

    def check_c(self, file: CudaFile, name: str, text: str) -> None:
        """Assert that the kernel of a CUDA file does, which has this text."""
        out, bins = self.outputs()
        file[name][self.grid, self.size](
            self.data, out, bins, self.data, self.own, self.n, device="interp:metal"
        )
        self.compare("interp:metal", (out, bins), text)

    def compare(self, device: str, found: tuple[Array, Array], text: str) -> None:
        """Assert that a launch has stored what the evaluation says."""
        for name, one, other in zip(("Out", "Bins"), found, self.expected(), strict=True):
            for at in np.argwhere(one != other)[:1]:
                place = ", ".join(map(str, at))
                sizes = f"n={self.n}, threads={self.threads}, threadgroup={self.size}"
                raise AssertionError(
                    f"{device}: {name}[{place}] is {one[tuple(at)]}, not {other[tuple(at)]}, "
                    f"with {sizes}:\n{text}"
                )

    def check_barriers(self) -> int:
        """Assert that without any one of its barriers the kernel is reported to race, or does the
        same; gives how many were reported."""
        reported, expected = 0, self.expected()
        for barrier in re.finditer(r"metal\.barrier\(\)", self.text):
            text = f"{self.text[: barrier.start()]}pass{self.text[barrier.end() :]}"
            try:
                found = self.launch(_kernel(text), "interp")
            except RaceError:
                reported += 1
            else:
                same = all((a == b).all() for a, b in zip(found, expected, strict=True))
                assert same, f"a race is not reported:\n{text}"
        return reported


@cache
def _names() -> dict[str, Any]:
    """What names mean in each kernel; the helpers are parsed once."""
    from iris import metal

    scope = evaluated(HELPERS, metal=metal)
    return {name: scope[name] for name in ("metal", "pick", "low_bit", "met")}


def _kernel(text: str) -> ThreadKernel:
    made: ThreadKernel = defined(text, **_names())
    return made


def kernels() -> st.SearchStrategy[Kernel]:
    """Kernels by thread."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: Kernel(Choices(data)))


def check_translations(several: Sequence[Kernel]) -> None:
    """Assert that kernels, written in CUDA C, store what the evaluation says.  They are kernels of
    one file, for a parser takes long to start.  In CUDA C no thread beyond an edge may miss a
    barrier, so that kernels with both are left out."""
    several = [k for k in several if not (k.meets and k.lacks)]
    texts = [
        # Where simdgroups are not full, that no thread leaves before a barrier cannot be known.
        as_c(
            *(k.text, f"k{i}", k.vector, k.threads, prod(k.size)),
            leaves=k.lacks or prod(k.size) % LANES == 0,
        )
        for i, k in enumerate(several)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.cu"
        path.write_text(C_HELPERS + "".join(texts))
        file = load(path)
        for number, (kernel, text) in enumerate(zip(several, texts, strict=True)):
            kernel.check_c(file, f"k{number}", text)


def programs(passes: Pipeline) -> st.SearchStrategy[Program]:
    """What passes make of traced kernels by thread, and how it is launched."""
    return kernels().map(lambda kernel: kernel.program(passes))
