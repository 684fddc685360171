"""Products of tensors, by `matmul2d` of Metal 4: equal to NumPy's as lowered and as text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
import iris.interp.metal
import iris.interp.tile
from iris import constexpr, interp
from iris.codegen import emit
from iris.codegen.languages.cuda import CUDA
from iris.compiler.compilation import entry_of
from iris.errors import ParseError, ProgramError, VerifyError
from iris.ir import Level, parse
from iris.targets import Target
from iris.targets.apple import M5_TENSORS, M5_TENSORS_IN_MEMORY
from matrix_programs import BF16, F16, F32, Array, attention, gemm, product, whole

BLOCKS = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}
GOLDEN = Path(__file__).with_name("tensor_product.metal")
DEVICES = ["interp:metal", "softmetal"]


@pytest.fixture(autouse=True)
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_TARGET", M5_TENSORS.name)


def operands(dtype: Any) -> tuple[Array, Array, Array]:
    """Matrices that no block divides."""
    return whole((50, 70), dtype), whole((70, 90), dtype, 1), np.full((50, 90), np.nan, F32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
def test_products_are_exact(device: str, dtype: Any) -> None:
    a, b, c = operands(dtype)
    for options in ({}, {"num_simdgroups": 1, "serpentine": True, "preload": True}):
        c.fill(np.nan)
        gemm[2, 2](a, b, c, 50, 90, 70, **BLOCKS, **options, device=device)
        np.testing.assert_array_equal(c, product(a, b))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
def test_factors_stay_in_memory(device: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_TARGET", M5_TENSORS_IN_MEMORY.name)
    a, b, c = operands(dtype)
    for simdgroups in (1, 4):
        options = BLOCKS | {"num_simdgroups": simdgroups}
        c.fill(np.nan)
        gemm[2, 2](a, b, c, 50, 90, 70, **options, device=device)
        np.testing.assert_array_equal(c, product(a, b))
    msl = gemm.lower(a, b, c, 50, 90, 70, **options, grid=(2, 2)).msl
    assert "multiply_shared<1, 1, 32, false>" in msl and "multiply_tensors" not in msl


@pytest.mark.parametrize("device", DEVICES)
def test_a_product_is_the_left_operand_of_the_next(device: str) -> None:
    q, k, v = (whole((1, 40, 32), F32, seed) / 4 for seed in range(3))
    out = np.empty((1, 40, 32), F32)
    blocks = {"D": 32, "BQ": 32, "BK": 32}
    attention[2, 1](q, k, v, out, 40, 0.25, **blocks, causal=False, device=device)
    weights = np.exp(0.25 * q[0].astype(np.float64) @ k[0].T)
    expected = weights / weights.sum(axis=1, keepdims=True) @ v[0]
    np.testing.assert_allclose(out[0], expected, rtol=0, atol=2e-6)


@iris.kernel
def relaxed(A, B, C, M, N, K, BLOCK_M: constexpr, BLOCK_N: constexpr, BLOCK_K: constexpr):
    i, j = iris.program_id(0) * BLOCK_M, iris.program_id(1) * BLOCK_N
    acc = iris.zeros((BLOCK_M, BLOCK_N), iris.f32)
    for k in range(0, K, BLOCK_K):
        a = iris.tile_load(A, i, k, K, (BLOCK_M, BLOCK_K))
        acc = iris.dot(a, iris.tile_load(B, k, j, N, (BLOCK_K, BLOCK_N)), acc, precision="tf32")
    iris.tile_store(C, i, j, N, acc)


def tf32(x: Array) -> Array:
    """Rounded to 10 bits after the point, to even: by arithmetic, not by bits."""
    with np.errstate(invalid="ignore"):  # which some processors report of nan
        _, exponent = np.frexp(x)
    unit = np.ldexp(1.0, exponent - 11)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(x), np.rint(x.astype(np.float64) / unit) * unit, x)


@pytest.mark.parametrize("device", ["interp", *DEVICES])
@pytest.mark.parametrize("named", [M5_TENSORS, M5_TENSORS_IN_MEMORY], ids=str)
def test_operands_are_rounded_to_tf32(
    device: str, named: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same product of tensors, which may then be computed as one of tf32."""
    monkeypatch.setenv("IRIS_TARGET", named.name)
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 32, 64)).astype(F32)
    a[0, :4] = 1 + 2**-11, 1 + 3 * 2**-11, np.uint32(0x7F800001).view(F32), np.inf
    c = np.empty((32, 32), F32)
    arguments = a, b.reshape(64, 32), c, 32, 32, 64
    relaxed[1, 1](*arguments, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, device=device)
    expected = tf32(a) @ tf32(b.reshape(64, 32))
    assert np.isnan(c[0]).all()
    np.testing.assert_allclose(c[1:], expected[1:], rtol=0, atol=2e-5)
    lowered = relaxed.lower(*arguments, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, grid=(1, 1))
    assert re.search(r"multiply_(tensors|shared)<\d, \d,( \d+,)? true>", lowered.msl)


@pytest.mark.parametrize("op", ["tile.dot", "metal.mma"])
def test_what_is_marked_as_tf32_is_of_tf32(op: str) -> None:
    text = TF32[op]
    with pytest.raises(ProgramError, match="no number of tf32"):
        run_text(text.format(value=1 + 2**-11, dtype="f32"))
    run_text(text.format(value=1 + 2**-10, dtype="f32"))
    with pytest.raises(ParseError, match="operands of tf32 are of f32"):
        parse(text.format(value=1.0, dtype="f16"))


