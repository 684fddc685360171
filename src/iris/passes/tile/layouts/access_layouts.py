"""Layouts for coalesced access and for scans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

from iris.ir.layout.linear import HARDWARE, LANE, REGISTER, SIMDGROUP, LinearLayout, log2
from iris.ir.metal import SIMDGROUP_WIDTH

_FEW = 32  # totals that a thread may always read


@lru_cache(maxsize=4096)
def coalesced(
    shape: tuple[int, ...], order: tuple[int, ...], vector: int, simdgroups: int
) -> LinearLayout:
    """Neighbours along `order[0]` in `vector` registers, then in lanes, then along the other axes;
    simdgroups along the last axis of `order` first, so that the others stay within one.

    >>> str(coalesced((2, 64), (1, 0), 2, 2))
    'linear<2x64, register=[(0,1)], lane=[(0,2), (0,4), (0,8), (0,16), (0,32)], simdgroup=[(1,0)]>'
    """
    threads = SIMDGROUP_WIDTH * simdgroups
    vector = min(vector, shape[order[0]], max(1, prod(shape) // threads))
    per_thread = [vector if axis == order[0] else 1 for axis in range(len(shape))]
    left = [size // p for size, p in zip(shape, per_thread, strict=True)]
    lanes = _factor(SIMDGROUP_WIDTH, left, order)
    left = [max(1, size // n) for size, n in zip(left, lanes, strict=True)]
    groups = _factor(simdgroups, left, order[::-1])
    return LinearLayout.blocked(
        shape, per_thread=per_thread, lanes=lanes, simdgroups=groups, order=order
    )


@lru_cache(maxsize=4096)
def run_along(layout: LinearLayout, axis: int) -> int:
    """How many of the first registers hold neighbours along an axis, in order, in every thread.

    >>> run_along(LinearLayout.of((8,), register=[1, 2], lane=[4], simdgroup=[]), 0)
    4
    >>> run_along(LinearLayout.of((8,), register=[1, 2], lane=[6], simdgroup=[]), 0)
    2
    """
    size, step = layout.shape[axis], prod(layout.shape[axis + 1 :])
    seen = repeated = 0  # bits of the coordinate: those that several bits of a location change
    for column in layout.columns:
        image = column // step & (size - 1)
        repeated |= seen & image
        seen |= image
    count = 1
    for column in layout.columns_of(REGISTER):
        # With a repeated bit some threads would have the neighbours in another order.
        if count == size or column != count * step or repeated & count:
            break
        count *= 2
    return count


def _factor(count: int, capacity: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Factor a number over axes, up to the capacity of each; the rest goes to the first axis, as
    replicas."""
    factors = [1] * len(capacity)
    for axis in axes:
        factors[axis] = min(count, capacity[axis])
        count //= factors[axis]
    factors[axes[0]] *= count
    return factors


@lru_cache(maxsize=4096)
def pickable(layout: LinearLayout, axis: int) -> LinearLayout:
    """A layout in which each bit of a location that goes along an axis is a bit of the index there,
    and of nothing else: the same if it is one.

    >>> str(pickable(LinearLayout.of((2, 2), register=[(1, 1)], lane=[(1, 0)], simdgroup=[]), 0))
    'linear<2x2, register=[], lane=[(0,1), (1,0), (0,0), (0,0), (0,0)], simdgroup=[]>'
    """
    steps = [image for dim in HARDWARE for image in layout.images(dim) if image[axis]]
    wanted = [
        tuple(1 << b if a == axis else 0 for a in range(layout.rank)) for b in range(len(steps))
    ]
    if sorted(steps) == wanted:
        return layout
    order = tuple(reversed(range(layout.rank)))
    return coalesced(layout.shape, order, 1, layout.size(SIMDGROUP))


class ScanBits(NamedTuple):
    """The bits of a location that go along an axis, from the lowest step to the highest."""

    run: tuple[int, ...]  # of the register, within what a thread holds together
    lane: tuple[int, ...]
    simdgroup: tuple[int, ...]
    repeat: tuple[int, ...]  # of the register, between what all threads hold together


