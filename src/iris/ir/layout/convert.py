"""Conversions: moving a value held in one distributed layout to another.

A conversion is its *pull map*: for each destination location, the source location to read. With
replicas there is a choice, and the nearest is taken. Deciding bit by bit loses nothing: whether a
class of movement can serve every location depends only on whether it can serve those with one bit
set, because what a class can reach is a subspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np

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


class Movement(IntEnum):
    """How far a conversion moves values, cheapest first."""

    NOTHING = 0  # the same function of the same locations: the value serves as it is
    REGISTERS = 1  # every lane renames (or selects among) its own registers
    SHUFFLE = 2  # lanes of one simdgroup read each other
    THREADGROUP = 3  # simdgroups exchange, through threadgroup memory


@dataclass(frozen=True, slots=True)
class Conversion:
    """Where each destination location reads: src.compose(pull) == dst.

    For a SHUFFLE, `shuffles` counts the shuffle instructions of the plain lowering: one per
    register read from other lanes, a register chosen by the reading lane being read in every
    version it may choose (then selected). `xor`: the lane to read is the own lane number xor a mask
    that depends on the register and simdgroup only, which is far cheaper than an index per lane.
    """

    pull: LinearLayout
    movement: Movement
    shuffles: int = 0
    xor: bool = False

    @property
    def through_memory(self) -> bool:
        """Whether it goes through threadgroup memory: as it must, or as shuffles take longer.

        A shuffle by xor takes 3.7 cycles, one by a lane's own index about 30; each way through
        memory takes about as long as a shuffle by xor for each register, and there is a barrier
        between.
        """
        if self.movement is not Movement.SHUFFLE:
            return self.movement is Movement.THREADGROUP
        shuffle = 1 if self.xor else 8
        registers = self.pull.size(REGISTER) + max(self.pull.shape[0], 1)
        return self.shuffles * shuffle > registers + 16


@lru_cache(maxsize=4096)
def convert(src: LinearLayout, dst: LinearLayout) -> Conversion:
    """The conversion of the least possible `Movement` from `src` to `dst`.

    >>> src = LinearLayout.of((4,), register=[1], lane=[2], simdgroup=[])
    >>> dst = LinearLayout.of((4,), register=[2], lane=[1], simdgroup=[])
    >>> str(convert(src, dst).pull)
    'linear<2x2x1, register=[(0,1,0)], lane=[(1,0,0)], simdgroup=[]>'
    """
    check_hardware(src)
    check_hardware(dst)
    if (src.shape, src.sizes[1:]) != (dst.shape, dst.sizes[1:]):
        raise LayoutError(
            f"a conversion keeps the shape and the numbers of lanes and simdgroups: {src} to {dst}"
        )
    if not src.is_surjective:
        raise LayoutError(f"cannot convert from {src}: it does not hold every element")
    near = [Span(src.columns[: sum(map(src.bits, HARDWARE[:n]))]) for n in range(4)]
    movement = Movement.NOTHING if src.sizes == dst.sizes else Movement.REGISTERS
    bases, offset = [], 0
    for dim in HARDWARE:
        images, own = [], src.columns_of(dim)
        for bit, column in enumerate(dst.columns_of(dim)):
            # Start from the location of the same name and correct it by the nearest bits that can.
            home = (1 << offset + bit, own[bit]) if bit < len(own) else (0, 0)
            for reach in Movement:
                move = near[reach].combination(home[1] ^ column)
                if move is not None:
                    images.append(src.split(home[0] ^ move))
                    movement = max(movement, reach)
                    break
        bases.append((dim, tuple(images)))
        offset += len(own)
    pull = LinearLayout(tuple(bases), src.sizes)
    if movement is Movement.SHUFFLE:
        return Conversion(pull, movement, _shuffles(pull), _is_xor(pull))
    return Conversion(pull, movement)


def _is_xor(pull: LinearLayout) -> bool:
    return all(image[1] == 1 << bit for bit, image in enumerate(pull.images(LANE)))


def _shuffles(pull: LinearLayout) -> int:
    bases = dict(pull.bases)
    versions = {0}  # of the source register, among the lanes of one simdgroup
    for register, _, _ in bases[LANE]:
        versions |= {v ^ register for v in versions}
    in_place = _is_xor(pull) and not any(lane for _, lane, _ in bases[SIMDGROUP])
    registers = np.arange(pull.size(REGISTER))
    sources, lanes, _ = pull.apply(register=registers, lane=0, simdgroup=0)
    reads = {
        (source ^ version, lane)
        for source, lane in zip(sources.tolist(), lanes.tolist(), strict=True)
        if lane or not in_place
        for version in versions
    }
    return len(reads)
