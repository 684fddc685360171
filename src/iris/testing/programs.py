"""Random programs, as hypothesis strategies.

    @given(programs.tile(ops=[math.Add, tile.Load, tile.Store], dtypes=["f32"]))
    def test_my_pass(program):
        preserves(MyPass(), program)

They are well typed and free of program errors by construction; nothing is thrown away.  A
program is drawn as a list of *steps*, each an op and a few bytes that say on what; operands are
drawn as distances back, so any step can go without harm to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from hypothesis import strategies as st

from iris.errors import DeclarationError
from iris.ir import control, math
from iris.ir import graph as graph_ir
from iris.ir import metal as metal_ir
from iris.ir import tile as tile_ir
from iris.ir.core import OPS, Facet, Op
from iris.ir.types import DType, bool_, i32
from iris.passes import Pipeline

# Each of these says how some ops are made.
from iris.testing import elementwise, graph_makers, metal_makers, metal_memory_makers, tile_makers
from iris.testing.choices import Choices
from iris.testing.draft import Draft, Step, make
from iris.testing.graphs import GraphDraft, make_graph
from iris.testing.metals import MetalDraft, make_metal
from iris.testing.threads import kernels as threads
from iris.testing.tiles import TileDraft, make_tile
from iris.tools.replay import Program

__all__ = [
    "elementwise",
    "graph",
    "graph_makers",
    "metal",
    "metal_makers",
    "metal_memory_makers",
    "pipelines",
    "threads",
    "tile",
    "tile_makers",
]

STEP_BYTES = 16  # that choose what a step does, in all but a few
CONFIG_BYTES = 48  # that choose what a program is like
SWARM_BYTES = 32  # that choose which ops it does without
# Of 256, how many kinds of ops a program does without.
BANNED = (0, 128, 0, 128, 0, 192)
GENERIC = ("canonicalize", "cse", "dce", "fold", "licm")

# What `follow-masks` leaves nothing of.
_MASKED = (tile_ir.MaskedLoad, tile_ir.Update)
# How much more often than others, as programs are made of these.
_WEIGHTS: dict[type[Op], int] = {
    math.Add: 3,
    math.Mul: 2,
    math.Compare: 9,
    math.Select: 2,
    math.Cast: 8,
    math.Shr: 2,
    math.FloorDiv: 3,
    math.Mod: 3,
    math.Div: 3,
    math.Fma: 3,
    math.MaxNum: 2,
    control.For: 8,
    control.While: 3,
    control.If: 6,
    tile_ir.Load: 9,
    tile_ir.Store: 10,
    tile_ir.LoadTile: 3,
    tile_ir.StoreTile: 3,
    tile_ir.Atomic: 3,
    tile_ir.Reduce: 8,
    tile_ir.Dot: 5,
    tile_ir.Broadcast: 3,
    tile_ir.ExpandDims: 2,
    tile_ir.Reshape: 2,
    tile_ir.Transpose: 4,
    tile_ir.Flip: 2,
    tile_ir.Pick: 2,
    tile_ir.Gather: 3,
    tile_ir.Scan: 4,
    tile_ir.MaskedLoad: 8,
    tile_ir.Update: 2,
    tile_ir.Arange: 3,
    tile_ir.Print: 3,
    tile_ir.Assert: 2,
    graph_ir.Broadcast: 5,
    graph_ir.Reshape: 4,
    graph_ir.Transpose: 4,
    graph_ir.Slice: 4,
    graph_ir.Pad: 3,
    graph_ir.Concat: 3,
    graph_ir.Reduce: 10,
    graph_ir.Scan: 4,
    graph_ir.Matmul: 5,
    graph_ir.Conv2d: 2,
    graph_ir.Gather: 3,
    graph_ir.Scatter: 4,
    graph_ir.Kernel: 3,
    metal_ir.Load: 10,
    metal_ir.Store: 8,
    metal_ir.Alloc: 7,
    metal_ir.View: 2,
    metal_ir.Atomic: 5,
    metal_ir.CompareExchange: 2,
    metal_ir.ShuffleXor: 3,
    metal_ir.Shuffle: 3,
    metal_ir.Mma: 3,
    metal_ir.LoadRows: 2,
    metal_ir.MmaShared: 2,
    metal_ir.Copy: 2,
    metal_ir.Foreach: 6,
    metal_ir.Slice: 3,
    metal_ir.Insert: 2,
    metal_ir.Take: 3,
    metal_ir.Join: 3,
}


def tile(
    *,
    ops: Collection[type[Op]] | None = None,
    max_ops: int = 14,
    dtypes: Collection[DType | str] | None = None,
    masked: bool = False,
    fast_math: bool = False,
    rounding: bool = False,
) -> st.SearchStrategy[Program]:
    """Programs at the tile level.

    `ops` are the ops that they are made of, besides those that make operands for them; `max_ops`
    how many of those there are at most; `dtypes` those of their data.  `masked`: with
    `tile.masked_load` and `tile.update`, for passes that run before `follow-masks`.  `fast_math`:
    such as may be computed in any order.  `rounding`: with sums of floats that have to be rounded,
    for oracles that know by how much, as `agree` does; else floats that are added up are small
    whole numbers, the sum of which has the same bits in whatever order.
    """
    chosen = [cls for cls in _known_ops(make_tile) if masked or cls not in _MASKED]
    draft = partial(TileDraft, fast_math=fast_math, rounding=rounding, masked=masked)
    return _programs(draft, chosen, ops, max_ops, dtypes)


def graph(
    *,
    ops: Collection[type[Op]] | None = None,
    max_ops: int = 15,
    dtypes: Collection[DType | str] | None = None,
    fast_math: bool = False,
    rounding: bool = False,
    portable: bool = False,
) -> st.SearchStrategy[Program]:
    """Programs at the graph level: functions of whole arrays, and such arrays.

    `ops` are the ops that they are made of, besides those that make operands for them; `max_ops`
    how many of those there are at most; `dtypes` those of their data.  `fast_math`: such as may
    be computed in any order.  `rounding`: with sums of any floats, as in `tile`.
    `portable`: such as all GPUs run, which add to no elements of 64 bits in memory.
    """
    draft = partial(GraphDraft, fast_math=fast_math, rounding=rounding, portable=portable)
    return _programs(draft, _known_ops(make_graph), ops, max_ops, dtypes)


def metal(
    *,
    ops: Collection[type[Op]] | None = None,
    max_ops: int = 28,
    dtypes: Collection[DType | str] | None = None,
    divergent: bool = True,
    portable: bool = False,
) -> st.SearchStrategy[Program]:
    """Programs at the metal level: what the threads of 1 to 8 simdgroups do, together or apart.

    @given(programs.metal(dtypes=["f32"]))
    def test_my_pass(program):
        preserves(MyPass(), program)

    They are free of races, with barriers where they need them, and do the same in whichever order
    simdgroups go.  `ops` are the ops that they are made of, besides those that make operands for
    them; `max_ops` how many of those there are at most; `dtypes` those of their data.  Unless they
    are `divergent`, threads that have parted ways use no memory that is written: a barrier may
    stand before each access.  `portable`: such as all GPUs run alike, without functions that they
    may round otherwise, and products of tensors, and with lanes that exchange only what theirs can.
    """
    known = _known_ops(make_metal)
    if portable:
        apart = math.Transcendental, metal_ir.MmaShared
        known = [cls for cls in known if not issubclass(cls, apart)]
    draft = partial(MetalDraft, divergent=divergent, portable=portable)
    return _programs(draft, known, ops, max_ops, dtypes)


def _programs(
    draft: Callable[[list[Step], Choices, tuple[DType, ...]], Draft],
    known: Sequence[type[Op]],
    ops: Collection[type[Op]] | None,
    max_ops: int,
    dtypes: Collection[DType | str] | None,
) -> st.SearchStrategy[Program]:
    """Programs that a draft makes of random steps.

    `known` lists the ops that the level has; `ops` picks some of them.
    """
    wanted = elementwise.ALL if dtypes is None else tuple([DType(str(d)) for d in dtypes])
    unknown = [cls.name for cls in ops or () if cls not in known]
    if unknown:
        raise DeclarationError(f"random programs are not made of {', '.join(unknown)}")
    chosen = [cls for cls in known if (ops is None or cls in ops) and _applies(cls, wanted)]
    if not chosen:
        raise DeclarationError("there are no random programs of these ops and dtypes")
    # The first alternative, no op at all, is what shrinking makes of a step.
    alternatives = [None, *[cls for cls in chosen for _ in range(_WEIGHTS.get(cls, 1))]]

    def build(drawn: tuple[list[bytes], bytes]) -> Program:
        steps, config = drawn
        stand_ins = _stand_ins(chosen, Choices(config[CONFIG_BYTES:]))
        made: list[Step] = []
        for data in steps:
            cls = alternatives[int.from_bytes(data[:2], "big") % len(alternatives)]
            made.append((cls and stand_ins[cls], data[2:]))
        drafted = draft(made, Choices(config[:CONFIG_BYTES]), wanted)
        drafted.nests = ops is None
        return drafted.finish()

    # One draw for a step: several take longer than building the program.  Each step is unique,
    # whatever it is: so hypothesis does not try five variants of a program, with a step copied over
    # another, for each new one.  New ones find more.  Two draws for the rest would be copied, too.
    steps = st.lists(
        _bytes(STEP_BYTES), min_size=max_ops, max_size=max_ops, unique_by=lambda step: object()
    )
    return st.tuples(steps, _bytes(CONFIG_BYTES + SWARM_BYTES)).map(build)


def pipelines(
    *, passes: Sequence[str] = GENERIC, max_passes: int = 6
) -> st.SearchStrategy[Pipeline]:
    """Some passes in some order.

    @given(pipelines(), programs.tile())
    def test_any_order(pipeline, program):
        preserves(pipeline, program)
    """
    listed = st.lists(st.sampled_from(list(passes)), min_size=1, max_size=max_passes)
    return listed.map(lambda names: Pipeline.parse(",".join(names)))


def _bytes(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def _known_ops(rules: Facet) -> list[type[Op]]:
    """The ops of Iris that have a rule for making them, at a level or at any, the simplest
    first."""
    ours = [cls for cls in OPS.values() if cls.__module__.startswith("iris.ir.")]
    return [cls for cls in ours if rules.get(cls) or make.get(cls)]


def _applies(cls: type[Op], dtypes: Collection[DType]) -> bool:
    """Whether there is a dtype for each operand; i32 and bool are there for offsets and masks."""
    there = {*dtypes, bool_, i32}
    # Pointers and tiles are asked for, too: they accept no scalar, whatever its dtype.
    accepted = [elementwise.accepted(f.constraint) for f in cls.spec.fixed]
    return all(there.intersection(some) for some in accepted if some)


def _stand_ins(ops: Sequence[type[Op]], choices: Choices) -> dict[type[Op], type[Op]]:
    """For each op itself or, if it is banned, the next that is not: a program of few kinds of ops
    gets deeper into what these do."""
    share = choices.of(BANNED)
    allowed = [cls for cls in ops if choices.below(256) >= share]
    allowed = allowed or list(ops)
    stand_in = allowed[0]
    found = {}
    for cls in reversed(ops):
        if cls in allowed:
            stand_in = cls
        found[cls] = stand_in
    return found
