"""A function of arrays in the making: lines of Python that NumPy and Iris take."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from iris.errors import UserError
from iris.frontend.arrays.array_function import ArrayFunction
from iris.interp import graph as interpreter
from iris.ir.control import Func
from iris.testing.choices import Choices
from iris.testing.numpy_graphs import Expected
from iris.testing.sources import defined

Array = npt.NDArray[Any]
LINES = 12
LARGE = 1e6  # a number that is left out
ELEMENTS = 400
DTYPES = ("float32", "int32", "float32", "int8", "uint8", "bool")
SHAPES = ((3, 4), (4,), (2, 3, 4), (3, 3), (4, 1), (2, 3), (5,), (1, 4), (2, 1, 3), (4, 5))
STATIC = "s"
REFUSED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


# What Iris has where NumPy has 64 bits for no need, or half of 32.
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "float16": "float32"}
WIDE = {"i": np.int64, "u": np.int64, "f": np.float64}


ROUNDED = 4  # the error of NumPy's own functions, in units in the last place


def _unit(value: Array) -> Array | float:
    """The unit in the last place of what is no whole number."""
    if value.dtype.kind != "f":
        return 0.0
    return np.where(value == np.rint(value), 0.0, np.spacing(np.abs(value)))


def set_at(x: Any, key: Any, value: Any) -> Any:
    """`x.at[key].set(value)`, which NumPy does not have."""
    if not isinstance(x, np.ndarray):
        return x.at[key].set(value)
    changed = x.copy()
    changed[key] = value
    return changed


def add_at(x: Any, key: Any, value: Any) -> Any:
    """`x.at[key].add(value)`."""
    if not isinstance(x, np.ndarray):
        return x.at[key].add(value)
    # NumPy's own ufunc.at does not survive all indices.
    places = np.arange(x.size).reshape(x.shape)[key]
    changed = x.flatten()
    added = np.broadcast_to(np.asarray(value, x.dtype), places.shape)
    np.add.at(changed, places.ravel(), added.ravel())
    return changed.reshape(x.shape)


def halves(x: Any, scale: float) -> Any:
    """Numbers of 16 bits; NumPy goes on with them in 64."""
    narrow = (x.astype(np.float32) * scale).astype(np.float16)
    return narrow.astype(np.float64) if isinstance(x, np.ndarray) else narrow


def of_halves(x: Any) -> Any:
    """A sum or a product of halves, rounded to 16 bits."""
    narrow = x.astype(np.float16) if isinstance(x, np.ndarray | np.generic) else x
    return narrow.astype(np.float32)


def whole_product(x: Any, y: Any) -> Any:
    """A product of integers, which Iris sums in 32 bits that have a sign where theirs have."""
    if not isinstance(x, np.ndarray):
        return x @ y
    wide, narrow = _SUMMED[x.dtype.kind]
    return (x.astype(wide) @ y.astype(wide)).astype(narrow)


_SUMMED = {"i": (np.int64, np.int32), "u": (np.uint64, np.uint32)}


def wide(x: Any) -> Any:
    """Factors of a product, whose integers Iris sums in 32 bits or more; NumPy does in 64."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "iu":
        return x
    return x.astype(_SUMMED[x.dtype.kind][0])


NAMES = {
    "np": np,
    "set_at": set_at,
    "add_at": add_at,
    "halves": halves,
    "of_halves": of_halves,
    "whole_product": whole_product,
    "wide": wide,
}


class Line(NamedTuple):
    text: str
    is_exact: bool = True
    any_call: bool = False  # which Iris may refuse
    is_result: bool = False  # alone: no other line is made of it


Maker: TypeAlias = "Callable[[ArrayDraft], Line]"


