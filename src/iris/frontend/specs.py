"""What a trace knows of its arguments: a kernel is compiled once for each of these."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.types import DType, Ptr

ALIGNMENT = 16  # the bytes, and for sizes the elements, whose multiples are told from others


@dataclass(frozen=True)
class ArraySpec:
    """What a trace knows of an array."""

    dtype: DType
    rank: int
    noalias: bool = False
    aligned: bool = False  # it starts at a multiple of 16 bytes
    divisible: tuple[int, ...] = ()  # the axes whose size is a multiple of 16

    @property
    def type(self) -> Ptr:
        return Ptr(self.dtype, self.noalias, self.aligned)


@dataclass(frozen=True)
class ScalarSpec:
    """What a trace knows of a number."""

    type: DType
    divisor: int = 1  # divides it, if it is an integer
    is_one: bool = False  # it is the integer 1
