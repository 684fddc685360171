"""Dtypes as a function of arrays meets them: NumPy's, and Iris's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from iris.errors import DTypeError
from iris.frontend.tracing import error_here
from iris.frontend.values import promote
from iris.ir.scalar import storage
from iris.ir.types import DTYPES, DType, bf16, bool_, f32, i8, i16, i32, i64

_BY_NAME: dict[str, DType] = {
    "bfloat16" if dtype is bf16 else storage(dtype).name: dtype for dtype in DTYPES.values()
}
# Names that NumPy has for something else, eight bytes where Iris has eight bits.
_AMBIGUOUS = {"i8": "np.int8 or np.int64", "u8": "np.uint8 or np.uint64"}


def as_dtype(dtype: Any) -> DType:
    """A dtype given as `iris.f16`, `"f16"`, `np.float16` or `"float16"`."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        if dtype in _AMBIGUOUS:
            raise error_here(
                DTypeError,
                f"{dtype!r} is one dtype here and another in NumPy; write {_AMBIGUOUS[dtype]}",
            )
        if dtype in DTYPES:
            return DTYPES[dtype]
    if dtype is float:
        return f32
    try:
        asked = np.dtype(dtype)
    except TypeError:
        raise error_here(DTypeError, f"no dtype is called {dtype!r}") from None
    found = _BY_NAME.get(asked.name)
    if found is not None:
        return found
    if asked.kind == "f":
        raise error_here(DTypeError, f"Apple GPUs have no {asked.name}; use np.float32")
    raise error_here(DTypeError, f"arrays are of {', '.join(_BY_NAME)}, not of {asked.name}")


def meeting(dtypes: Iterable[DType]) -> DType | None:
    """The dtype in which arrays meet.

    Of integers it is the narrowest that holds them all, as in NumPy: None for signed ones with
    u64.  Beside a float, integers become that float; of two kinds of floats the result is f32.
    """
    given = [*dtypes]
    floats = [dtype for dtype in given if dtype.is_float]
    integers = [dtype for dtype in given if dtype.is_integer]
    if floats:
        return reduce(promote, floats)
    if not integers:
        return bool_
    signed = [dtype.bits for dtype in integers if dtype.is_signed]
    if not signed:
        return max(integers, key=lambda dtype: dtype.bits)
    # A signed integer needs one bit more to hold an unsigned one.
    needed = max(dtype.bits + (not dtype.is_signed) for dtype in integers)
    return next((dtype for dtype in (i8, i16, i32, i64) if dtype.bits >= needed), None)


def exact_dtype(dtype: np.dtype[Any]) -> DType | None:
    """The dtype of elements that NumPy calls so, if GPUs have it."""
    return _BY_NAME.get(dtype.name) if dtype.isnative else None


def nearest_dtype(dtype: np.dtype[Any]) -> DType:
    """The dtype of an array that was made while tracing: of wider floats than there are, f32."""
    found = _BY_NAME.get(dtype.name)
    if found is not None:
        return found
    if dtype.kind == "f":
        return f32
    raise error_here(DTypeError, f"arrays are of {', '.join(_BY_NAME)}, not of {dtype.name}")


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """What NumPy calls a dtype."""
    if dtype is not bf16:
        return storage(dtype)
    try:
        return np.dtype("bfloat16")
    except TypeError:
        raise error_here(
            DTypeError, "NumPy has no bfloat16 until ml_dtypes is imported (iris-metal[bf16])"
        ) from None
