"""From whole tiles to what one thread does: one rule per op of Tile IR."""

from iris.passes.tile.lowering import (
    access,
    atomics,
    combine,
    control,
    dots,
    elementwise,
    move,
    report,
    scans,
    staging,
)
from iris.passes.tile.lowering.lower import LowerToMetal

__all__ = [
    "LowerToMetal",
    "access",
    "atomics",
    "combine",
    "control",
    "dots",
    "elementwise",
    "move",
    "report",
    "scans",
    "staging",
]
