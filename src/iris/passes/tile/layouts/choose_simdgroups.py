"""Choose how many simdgroups run a program."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iris.errors import PipelineError
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.level_types import simdgroups_of_layouts
from iris.ir.metal import SIMDGROUP_WIDTH, VECTOR_BYTES
from iris.ir.tile import Dot, TileOp
from iris.ir.types import Tile
from iris.passes.pipeline import TargetPass
from iris.passes.tile.layouts.fragments import (
    Arrangement,
    blocks_of_tensors,
    choose_blocks,
    is_divided,
)
from iris.targets import DEFAULT, Target

# A thread holds as much of the largest tile as two accesses move, so that one access is in flight
# while the data of the other is used.
PER_THREAD_BYTES = 2 * VECTOR_BYTES
USUAL_SIMDGROUPS = 8
# More simdgroups than the usual ones run a program of which a thread would hold more than this:
# several programs then do not fit a core's registers.
MOST_THREAD_BYTES = 8 * VECTOR_BYTES


@dataclass(frozen=True)
class ChooseSimdgroups(TargetPass):
    """Decide how many simdgroups run a program: as many as its tiles are laid out for, else
    `count`, else the number of the function, else as many as its largest tile keeps busy without
    computing a part of a matrix product twice.

    func tile @double(%X: ptr<f32>) { ... tile<512xf32> ... }

    becomes

    func tile @double simdgroups=2(%X: ptr<f32>) { ... }
    """

    name = "choose-simdgroups"
    level = TileOp.level
    count: int = 0

    def run(self, module: Module) -> None:
        if self.count not in (0, 1, 2, 4, 8, 16, 32):
            raise PipelineError(
                f"choose-simdgroups: count is a power of two from 1 to 32, not {self.count}"
            )
        for function in module:
            if isinstance(function, Func):
                function.set_simdgroups(
                    simdgroups_of_layouts(function)
                    or self.count
                    or function.simdgroups
                    or simdgroups_of(function, self.target)
                )


def simdgroups_of(function: Func, target: Target) -> int:
    """How many simdgroups the largest tile of a function keeps busy, without computing a part of a
    matrix product twice."""
    ops = function.walk()
    tiles = (v.type for op in ops for v in op.results if isinstance(v.type, Tile))
    largest = max((prod(t.shape) * t.element.bytes for t in tiles), default=0)
    count = simdgroups_for(largest, target)
    return min(count, most_simdgroups(function, target))


def most_simdgroups(function: Func, target: Target = DEFAULT) -> int:
    """How many simdgroups can run a function without computing a part of a matrix product twice."""
    products = [op for op in function.walk() if isinstance(op, Dot) and is_divided(op)]
    count = USUAL_SIMDGROUPS if products else target.max_threads // SIMDGROUP_WIDTH

    def blocks(op: Dot) -> Arrangement:
        return blocks_of_tensors(op, count, target) or choose_blocks(op, count)

    while any(blocks(op).copies > 1 for op in products):
        count //= 2
    return count


def simdgroups_for(largest: int, target: Target) -> int:
    """How many simdgroups the largest tile of a program keeps busy, by its bytes."""
    count, most = 1, target.max_threads // SIMDGROUP_WIDTH
    while count < most:
        enough = PER_THREAD_BYTES if count < USUAL_SIMDGROUPS else MOST_THREAD_BYTES
        if count * SIMDGROUP_WIDTH * enough >= largest:
            break
        count *= 2
    return count
