"""What must hold of random programs and devices: what `iris fuzz` looks for violations of.

    PROPERTIES["agree"].holds(drawn, seconds=5)     # or an error that shows the smallest program

A property draws from a strategy, and says of some drawn at once whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st

from iris.compiler.compilation import GRAPH_PIPELINE, TILE_PIPELINE
from iris.errors import UsageError
from iris.ir.core import Level
from iris.passes import Pipeline
from iris.testing import launches, programs, sources
from iris.testing.fusing import fuses
from iris.testing.levels import agree
from iris.testing.oracles import all_preserve
from iris.testing.scripts import conforms
from iris.testing.simdgroups import interleaves, orders
from iris.testing.texts import runs_alike
from iris.tools.replay import Program

Strategy = st.SearchStrategy[Any]


@dataclass(frozen=True)
class Property:
    """Something that must hold of whatever a strategy draws.

    It can be sent to another process: both are functions of a module, maybe with arguments.
    """

    name: str
    level: Level | None  # of its programs; None for scripts of launches
    draw: Callable[[], Strategy]
    #: Raises an error if it does not hold of one of some, shown as small as it gets in seconds.
    holds: Callable[[Sequence[Any], float], None]
    together: int = 1  # how many are best looked at together
    device: str | None = None  # which it needs


def preserved(passes: str, level: Level) -> Property:
    """That passes keep what programs of a level do."""
    draw = {Level.TILE: programs.tile, Level.GRAPH: programs.graph, Level.METAL: programs.metal}
    return Property(f"{passes} preserves", level, draw[level], partial(_all_preserve, [passes]))


def level_of(passes: str) -> Level:
    """The level at which passes run: that of the first that is not of any."""
    levels = [pass_.level for pass_ in Pipeline.parse(passes) if pass_.level is not None]
    return levels[0] if levels else Level.TILE
