"""The passes of each compile, in order."""

from __future__ import annotations

from iris.ir.core import Level
from iris.passes import Pass, Pipeline
from iris.passes.metal.block_swizzle import BlockSwizzle
from iris.passes.metal.fuse_register_loops import FuseRegisterLoops
from iris.passes.metal.preload_fragments import PreloadFragments
from iris.passes.metal.serpentine_fragments import SerpentineFragments
from iris.passes.tile.layouts import ChooseSimdgroups
from iris.passes.tile.lowering import LowerToMetal
from iris.passes.tile.pipeline_loads import PipelineLoads

# Masks are followed first: until then a masked element has no value.
TILE_PIPELINE = Pipeline.parse(
    "follow-masks,fold,canonicalize,recover-blocks,cse,licm,dce,skip-neutral,check-target"
)
# What Metal IR still needs before it has a text.
TEXT_PIPELINE = Pipeline.parse(
    "check-resources,choose-register-shapes,reuse-registers,mark-divisors,mark-nowrap"
)
# Each pass is there because kernels come out worse without it.
METAL_PIPELINE = Pipeline.parse(
    f"{TILE_PIPELINE},expand-math,relax-nans,fast-math,split-interior,licm,"
    "choose-simdgroups,stage-dots,pipeline-loads,assign-layouts,"
    "lower-to-metal,async-copies,fold,canonicalize,cse,licm,"
    "fuse-register-loops,fold,canonicalize,cse,licm,dce,simplify-extrema,"
    "spill-to-threadgroup,async-copies,share-barriers,allocate-threadgroup,insert-barriers,"
    f"wait-for-copies,spread-copies,{TEXT_PIPELINE}"
)
# What becomes of a kernel by thread: its barriers and memory stay as they are.  What is hoisted at
# first meets its equals of before and after the loop; what these make invariant is hoisted, too.
THREAD_PIPELINE = Pipeline.parse(f"fold,expand-math,canonicalize,licm,cse,licm,dce,{TEXT_PIPELINE}")
# What leads from the traced program to each level.
PIPELINES = {Level.TILE: TILE_PIPELINE, Level.METAL: METAL_PIPELINE}
GRAPH_PIPELINE = Pipeline.parse(
    "canonicalize,fold,cse,simplify,cse,dce,expand-scatter,collect-scatter,"
    "split-reductions,fuse,schedule"
)


def pipeline_to(
    level: Level,
    *,
    num_simdgroups: int | None,
    num_stages: int | None,
    swizzle: int | None,
    serpentine: bool,
    preload: bool,
) -> Pipeline:
    """What leads to a level from the traced program, as a launch asks for it (see `Options`)."""

    def chosen(usual: Pass) -> tuple[Pass, ...]:
        """What runs in place of a pass of the usual pipeline."""
        if isinstance(usual, ChooseSimdgroups):
            return (ChooseSimdgroups(count=num_simdgroups or 0),)
        if isinstance(usual, PipelineLoads) and num_stages is not None:
            return (PipelineLoads(always=True, depth=num_stages),)
        if isinstance(usual, LowerToMetal) and swizzle is not None:
            return usual, BlockSwizzle(swizzle)
        if isinstance(usual, FuseRegisterLoops):
            ahead = (PreloadFragments(),) if preload else ()
            order = (SerpentineFragments(),) if serpentine else ()
            return usual, *ahead, *order
        return (usual,)

    return Pipeline(tuple([p for usual in PIPELINES[level] for p in chosen(usual)]))
