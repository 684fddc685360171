"""A launch as text: IR, and above it, in comments, how to launch it.

    # entry: @scale
    # grid: 4, 1, 1
    # argument %X: f32[8, 16] seed=3 range=[-4, 4]
    # argument %Y: f32[64] alias=%X at=32
    # argument %W: f16[8] data=[1.0, -0.0, nan]
    # argument %Z: f32[128]
    # argument %n: 128

    func tile @scale(%X: ptr<f32>, %Y: ptr<f32>, ...) {

- `entry` may be left out where there is one function only; each parameter needs its `argument`.
- `seed` draws numbers from a `range`: whole numbers if its ends are written as such, else any.
- `data` is repeated until the array is full; an array with neither is all zeros.
- `alias=%X at=32` lies in the memory of %X, from its element 32 on.
- Every other comment is just a comment.

A function of the graph level is called with arrays of the shapes of its parameters, and has no
grid:

    # argument %x: f32[3, 5] seed=1
    func graph @double returns=[tensor<3x5xf32>](%x: tensor<3x5xf32>) {
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ParseError, SourceSpot
from iris.interp import graph, metal, tile
from iris.interp.memory import memory_dtype
from iris.ir import literal, parse, scalar, to_text
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.ir.text.cursor import Cursor
from iris.ir.types import DTYPES, DType, Kind, Ptr, Tensor, Type

Values = npt.NDArray[Any]
Grid = tuple[int, int, int]

MOST_PROGRAMS = 2**20  # along one axis of a grid
MOST_ELEMENTS = 2**31 - 1
MOST_SEED = 2**63 - 1


def _run_graph(
    function: Func, grid: Grid, arguments: Sequence[Any], *, output: Callable[[str], object] = print
) -> list[Values]:
    """A graph has no grid, and prints nothing."""
    return graph.run(function, arguments)


INTERPRETERS: dict[Level, Callable[..., list[Values]]] = {
    Level.GRAPH: _run_graph,
    Level.TILE: tile.run,
    Level.METAL: metal.run,
}
ONE_PROGRAM: Grid = (1, 1, 1)  # what stands for the grid of what has none


@dataclass(frozen=True)
class Array:
    """How to make an array argument."""

    dtype: DType
    shape: tuple[int, ...]
    seed: int | None = None
    range: tuple[literal.Number, literal.Number] | None = None
    data: tuple[int, ...] = ()  # as bits
    alias: int | None = None  # the position of the argument in whose memory it lies,
    at: int = 0  # and where in there

    def make(self, extra_seed: int) -> Values:
        """Its values; one with an alias has none of its own."""
        size = prod(self.shape)
        bits = np.zeros(size, np.uint64)
        if self.data:
            bits = np.resize(np.array(self.data, np.uint64), size)
        values = scalar.from_bits(self.dtype, bits)
        if self.seed is not None:
            values = self._draw(np.random.default_rng(self.seed + extra_seed), size)
        if values.dtype != memory_dtype(self.dtype):
            values = scalar.to_bits(self.dtype, values)
        return values.reshape(self.shape)

    def _draw(self, rng: np.random.Generator, size: int) -> Values:
        low, high = self.range or default_range(self.dtype)
        if isinstance(low, float) or isinstance(high, float):
            return scalar.round_to(self.dtype, rng.uniform(low, high, size))
        wide = np.int64 if low < 0 else np.uint64
        numbers = rng.integers(low, high, size, wide, endpoint=True)
        if self.dtype.is_float:
            return scalar.round_to(self.dtype, numbers.astype(np.float64))
        return numbers.astype(scalar.storage(self.dtype))

    def text(self, names: Sequence[str]) -> str:
        parts = [_written(self.dtype, self.shape)]
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        if self.range is not None:
            parts.append(f"range=[{', '.join(map(str, self.range))}]")
        if self.data:
            parts.append(f"data=[{', '.join(literal.text(b, self.dtype) for b in self.data)}]")
        if self.alias is not None:
            parts.append(f"alias=%{names[self.alias]}")
        if self.at:
            parts.append(f"at={self.at}")
        return " ".join(parts)


@dataclass(frozen=True)
class Scalar:
    """A number argument, as its bits."""

    dtype: DType
    bits: int

    def text(self, names: Sequence[str]) -> str:
        return literal.text(self.bits, self.dtype)


Recipe = Array | Scalar


def _written(dtype: DType, shape: Sequence[int]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def default_range(dtype: DType) -> tuple[int, int]:
    """The range that numbers of a dtype are drawn from by default."""
    if dtype.kind is Kind.BOOL:
        return 0, 1
    return (0, 8) if dtype.kind is Kind.UNSIGNED else (-4, 4)


@dataclass(frozen=True, eq=False)
class Program:
    """A module, and how to launch a function of it."""

    module: Module
    entry: str
    grid: Grid
    arguments: tuple[Recipe, ...]

    @property
    def function(self) -> Func:
        """The launched function."""
        return _entry(self.module, self.entry)

    def with_module(self, module: Module) -> Program:
        """The same launch of another module."""
        return replace(self, module=module)

    def make_arguments(self, seed: int = 0) -> list[Any]:
        """Arguments for the interpreter, made afresh; `seed` is added to theirs."""
        made: list[Any] = []
        for recipe in self.arguments:
            if isinstance(recipe, Scalar):
                made.append(literal.decode(recipe.bits, recipe.dtype))
            elif recipe.alias is None:
                made.append(recipe.make(seed))
            else:
                size = prod(recipe.shape)
                memory = made[recipe.alias].reshape(-1)
                made.append(memory[recipe.at : recipe.at + size].reshape(recipe.shape))
        return made

    def run(self, arguments: Sequence[Any], **options: Any) -> list[Values]:
        """Runs it in the interpreter of its level, which is given the options; what it returns."""
        interpreter = INTERPRETERS[self.function.function_level]
        return interpreter(self.function, self.grid, arguments, **options)

    def launch(self, arguments: Sequence[Any]) -> list[str]:
        """Runs it; the lines it printed."""
        lines: list[str] = []
        self.run(arguments, output=lines.append)
        return lines

    def __str__(self) -> str:
        text = to_text(self.module)
        # The printer makes the names of parameters unique.
        names = [str(v.name) for v in _entry(parse(text), self.entry).body.arguments]
        lines = [f"# entry: @{self.entry}"]
        if has_grid(self.function):
            lines.append(f"# grid: {', '.join(map(str, self.grid))}")
        for name, recipe in zip(names, self.arguments, strict=True):
            lines.append(f"# argument %{name}: {recipe.text(names)}")
        return "\n".join([*lines, "", text])

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis shows of a failing test, and not the choices that it was drawn from."""
        printer.text(str(self))

    @staticmethod
    def parse(text: str, file: str = "<text>") -> Program:
        """The program that `str` gave the text of, or that somebody wrote."""
        return _Header(text, file).program()


