"""Whole numbers among the arguments of a call, which must fit the dtypes of the arrays they meet.

A number of Python's gives way to the dtype of an array, and which number it is, is not known while
tracing. So a trace notes where that may go wrong, and each call looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.errors import RangeError
from iris.frontend.arrays.trees import Leaf
from iris.frontend.tracing import error_here
from iris.ir.core import Location, Value
from iris.ir.math import Constant, element_type
from iris.ir.scalar import evaluate, from_bits, storage
from iris.ir.types import DType

Array = npt.NDArray[Any]


class Narrowed(NamedTuple):
    """A number in the graph, as Python has it, and the dtype of the arrays that it meets."""

    value: Value
    dtype: DType
    location: Location | None

    def check(self, leaves: Sequence[Leaf]) -> None:
        """Refuse a call for which the number does not fit."""
        used: dict[int, None] = {}
        number = int(_evaluated(self.value, leaves, used))
        if self.dtype.low <= number <= self.dtype.high:
            return
        names = " and ".join(leaves[i].name for i in used)
        what = names if self.value.op is None else f"a number computed from {names}"
        where = "" if self.location is None else f" at {self.location}"
        raise error_here(
            RangeError,
            f"{what} is {number}, which does not fit the arrays of {self.dtype} that it is "
            f"combined with{where}; use astype there, on the arrays or on the number",
        )


def may_overflow(own: DType, dtype: DType) -> bool:
    """Whether an integer dtype holds not all that another does."""
    whole = own.is_integer and dtype.is_integer
    return whole and not (dtype.low <= own.low and own.high <= dtype.high)


def _evaluated(value: Value, leaves: Sequence[Leaf], used: dict[int, None]) -> Array:
    """What a number is, which is made of numbers among the arguments only."""
    if value.op is None:
        used[value.index] = None
        return np.asarray(leaves[value.index].value, storage(element_type(value.type).element))
    if isinstance(value.op, Constant):
        return from_bits(element_type(value.type).element, np.asarray(value.op.bits))
    return evaluate(value.op, *[_evaluated(v, leaves, used) for v in value.op.operands])
