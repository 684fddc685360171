"""Dtypes and values of functions of arrays of every pair of dtypes, against NumPy: what differs is
in one table, which the docs have, too."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from array_dtypes import ALL, DIFFERENCES, PRODUCTS, SUMS, DType, here
from iris.errors import DTypeError
from support import ROOT
from tracing_arrays import compute, same, trace

Array = npt.NDArray[Any]
Function = Callable[..., Any]


def functions(names: str) -> dict[str, Function]:
    """Those functions of NumPy that this version has."""
    return {name: getattr(np, name) for name in names.split() if hasattr(np, name)}


def written(a: Any, b: Any) -> Any:
    if not isinstance(a, np.ndarray):
        return a.at[[2, 1]].set(b[:2])
    copy = a.copy()
    copy[[2, 1]] = b[:2]
    return copy


def added(a: Any, b: Any) -> Any:
    if not isinstance(a, np.ndarray):
        return a.at[[1, 1]].add(b[:2])
    copy = a.copy()
    np.add.at(copy, [1, 1], b[:2])
    return copy


OF_TWO = {
    **functions(
        "add subtract multiply floor_divide remainder divmod fmod maximum minimum fmax fmin "
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and logical_or "
        "logical_xor equal not_equal less less_equal greater greater_equal isin array_equal "
        "divide hypot arctan2 copysign heaviside logaddexp logaddexp2 float_power isclose "
        "matmul dot inner vdot vecdot outer kron convolve cross append polyval trapezoid"
    ),
    "where": lambda a, b: np.where(a > 0, a, b),
    "select": lambda a, b: np.select([a > 0], [a], b),
    "clip": lambda a, b: np.clip(a, b, b),
    "clip from below": lambda a, b: np.clip(a, b, None),
    "concatenate": lambda a, b: np.concatenate([a, b]),
    "stack": lambda a, b: np.stack([a, b]),
    "tensordot": lambda a, b: np.tensordot(a, b, 1),
    "einsum": lambda a, b: np.einsum("i,i->", a, b),
    "einsum without a sum": lambda a, b: np.einsum("i,j->ij", a, b),
    "linspace": lambda a, b: np.linspace(a, b, 5),
    "average": lambda a, b: np.average(a, weights=b),
    "linalg.outer": lambda a, b: np.linalg.outer(a, b),
    "diff": lambda a, b: np.diff(a, append=b[:1]),
}
OF_ONE = {
    **functions(
        "negative positive absolute fabs square sign invert logical_not isnan isfinite signbit "
        "floor ceil trunc rint round sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan "
        "sinh cosh tanh arcsin arccos arctan arcsinh deg2rad rad2deg "
        "sum prod cumsum cumprod nansum nanprod nancumsum nancumprod mean var std average nanmean "
        "max min ptp argmax argmin any all count_nonzero diff gradient nan_to_num flip tril "
        "ones_like zeros_like diag conjugate real modf"
    ),
    "trace": lambda a: np.trace(a[None]),
    "add.reduce": np.add.reduce,
    "multiply.accumulate": np.multiply.accumulate,
    "maximum.reduce": np.maximum.reduce,
    "linalg.norm": np.linalg.norm,
}
WEAK = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "maximum": np.maximum,
    "less": operator.lt,
    "clip": lambda a, b: np.clip(a, 0, b),
    "where": lambda a, b: np.where(a > 1, a, b),
}
# Their operands are small: they would wrap in fewer bits than here, or be rounded.
# Functions of an array and a dtype that their result is to have.
ASKED: dict[str, Function] = {
    "add": lambda x, dtype: np.add(x, x, dtype=dtype),
    "add a number": lambda x, dtype: np.add(x, 5, dtype=dtype),
    "add half": lambda x, dtype: np.add(x, 0.5, dtype=dtype),
    "floor_divide": lambda x, dtype: np.floor_divide(x, 2, dtype=dtype),
    "divide": lambda x, dtype: np.divide(x, x, dtype=dtype),
    "power": lambda x, dtype: np.power(x, 2.5, dtype=dtype),
    "sqrt": lambda x, dtype: np.sqrt(x, dtype=dtype),
    "matmul": lambda x, dtype: np.matmul(x, x, dtype=dtype),
    "concatenate": lambda x, dtype: np.concatenate([x, x], dtype=dtype),
    "concatenate anyhow": lambda x, dtype: np.concatenate([x, x], dtype=dtype, casting="unsafe"),
    "add.reduce": lambda x, dtype: np.add.reduce(x, dtype=dtype),
    "maximum.reduce": lambda x, dtype: np.maximum.reduce(x, dtype=dtype),
    "cumsum": lambda x, dtype: np.cumsum(x, dtype=dtype),
}
SMALL = (
    *PRODUCTS,
    *SUMS,
    "average",
    "float_power",
    "polyval",
    "outer",
    "linalg.outer",
    "kron",
    "linspace",
)


def operand(dtype: DType, small: bool) -> Array:
    if dtype.kind == "b":
        return np.array([True, False, True, True])
    if dtype.kind == "f":
        return np.array([-2, 0.25, 1.5, 3], dtype)
    info = np.iinfo(dtype)
    listed = [-1 if info.min else 1, 2, 2, 3] if small else [info.max, info.min, 1, 3]
    return np.array(listed, dtype)


def operands(name: str, a: DType, b: DType) -> tuple[Array, Array]:
    small = name in SMALL or "f" in (a.kind, b.kind)
    x, y = operand(a, small), operand(b, small)
    if name.endswith("shift") and b.kind in "iu":
        y = np.array([0, 1, 2, 3], b)
    if name in ("floor_divide", "remainder", "divmod", "fmod"):
        y = np.where(y == 0, np.ones((), b), y)
    if name == "cross":
        x, y = x[:3], y[:3]
    return x, y


@contextmanager
def quietly() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def results_of(function: Function, case: tuple[Any, ...]) -> list[Array]:
    with quietly():
        found = function(*case)
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def check(name: str, function: Function, cases: list[tuple[Any, ...]], static: bool) -> None:
    """All cases for which there is a result are one function; the others are errors."""
    good, bad = [], []
    for case in cases:
        dtypes = tuple([x.dtype for x in case if isinstance(x, np.ndarray)])
        try:
            results = results_of(function, case)
        except (TypeError, OverflowError):
            bad.append((case, False))
            continue
        ours = [here(name, dtypes, result.dtype) for result in results]
        if None in ours:
            bad.append((case, True))
            continue
        if results[0].dtype == np.float16 and ours[0] == np.float32:
            results = results_of(function, tuple([np.asarray(x, np.float64) for x in case]))
        good.append((case, results, ours))
    traced = 1 if static else None
    for case, is_ours in bad:
        with pytest.raises(DTypeError, match="astype" if is_ours else None):
            compute(lambda given: function(*given, *case[len(given) :]), case[:traced])  # noqa: B023

    def batch(given: Any) -> Any:
        results = []
        for arguments, (case, _, _) in zip(given, good, strict=True):
            result = function(*arguments, *case[len(arguments) :])
            results.append(result if isinstance(result, tuple) else (result,))
        return results

    given = [case[:traced] for case, _, _ in good]
    for found, (case, results, ours) in zip(compute(batch, given), good, strict=True):
        for one, other, dtype in zip(found, results, ours, strict=True):
            try:
                same(np.asarray(one), other, ulps=5, dtype=dtype)
            except AssertionError as error:
                raise AssertionError(f"{name} of {case}: {error}") from None


@pytest.mark.parametrize("name", OF_TWO)
def test_pairs_of_dtypes(name: str) -> None:
    pairs = product(ALL, ALL)
    check(name, OF_TWO[name], [operands(name, a, b) for a, b in pairs], static=False)


@pytest.mark.parametrize("name", OF_ONE)
def test_each_dtype(name: str) -> None:
    small = [(operand(dtype, small=True),) for dtype in ALL]
    check(name, OF_ONE[name], small, static=False)


@pytest.mark.parametrize("name", WEAK)
def test_dtypes_with_numbers(name: str) -> None:
    scalars = (True, 3, 2.5)
    cases = [(operand(dtype, small=True), n) for dtype in ALL for n in scalars]
    check(name, WEAK[name], cases, static=True)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("function", [written, added], ids=lambda f: f.__name__)
def test_what_is_written_has_the_dtype_of_the_array(function: Function, dtype: DType) -> None:
    """Of values of any dtype but those that would lose what they are."""
    for other in ALL:
        x, y = operand(dtype, small=True), operand(other, small=True)
        loses = other.kind == "f" != dtype.kind or (dtype.kind == "b" != other.kind)
        if loses or (function is added and dtype.kind == "b"):
            with pytest.raises(DTypeError):
                compute(function, x, y)
        else:
            with quietly():
                same(compute(function, x, y), function(x, y), dtype=dtype)


def test_in_place() -> None:
    """`x += y` has the dtype of x where NumPy allows it, and is an error where it does not."""
    for a, b in product(ALL, ALL):
        for operate in (operator.iadd, operator.imul, operator.ifloordiv):
            x, y = operands("floor_divide", a, b)
            try:
                with quietly():
                    wanted = operate(x.copy(), y)
            except TypeError:
                with pytest.raises(DTypeError):
                    compute(operate, x, y)
            else:
                same(compute(operate, x, y), wanted, dtype=a, ulps=1)


@pytest.mark.parametrize("name", ASKED)
def test_dtypes_that_are_asked_for(name: str) -> None:
    """Operands go into them where NumPy lets them: never a float into an integer, say."""
    function, good = ASKED[name], []
    for x, dtype in product([np.abs(operand(dtype, small=True)) for dtype in ALL], ALL):
        try:
            with quietly():
                good.append((x, dtype, function(x, dtype)))
        except TypeError:
            with pytest.raises(DTypeError):
                trace(function, x, dtype=dtype)

    def batch(given: Any) -> Any:
        return [function(x, dtype) for x, (_, dtype, _) in zip(given, good, strict=True)]

    for found, (x, dtype, wanted) in zip(compute(batch, [c[0] for c in good]), good, strict=True):
        assert found.dtype == wanted.dtype, (x.dtype, dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_the_docs_have_the_table() -> None:
    text = (ROOT / "docs" / "arrays.md").read_text(encoding="utf-8")
    table = "\n".join(map(str, DIFFERENCES))
    assert table in text, f"docs/arrays.md, Dtypes, is to say\n{table}"
