"""Passes: one a module.  Importing this room registers all of them by name."""

from iris.passes import canonicalize, cse, dce, fold, follow_masks, licm, recover_blocks
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
    "licm",
    "recover_blocks",
    "run",
]
