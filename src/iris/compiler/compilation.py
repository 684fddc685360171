"""What a kernel becomes, stage by stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iris import knobs
from iris.compiler.dumps import dumps
from iris.compiler.options import Options
from iris.errors import PipelineError
from iris.frontend.specs import ArraySpec
from iris.ir import Level, Module, Value, to_text, verify
from iris.ir.control import Func
from iris.ir.effects import effects_within, reads, writes
from iris.ir.text.diff import diff
from iris.passes import Instrument, Pipeline, run
from iris.passes.firings import Firing, watched
from iris.passes.instruments import Check, Snapshots
from iris.targets import DEFAULT, Target, find
from iris.viewer.sources import Sources

if TYPE_CHECKING:
    from pathlib import Path

    from iris.codegen.language import Language
    from iris.codegen.source import Source
    from iris.cost.estimate import Estimate
    from iris.cost.sample import Sizes
    from iris.frontend.specs import Spec
    from iris.runtime.device import Device


def target_of(device: Device | None) -> Target:
    """What to compile for: what the environment names, or else the GPU of a device."""
    name = knobs.target()
    if name is not None:
        return find(name)
    return DEFAULT if device is None else device.target


def level_of(device: Device) -> Level:
    """Where the IR ends for a device."""
    return device.accepts if isinstance(device.accepts, Level) else Level.METAL


def text_of(kernel: Func) -> str:
    """The text of a kernel in Metal IR, in the Metal Shading Language."""
    from iris.codegen.emitter import emit  # opened when first used

    return emit(kernel).text


def optimize(
    traced: Module, pipeline: Pipeline, text_of: Callable[[Func], str] = text_of
) -> Module:
    """Run a pipeline, watched by what the environment asks for."""
    watching: list[Instrument] = [Check(verify)] if knobs.check() else []
    stays_tile = entry_of(traced).function_level is Level.TILE and not any(
        p.level is Level.METAL for p in pipeline
    )
    return run(traced, pipeline, [*watching, *dumps(None if stays_tile else text_of)])


class Emitter:
    """Emits the text of a kernel once, for all who want it: a dump, and a device."""

    def __init__(self) -> None:
        self._emitted: dict[tuple[Func, Language], Source] = {}

    def text(self, kernel: Func) -> str:
        """The text of a kernel in Metal IR, in the Metal Shading Language."""
        from iris.codegen.languages.msl import MSL  # opened when first used

        return self._of(kernel, MSL).text

    def source(self, kernel: Func, device: Device) -> Source | None:
        """The text that a device accepts, if it accepts any."""
        return None if isinstance(device.accepts, Level) else self._of(kernel, device.accepts)

    def _of(self, kernel: Func, language: Language) -> Source:
        key = kernel, language
        if key not in self._emitted:
            from iris.codegen.emitter import emit  # opened when first used

            self._emitted[key] = emit(kernel, language)
        return self._emitted[key]


@dataclass(frozen=True)
class Stage:
    """The IR after one pass; the first is what was traced."""

    name: str
    level: Level
    module: Module
    seconds: float
    changed: bool
    counts: Mapping[str, int]  # what the pass counted, such as how often each rule fired
    became: Mapping[Value, Value]  # values of the stage before, and what they are in this one
    firings: Sequence[Firing]  # what rules did, the first few of each

    @property
    def text(self) -> str:
        return to_text(self.module)


def stages_of(traced: Module, pipeline: Pipeline) -> list[Stage]:
    """What a pipeline makes of a module, pass by pass."""
    with watched() as firings:
        snapshots = Snapshots(firings)
        run(traced, pipeline, [snapshots])
    made = []
    for snapshot in snapshots.stages:
        name = "traced" if snapshot.cause is None else snapshot.name
        level = entry_of(snapshot.module).function_level
        made.append(
            Stage(
                name,
                level,
                snapshot.module,
                snapshot.seconds,
                snapshot.changed,
                snapshot.counts,
                snapshot.became,
                snapshot.firings,
            )
        )
    return made


class Shown(ABC):
    """A compilation to look at: in a terminal, a notebook or a browser."""

    traced: Module

    @property
    @abstractmethod
    def stages(self) -> list[Stage]:
        """The stages."""

    @abstractmethod
    def page_parts(self, sources: Sources) -> list[dict[str, Any]]:
        """The data of a page, as plain lists and dictionaries: one for each graph or kernel."""

    def trace(self, value: str) -> str:
        """One value through every pass: how it is defined after each pass that changes that.

        It is found by its name, such as `"%scores"`, in the first stage that has it.
        """
        from iris.viewer.trace import trace  # opened when first used

        return trace(value, self.stages)

    def to_html(self, path: str | Path) -> None:
        """Write one file that shows every stage in a browser."""
        from iris.viewer.page import write_page  # opened when first used

        write_page(path, self._page())

    def _repr_html_(self) -> str:
        """The same in a notebook, in a frame."""
        from html import escape  # opened when first used

        return f'<iframe srcdoc="{escape(self._page())}" width="100%" height="640"></iframe>'

    def _page(self) -> str:
        from iris.viewer.page import page  # opened when first used

        sources = Sources()
        return page(entry_of(self.traced).symbol, self.page_parts(sources), sources)


class Compilation(Shown):
    """A kernel lowered for some arguments.

    `print(compilation)` shows the Metal Shading Language; `.stages` has the IR after every pass,
    `.tile` and `.metal` that at the end of each level, `.diff(name)` what one pass changed,
    `.estimate` what it would cost on some GPUs, and `.run(*arguments)` runs the kernel.
    `.trace(value)` follows one value through the passes, `.explain()` says what became of the
    kernel, and `.to_html(path)` writes a page that shows all this.
    """

    def __init__(
        self,
        traced: Module,
        options: Options,
        launch: Callable[..., Any],
        sizes: Sizes,
        target: Target = DEFAULT,
        specs: Mapping[str, Spec] | None = None,
    ):
        self.traced = traced
        self._specs = specs
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
        return text_of(self._lowered)

    @cached_property
    def _lowered(self) -> Func:
        """The last stage, without copies of the others unless these were made."""
        made = self.__dict__.get("stages")
        return self._lower() if made is None else entry_of(made[-1].module)

    def _lower(self) -> Func:
        return entry_of(run(self.traced, self.options.pipeline(Level.METAL, self._target)))

    @cached_property
    def estimate(self) -> Estimate:
        """What the kernel costs on each generation of GPUs, for what it was lowered for."""
        from iris.cost.estimate import estimate  # opened when first used

        return estimate(self._lowered, self._sizes, self._target)

    def _last(self, level: Level) -> str:
        return next(stage.text for stage in reversed(self.stages) if stage.level is level)

    def diff(self, name: str) -> str:
        """What a pass changed, as a diff of IR text; that values are numbered anew is no change."""
        return changed_by(name, self.stages)

    def explain(self) -> str:
        """What the kernel needs of a GPU, who holds its tiles, and what limits it, in sentences."""
        from iris.viewer.explain import explained  # opened when first used

        (part,) = self.page_parts(Sources())
        return explained(part)

    def page_parts(self, sources: Sources) -> list[dict[str, Any]]:
        from iris.codegen.emitter import emit  # opened when first used
        from iris.viewer.record import kernel_data

        function = entry_of(self.stages[-1].module)
        part = kernel_data(
            function.symbol,
            self.stages,
            emit(function),
            self.estimate,
            self._sizes,
            self._target,
            sources,
        )
        return [part]

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launch the kernel, on the grid that it was lowered for."""
        return self._launch(*arguments, **named)

    def to_torch(self) -> Callable[..., None]:
        """The kernel as a function of PyTorch's tensors on the device `mps`.

        softmax = kernel.lower(x, out, 300, BLOCK=512, grid=8).to_torch()
        softmax(tensor, result, 300)
        softmax(longer, result, 300, grid=16)

        PyTorch compiles the text, and launches it in order with its own kernels.
        """
        from iris.codegen.languages.msl import MSL  # opened when first used
        from iris.compiler.torch_kernel import torch_kernel

        return torch_kernel(self._foreign(self.stages[-1].module, self._known_specs(), MSL))

    def to_mlx(self) -> Callable[..., Any]:
        """The kernel as a function of MLX's arrays, which returns those that it writes to.

        softmax = kernel.lower(x, out, 300, BLOCK=512, grid=8).to_mlx()
        result = softmax(array, (8, 300), 300)

        The caller gives the shape of a result.  It has no elements but those that the kernel
        writes, or those of `init_value`.  MLX launches the kernel when a result is needed.
        """
        from iris.codegen.languages.mlx import MLX  # opened when first used
        from iris.compiler.mlx_kernel import mlx_kernel

        # MLX's arrays may start anywhere; what it makes starts where it must.
        traced = self.traced.clone()
        effects = effects_within(entry_of(traced))
        written = {v.name for v in writes(effects) if isinstance(v, Value)}
        specs = dict(self._known_specs())
        for argument in entry_of(traced).body.arguments:
            spec = specs[str(argument.name)]
            if isinstance(spec, ArraySpec) and argument.name not in written:
                specs[str(argument.name)] = spec = replace(spec, aligned=False)
                argument.type = spec.type
        module = stages_of(traced, self.options.pipeline(Level.METAL, self._target))[-1].module
        read = frozenset([str(v.name) for v in reads(effects) if isinstance(v, Value)])
        return mlx_kernel(self._foreign(module, specs, MLX), read)

    def _known_specs(self) -> Mapping[str, Spec]:
        if self._specs is None:
            raise PipelineError(
                "a kernel of a function of arrays is neither saved nor handed to another library"
            )
        return self._specs

    def _foreign(self, module: Module, specs: Mapping[str, Spec], language: Language) -> Any:
        from iris.codegen.emitter import emit  # opened when first used
        from iris.compiler.foreign_kernel import ForeignKernel

        entry = entry_of(module)
        names = [str(parameter.name) for parameter in entry.body.arguments]
        source = emit(entry, language)
        return ForeignKernel(entry, source, {n: specs[n] for n in names}, self._sizes.grid)

    def save(self, file: str | PathLike[str]) -> None:
        """Write the kernel to a file; `iris.load_kernel` launches it without tracing or passes."""
        from iris.compiler import kernel_file  # opened when first used

        specs, module = self._known_specs(), self.stages[-1].module
        names = [str(parameter.name) for parameter in entry_of(module).body.arguments]
        kernel_file.write(Path(file), module, {name: specs[name] for name in names})

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