def _entry(module: Module, symbol: str) -> Func:
    (function,) = (f for f in module if isinstance(f, Func) and f.symbol == symbol)
    return function


def has_grid(function: Func) -> bool:
    return function.function_level is not Level.GRAPH


_LINE = re.compile(r"#[ \t]*(entry|grid|argument)\b")


class _Header:
    """Reads the comments above the IR."""

    def __init__(self, text: str, file: str):
        self.text = text
        self.file = file
        self.module = parse(text, file)
        self.grid: Grid | None = None
        self.function: Func | None = None
        self.parameters: dict[str, Value] = {}
        self.recipes: dict[str, Recipe] = {}

    def program(self) -> Program:
        if not any(isinstance(f, Func) for f in self.module):
            raise ParseError("the text has no function", SourceSpot.at(self.text, 0, self.file))
        cursors: dict[str, list[Cursor]] = {"entry": [], "grid": [], "argument": []}
        for cursor in self._lines():
            word = cursor.advance()
            if word != "argument" and cursors[word]:
                raise cursor.error(f"the header has two lines for the {word}")
            cursors[word].append(cursor)
        if not any(cursors.values()):
            raise self._missing("the file does not say how to launch it")
        for cursor in cursors["entry"]:
            self._read_entry(cursor)
        function = self.function = self.function or self._only_function()
        if not has_grid(function):
            self.grid = ONE_PROGRAM
        for cursor in cursors["grid"]:
            self._read_grid(cursor, function)
        self.parameters = {str(v.name): v for v in function.body.arguments}
        for cursor in cursors["argument"]:
            self._read_argument(cursor)
        for line in cursors.values():
            for cursor in line:
                if cursor.kind != "end":
                    cursor.fail("the end of the line")
        missing = [f"%{name}" for name in self.parameters if name not in self.recipes]
        if self.grid is None or missing:
            what = "grid" if self.grid is None else f"argument {missing[0]}"
            raise self._missing(f"the header has no line for the {what}")
        arguments = tuple([self.recipes[name] for name in self.parameters])
        return Program(self.module, function.symbol, self.grid, arguments)

    def _lines(self) -> list[Cursor]:
        """A cursor for each line of the header, which sees only what is after its `#`."""
        cursors: list[Cursor] = []
        start = 0
        for line in self.text.splitlines(keepends=True):
            if line.strip() and not line.lstrip().startswith("#"):
                break
            found = _LINE.match(line)
            if found is not None:
                # Blanks before it, so that errors point into the file.
                blank = re.sub(r"[^\n]", " ", self.text[: start + found.start(1)])
                cursor = Cursor(blank + line[found.start(1) :].rstrip(), self.file)
                cursor.source = self.text
                cursors.append(cursor)
            start += len(line)
        return cursors

    def _missing(self, what: str) -> ParseError:
        function = self.function or next((f for f in self.module if isinstance(f, Func)), None)
        example = "" if function is None else f"; this would:\n{example_header(function)}"
        return ParseError(f"{what}{example}", SourceSpot.at(self.text, 0, self.file))

    def _only_function(self) -> Func:
        functions = [f for f in self.module if isinstance(f, Func)]
        if len(functions) != 1:
            raise self._missing(f"the header must name the entry: there are {len(functions)}")
        return functions[0]

    def _read_entry(self, cursor: Cursor) -> None:
        cursor.expect(":")
        functions = {f.symbol: f for f in self.module if isinstance(f, Func)}
        if cursor.kind != "symbol" or cursor.text[1:] not in functions:
            cursor.fail(" or ".join(f"@{symbol}" for symbol in functions) or "a function")
        self.function = functions[cursor.symbol()]

    def _read_grid(self, cursor: Cursor, function: Func) -> None:
        if not has_grid(function):
            raise cursor.error(f"@{function.symbol} is a graph, which has no grid")
        cursor.expect(":")
        start = cursor.offset
        sizes = [cursor.integer(1, MOST_PROGRAMS, "a number of programs")]
        while len(sizes) < 3 and cursor.accept(","):
            sizes.append(cursor.integer(1, MOST_PROGRAMS, "a number of programs"))
        x, y, z = (*sizes, 1, 1)[:3]
        self.grid = x, y, z
        if function.grid not in ((), self.grid):
            fixed = ", ".join(map(str, function.grid))
            raise cursor.error_at(start, f"the grid of @{function.symbol} is {fixed}")

    def _read_argument(self, cursor: Cursor) -> None:
        name = cursor.text[1:]
        if cursor.kind != "value" or name not in self.parameters:
            known = ", ".join(f"%{name}" for name in self.parameters) or "none"
            cursor.fail(f"a parameter of the entry ({known})")
        if name in self.recipes:
            raise cursor.error(f"%{name} has two lines")
        cursor.advance()
        cursor.expect(":")
        type_ = self.parameters[name].type
        if isinstance(type_, Ptr):
            self.recipes[name] = self._read_array(cursor, type_.element)
        elif isinstance(type_, Tensor):
            self.recipes[name] = self._read_array(cursor, type_.element, type_.shape)
        elif isinstance(type_, DType):
            self.recipes[name] = Scalar(type_, cursor.number(type_))
        else:
            raise cursor.error(f"%{name} is a {type_}; arguments are arrays and numbers")

    def _read_array(
        self, cursor: Cursor, element: DType, shape: tuple[int, ...] | None = None
    ) -> Array:
        """An array, of the shape that it must have, if there is one."""
        # `[8]` and `f32` are two tokens, so that `f32[8]` reads as a type and a list.
        such = _written(element, (64,) if shape is None else shape)
        if cursor.text != element.name:
            cursor.fail(f"an array, such as {such}", DTYPES)
        start = cursor.offset
        cursor.advance()
        sizes = cursor.listed("[", "]", lambda: cursor.integer(0, MOST_ELEMENTS, "a size"))
        array = Array(element, tuple(sizes))
        if shape is not None and array.shape != shape:
            raise cursor.error_at(start, f"the array must be {such}")
        if prod(sizes) > MOST_ELEMENTS:
            raise cursor.error(f"an array has at most {MOST_ELEMENTS} elements")
        readers: dict[str, Callable[[Cursor, Array], Array]] = {
            "seed": _read_seed,
            "range": _read_range,
            "data": _read_data,
            "alias": self._read_alias,
            "at": self._read_at,
        }
        seen: set[str] = set()
        while cursor.kind != "end":
            reader = readers.get(cursor.text)
            if reader is None:
                cursor.fail(f"one of {', '.join(readers)}")
            word = cursor.text
            clash = _CLASHES.get(word, {word}) & seen
            if clash:
                raise cursor.error(f"{word} does not go with {min(clash)}")
            if word in _NEEDS and _NEEDS[word] not in seen:
                raise cursor.error(f"{word} goes after {_NEEDS[word]}")
            seen.add(cursor.advance())
            cursor.expect("=")
            array = reader(cursor, array)
        return array

    def _read_alias(self, cursor: Cursor, array: Array) -> Array:
        name = cursor.text[1:]
        other = self.recipes.get(name)
        if cursor.kind != "value" or not isinstance(other, Array):
            cursor.fail("an array that has a line above")
        if other.dtype is not array.dtype or other.alias is not None:
            raise cursor.error(f"%{name} must be {array.dtype}, without an alias of its own")
        self._check_inside(cursor, array, other)
        cursor.advance()
        return replace(array, alias=list(self.parameters).index(name))

    def _read_at(self, cursor: Cursor, array: Array) -> Array:
        assert array.alias is not None, "`at` is read before `alias`"
        other = self.recipes[list(self.parameters)[array.alias]]
        assert isinstance(other, Array), f"argument {array.alias} shares no memory: it is no array"
        array = replace(array, at=cursor.integer(0, MOST_ELEMENTS))
        self._check_inside(cursor, array, other)
        return array

    def _check_inside(self, cursor: Cursor, array: Array, other: Array) -> None:
        end, size = array.at + prod(array.shape), prod(other.shape)
        if end > size:
            raise cursor.error(f"{end} elements do not lie in {size}")


