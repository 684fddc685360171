"""What must hold of random programs and devices: what `iris fuzz` looks for violations of.

    PROPERTIES["agree"].holds([program], 5.0)   # or an error that shows the smallest program

A property has something to draw from, and says of what is drawn whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

from hypothesis import strategies as st

from iris.codegen.language import Language
from iris.codegen.languages.msl import MSL
from iris.compiler.pipelines import (
    METAL_PIPELINE,
    TEXT_PIPELINE,
    THREAD_PIPELINE,
    TILE_PIPELINE,
)
from iris.ir import graph, math, metal, tile
from iris.ir.control import For, If, While
from iris.ir.core import Level
from iris.passes import Pipeline, run
from iris.runtime.devices import select
from iris.targets import imaginary, nvidia
from iris.testing import (
    bands,
    buffer_reads,
    calculations,
    captures,
    dependent_sums,
    divided_axes,
    exchanges,
    fetches,
    indices,
    kept,
    launches,
    layouts,
    long_rows,
    masked_rows,
    metal_calls,
    module_texts,
    networks,
    op_chains,
    overwrites,
    plain_products,
    product_chains,
    programs,
    refused_calls,
    revisits,
    shared_updates,
    small_expressions,
    thread_words,
    threads,
    tile_functions,
    tuning,
)
from iris.testing.array_functions import Function, functions
from iris.testing.array_probes import Probes, probes
from iris.testing.calls import Call, calls
from iris.testing.choices import Choices
from iris.testing.fusing import fuses
from iris.testing.kernel_schedules import check_edit, scheduled
from iris.testing.levels import agree
from iris.testing.numpy_forms import Forms, forms
from iris.testing.numpy_graphs import matches_numpy
from iris.testing.oracles import all_preserve
from iris.testing.quality import fits
from iris.testing.scripts import Script, conforms
from iris.testing.simdgroups import interleaves, orders
from iris.testing.sources import kernels
from iris.testing.sweeps import Sweep, sweeps
from iris.testing.texts import runs_alike
from iris.testing.turns import DropBarriers
from iris.testing.values import graph_schedules, schedules
from iris.tools.replay import Program

SIMDGROUPS = (1, 4, 2, 8)
TOGETHER = 10  # programs in a text
SCHEDULE_BYTES = 48  # that choose the schedules of a graph's kernels
SEEDS = 1 << 16  # how many numbers may seed the choice of schedules


@dataclass(frozen=True)
class Property:
    """Something that must hold of whatever is drawn.

    It can be sent to another process, for its functions are those of modules.
    """

    name: str
    level: str  # of what it draws: that of programs, or `launches` or `python`
    draw: Callable[[], st.SearchStrategy[Any]]
    #: Raises an error if it does not hold of some; what it shows is reduced for some seconds.
    holds: Callable[[Sequence[Any], float], None]
    together: int = 1  # how many are drawn for one call
    options: str = ""  # of `iris fuzz`, that it takes to look at this
    part: str = ""  # of the compiler, that is guilty if no pass is


# Longer programs than a test of a pass draws: each costs more and shows more.
_tile = partial(programs.tile, max_ops=20)
_graph = partial(programs.graph, max_ops=24)


def of_passes(passes: str) -> list[Property]:
    """That passes keep what programs do: of their level, or of all."""
    draw: dict[Level, Callable[[], st.SearchStrategy[Any]]] = {
        Level.TILE: _tiles,
        Level.GRAPH: _graph,
        Level.METAL: _threads,
    }
    holds = partial(_preserve, (passes,))
    first = next((p.level for p in Pipeline.parse(passes) if p.level is not None), None)
    return [
        Property(
            f"preserves-{level.value}", level.value, draw[level], holds, 1, f'--passes "{passes}"'
        )
        for level in (draw if first is None else [first])
    ]


def of_text(device: str, accepts: Level | Language) -> list[Property]:
    """That a device does with the kernels that it accepts, and with what is launched, what it must.
    Where that is Metal's language, so it does with libraries of others' texts."""
    option = f"--device {device}"
    run, conform, call = (partial(f, device) for f in (_run, _conform, _call))
    schedule, meet = (partial(f, device) for f in (_schedule, _meet))
    read = partial(buffer_reads.reads, (device,))
    libraries = Property("libraries", "python", metal_calls.scripts, call, 1, option, "runtime")
    return [
        Property("text", "tile", _masked, run, TOGETHER, option),
        Property("thread-text", "metal", _portable, run, TOGETHER, option),
        Property("thread-code", "metal", _optimised, run, TOGETHER, option, "codegen"),
        Property("threads", "python", threads.kernels, meet, TOGETHER, option, "frontend"),
        Property("schedule-text", "graph", _handed, schedule, 1, option),
        Property("launches", "launches", launches.scripts, conform, 1, option, "runtime"),
        Property("device-buffers", "python", read, _check, 1, option, "runtime"),
        *([libraries] if accepts is MSL else []),
    ]


def _preserve(several: Sequence[str], drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        all_preserve(several, program, seconds=seconds)


def _tiles() -> st.SearchStrategy[Program]:
    """Half of them take less time: they do little but store and load in a few places, or read and
    write where some arithmetic says."""
    return st.one_of(_tile(), _tile(), overwrites.programs(), indices.programs())


def _masked() -> st.SearchStrategy[Program]:
    return st.one_of(_tile(masked=True), _tile(masked=True, rounding=True))


def _mostly_masks() -> st.SearchStrategy[Program]:
    """With masks; most of them are short, and do little besides."""
    few = (tile.MaskedLoad, tile.Update, tile.Store)
    moving = (tile.MaskedLoad, tile.Flip, tile.Transpose, tile.Reshape, tile.Broadcast, tile.Store)
    most = (few, 2), (few, 5), (moving, 5)
    short = [programs.tile(ops=ops, masked=True, max_ops=n) for ops, n in most]
    long = _tile(masked=True), _tile(masked=True, rounding=True)
    rows = [masked_rows.programs() for _ in range(2)]
    return st.one_of(*long, *short, bands.programs(), bands.programs(), *rows)


def _rounding() -> st.SearchStrategy[Program]:
    return st.one_of(_graph(), _graph(rounding=True))


def _transformed() -> st.SearchStrategy[tuple[Program, Pipeline]]:
    """A graph, and how it is made kernels.  Most are short, and move elements, or divide axes."""
    views = programs.graph(ops=_VIEWS, max_ops=5)
    # Each is a strategy of its own: the same one, again, would be drawn no more often.
    chains = [op_chains.programs() for _ in range(2)]
    several = (_graph(), _graph(), views, *chains)
    return st.one_of(*[st.tuples(one, graph_schedules()) for one in several], _divided())


def _divided() -> st.SearchStrategy[tuple[Program, Pipeline]]:
    """A graph that is made kernels for a GPU that divides whatever it can among cores."""
    return st.tuples(divided_axes.programs(), graph_schedules(imaginary.SLOW_CORES))


def _fused() -> st.SearchStrategy[tuple[Program, Pipeline]]:
    """Some are short, and do little but move elements, to computed places at times, reduce floats,
    or make something of their extremes and means; at times for a GPU that divides whatever it can
    among cores, or whose kernels spill."""
    reducing = programs.graph(
        ops=(graph.Reduce,), max_ops=4, dtypes=["f32", "f16"], portable=True, rounding=True
    )
    in_parts = graph_schedules(imaginary.SLOW_CORES)
    split = [st.tuples(dependent_sums.programs(), in_parts) for _ in range(2)]
    views = programs.graph(ops=_VIEWS, max_ops=5, portable=True)
    computed = programs.graph(ops=(graph.Scatter, graph.Gather), max_ops=3, portable=True)
    drawn = (_fusible(), _fusible(), reducing, views, computed, op_chains.programs())
    usual = [st.tuples(one, graph_schedules()) for one in drawn]
    spilling = st.tuples(product_chains.programs(), st.just(Pipeline()))
    return st.one_of(*usual, *split, _divided(), spilling)


def _handed() -> st.SearchStrategy[tuple[Program, Pipeline, int]]:
    """A graph, how it is made kernels, and a seed of schedules for these.  Most are short: what
    goes along axes has kernels of its own."""
    short = partial(programs.graph, ops=_AGGREGATING, max_ops=4, portable=True)
    # Each is a strategy of its own: the same one, again, would be drawn no more often.
    dependent = [dependent_sums.programs() for _ in range(5)]
    scans = programs.graph(ops=(graph.Scan, graph.Transpose, math.Mul), max_ops=2, portable=True)
    others = (op_chains.programs(), _graph(portable=True), short(), short(rounding=True), scans)
    several = st.one_of(*others, *dependent)
    # A plain number: hypothesis copies draws of a kind over each other, and takes zeros where that
    # does not fit.
    return st.tuples(several, graph_schedules(), st.integers(0, SEEDS - 1))


def _fusible() -> st.SearchStrategy[Program]:
    drawn = partial(_graph, portable=True)
    return st.one_of(drawn(), drawn(rounding=True))


def _threads() -> st.SearchStrategy[Program]:
    """One of four comes back to a few places of memory."""
    # Each is a strategy of its own: the same one, again, would be drawn no more often.
    return st.one_of(_some_short(programs.metal), *[revisits.programs() for _ in range(2)])


def _portable() -> st.SearchStrategy[Program]:
    drawn = _some_short(partial(programs.metal, portable=True))
    return st.one_of(drawn, exchanges.programs().map(_with_fewest_barriers))


def _with_fewest_barriers(program: Program) -> Program:
    """With those barriers only that `insert-barriers` places: where none is one too many, a device
    that looks for races sees one that orders too little."""
    return program.with_module(run(program.module, _ORDERED))


def _some_short(drawn: Callable[..., st.SearchStrategy[Program]]) -> st.SearchStrategy[Program]:
    """Most are short, and do little but move the elements of arrays in registers, or calculate."""
    moving = drawn(ops=_OF_REGISTERS, max_ops=10)
    in_place = drawn(ops=(*_OF_REGISTERS, metal.Store, For, While), max_ops=10)
    # Each is a strategy of its own: the same one, twice, would be drawn no more often.
    calculating = [calculations.programs() for _ in range(2)]
    return st.one_of(drawn(), drawn(), moving, in_place, *calculating)


def _traced() -> st.SearchStrategy[Program]:
    return threads.programs(Pipeline())


def _optimised() -> st.SearchStrategy[Program]:
    return threads.programs(_BEFORE_TEXT)


def _orderly() -> st.SearchStrategy[tuple[Program, int]]:
    """Programs, and for each what is made harder: 0 stands for control flow, 1 for barriers that
    are there already.  Most do little besides using memory, and are short: a missing barrier among
    many is often behind another one."""
    drawn = partial(programs.metal, divergent=False)
    short = [drawn(ops=(For, While, If), max_ops=n) for n in (1, 2, 1, 3)]
    # Each is a strategy of its own: the same one, several times, would be drawn no more often.
    most = [exchanges.programs() for _ in range(9)]
    several = (drawn(), drawn(ops=_OF_MEMORY), *short, *most)
    return st.tuples(st.one_of(several), st.integers(0, 3))


def _lowered() -> st.SearchStrategy[tuple[Program, Pipeline, int]]:
    """A program, how it is lowered, and in which order its simdgroups go.  Some multiply
    matrices, and do nothing else, for a GPU that copies what is multiplied next."""
    order = st.integers(0, 3)
    ahead = st.tuples(plain_products.programs(), schedules(nvidia.H200), order)
    several = [st.tuples(_masked(), schedules(), order) for _ in range(4)]
    return st.one_of(*several, ahead)


def _products() -> st.SearchStrategy[tuple[Program, int]]:
    drawn = programs.tile(ops=[tile.Dot, tile.Store], max_ops=6, dtypes=["f32", "f16"])
    return st.tuples(drawn, st.sampled_from(SIMDGROUPS))


def _agree(drawn: Sequence[tuple[Program, Pipeline, int]], seconds: float) -> None:
    for program, schedule, order in drawn:
        agree(program, pipeline=schedule, simdgroups=[0], interleavings=[order], seconds=seconds)


def _spill(drawn: Sequence[Program], seconds: float) -> None:
    lowering = METAL_PIPELINE.on(nvidia.H200)
    for program in drawn:
        agree(program, pipeline=lowering, simdgroups=[long_rows.SIMDGROUPS], seconds=seconds)


def _share(drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        # In lockstep: in other orders equal stores to one element are reported as a race.
        agree(program, simdgroups=[4], interleavings=[], seconds=seconds)


def _fit(drawn: Sequence[tuple[Program, int]], seconds: float) -> None:
    for program, count in drawn:
        fits(program, simdgroups=[count], seconds=seconds)


def _lay_out(drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        agree(program, pipeline=layouts.LAID_OUT, simdgroups=[1], seconds=seconds)


def _index(drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        agree(program, pipeline=indices.INDEXED, simdgroups=[1], seconds=seconds)


class Checked(Protocol):
    """What says of itself whether all is right."""

    def check(self) -> None: ...


def _check(drawn: Sequence[Checked], seconds: float) -> None:
    for one in drawn:
        one.check()


def _translate(drawn: Sequence[threads.Kernel], seconds: float) -> None:
    threads.check_translations(drawn)


def _array_code() -> st.SearchStrategy[ArrayCode]:
    """Functions of arrays, or at times a call of one for neural networks; and single calls of
    NumPy's, which take less time than to draw one more function."""
    long = st.one_of(*[functions() for _ in range(5)], networks.calls())
    return st.builds(ArrayCode, sweeps(), probes(), long)


