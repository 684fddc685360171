"""Lower tile programs to the program of one thread; one rule per op of Tile IR."""

from iris.passes.tile.lowering import (
    convert_layout,
    lower_access,
    lower_atomics,
    lower_control,
    lower_dot,
    lower_elementwise,
    lower_flip,
    lower_gather,
    lower_pick,
    lower_reduce,
    lower_report,
    lower_scan,
    staging,
)
from iris.passes.tile.lowering.lower_to_metal import LowerToMetal

__all__ = [
    "LowerToMetal",
    "convert_layout",
    "lower_access",
    "lower_atomics",
    "lower_control",
    "lower_dot",
    "lower_elementwise",
    "lower_flip",
    "lower_gather",
    "lower_pick",
    "lower_reduce",
    "lower_report",
    "lower_scan",
    "staging",
]
