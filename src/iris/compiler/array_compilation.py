"""The compilation of a function of arrays: its graph after each pass, and its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from iris.compiler.compilation import (
    Compilation,
    Shown,
    Stage,
    changed_by,
    entry_of,
    is_called_as,
    stages_of,
    target_of,
)
from iris.compiler.graph_kernels import GraphKernel
from iris.compiler.graph_program import GraphProgram, argument_spec
from iris.compiler.options import Options
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.compiler.trial import KernelTrial
from iris.cost.sample import Sizes
from iris.errors import ArgumentError
from iris.frontend.tracing import error_here
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.ir.graph import Kernel, launches_in
from iris.ir.math import element_type
from iris.ir.text.parser import parse
from iris.ir.text.printer import to_text
from iris.ir.verify import verify
from iris.passes import run
from iris.passes.graph.fuse import Fuse
from iris.passes.graph.tiling.explain_schedule import considered_schedules, explanation
from iris.passes.graph.tiling.fusion import Apart, Boundary, Fusion
from iris.passes.graph.tiling.kernel_cost import cost_of, costs_of_launch
from iris.passes.graph.tiling.kernel_regions import is_scheduled
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.graph.tiling.tile_program import grid_of, schedule_of
from iris.passes.pipeline import Pipeline
from iris.runtime.buffer import Buffer
from iris.runtime.device import Array, Device
from iris.runtime.devices import select
from iris.targets import Target
from iris.viewer.sources import Sources


class KernelCompilation(Compilation):
    """One of the kernels of a function, which prints as a line: `.name`, `.grid`, `.bytes` that it
    moves to and from memory if it loads everything once, `.flops` that it computes; and `.stages`,
    `.tile`, `.metal`, `.msl` as a kernel of the tile language has them."""

    def __init__(self, kernel: GraphKernel, device: str | Device | None = None):
        function = entry_of(kernel.module)
        target = target_of(None if device is None else select(device))
        schedules = [schedule_of(op) for op in kernel.op.kernels]
        options = Options(fast_math=function.fast_math)
        alone = partial(self._alone, device=device)
        shapes = [element_type(v.type).shape for v in kernel.arrays]
        sizes = Sizes(grid_of([s.plan() for s in schedules]), dict(enumerate(shapes)))
        super().__init__(kernel.module, options, alone, sizes, target)
        self.kernel = kernel
        self.name = kernel.name
        self.grid = self._sizes.grid
        self.costs = costs_of_launch((cost_of(s, target), s.elements) for s in schedules)

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages, made by running the pipeline again on the kernel's graph."""
        stages = self.kernel.fitting(Level.METAL, self._target, stages_of)
        # The kernel was planned by its own schedule; what fits may be another.
        x, y, z = entry_of(stages[-1].module).grid
        self.grid = x, y, z
        self._sizes = replace(self._sizes, grid=self.grid)
        return stages

    @property
    def _kernels(self) -> list[Kernel]:
        """The kernels, by the schedules that they run by."""
        ops = entry_of(self.stages[0].module).walk()
        return [op for op in ops if isinstance(op, Kernel)]

    def _lower(self) -> Func:
        return self.kernel.lowered(Level.METAL, self._target)

    def _alone(self, *arrays: Any, device: str | Device | None) -> list[Array]:
        """What the kernel writes, given what it reads."""
        on = select(device)
        _check(self.name, entry_of(self.traced).body.arguments, arrays)
        trial = KernelTrial(self.kernel, arrays, on)
        trial.launch()
        return [Buffer(on, x.memory, x.dtype, x.shape).numpy() for x in trial.written]

    @property
    def bytes(self) -> int:
        return sum([cost.bytes for cost in self.costs])

    @property
    def flops(self) -> int:
        return sum([cost.flops for cost in self.costs])

    @property
    def why(self) -> str:
        """The schedules that were considered for the kernel, and what each costs; of kernels that
        run side by side, for each of them."""
        return "\n".join([explanation(op, MAX_TILE_BYTES, self._target) for op in self._kernels])

    def page_parts(self, sources: Sources) -> list[dict[str, Any]]:
        schedules = []
        for op in self._kernels:
            tried, refused = considered_schedules(op, MAX_TILE_BYTES, self._target)
            considered = [schedule._asdict() for schedule in tried]
            schedules.append({"name": op.symbol, "considered": considered, "refused": refused})
        (part,) = super().page_parts(sources)
        return [part | {"schedules": schedules}]

    @property
    def graph(self) -> str:
        """What the kernel computes, as Graph IR."""
        return to_text(self.traced)

    def __repr__(self) -> str:
        grid = "x".join(map(str, self.grid))
        return f"{self.name}: {self.bytes} bytes, {self.flops} flops, {grid} programs"

    def __str__(self) -> str:
        return repr(self)


