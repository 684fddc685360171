"""Functions of elements, each at every pair of the numbers at which things go wrong; and functions
along an axis, each of lines with every such number.

    @given(sweeps.sweeps())
    def test_elements(sweep):
        sweep.check()

A sweep calls some of NumPy's functions with arrays of each dtype in which every special number
meets every other one: zeros of two signs, infinities, nan, limits, and numbers beside them.  At
times the other is an array of another dtype, or a Python number.  What goes along an axis is given
lines of numbers that hide nothing, with a special number at one place, at several or at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.testing.array_probe import DTYPES, ends
from iris.testing.array_probes import adds_up, tells_signs
from iris.testing.choices import Choices
from iris.testing.numpy_calls import Callee, callees, is_along_axis, is_elementwise
from iris.testing.numpy_expressions import Expression, by_numpy

Array = npt.NDArray[Any]
BYTES = 48
TOGETHER = 10  # functions of a sweep
_FLOATS = (0.0, 1.0, 0.5, 2.5, 3.0, 30.0, np.inf)
# By negative numbers they are what C makes of them.
_BY_POSITIVE = ("np.left_shift", "np.right_shift")


class Pair(NamedTuple):
    """A function, and what it is called with: arrays of two dtypes, or one and a Python number."""

    callee: Callee
    dtypes: tuple[str, str]
    number: str = ""  # in place of the second array
    is_first: bool = False  # whether the number comes first

    @property
    def expression(self) -> Expression:
        """The call, with every pair of special numbers that NumPy takes."""
        first, second = map(special, self.dtypes)
        given: dict[str, Array] = {"a0": first}
        names = ["a0"]
        if self.number:
            names = ["a0", self.number][:: -1 if self.is_first else 1]
        elif len(self.callee.required) == 2:
            if self.callee.text in _BY_POSITIVE:
                second = second[second >= 0]
            given = {"a0": np.repeat(first, len(second)), "a1": np.tile(second, len(first))}
            names = ["a0", "a1"]
        text = f"{self.callee.text}({', '.join(names)})"
        signs = tells_signs(self.callee)
        return Expression(text, _taken(text, given), tells_signs=signs)


class Along(NamedTuple):
    """A function along an axis, of lines of a dtype."""

    callee: Callee
    dtype: str
    options: str

    @property
    def expression(self) -> Expression:
        text = f"{self.callee.text}(a0{self.options})"
        given = {"a0": lines(self.dtype)}
        return Expression(text, given, adds_up(self.callee), tells_signs(self.callee))


def _taken(text: str, given: Mapping[str, Array]) -> dict[str, Array]:
    """The elements of arguments that NumPy takes: of whole numbers it refuses some."""
    if by_numpy(text, given) is not None:
        return dict(given)
    parts = [{k: x[i : i + 1] for k, x in given.items()} for i in range(len(given["a0"]))]
    kept = [by_numpy(text, part) is not None for part in parts]
    return {k: x[kept] for k, x in given.items()}


@cache
def special(dtype: str) -> Array:
    """The numbers of a dtype at which things go wrong, each once."""
    known = np.dtype(dtype)
    if known.kind == "b":
        return np.array([False, True])
    if known.kind != "f":
        low, high, *others = ends(known)
        middle = high // 2
        numbers = {low, high, *others, low + 1, high - 1, middle, middle + 1, 3, 7, max(low, -2)}
        return np.array(sorted(numbers), known)
    limits = np.finfo(known)
    extremes = limits.max, limits.tiny, limits.smallest_subnormal
    positive = np.array([*_FLOATS, *extremes], known)
    return np.concatenate([positive, -positive, np.array([np.nan, 1 + limits.eps], known)])


@cache
def lines(dtype: str) -> Array:
    """Lines of four numbers of a dtype, with each special number."""
    made = [line for x in special(dtype) for line in ((x, 2, 3, 1), (2, x, x, 1), (x, x, x, x))]
    return np.array(made, dtype)


@cache
def _numbers(dtype: str) -> Sequence[str]:
    """Python numbers.  A float of 32 bits holds all of them, in which some functions compute."""
    numbers = special(dtype).tolist()
    if special(dtype).dtype.kind in "iu":  # it is compared with numbers beyond its ends, too
        low, high = min(numbers), max(numbers)
        numbers += [low - 1, 2 * low - 2, high + 1, 300 * high]
    with np.errstate(over="ignore"):
        texts = {str(x) for x in numbers if x != x or float(np.float32(x)) == x}
    return sorted(text.replace("inf", "np.inf").replace("nan", "np.nan") for text in texts)


@cache
def functions() -> Sequence[Callee]:
    """Those that make each element of one or two, and those that go along an axis."""
    others, ufuncs, methods = callees()
    of_elements = [f for f in (*ufuncs, *others) if is_elementwise(f)]
    return [*of_elements, *[f for f in (*others, *methods) if is_along_axis(f)]]


@cache
def _error(pair: Pair | Along) -> AssertionError | None:
    """What is wrong with a call, which is the same each time."""
    try:
        pair.expression.check()
    except AssertionError as error:
        return error
    return None


@dataclass
class Sweep:
    """Some functions; the first call that is wrong is shown."""

    data: bytes
    shown: str = field(default="", init=False)

    def check(self) -> None:
        """Assert that Iris returns for each what NumPy does."""
        choices = Choices(self.data)
        for _ in range(TOGETHER):
            for pair in _pairs(choices.of(functions()), choices):
                error = _error(pair)
                if error is not None:
                    self.shown = repr(pair.expression)
                    raise error

    def __repr__(self) -> str:
        return self.shown


def _pairs(callee: Callee, choices: Choices) -> Iterator[Pair | Along]:
    """A function of each dtype alone, and of one of them with something else."""
    if is_along_axis(callee):
        keeps = ["", ", keepdims=True"][: 1 + ("keepdims" in callee.options)]
        options = f", axis={choices.of((1, -1))}{choices.of(keeps)}"
        for dtype in dict.fromkeys(DTYPES):
            yield Along(callee, dtype, options)
        return
    for dtype in dict.fromkeys(DTYPES):
        yield Pair(callee, (dtype, dtype))
    if len(callee.required) == 2:
        dtype = choices.of(DTYPES)
        yield Pair(callee, (dtype, dtype), choices.of(_numbers(dtype)), choices.flag())
        yield Pair(callee, (dtype, choices.of(DTYPES)))
        # No dtype of integers holds both.
        pair = ("uint64", choices.of(("int64", "int8", "int32")))[:: choices.of((1, -1))]
        yield Pair(callee, (pair[0], pair[1]))


def sweeps() -> st.SearchStrategy[Sweep]:
    """Several functions at once."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(Sweep)
