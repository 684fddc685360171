"""A text that is put together from kept parts is the text that is printed at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given

import iris
from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE
from iris.ir import Value, parse, to_text
from iris.ir.core import Location, Module
from iris.ir.text.reprinter import Reprinter
from iris.ir.types import f16, f32, i32
from iris.passes import Pass, run
from iris.passes.manager import Instrument
from iris.passes.pipeline import Pipeline
from iris.testing import programs
from iris.tools.replay import Program
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


@given(programs.graph())
def test_random_graphs(program: Program) -> None:
    run(program.module, GRAPH_PIPELINE, [Compares()])


@given(programs.tile())
def test_random_tile_programs(program: Program) -> None:
    run(program.module, METAL_PIPELINE, [Compares()])


@given(programs.metal(), programs.pipelines())
def test_random_passes(program: Program, pipeline: Pipeline) -> None:
    run(program.module, pipeline, [Compares()])


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
    function = next(iter(module))
    product, total, end = function.regions[0]
    product.result.name = "b"
    compares.compare(module)
    product.location = Location("100%.py", 3)
    compares.compare(module)
    total.set_operands((total.operands[1], total.operands[0]))
    compares.compare(module)
    end.set_operands(product.results)
    total.erase()
    compares.compare(module)
    function.regions[0].arguments[0].type = f16
    compares.compare(module)
    list(module)[1].erase()
    compares.compare(module)
    assert len(compares.texts) == 1 + 7


def test_each_change_of_regions_is_seen() -> None:
    module = parse("""\
func graph @f returns=[f32](%c: bool, %x: f32) {
  %a: f32 = mul %x, %x
  %r: f32 = if %c {
    %b: f32 = add %a, %x
    yield %b
  } else {
    yield %x
  }
  return %r
}
""")
    compares = Compares()
    compares.start(module, Pipeline(()))
    function = next(iter(module))
    product, branch, _ = function.regions[0]
    total = branch.regions[0].first
    assert total is not None
    product.detach()
    total.insert_before(product)
    compares.compare(module)
    total.detach()
    product.insert_before(total)
    compares.compare(module)
    branch.regions = branch.regions[::-1]
    compares.compare(module)
    function.regions[0].add_argument(f16, "y")  # to a list that stays the same one
    compares.compare(module)
    assert len(compares.texts) == 1 + 5


def test_a_constant_is_called_by_its_number() -> None:
    module = parse("""\
func graph @f returns=[f32] {
  %c2_0: f32 = constant 2.0
  return %c2_0
}
""")
    reprinter = Reprinter()
    assert "%c2_0: f32 = constant 2.0" in reprinter.text(module)
    constant = next(iter(next(iter(module)).regions[0]))
    constant.set_attribute("bits", 0x40400000)
    assert "%c3_0: f32 = constant 3.0" in reprinter.text(module)
    constant.result.type = i32
    assert reprinter.text(module) == to_text(module, locations=True)


def test_a_value_that_nothing_defines_is_shown() -> None:
    module = parse("func graph @f returns=[f32](%x: f32) {\n  return %x\n}\n")
    (end,) = next(iter(module)).regions[0]
    end.set_operands((Value(f32, None, None, 0, "lost"),))
    assert "return %lost" in Reprinter().text(module)