@lru_cache(maxsize=4096)
def scan_bits(layout: LinearLayout, axis: int) -> ScanBits | None:
    """The bits along an axis, if its steps go to registers, lanes, simdgroups and again registers,
    in order, and neighbouring steps to neighbouring bits of lane and simdgroup.

    >>> scan_bits(coalesced((512,), (0,), 4, 2), 0)
    ScanBits(run=(0, 1), lane=(0, 1, 2, 3, 4), simdgroup=(0,), repeat=(2,))
    >>> scan_bits(coalesced((8, 8), (0, 1), 1, 1), 1)
    ScanBits(run=(), lane=(3, 4), simdgroup=(), repeat=(0,))
    """
    steps = sorted(
        (image, dim, bit)
        for dim, images in layout.bases
        for bit, image in enumerate(images)
        if image[axis]
    )
    unit = [
        tuple(1 << b if a == axis else 0 for a in range(layout.rank)) for b in range(len(steps))
    ]
    if [image for image, _, _ in steps] != unit or 1 << len(steps) != layout.shape[axis]:
        return None
    dims = [dim for _, dim, _ in steps]
    run = next((n for n, dim in enumerate(dims) if dim != REGISTER), len(dims))
    lanes, groups = dims.count(LANE), dims.count(SIMDGROUP)
    rest = len(dims) - run - lanes - groups
    if dims[run:] != [LANE] * lanes + [SIMDGROUP] * groups + [REGISTER] * rest:
        return None
    bits = [bit for _, _, bit in steps]
    ends = (0, run, run + lanes, run + lanes + groups, len(bits))
    found = ScanBits(*[tuple(bits[start:end]) for start, end in pairwise(ends)])
    for neighbours in (found.lane, found.simdgroup):
        if any(b != a + 1 for a, b in pairwise(neighbours)):
            return None
    return found


@lru_cache(maxsize=4096)
def scannable(layout: LinearLayout, axis: int) -> LinearLayout:
    """A layout with `scan_bits`: the same if it has them and a thread then reads few totals of
    simdgroups; else one where the bits of the axis go to registers, lanes and simdgroups, in order.

    Each dimension keeps as many bits of the axis as it has, where possible.
    """
    bits = scan_bits(layout, axis)
    if bits is not None and _totals_per_thread(layout, bits) <= max(layout.size(REGISTER), _FEW):
        return layout
    size = log2(layout.shape[axis])
    unit = [1 << b for b in range(size)]

    def along(image: tuple[int, ...]) -> bool:
        return image[axis] != 0

    counts = {dim: sum(map(along, images)) for dim, images in layout.bases}
    others = _other_steps(layout, axis)
    # Bits of the axis beyond those of lanes and simdgroups are registers.
    placed = min(size, counts[LANE] + counts[SIMDGROUP])
    counts[REGISTER] = size - placed
    counts[LANE] = min(counts[LANE], placed)
    counts[SIMDGROUP] = placed - counts[LANE]
    bases: dict[str, list[tuple[int, ...]]] = {}
    start = 0
    rank = layout.rank
    for dim in HARDWARE:
        own = unit[start : start + counts[dim]]
        start += counts[dim]
        bases[dim] = [tuple(step if a == axis else 0 for a in range(rank)) for step in own]
    free = {dim: layout.bits(dim) - len(bases[dim]) for dim in (LANE, SIMDGROUP)}
    for dim in (LANE, SIMDGROUP):
        take = others[: free[dim]]
        others = others[free[dim] :]
        bases[dim] += take + [(0,) * rank] * (free[dim] - len(take))
    bases[REGISTER] += others
    return LinearLayout(tuple((dim, tuple(bases[dim])) for dim in HARDWARE), layout.shape)


def _totals_per_thread(layout: LinearLayout, bits: ScanBits) -> int:
    """How many totals of runs a thread reads, those of all simdgroups along the axis."""
    if not bits.simdgroup:
        return 0
    return layout.size(REGISTER) >> len(bits.run) << len(bits.simdgroup)


def _other_steps(layout: LinearLayout, axis: int) -> list[tuple[int, ...]]:
    """The steps along the other axes, the fastest first."""
    steps = []
    for other in reversed(range(layout.rank)):
        if other != axis:
            for bit in range(log2(layout.shape[other])):
                steps.append(tuple(1 << bit if a == other else 0 for a in range(layout.rank)))
    return steps
