"""The errors of what is in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.interp.memory import Shadow, View

Array = npt.NDArray[Any]


class Sums(NamedTuple):
    """For each unit, what atomic updates have added in whatever order, since it was last written.

    `gross` and `doubt` are sums of magnitudes and errors, `least` is what all are multiples of;
    they hold where `times`, the number of additions, is not 0.
    """

    times: Array
    gross: Array
    doubt: Array
    least: Array


class Memory:
    """An error for each unit of the shadows, which arrays that overlap share.

    There is a table only for what some error was written to.  What is never written has no
    shadow, and no errors.
    """

    def __init__(self, views: Collection[View]):
        self._errors: dict[Shadow, Array] = {}
        self._sums: dict[Shadow, Sums] = {}
        self._kinds: dict[Shadow, Array] = {}
        dtypes: dict[Shadow, set[Any]] = {}
        for view in views:
            if view.shadow is not None:
                dtypes.setdefault(view.shadow, set()).add(view.dtype)
        # An error is in terms of a dtype: where memory has several, any is without a bound.
        self._mixed = {shadow for shadow, found in dtypes.items() if len(found) > 1}

    def read(self, view: View, index: Array) -> Array | None:
        """The errors of elements; None if there are none."""
        table = None if view.shadow is None else self._errors.get(view.shadow)
        if table is None:
            return None
        first = units(view, index)
        found = table.take(first)
        for part in range(1, view.width):
            found = np.maximum(found, table.take(first + part))
        return found

    def write(self, view: View, index: Array, errors: Array | float) -> None:
        """Notes the errors of elements that are written."""
        shadow = view.shadow
        assert shadow is not None
        first = units(view, index)
        if shadow in self._sums:
            self._sums[shadow].times[first] = 0
        table = self._errors.get(shadow)
        if table is None:
            if not np.any(errors):
                return
            table = self._errors[shadow] = np.zeros(shadow.size)
        if shadow in self._mixed:
            errors = np.where(np.asarray(errors) > 0, np.inf, 0.0)
        for part in range(view.width):
            table[first + part] = errors

    def seen_as_bits(self, view: View, values: Array, errors: Array) -> Array:
        """The errors of elements that may be read as another dtype: a nan may be any."""
        if view.shadow not in self._mixed or not view.dtype.is_float:
            return errors
        return np.where(np.isnan(values), np.inf, errors)

    def is_exact(self, view: View) -> bool:
        """Whether nothing is noted that writing what is exact would change."""
        return view.shadow not in self._errors and view.shadow not in self._sums

    def sums(self, view: View) -> Sums:
        """What was added to elements by atomic updates."""
        shadow = view.shadow
        assert shadow is not None
        if shadow not in self._sums:
            self._sums[shadow] = Sums(*[np.zeros(shadow.size) for _ in Sums._fields])
        return self._sums[shadow]

    def kinds(self, view: View) -> Array:
        """By what kind of atomic update elements were changed, as a number; 0: by none."""
        shadow = view.shadow
        assert shadow is not None
        return self._kinds.setdefault(shadow, np.zeros(shadow.size, np.int8))

    def poison(self, view: View) -> None:
        """Notes that nothing in an array is determined."""
        if view.shadow is not None and view.size:
            self.write(view, np.arange(view.size), np.inf)


def units(view: View, index: Array) -> Array:
    """The first unit of the shadow of each element."""
    return index.astype(np.intp, copy=False) * view.width + view.start
