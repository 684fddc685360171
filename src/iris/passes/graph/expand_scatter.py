"""Widen scattered sums of elements that GPUs cannot add atomically."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir import graph, math
from iris.ir.builder import Builder
from iris.ir.core import Level, Module, Value
from iris.ir.graph import ScatterKind
from iris.ir.math import element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import DType, f32, i32, u32
from iris.passes.pipeline import Pass

ATOMIC_BITS = 32


@dataclass(frozen=True)
class ExpandScatter(Pass):
    """Sum scattered elements of fewer than 32 bits in 32 bits, and round once.

        %y: tensor<9xf16> = graph.scatter add [0] %x, %u, %i

    becomes

        %0: tensor<9xf32> = cast %x
        %1: tensor<5xf32> = cast %u
        %2: tensor<9xf32> = graph.scatter add [0] %0, %1, %i
        %y: tensor<9xf16> = cast %2
    """

    name = "expand-scatter"
    level = Level.GRAPH

    def run(self, module: Module) -> dict[str, int]:
        return dict(rules.apply(module))


rules = Rules()


@rules(graph.Scatter)
def add_in_32_bits(op: graph.Scatter, rewriter: Rewriter) -> None:
    """Sum scattered elements of fewer than 32 bits in 32."""
    element = op.x.type.element
    if op.kind is not ScatterKind.ADD or element.bits >= ATOMIC_BITS:
        return
    wide = f32 if element.is_float else i32 if element.is_signed else u32
    b = Builder.before_op(op)
    x, updates = (_cast(b, v, wide) for v in (op.x, op.updates))
    total = b(graph.Scatter(op.kind, op.axes, x, updates, op.indices))
    rewriter.replace(op, _cast(b, total, element))


def _cast(b: Builder, value: Value, element: DType) -> Value:
    return b(math.Cast(value, element_type(value.type).with_element(element)))
