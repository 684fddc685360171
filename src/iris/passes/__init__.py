"""Passes: one a module, in a room for each level of IR.  Importing this registers all of them by
name."""

from iris.passes import generic, graph, metal, tile
from iris.passes.manager import Instrument, run
from iris.passes.pipeline import PASSES, Pass, Pipeline

__all__ = [
    "PASSES",
    "Instrument",
    "Pass",
    "Pipeline",
    "generic",
    "graph",
    "metal",
    "run",
    "tile",
]
