"""The errors of what is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.memory import View
from iris.interp.tile import block
from iris.ir import tile
from iris.ir.math import element_type
from iris.testing.bounds.arithmetic import worst
from iris.testing.bounds.frame import BoundedFrame, origin
from iris.testing.bounds.interval import EXACT

Array = npt.NDArray[Any]
Found = Sequence[Array]


def places(view: View, offset: Array) -> Array:
    """Indices that are in bounds: where they were not, nothing is accessed."""
    outside = view.elements.outside(offset)
    return np.where(outside, 0, offset) if outside.any() else offset


# Reading and writing.


@origin(tile.Load, tile.MaskedLoad)
def load(
    frame: BoundedFrame,
    op: tile.Load | tile.MaskedLoad,
    results: Found,
    operands: Sequence[Any],
    errors: Found,
) -> Found:
    view, offset, *masked = operands
    _, doubt, unmasked, other = (*errors, EXACT, EXACT)[:4]
    mask = masked[0] if masked else np.ones(1, np.bool_)
    return [_load(frame, view, offset, doubt, mask, unmasked, other)]


@origin(tile.LoadTile)
def load_tile(
    frame: BoundedFrame, op: tile.LoadTile, results: Found, operands: Sequence[Any], errors: Found
) -> Found:
    shape = element_type(op.result.type).shape
    address, inside = block(shape, operands[1:])
    doubt = worst(errors[1:]).reshape(-1, *[1] * len(shape))
    return [_load(frame, operands[0], address, doubt, inside, EXACT, EXACT)]


def _load(
    frame: BoundedFrame,
    view: View,
    offset: Array,
    doubt: Array,
    mask: Array,
    unmasked: Array,
    other: Array,
) -> Array:
    found = frame.launch.memory.read(view, places(view, offset)) if view.size else None
    if found is None and not any(e.any() for e in (doubt, unmasked, other)):
        return EXACT
    read = worst([doubt]) + (EXACT if found is None else found)
    return np.where(mask, read, other) + worst([unmasked])


@origin(tile.Store)
def store(
    frame: BoundedFrame, op: tile.Store, results: Found, operands: Sequence[Any], errors: Found
) -> Found:
    view, offset, value, *mask = operands
    _, doubt, error, *unmasked = errors
    error = frame.launch.memory.seen_as_bits(view, value, error)
    shape = (len(frame.programs), *element_type(op.value.type).shape)
    active = mask[0] if mask else np.ones(1, np.bool_)
    _store(frame, view, shape, offset, doubt, active, unmasked[0] if unmasked else EXACT, error)
    return []


@origin(tile.StoreTile)
def store_tile(
    frame: BoundedFrame,
    op: tile.StoreTile,
    results: Found,
    operands: Sequence[Any],
    errors: Found,
    active: Array = np.ones(1, np.bool_),  # noqa: B008
) -> Found:
    shape = element_type(op.value.type).shape
    address, inside = block(shape, operands[2:])
    doubt = worst(errors[2:]).reshape(-1, *[1] * len(shape))
    whole = (len(frame.programs), *shape)
    error = frame.launch.memory.seen_as_bits(operands[0], operands[1], errors[1])
    _store(frame, operands[0], whole, address, doubt, inside & active, EXACT, error)
    return []


def _store(
    frame: BoundedFrame,
    view: View,
    shape: tuple[int, ...],
    offset: Array,
    doubt: Array,
    active: Array,
    unmasked: Array,
    error: Array,
) -> None:
    if not view.size:
        return
    memory = frame.launch.memory
    if is_lost(doubt, active, unmasked):
        memory.poison(view)
        return
    if error is EXACT and memory.is_exact(view) and not unmasked.any():
        return
    index = np.broadcast_to(places(view, offset), shape)
    where = np.broadcast_to(active & (unmasked == 0), shape)
    memory.write(view, index[where], np.broadcast_to(error, shape)[where])
    if unmasked.any():  # maybe written, maybe not
        there = ~view.elements.outside(offset)
        memory.write(view, index[np.broadcast_to((unmasked > 0) & there, shape)], np.inf)


def is_lost(doubt: Array, active: Array, unmasked: Array) -> bool:
    """Whether it is not determined which element some lane writes to."""
    return bool(((doubt > 0) & (active | (unmasked > 0))).any())
