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

from iris.analysis.axis import Axes, order, vector
from iris.analysis.registers import Pressure
from iris.cost.estimate import estimate
from iris.cost.sample import Sizes
from iris.errors import LanguageError, OutOfResources
from iris.ir import Module, tile, verify
from iris.ir.core import Op, Value
from iris.ir.types import Staged, Tile
from iris.passes import Pass, Pipeline
from iris.passes import run as run_passes
from iris.passes.tile.pipeline_loads import PipelineLoads
from iris.targets import DEFAULT
from iris.testing.faults import Judge, doing
from iris.testing.levels import LOWERING, with_simdgroups
from iris.testing.oracles import pipeline_of
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.emit import lowered
from iris.tools.replay import Program, Scalar

#: The passes that decide what is staged, and those before.
STAGING = Pipeline(
    LOWERING.passes[: 1 + [isinstance(p, PipelineLoads) for p in LOWERING].index(True)]
)

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
            cheaper("unroll,cse", program, lambda made: len(made.module.walk()))

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
    """Asserts that a GPU has threadgroup memory for all tiles of a tile program that are staged at
    once.

    @given(programs.tile(ops=[tile.Dot]))
    def test_products(program):
        fits(program)
    """
    __tracebackhide__ = True
    pipelines = [with_simdgroups(STAGING, count) for count in simdgroups]
    check(program, pipelines, has_room, seconds=seconds)


def has_room(program: Program) -> Judge:
    """The oracle of `fits`."""
    room = DEFAULT.threadgroup_bytes

    def judge(made: Program, rest: Pipeline) -> None:
        with doing("took more threadgroup memory than there is"):
            most = Pressure(made.function, _staged_bytes).most
            assert most <= room, f"{most} bytes are staged at once, of {room}"

    return judge


def _staged_bytes(value: Value) -> int:
    """The bytes of threadgroup memory that a value takes."""
    type_ = value.type
    return type_.layout.cosize * type_.element.bytes if isinstance(type_, Staged) else 0


def narrowest_access(module: Module) -> float:
    """How many elements each load and store of a tile can move at once, at least."""
    axes, accesses = Axes(), (tile.Load, tile.Store, tile.TileAccess)
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
