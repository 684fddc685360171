"""The errors of atomic updates, which come in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.memory import View
from iris.ir import scalar, tile
from iris.ir.kinds import AtomicKind
from iris.ir.math import element_type
from iris.ir.types import DTYPES, DType
from iris.testing.bounds.access import is_lost, places
from iris.testing.bounds.arithmetic import settle, worst
from iris.testing.bounds.combine import LARGEST, slack
from iris.testing.bounds.frame import BoundedFrame, origin
from iris.testing.bounds.interval import EXACT, TINY, interval, quantum, rounded
from iris.testing.bounds.memory import units

Array = npt.NDArray[Any]
Found = Sequence[Array]

# The bits of a float: each addition rounds to its own dtype.
_BITS: dict[DType, int] = {DTYPES["f32"]: 24, DTYPES["f16"]: 11, DTYPES["bf16"]: 8}
_NUMBERS = {kind: number for number, kind in enumerate(AtomicKind, 1)}
_CAS = len(_NUMBERS) + 1


class _Lanes:
    """The active lanes of an op, in groups that update one element each."""

    def __init__(
        self,
        frame: BoundedFrame,
        op: tile.Atomic | tile.AtomicCas,
        operands: Sequence[Any],
        errors: Found,
        old: Array,
    ):
        self.view: View = operands[0]
        self.memory = frame.launch.memory
        count = 3 if isinstance(op, tile.Atomic) else 4  # without the mask
        active = operands[count] if len(operands) > count else np.ones(1, np.bool_)
        unmasked = errors[count] if len(operands) > count else EXACT
        # Where not even the elements are determined, nothing is.
        self.lost = bool(unmasked.any()) or is_lost(errors[1], active, unmasked)
        self.shape = (len(frame.programs), *element_type(op.result.type).shape)
        self.where = np.broadcast_to(active & (self.view.size > 0), self.shape)
        self.index = self._of(places(self.view, operands[1])) if self.view.size else self._of(EXACT)
        self.units, self._first, self.group, counts = np.unique(
            units(self.view, self.index.astype(np.intp)),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        self.counts = counts
        self.values = [self._of(x) for x in operands[2:count]]
        self.errors = [self._of(e) for e in errors[2:count]]
        self.old = self._of(old)
        shared = frame.launch.contended.get(self.view)
        # By several programs at some time, or by several lanes now.
        self.shared = np.zeros(1, np.bool_) if shared is None else shared[self.units]
        self.contended = (counts > 1) | self.shared

    def _of(self, x: Array) -> Array:
        return np.asarray(np.broadcast_to(x, self.shape)[self.where])

    def first(self, x: Array) -> Array:
        """What the first lane of each group has."""
        return np.asarray(x[self._first])

    def total(self, x: Array) -> Array:
        """The sum in each group."""
        return np.asarray(np.bincount(self.group, x, len(self.units)))

    def greatest(self, start: Array, x: Array) -> Array:
        """The greatest in each group, or what to start from."""
        found: Array = np.broadcast_to(start, self.units.shape).copy()
        np.maximum.at(found, self.group, x)
        return found

    def before(self) -> Array:
        """The errors of the elements."""
        found = self.memory.read(self.view, self.first(self.index)) if self.view.size else None
        return np.zeros(self.units.shape) if found is None else np.asarray(found)

    def after(self) -> Array:
        """What the elements are now."""
        return self.view.read(self.first(self.index))

    def write(self, kind: int, errors: Array) -> None:
        """Notes the errors of the elements; those that programs update in different ways, in
        whatever order, have no bounds."""
        kinds = self.memory.kinds(self.view)
        known = kinds[self.units]
        mixed = (known != 0) & (known != kind) & self.shared
        kinds[self.units] = np.where(mixed, -1, kind)
        errors = np.where(mixed, np.inf, self.memory.seen_as_bits(self.view, self.after(), errors))
        self.memory.write(self.view, self.first(self.index), errors)

    def result(self, before: Array) -> Array:
        """The errors of the old elements."""
        errors = np.zeros(self.shape)
        errors[self.where] = np.where(self.contended, np.inf, before)[self.group]
        return errors


@origin(tile.Atomic)
def atomic(
    frame: BoundedFrame, op: tile.Atomic, results: Found, operands: Sequence[Any], errors: Found
) -> Found:
    lanes = _Lanes(frame, op, operands, errors, results[0])
    if lanes.lost:
        frame.launch.memory.poison(lanes.view)
        return [np.full(lanes.shape, np.inf)]
    if not len(lanes.units):
        return [EXACT]
    before, error = lanes.before(), lanes.errors[0]
    sums = None
    if op.kind is AtomicKind.EXCHANGE:
        after = np.where(lanes.contended, np.inf, lanes.first(error))
    elif not lanes.view.dtype.is_float:
        after = lanes.greatest(before, worst([error]))
    elif op.kind is AtomicKind.ADD:
        after, sums = _added(lanes, before)
    else:
        after = lanes.greatest(before, error)
    if frame.launch.reorder and op.kind is not AtomicKind.EXCHANGE and lanes.view.dtype.is_float:
        # Fast math keeps no sign of zero.
        after = np.where(lanes.after() == 0, np.maximum(after, TINY), after)
    lanes.write(_NUMBERS[op.kind], after)
    if sums is not None:  # after the write, with which they start again
        for table, new in zip(lanes.memory.sums(lanes.view), sums, strict=True):
            table[lanes.units] = new
    return [lanes.result(before)]


def _added(lanes: _Lanes, before: Array) -> tuple[Array, Sequence[Array]]:
    """The errors after additions in any order, and what to remember for those to come."""
    x, error = (v.astype(np.float64) for v in (lanes.values[0], lanes.errors[0]))
    dtype, start = lanes.view.dtype, lanes.first(lanes.old).astype(np.float64)
    known = [table[lanes.units] for table in lanes.memory.sums(lanes.view)]
    fresh = known[0] == 0
    begin = [np.zeros(1), np.abs(start), before, quantum(start)]
    count, gross, doubt, least = (
        np.where(fresh, new, old) for new, old in zip(begin, known, strict=True)
    )
    count = count + lanes.counts
    gross, doubt = gross + lanes.total(np.abs(x)), doubt + lanes.total(error)
    least = -lanes.greatest(-least, -quantum(x))
    bits = _BITS[dtype]
    after = doubt + 2 * slack(count, bits) * (gross + doubt)
    after = np.where((doubt == 0) & (gross <= least * 2.0**bits), 0.0, after)
    after = np.where(gross + after > LARGEST, np.inf, after)
    after = np.where(np.isfinite(gross), after, np.where(doubt < np.inf, 0.0, np.inf))
    # What no other lane updates has an order.
    ordered = [interval(start, before), interval(lanes.first(x), lanes.first(error))]
    low, high = (a + b for a, b in zip(*ordered, strict=True))
    alone = rounded(dtype, lanes.after(), (low, high))
    alone = settle(alone, [before, lanes.first(error)])
    count = np.where(lanes.contended, count, 0)
    return np.where(lanes.contended, after, alone), (count, gross, doubt, least)


@origin(tile.AtomicCas)
def compare_and_swap(
    frame: BoundedFrame, op: tile.AtomicCas, results: Found, operands: Sequence[Any], errors: Found
) -> Found:
    lanes = _Lanes(frame, op, operands, errors, results[0])
    if lanes.lost:
        frame.launch.memory.poison(lanes.view)
        return [np.full(lanes.shape, np.inf)]
    if not len(lanes.units):
        return [EXACT]
    before = lanes.before()
    found, wanted = (
        scalar.to_bits(lanes.view.dtype, lanes.first(x)) for x in (lanes.old, lanes.values[0])
    )
    after = np.where(found == wanted, lanes.first(lanes.errors[1]), before)
    doubt = lanes.contended | (before > 0) | (lanes.first(lanes.errors[0]) > 0)
    lanes.write(_CAS, np.where(doubt, np.inf, after))
    return [lanes.result(before)]
