"""What a trace knows of its arguments: a kernel is compiled once for each of these."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iris.ir.types import DType, Ptr

# Alignment to so many bytes is told from none, and of an integer which power of two up to this
# divides it.
ALIGNMENT = 16
_FLOATS = (float, np.float32, np.float16)  # whose bits a Python float holds


@dataclass(frozen=True)
class ArraySpec:
    """What a trace knows of an array."""

    dtype: DType
    rank: int
    noalias: bool = False
    aligned: bool = False  # it starts at a multiple of 16 bytes
    divisors: tuple[int, ...] = ()  # for each axis, the power of two up to 16 that divides its size
    rows_are_dense: bool = True  # elements are next to each other along the last axis

    @property
    def type(self) -> Ptr:
        return Ptr(self.dtype, self.noalias, self.aligned)


@dataclass(frozen=True)
class ScalarSpec:
    """What a trace knows of a number."""

    type: DType
    divisor: int = 1  # divides it, if it is an integer
    is_one: bool = False  # it is the integer 1


Spec = ArraySpec | ScalarSpec


def exact_key(value: Any) -> Hashable:
    """A key that tells apart what `==` does not: 1, 1.0 and True, and 0.0 and -0.0."""
    kind = type(value)
    if kind is int:
        return kind, value
    if isinstance(value, _FLOATS):
        return kind, float(value).hex()
    if isinstance(value, tuple):
        return kind, *map(exact_key, value)
    return kind, value
