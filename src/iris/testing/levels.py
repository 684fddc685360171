"""The levels agree: what a tile program does is what its Metal IR does, within error bounds.

    @given(programs.tile())
    def test_lowering(program):
        agree(program)

There is no tolerance: `interp.bounds` says of each element how far any correct execution may be
from the interpreter's value, which most often is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.compiler.pipelines import METAL_PIPELINE
from iris.interp import metal
from iris.interp.frame import Grid
from iris.ir import Level
from iris.ir.control import Func
from iris.ir.literal import text
from iris.ir.scalar import from_bits, to_bits
from iris.ir.types import DType, Ptr, bf16
from iris.passes import Pipeline
from iris.passes.metal.check_resources import CheckResources
from iris.passes.tile.layouts import ChooseSimdgroups
from iris.targets import DEFAULT, Target
from iris.testing import bounds
from iris.testing.elements import around
from iris.testing.faults import Judge, doing, is_unordered, stage_options
from iris.testing.reduce import SECONDS
from iris.testing.report import Failure, check
from iris.tools.replay import Program

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Agreement:
    """How many elements were compared, and how: the same bits, within a bound, or not at all."""

    exact: int = 0
    bounded: int = 0
    undetermined: int = 0

    @property
    def elements(self) -> int:
        return self.exact + self.bounded + self.undetermined

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.exact + other.exact,
            self.bounded + other.bounded,
            self.undetermined + other.undetermined,
        )

    def __str__(self) -> str:
        share = self.undetermined / max(self.elements, 1)
        return (
            f"{self.elements} elements: {self.exact} exact, {self.bounded} bounded, "
            f"{self.undetermined} undetermined ({share:.2%})"
        )


def without_limits(pipeline: Pipeline) -> Pipeline:
    """A pipeline for a program that a GPU has no room for: it runs in the interpreter all the
    same."""
    return Pipeline(tuple([p for p in pipeline if not isinstance(p, CheckResources)]))


LOWERING = without_limits(METAL_PIPELINE)


class Disagreement(Failure):
    """An element that no correct execution has."""


def agree(
    program: Program,
    *,
    simdgroups: Sequence[int] = (1, 4),
    interleavings: Sequence[int] = (0, 1),
    pipeline: Pipeline | str = LOWERING,
    seconds: float = SECONDS,
) -> Agreement:
    """Asserts that a tile program and its Metal IR write the same.

    It is lowered for each number of `simdgroups`, and run with all threads in lockstep and, if
    there are several simdgroups, in an interleaving for each of some seeds.  The result counts the
    elements that were compared.  The error names the first pass after which something is wrong and
    shows what it changed, for the smallest program found in some `seconds`.
    """
    __tracebackhide__ = True
    lower = Pipeline.parse(pipeline) if isinstance(pipeline, str) else pipeline
    pipelines = [with_simdgroups(lower, count) for count in simdgroups]
    oracle = WithinBounds(interleavings)
    check(program, pipelines, oracle, error=Disagreement, seconds=seconds)
    return oracle.counted


class WithinBounds:
    """The oracle of `agree`: what passes make of a tile program must do the same within bounds.

    Finished Metal IR runs in lockstep and in an interleaving for each of some seeds.
    """

    def __init__(self, interleavings: Sequence[int] = (0, 1)):
        self.interleavings = interleavings
        self.counted = Agreement()

    def __call__(self, program: Program) -> Judge:
        return partial(self._judge, Expected.of(program))

    def _judge(self, expected: Expected, made: Program, rest: Pipeline) -> None:
        options = stage_options(made, rest)
        self._run(expected, made, "in lockstep", options)
        function = made.function
        # One simdgroup alone has nobody to take turns with.
        has_turns = function.function_level is Level.METAL and function.simdgroups > 1
        if has_turns and not is_unordered(made, rest):
            for seed in self.interleavings:
                self._run(
                    expected, made, f"with interleave={seed}", {"interleave": seed, **options}
                )

    def _run(self, expected: Expected, made: Program, how: str, options: Mapping[str, Any]) -> None:
        arguments = made.make_arguments()
        with doing("made a program that fails", how):
            made.run(arguments, output=lambda line: None, **options)
        with doing("changed what the program does", how):
            self.counted += expected.compare(arguments)


def with_simdgroups(pipeline: Pipeline, count: int) -> Pipeline:
    """A pipeline in which `choose-simdgroups` is told how many, if it is not already."""
    return Pipeline(
        tuple(
            replace(p, count=p.count or count) if isinstance(p, ChooseSimdgroups) else p
            for p in pipeline
        )
    )


def launch(
    function: Func, grid: Grid, arguments: Sequence[Any], *, interleave: int | None = None
) -> Sequence[Any]:
    """Runs Metal IR; the arguments, with what was written."""
    metal.run(function, grid, arguments, output=lambda line: None, interleave=interleave)
    return arguments


class Expected:
    """What a tile function writes to its arguments, and the bounds of that: where functions such as
    `exp` are those of the interpreters, or with `exact_math=False`, where they may be off by what
    a target allows."""

    def __init__(
        self,
        function: Func,
        grid: Grid,
        arguments: Sequence[Any],
        output: Callable[[str], object] = lambda line: None,
        exact_math: bool = True,
        target: Target = DEFAULT,
    ):
        self.errors: Mapping[int, Array] = bounds.run(
            function, grid, arguments, target=target, exact_math=exact_math, output=output
        )
        self.arrays = list(arguments)
        self.parameters = function.body.arguments

    @classmethod
    def of(cls, program: Program, *, exact_math: bool = True, target: Target = DEFAULT) -> Expected:
        """What a program writes."""
        arguments = program.make_arguments()
        return cls(program.function, program.grid, arguments, exact_math=exact_math, target=target)

    def compare(self, found: Sequence[Any]) -> Agreement:
        """Raises `Disagreement` for the first element that is not as it must be."""
        counted = Agreement()
        for position in self.errors:
            counted += self.compare_array(position, found)
        return counted

    def compare_array(self, position: int, found: Sequence[Any]) -> Agreement:
        """The same of one argument."""
        parameter = self.parameters[position]
        assert isinstance(parameter.type, Ptr)
        return compare(
            parameter.name or f"argument {position}",
            parameter.type.element,
            self.arrays[position],
            self.errors[position],
            found[position],
        )


def compare(name: str, dtype: DType, expected: Array, errors: Array, found: Array) -> Agreement:
    """Compares an array, bf16 as its bits."""
    was, now = (_values(dtype, x) for x in (expected, found))
    same = to_bits(dtype, was) == to_bits(dtype, now)
    if dtype.is_float:
        same |= np.isnan(was) & np.isnan(now)
    unknown = errors == np.inf
    near = unknown | same
    if not near.all():
        with np.errstate(invalid="ignore"):
            near |= np.abs(now.astype(np.float64) - was.astype(np.float64)) <= errors
        near &= same | (errors > 0)
    wrong = np.flatnonzero(~near)
    if wrong.size:
        at = int(wrong[0])
        place = ", ".join(map(str, np.unravel_index(at, expected.shape)))
        one, other = (text(int(to_bits(dtype, x).reshape(-1)[at]), dtype) for x in (was, now))
        bound = errors.reshape(-1)[at]
        allowed = f"it may be off by {bound:.3g}" if bound else "it is exact"
        raise Disagreement(
            f"{name}[{place}] is {other} where it must be {one}; {allowed} "
            f"({wrong.size} of {expected.size} elements are wrong); "
            f"{around(dtype, to_bits(dtype, was), to_bits(dtype, now), at)}"
        )
    exact = int((errors == 0).sum())
    undetermined = int(unknown.sum())
    return Agreement(exact, errors.size - exact - undetermined, undetermined)


def _values(dtype: DType, array: Array) -> Array:
    flat = np.ascontiguousarray(array)
    return from_bits(dtype, flat) if dtype is bf16 else flat
