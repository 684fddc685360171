"""An elementwise op that is declared elsewhere needs only its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from array_graphs import check_kernels, fused, meaning
from iris.codegen.emitter import emit
from iris.compiler.compilation import entry_of
from iris.compiler.pipelines import METAL_PIPELINE
from iris.cost.counts import count
from iris.cost.sample import Sizes
from iris.errors import DeclarationError
from iris.interp import metal as metal_interpreter
from iris.interp import tile as tile_interpreter
from iris.ir import Module, graph, parse, scalar, verify
from iris.ir.attributes import Integer
from iris.ir.core import OPS, Op, Value
from iris.ir.declare import FLOATS, attribute, operand, result
from iris.ir.facts import Facts, facts
from iris.ir.math import Constant, Elementwise
from iris.ir.types import Type
from iris.passes import run
from iris.passes.instruments import Check
from iris.runtime.interpreters import Interpreter, MetalInterpreter
from iris.targets.apple import M1

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def blend() -> Iterator[type[Op]]:
    """`by` eighths of `a`, and the rest of `b`."""

    class Blend(Elementwise):
        name = "test.blend"
        by: int = attribute(Integer(0, 8))
        a: Value = operand(FLOATS)
        b: Value = operand(FLOATS)
        result: Value = result()

        def infer(self) -> tuple[Type, ...]:
            return (self.a.type,)

    @scalar.meaning(Blend)
    def blended(op: Blend, a: Array, b: Array) -> Array:
        return a * np.float32(op.by / 8) + b * np.float32(1 - op.by / 8)

    facts(Blend)(Facts(work={"alu": 2}, flops=3))
    yield Blend
    del OPS["test.blend"]


def ops_of(module: Module) -> list[Op]:
    return entry_of(module).walk()


MASKED = """
func tile @rows(%X: ptr<f32>, %Y: ptr<f32>) {
  %p: i32 = tile.program_id 0
  %c100: i32 = constant 100
  %start: i32 = mul %p, %c100
  %cols: tile<128xi32> = tile.arange 0
  %starts: tile<128xi32> = tile.broadcast %start
  %at: tile<128xi32> = add %starts, %cols
  %ends: tile<128xi32> = constant 100
  %inside: tile<128xbool> = compare lt %cols, %ends
  %x: tile<128xf32> = tile.masked_load %X, %at, %inside
  %ones: tile<128xf32> = constant 1.0
  %y: tile<128xf32> = test.blend 2 %x, %ones
  %top: f32 = tile.reduce minimum 0 %y
  %tops: tile<128xf32> = tile.broadcast %top
  %z: tile<128xf32> = test.blend 4 %y, %tops
  tile.store %Y, %at, %z, mask=%inside
  return
}
"""


def rows() -> tuple[list[Array], Array]:
    """The arguments of `MASKED`, and what it writes to the second one."""
    x = np.random.default_rng(0).integers(4, 64, (3, 100)).astype(np.float32)
    y = x / 4 + np.float32(0.75)
    return [x.reshape(-1), np.zeros(300, np.float32)], (y / 2 + y.min(1, keepdims=True) / 2)


def test_tiles_follow_its_mask() -> None:
    (x, y), expected = rows()
    module = parse(MASKED)
    verify(module)
    tile_interpreter.run(entry_of(module), (3, 1, 1), [x, y])
    np.testing.assert_array_equal(y.reshape(3, 100), expected)


@pytest.mark.parametrize("simdgroups", [1, 2])
def test_it_is_laid_out_and_lowered(simdgroups: int, blend: type[Op]) -> None:
    (x, y), expected = rows()
    text = MASKED.replace("@rows(", f"@rows simdgroups={simdgroups}(")
    lowered = run(parse(text), METAL_PIPELINE, [Check(verify)])
    assert any(isinstance(op, blend) for op in ops_of(lowered))
    metal_interpreter.run(entry_of(lowered), (3, 1, 1), [x, y])
    np.testing.assert_array_equal(y.reshape(3, 100), expected)


def test_flops_are_counted() -> None:
    (x, y), _ = rows()
    lowered = entry_of(run(parse(MASKED), METAL_PIPELINE))
    counters = metal_interpreter.Counters()
    metal_interpreter.run(lowered, (3, 1, 1), [x, y], counters=counters)
    # Three flops in each of two ops for 128 elements of three programs, and a reduction.
    assert counters.flops >= 3 * 2 * 3 * 128
    assert 3 * count(lowered, Sizes(grid=(3, 1, 1)), M1).flops == counters.flops


def test_text_needs_a_rule() -> None:
    lowered = entry_of(run(parse(MASKED), METAL_PIPELINE))
    with pytest.raises(DeclarationError, match=r"test\.blend has no rule for 'emission'"):
        emit(lowered)


FUSED = """
func graph @means returns=[tensor<5xf32>](%x: tensor<5x40xf32>, %y: tensor<5x40xf32>) {
  %a: tensor<5x40xf32> = test.blend 2 %x, %y
  %b: tensor<40x5xf32> = graph.transpose [1, 0] %a
  %c: tensor<40x5xf32> = graph.transpose [1, 0] %x
  %d: tensor<40x5xf32> = test.blend 4 %b, %c
  %m: tensor<5xf32> = graph.reduce maximum [0] %d
  return %m
}
"""


@pytest.mark.parametrize("device", [Interpreter(), MetalInterpreter()], ids=lambda d: d.name)
def test_graphs_fuse_it(device: Interpreter) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-16, 17, (5, 40)).astype(np.float32) for _ in range(2))
    module = parse(FUSED)
    (found,) = meaning(entry_of(module), [x, y])
    a = x / 4 + y * np.float32(0.75)
    np.testing.assert_array_equal(found, (a / 2 + x / 2).max(1))
    program = fused(module)
    (kernel,) = program.kernels
    check_kernels(program, device, [x, y])
    assert not any(isinstance(op, graph.Transpose) for op in ops_of(kernel.module))


def test_it_is_folded() -> None:
    module = parse(
        "func graph @f returns=[f32]() {\n"
        "  %a: f32 = constant 8.0\n  %b: f32 = constant 16.0\n"
        "  %c: f32 = test.blend 2 %a, %b\n  return %c\n}"
    )
    first, *_ = entry_of(run(module, "fold,dce")).body
    assert isinstance(first, Constant)
    assert first.value == 14
