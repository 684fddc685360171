"""Reductions of a value in a distributed layout: who must combine with whom.

Drop the reduced axis from the layout: the locations of one element of the result are those that
differ by the kernel of what is left. Modulo replicas (the kernel of the layout itself) that kernel
counts each summand once. Its register part folds inside a thread, its lane part is a butterfly of
shuffle-xors, its simdgroup part goes through threadgroup memory. Where it joins kinds (an element's
neighbour lies in another lane *and* another register), the value is converted first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from iris.errors import LayoutError
from iris.ir.layout.linear import (
    HARDWARE,
    LANE,
    REGISTER,
    SIMDGROUP,
    LinearLayout,
    Span,
    check_hardware,
)


@dataclass(frozen=True, slots=True)
class Reduction:
    """The steps of a reduction, in order; after them every location holds its result.

    1. If `operand` is not the layout at hand, convert to it. (Never across simdgroups.)
    2. Register i of the result combines the operand's registers `registers[i]`.
    3. For each of `lane_masks`: combine with lane ^ mask.
    4. If any: combine over simdgroup ^ m, for every m in the span of `simdgroup_masks`. Or combine
       one partial result of each number: `partials` maps a location to the number of its own.
    """

    operand: LinearLayout
    registers: tuple[tuple[int, ...], ...]
    lane_masks: tuple[int, ...]
    simdgroup_masks: tuple[int, ...]
    partials: LinearLayout
    result: LinearLayout


@lru_cache(maxsize=4096)
def reduce_axis(layout: LinearLayout, axis: int) -> Reduction:
    """How to reduce `axis`; the result drops it, or has shape (1,) when it was the only one.

    The result has no register that repeats another; lanes and simdgroups that took part are its
    replicas.

    >>> from iris.ir.layout.linear import APPLE_FRAGMENT
    >>> rows = reduce_axis(APPLE_FRAGMENT, 1)
    >>> rows.registers, rows.lane_masks, str(rows.result)
    (((0, 1),), (1, 8), 'linear<8, register=[], lane=[0, 1, 2, 0, 4], simdgroup=[]>')
    """
    check_hardware(layout)
    if not 0 <= axis < layout.rank:
        raise LayoutError(f"axis {axis} is outside 0..{layout.rank - 1} for {layout}")
    if not layout.is_surjective:
        raise LayoutError(f"cannot reduce {layout}: it does not hold every element")
    kernel = _Kernel.of(layout, axis)
    if kernel.mixed:
        layout = layout.compose(_shear(layout, kernel))
        kernel = _Kernel.of(layout, axis)
    repeats = {mask.bit_length() - 1 for mask in kernel.pure[REGISTER]}
    kept = [bit for bit in range(layout.bits(REGISTER)) if bit not in repeats]
    folds = _sums(kernel.summands[REGISTER])
    registers = (tuple(sorted(base ^ f for f in folds)) for base in _sums(1 << k for k in kept))
    inputs = dict(kernel.dropped.inputs)
    inputs[REGISTER] = tuple([inputs[REGISTER][bit] for bit in kept])
    return Reduction(
        operand=layout,
        registers=tuple(registers),
        lane_masks=kernel.summands[LANE],
        simdgroup_masks=kernel.summands[SIMDGROUP],
        partials=_partials(layout, kernel, kept),
        result=LinearLayout.of_inputs(inputs.items(), kernel.dropped.shape),
    )


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The kernel of a layout without its reduced axis, taken apart by kind of movement."""

    dropped: LinearLayout
    pure: dict[str, tuple[int, ...]]  # all of it inside one dimension, replicas included
    summands: dict[str, tuple[int, ...]]  # what of that is not a replica of something nearer
    mixed: tuple[int, ...]  # what is left: masks over all input bits, nearest kinds first

    @classmethod
    def of(cls, layout: LinearLayout, axis: int) -> _Kernel:
        dropped = layout.slice(axis) if layout.rank > 1 else layout.expand(1).slice(0)
        pure = {dim: tuple(Span(dropped.columns_of(dim)).relations) for dim in HARDWARE}
        known, offset = Span(Span(layout.columns).relations), 0
        summands = {}
        for dim in HARDWARE:
            summands[dim] = tuple(mask for mask in pure[dim] if known.add(mask << offset))
            offset += layout.bits(dim)
        # A relation is one dependent bit and the independent ones before it: no nearer form exists.
        mixed = (mask for mask in Span(dropped.columns).relations if known.add(mask))
        return cls(dropped, pure, summands, tuple(mixed))


def _shear(layout: LinearLayout, kernel: _Kernel) -> LinearLayout:
    """A change of location, S, such that the reduced kernel of layout.compose(S) is not mixed.

    A mixed vector of registers and lanes becomes its register part: half the registers are read
    from other lanes by shuffle-xor, and then fold. One that touches simdgroups becomes its
    simdgroup part, since simdgroups meet in threadgroup memory anyway and so must do it only once.
    S adds to a location the rest of the vector, and leaves what is pure already alone.
    """
    lane_offset = layout.bits(REGISTER)
    simdgroup_offset = lane_offset + layout.bits(LANE)
    far = tuple(mask for mask in kernel.mixed if mask >> simdgroup_offset)
    near = tuple(mask for mask in kernel.mixed if not mask >> simdgroup_offset)

    def images(dim: str, offset: int, mixed: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        own = layout.size(dim) - 1 << offset
        units = [1 << offset + bit for bit in range(layout.bits(dim))]
        pure = [mask << offset for mask in kernel.pure[dim]]
        span = Span([*(mask & own for mask in mixed), *pure, *units])
        locations = []
        for unit in units:
            combination = span.combination(unit) or 0
            for i, mask in enumerate(mixed):
                if combination >> i & 1:
                    unit ^= mask & ~own
            locations.append(layout.split(unit))
        return tuple(locations)

    return LinearLayout(
        (
            (REGISTER, images(REGISTER, 0, near)),
            (LANE, images(LANE, lane_offset, ())),
            (SIMDGROUP, images(SIMDGROUP, simdgroup_offset, far)),
        ),
        layout.sizes,
    )


def _partials(layout: LinearLayout, kernel: _Kernel, kept: Iterable[int]) -> LinearLayout:
    """Number the partial results: locations that hold the same one share a number, and simdgroups
    that differ by a sum of the masks never do."""
    lane, simdgroup = layout.bits(REGISTER), layout.bits(REGISTER) + layout.bits(LANE)
    alike = [
        *Span(layout.columns).relations,
        *kernel.summands[REGISTER],
        *(mask << lane for mask in kernel.summands[LANE]),
    ]
    masks = [mask << simdgroup for mask in kernel.summands[SIMDGROUP]]
    count = 1 << len(masks)
    span = Span([*alike, *masks, *(1 << bit for bit in range(len(layout.columns)))])

    def number(bit: int) -> int:
        return ((span.combination(1 << bit) or 0) >> len(alike)) & count - 1

    return LinearLayout.of(
        (count,),
        register=[number(bit) for bit in kept],
        lane=[number(lane + bit) for bit in range(layout.bits(LANE))],
        simdgroup=[number(simdgroup + bit) for bit in range(layout.bits(SIMDGROUP))],
    )


def _sums(vectors: Iterable[int]) -> list[int]:
    """Every xor of some of the vectors, in counting order."""
    sums = [0]
    for vector in vectors:
        sums += [s ^ vector for s in sums]
    return sums
