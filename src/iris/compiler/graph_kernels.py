"""The kernels of a graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from iris.compiler.compilation import Emitter, entry_of, level_of, optimize, target_of
from iris.compiler.options import Options
from iris.cost.resources import needs_of
from iris.errors import OutOfResources, PipelineError
from iris.ir import graph, to_text
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Value
from iris.ir.metal import VECTOR
from iris.passes.graph.fuse import Fuse
from iris.passes.graph.graph_to_tile import GraphToTile
from iris.passes.graph.schedule import Schedule
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.metal.check_resources import CheckResources
from iris.passes.pipeline import Pipeline
from iris.runtime.device import Device, Grid, Program
from iris.targets import Target

if TYPE_CHECKING:
    from iris.codegen.source import Source

Lowered = TypeVar("Lowered")
PRODUCTS = graph.Matmul, graph.Conv2d
# A kernel that spills is cut for threads of fewer and fewer registers: each time of this part.
REGISTERS_LEFT = 3 / 4
LEAST_REGISTERS = 8


class _Lowering(NamedTuple):
    """A kernel by the schedule that it is lowered by, and the function that it becomes."""

    module: Module
    entry: Func
    emitter: Emitter

    @staticmethod
    def of(module: Module, pipeline: Pipeline) -> _Lowering:
        emitter = Emitter()
        return _Lowering(
            module, entry_of(optimize(module, pipeline, text_of=emitter.text)), emitter
        )


@dataclass(frozen=True)
class Cut:
    """Kernels that compute what one does, as they are made for a target."""

    target: Target
    module: Module
    kernels: list[GraphKernel]

    @property
    def count(self) -> int:
        return sum([len(kernel.op.kernels) for kernel in self.kernels])


@dataclass(frozen=True, eq=False)
class GraphKernel:
    """One launch of a fused graph, of a kernel or several: what it reads and writes, and its own
    graph."""

    op: graph.Kernel | graph.Launch
    inputs: tuple[Value, ...]
    module: Module  # a function of the inputs that has only this kernel
    keeps_schedule: bool  # even if that does not fit
    _lowered: dict[tuple[Level, Target], _Lowering] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.op.symbol

    @property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(self.op.results)

    @property
    def written_to(self) -> dict[Value, Value]:
        """For each output that is scattered to in place, the input that holds it."""
        ends = zip(self.outputs, self.op.written, strict=True)
        return {v: end.op.x for v, end in ends if isinstance(end.op, graph.Scatter)}

    @property
    def arrays(self) -> list[Value]:
        """The arrays to launch the kernel with."""
        return [*self.inputs, *(v for v in self.outputs if v not in self.written_to)]

    @property
    def unnamed(self) -> str:
        """The text of the kernel without a name in it, but with the lines that it comes from."""
        copy = self.module.clone()
        for op in copy.walk():
            if isinstance(op, (Func, graph.Kernel, graph.Launch)):
                op.set_attribute("symbol", "kernel")
            for region in op.regions:
                for argument in region.arguments:
                    argument.name = None
            for result in op.results:
                result.name = None
        return to_text(copy, locations=True)

    def pipeline(self, level: Level, target: Target) -> Pipeline:
        """The pipeline from the graph to a level."""
        options = Options(fast_math=entry_of(self.module).fast_math)
        return Pipeline((GraphToTile(), *options.pipeline(level, target)))

    def lowered(self, level: Level, target: Target) -> Func:
        """The kernel as a function at a level."""
        return self._lower(level, target).entry

    def fitted(self, level: Level, target: Target) -> Module:
        """The kernel by the schedule that it is lowered by, which may not be its own."""
        return self.module if self.keeps_schedule else self._lower(level, target).module

    def _lower(self, level: Level, target: Target) -> _Lowering:
        key = level, target
        if key not in self._lowered:
            self._lowered[key] = self.fitting(level, target, _Lowering.of)
        return self._lowered[key]

    def spills(self, target: Target) -> bool:
        """Whether a thread needs more registers than it has, whatever the tiles.

        A kernel of few ops has room for a vector of each, unless it has a product: a thread holds
        more of a product's operands.
        """
        ops = self.op.walk()
        few = len(ops) * VECTOR <= target.thread_registers
        if self.keeps_schedule or (few and not any(isinstance(op, PRODUCTS) for op in ops)):
            return False
        needs = needs_of(self.lowered(Level.METAL, target), target)
        return needs.registers > target.thread_registers

    def cut(self, target: Target) -> Cut | None:
        """Several kernels instead of this one that do not spill, if it can be cut.

        `fuse` divides it for threads of fewer and fewer registers, until no part spills: the more
        registers, the less is cut off.
        """
        cut: Cut | None = None
        registers = int(REGISTERS_LEFT * target.thread_registers)
        while registers >= LEAST_REGISTERS:
            fewer = replace(target, thread_registers=registers)
            registers = int(REGISTERS_LEFT * registers)
            try:
                other = self.cut_for(fewer)
            except CannotFuse:
                continue
            if other.count > len(self.op.kernels) and (cut is None or other.module != cut.module):
                cut = other
                if not any(kernel.spills(target) for kernel in cut.kernels):
                    break
        return cut

    def cut_for(self, target: Target) -> Cut:
        """The kernels that `fuse` makes of this one for a target; raises `CannotFuse`."""
        module = without_schedules(self.module)
        Fuse(target).run(module)
        Schedule(target).run(module)
        return Cut(target, module, kernels_of(entry_of(module)))

    def replaced(self, cut: Cut) -> list[GraphKernel]:
        """Put the kernels of a cut in its place."""
        function = entry_of(cut.module)
        inner = dict(zip(function.body.arguments, self.op.inputs, strict=True))
        launches = []
        for op in function.body:
            if not op.terminator:
                copy = op.clone(inner)
                self.op.insert_before(copy)
                if isinstance(copy, graph.Kernel | graph.Launch):
                    launches.append(copy)
        for result, value in zip(self.outputs, function.body.end.operands, strict=True):
            inner[value].name = result.name
            result.replace_by(inner[value])
        self.op.erase()
        return [replace(own, op=op) for own, op in zip(cut.kernels, launches, strict=True)]

    def fitting(
        self, level: Level, target: Target, lower: Callable[[Module, Pipeline], Lowered]
    ) -> Lowered:
        """Lower by the schedule of the kernel, or by one that fits if it may have another."""
        pipeline = self.pipeline(level, target)
        if self.keeps_schedule:
            return lower(self.module, pipeline)
        return with_smaller_tiles(self.module, pipeline, target, lower)

    def emitted(self, device: Device) -> tuple[Func, Source | None]:
        """What a device compiles: the kernel, and its text where the device accepts that."""
        _, entry, emitter = self._lower(level_of(device), target_of(device))
        self._lowered.clear()  # a device keeps of it what it needs
        return entry, emitter.source(entry, device)


def compile_all(kernels: Sequence[GraphKernel], device: Device) -> list[tuple[Program, Grid]]:
    """Compile kernels for a device: the program of each and its grid."""
    emitted = [kernel.emitted(device) for kernel in kernels]
    if len(kernels) < 2 or isinstance(device.accepts, Level):
        programs = [device.compile(entry, source) for entry, source in emitted]
    else:
        from concurrent.futures import ThreadPoolExecutor  # opened when first used

        # A compiler of texts takes long, and does not hold Python up meanwhile.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            programs = list(pool.map(device.compile, *zip(*emitted, strict=True)))
    grids = [entry.grid for entry, _ in emitted]
    return [(program, (x, y, z)) for program, (x, y, z) in zip(programs, grids, strict=True)]


def with_smaller_tiles(
    module: Module,
    pipeline: Pipeline,
    target: Target,
    lower: Callable[[Module, Pipeline], Lowered],
) -> Lowered:
    """Lower a kernel by its schedule, or by one for threads of fewer registers, or by ones with
    smaller tiles, if those do not fit, first of all into registers.

    If none fit, or they are too small for the kernel, raise the error of the first try.
    """
    for chosen in dict.fromkeys((_without_spills(pipeline), pipeline)):
        errors: list[OutOfResources] = []
        for candidate in _by_other_schedules(module, target):
            try:
                return lower(candidate, chosen)
            except OutOfResources as error:
                errors.append(error)
            except PipelineError:
                if candidate is module:
                    raise
    raise errors[0]


def _by_other_schedules(module: Module, target: Target) -> Iterator[Module]:
    """Yield a kernel by its schedule, then by each other one that may fit where that does not."""
    fewer = replace(target, thread_registers=target.thread_registers // 2)
    schedules = Schedule(fewer), *[Schedule(target, MAX_TILE_BYTES // part) for part in (4, 16)]
    candidates = [module]
    yield module
    for schedule in schedules:
        try:
            other = _rescheduled(module, schedule)
        except PipelineError:
            continue
        if other not in candidates:
            candidates.append(other)
            yield other


def _without_spills(pipeline: Pipeline) -> Pipeline:
    """The pipeline, refusing kernels whose threads have too few registers."""
    passes = [replace(p, spills=False) if isinstance(p, CheckResources) else p for p in pipeline]
    return Pipeline(tuple(passes))


def _rescheduled(module: Module, schedule: Schedule) -> Module:
    """A kernel with another schedule."""
    copy = without_schedules(module)
    schedule.run(copy)
    return copy


def without_schedules(module: Module) -> Module:
    """A copy of a graph whose kernels have no schedules."""
    copy = module.clone()
    for op in entry_of(copy).walk():
        if isinstance(op, graph.Kernel):
            op.set_attribute("schedule", None)
    return copy


def kernels_of(
    function: Func, *, keep_schedules: bool = False, known: Iterable[GraphKernel] = ()
) -> list[GraphKernel]:
    """The kernels of a fused function, in order.

    Those that are `known` keep what they were lowered to, but may read other tensors.
    """
    by_op = {kernel.op: kernel for kernel in known}
    return [
        replace(by_op[op], inputs=tuple(op.inputs))
        if op in by_op
        else outline(op, function, keep_schedules)
        for op in graph.launches_in(function.body)
    ]


def _input_names(inputs: Sequence[Value]) -> list[str | None]:
    """Names for the inputs of a kernel, for errors."""
    names: list[str | None] = []
    for value in inputs:
        name = _tensor_name(value)
        names.append(None if name in names else name)
    return names


def _tensor_name(value: Value) -> str | None:
    """The name of a tensor: its own, else its source's, else its kernel's.

    Copies and in-place scatters have a source.
    """
    if value.name is not None or not isinstance(value.op, (graph.Kernel, graph.Launch)):
        return value.name
    source = value.op.written[value.index].op
    return (
        _tensor_name(source.x)
        if isinstance(source, (graph.Reshape, graph.Scatter))
        else value.op.symbol
    )


def outline(op: graph.Kernel | graph.Launch, function: Func, keeps_schedule: bool) -> GraphKernel:
    """Put one kernel into a function of its own."""
    inputs = op.inputs
    func = Func(
        op.symbol,
        Level.GRAPH,
        list(zip(_input_names(inputs), [v.type for v in inputs], strict=True)),
        returns=tuple([v.type for v in op.results]),
        fast_math=function.fast_math,
        location=op.location,
    )
    copy = op.clone(dict(zip(inputs, func.body.arguments, strict=True)))
    func.body.append(copy)
    func.body.append(Return(copy.results, location=op.body.end.location))
    return GraphKernel(op, tuple(inputs), Module([func]), keeps_schedule)
