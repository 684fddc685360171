"""The errors of what is in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.memory import Shadow, View

Array = npt.NDArray[Any]


class Memory:
    """An error for each unit of the shadows, which arrays that overlap share.

    There is a table only for what some error was written to.  What is never written has no
    shadow, and no errors.
    """

    def __init__(self, views: Collection[View]):
        self._errors: dict[Shadow, Array] = {}
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
        table = self._errors.get(shadow)
        if table is None:
            if not np.any(errors):
                return
            table = self._errors[shadow] = np.zeros(shadow.size)
        if shadow in self._mixed:
            errors = np.where(np.asarray(errors) > 0, np.inf, 0.0)
        first = units(view, index)
        for part in range(view.width):
            table[first + part] = errors

    def poison(self, view: View) -> None:
        """Notes that nothing in an array is determined."""
        if view.shadow is not None and view.size:
            self.write(view, np.arange(view.size), np.inf)


def units(view: View, index: Array) -> Array:
    """The first unit of the shadow of each element."""
    return view.place(index) * view.width + view.start
