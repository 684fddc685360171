"""The pass that lowers Tile IR to Metal IR."""

from __future__ import annotations

from dataclasses import dataclass

from iris.errors import LanguageError, PipelineError, SourceSpot
from iris.ir.control import Func
from iris.ir.core import Level, Module, Op
from iris.ir.effects import asks_others
from iris.ir.tile import TileOp
from iris.ir.waiting import gives_up, shares_memory, waiting_loops
from iris.passes.metal.uniform_conditions import make_uniform
from iris.passes.pipeline import TargetPass
from iris.passes.tile.lowering.check_replicas import assert_equal_replicas
from iris.passes.tile.lowering.context import Lowering


@dataclass(frozen=True)
class LowerToMetal(TargetPass):
    """Lower a tile program, in which all tiles have layouts, to the program of one thread.

        %cols: tile<128xi32, linear<128, register=[1, 2], lane=[4, 8, 16, 32, 64], simdgroup=[]>> =
            tile.arange 0

    becomes

        %lane: i32 = metal.lane
        %c4: i32 = constant 4
        %0: i32 = mul %lane, %c4
        %1: regs<4xi32> = metal.pattern [1, 2]
        %2: regs<4xi32> = metal.splat %0
        %cols: regs<4xi32> = add %2, %1

    A tile becomes a register array; a scalar, equal in all threads, stays one.  Threads share
    memory without barriers: `insert-barriers` inserts those that are needed.

    Barriers and shuffles must not stand under a condition that differs between threads.  Such
    conditions are made uniform, as `uniform-conditions` does; `broadcast` counts them.

    With `check-replicas`, lanes that hold one element of a tile assert that they have equal bits.

    A loop that waits for other programs is an error unless the target promises forward progress.
    Messages between programs by atomic ops are an error unless the target has fences.
    """

    name = "lower-to-metal"
    level = TileOp.level
    check_replicas: bool = False

    def run(self, module: Module) -> dict[str, int]:
        broadcast = 0
        for function in list(module):
            if not isinstance(function, Func):
                continue
            if not function.simdgroups:
                raise PipelineError(
                    f"lower-to-metal: @{function.symbol} has no number of simdgroups; "
                    "run choose-simdgroups and assign-layouts before"
                )
            self._check_waiting(function)
            lowered = Func(
                function.symbol,
                Level.METAL,
                returns=function.returns,
                simdgroups=function.simdgroups,
                fast_math=function.fast_math,
                grid=function.grid,
                location=function.location,
            )
            function.insert_before(lowered)
            checked = assert_equal_replicas if self.check_replicas else None
            Lowering(function, lowered, self.target, checked).run()
            function.erase()
            # Convergent ops are valid only under conditions that are visibly uniform.
            broadcast += make_uniform(lowered)
        return {"broadcast": broadcast}

    def _check_waiting(self, function: Func) -> None:
        """Refuse waiting loops and messages that the target does not support."""
        loops = [loop for loop in waiting_loops(function) if not gives_up(loop)]
        if loops and not self.target.forward_progress:
            raise LanguageError(
                f"this loop waits for other programs, and {self.target.maker} GPUs do not promise "
                "that these go on meanwhile; let the program that is done last do the rest "
                "(iris.atomic_add counts those that are done), or launch another kernel",
                _line_of(loops[0]),
            )
        if not self.target.fences and shares_memory(function):
            receiver = next(filter(asks_others, function.walk()))
            raise LanguageError(
                "this tells a program what others have stored, for which Metal has fences from "
                "version 3.2 on; launch another kernel instead",
                _line_of(receiver),
            )


def _line_of(op: Op) -> SourceSpot | None:
    return None if op.location is None else SourceSpot.of_line(*op.location)
