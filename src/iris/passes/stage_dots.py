"""Choosing where products read their operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iris.errors import PipelineError
from iris.ir import tile
from iris.ir.control import Func
from iris.ir.core import Module, Op, Value
from iris.ir.layout.cute import Layout
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import Staged, Tile
from iris.passes.layouts.fragments import (
    arrange,
    comes_from_product,
    is_of_fragments,
    matrix_type,
)
from iris.passes.pipeline import Pass
from iris.target import AppleGPU

PADDING_BYTES = 16
# What a thread may hold of an operand all the time, in 32-bit registers: a quarter of its own.
MOST_REGISTERS = AppleGPU().thread_registers // 4


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
    different banks, unless there is no room for that.

    A left operand stays in registers if each simdgroup needs rows that no other does, and either
    it is made of a product, whose rows are there already, or it is the same in every round of a
    loop and there is room for it.
    """

    name = "stage-dots"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        staged = 0
        for function in module:
            assert isinstance(function, Func)
            if not function.simdgroups:
                raise PipelineError(
                    f"@{function.symbol} does not say how many simdgroups run it; "
                    "run choose-simdgroups before"
                )
            products = [
                _Product(op, function.simdgroups)
                for op in function.walk()
                if isinstance(op, tile.Dot) and is_of_fragments(op)
            ]
            room = AppleGPU().threadgroup_bytes
            padding = PADDING_BYTES if _bytes(products, PADDING_BYTES) <= room else 0
            for product in products:
                product.stage(padding)
                staged += len(product.operands)
        return {"staged": staged}


class _Product:
    """A product, and which of its operands are staged."""

    def __init__(self, op: tile.Dot, simdgroups: int):
        self.op = op
        self.is_held = comes_from_product(op.a) or _is_kept(op, simdgroups)
        operands = [op.b] if self.is_held else [op.a, op.b]
        self.operands = list(dict.fromkeys(v for v in operands if isinstance(v.type, Tile)))

    def stage(self, padding: int) -> None:
        op = self.op
        where: dict[Value, Value] = {}
        for value in self.operands:
            stage = tile.Stage(value, result=_staged_type(value, padding), location=op.location)
            _outermost(op, value).insert_before(stage)
            stage.result.name = value.name
            where[value] = stage.result
        a = op.a if self.is_held else where.get(op.a, op.a)
        op.set_operands((a, where.get(op.b, op.b), *op.operands[2:]))


def _is_kept(op: tile.Dot, simdgroups: int) -> bool:
    """Whether the left operand is in registers all the time, while a loop goes on."""
    type_ = matrix_type(op.a)
    registers = prod(type_.shape) * type_.element.bits // (32 * simdgroups * SIMDGROUP_WIDTH)
    is_alone = arrange(op, simdgroups).rows == simdgroups
    return is_alone and op.a.home is not op.parent and registers <= MOST_REGISTERS


def _bytes(products: Sequence[_Product], padding: int) -> int:
    """What is in threadgroup memory at once: what is staged before a loop, and what one of the
    products in it needs besides."""
    early: dict[Value, int] = {}
    late = [0]
    for product in products:
        types = {v: _staged_type(v, padding) for v in product.operands}
        sizes = {v: t.layout.cosize * (t.element.bits // 8) for v, t in types.items()}
        outside = {v: n for v, n in sizes.items() if v.home is not product.op.parent}
        early |= outside
        late.append(sum(sizes.values()) - sum(outside.values()))
    return sum(early.values()) + max(late)


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
