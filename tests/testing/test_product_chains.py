"""Chains of products: on a GPU of few registers some kernels spill, become several, and do the
same."""

from __future__ import annotations

import random

from hypothesis import given, settings

from iris.compiler.graph_program import GraphProgram
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.passes import Pipeline, run
from iris.targets.imaginary import FEW_REGISTERS
from iris.testing import fuses, product_chains
from iris.testing.choices import Choices
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(20, 300))
@given(product_chains.programs())
def test_kernels_that_spill_become_several(program: Program) -> None:
    fuses(program, pipeline=Pipeline(), target=FEW_REGISTERS)


def test_some_kernels_spill() -> None:
    rng = random.Random(0)
    several = 0
    for _ in range(30):
        program = product_chains.made(Choices(rng.randbytes(product_chains.BYTES)))
        whole = GraphProgram(run(program.module, GRAPH_PIPELINE.on(FEW_REGISTERS)))
        several += any(kernel.spills(FEW_REGISTERS) for kernel in whole.kernels)
    assert several > 2, several
