"""Which part of an online loop runs: `skip-neutral` skips the iterations that a mask hides.

    scores = np.where(np.tri(128), q @ k.T, -np.inf)    of blocks of 32x32 it hides 6 of 16

A mask is looked at in the corners of a few blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import math, scalar
from iris.passes.graph.tiling.element_exprs import IndexValue, Pointwise, SplatExpr
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.index_expr import Atom, Axis, IndexExpr, Quotient, Remainder
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule

Array = npt.NDArray[Any]

MOST_BLOCKS = 16  # along an axis that are looked at


@lru_cache(maxsize=16)  # of the few schedules that are compared at a time
def part_that_runs(schedule: KernelSchedule) -> float:
    """The part of the iterations along the online axes that some mask does not hide."""
    parts = [_shown(schedule, mask) for mask in _masks(schedule.elements)]
    return min(parts, default=1.0)


def _masks(elements: ElementGraph) -> Iterator[ElementRef]:
    """The conditions, on indices alone, for scores along an online axis not to be -inf."""
    for expr in elements.exprs.values():
        if isinstance(expr, Pointwise) and isinstance(expr.op, math.Select):
            condition, _, hidden = expr.operands
            is_online = not elements.online_axes.isdisjoint(elements.dependencies[condition])
            if is_online and _is_minus_infinity(elements, hidden):
                yield condition


def _is_minus_infinity(elements: ElementGraph, ref: ElementRef) -> bool:
    expr = elements.defined(ref)
    if not isinstance(expr, SplatExpr) or not ref.element.is_float:
        return False
    return bool(scalar.from_bits(ref.element, np.array(expr.bits)) == -inf)


def _shown(schedule: KernelSchedule, mask: ElementRef) -> float:
    """The part of the blocks in which a mask may hold somewhere; 1 if that depends on elements."""
    axes = sorted(schedule.elements.dependencies[mask], key=lambda axis: axis.name)
    corners: dict[Atom, Array] = {}
    for n, axis in enumerate(axes):
        count, lanes = schedule.blocks(axis), schedule.lanes.get(axis, 1)
        blocks = np.unique(np.linspace(0, count - 1, min(count, MOST_BLOCKS)).astype(np.int32))
        first = np.stack([blocks, np.minimum(blocks + 1, count)]) * lanes
        first[1] = np.minimum(first[1], axis.size) - 1
        # The first and last of each block, then the blocks, of each axis.
        shape = [1] * 2 * len(axes)
        shape[n], shape[len(axes) + n] = first.shape
        corners[axis] = first.reshape(shape)
    held = _Values(schedule.elements, corners).of(mask)
    if held is None:
        return 1.0
    return float(held.any(axis=tuple(range(len(axes)))).mean())


class _Values:
    """Elements that depend on indices alone."""

    def __init__(self, elements: ElementGraph, indices: Mapping[Atom, Array]):
        self._elements = elements
        self._indices = indices

    def of(self, ref: ElementRef) -> Array | None:
        expr = self._elements.defined(ref)
        if isinstance(expr, SplatExpr):
            return scalar.from_bits(ref.element, np.array(expr.bits))
        if isinstance(expr, IndexValue):
            index = self._index(expr.index)
            return None if index is None else index.astype(scalar.storage(ref.element))
        if isinstance(expr, Pointwise):
            operands = [self.of(operand) for operand in expr.operands]
            known = [value for value in operands if value is not None]
            return scalar.evaluate(expr.op, *known) if len(known) == len(operands) else None
        return None

    def _index(self, index: IndexExpr) -> Array | None:
        total = np.array(index.constant)
        for atom, n in index.terms:
            value = self._atom(atom)
            if value is None:
                return None
            total = total + n * value
        return total

    def _atom(self, atom: Atom) -> Array | None:
        if isinstance(atom, Axis):
            return self._indices.get(atom)
        if not isinstance(atom, (Quotient, Remainder)):
            return None
        value = self._index(atom.dividend)
        if value is None:
            return None
        return value // atom.divisor if isinstance(atom, Quotient) else value % atom.divisor
