"""The errors of values some elements of which do not count.

What takes the place of such an element is exact.  Which elements count must be determined: where a
mask is not, as a comparison of values that are not exact, nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.operands import Operands, Run, take_along, with_axes
from iris.testing.bounds.interval import EXACT
from iris.testing.bounds.terms import one_term

Array = npt.NDArray[Any]


class BoundedOperands(Operands):
    """The operands of an op, which of their elements count, and what is kept beside each: its error
    and, with fast math, the parts of its `Terms`."""

    def __init__(self, given: Sequence[Any], run: Run, beside: Sequence[Sequence[Array]]):
        super().__init__(given, run)
        self.beside = list(beside)
        self.is_doubted = False  # whether it is not determined which elements of the result count

    def chosen(self, position: int, on_true: Array, on_false: Array) -> Array:
        doubt, differ = self.beside[position][0], on_true != on_false
        self.is_doubted |= bool(((with_axes(doubt, differ) > 0) & differ).any())
        return super().chosen(position, on_true, on_false)

    def fill(self, position: int, counts: Array, other: Any) -> None:
        super().fill(position, counts, other)
        number = np.asarray([other], self.data[position].dtype)
        self._mix(position, counts, [EXACT, *one_term(number, EXACT)])

    def fill_from(self, source: int, position: int, counts: Array) -> None:
        super().fill_from(source, position, counts)
        self._mix(position, counts, self.beside[source])

    def _mix(self, position: int, counts: Array, others: Sequence[Array]) -> None:
        self.beside[position] = [
            x if x is other else np.where(with_axes(counts, x), x, other)
            for x, other in zip(self.beside[position], others, strict=False)
        ]

    def take(self, position: int, places: Array, axis: int) -> None:
        super().take(position, places, axis)
        self.beside[position] = [take_along(x, places, axis) for x in self.beside[position]]
