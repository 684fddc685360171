"""A range visits what Python's does, whatever the dtypes of its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris import metal
from iris.errors import DTypeError
from iris.ir.control import For

DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]
OF_THREADS = ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]
u8, u32, u64 = np.uint8, np.uint32, np.uint64
i8, i32, i64 = np.int8, np.int32, np.int64

# Bounds: a Python number is known while tracing, one of NumPy's is loaded.
RANGES: list[tuple[Any, Any, Any]] = [
    *[(dtype(5), 0, -1) for dtype in (u8, u32, i32)],
    *[(dtype(5), -1, -2) for dtype in (u8, u32, i64)],
    *[(-2, dtype(3), 1) for dtype in (u8, u32, i32)],
    *[(dtype(0), 0, -1) for dtype in (u32, i64)],
    *[(-3, -1, dtype(1)) for dtype in (u8, u32)],
    (i32(-2), u32(3), 1),
    (i8(-2), u32(3), u8(2)),
    (u32(3), i32(-2), -1),
    (u32(7), u32(1), i32(-3)),
    (u32(1), u32(7), i64(3)),
    (u32(2**32 - 3), u32(2**32 - 1), 1),
    (u32(2**32 - 1), 2**32 - 4, -1),
    (i32(2**31 - 3), u32(2**31 + 1), 1),
    (i32(-(2**31)), i32(-(2**31) + 4), u32(2)),
    (-(2**31) - 2, u32(0), u32(2**31)),
    (0, u64(3), 1),
    (u64(2**64 - 3), u64(2**64 - 1), u64(2)),
    (u64(2**63), 2**63 + 3, u8(1)),
]


def visited(bounds: tuple[Any, Any, Any]) -> list[int]:
    return list(range(*map(int, bounds)))


def _bounds(loaded: list[Any], constants: tuple[Any, ...]) -> list[Any]:
    return [x if c is None else c for x, c in zip(loaded, constants, strict=True)]


@iris.kernel
def by_range(Lower, Upper, Step, Out, constants: iris.constexpr):
    loaded = _bounds([iris.load(Lower), iris.load(Upper), iris.load(Step)], constants)
    at = 0
    for i in range(loaded[0], loaded[1], loaded[2]):
        iris.store(Out + at, i)
        at += 1
    iris.store(Out + 7, at)


@iris.kernel
def by_tile_range(Lower, Upper, Step, Out, constants: iris.constexpr):
    loaded = _bounds([iris.load(Lower), iris.load(Upper), iris.load(Step)], constants)
    at = 0
    for i in iris.tile_range(loaded[0], loaded[1], loaded[2]):
        iris.store(Out + at, i)
        at += 1
    iris.store(Out + 7, at)


@metal.kernel
def by_thread(Lower, Upper, Step, Out, constants: iris.constexpr):
    loaded = _bounds([Lower[0], Upper[0], Step[0]], constants)
    at = 0
    for i in metal.range(loaded[0], loaded[1], loaded[2]):
        Out[at] = i
        at += 1
    Out[7] = at


def arguments(bounds: tuple[Any, Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    constants = tuple([x if type(x) is int else None for x in bounds])
    return [np.array([0 if type(x) is int else x]) for x in bounds], constants


def check(launched: Any, bounds: tuple[Any, Any, Any], device: str) -> None:
    arrays, constants = arguments(bounds)
    numbers = visited(bounds)
    out = np.zeros(8, u64 if max([*numbers, 0]) >= 2**63 else i64)
    launched(*arrays, out, constants=constants, device=device)
    assert list(out) == [*numbers, *[0] * (7 - len(numbers)), len(numbers)], bounds


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", [by_range, by_tile_range], ids=["range", "tile_range"])
def test_a_range_of_a_program_visits_what_pythons_does(kernel: Any, device: str) -> None:
    for bounds in RANGES:
        check(kernel[1], bounds, device)


@pytest.mark.parametrize("device", OF_THREADS)
def test_a_range_of_a_thread_visits_what_pythons_does(device: str) -> None:
    for bounds in RANGES:
        check(by_thread[1, 1], bounds, device)


@pytest.mark.parametrize("device", OF_THREADS)
def test_a_parameter_of_a_thread_kernel_counts_down(device: str) -> None:
    @metal.kernel(param_types={"n": "uint"})
    def down(Out, n):
        for i in range(n, 0, -1):
            Out[i] = i

    out = np.zeros(7, i64)
    down(out, 5, grid=1, threadgroup=1, device=device)
    assert list(out) == [0, 1, 2, 3, 4, 5, 0]


@pytest.mark.parametrize(
    "bounds", [(u64(5), 0, -1), (-1, u64(5), 1), (i32(0), u64(5), 1), (i64(0), u64(5), u64(1))]
)
def test_a_u64_among_numbers_that_may_be_negative_is_an_error(bounds: Any) -> None:
    arrays, constants = arguments(bounds)
    for kernel in by_range, by_tile_range:
        with pytest.raises(DTypeError, match="no dtype holds both") as e:
            kernel.lower(*arrays, np.zeros(8, i64), grid=1, constants=constants)
        assert e.value.spot is not None
        assert "range(loaded[0]" in e.value.spot.source


def test_an_index_leaves_a_range_to_an_unsigned_number_as_wide_as_it_is() -> None:
    """64 bits cost more: an index is not negative, and so is what counts up from it."""

    @metal.kernel(param_types={"n": "uint"})
    def over(X, n):
        for i in range(metal.thread_id_x(), n, metal.grid_size_x()):
            X[i] = 1
        for i in range(metal.thread_id_x(), 64, metal.grid_size_x()):
            for j in range(i, n):
                X[j] = 2

    @iris.kernel
    def by_programs(X, N):
        n = iris.load(N)
        for i in range(iris.program_id(0), n, iris.num_programs(0)):
            iris.store(X + i, 1)
        for i in range(iris.program_id(0) - 1, n, iris.num_programs(0)):
            iris.store(X + i, 2)

    x = np.zeros(4, np.float32)
    by_thread = over.lower(x, 4, grid=100, threadgroup=64)
    by_program = by_programs.lower(x, np.array([4], u32), grid=3)
    assert counters(by_thread) == ["u32", "i32", "u32"]
    assert counters(by_program) == ["u32", "i64"]


def counters(lowered: Any) -> list[str]:
    """The dtypes that the loops of a kernel count in, as it was traced."""
    ops = lowered.stages[0].module.walk()
    return [str(op.body.arguments[0].type) for op in ops if isinstance(op, For)]