TF32 = {
    "tile.dot": """
func tile @f(%X: ptr<f32>) {{
  %a: tile<8x8x{dtype}> = constant {value}
  %c: tile<8x8xf32> = tile.dot %a, %a, tf32=true
  return
}}
""",
    "metal.mma": """
func metal @f simdgroups=1(%X: ptr<f32>) {{
  %a: regs<2x{dtype}> = constant {value}
  %acc: regs<2xf32> = constant 0.0
  %c: regs<2xf32> = metal.mma %a, %a, %acc, tf32=true
  return
}}
""",
}


def run_text(text: str) -> None:
    (function,) = parse(text)
    level = {Level.TILE: interp.tile, Level.METAL: interp.metal}[function.function_level]
    level.run(function, (1, 1, 1), [np.zeros(1, F32)])


def lowered() -> Any:
    return gemm.lower(*operands(F16), 50, 90, 70, **BLOCKS, grid=(2, 2))


def test_golden() -> None:
    """`IRIS_UPDATE=1` writes the text anew, to be read and committed."""
    a, b, c = whole((32, 16), F16), whole((16, 32), F16), np.empty((32, 32), F32)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}
    text = gemm.lower(a, b, c, 32, 32, 16, **blocks, num_simdgroups=1, grid=(1, 1)).msl
    if os.environ.get("IRIS_UPDATE") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_the_text_is_of_metal_4_and_no_other_language(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = lowered()
    assert "multiply_tensors<" in compilation.msl
    entry = entry_of(compilation.stages[-1].module)
    assert emit(entry).version == (4, 0)
    with pytest.raises(VerifyError, match=r"CUDA C\+\+ has no tensors"):
        emit(entry, CUDA)
    monkeypatch.setenv("IRIS_TARGET", "apple-m5")
    assert "tensors" not in lowered().msl


def test_as_many_simdgroups_run_as_have_whole_tensors() -> None:
    entry = entry_of(lowered().stages[-1].module)
    assert entry.simdgroups == 32 * 64 // (16 * 32)


MMA = """
func metal @f simdgroups=1(%X: ptr<f32>) {{
  %a: regs<{a}xf16> = constant 1.0
  %b: regs<{b}xf16> = constant 1.0
  %acc: regs<{acc}xf32> = constant 0.0
  %c: regs<{acc}xf32> = metal.mma %a, %b, %acc, {words}tensors=true
  return
}}
"""


@pytest.mark.parametrize(
    ("a", "b", "acc", "words", "message"),
    [
        (8, 16, 64, "", "tensors have a depth of 2"),
        (8, 16, 16, "depth=2, transposed=true, ", "neither transposed"),
        (4, 16, 8, "depth=2, ", "tensors are of 2 fragments and multiples, not of 1"),
        (8, 8, 8, "depth=2, ", "tensors are of 4 fragments and multiples, not of 2"),
    ],
)
def test_what_tensors_are_not(a: int, b: int, acc: int, words: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(MMA.format(a=a, b=b, acc=acc, words=words))


SHARED = """
func metal @f simdgroups=1(%X: ptr<f32>) {{
  %a: threadgroup<{count}x{dtype}> = metal.alloc
  %lane: i32 = metal.lane
  %c0: i32 = constant 0
  metal.foreach {rounds} (%i: i32) {{
    %c32: i32 = constant 32
    %start: i32 = mul %i, %c32
    %at: i32 = add %start, %lane
    %x: {dtype} = constant {value}
    metal.store %a, %at, %x
    yield
  }}
  metal.barrier simdgroup
  %acc: regs<16xf32> = constant 0.0
  %c: regs<16xf32> = metal.mma_shared {shape} {strides} %a, %{start}, %a, %c0, %acc{words}
  return
}}
"""
RIGHT = {
    "count": 512,
    "rounds": 16,
    "dtype": "f32",
    "value": 1.0,
    "shape": [16, 32, 16],
    "strides": [16, 32],
    "start": "c0",
    "words": ", tf32=true",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [16, 16, 16]}, r"\[16, 16, 16\] are not multiples of \[16, 32, 16\]"),
        ({"strides": [16]}, "are not multiples of"),
        ({"strides": [16, 33]}, "has no room for a factor"),
        ({"shape": [32, 32, 16]}, "such a product is added to regs<32xf32>"),
        ({"dtype": "f16"}, "operands of tf32 are of f32, not of f16"),
        ({"dtype": "i32", "value": 1, "words": ""}, "i32 and i32 do not multiply"),
        ({"start": "lane"}, "lanes of a simdgroup say that a factor starts at several places"),
        ({"value": 1 + 2**-11}, "no number of tf32"),
        ({"rounds": 15}, "is read before anything is written there"),
        ({}, None),
    ],
)
def test_what_matrices_in_memory_are(change: dict[str, Any], message: str | None) -> None:
    text = SHARED.format(**RIGHT | change)
    if message is None:
        run_text(text)
        return
    with pytest.raises((ParseError, ProgramError), match=message):
        run_text(text)
