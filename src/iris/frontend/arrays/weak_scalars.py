"""Check Python integers among the arguments of a call against the dtypes of arrays.

A Python number is weak: it takes the dtype of the array that it is combined with. Its value is not
known while tracing, so a trace notes each such cast, and each call checks it.
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
from iris.ir.math import Constant
from iris.ir.scalar import evaluate, from_bits, storage
from iris.ir.types import DType

Array = npt.NDArray[Any]


class WeakScalarCheck(NamedTuple):
    """A weak number of the graph, and the dtype that it is cast to."""

    value: Value
    dtype: DType
    location: Location | None

    def check(self, leaves: Sequence[Leaf]) -> None:
        """Refuse a call for which the number does not fit."""
        used: dict[int, None] = {}
        number = int(_evaluate(self.value, leaves, used))
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
    """Whether an integer dtype lacks some values of another."""
    whole = own.is_integer and dtype.is_integer
    return whole and not (dtype.low <= own.low and own.high <= dtype.high)


def _evaluate(value: Value, leaves: Sequence[Leaf], used: dict[int, None]) -> Array:
    """Evaluate a number that depends on weak arguments only."""
    if value.op is None:
        used[value.index] = None
        return np.asarray(leaves[value.index].value, storage(value.type.element))
    if isinstance(value.op, Constant):
        return from_bits(value.type.element, np.asarray(value.op.bits))
    return evaluate(value.op, *[_evaluate(v, leaves, used) for v in value.op.operands])