class ArrayDraft:
    """A function, and what it is called with."""

    makers: ClassVar[Sequence[Maker]]  # of lines
    most_lines: ClassVar[int] = LINES
    tries: ClassVar[int] = 2 * LINES

    def __init__(self, choices: Choices):
        self.choices = choices
        self.names: list[str] = []  # of the numbers that it is given, as lines have them
        self.numbers = self._numbers()  # parameters that are no arrays
        self.arguments: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        self.exact: list[str] = []
        self.results: set[str] = set()  # which no line is made of
        self.is_careful = False  # whether to take exact values alone
        self.lines: list[str] = []
        for number in range(choices.of((2, 3))):
            self.values[f"a{number}"] = self.arguments[f"a{number}"] = self._argument()
        self.exact = [*self.values]
        for _ in range(self.tries):
            if len(self.lines) < self.most_lines:
                self._try(choices.of(self.makers)(self))

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _argument(self) -> Array:
        choices = self.choices
        shape, dtype = choices.of(SHAPES), choices.of(DTYPES)
        rng = np.random.default_rng(choices.below(256))
        low, high = {"uint8": (0, 9), "bool": (0, 2)}.get(dtype, (-4, 5))
        return rng.integers(low, high, shape).astype(dtype)

    def _try(self, line: Line) -> None:
        """Add a line, if NumPy takes it."""
        try:
            made = _evaluated(line.text, {**self.numbers, **self.values})
        except REFUSED:
            return
        if isinstance(made, (tuple, list)):
            if not made:
                return
            which = self.choices.of((-1, 0, len(made) // 2))  # of several arrays
            line, made = line._replace(text=f"{line.text}[{which}]"), made[which]
        value = np.asarray(made)
        if value.size > ELEMENTS or value.ndim > 5 or value.dtype.kind not in "biuf":
            return
        if not np.all(np.abs(value.astype(np.float64)) < LARGE):
            return
        if line.any_call:
            rounded = self._rounded(line, value)
            if rounded is None or self._refuses(line):
                return
            value = rounded
        used = [known for known in self.values if known in line.text]
        if not used:  # nothing is traced
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {line.text}")
        self.values[name] = value.astype(narrow(value))
        if line.is_result:
            self.results.add(name)
        if line.is_exact and all(known in self.exact for known in used):
            self.exact.append(name)

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """Whether NumPy takes all lines for other arguments, too, and their results are small."""
        values: dict[str, Any] = dict(arguments)
        for line in self.lines:
            name, _, text = line.partition(" = ")
            value = np.asarray(_evaluated(text, values))
            if not np.all(np.abs(value.astype(np.float64)) < LARGE):
                return False
            values[name] = value.astype(narrow(value))
        return True

    def _rounding(self, name: str) -> Array | float:
        """How far results of NumPy and of Iris may be off, whole numbers too where the function
        rounds."""
        value = self.values[name]
        if name in self.exact or value.dtype.kind != "f":
            return ROUNDED * _unit(value)
        return ROUNDED * np.spacing(np.abs(value))

    def _rounded(self, line: Line, value: Array) -> Array | None:
        """What 64 bits give, rounded: NumPy's own functions of 32 bits differ between processors.
        None if this value is not rounded from that: it overflows, or has 16 bits."""
        wide = {k: x.astype(WIDE.get(x.dtype.kind, x.dtype)) for k, x in self.values.items()}
        text = line.text.replace("float32", "float64")
        own = value.astype(narrow(value))
        try:
            exact = np.asarray(_evaluated(text, {**self.numbers, **wide}))
        except REFUSED:  # to cast without a copy
            return None
        if own.shape != exact.shape or (value.dtype == np.float16 and np.any(_unit(value))):
            return None
        off = np.abs(np.subtract(own, exact, dtype=np.float64))
        return exact.astype(own.dtype) if np.all(off <= ROUNDED * _unit(own)) else None

    def _refuses(self, line: Line) -> bool:
        """Whether Iris says that it does not do what a line asks for."""
        given = {**self.values, **self.numbers}
        text = f"def drawn({', '.join(given)}):\n    return {line.text}\n"
        function = ArrayFunction(defined(text, **NAMES), static_argnames=self.static)
        try:
            function.trace(function.bind([*given.values()], {}))
        except UserError:
            return True
        return False

    @property
    def static(self) -> Sequence[str]:
        """The parameters whose values are part of the key of a trace."""
        return [name for name in self.numbers if name == STATIC]

    @property
    def returned(self) -> Sequence[str]:
        """The names that it returns: of all lines."""
        return [f"v{number}" for number in range(len(self.lines))]

    @property
    def text(self) -> str:
        """Its source."""
        body = [*self.lines, f"return ({''.join(f'{name}, ' for name in self.returned)})"]
        head = f"def drawn({', '.join([*self.arguments, *self.numbers])}):"
        return "\n".join([head, *(f"    {line}" for line in body), ""])

    def __repr__(self) -> str:
        given = "".join(f"{k} = np.{v!r}\n" for k, v in self.arguments.items())
        return f"{given}\n{self.text}"

    def check(self) -> None:
        """Assert that Iris traces a graph that returns what NumPy does."""
        function = ArrayFunction(defined(self.text, **NAMES))
        traced = function.trace(function.bind([*self.arguments.values()], {}))
        (func,) = traced.module
        assert isinstance(func, Func)
        given = [*self.arguments.values(), *traced.captured]
        found = interpreter.run(func, given)
        bounded = Expected.of_function(func, given).results
        for name, now, result in zip(self.returned, found, bounded, strict=True):
            was = self.values[name]
            is_rounded_once = name in self.exact and name in self.results
            off = 0.0 if is_rounded_once else 2 * result.errors + self._rounding(name)
            alike = now.shape == was.shape and narrow(now) == was.dtype
            if not alike or np.any(np.abs(np.subtract(now, was, dtype=np.float64)) > off):
                raise AssertionError(
                    f"{name} is\n{now} {now.dtype}\nnot {was.dtype}\n{was}\n\n{self!r}"
                )

    # Parts of lines.

    def some(self, fits: Callable[[Array], bool] = lambda x: True, *, exact: bool = False) -> str:
        """The name of a value, as often as not of a late one."""
        exact = exact or self.is_careful
        known = {n: x for n, x in self.values.items() if n not in self.results}
        names = [n for n, x in known.items() if fits(x) and (n in self.exact or not exact)]
        if not names:
            return "a0"
        return self.choices.of(names[-3:] if self.choices.flag() else names)

    def shaped(self, *, exact: bool = False) -> str:
        return self.some(lambda x: x.ndim > 0, exact=exact)

    def axis(self, x: str) -> int:
        """One of its axes, at times counted from the last."""
        rank = max(self.values[x].ndim, 1)
        return self.choices.below(rank) - rank * self.choices.flag()

    def axes(self, x: str) -> tuple[int, ...]:
        """Some of its axes in some order, mostly all."""
        rank = self.values[x].ndim
        order = sorted(range(rank), key=lambda _: self.choices.below(256))
        some = order[: max(1, rank - self.choices.of((0, 0, 1)))]
        return tuple([axis - rank * self.choices.flag(4) for axis in some])

    def number(self, dtype: np.dtype[Any]) -> str:
        """A Python number, which gives way."""
        numbers = ["2", "1", "0", "3"]
        return self.choices.of(numbers + ["0.5", "-1.5"] * (dtype.kind == "f"))

    def mask(self, shape: Sequence[int]) -> str:
        """A mask of some shape, or of some of its axes."""
        name = self.some(lambda x: x.ndim <= len(shape), exact=True)
        if self.choices.flag():
            kept = [n if self.choices.flag() else 1 for n in shape]
            flags = (np.arange(int(np.prod(kept))) % self.choices.of((2, 3)) == 0).reshape(kept)
            if self.choices.flag() and flags.ndim > 1 and len(flags):
                flags = flags[0]
            return f"np.array({flags.tolist()})"
        return f"({name} > {self.choices.of((0, -1, 1))})"

    def key(self, x: str) -> str:
        """An index, of any of the forms that there are."""
        choices, shape = self.choices, self.values[x].shape
        length = choices.of((2, 3, 1))
        front = choices.below(len(shape) + 1)
        back = choices.below(len(shape) - front + 1) if choices.flag() else 0
        is_dotted = bool(back) or choices.flag(3)
        axes = [*range(front), *range(len(shape) - back, len(shape))]
        any_new = choices.flag()
        parts: list[str] = []
        for count, axis in enumerate(axes):
            if is_dotted and count == front:
                parts.append("...")
            if any_new and choices.flag(3):
                parts.append("None")
            parts.append(self._entry(shape[axis], length))
        if is_dotted and len(axes) == front:
            parts.append("...")
        if any_new and choices.flag():
            parts.append("None")
        return ", ".join(parts) or "..."

    def _entry(self, size: int, length: int) -> str:
        choices = self.choices
        style = choices.below(8)
        if not size:
            return ":"
        if style < 2:
            places = [choices.below(2 * size) - size for _ in range(length)]
            if choices.flag(4):
                return str([[place] for place in places])
            return str(places) if choices.flag() else f"np.array({places})"
        if style == 2:
            place = self.some(lambda x: x.dtype.kind in "iu" and x.size <= 12, exact=True)
            if self.values[place].dtype.kind in "iu":
                return f"{place}.astype(np.int32) % {size} - {choices.below(2)}"
        if style == 3:
            return str(choices.below(2 * size) - size)
        if style == 4:
            return f"np.array({[choices.flag() for _ in range(size)]})"
        start, stop = (choices.of(("", "", "1", "-1", "2", "-3")) for _ in range(2))
        return f"{start}:{stop}:{choices.of(('', '', '-1', '2', '-2'))}"


def _evaluated(text: str, values: dict[str, Any]) -> Any:
    """What NumPy has for an expression."""
    with warnings.catch_warnings(), np.errstate(all="ignore", divide="raise"):
        warnings.simplefilter("ignore")
        return eval(text, NAMES, values)


def narrow(x: Array) -> np.dtype[Any]:
    """The dtype that Iris has in place of an array's."""
    return np.dtype(_NARROW.get(x.dtype.name, x.dtype))
