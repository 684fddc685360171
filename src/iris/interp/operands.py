"""The operands of an op, some elements of which do not count.

    given = Operands([Masked(x, inside), y], run)
    counts = given.counts(0, 1)
    given.fill(0, counts, 0)
    given.fill(1, counts, 1)
    results = given.run()

A rule of `masked.py` replaces the elements that do not count by others, and then runs the op as if
all counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# Runs an op by the rule that it has where all operands count.
Run = Callable[..., Sequence[Any]]


class Masked(NamedTuple):
    """A value, and which of its elements count."""

    data: Array
    counts: Array


class Operands:
    """The operands of an op, and which of their elements count."""

    def __init__(self, given: Sequence[Any], run: Run):
        self.data = [x.data if isinstance(x, Masked) else x for x in given]
        self.masks = [x.counts if isinstance(x, Masked) else None for x in given]
        self._run = run

    def counts(self, *positions: int) -> Array:
        """Where the elements of all of some operands count."""
        return all_of([self.masks[i] for i in positions])

    def chosen(self, position: int, on_true: Array, on_false: Array) -> Array:
        """Where elements count if an operand, a condition, says which of two masks to take."""
        like = on_true if on_true.ndim > on_false.ndim else on_false
        return np.where(with_axes(self.data[position], like), on_true, on_false)

    def fill(self, position: int, counts: Array, other: Any) -> None:
        """Replaces the elements of an operand that do not count."""
        x = self.data[position]
        self.data[position] = np.where(with_axes(counts, x), x, np.asarray(other, x.dtype))

    def fill_from(self, source: int, position: int, counts: Array) -> None:
        """Replaces the elements of an operand that do not count by those of another."""
        x, other = self.data[position], self.data[source]
        self.data[position] = np.where(with_axes(counts, x), x, other)

    def take(self, position: int, places: Array, axis: int) -> None:
        """Takes each element of an operand from some place along an axis."""
        self.data[position] = take_along(self.data[position], places, axis)

    def run(self, *more: Any, **named: Any) -> Sequence[Any]:
        """What the op gives, with these operands and more."""
        return self._run(*self.data, *more, **named)


def all_of(masks: Sequence[Array | None]) -> Array:
    """Where all masks hold; None holds everywhere."""
    known = [m for m in masks if m is not None]
    if not known:
        return np.ones(1, np.bool_)
    widest = max(known, key=np.ndim)
    return np.asarray(functools.reduce(np.logical_and, [with_axes(m, widest) for m in known]))


def with_axes(x: Array, like: Array) -> Array:
    """A number for each program, with as many axes as a tile has."""
    return x.reshape(len(x), *[1] * (like.ndim - 1)) if x.ndim == 1 else x


def take_along(x: Array, places: Array, axis: int) -> Array:
    """The elements at some places along an axis; axes of size 1 are as good as full ones."""
    if x.ndim != places.ndim or x.shape[axis] == 1:
        return x
    others = np.broadcast_shapes(*[(*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, places)])

    def spread(a: Array) -> Array:
        return np.broadcast_to(a, (*others[:axis], a.shape[axis], *others[axis + 1 :]))

    return np.take_along_axis(spread(x), spread(places).astype(np.intp, copy=False), axis)