_CLASHES = {
    "seed": {"seed", "data", "alias"},
    "data": {"data", "seed", "alias"},
    "alias": {"alias", "seed", "data"},
}
_NEEDS = {"range": "seed", "at": "alias"}


def _read_seed(cursor: Cursor, array: Array) -> Array:
    return replace(array, seed=cursor.integer(0, MOST_SEED, "a seed"))


def _read_range(cursor: Cursor, array: Array) -> Array:
    start = cursor.offset
    ends = cursor.listed("[", "]", lambda: _read_end(cursor, array.dtype))
    if len(ends) != 2 or not -inf < ends[0] <= ends[1] < inf:
        raise cursor.error_at(start, "a range is its least and its greatest number")
    return replace(array, range=(ends[0], ends[1]))


def _read_end(cursor: Cursor, dtype: DType) -> literal.Number:
    if cursor.text.lstrip("-").isdigit():
        least, most = (-(2**15), 2**15) if dtype.is_float else (dtype.low, dtype.high)
        return cursor.integer(least, most)
    if not dtype.is_float:
        cursor.fail("a whole number")
    return float(literal.decode(cursor.number(dtype), dtype))


def _read_data(cursor: Cursor, array: Array) -> Array:
    start = cursor.offset
    data = cursor.listed("[", "]", lambda: cursor.number(array.dtype))
    if not data:
        raise cursor.error_at(start, "data is at least one number")
    return replace(array, data=tuple(data))


def example_header(function: Func) -> str:
    """A header that would do for a function, to be edited."""
    lines = [f"# entry: @{function.symbol}"]
    if has_grid(function):
        lines.append("# grid: 1, 1, 1")
    for parameter in function.body.arguments:
        lines.append(f"# argument %{parameter.name}: {_example(parameter.type)}")
    return "\n".join(lines)


def _example(type_: Type) -> str:
    if isinstance(type_, Ptr | Tensor):
        low, high = default_range(type_.element)
        shape = type_.shape if isinstance(type_, Tensor) else (64,)
        return f"{_written(type_.element, shape)} seed=0 range=[{low}, {high}]"
    if isinstance(type_, DType):
        return literal.text(literal.encode(1, type_), type_)
    return str(type_)
