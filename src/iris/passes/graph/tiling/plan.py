"""Plans: a schedule in terms of the axes of the final programs, loops and lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import ElementRef, Within
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr


@dataclass
class Plan:
    """A kernel's elements in terms of its final axes.

    Programs and loops go over scalar axes.  A tile has an element for each of its lanes.  Some
    lanes are past the end where the size of an axis is no multiple of its block.
    """

    elements: ElementGraph
    programs: tuple[Axis, ...] = ()  # the outermost first
    loops: tuple[Axis, ...] = ()  # of the outputs, within a program
    lanes: dict[Axis, int] = field(default_factory=dict)  # how many a tile has
    ends: dict[Axis, Within] = field(default_factory=dict)  # which lanes are not past the end
    blocks: Mapping[Axis, AxisBlock] = field(
        default_factory=dict
    )  # of scalar axes that count blocks

    @property
    def grid(self) -> tuple[int, int, int]:
        """How many programs there are, neighbours along the first axis."""
        sizes = [axis.size for axis in reversed(self.programs)]
        while len(sizes) > 3:
            *sizes, last, outermost = sizes
            sizes.append(last * outermost)
        x, y, z = (*sizes, 1, 1, 1)[:3]
        return x, y, z

    @property
    def program_count(self) -> int:
        """How many programs there are; none if the outputs are empty."""
        return prod(axis.size for axis in self.programs)

    def lanes_of(self, ref: ElementRef) -> int:
        """How many elements a tile of an element has."""
        lanes = self.lanes
        return prod([lanes.get(axis, 1) for axis in self.elements.dependencies[ref]])

    def offset_along(self, axes: Sequence[Axis]) -> IndexExpr:
        """The offset along the original axis that was split into some axes."""
        offset = IndexExpr()
        for axis in axes:
            block = self.blocks.get(axis)
            offset = offset + IndexExpr.of(axis) * (1 if block is None else block.size)
        return offset


@dataclass(frozen=True)
class AxisBlock:
    """The block size of a scalar axis, and the size of the axis that was split."""

    size: int
    extent: int
