"""One expression of NumPy's functions, with arguments at which things go wrong.

What is drawn is in `array_probes`, and in `numpy_forms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.testing.array_draft import ArrayDraft, Line
from iris.testing.choices import Choices
from iris.testing.numpy_expressions import Expression, by_numpy

Array = npt.NDArray[Any]
BYTES = 40  # of an expression

_INTEGERS = ("int32", "int8", "uint8", "int16", "uint32", "int64", "uint64", "uint16")
DTYPES = ("float32", "float16", *_INTEGERS[:3], "float32", "float16", *_INTEGERS[3:], "bool")
_SHAPES = ((3, 4), (5,), (3, 3), (2, 3, 4), (1, 5), (4, 1), (7,), (2, 3, 3), (1,), (0, 3), (2, 0))
_OTHERS = np.array([1, 2, 3, -1, -2, -3])
FLOATS = (0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), float("-inf"), 2.5, 300.0, -6e4, 1e-4)


class ArrayProbe(ArrayDraft):
    """An expression, and its arguments; lines that NumPy refuses are left out."""

    adds: bool  # numbers of 16 bits in 32
    tells_signs: bool  # of zeros
    must_take: bool  # what NumPy does; else Iris may refuse it
    must_refuse: bool  # what NumPy refuses
    is_exact: bool  # rounded once, if at all

    most_lines = 1
    tries = 3

    def __init__(self, data: bytes):
        choices = Choices(data)
        self.shape = choices.of(_SHAPES)
        self.dtype = choices.of(DTYPES)
        self._forget()
        super().__init__(choices)
        text = self.lines[-1].partition(" = ")[2] if self.lines else ""
        arguments = {k: x for k, x in self.arguments.items() if k in text}
        self.expression = Expression(
            text, arguments, self.adds, self.tells_signs, self.must_take, self.is_exact
        )

    def _argument(self) -> Array:
        choices = self.choices
        size = self.shape[-1]
        ones = tuple([n if choices.flag() else 1 for n in self.shape])
        shape = choices.of((self.shape, self.shape, (size,), ones, choices.of(_SHAPES)))
        dtype = np.dtype(self.dtype if choices.flag() else choices.of(DTYPES))
        rng = np.random.default_rng(choices.below(256))
        if not self.arguments:
            shape, dtype = self.shape, np.dtype(self.dtype)
        style = choices.below(4)
        if dtype.kind == "b" or style == 0:
            low, high = {"u": (0, 9), "b": (0, 2)}.get(dtype.kind, (-4, 5))
            return rng.integers(low, high, shape).astype(dtype)
        numbers = FLOATS if dtype.kind == "f" else ends(dtype)
        if style < 3:
            return self._among_others(rng, np.array(numbers, dtype), shape)
        some = [choices.of(numbers) for _ in range(choices.of((9, 2, 9, 1)))]
        return np.array(some, dtype)[rng.integers(0, len(some), shape)]

    def _among_others(
        self, rng: np.random.Generator, special: Array, shape: tuple[int, ...]
    ) -> Array:
        """Special numbers at few places, all of one kind or of any, with numbers beside them that
        hide nothing: no zeros, and none so great that a sum or a product of all is infinite."""
        others = _OTHERS[: 3 if special.dtype.kind == "u" else 6].astype(special.dtype)
        if self.choices.flag():
            special = special[[self.choices.below(len(special))]]
        is_special = rng.random(shape) * max(1, *shape) < self.choices.of((1, 1, 2))
        some, any_other = (x[rng.integers(0, len(x), shape)] for x in (special, others))
        return np.where(is_special, some, any_other)

    def _try(self, line: Line) -> None:
        if self.must_refuse or self.is_taken(line):
            self.lines.append(f"v0 = {line.text}")
        else:
            self._forget()

    def _forget(self) -> None:
        """Forget what a line that is left out asked for."""
        self.adds = self.tells_signs = self.must_take = False
        self.must_refuse = self.is_exact = False

    def is_taken(self, line: Line) -> bool:
        """Whether NumPy takes an expression of some argument, if it has no index outside."""
        given = {k: x for k, x in self.arguments.items() if k in line.text}
        try:
            return bool(given) and by_numpy(line.text, given) is not None
        except IndexError:
            return True

    def number(self, dtype: np.dtype[Any]) -> str:
        """A Python number, at times one that a dtype just holds, or does not."""
        if self.choices.flag(3):
            return super().number(dtype)
        if dtype.kind == "f":
            return self.choices.of(("-0.0", "np.inf", "np.nan", "-1.5", "6e4"))
        numbers = [int(n) for n in ends(np.dtype(np.uint8) if dtype.kind == "b" else dtype)]
        return str(self.choices.of([*numbers, *numbers, numbers[1] + 1, numbers[0] - 1]))


def ends(dtype: np.dtype[Any]) -> Sequence[int]:
    known = np.iinfo(dtype)
    return (known.min, known.max, 1, 0, max(known.min, -1), known.bits, known.bits - 1, 2)
