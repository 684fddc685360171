"""Atomic updates of one array by many lanes at once, as if one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.memory import View
from iris.interp.reductions import extremum
from iris.ir import scalar
from iris.ir.kinds import AtomicKind
from iris.ir.types import bf16

Array = npt.NDArray[Any]

_UFUNCS: dict[AtomicKind, np.ufunc] = {
    AtomicKind.ADD: np.add,
    AtomicKind.AND: np.bitwise_and,
    AtomicKind.OR: np.bitwise_or,
    AtomicKind.XOR: np.bitwise_xor,
}
_EXTREMA = {AtomicKind.MAX: "maxnum", AtomicKind.MIN: "minnum"}


@np.errstate(all="ignore")
def update(kind: AtomicKind, view: View, index: Array, values: Array) -> Array:
    """Updates one element per lane, lane after lane; gives the old elements."""

    def running(old: Array, new: Array) -> Array:
        """What updating old elements by rows of new ones, one after the other, leaves each time."""
        both = np.concatenate([old[None], new])
        if kind is AtomicKind.EXCHANGE:
            return both
        if kind in _EXTREMA:
            return extremum(_EXTREMA[kind], view.dtype, both, lambda f, y: f.accumulate(y, axis=0))
        if view.dtype is not bf16:
            return np.asarray(_UFUNCS[kind].accumulate(both, axis=0, dtype=both.dtype))
        for before, after in pairwise(both):  # bf16 is kept as f32
            after[:] = scalar.round_to(bf16, before + after)
        return both

    old = np.empty_like(values)
    for lanes in _in_turn(index):
        all_values = running(view.read(index[lanes[0]]), values[lanes])
        old[lanes] = all_values[:-1]
        view.write(index[lanes[0]], all_values[-1])
    return old


def compare_and_swap(
    view: View, index: Array, expected: Array, values: Array
) -> tuple[Array, Array]:
    """Writes where the bits are the expected ones, lane after lane; gives the old elements, and
    which lanes wrote."""
    old, wrote = np.empty_like(values), np.zeros(values.shape, np.bool_)
    wanted = scalar.to_bits(view.dtype, expected)
    for lanes in _in_turn(index):
        for turn in lanes:
            found = view.read(index[turn])
            same = scalar.to_bits(view.dtype, found) == wanted[turn]
            old[turn], wrote[turn] = found, same
            view.write(index[turn][same], values[turn][same])
    return old, wrote


def _in_turn(places: Array) -> Iterator[Array]:
    """Arrays of lanes: those in a column have one place, a lower lane first, and no two columns
    have the same.  There is one array for each number of lanes that meet in a place, so few."""
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    first = np.ones(places.size, np.bool_)
    first[1:] = ranked[1:] != ranked[:-1]
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=places.size)
    for count in np.unique(counts):
        yield order[starts[counts == count] + np.arange(count)[:, None]]
