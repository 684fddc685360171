"""Checking that the GPU can do what a kernel asks for."""

from __future__ import annotations

from dataclasses import dataclass

from iris.errors import LanguageError, SourceSpot
from iris.ir import tile
from iris.ir.core import Level, Module
from iris.ir.types import f32, i32, u32
from iris.passes.pipeline import TargetPass
from iris.targets import Target


@dataclass(frozen=True)
class CheckTarget(TargetPass):
    """Refuse ops that the GPU does not have, on every device alike.

        %old: i64 = tile.atomic add %X, %i, %one

    is refused with

        Apple GPUs have atomics of 32-bit elements, not of i64; use an array of i32

    It changes nothing.  How much a kernel takes is asked by `check-resources`.
    """

    name = "check-target"
    level = Level.TILE

    def run(self, module: Module) -> dict[str, int]:
        atomics = [op for op in module.walk() if isinstance(op, (tile.Atomic, tile.AtomicCas))]
        for op in atomics:
            check(op, self.target)
        return {"atomics": len(atomics)}


def check(op: tile.Atomic | tile.AtomicCas, target: Target) -> None:
    """Raises `LanguageError` for an atomic that a target does not have."""
    dtype = op.result.type.element
    if dtype.bits not in target.atomic_bits:
        bits = "- and ".join(map(str, target.atomic_bits))
        at_line = op.location and SourceSpot.of_line(*op.location)
        integer = i32 if dtype.is_signed else u32
        raise LanguageError(
            f"{target.maker} GPUs have atomics of {bits}-bit elements, not of {dtype}; "
            f"use an array of {f32 if dtype.is_float else integer}",
            at_line,
        )
