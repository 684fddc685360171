"""Kernels that are Metal text, launched with arguments that are checked against reflection."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.metal_library import Library
from iris.errors import ArgumentError, DeviceError, DTypeError, FileError, IrisError, OutOfResources
from on_metal import SHARING

pytestmark = pytest.mark.metal

TEXT = """\
#include <metal_stdlib>
using namespace metal;

kernel void add(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]],
                device float* out [[buffer(2)]], constant uint& n [[buffer(3)]],
                uint i [[thread_position_in_grid]]) {
    if (i < n) out[i] = a[i] + b[i];
}

struct Affine { float scale; uint columns; };
constant bool squares [[function_constant(0)]];
constant float bias [[function_constant(1)]];

kernel void sums(device const float* x [[buffer(0)]], device float* out [[buffer(1)]],
                 constant Affine& p [[buffer(2)]], threadgroup float* partial [[threadgroup(0)]],
                 uint t [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 uint row [[threadgroup_position_in_grid]]) {
    float sum = 0;
    for (uint i = t; i < p.columns; i += threads) {
        float element = x[row * p.columns + i];
        sum += squares ? element * element : element;
    }
    partial[t] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint stride = threads / 2; stride; stride /= 2) {
        if (t < stride) partial[t] += partial[t + stride];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (t == 0) out[row] = p.scale * partial[0] + bias;
}

template <typename T>
kernel void fill(device T* out [[buffer(0)]], constant T& value [[buffer(4)]],
                 uint2 at [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
    out[at.y * size.x + at.x] = value;
}
typedef decltype(fill<half>) of_half;
typedef decltype(fill<float3>) of_float3;
typedef decltype(fill<packed_float3>) of_packed;
typedef decltype(fill<bfloat>) of_bfloat;
typedef decltype(fill<long>) of_long;
typedef decltype(fill<Affine>) of_affine;
template [[host_name("fill half")]] kernel of_half fill<half>;
template [[host_name("fill_float3")]] kernel of_float3 fill<float3>;
template [[host_name("fill_packed")]] kernel of_packed fill<packed_float3>;
template [[host_name("fill_bfloat")]] kernel of_bfloat fill<bfloat>;
template [[host_name("fill_long")]] kernel of_long fill<long>;
template [[host_name("fill_affine")]] kernel of_affine fill<Affine>;
"""
AFFINE = np.dtype([("scale", np.float32), ("columns", np.uint32)])


@cache
def library() -> Library:
    return iris.metal.library(TEXT, device=SHARING)


def ints(*shape: int) -> Any:
    return np.random.default_rng(0).integers(-8, 8, shape).astype(np.float32)


def test_vectors_are_added_on_arrays_and_buffers() -> None:
    a, b = ints(2, 1000)
    out = np.zeros(1000, np.float32)
    library().add[4, 256](a, b, out, 900)
    np.testing.assert_array_equal(out, np.where(np.arange(1000) < 900, a + b, 0))
    on = iris.asarray(out, device=SHARING)
    library().add(a, b=b, n=np.uint32(1000), out=on, threads=1000)
    np.testing.assert_array_equal(on.numpy(), a + b)


class Affine(ctypes.Structure):
    _fields_ = (("scale", ctypes.c_float), ("columns", ctypes.c_uint32))


@pytest.mark.parametrize(
    "affine", [np.array((0.5, 200), AFFINE)[()], Affine(0.5, 200), bytes(Affine(0.5, 200))]
)
def test_a_reduction_takes_a_struct_threadgroup_memory_and_function_constants(affine: Any) -> None:
    x, out = ints(3, 200), np.empty(3, np.float32)
    sums = library().specialize(squares=True).specialize(bias=4).sums
    sums[3, 64](x, out, affine, partial=4 * 64)
    np.testing.assert_array_equal(out, 0.5 * (x**2).sum(1) + 4)
    # Another kernel of the batch has no such memory.
    library().add(out, out, out, 3, threads=3)
    np.testing.assert_array_equal(out, (x**2).sum(1) + 8)


@pytest.mark.parametrize(
    ("name", "dtype", "lanes", "value"),
    [
        ("fill half", np.float16, (), 1.5),
        ("fill_float3", np.float32, (4,), (1, 2, 3)),
        ("fill_packed", np.float32, (3,), (1, 2, 3)),
        ("fill_long", np.int64, (), -(2**40)),
        ("fill_affine", AFFINE, (), np.array((0.5, 7), AFFINE)[()]),
    ],
)
def test_values_of_every_kind_fill_grids_of_two_axes(
    name: str, dtype: Any, lanes: tuple[int, ...], value: Any
) -> None:
    out = np.zeros((5, 37, *lanes), dtype)
    library()[name](out, value, threads=(37, 5))
    filled = out[..., :3] if lanes else out  # the fourth lane is nobody's
    np.testing.assert_array_equal(filled, np.broadcast_to(np.array(value, dtype), filled.shape))


def test_buffers_of_bfloat_are_filled() -> None:
    out = iris.empty((4, 8), iris.bf16, device=SHARING)
    library().fill_bfloat[(1, 4), (8, 1)](out, 1.5)
    assert (np.asarray(out).astype(np.float32) == 1.5).all()


A, OUT = np.ones(8, np.float32), np.empty(8, np.float32)
WORDS = np.empty(8, [("x", "u2"), ("y", "u2")])
WRONG: dict[str, tuple[type[IrisError], str, Callable[[Library], Any]]] = {
    "kernel": (ArgumentError, "there is no kernel 'sub'; there are: add, fill", lambda x: x.sub),
    "count": (ArgumentError, "add takes 4 buffers", lambda x: x.add[1, 8](A, A, OUT, 8, 9)),
    "missing": (
        ArgumentError,
        r"needs constant uint n \[\[buffer\(3\)",
        lambda x: x.add[1, 8](A, A, OUT),
    ),
    "undivided": (ArgumentError, r"or add\(..., threads=...\)", lambda x: x.add(A, A, OUT, 8)),
    "unknown": (ArgumentError, "has no parameter 'm'", lambda x: x.add[1, 8](A, A, OUT, m=8)),
    "twice": (ArgumentError, "was given 'a' twice", lambda x: x.add[1, 8](A, A, OUT, 8, a=A)),
    "dtype": (
        DTypeError,
        "is of float, and the array of int32",
        lambda x: x.add[1, 8](A, A.astype(np.int32), OUT, 8),
    ),
    "negative": (DTypeError, "n is uint: -1 does not fit", lambda x: x.add[1, 8](A, A, OUT, -1)),
    "float": (DTypeError, "n is uint, not 8.0", lambda x: x.add[1, 8](A, A, OUT, 8.0)),
    "bool": (DTypeError, "n is uint, not True", lambda x: x.add[1, 8](A, A, OUT, True)),
    "lanes": (
        ArgumentError,
        r"value is float3, not \(1, 2\)",
        lambda x: x.fill_float3[1, 2](OUT, (1, 2)),
    ),
    "whole": (ArgumentError, "no whole number", lambda x: x.fill_packed[1, 2](OUT, (1, 2, 3))),
    "written": (ArgumentError, "is written to: pass an array", lambda x: x.add[1, 8](A, A, 2.0, 8)),
    "strides": (ArgumentError, "a is not contiguous", lambda x: x.add[1, 4](A[::2], A, OUT, 4)),
    "struct": (ArgumentError, "p is a struct", lambda x: x.sums[1, 8](A, OUT, 2.0, partial=32)),
    "bytes": (
        ArgumentError,
        "of 8 bytes, and the value of 3",
        lambda x: x.sums[1, 8](A, OUT, b"abc", partial=32),
    ),
    "padding": (DTypeError, "elements of 8 bytes", lambda x: x.fill_affine[1, 8](WORDS, bytes(8))),
    "memory": (
        ArgumentError,
        "at most 32768",
        lambda x: x.sums[1, 8](A, OUT, bytes(8), partial=1 << 20),
    ),
    "threads": (OutOfResources, "1 to 1024 threads", lambda x: x.add[1, 1025](A, A, OUT, 8)),
    "shape": (ArgumentError, r"add\[grid, threadgroup\]", lambda x: x.add[8]),
    "constant": (ArgumentError, "there are: bias, squares", lambda x: x.specialize(biases=1)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_mistakes_are_told(wrong: str) -> None:
    kind, message, make = WRONG[wrong]
    with pytest.raises(kind, match=message):
        make(library())


def test_without_a_device_of_metal_softmetal_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_DEVICE", "interp")
    found = iris.metal.library(TEXT)
    assert found.device.name == "softmetal"
    assert repr(found) == f"a Metal library of {', '.join(found.names)}"


def test_devices_of_others_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'interp' runs no Metal text"):
        iris.metal.library(TEXT, device="interp")
    with pytest.raises(ArgumentError, match="Buffer on the device 'interp'"):
        library().add[1, 8](iris.asarray(A, device="interp"), A, OUT, 8)


def test_a_file_that_does_not_compile_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "wrong.metal"
    file.write_text("kernel void f(device float* x) {\n    x[0] = y;\n}\n")
    with pytest.raises(DeviceError, match="'y'") as told:
        iris.metal.library(str(file), device=SHARING)
    assert f"{file}:2\n    x[0] = y;" in str(told.value)
    with pytest.raises(FileError, match="cannot be read"):
        iris.metal.library(tmp_path / "none.metal", device=SHARING)


PLANTED = """\
#include <metal_stdlib>
using namespace metal;
kernel void shift(device const float* x [[buffer(0)]], device float* out [[buffer(1)]],
                  uint i [[thread_position_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    out[i] = shared[63 - i];
}
kernel void beyond(device const float* x [[buffer(0)]], device float* out [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
    out[i] = x[i + 1];
}
"""
SCRIPT = """
import sys
import numpy as np
import iris.metal
from iris.errors import DeviceError
library = iris.metal.library(sys.argv[1], device="softmetal")
x = np.zeros(64, np.float32)
for name in ("shift", "beyond"):
    try:
        library[name][1, 64](x, np.empty_like(x))
    except DeviceError as error:
        print(error)
"""


def test_races_and_accesses_out_of_bounds_are_told_by_lines_of_the_file(tmp_path: Path) -> None:
    if SHARING != "softmetal":
        pytest.skip("a GPU checks no access")
    file = tmp_path / "planted.metal"
    file.write_text(PLANTED)
    environment = {**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1"}
    command = [sys.executable, "-c", SCRIPT, str(file)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    race, bounds = said.split("the kernel beyond failed")
    assert "no barrier between them orders that" in race
    for line, text in ((6, "shared[i] = x[i];"), (7, "out[i] = shared[63 - i];")):
        assert f"{file}:{line}\n    {text}" in race
    assert "0 bytes past the end of buffer 0 (x)" in bounds
    assert f"{file}:11\n    out[i] = x[i + 1];" in bounds


def test_launches_are_profiled() -> None:
    a, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with iris.profile(SHARING) as measured:
        library().add[1, 8](a, a, out, 8)
    (ran,) = measured.launches
    assert (ran.kernel, ran.grid) == ("add", (1, 1, 1))
    assert ran.seconds > 0
    *_, row = str(measured).splitlines()
    assert row.split()[:2] == ["add", "1"]
    assert row.split()[-1] == "?"  # nobody counts the work of a text
