"""Passes may be wrong in ways that no output shows: programs cost more, less is known of them, or
no GPU has room for them.

cheaper("cse,dce", program)
keeps("canonicalize", narrowest_access, program)
fits(program)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, TypeAlias

from iris.errors import LanguageError, OutOfResources
from iris.ir import Module, tile, verify
from iris.ir.core import Op, Value
from iris.ir.types import Tile
from iris.passes import Pass, Pipeline
from iris.passes import run as run_passes
from iris.passes.axis import Axes, order, vector
from iris.passes.check_resources import allocated
from iris.passes.cost import estimate
from iris.passes.pipeline_loads import PipelineLoads
from iris.passes.sample import Sizes
from iris.passes.stage_dots import StageDots
from iris.target import AppleGPU
from iris.testing.faults import Judge, doing
from iris.testing.levels import LOWERING, with_simdgroups
from iris.testing.oracles import pipeline_of
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.emit import lowered
from iris.tools.replay import Program, Scalar

#: What makes programs faster, for which it takes memory.
TAKES_ROOM = (StageDots, PipelineLoads)

#: What a program costs.
Cost: TypeAlias = Callable[[Program], float]
#: What is known of a module; the greater, the better.
Fact: TypeAlias = Callable[[Module], Any]


def cycles(program: Program) -> float:
    """The cycles that a launch spends on a core of an M1, on whatever part of it, summed; for other
    than Metal IR those of the kernels that it is lowered to.  inf, if no GPU can run them."""
    total = 0.0
    try:
        for kernel in lowered(program.function):
            grid = kernel.grid or program.grid
            sizes = Sizes.of((grid[0], grid[1], grid[2]), _known(program))
            total += sizes.programs * sum(estimate(kernel, sizes).chips[0].spent.values())
    except (OutOfResources, LanguageError):
        return inf
    return total


def _known(program: Program) -> dict[str, object]:
    """The shapes and numbers that a program is launched with, by name."""
    parameters = program.function.body.arguments
    arguments = zip(parameters, program.arguments, program.make_arguments(), strict=True)
    return {
        str(parameter.name): value if isinstance(recipe, Scalar) else recipe.shape
        for parameter, recipe, value in arguments
    }


def cheaper(
    passes: Pass | Pipeline | str,
    program: Program,
    cost: Cost = cycles,
    *,
    seconds: float = SECONDS,
) -> None:
    """Asserts that a program costs no more after some passes than before.

        @given(programs.tile())
        def test_my_pass(program):
            cheaper(MyPass(), program)
            cheaper("unroll,cse", program, lambda made: len(list(made.module.walk())))

    The error names the first pass after which the program costs more than at first.
    """
    __tracebackhide__ = True
    check(program, [pipeline_of(passes)], partial(_costs_no_more, cost), seconds=seconds)


def _costs_no_more(cost: Cost, program: Program) -> Judge:
    verify(program.module)
    before = cost(program)

    def judge(made: Program, rest: Pipeline) -> None:
        with doing("makes the program cost more"):
            after = cost(made)
            assert after <= before, f"{before:g} before, {after:g} after"

    return judge


def keeps(
    passes: Pass | Pipeline | str, fact: Fact, program: Program, *, seconds: float = SECONDS
) -> None:
    """Asserts that no less is known of a program after some passes than before.

        @given(programs.tile())
        def test_my_pass(program):
            keeps(MyPass(), narrowest_access, program)

    A fact is a function of a module whose values are compared by `<=`, the greater the better, such
    as `narrowest_access` and `blocks`.
    """
    __tracebackhide__ = True
    check(program, [pipeline_of(passes)], partial(_knows_no_less, fact), seconds=seconds)


def _knows_no_less(fact: Fact, program: Program) -> Judge:
    verify(program.module)
    before = fact(program.module)

    def judge(made: Program, rest: Pipeline) -> None:
        with doing("makes less known"):
            after = fact(made.module)
            assert before <= after, f"{fact.__name__} was {before} and is {after}"

    return judge


def fits(program: Program, *, simdgroups: Sequence[int] = (1, 4), seconds: float = SECONDS) -> None:
    """Asserts that passes take no threadgroup memory that a GPU has not: a tile program that it has
    room for without `stage-dots` and `pipeline-loads` must fit with them, too.

    @given(programs.tile(ops=[tile.Dot]))
    def test_products(program):
        fits(program)
    """
    __tracebackhide__ = True
    for count in simdgroups:
        passes = with_simdgroups(LOWERING, count).passes
        if _has_room(program.module, passes):
            continue
        for number, pass_ in enumerate(passes):
            if isinstance(pass_, TAKES_ROOM):
                before, rest = passes[:number], passes[number + 1 :]
                oracle = partial(_leaves_room, before, rest)
                check(program, [Pipeline((*before, pass_))], oracle, seconds=seconds)


def _has_room(module: Module, passes: Sequence[Pass]) -> bool:
    """Whether a GPU has room in threadgroup memory for what passes make."""
    made = run_passes(module, Pipeline(tuple(passes)))
    return all(sum(allocated(f.walk()).values()) <= AppleGPU().threadgroup_bytes for f in made)


def _leaves_room(before: Sequence[Pass], rest: Sequence[Pass], program: Program) -> Judge:
    """The oracle: of a pass, that there is room after it and the rest if there is without it."""

    def judge(made: Program, left: Pipeline) -> None:
        if not left.passes and not _has_room(made.module, rest):
            with doing("took so much room that no GPU has enough"):
                assert not _has_room(program.module, [*before, *rest]), "without it there is enough"

    return judge


def narrowest_access(module: Module) -> float:
    """How many elements each load and store of a tile can move at once, at least."""
    axes, accesses = Axes(), (tile.Load, tile.Store, tile.LoadTile, tile.StoreTile)
    widths = [
        vector(op, order(op, axes)[0], axes)
        for op in module.walk()
        if isinstance(op, accesses) and any(isinstance(v.type, Tile) for v in _values(op))
    ]
    return min(widths, default=inf)


def _values(op: Op) -> tuple[Value, ...]:
    return (*op.operands, *op.results)


def blocks(module: Module) -> int:
    """How many loads and stores of tiles `recover-blocks` makes no block of, negated."""
    recovered = run_passes(module, "recover-blocks")
    return -sum(
        isinstance(op, tile.Load | tile.Store) and isinstance(op.offset.type, Tile)
        for op in recovered.walk()
    )
