"""A text that is put together from kept parts is the text that is printed at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import iris
from iris.compiler.pipelines import METAL_PIPELINE
from iris.ir import parse, to_text
from iris.ir.core import Location, Module
from iris.ir.text.reprinter import Reprinter
from iris.passes import Pass, run
from iris.passes.manager import Instrument
from iris.passes.pipeline import Pipeline
from random_ir import random_module
from support import counts


class Compares(Instrument):
    """Compares the texts after each pass."""

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.reprinter, self.texts = Reprinter(), {""}
        self.compare(module)

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        self.compare(module)

    def compare(self, module: Module) -> None:
        text = self.reprinter.text(module)
        assert text == to_text(module, locations=True)
        self.texts.add(text)


@pytest.mark.parametrize("seed", range(counts(20, 2000)))
def test_random_programs(seed: int) -> None:
    compares = Compares()
    run(random_module(seed), "fold,canonicalize,cse,licm,dce", [compares])
    assert len(compares.texts) > 2


@iris.kernel
def attend(Q, K, Out, S, T: iris.constexpr):
    q = iris.tile_load(Q, iris.program_id(0) * T, 0, T, (T, T))
    total = iris.zeros((T, T))
    for start in iris.tile_range(0, S, T):
        k = iris.tile_load(K, start, 0, T, (T, T))
        if start > 64:
            total = total * 0.5
        total = iris.dot(q, k.T, total)
    iris.device_assert(iris.sum(total) < 1e9, "more than 100 % of %s\0")
    iris.tile_store(Out, iris.program_id(0) * T, 0, T, total)


def test_every_pass_of_a_compilation() -> None:
    x, y, out = np.zeros((3, 16, 16), np.float32)
    compares = Compares()
    run(attend.lower(x, y, out, 16, T=16, grid=1).traced, METAL_PIPELINE, [compares])
    assert len(compares.texts) > 12


def test_each_change_is_seen() -> None:
    module = parse("""\
func graph @f returns=[f32](%x: f32, %y: f32) {
  %a: f32 = mul %x, %y
  %b: f32 = add %a, %x
  return %b
}

func graph @g returns=[f32](%x: f32) {
  return %x
}
""")
    compares = Compares()
    compares.start(module, Pipeline(()))
    product, total, end = next(iter(module)).regions[0]
    product.result.name = "b"
    compares.compare(module)
    product.location = Location("100%.py", 3)
    compares.compare(module)
    total.set_operands((total.operands[1], total.operands[0]))
    compares.compare(module)
    end.set_operands(product.results)
    total.erase()
    compares.compare(module)
    list(module)[1].erase()
    compares.compare(module)
    assert len(compares.texts) == 1 + 6
