"""Passes over Tile IR; the last one lowers it to Metal IR."""

from iris.passes.tile import (
    check_target,
    fast_math,
    follow_masks,
    layouts,
    lowering,
    pipeline_loads,
    recover_blocks,
    relax_nans,
    skip_neutral,
    split_interior,
    stage_dots,
)

__all__ = [
    "check_target",
    "fast_math",
    "follow_masks",
    "layouts",
    "lowering",
    "pipeline_loads",
    "recover_blocks",
    "relax_nans",
    "skip_neutral",
    "split_interior",
    "stage_dots",
]
