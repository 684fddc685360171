"""Expressions of arrays that Iris must compute as NumPy does.

Expression("np.sign(a0)", {"a0": x}, tells_signs=True).check()
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import iris
from iris.errors import ProgramError, ShapeError, UserError
from iris.frontend.arrays.array_function import ArrayFunction
from iris.interp import graph as interpreter
from iris.ir.control import Func
from iris.testing.array_draft import NAMES as _DRAFT_NAMES
from iris.testing.array_draft import REFUSED, ROUNDED
from iris.testing.numpy_graphs import Expected
from iris.testing.sources import defined

Array = npt.NDArray[Any]
MOST = 600  # elements of a result
# What Iris has where NumPy has 64 bits.
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}
# Where factors are 0, what BLAS multiplies with them may be left out.
_PRODUCTS = tuple(
    f"np.{name}"
    for name in (
        *("matmul", "dot", "inner", "vdot", "tensordot", "outer", "einsum", "linalg.", "kron"),
        *("vecdot", "matvec", "vecmat", "convolve"),
    )
)
# They are for fewer shapes than NumPy's.
_OF_FEWER_SHAPES = ("np.polyval", "np.cross", "np.convolve", "np.trapezoid", "np.linalg.norm")


def in_bf16(x: Any, operator: str, number: float) -> Any:
    """What an operator gives for numbers of bf16, which NumPy does not have."""
    function: Callable[[Any, Any], Any] = getattr(np, operator)
    if not isinstance(x, np.ndarray):
        return function(x.astype(iris.bf16), number).astype(np.float32)
    return _nearest_bf16(function(_nearest_bf16(x), _nearest_bf16(np.asarray(number))))


def _nearest_bf16(x: Array) -> Array:
    """Numbers rounded to 8 bits, once, to even if it is a tie."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.asarray(np.ldexp(np.rint(fraction * 256.0), exponent - 8))


def in_place(view: Callable[[Any], Any], x: Any) -> Any:
    """An array and a view of it, after the view is changed; the view may be a copy."""
    own = x * 1
    part = view(own)
    part += 1
    return own, part


def changed(change: Callable[[Any], Any], x: Any) -> Any:
    """An array after it is changed in place, and twice that."""
    own = x * 1
    found = change(own)
    return own if found is None else found, (own if found is None else found) * 1


def written(call: Callable[[Any], Any], x: Any) -> Any:
    """An array that a call is given as its `out=`."""
    own = x * 1
    call(own)
    return own * 1


def meanwhile(x: Any, table: Array) -> Any:
    """An array combined with another one that the function changes between."""
    y = x + table
    table[...] = table[::-1] * 2
    return y * table


NAMES = {
    **_DRAFT_NAMES,
    "changed": changed,
    "in_bf16": in_bf16,
    "in_place": in_place,
    "meanwhile": meanwhile,
    "operator": operator,
    "written": written,
}


