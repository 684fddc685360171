"""How a kernel is cut up: what its programs, loops and lanes go over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iris.passes.graph.tiling.demand import Within
from iris.passes.graph.tiling.demands import Demands
from iris.passes.graph.tiling.index import Axis, Index

MOST_DIMENSIONS = 3  # of a tile


@dataclass
class Plan:
    """A kernel's demands in terms of the axes that it has in the end.

    Programs and loops go over scalar axes.  A tile has an element for each of its lanes; where the
    size of what was cut up is no power of two, or no multiple of one, some lanes are over its end.
    """

    demands: Demands
    programs: tuple[Axis, ...] = ()  # the outermost first
    loops: tuple[Axis, ...] = ()  # of the outputs, within a program
    lanes: dict[Axis, int] = field(default_factory=dict)  # how many a tile has
    ends: dict[Axis, Within] = field(default_factory=dict)  # which lanes are not over the end
    blocks: Mapping[Axis, Block] = field(default_factory=dict)  # of scalar axes that count blocks

    @property
    def grid(self) -> tuple[int, int, int]:
        """How many programs there are, those next to each other along the first axis."""
        sizes = [axis.size for axis in reversed(self.programs)]
        while len(sizes) > 3:
            *sizes, last, outermost = sizes
            sizes.append(last * outermost)
        x, y, z = (*sizes, 1, 1, 1)[:3]
        return x, y, z

    def place(self, axes: Sequence[Axis]) -> Index:
        """Where along what was cut up into some axes."""
        found = Index()
        for axis in axes:
            block = self.blocks.get(axis)
            found = found + Index.of(axis) * (1 if block is None else block.size)
        return found


@dataclass(frozen=True)
class Block:
    """What a scalar axis counts: so many elements at a time, of so many."""

    size: int
    whole: int