@dataclass
class ArrayCode:
    """Array programs of several kinds; shown is the one that fails first."""

    swept: Sweep
    short: Probes
    long: Function | networks.Call
    shown: str = field(default="", init=False)

    def check(self) -> None:
        """Assert that all return what they must."""
        for part in (self.swept, self.short, self.long):
            try:
                part.check()
            finally:
                self.shown = repr(part)

    def __repr__(self) -> str:
        return self.shown


def _return(drawn: Sequence[ArrayCode | Call | Forms], seconds: float) -> None:
    for one in drawn:
        one.check()


def _match(drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        matches_numpy(program, seconds=seconds)


def _transform(drawn: Sequence[tuple[Program, Pipeline]], seconds: float) -> None:
    for program, schedule in drawn:
        all_preserve((*_OF_GRAPHS, schedule), program, seconds=seconds)


def _fuse(drawn: Sequence[tuple[Program, Pipeline]], seconds: float) -> None:
    for program, schedule in drawn:
        fuses(program, pipeline=schedule, target=imaginary.FEW_REGISTERS, seconds=seconds)


def _schedule(device: str, drawn: Sequence[tuple[Program, Pipeline, int]], seconds: float) -> None:
    on = select(device)
    for program, drawn_for, seed in drawn:
        # Kernels for another GPU may take more arrays, say, than a device has room for.
        schedule = drawn_for if on.accepts is Level.TILE else drawn_for.on(on.target)
        choices = Choices(Random(seed).randbytes(SCHEDULE_BYTES))
        made = scheduled(program, choices, schedule)
        fuses(made, on, seconds=seconds)
        check_edit(made, choices, seconds=seconds)


def _interleave(drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        interleaves(program, seconds=seconds)


def _order(drawn: Sequence[tuple[Program, int]], seconds: float) -> None:
    for program, harder in drawn:
        passes = (_UNIFORM, _SHARED, f"share-barriers,{_SHARED}", _SHARED)[harder]
        orders(passes, program, hidden=harder == 0, weakened=harder == 1, seconds=seconds)


def _copy(drawn: Sequence[Program], seconds: float) -> None:
    for program in drawn:
        orders(_COPIED, program, seconds=seconds)


def _run(device: str, drawn: Sequence[Program], seconds: float) -> None:
    runs_alike(drawn, device, seconds=seconds)


def _meet(device: str, drawn: Sequence[threads.Kernel], seconds: float) -> None:
    """That kernels by thread store what the evaluation says, on both interpreters and a device."""
    for kernel in drawn:
        kernel.check(("interp", "interp:metal"))
    _run(device, [kernel.program(_BEFORE_TEXT) for kernel in drawn], seconds)


def _call(device: str, drawn: Sequence[metal_calls.Script], seconds: float) -> None:
    for script in drawn:
        script.check(device)


def _interpret(drawn: Sequence[Script], seconds: float) -> None:
    for script in drawn:
        conforms(buffer_reads.INTERPRETERS[script.seed % 2], script, seconds=seconds)


def _conform(device: str, drawn: Sequence[Script], seconds: float) -> None:
    for script in drawn:
        conforms(device, script, seconds=seconds)


_GENERIC = tuple(programs.GENERIC)
_TO_LOWER = f"{TILE_PIPELINE},relax-nans,split-interior,licm,dce"
_OF_TILES = (*_GENERIC, "recover-blocks", _TO_LOWER)
_OF_MEMORY = (metal.Alloc, metal.View, metal.Load, metal.Store, metal.Barrier, For, If, math.Add)
_VIEWS = (
    graph.Transpose,
    graph.Reduce,
    graph.Reshape,
    graph.Broadcast,
    graph.Slice,
    graph.Pad,
    graph.Concat,
)
_AGGREGATING = (graph.Reduce, graph.Scan, graph.Matmul, math.Mul, math.Sub, graph.Transpose)
_OF_REGISTERS = (metal.Join, metal.Take, metal.Slice, metal.Foreach, math.Add, math.Select)
# Whatever can be shared is, though there may be room for all of it.
_SHARED = "allocate-threadgroup{budget=0},insert-barriers"
# As a GPU has them that copies while threads do other things.
_COPIED = (
    "async-copies{target=nvidia-h200},share-barriers,allocate-threadgroup{budget=0},insert-barriers,"
    "wait-for-copies,spread-copies"
)
_ORDERED = Pipeline((DropBarriers(), *Pipeline.parse("insert-barriers")))
_UNIFORM = "allocate-threadgroup{budget=0},uniform-conditions,insert-barriers"
_OF_THREADS = (
    *_GENERIC,
    "block-swizzle{group=2}",
    "fuse-register-loops",
    "simplify-extrema",
    "preload-fragments,serpentine-fragments",
    "choose-register-shapes,reuse-registers",
    "mark-nowrap",
)
_OF_GRAPHS = (*_GENERIC, "simplify")
# What becomes of a kernel by thread, but for what its text asks for.
_BEFORE_TEXT = Pipeline(THREAD_PIPELINE.passes[: -len(TEXT_PIPELINE.passes)])

#: Those of Iris itself, by their names; `of_text` has those of a device.
PROPERTIES = {
    found.name: found
    for found in (
        Property("passes", "tile", _tiles, partial(_preserve, _OF_TILES)),
        Property(
            "masks", "tile", _mostly_masks, partial(_preserve, (f"{TILE_PIPELINE},relax-nans",))
        ),
        Property("agree", "tile", _lowered, _agree),
        Property("layouts", "tile", layouts.programs, _lay_out),
        Property("indices", "tile", indices.programs, _index),
        Property("shared-updates", "tile", shared_updates.programs, _share),
        Property("fits", "tile", _products, _fit),
        Property("long-rows", "tile", long_rows.programs, _spill),
        Property("sources", "python", kernels, _check, part="frontend"),
        Property("thread-sources", "python", threads.kernels, _check, part="frontend"),
        Property("cuda-files", "python", threads.kernels, _translate, TOGETHER, part="frontend"),
        Property("words", "python", tile_functions.functions, _check, part="frontend"),
        Property("arrays", "python", _array_code, _return, part="frontend"),
        Property("forms", "python", forms, _return, part="frontend"),
        Property("calls", "python", calls, _return, part="compiler"),
        Property("kept", "python", kept.histories, _check, part="runtime"),
        Property("captures", "python", captures.histories, _check, part="frontend"),
        Property("tuning", "python", tuning.launches, _check, part="compiler"),
        Property("interpreted-launches", "launches", launches.scripts, _interpret, part="runtime"),
        Property("refusals", "python", refused_calls.calls, _check, part="compiler"),
        Property("buffers", "python", buffer_reads.reads, _check, part="runtime"),
        Property("thread-words", "python", thread_words.words, _check, part="frontend"),
        Property("ir-texts", "python", module_texts.modules, _check, part="ir"),
        Property("expressions", "python", small_expressions.several, _check, part="compiler"),
        Property("graph-passes", "graph", _transformed, _transform),
        Property("graph-numpy", "graph", _rounding, _match),
        Property("graph-kernels", "graph", _fused, _fuse),
        Property("graph-schedules", "graph", _handed, partial(_schedule, "interp")),
        Property("thread-passes", "metal", _threads, partial(_preserve, _OF_THREADS)),
        Property("thread-lowering", "metal", _traced, partial(_preserve, (str(THREAD_PIPELINE),))),
        Property("interleaves", "metal", programs.metal, _interleave),
        Property("orders", "metal", _orderly, _order),
        Property("copies", "metal", fetches.programs, _copy),
    )
}