@dataclass(frozen=True)
class Expression:
    """An expression of arguments."""

    text: str
    arguments: Mapping[str, Array]
    adds: bool = False  # numbers of 16 bits in 32
    tells_signs: bool = False  # of zeros
    must_take: bool = False  # where NumPy does
    is_exact: bool = False  # rounded once, if at all

    @property
    def source(self) -> str:
        """A function that returns it."""
        return f"def drawn({', '.join(self.arguments)}):\n    return ({self.text}, )\n"

    def __repr__(self) -> str:
        given = "".join(f"{k} = np.{v!r}\n" for k, v in self.arguments.items())
        return f"{given}\n{self.source}"

    def check(self) -> None:
        """Assert that Iris, if it takes the expression, returns what NumPy does; where that finds
        an index outside of its axis, so does Iris."""
        try:
            expected = by_numpy(self.text, self.arguments)
        except IndexError as error:
            self._fails(error)
            return
        # The squares of integers of 64 bits are infinite in floats of 32.
        if expected is None or (
            self.adds and any(x.itemsize == 8 for x in self.arguments.values())
        ):
            return
        dtypes = [x.dtype for x in self.arguments.values()]
        has_floats = "float" in self.text or any(dtype.kind == "f" for dtype in dtypes)
        function = ArrayFunction(defined(self.source, **NAMES))
        try:
            traced = function.trace(function.bind([*self.arguments.values()], {}))
        except UserError as error:
            # That Iris lacks something is no error of shapes, which NumPy takes.
            is_wrong = isinstance(error, ShapeError) and not self.text.startswith(_OF_FEWER_SHAPES)
            if self.must_take or is_wrong:
                raise
            return
        (func,) = traced.module
        assert isinstance(func, Func)
        given = [*self.arguments.values(), *traced.captured]
        try:
            returned = interpreter.run(func, given)
        except ProgramError:
            if has_floats and ("int" in self.text or self.text.startswith("np.full_like")):
                return  # which may not hold a float
            raise
        for was, now in zip(expected, returned, strict=True):
            may_be = self._may_be(now.dtype, was.dtype)
            assert now.shape == was.shape and may_be, self._shown(now, was)
        # NumPy adds floats in their own dtype.
        is_rough = self.adds and not self.is_exact and any(x.kind == "f" for x in dtypes)
        if not is_rough and all(map(self._is_same, returned, expected)):
            return
        assert not self.is_exact, self._shown(returned[0], expected[0])
        in_halves = np.float16 in dtypes and "float32" not in f"{self.text}{dtypes}"
        widened = _widened(self.arguments, in_halves)
        wide = by_numpy(_in_wide(self.text), widened) or expected
        if is_rough and all(map(self._is_same, returned, wide)):
            return
        bounded = Expected.of_function(func, given).results
        for was, exact, now, result in zip(expected, wide, returned, bounded, strict=True):
            is_whole = now.dtype.kind != "f"
            # NumPy rounds sums of 16 bits at each step.
            is_worse = is_rough and not is_whole and in_halves
            correct = [exact] if is_worse else [exact, was]
            if exact.shape != was.shape or (is_whole and not has_floats):
                correct = [was]
            with np.errstate(all="ignore"):
                near = [_is_near(now, x.astype(now.dtype), result.errors) for x in correct]
                is_infinite = self.adds and self._greatest_product() > _most(now.dtype)
            assert np.all(np.any(near, axis=0) | (is_infinite & np.isnan(now))), self._shown(
                now, was
            )
            if self.tells_signs and now.dtype.kind == "f":
                signs = [np.signbit(now) == np.signbit(x) for x in correct]
                assert np.all((now != 0) | np.any(signs, axis=0)), self._shown(now, was)

    def _is_same(self, now: Array, was: Array) -> bool:
        """Whether nothing is rounded: then no error needs to be known."""
        with np.errstate(all="ignore"):
            was = was.astype(now.dtype)
        same = now.shape == was.shape and np.array_equal(now, was, equal_nan=now.dtype.kind == "f")
        return same and not (self.tells_signs and np.any(np.signbit(now) != np.signbit(was)))

    def _fails(self, error: IndexError) -> None:
        """Assert that it is an error, of Python or of the program."""
        function = ArrayFunction(defined(self.source, **NAMES))
        try:
            traced = function.trace(function.bind([*self.arguments.values()], {}))
            (func,) = traced.module
            assert isinstance(func, Func)
            interpreter.run(func, [*self.arguments.values(), *traced.captured])
        except (UserError, ProgramError):
            return
        raise AssertionError(f"NumPy says: {error}\n\n{self!r}")

    def _shown(self, now: Array, was: Array) -> str:
        return f"it is\n{now} {now.dtype}\nnot {was.dtype}\n{was}\n\n{self!r}"

    def _greatest_product(self) -> float:
        """Of all finite numbers: where it is infinite, what is multiplied with 0 in some order is
        nan.  So may be what is infinite itself in a product."""
        factors = [np.abs(x.astype(np.float64)).ravel() for x in self.arguments.values()]
        every = np.nan_to_num(np.concatenate(factors), nan=np.inf, posinf=np.inf)
        counted = every if self.text.startswith(_PRODUCTS) else every[np.isfinite(every)]
        return float(np.prod(counted.clip(1)))

    def _may_be(self, now: np.dtype[Any], was: np.dtype[Any]) -> bool:
        """Whether Iris may have a dtype where NumPy has another, if any."""
        if self.tells_signs and {x.dtype for x in self.arguments.values()} == {was}:
            return now == was
        # Floats of 16 bits and numbers of another kind meet elsewhere.
        is_half = now.kind == was.kind == "f" and np.float16 in (now, was)
        return is_half or now in (was, np.dtype(_NARROW.get(was.name, was)))


def _most(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).max) if dtype.kind == "f" else np.inf


def _is_near(now: Array, was: Array, errors: Array) -> Array:
    if now.dtype.kind != "f":
        return np.asarray(now == was)
    off = np.abs(np.subtract(now, was, dtype=np.float64))
    errors = np.nan_to_num(2 * errors, nan=np.inf)
    unit = np.spacing(np.minimum(np.abs(was), np.finfo(was.dtype).max)).astype(np.float64)
    is_same = (now == was) | (np.isnan(now) & np.isnan(was))
    return np.asarray(is_same | (off <= errors + ROUNDED * unit))


def _in_wide(text: str) -> str:
    """An expression in 64 bits; long integers are rounded to the floats that they meet."""
    rounded = re.sub(r"\b\d{8,}\b", lambda m: str(int(np.float32(int(m[0])))), text)
    return rounded.replace("float32", "float64")


def _widened(arguments: Mapping[str, Array], in_halves: bool) -> dict[str, Array]:
    """The arguments in 64 bits.  Integers are rounded to the floats that they are combined with."""
    meets = np.float16 if in_halves else np.float32
    with np.errstate(over="ignore"):
        return {
            k: (x if x.dtype.kind == "f" else x.astype(meets)).astype(np.float64)
            for k, x in arguments.items()
        }


def by_numpy(text: str, arguments: Mapping[str, Array]) -> list[Array] | None:
    """What NumPy gives; None if it refuses, or warns of whole numbers that have no result: those
    that do not fit wrap.  Raises `IndexError` where NumPy does."""
    if not text:
        return None
    raised: list[str] = []
    known = {**NAMES, **arguments}
    over: Any = "call" if any(x.dtype.kind == "f" for x in arguments.values()) else "ignore"
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore", divide="call", invalid="call", over=over),
            np.errstate(call=lambda kind, flag: raised.append(kind)),
        ):
            warnings.simplefilter("ignore")
            leaves = _leaves(eval(text, known))
    except IndexError:
        raise
    except REFUSED:
        return None
    if any(x.dtype.kind not in "biuf" or x.size > MOST for x in leaves):
        return None
    return None if raised and any(x.dtype.kind in "iu" for x in leaves) else leaves


def _leaves(made: Any) -> list[Array]:
    if isinstance(made, tuple | list):
        return [leaf for part in made for leaf in _leaves(part)]
    return [np.asarray(made)]
