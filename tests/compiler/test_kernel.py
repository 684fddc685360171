"""Launching: arguments, copies, the cache, devices, and what a compilation shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris.compiler.pipelines import METAL_PIPELINE, PIPELINES
from iris.errors import (
    ArgumentError,
    IrisError,
    PassError,
    PipelineError,
    PointerError,
    ProgramError,
    SettingError,
)
from iris.ir import Level, Module, math, parse, tile, verify
from iris.passes import Pass, Pipeline
from iris.runtime.device import Program
from iris.runtime.interpreters import Interpreter


@iris.kernel
def double(X, Out, n, B: iris.constexpr = 8):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]


def test_arrays_that_are_not_contiguous_are_refused() -> None:
    x, out = np.zeros((8, 8), np.float32), np.zeros(64, np.float32)
    for array in (x.T, x[::2], x[:, 1], x[::-1], np.broadcast_to(x[0], (3, 8))):
        for given in ((array, out), (out, array)):
            name = "X" if given[0] is array else "Out"
            with pytest.raises(ArgumentError, match=rf"np.ascontiguousarray\({name}\)") as refused:
                double[1](*given, 8)
            # What would be refused, too, is not offered.
            offered = f"or pass iris.strided({name})" in str(refused.value)
            assert offered is (min(array.strides) >= 0)
    # These are contiguous: an axis of length 1 has no next element, and no element has any.
    for array in (x[:1, :], x[3:4][::-1], x[:, 2:2], x.T[4:4], x[0].reshape(1, 8, 1)[::-1]):
        double[1](array, out, array.size)


@pytest.mark.softmetal
def test_a_launch_on_buffers_is_few_calls_of_python() -> None:
    x = iris.asarray(np.zeros(8, np.float32), device="softmetal")
    out = iris.empty_like(x)

    def direct() -> None:
        double[1](x, out, 8)

    direct()
    prepared = double.prepare(x, out, 8, grid=1)
    assert _calls(direct) <= 50  # 46 of them; each is about a tenth of a microsecond
    assert _calls(prepared) <= 16  # 13


def _calls(function: Callable[[], None]) -> int:
    """How many functions in Python are called; those are more that begin or send off a batch."""
    counts = []
    for _ in range(3):
        seen = []
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _, seen=seen: seen.append(event))  # type: ignore[misc]
        try:
            function()
        finally:
            sys.setprofile(before)
        counts.append(seen.count("call"))
    return min(counts)


@iris.kernel
def times_ten(X, Out, M, N, x_row, x_col, out_row, out_col, B: iris.constexpr = 4):
    i = iris.program_id(0) * B + iris.arange(0, B)[:, None]
    j = iris.program_id(1) * B + iris.arange(0, B)[None, :]
    inside = (i < M) & (j < N)
    x = iris.load(X + i * x_row + j * x_col, mask=inside)
    iris.store(Out + i * out_row + j * out_col, 10 * x, mask=inside)


def draw_view(rng: np.random.Generator, memory: Any, shape: tuple[int, int], *, apart: bool) -> Any:
    """A view of some of a flat array, of which no two elements overlap if they are to be apart."""
    small, large = ((0, 3), (0, 3)) if not apart else ((1, 3), (0, 3))
    inner = int(rng.integers(*small))
    i, j = shape
    outer = inner * (j - 1) + 1 + int(rng.integers(*large)) if apart else int(rng.integers(0, 9))
    strides = (outer, inner)
    if rng.integers(2) and apart:  # columns are farther apart than rows
        strides = (inner, inner * (i - 1) + 1 + int(rng.integers(*large)))
    start = memory[int(rng.integers(0, 4)) :]
    return np.lib.stride_tricks.as_strided(start, shape, [4 * n for n in strides])


@pytest.mark.parametrize("device", DEVICES)
def test_a_kernel_gets_the_memory_of_a_strided_array(device: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(8):
        shape = int(rng.integers(1, 7)), int(rng.integers(1, 7))
        x = draw_view(rng, rng.integers(-99, 99, 100).astype(np.float32), shape, apart=False)
        memory = rng.integers(-99, 99, 100).astype(np.float32)
        expected = memory.copy()
        out = draw_view(rng, memory, shape, apart=True)
        at = (out.ctypes.data - memory.ctypes.data) // 4
        np.lib.stride_tricks.as_strided(expected[at:], shape, out.strides)[...] = 10 * x
        strides = [n // 4 for n in (*x.strides, *out.strides)]
        given = iris.strided(x), iris.strided(out)
        times_ten[2, 2](*given, *shape, *strides, device=device)
        np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_strided_arrays_that_interleave_share_memory(device: str) -> None:
    x = np.arange(20, dtype=np.float32)
    expected = x.copy()
    expected[1::2] = 10 * x[::2]
    sizes = 1, 10, 0, 2, 0, 2
    given = iris.strided(x[::2]), iris.strided(x[1::2])
    times_ten[1, 3](*given, *sizes, device=device)
    np.testing.assert_array_equal(x, expected)
    lowered = times_ten.lower(*given, *sizes, grid=(1, 3))
    assert "%X: ptr<f32, aligned>, %Out: ptr<f32>" in lowered.tile
    # The first element alone says where an array starts.
    alone = times_ten.lower(given[1], np.zeros(10, np.float32), *sizes, grid=(1, 3))
    assert "%X: ptr<f32, noalias, aligned>" in alone.tile


@pytest.mark.parametrize("device", DEVICES[:2])
def test_what_lies_between_elements_is_out_of_bounds(device: str) -> None:
    x, out = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32)
    message = r"outside X, which has the shape \(4, 4\) and, in elements, the strides \(8, 2\)"
    with pytest.raises(ProgramError, match=f"index 1 is {message}"):
        times_ten[1, 1](iris.strided(x[:, ::2]), out, 4, 4, 8, 1, 8, 1, device=device)
    with pytest.raises(ProgramError, match="index 4 is outside Out"):
        times_ten[1, 2](x, iris.strided(out[:, :4]), 4, 8, 8, 1, 8, 1, device=device)


def test_strides_that_are_refused() -> None:
    x, out = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
    sizes = 4, 4, 8, 1, 8, 1
    for array in (x[::-1], x[:, ::-1], x[::-1, ::-1].T):
        with pytest.raises(ArgumentError, match="X has a stride that is negative"):
            times_ten[1, 1](iris.strided(array), out, *sizes)
    record = np.zeros(8, np.dtype([("a", "f4"), ("b", "u1")]))
    with pytest.raises(ArgumentError, match="X has a stride that is no whole number of elements"):
        times_ten[1, 1](iris.strided(record["a"]), out, *sizes)
    windows = np.lib.stride_tricks.as_strided(out, (4, 4), (8, 4))
    repeated = np.lib.stride_tricks.as_strided(out, (4, 4), (0, 4))
    for array in (windows, repeated):
        with pytest.raises(ArgumentError, match="Out is written to, but some of its elements over"):
            times_ten[1, 1](x, iris.strided(array), *sizes)
    # Strides may be such that elements interleave, and yet are apart.
    woven = np.lib.stride_tricks.as_strided(out, (2, 3), (12, 8))
    times_ten[1, 1](np.ones((2, 3), np.float32), iris.strided(woven), 2, 3, 3, 1, 3, 2)
    assert out.reshape(-1)[:9].tolist() == [10, 0, 10, 10, 10, 10, 0, 10, 0][:9]
    with pytest.raises(ArgumentError, match=r"iris\.strided takes an array, not a list"):
        iris.strided([1.0])


def test_what_is_contiguous_may_be_passed_as_strided() -> None:
    x, out = np.arange(8, dtype=np.float32), iris.empty(8)
    double[1](iris.asarray(x), iris.strided(out), 8)
    assert (out.numpy() == 2 * x).all()
    found = np.zeros(8, np.float32)
    double[1](iris.strided(x), iris.strided(iris.strided(found)), 8)
    assert (found == 2 * x).all()


@iris.kernel
def copy_blocks(X, Out, x_row, out_row, B: iris.constexpr = 4):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    block = iris.tile_load(X, i, j, x_row, (B, B))
    iris.tile_store(Out, i, j, out_row, block)


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_strided_matrices_end_where_these_do(device: str) -> None:
    x = np.arange(56, dtype=np.float32).reshape(7, 8)
    out = np.zeros((9, 9), np.float32)
    copy_blocks[2, 2](iris.strided(x[1:6, 2:8]), iris.strided(out[2:7, 1:7]), 8, 9, device=device)
    expected = np.zeros((9, 9), np.float32)
    expected[2:7, 1:7] = x[1:6, 2:8]
    np.testing.assert_array_equal(out, expected)
    copy_blocks[1, 1](iris.strided(x[::2, 3:4]), out, 16, 9, device=device)
    assert out[:4, 0].tolist() == [3, 19, 35, 51]


def test_blocks_have_their_columns_one_element_apart() -> None:
    x = np.zeros((8, 8), np.float32)
    for array in (x.T[:, :4], x[:, ::2], np.broadcast_to(x[:, :1], (8, 4)), x[0, ::2]):
        with pytest.raises(PointerError, match="columns are one element apart, but X has"):
            copy_blocks[1, 1](iris.strided(array), x, 8, 8)
        with pytest.raises(PointerError, match=r"Out has another column stride; use iris\.store"):
            copy_blocks[1, 1](x, iris.strided(array), 8, 8)


def test_only_what_is_written_is_copied_back() -> None:
    x = np.arange(8, dtype=np.float32)
    x.flags.writeable = False
    out = np.zeros(8, np.float32)
    double[1](x, out, 8)
    assert (out == 2 * x).all()


def test_an_array_may_be_both_source_and_target() -> None:
    x = np.arange(16, dtype=np.float32)
    double[2](x, x, 16)
    assert (x == 2 * np.arange(16)).all()


def test_arrays_that_overlap_share_memory_on_the_device() -> None:
    @iris.kernel
    def write_then_read(X, Y, Out):
        iris.store(X, 5.0)
        iris.store(Out, iris.load(Y))

    memory, out = np.zeros(4, np.float32), np.zeros(1, np.float32)
    write_then_read[1](memory, memory[:2], out)
    assert (out[0], memory[0]) == (5, 5)
    write_then_read[1](memory[1:], memory, out)
    assert (out[0], memory[1]) == (5, 5)
    write_then_read[1](iris.strided(memory[::2]), memory, out)
    assert (out[0], memory[0]) == (5, 5)


def test_what_cannot_overlap_is_known() -> None:
    x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
    apart = double.lower(x, out, 8, grid=1)
    assert "%X: ptr<f32, noalias, aligned>, %Out: ptr<f32, noalias, aligned>" in apart.tile
    same = double.lower(x, x, 8, grid=1)
    assert "%X: ptr<f32, aligned>, %Out: ptr<f32, aligned>" in same.tile


def test_bf16_arrays() -> None:
    x = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
    out = np.zeros(3, ml_dtypes.bfloat16)
    double[1](x, out, 3)
    assert list(out.astype(float)) == [2, 5, -6]


def test_arrays_by_protocol() -> None:
    class ByInterface:
        def __init__(self, array: Any):
            self.__array_interface__ = array.__array_interface__

    class ByDlpack:
        def __init__(self, array: Any):
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    x = np.arange(8, dtype=np.float32)
    for wrap in (ByInterface, ByDlpack):
        out = np.zeros(8, np.float32)
        double[1](wrap(x), ByInterface(out), 8)
        assert (out == 2 * x).all()


def test_empty_arrays_and_empty_grids() -> None:
    empty = np.zeros(0, np.float32)
    double[1](empty, empty.copy(), 0)
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    double[0](x, out, 8)
    assert (out == 0).all()


def test_grids_and_defaults() -> None:
    x = np.arange(20, dtype=np.float32)
    grids: list[Any] = [5, (5,), (5, 1, 1), lambda c: iris.cdiv(20, c["B"]), np.int64(5)]
    for grid in grids:
        out = np.zeros(20, np.float32)
        double[grid](x, out, 20, B=4)
        assert (out == 2 * x).all()


@pytest.mark.parametrize("device", DEVICES)
def test_sizes_and_grids_that_cannot_be_counted_are_refused(device: str) -> None:
    x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
    grids: list[Any] = [2**31, 2**64 + 1, (1, 2**64 + 1), (2**30, 2**30, 16), lambda c: 2**32]
    for grid in grids:
        with pytest.raises(ArgumentError, match=r"a grid has at most .* programs along an axis"):
            double[grid](x, out, 8, device=device)
    long = np.zeros((2**31, 0), np.float32)
    with pytest.raises(ArgumentError, match="X has 2147483648 elements along axis 0, and blocks"):
        copy_blocks[1, 1](long, out.reshape(2, 4), 4, 4, device=device)


def test_scalars_take_the_dtype_of_their_value() -> None:
    x = np.zeros(8, np.float32)
    for n, dtype in [(5, "i32"), (2**40, "i64"), (np.int8(3), "i32"), (True, "bool")]:
        assert f"%n: {dtype}" in double.lower(x, x, n, grid=1).tile
    assert "%n: f32" in double.lower(x, x, 0.5, grid=1).tile


def test_a_kernel_is_traced_once_for_what_it_depends_on() -> None:
    traced = []

    @iris.kernel
    def counted(X, n, B: iris.constexpr):
        traced.append(B)
        iris.store(X, n)

    x = np.zeros(4, np.float32)
    for _ in range(3):
        counted[1](x, 2, B=1)
        counted[1](x.copy(), 6, B=1)
    assert traced == [1]
    counted[1](x, 6, B=2)
    counted[1](x.astype(np.float16), 6, B=1)
    counted[1](x, 6.0, B=1)
    assert len(traced) == 4


def first_lines(compilation: iris.Compilation, count: int) -> str:
    """The start of what was traced, without indentation."""
    lines = compilation.stages[0].text.splitlines()[:count]
    return "\n".join(line.strip() for line in lines)


def test_what_divides_an_integer_is_known() -> None:
    x = np.zeros(8, np.float32)

    def known(n: int, B: int = 8) -> str:
        text = first_lines(double.lower(x, x.copy(), n, B=B, grid=0), 2)
        return text.partition("aligned>, %n")[2].split("\n", 1)[-1].partition(" = ")[2]

    assert known(13).startswith("tile.program_id")
    assert known(8) == "assume_divisible 8 %n"
    assert known(24) == "assume_divisible 8 %n"
    assert known(48) == known(-16) == known(0) == "assume_divisible 16 %n"
    assert known(48, B=32) == "assume_divisible 16 %n"
    assert known(96, B=32) == "assume_divisible 32 %n"
    assert known(1) == "constant 1"
    assert known(2**40) == "assume_divisible 16 %n"

    @iris.kernel
    def odd(Out, n, P: iris.constexpr, Q: iris.constexpr, flag: iris.constexpr):
        iris.store(Out, n + P + Q)

    text = str(odd.lower(x, 240, P=3, Q=10, flag=True, grid=1).stages[0].text)
    assert "%n_1: i32 = assume_divisible 240 %n" in text
    # Not over the range of i32, whatever divides it.
    far = 2**25 + 1
    text = str(odd.lower(x, 16 * 5 * far, P=5, Q=far, flag=True, grid=1).stages[0].text)
    assert "%n_1: i64 = assume_divisible 80 %n" in text


def test_a_kernel_is_compiled_once_for_what_is_known_of_integers() -> None:
    traced = []

    @iris.kernel
    def scaled(X, Out, n, B: iris.constexpr):
        traced.append(n)
        at = iris.program_id(0) * B + iris.arange(0, B)
        iris.store(Out + at, n * iris.load(X + at, mask=at < n), mask=at < n)

    x = np.arange(2048, dtype=np.float32)
    compiled = []
    for n in (1024, 2048, 1000, 1, 64, 72, 24, 1, 1001):
        out = np.zeros_like(x)
        scaled[iris.cdiv(n, 64)](x, out, n, B=64)
        assert (out[:n] == n * x[:n]).all()
        assert (out[n:] == 0).all()
        compiled.append(len(traced))
    assert compiled == [1, 1, 2, 3, 3, 3, 3, 3, 4]


def test_what_was_known_is_checked() -> None:
    x = np.zeros(8, np.float32)
    compilation = double.lower(x, x.copy(), 16, grid=1)
    entry = next(iter(compilation.stages[0].module))
    with pytest.raises(ProgramError, match="%n is not divisible by 16"):
        Interpreter().launch(Program(entry, entry), (1, 1, 1), [x, x.copy(), 17])


def test_which_power_of_two_divides_the_sizes_of_arrays_is_known() -> None:
    @iris.kernel
    def corner(X, Out, n):
        iris.store(Out, iris.sum(iris.tile_load(X, 0, 0, n, (4, 4))))

    for shape, known in [
        ((6, 32), {0: 2, 1: 16}),
        ((16, 48), {0: 16, 1: 16}),
        ((20, 7), {0: 4}),
        ((5, 7), {}),
        ((64,), {0: 16}),
        ((24,), {0: 8}),
        ((9,), {}),
    ]:
        x, out = np.ones(shape, np.float32), np.zeros(1, np.float32)
        traced = corner.lower(x, out, 3, grid=1).stages[0].module
        found = {
            op.x.op.axis: op.divisor
            for op in traced.walk()
            if isinstance(op, math.AssumeDivisible) and isinstance(op.x.op, tile.Extent)
        }
        assert found == known
        corner[1](x, out, x.shape[-1])
        assert out[0] == 4 * min(4, x.size // x.shape[-1])


def test_arrays_start_at_a_multiple_of_16_bytes() -> None:
    device = Interpreter()
    for size in (0, 1, 15, 100, 4096):
        memory = [device.allocate(size) for _ in range(8)]
        assert all(m.ctypes.data % 16 == 0 and m.nbytes == size for m in memory)

    memory = np.zeros(16, np.float32)
    out = np.zeros(8, np.float32)
    whole = "%X: ptr<f32, aligned>"
    for start, aligned in [(0, True), (1, False), (4, True), (6, False), (12, True)]:
        part = memory[start : start + 2]
        text = double.lower(memory, part, 2, grid=1).stages[0].text
        assert f"{whole}, %Out: ptr<f32{', aligned' * aligned}>" in text
        # By itself, what it is a part of does not matter.
        text = double.lower(part, out, 2, grid=1).stages[0].text
        assert "%X: ptr<f32, noalias, aligned>" in text


# Compilations.


def test_a_compilation_shows_every_stage() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    compilation = double.lower(x, out, 13, grid=2)
    names = [stage.name for stage in compilation.stages]
    assert names == ["traced", *[p.name for p in METAL_PIPELINE]]
    for stage in compilation.stages:
        lowered = "lower-to-metal" in names[: compilation.stages.index(stage) + 1]
        assert stage.level is (Level.METAL if lowered else Level.TILE)
        assert parse(stage.text) == stage.module
        verify(stage.module)
    assert "masked_load" in compilation.stages[0].text
    assert "masked_load" not in compilation.tile
    # At the end of its level, which is with layouts.
    before = compilation.stages[names.index("lower-to-metal") - 1]
    assert compilation.tile == before.text
    assert "linear<" in compilation.tile
    assert compilation.metal == compilation.stages[-1].text
    assert str(compilation) == compilation.msl
    assert "kernel void double" in compilation.msl
    assert "-" in compilation.diff("follow-masks")
    with pytest.raises(PipelineError, match="no pass 'nothing' ran; there were follow-masks"):
        compilation.diff("nothing")
    compilation.run(x, out, 13)
    assert (out[:13] == 2 * x[:13]).all()
    assert (out[13:] == 0).all()


def test_ops_know_the_line_they_come_from() -> None:
    x = np.zeros(8, np.float32)
    module = double.lower(x, x, 8, grid=1).stages[0].module
    lines = {op.location.line for op in module.walk() if op.location is not None}
    first = double.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert lines == {first, first + 2, first + 3}
    assert all(op.location and op.location.file == __file__ for op in module.walk())


def test_checks_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_CHECK", "1")
    x = np.ones(8, np.float32)

    @iris.kernel
    def plus(X, n):
        iris.store(X, iris.load(X) + n)

    plus[1](x, 1)
    assert x[0] == 2
    monkeypatch.setenv("IRIS_CHECK", "yes")
    with pytest.raises(SettingError, match="IRIS_CHECK is 0 or 1"):
        plus[1](x, 2.0)


@dataclass(frozen=True)
class Spoil(Pass):
    """Turn additions into subtractions."""

    name = "spoil"

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, math.Add):
                new = math.Sub(op.lhs, op.rhs)
                op.insert_before(new)
                op.result.replace_by(new.result)
                op.erase()


def test_a_pass_that_changes_what_a_kernel_does_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @iris.kernel
    def plus(X, n):
        iris.store(X, iris.load(X) + n)

    x = np.ones(8, np.float32)
    monkeypatch.setenv("IRIS_CHECK", "1")
    spoilt = Pipeline.parse("follow-masks,cse,spoil,dce")
    monkeypatch.setitem(PIPELINES, Level.TILE, spoilt)
    with pytest.raises(PassError, match=r"the pass spoil changed what the kernel does: X\[0\]"):
        plus[1](x, 1)
    assert x[0] == 1


# Devices.


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    double[1](x, out, 8, device="interp")
    double[1](x, out, 8, device=Interpreter())
    assert (out == 2).all()
    with pytest.raises(ArgumentError, match="there is no device 'gpu'; there are metal, interp, "):
        double[1](x, out, 8, device="gpu")
    monkeypatch.setenv("IRIS_DEVICE", "gpu")
    with pytest.raises(SettingError, match="there is no device 'gpu'"):
        double[1](x, out, 8)


def test_program_errors_name_the_array_and_the_line() -> None:
    @iris.kernel
    def beyond(X, n):
        iris.store(X + n, 1.0)

    x = np.zeros(4, np.float32)
    with pytest.raises(ProgramError) as caught:
        beyond[1](x, 4)
    assert isinstance(caught.value, IrisError)
    assert "X" in str(caught.value)
    assert __file__ in str(caught.value)
    assert "iris.store(X + n, 1.0)" in str(caught.value)


def test_prints_and_asserts(capsys: pytest.CaptureFixture[str]) -> None:
    @iris.kernel
    def talks(n):
        i = iris.program_id(0)
        iris.device_print("i", i, n)
        iris.device_assert(i < n, "i is below n")

    talks[2](2)
    assert len(capsys.readouterr().out.splitlines()) == 2
    with pytest.raises(ProgramError, match="i is below n"):
        talks[3](2)
