"""What a host is told of a kernel, and what cannot be one."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from iris.codegen import Array, Extent, Scalar, Source, emit
from iris.codegen.languages.msl import MSL
from iris.codegen.tree import Number
from iris.errors import VerifyError
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.types import DType, Tile, bf16, bool_, f32, i8, i32, i64


def source(text: str) -> Source:
    module = parse(text)
    verify(module)
    (function,) = module
    assert isinstance(function, Func)
    return emit(function)


def test_arguments_have_buffers_or_places_in_the_struct() -> None:
    made = source("""\
func metal @k simdgroups=2(%n: i32, %X: ptr<f32>, %wide: i64, %a: i8, %Y: ptr<bool>, %b: bf16) {
  %0: i32 = metal.extent 1 %Y
  %1: i32 = metal.extent 0 %X
  %2: i32 = metal.extent 1 %Y
  %3: i32 = add %0, %1
  %4: i32 = add %3, %2
  %5: f32 = metal.load %X, %4
  %6: bool = compare gt %5, %5
  metal.store %Y, %n, %6
  return
}
""")
    assert made.entry == "k"
    assert made.threads == 64
    assert made.arguments == (
        Scalar(0, i32),
        Array(0, f32, written=False),
        Scalar(8, i64),
        Scalar(16, i8),
        Array(1, bool_, written=True),
        Scalar(18, bf16),
    )
    assert made.extents == (Extent(4, 1, 20), Extent(1, 0, 24))
    assert (made.constants_buffer, made.constants_bytes) == (2, 32)
    assert made.report_buffer is None
    assert made.threadgroup_bytes == 0


def test_cycles_are_collected_after_a_text_only() -> None:
    collects: list[bool] = []

    def literal(bits: int, dtype: DType) -> tuple[Number, DType]:
        collects.append(gc.isenabled())
        return MSL.literal(bits, dtype)

    (function,) = parse("""\
func metal @k simdgroups=1(%X: ptr<f32>, %n: i32) {
  %one: f32 = constant 1.0
  metal.store %X, %n, %one
  return
}
""")
    assert isinstance(function, Func)
    emit(function, replace(MSL, literal=literal))
    assert collects == [False]
    assert gc.isenabled()


def test_a_kernel_may_need_nothing() -> None:
    made = source("func metal @nothing simdgroups=1() {\n  return\n}\n")
    assert made.arguments == ()
    assert made.constants_buffer is None
    assert "kernel void nothing()" in made.text


def test_reports_are_numbered_by_site() -> None:
    made = source("""\
func metal @k simdgroups=1(%X: ptr<f32>, %ok: bool) {
  %lane: i32 = metal.lane
  %x: f32 = metal.load %X, %lane
  metal.print "x" [tile<32xf32>] values=[%x], places=[%lane]
  metal.assert "ok" %ok
  return
}
""")
    assert (made.constants_buffer, made.report_buffer) == (1, 2)
    first, second = made.sites
    assert (first.text, first.types, first.is_assert) == ("x", (Tile((32,), f32),), False)
    assert (second.text, second.is_assert) == ("ok", True)
    assert "add_record(report, 1, program, thread_index)" in made.text


def test_threadgroup_memory_is_counted_in_units_of_16_bytes() -> None:
    made = source("""\
func metal @k simdgroups=1(%x: f32) {
  %lane: i32 = metal.lane
  %a: threadgroup<33xf16> = metal.alloc
  %b: threadgroup<32xf32> = metal.alloc
  %h: f16 = cast %x
  metal.store %a, %lane, %h
  metal.store %b, %lane, %x
  return
}
""")
    assert made.threadgroup_bytes == 80 + 128


@pytest.mark.parametrize("name", ["kernel", "half", "main", "max", "float4"])
def test_a_kernel_does_not_take_a_name_of_the_language(name: str) -> None:
    made = source(f"func metal @{name} simdgroups=1() {{\n  return\n}}\n")
    assert made.entry == f"{name}_1"


REJECTED = {
    "func tile @k(%x: f32) {\n  return\n}\n": "functions of the metal level",
    "func metal @k(%x: f32) {\n  return\n}\n": "how many simdgroups",
    "func metal @k simdgroups=1(%x: regs<4xf32>) {\n  return\n}\n": "takes no regs<4xf32>",
    "func metal @k returns=[f32], simdgroups=1(%x: f32) {\n  return %x\n}\n": "returns nothing",
    "func metal @k simdgroups=1(%X: ptr<bf16>, %x: bf16, %n: i32) {\n"
    "  %0: bf16 = metal.shuffle_xor 1 %x\n  metal.store %X, %n, %0\n  return\n}\n": "bf16",
    "func metal @k simdgroups=1(%X: ptr<i64>, %x: i64, %n: i32) {\n"
    "  %0: i64 = metal.shuffle %x, %n\n  metal.store %X, %n, %0\n  return\n}\n": "i64",
    "func metal @k simdgroups=1(%X: ptr<bool>, %x: bool, %n: i32) {\n"
    "  %0: bool = metal.broadcast 0 %x\n  metal.store %X, %n, %0\n  return\n}\n": "bool",
}


@pytest.mark.parametrize("text", REJECTED)
def test_what_cannot_be_a_kernel_is_said(text: str) -> None:
    with pytest.raises(VerifyError, match=REJECTED[text]):
        source(text)
