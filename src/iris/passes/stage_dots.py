"""Choosing where products read their operands."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir import tile
from iris.ir.core import Module, Value
from iris.ir.layout.cute import Layout
from iris.ir.types import Staged, Tile
from iris.passes.layouts.fragments import comes_from_product, is_of_fragments
from iris.passes.pipeline import Pass

PADDING_BYTES = 16


@dataclass(frozen=True)
class StageDots(Pass):
    """Put the operands of products into threadgroup memory, where all simdgroups read the
    fragments that they need.

        %c: tile<64x64xf32> = tile.dot %a, %b, acc=%acc

    becomes

        %0: staged<64x32xf32, (64,32):(36,1)> = tile.stage %a
        %1: staged<32x64xf32, (32,64):(68,1)> = tile.stage %b
        %c: tile<64x64xf32> = tile.dot %0, %1, acc=%acc

    Rows are 16 bytes further apart than they are long, so that the rows of a fragment lie in
    different banks.  A left operand that is itself made of a product is in the registers that it
    is needed in, and stays there.
    """

    name = "stage-dots"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        staged = 0
        for op in list(module.walk()):
            if isinstance(op, tile.Dot) and is_of_fragments(op):
                a = op.a if comes_from_product(op.a) else _stage(op, op.a)
                b = _stage(op, op.b)
                staged += (a is not op.a) + (b is not op.b)
                op.set_operands((a, b, *op.operands[2:]))
        return {"staged": staged}


def _stage(op: tile.Dot, operand: Value) -> Value:
    type_ = operand.type
    if not isinstance(type_, Tile):
        return operand
    for user in operand.users:
        if isinstance(user, tile.Stage) and user.parent is op.parent:
            return user.result
    stage = tile.Stage(operand, result=Staged(type_.shape, type_.element, _padded(operand, type_)))
    stage.location = op.location
    op.insert_before(stage)
    stage.result.name = operand.name
    return stage.result


def _padded(operand: Value, type_: Tile) -> Layout:
    """Row-major as the value was loaded, each row with some padding."""
    rows, columns = type_.shape
    padding = PADDING_BYTES // (type_.element.bits // 8)
    if isinstance(operand.op, tile.Transpose):
        return Layout((rows, columns), (1, rows + padding))
    return Layout((rows, columns), (columns + padding, 1))
