"""Passes: one a module.  Importing this room registers all of them by name."""

from iris.passes import (
    allocate_threadgroup,
    canonicalize,
    check_resources,
    cse,
    dce,
    expand_math,
    fold,
    follow_masks,
    fuse_register_loops,
    insert_barriers,
    layouts,
    licm,
    lowering,
    recover_blocks,
    registers,
    split_interior,
    uniform_conditions,
)
from iris.passes.manager import Instrument, run
from iris.passes.pipeline import PASSES, Pass, Pipeline

__all__ = [
    "PASSES",
    "Instrument",
    "Pass",
    "Pipeline",
    "allocate_threadgroup",
    "canonicalize",
    "check_resources",
    "cse",
    "dce",
    "expand_math",
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
    "split_interior",
    "uniform_conditions",
]
