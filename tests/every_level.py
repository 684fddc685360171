"""A device that runs a kernel at every level and in many ways, and holds each against the first.

A launch is done by the interpreter of Tile IR, as by the device `interp`.  The same kernel, lowered
for several numbers of simdgroups, runs on copies of the memory, in lockstep and in interleavings;
each array must be what `interp.bounds` says of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from iris.compiler.pipelines import METAL_PIPELINE, TILE_PIPELINE
from iris.errors import OutOfResources
from iris.ir import metal, to_text, verify
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes import Instrument
from iris.passes import run as run_passes
from iris.passes.instruments import Check
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.interpreters import Interpreter
from iris.testing.levels import Agreement, Disagreement, Expected, launch, with_simdgroups
from iris.testing.oracles import text_roundtrips
from support import counts

SIMDGROUPS = (1, 4) if counts(0, 1) == 0 else (1, 2, 4, 8)
INTERLEAVINGS = counts(2, 20)
LOWERING = METAL_PIPELINE.after(len(TILE_PIPELINE))

# By what simdgroups have to do with each other.
SHARED = (metal.Alloc, metal.Barrier, metal.AtomicLoad, metal.Atomic, metal.CompareExchange)


def orders(function: Func) -> list[int | None]:
    """The seeds to run a function with: in lockstep, and by turns if that can make a difference.

    One simdgroup alone has nobody to take turns with.  Any other meeting of simdgroups is a race,
    which is found in lockstep, too.
    """
    meeting = function.simdgroups > 1 and any(isinstance(op, SHARED) for op in function.walk())
    return [None, *range(INTERLEAVINGS if meeting else 0)]


def state_of(module: Module) -> list[object]:
    """All that a module is: as long as this is equal, a pass has changed nothing."""
    state: list[object] = []
    for op in module.walk():
        state += op, op.parent, op.operands, op.attributes
        for value in op.results:
            state += value.type, value.name
        for region in op.regions:
            for value in region.arguments:
                state += value.type, value.name
    return state


class StagesRoundtrip:
    """A check: a stage is valid, and what no stage before it was like is read back as it was."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.before: list[object] = []

    def __call__(self, module: Module) -> None:
        state = state_of(module)
        if state == self.before:  # as after most passes
            return
        self.before = state
        verify(module)
        text = to_text(module, locations=True)
        if text not in self.seen:
            text_roundtrips(module, text)
        self.seen.add(text)


def each_lowered(
    entry: Func, counts: Sequence[int], watching: Sequence[Instrument] = ()
) -> Iterator[Func]:
    """A kernel lowered for several numbers of simdgroups, one after the other.

    What is made of a graph is of a size that many simdgroups can hold; of fewer it may be too much.
    """
    is_made = False
    for count in counts:
        copy = Module([entry.clone({})])
        try:
            (function,) = run_passes(copy, with_simdgroups(LOWERING, count), watching)
        except OutOfResources:
            if not entry.grid or (count == counts[-1] and not is_made):
                raise
            continue
        assert isinstance(function, Func)
        is_made = True
        yield function


class EveryLevel(Interpreter):
    """Runs kernels at every level, and raises `Disagreement` where the levels do not agree."""

    name = "every-level"
    accepts = Level.TILE
    counted: ClassVar[Agreement] = Agreement()

    def compile(self, entry: Func, source: Any = None) -> Program:
        # Every stage is valid, and is read back as it was.
        return Program(entry, list(each_lowered(entry, SIMDGROUPS, [Check(StagesRoundtrip())])))

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        ways = [
            (function, seed, self._copies(arguments))
            for function in program.code
            for seed in orders(function)
        ]
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        expected = Expected(program.entry, grid, views, output=print)
        for function, seed, copies in ways:
            found = launch(function, grid, copies, interleave=seed)
            try:
                EveryLevel.counted += expected.compare(found)
            except Disagreement as error:
                how = "in lockstep" if seed is None else f"interleave={seed}"
                raise Disagreement(
                    f"{error}\nby {function.simdgroups} simdgroups, {how}\n\n"
                    f"{Module([program.entry.clone({})])}\n{Module([function.clone({})])}"
                ) from None

    def _copies(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments on copies of the memory; arrays in one memory are in one copy."""
        memories: dict[int, Any] = {}
        copies = []
        for argument in arguments:
            if isinstance(argument, ArrayArgument):
                memory = argument.memory
                if id(memory) not in memories:
                    memories[id(memory)] = self.allocate(memory.nbytes)
                    memories[id(memory)][...] = memory
                argument = self._view(replace(argument, memory=memories[id(memory)]))
            copies.append(argument)
        return copies
