"""A kernel of the tile language that is drawn line by line: what it has so far, and the parts that
lines are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.ir.scalar import storage
from iris.ir.types import DTYPES, DType, bool_
from iris.testing.choices import Choices
from iris.testing.plain_blocks import TritonWords
from iris.testing.plain_formulas import Near, rounded
from iris.testing.plain_libdevice import Libdevice
from iris.testing.plain_tiles import Plain, PlainPointer, Refused
from iris.testing.plain_words import Words

Array = npt.NDArray[Any]
LINES = 11
_TRIES = 30
_FINEST, _LARGEST = 16, 2048  # floats are multiples of 1 / 16 below 2048: sums of them are exact
_DIGITS = 1 << 12
WITH_ARRAYS = ("i32", "f32", "u8", "u32", "i8", "f16", "bool", "i64", "i16", "u16", "u64")
_FLOATS = ("f32", "f16", "bf16")
_ALL = (*WITH_ARRAYS, "bf16")
SHAPES = ((8,), (4, 4), (2, 4), (4,), (4, 2), (2, 2, 4), (1, 4), (2, 4, 2), (4, 1), (16,), ())
_MATRICES = ((16, 5), (4, 16), (16, 16), (3, 8), (5, 7), (2, 4, 8))
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0)
# A grid, and one of its programs, which does all that the kernel does.
_GRIDS: tuple[tuple[Any, tuple[int, int, int]], ...] = (
    ((2, 3), (1, 2, 0)),
    (3, (2, 0, 0)),
    ((2, 1, 3), (1, 0, 2)),
    ([3, 2], (0, 1, 0)),
    ((1, 2, 2), (0, 1, 1)),
)
# What is called otherwise in Triton.
_SPELLED = {
    "iris.transpose": "iris.permute",
    "iris.tile_range": "iris.range",
    "atomic_exchange": "atomic_xchg",
    "keepdims": "keep_dims",
}
_REFUSED = (Refused, IndexError, OverflowError, TypeError, ValueError)


class Line(NamedTuple):
    """The text of a line, and the expression that gives what it assigns."""

    text: str  # `{0}` is the variable
    meaning: str
    is_rounded_once: bool = False  # so that it has the same bits on every device


def assigned(expression: str, meaning: str = "", is_rounded_once: bool = False) -> Line:
    return Line(f"{{0}} = {expression}", meaning or expression, is_rounded_once)


class TileDraft:
    """A kernel, and what it is called with."""

    # What draws lines of a kernel of Iris, and of one of Triton.
    makers: Sequence[Callable[[Any], Line]]
    makers_of_triton: Sequence[Callable[[Any], Line]]

    def __init__(self, choices: Choices):
        self.choices = choices
        self.is_triton = choices.flag(3)
        # Few, so that they meet.  Triton has other rules for bf16.
        known = WITH_ARRAYS if self.is_triton else choices.of((_ALL, _ALL, _FLOATS))
        self.dtypes = [choices.of(known) for _ in range(4)]
        self.arrays: dict[str, Array] = {}
        self.given: dict[str, Array] = {}  # the same, as they were
        self.sizes = {"n": choices.below(4), "m": choices.of((1, 2, 3, 5, -1, -2))}
        self.values: dict[str, Plain] = {}
        self.near: dict[str, Near] = {}  # which no line uses, as they are not exact
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"iris": Words}
        if self.is_triton:
            self.scope = {"iris": TritonWords, "libdevice": Libdevice}
        is_grid = not self.is_triton and choices.flag(5)
        self.grid: Any = 1
        self.program = 0, 0, 0
        if is_grid:
            self.grid, self.program = choices.of(_GRIDS)
        for name, number in self.sizes.items():
            self.values[name] = Plain(number, DTYPES["i32"])
        for number in range(choices.of((3, 2))):
            self._load(f"A{number}")
        self.array("B", choices.of(_MATRICES))
        self.array("W", (16,), choices.of(("i32", "u32", "i32", "u32", "f32")))
        for _ in range(_TRIES):
            if len(self.lines) < LINES:
                self._try(choices.of(self.makers_of_triton if self.is_triton else self.makers))

    def _load(self, name: str) -> None:
        """A line that loads an array, in Iris some without the lanes that a mask leaves out."""
        shape, dtype = self.choices.of(SHAPES), self.choices.of(self.dtypes)
        held = dtype if dtype in WITH_ARRAYS else "f32"  # NumPy has no bf16
        self.array(name, (prod(shape),), held)
        mask = ""
        if shape and self.choices.flag(3) and not self.is_triton:
            mask = f", mask={self.covered(shape)}"
        converted = "" if dtype == held else f".to(iris.{dtype})"
        loaded = assigned(f"iris.load({name}{self.lanes(shape)}{mask}){converted}")
        self._try(lambda _: loaded)

    def array(self, name: str, shape: tuple[int, ...], dtype: str = "") -> None:
        """An array of random numbers, if there is none of that name."""
        held = DTYPES[dtype or self.choices.of(WITH_ARRAYS)]
        rng = np.random.default_rng(self.choices.below(256))
        if held.is_integer and self.choices.flag():  # whose sums overflow
            data = rng.integers(held.low, held.high, shape, storage(held), endpoint=True)
        elif held.is_float and self.choices.flag(4):  # of more digits than f16 and tf32 have
            data = rng.integers(-_DIGITS, _DIGITS, shape) / _FINEST
        elif held.is_float and self.choices.flag(4):
            data = rng.choice(_SPECIAL, shape)
        else:
            low, high = (0, 9) if held.low == 0 else (-4, 5)
            data = rng.integers(low, 2 if held is bool_ else high, shape)
        self.add(name, data.astype(storage(held)), held)

    def add(self, name: str, data: Array, dtype: DType) -> None:
        """One more argument."""
        self.given[name], self.arrays[name] = data, data.copy()
        self.scope[name] = PlainPointer(self.arrays[name], dtype)

    def _try(self, maker: Callable[[Any], Line]) -> None:
        """Add a line, if the language takes it; no other uses a result that is not exact."""
        before = {name: array.copy() for name, array in self.arrays.items()}
        try:
            line = maker(self)
            with np.errstate(all="ignore"):
                value = eval(line.meaning, {**self.scope, **self.values})
        except _REFUSED:
            value = None
        name = f"v{len(self.lines)}"
        if isinstance(value, Plain) and is_exact(value):
            self.values[name] = value
        elif isinstance(value, Plain) and line.is_rounded_once:
            self.near[name] = rounded(value)
        elif isinstance(value, Near):
            self.near[name] = value
        else:
            for array_name, array in before.items():
                self.arrays[array_name][...] = array
            return
        text = line.text.format(name)
        for word, other in _SPELLED.items() if self.is_triton else ():
            text = text.replace(word, other)
        self.lines.append(text)

    @property
    def results(self) -> dict[str, Plain | Near]:
        every: dict[str, Plain | Near] = {**self.values, **self.near}
        return {name: x for name, x in every.items() if name not in self.sizes}

    @property
    def text(self) -> str:
        """Its source."""
        results = self.results
        names = [*self.arrays, *[f"Out{n}" for n in range(len(results))], *self.sizes]
        body = "\n".join(self.lines).splitlines()
        if self.grid != 1:
            other = [f"(iris.program_id({n}) != {at})" for n, at in enumerate(self.program)]
            body = [f"if {' | '.join(other)}:", "    return", *body]
        for number, (name, value) in enumerate(results.items()):
            body.append(f"keep(Out{number}, {name}, iris.{written(value.dtype)}, {value.shape})")
        return "\n".join([f"def drawn({', '.join(names)}):", *[f"    {x}" for x in body], ""])

    # Parts of lines.

    def some(self, fits: Callable[[Plain], bool] = lambda x: True) -> str:
        """The name of a value, as often as not of a late one; or a number."""
        names = [name for name, x in self.values.items() if fits(x)]
        if not names:
            raise Refused("nothing that fits")
        return self.choices.of(names[-3:] if self.choices.flag() else names)

    def shaped(self) -> str:
        return self.some(lambda x: bool(x.shape))

    def ranked(self) -> str:
        """One with axes, as often as not with several: one of these may be taken for another."""
        several = self.choices.flag() and any(x.data.ndim > 1 for x in self.values.values())
        return self.some(lambda x: x.data.ndim > several)

    def scalar(self) -> str:
        """One that counts: what does not is no condition and no bound."""
        return self.some(lambda x: not x.shape and x.is_whole)

    def integer(self) -> str:
        return self.some(lambda x: x.dtype.is_integer)

    def number(self) -> str:
        numbers = ("2", "1", "3", "0", "0.5", "-1", "-1.5", "True", "-0.0", "7", "200")
        return self.choices.of((*numbers, "1e6", "3000000000"))

    def operand(self, beside: str = "") -> str:
        """A value, a number, or a value in another shape or dtype: mostly one that fits beside
        another."""
        style = self.choices.below(8)
        if style < 4:
            shape = self.values[beside].shape if beside else ()
            return self.some(lambda x: _meet(x.shape, shape))
        if style == 4:
            return self.number()
        if style == 5:
            return self.indexed(self.shaped())
        return f"{self.some()}.to({self.dtype()})" if style == 6 else self.scalar()

    def dtype(self) -> str:
        dtype = self.choices.of(self.dtypes)
        if self.choices.flag(8) and not self.is_triton:
            return f'"{dtype}"'
        return f"iris.{written(DTYPES[dtype])}"

    def axis(self, x: str) -> int:
        """One of its axes, at times counted from the last."""
        rank = max(self.values[x].data.ndim, 1)
        return self.choices.below(rank) - rank * self.choices.flag()

    def place(self, word: str, axis: int) -> int:
        """Which program this is, or how many there are, along an axis."""
        grid = self.grid if isinstance(self.grid, (tuple, list)) else (self.grid,)
        return self.program[axis] if word == "program_id" else (*grid, 1, 1)[axis]

    def indexed(self, x: str) -> str:
        """A value with a new axis."""
        keys = (
            "None, :",
            ":, None",
            "None, ...",
            "..., None",
            "None",
            ":, None, :",
            ":, ..., None",
        )
        return f"{x}[{self.choices.of(keys)}]"

    def condition(self) -> str:
        """Whether two values compare, or are not 0."""
        word = self.choices.of(("<", "<=", ">", ">=", "==", "!="))
        x = self.some()
        pair = [x, self.operand(x)]
        if self.choices.flag(3):
            pair.reverse()
        return f"({pair[0]} {word} {pair[1]})"

    def truth(self) -> str:
        """A scalar condition."""
        word = self.choices.of(("<", "<=", ">", ">=", "==", "!="))
        x = self.scalar()
        return f"({x} {word} {self.choices.of((self.scalar(), self.number()))})"

    def lanes(self, shape: tuple[int, ...]) -> str:
        """The offsets of a tile, to be added to a pointer."""
        if not shape:
            return ""
        lanes = f"iris.arange(0, {prod(shape)})"
        return f" + {lanes}" if len(shape) == 1 else f" + iris.reshape({lanes}, {shape})"

    def covered(self, shape: tuple[int, ...]) -> str:
        """A mask of lanes: the first ones, the last ones, or some of all."""
        lanes = self.lanes(shape).removeprefix(" + ")
        forms = (f"< {prod(shape) - 1}", "< n", f"< {prod(shape) // 2}", "% 3 != 1", ">= n")
        return f"({lanes} {self.choices.of(forms)})"


def _meet(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes have a common one."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)


def is_exact(value: Plain) -> bool:
    """Whether whatever is made of a value in any order is exact: infinities and nan are."""
    if not value.dtype.is_float:
        return True
    with np.errstate(all="ignore"):
        data = value.data[np.isfinite(value.data)].astype(np.float64) * _FINEST
    return bool(np.all((np.abs(data) < _LARGEST * _FINEST) & (data == np.rint(data))))


def written(dtype: DType) -> str:
    return "bool_" if dtype is bool_ else str(dtype)
