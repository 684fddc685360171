"""Random types, arrays and schedules.

@given(arrays("f16", (64,)), types())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy.typing as npt
from hypothesis import strategies as st

from iris.compiler.options import Options
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.ir.core import Level
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LinearLayout
from iris.ir.types import DTYPES, DType, Ptr, Registers, Staged, Tensor, Threadgroup, Tile, Type
from iris.passes import Pass, Pipeline
from iris.passes.graph.split_reductions import SplitReductions
from iris.passes.metal.allocate_threadgroup import AllocateThreadgroup
from iris.passes.tile.pipeline_loads import PipelineLoads
from iris.targets import DEFAULT, Target, imaginary, nvidia
from iris.testing import layouts
from iris.testing.choices import Choices
from iris.testing.levels import without_limits
from iris.testing.recipes import recipe


def arrays(dtype: DType | str, shape: Sequence[int]) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Arrays as memory holds them, bf16 as bits.

    Some are of small whole numbers, some of any numbers or of numbers between whole ones, some of
    numbers at which things go wrong (zeros of two signs, infinities, nan, limits), and some of few
    numbers that are often equal.
    """
    known, sizes = DType(str(dtype)), tuple(shape)
    drawn = st.binary(min_size=8, max_size=8)
    return drawn.map(lambda data: recipe(known, sizes, Choices(data)).make(0))


def types() -> st.SearchStrategy[Type]:
    """Types of values: numbers, pointers, tiles with and without layouts, tensors, registers,
    threadgroup memory and tiles staged in it."""
    dtypes = st.sampled_from(list(DTYPES.values()))
    sizes = st.sampled_from((1, 2, 4, 8, 32))
    shapes = st.lists(sizes, min_size=1, max_size=3).map(tuple)
    tensors = st.lists(st.integers(0, 70), max_size=5).map(tuple)
    counts = st.integers(1, 300)
    return st.one_of(
        dtypes,
        st.builds(Ptr, dtypes, st.booleans(), st.booleans()),
        st.builds(Tile, shapes, dtypes),
        st.builds(_laid_out, layouts.linear(), dtypes),
        st.builds(Tensor, tensors, dtypes),
        st.builds(Registers, counts, dtypes),
        st.builds(_shaped_registers, st.integers(1, 70), dtypes, st.sampled_from((1, 2, 4, 8, 16))),
        st.builds(Threadgroup, counts, dtypes),
        st.builds(_staged, shapes, dtypes),
    )


def _shaped_registers(variables: int, dtype: DType, lanes: int) -> Type:
    return Registers(variables * lanes, dtype, lanes)


def _laid_out(layout: LinearLayout, dtype: DType) -> Type:
    return Tile(layout.shape, dtype, layout)


def _staged(shape: tuple[int, ...], dtype: DType) -> Type:
    return Staged(shape, dtype, Layout.row_major(shape))


def schedules(*targets: Target) -> st.SearchStrategy[Pipeline]:
    """The lowering with what its passes let one choose: options of a launch, how loads are
    pipelined, how much threadgroup memory is used more than once; and for which of some targets,
    or of all kinds of them.

    @given(programs.tile(), schedules())
    def test_lowering(program, schedule):
        agree(program, pipeline=schedule, simdgroups=(0,))
    """
    # One draw: of two of a kind hypothesis copies one over the other, and repeats the rest.
    chosen = product(_OPTIONS, _PIPELINING, (30720, 8192, 1024, 16384), targets or _TARGETS)
    return st.sampled_from([*chosen]).map(lambda choice: _scheduled(*choice))


_OPTIONS = (
    Options(num_simdgroups=1, preload=True),
    Options(num_simdgroups=2, swizzle=2),
    Options(num_simdgroups=4, serpentine=True),
    Options(num_simdgroups=8, swizzle=4, preload=True),
)


# Whatever depends on a target is decided one way for some of them, and otherwise for others.
_TARGETS = (DEFAULT, nvidia.H200, imaginary.SLOW_CORES, imaginary.ONE_CORE)


def graph_schedules(*targets: Target) -> st.SearchStrategy[Pipeline]:
    """The passes that make kernels of a graph, for one of some targets, or of all kinds of them;
    reductions are split in long or short parts.

    @given(programs.graph(portable=True), graph_schedules())
    def test_kernels(program, schedule):
        fuses(program, pipeline=schedule)
    """
    chosen = product((256, 2, 5, 16), targets or _TARGETS)
    return st.sampled_from([*chosen]).map(lambda choice: _split(*choice))


def _split(min_part: int, target: Target) -> Pipeline:
    passes = [
        replace(p, min_part=min_part) if isinstance(p, SplitReductions) else p
        for p in GRAPH_PIPELINE
    ]
    return Pipeline(tuple(passes)).on(target)


_PIPELINING = (
    PipelineLoads(),
    PipelineLoads(always=True),
    PipelineLoads(always=True, depth=3),
)


def _scheduled(
    options: Options, pipelining: PipelineLoads, budget: int, target: Target
) -> Pipeline:
    choices: dict[type[Pass], Pass] = {
        PipelineLoads: pipelining,
        AllocateThreadgroup: AllocateThreadgroup(budget=budget),
    }
    lowering = without_limits(options.pipeline(Level.METAL))
    return Pipeline(tuple([choices.get(type(p), p) for p in lowering])).on(target)
