"""Kernels by thread: how they are launched, and what that costs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import iris
from iris import metal
from iris.compiler.compilation import entry_of, optimize
from iris.errors import ArgumentError, DTypeError
from iris.ir.core import Level

DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]


@metal.kernel
def where(Out: "device int*"):
    x, y, z = metal.thread_id_x(), metal.thread_id_y(), metal.thread_id_z()
    width, height = metal.grid_size_x(), metal.grid_size_y()
    Out[x + width * (y + height * z)] = x + 100 * y + 10000 * z


@metal.kernel
def add(X: "device const float*", Out: "device float*", n: "uint", by=1.0):
    i = metal.thread_id_x()
    if i < n:
        Out[i] = X[i] + by


def _places(width: int, height: int = 1, depth: int = 1) -> Any:
    z, y, x = np.ogrid[:depth, :height, :width]
    return x + 100 * y + 10000 * z


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("threads", "threadgroup"),
    [
        (37, None),
        ((5, 19), None),
        ((5, 4, 3), None),
        ((33, 2), (10, 3)),
        ((7, 3, 2), (7, 3, 1)),
        ((64,), 32),
        ((np.int64(3), 1), (1, 1)),
    ],
)
def test_each_thread_of_a_grid_runs_once(device: str, threads: Any, threadgroup: Any) -> None:
    sizes = threads if isinstance(threads, tuple) else (threads,)
    expected = _places(*sizes)
    out = np.full(expected.shape, -1, np.int32)
    sized = {} if threadgroup is None else {"threadgroup": threadgroup}
    where(out, threads=threads, device=device, **sized)
    assert (out == expected).all()


@pytest.mark.parametrize("device", DEVICES)
def test_fast_math(device: str) -> None:
    x, out = np.linspace(1, 2, 37, dtype=np.float32), np.zeros(37, np.float32)
    add(x, out, 37, threads=37, fast_math=True, device=device)
    np.testing.assert_allclose(out, x + 1, 1e-6)
    texts = [str(add.lower(x, out, 37, threads=37, fast_math=fast)) for fast in (True, False)]
    assert texts[0] != texts[1]
    with pytest.raises(ArgumentError, match="fast_math is True or False, not 3"):
        add(x, out, 37, threads=37, fast_math=3)


def test_a_launch_of_threadgroups_has_all_their_threads() -> None:
    out = np.full((6, 16), -1, np.int32)
    where(out, grid=(2, 3), threadgroup=(8, 2))
    assert (out == _places(16, 6)).all()
    out[:] = -1
    where[(2, 3), (8, 2)](out)
    assert (out == _places(16, 6)).all()
    with pytest.raises(ArgumentError, match="a launch is where"):
        where[4](out)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "how many threads are there"),
        ({"grid": 2}, "how many threads are there"),
        ({"threads": 2, "grid": 2}, "not both"),
        ({"threads": 2, "threadgroup": 0}, "1 to 1024 threads, not 0"),
        ({"threads": 2, "threadgroup": (32, 33)}, "1 to 1024 threads, not 1056"),
        ({"threads": 2.5}, "a grid is an int"),
        ({"threads": 2**31 - 1}, "at most 2\\*\\*31 - 1 threads"),
        ({"threads": 2, "num_simdgroups": 4}, "no parameter 'num_simdgroups'"),
    ],
)
def test_a_launch_that_says_too_little_or_too_much(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        where(np.zeros(2, np.int32), **how)


def test_a_kernel_by_thread_is_not_launched_like_one_by_tile() -> None:
    with pytest.raises(ArgumentError, match="threads="):
        where[2](np.zeros(2, np.int32))


def test_arguments_have_the_types_that_are_declared() -> None:
    x, out = np.zeros((2, 8), np.float32)
    for n, by, kind, message in (
        (-1, 1, ArgumentError, "n is -1, which is no u32"),
        (2.0, 1, ArgumentError, "n is 2.0, which is no u32"),
        (x, 1, ArgumentError, "n is declared as a number, of type uint"),
        (None, 1, ArgumentError, "n is declared as a number, of type uint"),
    ):
        with pytest.raises(kind, match=message):
            add(x, out, n, by, threads=8)
    with pytest.raises(DTypeError, match="X is declared as an array of float, but has i32"):
        add(x.astype(np.int32), out, 8, threads=8)
    with pytest.raises(ArgumentError, match="X is declared as an array"):
        add(3, out, 8, threads=8)
    with pytest.raises(ArgumentError, match="has no parameter 'Y'"):
        metal.kernel(param_types={"Y": "uint"})(lambda X: None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("type_", "dtype", "number", "held"),
    [
        ("half", "f16", 65519.9, 65504.0),
        ("half", "f16", 65520, None),
        ("half", "f16", -(2**63), None),
        ("bfloat", "bf16", 3.4e38, None),
        # Just beyond the middle of two floats, on which a double lies.
        ("float", "f32", 2**54 + 2**30 + 1, 2**54 + 2**31),
        ("bfloat", "bf16", -(2**60 + 2**52 + 1), -(2**60 + 2**53)),
    ],
)
def test_a_number_of_a_declared_float_is_rounded_once_or_refused(
    type_: str, dtype: str, number: float, held: float | None, device: str
) -> None:
    @metal.kernel(param_types={"x": type_, "Out": "device float*"})
    def keep(Out: Any, x: Any) -> None:
        Out[0] = x

    out = np.zeros(1, np.float32)
    if held is not None:
        keep(out, number, threads=1, device=device)
        assert out[0] == held
        return
    with pytest.raises(ArgumentError, match=f"x is .*, which {dtype} does not hold"):
        keep(out, number, threads=1, device=device)


def test_a_kernel_is_compiled_once_for_alike_launches() -> None:
    x, out = np.ones((2, 64), np.float32)

    def compiled(**how: Any) -> int:
        before = len(add._specialisations().compiled)
        add(x, out, 48, **how)
        return len(add._specialisations().compiled) - before

    assert compiled(threads=64, threadgroup=32) == 1
    assert compiled(threads=32, threadgroup=32) == 0
    assert compiled(grid=2, threadgroup=32) == 0  # whole threadgroups, too
    assert compiled(threads=63, threadgroup=32) == 1
    assert compiled(threads=40, threadgroup=32) == 0
    assert (out[:48] == 2).all()


def test_launches_are_prepared_warmed_up_lowered_and_recorded() -> None:
    x, out = iris.asarray(np.ones(50, np.float32)), iris.asarray(np.zeros(50, np.float32))
    add.warmup(x, out, 50, threads=50).result()
    step = add.prepare(x, out, 50, 2.0, threads=50)
    step()
    assert (out.numpy() == 3).all()
    lowered = add.lower(x, out, 50, threads=50)
    assert "kernel void add(" in lowered.msl
    assert entry_of(lowered.traced).function_level is Level.METAL
    lowered.run(x, out, 50, 4.0)
    assert (out.numpy() == 5).all()
    with iris.record() as recording:
        add(x, out, 50, 1.0, threads=50)
    recording.launches[0].update(by=7.0)
    recording.replay()
    assert (out.numpy() == 8).all()


def test_each_pass_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_CHECK", "1")
    x, out = np.ones((2, 40), np.float32)
    add(x, out, 40, threads=40)
    assert (out == 2).all()


@pytest.mark.softmetal
def test_a_launch_on_buffers_costs_what_one_of_a_tile_kernel_does() -> None:
    @iris.kernel
    def add_tiles(X, Out, n, by):
        i = iris.arange(0, 32)
        iris.store(Out + i, iris.load(X + i, mask=i < n) + by, mask=i < n)

    x = iris.asarray(np.ones(32, np.float32), device="softmetal")
    out = iris.empty_like(x)

    def seconds(launch: Any) -> float:
        launch()
        out.numpy()
        times = []
        for _ in range(7):
            start = time.process_time()
            for _ in range(200):
                launch()
            times.append(time.process_time() - start)
            out.numpy()
        return min(times)

    by_tile = seconds(lambda: add_tiles[1](x, out, 32, 1.0))
    assert seconds(lambda: add(x, out, 32, 1.0, grid=1, threadgroup=32)) < 2 * by_tile


def test_a_kernel_is_compiled_in_milliseconds() -> None:
    x, out = np.ones((2, 40), np.float32)

    def compile_it() -> float:
        start = time.process_time()
        lowered = add.lower(x, out, 40, threads=40)
        optimize(lowered.traced, lowered.options.pipeline(Level.METAL))
        return time.process_time() - start

    assert min(compile_it() for _ in range(5)) < 0.005
