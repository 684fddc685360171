"""Passes over Graph IR; the last one lowers it to Tile IR."""

from iris.passes.graph import (
    collect_scatter,
    expand_scatter,
    fuse,
    graph_to_tile,
    schedule,
    simplify,
    split_reductions,
)

__all__ = [
    "collect_scatter",
    "expand_scatter",
    "fuse",
    "graph_to_tile",
    "schedule",
    "simplify",
    "split_reductions",
]
