"""What a kernel becomes, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from iris import knobs
from iris.errors import PipelineError
from iris.ir import Level, Module, to_text, verify
from iris.ir.control import Func
from iris.ir.text.diff import diff
from iris.passes import Instrument, Pass, Pipeline, run
from iris.passes.instruments import Check, Dump, Snapshots, write_dump
from iris.passes.metal.block_swizzle import BlockSwizzle
from iris.passes.metal.fuse_register_loops import FuseRegisterLoops
from iris.passes.metal.preload_fragments import PreloadFragments
from iris.passes.metal.serpentine_fragments import SerpentineFragments
from iris.passes.tile.layouts import ChooseSimdgroups
from iris.passes.tile.lowering import LowerToMetal
from iris.passes.tile.pipeline_loads import PipelineLoads
from iris.targets import DEFAULT, Target, find

if TYPE_CHECKING:
    from iris.cost.estimate import Estimate
    from iris.cost.sample import Sizes
    from iris.runtime.device import Device

# Masks are followed first: until then a masked element has no value.
TILE_PIPELINE = Pipeline.parse(
    "follow-masks,fold,canonicalize,recover-blocks,cse,licm,dce,skip-neutral,check-target"
)
# What Metal IR still needs before it has a text.
TEXT_PIPELINE = Pipeline.parse("choose-register-shapes,reuse-registers,mark-nowrap")
# Each pass is there because kernels come out worse without it.
METAL_PIPELINE = Pipeline.parse(
    f"{TILE_PIPELINE},expand-math,relax-nans,fast-math,split-interior,licm,"
    "choose-simdgroups,stage-dots,pipeline-loads,assign-layouts,"
    "lower-to-metal,async-copies,fold,canonicalize,cse,licm,"
    "fuse-register-loops,fold,canonicalize,cse,licm,dce,simplify-extrema,"
    "share-barriers,allocate-threadgroup,insert-barriers,wait-for-copies,check-resources,"
    f"{TEXT_PIPELINE}"
)
# What leads from the traced program to each level.
PIPELINES = {Level.TILE: TILE_PIPELINE, Level.METAL: METAL_PIPELINE}
GRAPH_PIPELINE = Pipeline.parse(
    "canonicalize,fold,cse,simplify,cse,dce,expand-scatter,split-reductions,fuse,schedule"
)


@dataclass(frozen=True)
class Options:
    """What a launch may say of how a kernel is compiled."""

    num_simdgroups: int | None = None  # that run a program together; as many as fit it, if None
    fast_math: bool = False
    num_stages: int | None = (
        None  # buffers for each tile that a loop stages; if None, 2 where that pays
    )
    swizzle: int | None = None  # rows of programs in a group; as they are, if None
    serpentine: bool = False  # every other row of fragments is multiplied backwards
    preload: bool = False  # fragments are loaded a step of their product ahead

    def pipeline(self, level: Level, target: Target = DEFAULT) -> Pipeline:
        """What leads to a level from the traced program."""
        passes = [chosen for p in PIPELINES[level] for chosen in self._chosen(p)]
        return Pipeline(tuple(passes)).on(target)

    def _chosen(self, usual: Pass) -> tuple[Pass, ...]:
        """What runs in place of a pass of the usual pipeline."""
        if isinstance(usual, ChooseSimdgroups):
            return (ChooseSimdgroups(self.num_simdgroups or 0),)
        if isinstance(usual, PipelineLoads) and self.num_stages is not None:
            return (PipelineLoads(always=True, depth=self.num_stages),)
        if isinstance(usual, LowerToMetal) and self.swizzle is not None:
            return usual, BlockSwizzle(self.swizzle)
        if isinstance(usual, FuseRegisterLoops):
            ahead = (PreloadFragments(),) if self.preload else ()
            order = (SerpentineFragments(),) if self.serpentine else ()
            return usual, *ahead, *order
        return (usual,)


def target_of(device: Device | None) -> Target:
    """What to compile for: what the environment names, or else the GPU of a device."""
    name = knobs.target()
    if name is not None:
        return find(name)
    return DEFAULT if device is None else device.target


def optimize(traced: Module, pipeline: Pipeline) -> Module:
    """Run a pipeline, watched by what the environment asks for."""
    watching: list[Instrument] = [Check(verify)] if knobs.check() else []
    module = run(traced, pipeline, [*watching, *dumps()])
    kernel = entry_of(module)
    if kernel.function_level is Level.METAL and {"msl", "changed", "all"} & {*knobs.dump()}:
        from iris.codegen.emitter import emit  # opened when first used

        file = knobs.dump_dir() / kernel.symbol / f"{len(pipeline) + 1:02}-msl.metal"
        write_dump(file, emit(kernel).text)
    return module


def dumps() -> list[Instrument]:
    """The dump that the environment asks for."""
    what = knobs.dump()
    if not what:
        return []
    levels = [level for level in Level if {level.value, "changed", "all"} & {*what}]
    return [Dump(knobs.dump_dir(), everything="all" in what, levels=levels)]


@dataclass(frozen=True)
class Stage:
    """The IR after one pass; the first is what was traced."""

    name: str
    level: Level
    module: Module
    seconds: float
    changed: bool

    @property
    def text(self) -> str:
        return to_text(self.module)


def stages_of(traced: Module, pipeline: Pipeline) -> list[Stage]:
    """What a pipeline makes of a module, pass by pass."""
    snapshots = Snapshots()
    run(traced, pipeline, [snapshots])
    made = []
    for snapshot in snapshots.stages:
        name = "traced" if snapshot.cause is None else snapshot.name
        level = entry_of(snapshot.module).function_level
        made.append(Stage(name, level, snapshot.module, snapshot.seconds, snapshot.changed))
    return made


class Compilation:
    """A kernel lowered for some arguments.

    `print(compilation)` shows the Metal Shading Language; `.stages` has the IR after every pass,
    `.tile` and `.metal` that at the end of each level, `.diff(name)` what one pass changed,
    `.estimate` what it would cost on some GPUs, and `.run(*arguments)` runs the kernel.
    """

    def __init__(
        self,
        traced: Module,
        options: Options,
        launch: Callable[..., Any],
        sizes: Sizes,
        target: Target = DEFAULT,
    ):
        self.traced = traced
        self.options = options
        self._target = target
        self._launch = launch
        self._sizes = sizes

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages, made by running the pipeline again on what was traced."""
        return stages_of(self.traced, self.options.pipeline(Level.METAL, self._target))

    @property
    def tile(self) -> str:
        """The Tile IR at the end of its passes."""
        return self._last(Level.TILE)

    @property
    def metal(self) -> str:
        """The Metal IR at the end of its passes."""
        return self._last(Level.METAL)

    @cached_property
    def msl(self) -> str:
        """The Metal Shading Language."""
        from iris.codegen.emitter import emit  # opened when first used

        return emit(entry_of(self.stages[-1].module)).text

    @cached_property
    def estimate(self) -> Estimate:
        """What the kernel costs on each generation of GPUs, for what it was lowered for."""
        from iris.cost.estimate import estimate  # opened when first used

        return estimate(entry_of(self.stages[-1].module), self._sizes, self._target)

    def _last(self, level: Level) -> str:
        return next(stage.text for stage in reversed(self.stages) if stage.level is level)

    def diff(self, name: str) -> str:
        """What a pass changed, as a diff of IR text; that values are numbered anew is no change."""
        return changed_by(name, self.stages)

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launch the kernel, on the grid that it was lowered for."""
        return self._launch(*arguments, **named)

    def __str__(self) -> str:
        return self.msl


def changed_by(name: str, stages: Sequence[Stage]) -> str:
    """What a pass changed, as a diff of IR text."""
    for before, after in pairwise(stages):
        if after.name == name and after.changed:
            return diff(before.text, after.text, before.name, name)
    names = [stage.name for stage in stages[1:]]
    if name not in names:
        raise PipelineError(f"no pass {name!r} ran; there were {', '.join(names)}")
    return ""


def is_called_as(one: Func, other: Func) -> bool:
    """Whether two functions take and return values of the same types."""
    takes = [[v.type for v in function.body.arguments] for function in (one, other)]
    return takes[0] == takes[1] and one.returns == other.returns


def entry_of(module: Module) -> Func:
    """The function of a module."""
    function = next(iter(module))
    if not isinstance(function, Func):
        raise PipelineError("the module holds no function")
    return function