def _check(kernel: str, parameters: Sequence[Value], arrays: Sequence[Any]) -> None:
    """Refuse arrays that are not those that a kernel reads."""
    found = [argument_spec(f"array {n} of {kernel}", x).type for n, x in enumerate(arrays)]
    if found != [v.type for v in parameters]:
        wanted = [f"{v.name or 'one'}: {v.type}" for v in parameters]
        raise error_here(
            ArgumentError,
            f"{kernel} reads [{', '.join(wanted)}], not [{', '.join(map(str, found))}]",
        )


class ArrayCompilation(Shown):
    """A function of arrays, lowered for some arguments.

    `print(compilation)` shows the fused graph; `.stages` has the graph after every pass, `.graph`
    as it was traced, `.fused` with its kernels, `.why` says what kept each tensor that goes through
    memory from being fused away and each two kernels from being one, `.kernels` has the kernels,
    `.run(*arguments)` runs them, and `.edited(text)` is the function with other kernels or
    schedules.  `.trace(value)`, `.explain()` and `.to_html(path)` do what they do for a kernel.
    """

    def __init__(
        self,
        traced: Module,
        program: GraphProgram,
        run: Callable[..., Any],
        target: Target,
        device: str | Device | None = None,
    ):
        self.traced = traced
        self._program = program
        self._run = run
        self._target = target
        self._device = device

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages of the graph, made by running its passes again on what was traced.

        The last one is `fit`, if kernels did not fit: some are cut then, or have other schedules.
        """
        pipeline = Pipeline() if self._is_given else GRAPH_PIPELINE.on(self._target)
        stages = stages_of(self.traced, pipeline)
        compiled = self._program.as_compiled(self._target)
        if compiled != stages[-1].module:
            stages.append(Stage("fit", Level.GRAPH, compiled, 0.0, True, {}, {}, ()))
        return stages

    @property
    def _is_given(self) -> bool:
        """Whether kernels and schedules were given as text."""
        return is_scheduled(entry_of(self.traced))

    @property
    def graph(self) -> str:
        """The graph as it was traced."""
        return to_text(self.traced)

    @property
    def fused(self) -> str:
        """The graph with a region for each kernel, as they are compiled."""
        return self.stages[-1].text

    @cached_property
    def kernels(self) -> list[KernelCompilation]:
        """The kernels, in the order in which they run."""
        return [KernelCompilation(kernel, self._device) for kernel in self._program.kernels]

    @cached_property
    def why(self) -> list[Boundary | Apart]:
        """For each tensor that one kernel hands on to another, why; and for each two kernels that
        hand on nothing, why they are two.  None of kernels that were given as text."""
        if self._is_given:
            return []
        passes = GRAPH_PIPELINE.on(self._target).passes
        before = [pass_.name for pass_ in passes].index(Fuse.name)
        module = run(self.traced, Pipeline(passes[:before]))
        return Fusion(entry_of(module), self._target).why

    @property
    def msl(self) -> str:
        """The Metal Shading Language of all kernels."""
        return "\n".join(kernel.msl for kernel in self.kernels)

    def diff(self, name: str) -> str:
        """What a pass changed in the graph, as a diff of its text."""
        return changed_by(name, self.stages)

    def explain(self) -> str:
        """What became one kernel, what did not and why, and what limits each, in sentences."""
        from iris.viewer.explain import explained  # opened when first used

        graph, *kernels = self.page_parts(Sources())
        named = [f"@{kernel['name']}:\n{explained(kernel)}" for kernel in kernels]
        return "\n\n".join([explained(graph), *named])

    def page_parts(self, sources: Sources) -> list[dict[str, Any]]:
        from iris.viewer.record import graph_data  # opened when first used

        graph = graph_data(entry_of(self.traced).symbol, self.stages, self.why, sources)
        kernels = [part for kernel in self.kernels for part in kernel.page_parts(sources)]
        return [graph, *kernels]

    def edited(self, text: str) -> ArrayCompilation:
        """The same function by another graph, such as `.fused` with a schedule edited.

            wide = compilation.edited(compilation.fused.replace("programs 1 of", "programs 4 of"))
            wide.run(x)

        If its kernels have schedules, all stays as it is in the text; else it is fused anew.
        """
        module = parse(text)
        verify(module)
        given, own = entry_of(module), entry_of(self.traced)
        if not is_called_as(given, own):
            raise ArgumentError(
                f"the graph takes or returns other arrays than @{own.symbol}; it must compute the "
                "same function"
            )
        lines = {kernel.name: kernel.op.location for kernel in self._program.kernels}
        for launch in launches_in(given.body):
            for op in (launch, *launch.kernels):  # the text has no lines
                op.location = op.location or lines.get(launch.symbol)
        program = GraphProgram.of(module, self._target, self._program.constants)
        run = partial(self._run, program=program)
        return ArrayCompilation(module, program, run, self._target, self._device)

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Run the function."""
        return self._run(arguments, {**named, "device": self._device})

    def __str__(self) -> str:
        return self.fused
