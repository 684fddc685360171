"""Simplify graphs: fewer ops on fewer elements, with equal results."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from iris.ir.core import Level, Module
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class Simplify(Pass):
    """Remove ops that change nothing, and compute fewer elements.

    Arithmetic, where that is exact (`identities`):

        %c8: tensor<3x5xf32> = constant 8.0
        %a: tensor<3x5xf32> = neg %x
        %b: tensor<3x5xf32> = add %y, %a
        %c: tensor<3x5xf32> = div %b, %c8

    becomes

        %b: tensor<3x5xf32> = sub %y, %x
        %c0_125: tensor<3x5xf32> = constant 0.125
        %c: tensor<3x5xf32> = mul %b, %c0_125

    Views of views are merged and ordered (`views`).  An elementwise op moves ahead of a view, and
    of a broadcast, so that it computes fewer elements (`push_views`):

        %a: tensor<5x3xf32> = graph.transpose [1, 0] %x
        %b: tensor<5x3xf32> = exp %a
        %c: tensor<3x5xf32> = graph.transpose [1, 0] %b
        %d: tensor<3x5xf32> = graph.broadcast %column
        %e: tensor<3x5xf32> = sqrt %d
        %f: tensor<3x5xf32> = mul %c, %e

    becomes

        %c: tensor<3x5xf32> = exp %x
        %0: tensor<3x1xf32> = sqrt %column
        %e: tensor<3x5xf32> = graph.broadcast %0
        %f: tensor<3x5xf32> = mul %c, %e

    Slices of concatenations, and concatenations of slices (`concat_slice`):

        %a: tensor<3x10xf32> = graph.concat 1 %x, %y
        %b: tensor<3x2xf32> = graph.slice [0, 6] [1, 1] %a

    becomes

        %b: tensor<3x2xf32> = graph.slice [0, 1] [1, 1] %y

    Reductions and products of views, and of each other (`reduce_matmul`):

        %a: tensor<3xf32> = graph.reduce maximum [1] %x
        %b: tensor<f32> = graph.reduce maximum [0] %a
        %c: tensor<5x3xf32> = graph.transpose [1, 0] %x
        %d: tensor<3x3xf32> = graph.matmul %y, %c
        %e: tensor<3x3xf32> = graph.transpose [1, 0] %d

    becomes

        %b: tensor<f32> = graph.reduce maximum [0, 1] %x
        %0: tensor<5x3xf32> = graph.transpose [1, 0] %y
        %e: tensor<3x3xf32> = graph.matmul %x, %0

    A tensor without elements becomes a constant, and so does an op of one (`empty`), such as the
    product of 3x0 and 0x4 elements:

        %a: tensor<3x4xf32> = graph.matmul %p, %q

    becomes

        %a: tensor<3x4xf32> = constant 0.0

    A checked `gather` whose result has no elements stays, and so does a sum of 16-bit floats in
    two steps, which is rounded twice.
    """

    name = "simplify"
    level = Level.GRAPH

    def run(self, module: Module) -> Counter[str]:
        # Opened when first used; each of these registers rules.
        from iris.passes.graph.simplify import (  # noqa: F401
            concat_slice,
            empty,
            identities,
            push_views,
            reduce_matmul,
            views,
        )
        from iris.passes.graph.simplify.rule_helpers import rules

        return rules.apply(module)
