"""`iris.cdiv` of traced numbers is the quotient rounded up, and overflows only if that does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris import metal

DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]
OF_THREADS = ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]
DTYPES = (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64)
DIVISORS = (1, 2, 16, 48, 127, -1, -2, -3, -16)
COUNT = 16


@iris.kernel
def by_program(X, Out, Y, DIVISORS: iris.constexpr):
    x = iris.load(X + iris.arange(0, COUNT))
    for at, divisor in enumerate(DIVISORS):
        rows = iris.arange(0, COUNT) + at * 2 * COUNT
        iris.store(Out + rows, iris.cdiv(x, divisor))
        iris.store(Out + rows + COUNT, iris.cdiv(x, iris.load(Y + at)))


@metal.kernel
def by_thread(X, Out, Y, DIVISORS: iris.constexpr):
    i = metal.thread_id_x()
    for at, divisor in enumerate(DIVISORS):
        Out[at * 2 * COUNT + i] = metal.cdiv(X[i], divisor)
        Out[(at * 2 + 1) * COUNT + i] = metal.cdiv(X[i], Y[at])


def check(launched: Any, dtype: Any, device: str) -> None:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    numbers = [low, low + 1, low + 15, low + 16, -17, -16, -1, 0, 1, 15, 16, 17, high - 1, high]
    numbers = [x for x in numbers if low <= x]
    x = np.array([*numbers, *[1] * (COUNT - len(numbers))], dtype)
    divisors = tuple([d for d in DIVISORS if low <= d])
    y = np.array([*divisors, *[1] * (COUNT - len(divisors))], dtype)
    if low < 0:  # whose quotient by -1 no dtype of its width holds
        x[0] = low + 2
    out = np.zeros((len(divisors), 2, COUNT), dtype)
    launched(x, out, y, DIVISORS=divisors, device=device)
    expected = [[-(-int(n) // d) for n in x] for d in divisors]
    assert out[:, 0].tolist() == expected
    assert out[:, 1].tolist() == expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_program_rounds_quotients_up(dtype: Any, device: str) -> None:
    check(by_program[1], dtype, device)


@pytest.mark.parametrize("device", OF_THREADS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_a_thread_rounds_quotients_up(dtype: Any, device: str) -> None:
    check(by_thread[1, COUNT], dtype, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_number_of_blocks_near_the_greatest_integer(device: str) -> None:
    @iris.kernel
    def blocks(Out, n, least):
        iris.store(Out, iris.cdiv(n, 16))
        iris.store(Out + 1, iris.cdiv(least, 64))
        iris.store(Out + 2, iris.cdiv(1000, n - (2**31 - 1) + 3))

    out = np.zeros(3, np.int32)
    blocks[1](out, 2**31 - 1, -(2**31), device=device)
    assert list(out) == [2**27, -(2**25), 334]


def test_a_block_at_a_rounded_quotient_of_an_index_is_not_before_the_first() -> None:
    @iris.kernel
    def copy(X, Out):
        row = iris.cdiv(iris.program_id(0), 3)
        block = iris.tile_load(X, row, 0, 8, (8, 8))
        iris.tile_store(Out, row, 0, 8, block)

    x = np.zeros((8, 8), np.float32)
    assert ">= 0" not in copy.lower(x, x.copy(), grid=1).msl
