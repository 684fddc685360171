"""Passes: one a module.  Importing this room registers all of them by name."""

from iris.passes import (
    canonicalize,
    cse,
    dce,
    fold,
    follow_masks,
    fuse_register_loops,
    insert_barriers,
    layouts,
    licm,
    lowering,
    recover_blocks,
    registers,
    uniform_conditions,
)
from iris.passes.manager import Instrument, run
from iris.passes.pipeline import PASSES, Pass, Pipeline

__all__ = [
    "PASSES",
    "Instrument",
    "Pass",
    "Pipeline",
    "canonicalize",
    "cse",
    "dce",
    "fold",
    "follow_masks",
    "fuse_register_loops",
    "insert_barriers",
    "layouts",
    "licm",
    "lowering",
    "recover_blocks",
    "registers",
    "run",
    "uniform_conditions",
]
