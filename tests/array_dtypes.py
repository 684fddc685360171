"""Where dtypes of functions of arrays differ from NumPy's: docs/arrays.md has this very table, and
what is not in it is as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

DType = np.dtype[Any]
BOOL, I32, U32, I64, U64 = (np.dtype(name) for name in ("?", "i4", "u4", "i8", "u8"))
F16, F32, F64 = (np.dtype(name) for name in ("f2", "f4", "f8"))
ALL = (BOOL, *[np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)], F16, F32)
NARROW = tuple([dtype for dtype in ALL if dtype.kind in "iu" and dtype.itemsize < 4])

# Functions that add up, or multiply, elements of one array.
SUMS = (
    *("sum", "prod", "cumsum", "cumprod", "trace", "add.reduce", "multiply.accumulate"),
    *("nansum", "nanprod", "nancumsum", "nancumprod"),
)
COUNTS = ("argmax", "argmin", "count_nonzero")
PRODUCTS = ("matmul", "dot", "inner", "vdot", "tensordot", "einsum", "vecdot", "convolve")


class Difference(NamedTuple):
    """A rule that changes NumPy's dtype to ours; None means an error."""

    what: str
    here: str
    numpy: str
    dtype: Callable[[str, tuple[DType, ...], DType], DType | None]

    def __str__(self) -> str:
        return f"| {self.what} | {self.here} | {self.numpy} |"


def _has_u64_and_signed(given: tuple[DType, ...]) -> bool:
    return U64 in given and any(dtype.kind == "i" for dtype in given)


def _no_float(given: tuple[DType, ...]) -> bool:
    return all(dtype.kind != "f" for dtype in given)


# Functions that make floats of each operand alone.
OF_FLOATS = (
    *("divide", "hypot", "arctan2", "copysign", "heaviside", "logaddexp", "logaddexp2"),
    *("float_power", "average", "linspace"),
)

DIFFERENCES = (
    Difference(
        "a signed integer and u64 (comparisons, `/` and functions of floats take them)",
        "an error: `astype` says which dtype",
        "float64",
        lambda name, given, numpy: (
            None
            if _has_u64_and_signed(given)
            and _no_float(given)
            and numpy == F64
            and name not in OF_FLOATS
            else numpy
        ),
    ),
    Difference(
        "an integer and f16",
        "f16",
        "float16, float32 or float64",
        lambda name, given, numpy: (
            F16
            if F16 in given and F32 not in given and numpy in (F32, F64) and name != "float_power"
            else numpy
        ),
    ),
    Difference(
        "`i / j`, `np.sqrt(i)`, `i.mean()` of integers or bools",
        "f32",
        "float16, float32 or float64",
        lambda name, given, numpy: F32 if _no_float(given) and numpy.kind == "f" else numpy,
    ),
    Difference(
        "`sum`, `prod`, `cumsum`, `cumprod` and `trace` of integers of up to 32 bits, and of bools",
        "i32; of unsigned ones u32",
        "int64; uint64",
        lambda name, given, numpy: (
            {I64: I32, U64: U32}.get(numpy, numpy)
            if name in SUMS and given[0] not in (I64, U64)
            else numpy
        ),
    ),
    Difference(
        "`@`, `dot`, `einsum` and `convolve` of integers of 8 and 16 bits",
        "i32; of unsigned ones u32",
        "the dtype of the integers",
        lambda name, given, numpy: (
            (U32 if numpy.kind == "u" else I32) if name in PRODUCTS and numpy in NARROW else numpy
        ),
    ),
    Difference(
        "`argmax`, `argmin` and `count_nonzero`",
        "i32",
        "int64",
        lambda name, given, numpy: I32 if name in COUNTS else numpy,
    ),
    Difference(
        "bools and a Python int, and Python ints alone",
        "i32",
        "int64",
        lambda name, given, numpy: I32 if given == (BOOL,) and numpy == I64 else numpy,
    ),
    Difference(
        "what NumPy has float64 for, such as i32 and f32",
        "f32",
        "float64",
        lambda name, given, numpy: F32 if numpy == F64 else numpy,
    ),
)


def here(name: str, given: tuple[DType, ...], numpy: DType) -> DType | None:
    """The dtype that a function has here, where NumPy has one; None for an error."""
    found: DType | None = numpy
    for difference in DIFFERENCES:
        if found is not None:
            found = difference.dtype(name, given, found)
    return found
