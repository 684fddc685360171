"""Choosing where products read their operands."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir import tile
from iris.ir.core import Module, Op, Value
from iris.ir.layout.cute import Layout
from iris.ir.types import Staged, Tile
from iris.passes.layouts.fragments import comes_from_product, is_of_fragments
from iris.passes.pipeline import Pass
from iris.target import AppleGPU

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
    different banks, unless there is no room for that.  A left operand that is itself made of a
    product is in the registers that it is needed in, and stays there.
    """

    name = "stage-dots"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        staged = 0
        for op in list(module.walk()):
            if isinstance(op, tile.Dot) and is_of_fragments(op):
                staged += _stage(op)
        return {"staged": staged}


def _stage(op: tile.Dot) -> int:
    """Stage the operands of a product that are not in registers; gives how many."""
    operands = [op.b] if comes_from_product(op.a) else [op.a, op.b]
    tiles = dict.fromkeys(v for v in operands if isinstance(v.type, Tile))
    types = [_staged_type(v, PADDING_BYTES) for v in tiles]
    if sum(map(_bytes, types)) > AppleGPU().threadgroup_bytes:
        types = [_staged_type(v, 0) for v in tiles]
    where: dict[Value, Value] = {}
    for value, type_ in zip(tiles, types, strict=True):
        stage = tile.Stage(value, result=type_, location=op.location)
        _outermost(op, value).insert_before(stage)
        stage.result.name = value.name
        where[value] = stage.result
    a = where.get(op.a, op.a) if len(operands) > 1 else op.a
    op.set_operands((a, where.get(op.b, op.b), *op.operands[2:]))
    return len(tiles)


def _outermost(op: Op, value: Value) -> Op:
    """The op with regions around an op, or the op itself, that stands where a value is made: what
    is the same in every round of a loop is staged before it."""
    while op.parent is not value.home and op.parent_op is not None:
        op = op.parent_op
    return op


def _staged_type(value: Value, padding_bytes: int) -> Staged:
    """Row-major as the value was loaded, each row with some padding."""
    type_ = value.type
    assert isinstance(type_, Tile)
    rows, columns = type_.shape
    padding = padding_bytes // (type_.element.bits // 8)
    if isinstance(value.op, tile.Transpose):
        layout = Layout((rows, columns), (1, rows + padding))
    else:
        layout = Layout((rows, columns), (columns + padding, 1))
    return Staged(type_.shape, type_.element, layout)


def _bytes(type_: Staged) -> int:
    return type_.layout.cosize * (type_.element.bits // 8)
