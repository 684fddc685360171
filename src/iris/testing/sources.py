"""Random kernels as Python source, each written in several ways that mean the same.

    @given(sources.kernels())
    def test_loops(kernel):
        kernel.check()

A kernel goes over a row, or over rows, block by block, and updates some variables with what it
loads.  Its loop is written as a `for` and a `while`, of a number known when the kernel runs and of
one known while tracing, with its body in a helper that returns at its end or early, with its
variables in a list, and without a loop, one iteration after the other.  Some results may be stored
only if the kernel has not returned.  All must store the same, and what a plain evaluation in NumPy
says.

In that evaluation every value is its elements with which of them count.  An element that does not
count is in no reduction and is not stored, and what is made of it does not count either; but a
variable that is assigned what is made of its old value, element by element, keeps its old element
where the new one does not count.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.ir.types import f16, f32
from iris.testing.bounds.arithmetic import worst
from iris.testing.bounds.combine import combined
from iris.testing.choices import Choices

Array = npt.NDArray[Any]
BYTES = 160
SLOT = 64  # elements of the output for each result
UNTOUCHED = 99.0  # in elements of the output that nothing is stored to
_fresh = count()


# What a kernel means.


@dataclass(frozen=True)
class Cells:
    """The elements of a value, which of them count, and what they are made of, one by one."""

    data: Array
    counts: Array
    made: frozenset[int] = frozenset()
    # How far sums in another order may be from the data.
    error: Array = field(default_factory=lambda: np.zeros(()))
    is_half: bool | None = None  # of f16, or f32; or a number that is what it meets

    @staticmethod
    def of(number: float) -> Cells:
        return Cells(np.float64(number), np.bool_(True))  # type: ignore[arg-type]

    def map(self, function: Callable[..., Array], *others: Cells) -> Cells:
        every = (self, *others)
        counts = np.logical_and.reduce(np.broadcast_arrays(*[x.counts for x in every]))
        made = frozenset[int]().union(*[x.made for x in every])
        with np.errstate(all="ignore"):  # where an element does not count
            data = np.asarray(function(*[x.data for x in every]))
        is_half = _meet(every)
        if data.dtype.kind == "f":
            data = data.astype(np.float16 if is_half else np.float32).astype(np.float64)
        return Cells(data, counts, made, worst([x.error for x in every]), is_half)

    def choose(self, on_true: Cells, on_false: Cells) -> Cells:
        chosen = np.where(self.data, on_true.counts, on_false.counts)
        data = np.where(self.data, on_true.data, on_false.data)
        error = worst([x.error for x in (self, on_true, on_false)])
        made, is_half = on_true.made | on_false.made, _meet((on_true, on_false))
        return Cells(data, self.counts & chosen, made, error, is_half)

    def reduce(self, ufunc: np.ufunc, start: float, axis: int | None = None) -> Cells:
        shape = np.broadcast_shapes(self.data.shape, self.counts.shape)
        counts, data = (np.broadcast_to(x, shape) for x in (self.counts, self.data))
        terms = np.where(counts, data, start)
        error = np.where(counts, np.broadcast_to(self.error, shape), 0.0)

        def along(combine: np.ufunc, x: Array) -> Array:
            return np.asarray(combine.reduce(x, axis=axis))

        total = along(ufunc, terms)
        kind = "sum" if ufunc is np.add else "maximum"
        with np.errstate(invalid="ignore"):  # of infinities, where nothing counts
            off = combined(f16 if self.is_half else f32, kind, total, terms, error, along)
        off = np.broadcast_to(off, (1, *total.shape))[0]
        any_counts = np.asarray(counts.any(axis=axis))
        return Cells(total, any_counts, error=off, is_half=self.is_half)

    def dot(self, b: Cells, acc: Cells) -> Cells:
        # At least f32, whatever the factors are.
        factors = [replace(x, is_half=False) for x in (self._with_axis(2), b._with_axis(0))]
        products = factors[0].map(np.multiply, factors[1])
        return products.reduce(np.add, 0, 1).map(np.add, acc)

    def _with_axis(self, axis: int) -> Cells:
        every = np.broadcast_arrays(self.data, self.counts, self.error)
        data, counts, error = (np.expand_dims(x, axis) for x in every)
        return Cells(data, counts, error=error, is_half=self.is_half)

    def transposed(self) -> Cells:
        return replace(self, data=self.data.T, counts=self.counts.T, error=self.error.T)

    def assigned(self, new: Cells) -> Cells:
        """What a variable holds that held this and is assigned something."""
        if self.made and self.made <= new.made:
            data = np.where(new.counts, new.data, self.data)
            error = np.where(new.counts, new.error, self.error)
            new = Cells(data, new.counts | self.counts, self.made, error)
        return replace(new, made=new.made | {next(_fresh)}, is_half=self.is_half)


def _meet(values: Sequence[Cells]) -> bool | None:
    """Whether values meet in f16."""
    known = [x.is_half for x in values if x.is_half is not None]
    return all(known) if known else None


def _whole(data: Array) -> Cells:
    """Elements that all count, of f32."""
    return Cells(data, np.full(data.shape, True), is_half=False)


Scope = dict[str, Any]


class Expression(NamedTuple):
    """Python, and what it means."""

    text: str
    value: Callable[[Scope], Cells]


class Condition(NamedTuple):
    """Python that says which lanes of a block are there, and which these are."""

    text: str
    lanes: Callable[[Array, Array], Array]  # of rows and columns


class Statement:
    """A part of a kernel."""

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self, scope: Scope) -> None:
        raise NotImplementedError


@dataclass
class Assign(Statement):
    """Variables are assigned values, all at once."""

    names: tuple[str, ...]
    values: tuple[Expression, ...]
    augmented: str = ""  # the statement, where it is one like `+=`

    def lines(self) -> Iterator[str]:
        values = ", ".join(v.text for v in self.values)
        yield self.augmented or f"{', '.join(self.names)} = {values}"

    def run(self, scope: Scope) -> None:
        values = [v.value(scope) for v in self.values]
        for name, value in zip(self.names, values, strict=True):
            old = scope.get(name)
            scope[name] = value if old is None else old.assigned(value)


@dataclass
class Let(Statement):
    """A name of one iteration: it holds nothing that could be updated."""

    name: str
    value: Expression

    def lines(self) -> Iterator[str]:
        yield f"{self.name} = {self.value.text}"

    def run(self, scope: Scope) -> None:
        scope[self.name] = self.value.value(scope)


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

    def run(self, scope: Scope) -> None:
        body = self.body if self.condition.value(scope).data else self.otherwise
        for statement in body:
            statement.run(scope)


@dataclass
class Repeat(Statement):
    """A loop in the loop."""

    name: str
    bound: str
    count: int
    body: list[Statement]

    def lines(self) -> Iterator[str]:
        yield f"for {self.name} in range({self.bound}):"
        yield from _indented(self.body)

    def run(self, scope: Scope) -> None:
        for number in range(self.count):
            scope[self.name] = Cells.of(number)
            for statement in self.body:
                statement.run(scope)


def _indented(body: Sequence[Statement]) -> Iterator[str]:
    for statement in body:
        for line in statement.lines():
            yield f"    {line}"


# Drawing one.


@dataclass
class Variable:
    name: str
    start: Expression
    shape: tuple[int, ...]
    update: str  # how it is updated


class Result(NamedTuple):
    """What a kernel stores, from some element of the output on."""

    at: int
    lanes: str
    value: Expression

    @property
    def line(self) -> str:
        where = f"Out + {self.at} + {self.lanes}" if self.lanes else f"Out + {self.at}"
        return f"iris.store({where}, {self.value.text})"


class Kernel:
    """One kernel in all its spellings."""

    def __init__(self, choices: Choices):
        self.choices = choices
        self.width = choices.of((4, 8))
        self.rows = choices.of((0, 4, 2))
        self.shape = (self.rows, self.width) if self.rows else (self.width,)
        self.trips = 1 + choices.below(3)
        self.pitch = (self.trips + 1) * self.width
        self.sizes: Mapping[str, int] = {
            "N": self.trips * self.width - choices.below(self.width),
            "L": 1 + choices.below(self.trips * self.width),
            "M": max(1, self.rows - choices.below(2)),
            "FLAG": choices.below(2),
            "K": choices.below(3),
        }
        seed = choices.below(256)
        data = np.random.default_rng(seed).integers(-4, 5, (4, self.pitch))
        # Of f16, some sums are only exact in f32.
        self.is_half = choices.flag(4)
        self.data = (data * 0.3).astype(np.float16) if self.is_half else data.astype(np.float32)
        # The same in one row, with less than all of the last one or two.
        left = self.pitch * 4 - choices.below(2 * self.pitch)
        self.flat = self.data.reshape(-1)[:left]
        self.loads = [Let(f"x{n}", self.loaded()) for n in range(1 + choices.below(2))]
        self.variables = [self.variable(f"v{n}") for n in range(1 + choices.below(3))]
        self.body: list[Statement] = [*self.loads, *self.updates()]
        self.early = choices.below(len(self.body) + 1)  # where a helper asks if it returns
        # After how many results the kernel returns, if it does.
        self.stored = choices.below(4) if choices.flag(3) else None
        self.leaves = self.condition()

    # Loads.

    def lanes(self, scope: Scope) -> tuple[Array, Array]:
        """The rows and columns of a block."""
        columns = int(scope["i"].data) + np.arange(self.width)
        if not self.rows:
            return np.zeros((), int), columns
        return np.broadcast_arrays(np.arange(self.rows)[:, None], columns[None])  # type: ignore[return-value]

    def mask(self) -> Condition:
        """Which lanes of a block are there."""
        n, m, length = (self.sizes[name] for name in "NML")
        masks = [
            Condition("c < N", lambda r, c: c < n),
            Condition("c < L", lambda r, c: c < length),
            Condition("c % 3 != 1", lambda r, c: c % 3 != 1),
            Condition("(c < N) & (c >= 2)", lambda r, c: (c < n) & (c >= 2)),
            self.choices.of(
                (
                    Condition("CONST > 0", lambda r, c: np.asarray(self.sizes["FLAG"] > 0)),
                    Condition("False", lambda r, c: np.asarray(False)),
                    Condition("FLAG > 0", lambda r, c: np.asarray(self.sizes["FLAG"] > 0)),
                    Condition("True", lambda r, c: np.asarray(True)),
                )
            ),
        ]
        if self.rows:
            masks += [
                Condition("r < M", lambda r, c: r < m),
                Condition("(r < M) & (c < N)", lambda r, c: (r < m) & (c < n)),
            ]
        return self.choices.of([masks[0], *masks])

    def block(self) -> Expression:
        """A block of the rows, or of the one row that has them all, with some bounds given; all of
        its elements count."""
        choices, sizes = self.choices, self.sizes
        first = choices.of((0, 2, 1, 3)) if (is_flat := choices.flag()) else 4 - self.rows
        rows = choices.of((None, "M", "4"))
        columns = choices.of((None, None, "N"))
        given = [f", {n}={x}" for n, x in (("rows", rows), ("cols", columns)) if x is not None]
        if is_flat and rows and columns:  # then nothing else bounds it
            given, columns, first = given[:1], None, 2
        text = f"iris.tile_load({'F' if is_flat else 'X'}, {first}, i, {self.pitch}, "
        text += f"{self.shape}{''.join(given)})"

        def value(scope: Scope) -> Cells:
            r, c = np.broadcast_arrays(
                first + np.arange(self.rows)[:, None],
                int(scope["i"].data) + np.arange(self.width)[None],
            )
            at = r * self.pitch + c
            inside = (c < (sizes["N"] if columns else self.pitch)) & (
                at < (self.flat.size if is_flat else self.data.size)
            )
            if rows is not None:
                inside = inside & (r < (sizes["M"] if rows == "M" else 4))
            elements = self.data.reshape(-1)[np.where(inside, at, 0)].astype(np.float64)
            return replace(_whole(np.where(inside, elements, 0.0)), is_half=self.is_half)

        return Expression(text, value)

    def loaded(self) -> Expression:
        if self.rows and self.choices.flag(5):
            return self.block()
        mask, other = self.mask(), self.choices.of(("", "", "", ", other=2.0"))
        at = f"r * {self.pitch} + c" if self.rows else "c"

        def value(scope: Scope) -> Cells:
            rows, columns = self.lanes(scope)
            inside = np.broadcast_to(mask.lanes(rows, columns), self.shape)
            data = np.where(inside, self.data[rows, columns].astype(np.float64), 2.0)
            return Cells(data, inside | bool(other), is_half=self.is_half)

        return Expression(f"iris.load(X + {at}, mask={mask.text}{other})", value)

    def operand(self) -> Expression:
        """What an update adds: something made of a load."""
        name = self.choices.of([load.name for load in self.loads])
        x = Expression(name, lambda s: s[name])
        made = [
            x,
            x,
            Expression(f"({name} * 2.0)", lambda s: s[name].map(lambda a: a * 2)),
            Expression(f"({name} * {name})", lambda s: s[name].map(lambda a: a * a)),
            Expression(
                f"({name} - iris.max({name}))",
                lambda s: s[name].map(np.subtract, s[name].reduce(np.maximum, -np.inf)),
            ),
            Expression(
                f"iris.where({name} > 0, {name}, 1.0)",
                lambda s: s[name].map(lambda a: a > 0).choose(s[name], Cells.of(1)),
            ),
        ]
        if not self.is_half:  # where a number that a loop changes would be of f32
            made.append(Expression(f"({name} + i)", lambda s: s[name].map(np.add, s["i"])))
        return self.choices.of(made)

    # Variables.

    def variable(self, name: str) -> Variable:
        choices = self.choices
        kinds: tuple[str, ...] = ("sum", "sum", "max", "scalar", "decay", "last", "either")
        if self.is_half:  # without what rounds a whole sum, or would change the dtype
            kinds = ("sum", "sum", "max", "decay", "either")
        update = choices.of((*kinds, "dot", "dot") if self.rows else kinds)
        numbers = (("0.0", 0), ("0", 0), ("-1e30", float(np.float32(-1e30))), ("2.5", 2.5))
        text, number = choices.of(numbers[:2] if update in ("sum", "scalar") else numbers)
        if update == "max":
            text, number = numbers[2]
        elif update in ("decay", "last", "either"):
            text, number = choices.of((numbers[0], numbers[3]))
        start = Expression(text, lambda s: replace(Cells.of(number), is_half=False))
        if update == "dot":
            square = (self.rows, self.rows)
            start = Expression(f"iris.zeros({square})", lambda s: _whole(np.zeros(square)))
            return Variable(name, start, square, update)
        if update != "scalar" and choices.flag():
            start = Expression(
                f"iris.full({self.shape}, {text})",
                lambda s: _whole(np.full(self.shape, number)),
            )
        elif update != "scalar" and choices.flag(3):
            loaded = self.loaded()
            start = Expression(loaded.text, lambda s: loaded.value({**s, "i": Cells.of(0)}))
        return Variable(name, start, () if update == "scalar" else self.shape, update)

    def updates(self) -> list[Statement]:
        """Each variable is updated, some in a branch or a loop, some twice."""
        found: list[Statement] = []
        several = [v for v in self.variables if v.update in ("sum", "max")]
        for variable in self.variables:
            for _ in range(1 + self.choices.flag(3)):
                found.append(self.wrapped(self.update(variable)))
        if len(several) > 1 and self.choices.flag():
            found.append(self.together(several[:2]))
        alike = [v for v in self.variables if v.shape == self.shape]
        if len(alike) > 1 and not self.is_half and self.choices.flag(3):
            found.append(self.renamed(*alike[:2]))
        return found

    def renamed(self, old: Variable, new: Variable) -> Statement:
        """What one variable holds is held by another one, too."""
        return Assign((new.name,), (Expression(old.name, lambda s: s[old.name]),))

    def together(self, variables: Sequence[Variable]) -> Statement:
        """Several variables are assigned at once."""
        names = tuple([v.name for v in variables])
        x = self.operand()

        def value(name: str, function: Callable[..., Array]) -> Callable[[Scope], Cells]:
            return lambda s: s[name].map(function, x.value(s))

        values = [
            Expression(f"{v.name} + {x.text}", value(v.name, np.add))
            if v.update == "sum"
            else Expression(f"iris.maximum({v.name}, {x.text})", value(v.name, np.maximum))
            for v in variables
        ]
        return Assign(names, tuple(values))

    def wrapped(self, body: list[Statement]) -> Statement:
        sizes = self.sizes
        ways: list[Callable[[], Statement]] = [
            lambda: Block(body),
            lambda: Block(body),
            lambda: If(Expression("FLAG > 0", lambda s: Cells.of(sizes["FLAG"] > 0)), body),
            lambda: If(Expression("CONST > 0", lambda s: Cells.of(sizes["FLAG"] > 0)), body),
            lambda: If(
                Expression(f"i >= {self.width}", lambda s: s["i"].map(lambda i: i >= self.width)),
                body,
            ),
            lambda: If(self.condition(), body),
            lambda: If(self.condition(), body),
            lambda: Repeat("k", "K", sizes["K"], body),
            lambda: Repeat("k", "2", 2, body),
        ]
        return self.choices.of(ways)()

    def condition(self) -> Expression:
        """What is asked only if something else is so, for else it may fail."""
        flag, k, length = (self.sizes[name] for name in ("FLAG", "K", "L"))
        quotient = length // k if k else 0
        chosen = quotient if flag else 2
        text, holds = self.choices.of(
            (
                ("K > 0 and (L // K if FLAG > 0 else 2) > 1", k > 0 and chosen > 1),
                ("K == 0 or L // K > 3", k == 0 or quotient > 3),
                ("not (FLAG > 0 or K > 1)", not (flag > 0 or k > 1)),
                ("K > 0 and L % K == 0 and FLAG > 0", k > 0 and length % k == 0 and flag > 0),
                ("not K or (FLAG > 0 and L // K < 5)", not k or (flag > 0 and quotient < 5)),
                ("CONST > 0 and K > 0 and L // K > 1", flag > 0 and k > 0 and quotient > 1),
            )
        )
        return Expression(text, lambda s: Cells.of(holds))

    def update(self, variable: Variable) -> list[Statement]:
        name, x = variable.name, self.operand()

        def old(scope: Scope) -> Cells:
            return scope[name]  # type: ignore[no-any-return]

        def assign(text: str, value: Callable[[Scope], Cells], augmented: str = "") -> Statement:
            return Assign((name,), (Expression(text, value),), augmented)

        def added(scope: Scope) -> Cells:
            return old(scope).map(np.add, x.value(scope))

        def greater(scope: Scope) -> Cells:
            return old(scope).map(np.maximum, x.value(scope))

        def through(text: str, value: Callable[[Scope], Cells]) -> list[Statement]:
            made = f"t_{name}"  # which has one dtype
            return [Let(made, Expression(text, value)), assign(made, lambda s: s[made])]

        match variable.update:
            case "sum":
                ways = [
                    [assign("", added, f"{name} += {x.text}")],
                    [assign(f"{name} + {x.text}", added)],
                    [assign(f"{x.text} + {name}", added)],
                    [assign(f"plus({name}, {x.text})", added)],
                    through(f"{name} + {x.text}", added),
                ]
            case "max":
                ways = [
                    [assign(f"iris.maximum({name}, {x.text})", greater)],
                    through(f"iris.maximum({x.text}, {name})", greater),
                    [
                        assign(
                            f"iris.where({x.text} > {name}, {x.text}, {name})",
                            lambda s: x.value(s).map(np.greater, old(s)).choose(x.value(s), old(s)),
                        )
                    ],
                ]
            case "scalar":
                ways = [
                    [
                        assign(
                            f"{name} + iris.sum({x.text})",
                            lambda s: old(s).map(np.add, x.value(s).reduce(np.add, 0)),
                        )
                    ]
                ]
            case "decay":
                ways = [
                    [
                        assign(
                            f"{name} * 0.5 + {x.text}",
                            lambda s: old(s).map(lambda a: a * 0.5).map(np.add, x.value(s)),
                        )
                    ]
                ]
            case "dot":
                y = self.operand()
                ways = [
                    [
                        assign(
                            f"iris.dot({x.text}, {y.text}.T, {name})",
                            lambda s: x.value(s).dot(y.value(s).transposed(), old(s)),
                        )
                    ]
                ]
            case "last":
                ways = [[assign(x.text, x.value)]]
            case _:
                others = [[assign(f"{name} - 1.0", lambda s: old(s).map(lambda a: a - 1))]]
                if not self.is_half:  # else the dtype would change
                    others.append([assign(x.text, x.value)])
                ways = [
                    [
                        If(
                            Expression("FLAG > 0", lambda s: Cells.of(self.sizes["FLAG"] > 0)),
                            [assign(f"{name} + {x.text}", added)],
                            otherwise,
                        )
                    ]
                    for otherwise in others
                ]
        return self.choices.of(ways)

    # What is stored.

    def results(self) -> list[Result]:
        found: list[Result] = []
        for number, variable in enumerate(self.variables):
            found += self._results(variable, number * SLOT)
        return found

    def stores(self) -> list[str]:
        """What stores the results, and may return between them."""
        lines = [result.line for result in self.results()]
        if self.stored is None:
            return lines
        leave = ["if FLAG > 0:", f"    if {self.leaves.text}:", "        return"]
        leave += [f"elif {self.leaves.text}:", "    return"]
        return [*lines[: self.stored], *leave, *lines[self.stored :]]

    def early_return(self, carried: str) -> list[str]:
        """What a helper does before it has done all: it returns if something is so that is not."""
        if self.early % 3 == 2:  # what follows is of the other branch, too
            return ["if L < 0:", f"    return {carried}", "else:", "    c = c"]
        first, second = ("L < 0", "FLAG > 0") if self.early % 3 else ("FLAG > 0", "L < 0")
        inner = [f"if {second}:", f"    return {carried}"]
        return [f"if {first}:", *_deeper(inner)]

    def _results(self, variable: Variable, at: int) -> Iterator[Result]:
        """A variable as it is, and reductions of it."""
        name, shape = variable.name, variable.shape
        if not shape:
            yield Result(at, "", Expression(name, lambda s: s[name]))
            return

        def whole(scope: Scope) -> Cells:
            return scope[name].map(np.add, _whole(np.zeros(shape)))  # type: ignore[no-any-return]

        lanes = f"iris.arange(0, {shape[-1]})"
        if len(shape) > 1:
            lanes = f"iris.arange(0, {shape[0]})[:, None] * {shape[1]} + {lanes}[None, :]"
        wide = f"({name} + iris.zeros({shape}))"
        yield Result(at, lanes, Expression(wide, whole))
        total = Expression(f"iris.sum({wide})", lambda s: whole(s).reduce(np.add, 0))
        most = Expression(f"iris.max({wide})", lambda s: whole(s).reduce(np.maximum, -np.inf))
        yield Result(at + 40, "", total)
        yield Result(at + 41, "", most)
        if len(shape) > 1:
            sums = Expression(f"iris.sum({wide}, axis=1)", lambda s: whole(s).reduce(np.add, 0, 1))
            yield Result(at + 44, f"iris.arange(0, {shape[0]})", sums)

    def expected(self) -> tuple[Array, Array]:
        """What is stored, and how far an element may be from that."""
        scope: Scope = {}
        for variable in self.variables:
            start = variable.start.value(scope)
            scope[variable.name] = replace(start, made=frozenset([next(_fresh)]))
        for first in range(0, self.sizes["N"], self.width):
            scope["i"] = Cells.of(first)
            for statement in self.body:
                statement.run(scope)
        out = np.full(len(self.variables) * SLOT, UNTOUCHED)
        errors = np.zeros(out.shape)
        results = self.results()
        if self.stored is not None and self.leaves.value(scope).data:
            results = results[: self.stored]
        for result in results:
            cells = result.value.value(scope)
            shape = np.broadcast_shapes(cells.data.shape, cells.counts.shape)
            at = result.at + np.arange(prod(shape)).reshape(shape)
            counts = np.broadcast_to(cells.counts, shape)
            out[at[counts]] = np.broadcast_to(cells.data, shape)[counts]
            errors[at[counts]] = np.broadcast_to(cells.error, shape)[counts]
        return out, errors

    # Source.

    def text(self, spelling: str) -> str:
        """The kernel with its loop in one spelling."""
        known = spelling in ("unrolled", "while unrolled", "helper", "tile_range", "list unrolled")
        n = "N: iris.constexpr" if known else "N"
        head = f"def drawn(X, F, Out, {n}, L, M, FLAG, K, CONST: iris.constexpr):"
        columns = f"i + iris.arange(0, {self.width})"
        names = [v.name for v in self.variables]
        carried = f"{names[0]}," if len(names) == 1 else ", ".join(names)
        parts = [list(statement.lines()) for statement in self.body]
        if spelling == "early returns":
            parts.insert(self.early, self.early_return(carried))
        lines = [f"c = ({columns})[None, :]" if self.rows else f"c = {columns}", *chain(*parts)]
        setup = [f"r = iris.arange(0, {self.rows})[:, None]"] if self.rows else []
        setup += ["i = 0", f"c = ({columns})[None, :]" if self.rows else f"c = {columns}"]
        setup += [f"{v.name} = {v.start.text}" for v in self.variables]
        helper: list[str] = []
        match spelling:
            case "loop" | "unrolled" | "list" | "list unrolled":
                loop = [f"for i in range(0, N, {self.width}):", *_deeper(lines)]
            case "tile_range":
                loop = [f"for i in iris.tile_range(0, N, {self.width}):", *_deeper(lines)]
            case "while" | "while unrolled":
                loop = ["while i < N:", *_deeper([*lines, f"i += {self.width}"])]
            case "helper" | "early returns":
                rest = "X, F, N, L, M, FLAG, K, CONST"
                rest += ", r" if self.rows else ""
                given = f"i, {', '.join(names)}, {rest}"
                helper = [f"def step({given}):", *_deeper([*lines, f"return {carried}"])]
                loop = [f"for i in range(0, N, {self.width}):"]
                loop += _deeper([f"{carried} = step({given})"])
            case _:
                loop = []
                for start in range(0, self.sizes["N"], self.width):
                    loop += [f"i = {start}", *lines]
        body = _deeper([*setup, *loop, *self.stores()])
        if "list" in spelling:
            held = f"    held = [{', '.join('0' for _ in names)}]"
            body = [held, *[re.sub(r"\bv(\d)\b", r"held[\1]", line) for line in body]]
        plus = ["@iris.kernel", "def plus(a, b):", *_deeper(["a = a + b", "return a"])]
        return "\n".join([*plus, *helper, "@iris.kernel", head, *body, ""])

    def run(self, spelling: str, device: str | None = None) -> Array:
        """What the kernel stores, with its loop in one spelling."""
        drawn = defined(self.text(spelling))
        out = np.full(len(self.variables) * SLOT, UNTOUCHED, np.float32)
        drawn[1](self.data, self.flat, out, **self.sizes, CONST=self.sizes["FLAG"], device=device)
        return out

    def __repr__(self) -> str:
        return f"{dict(self.sizes)}\n{self.text('loop')}"

    def check(self, *, device: str | None = None) -> None:
        """Assert that the kernel stores in every spelling what NumPy says.

        Sums may be made in any order: they may be off by as much as that allows.
        """
        expected, errors = self.expected()
        # Only a variable that a loop changes starts as a number of f32; in a list that stays one of
        # Python, it is none.
        for spelling in SPELLINGS[:-2] if self.is_half else SPELLINGS:
            found = self.run(spelling, device)
            wrong = np.flatnonzero(np.abs(found - expected) > errors)
            if wrong.size:
                at = int(wrong[0])
                raise AssertionError(
                    f"{spelling}: Out[{at}] is {found[at]}, not {expected[at]}, "
                    f"from which it may be off by {errors[at]:.3g}, "
                    f"with {dict(self.sizes)}:\n{self.text(spelling)}"
                )


@dataclass
class Block(Statement):
    body: list[Statement]

    def lines(self) -> Iterator[str]:
        for statement in self.body:
            yield from statement.lines()

    def run(self, scope: Scope) -> None:
        for statement in self.body:
            statement.run(scope)


SPELLINGS = (
    "loop",
    "unrolled",
    "tile_range",
    "while",
    "while unrolled",
    "helper",
    "early returns",
    "list",
    "list unrolled",
    "one after the other",
)


def _deeper(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def defined(text: str, **names: Any) -> Any:
    """The kernel that some source defines with what names mean in it."""
    return evaluated(text, **names)["drawn"]


def evaluated(text: str, **names: Any) -> dict[str, Any]:
    """What names mean after some source has run; Python can show its lines."""
    file = f"<drawn kernel {next(_fresh)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # Else `inspect` would look for the file in all modules that there are, which takes longer than
    # most else that is done with the source.
    inspect.modulesbyfile[file] = __name__
    scope: dict[str, Any] = {**names, "iris": iris, "__name__": "drawn"}
    exec(compile(text, file, "exec"), scope)
    return scope


def kernels() -> st.SearchStrategy[Kernel]:
    """Kernels that go over rows block by block."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: Kernel(Choices(data)))
