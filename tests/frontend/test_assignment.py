"""Assignment: what is made of a variable's old value updates it, in a loop or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris


def launch(kernel: Any, n: int, **constants: Any) -> list[float]:
    x, out = np.arange(1, 201, dtype=np.float32), np.zeros(4, np.float32)
    x[:n:7] *= 3
    kernel[1](x, out, n, B=64, **constants)
    return [float(v) for v in out]


def expected(n: int) -> list[float]:
    x = np.arange(1, 201, dtype=np.float32)
    x[:n:7] *= 3
    return [float(x[:n].sum()), float(x[:n].max())]


def body(X: Any, c: Any, N: Any, s: Any, m: Any) -> Any:
    """One iteration, in a helper that is not rewritten."""
    x = iris.load(X + c, mask=c < N)
    return s + x, iris.maximum(m, x)


@iris.kernel
def traced(X, Out, N, B: iris.constexpr):
    s, m = 0.0, -1e38
    for i in range(0, N, B):
        s, m = body(X, i + iris.arange(0, B), N, s, m)
    iris.store(Out, iris.sum(s))
    iris.store(Out + 1, iris.max(m))


@iris.kernel
def unrolled(X, Out, N: iris.constexpr, B: iris.constexpr):
    s, m = 0.0, -1e38
    for i in range(0, N, B):
        s, m = body(X, i + iris.arange(0, B), N, s, m)
    iris.store(Out, iris.sum(s))
    iris.store(Out + 1, iris.max(m))


@iris.kernel
def unrolled_while(X, Out, N: iris.constexpr, B: iris.constexpr):
    s, m = 0, -1e38
    i = 0
    while i < N:
        c = i + iris.arange(0, B)
        x = iris.load(X + c, mask=c < N)
        s = x + s
        if iris.program_id(0) == 0:
            m = iris.where(x > m, x, m)
        i += B
    iris.store(Out, iris.sum(s))
    iris.store(Out + 1, iris.max(m))


@iris.kernel
def in_turn(X, Out, N, B: iris.constexpr):
    """Two updates in an iteration, of other lanes."""
    s, m = iris.zeros((B,)), iris.full((B,), -1e38)
    for i in range(0, N, 2 * B):
        c = i + iris.arange(0, B)
        for k in range(2):
            x = iris.load(X + c + k * B, mask=c + k * B < N)
            s += x
            m = iris.maximum(m, x)
    iris.store(Out, iris.sum(s))
    iris.store(Out + 1, iris.max(m))


@iris.kernel
def add(s, x):
    s += x
    return s


@iris.kernel
def straight(X, Out, N, B: iris.constexpr):
    c = iris.arange(0, B)
    s = m = iris.load(X + c, mask=c < N)
    for k in (1, 2, 3):  # a Python loop over what is no range
        x = iris.load(X + k * B + c, mask=k * B + c < N)
        s = add(s, x)
        new = iris.maximum(m, x)
        m = new
    iris.store(Out, iris.sum(s))
    iris.store(Out + 1, iris.max(m))


@pytest.mark.parametrize("n", [64, 65, 100, 128, 200])
@pytest.mark.parametrize("kernel", [traced, unrolled, unrolled_while, in_turn, straight])
def test_a_row_counts_once_however_it_is_written(kernel: Any, n: int) -> None:
    assert launch(kernel, n)[:2] == expected(n)


def test_sums_that_start_at_a_python_number_are_at_least_f32() -> None:
    @iris.kernel
    def traced(X, Out, N, B: iris.constexpr):
        s, t = 0.0, 0
        for i in range(0, N, B):
            x = iris.load(X + i + iris.arange(0, B))
            s += x
            t = t * 1 + x
        iris.store(Out, iris.sum(s))
        iris.store(Out + 1, iris.sum(t))

    @iris.kernel
    def unrolled(X, Out, N: iris.constexpr, B: iris.constexpr):
        s, t = 0.0, 0
        for i in range(0, N, B):
            x = iris.load(X + i + iris.arange(0, B))
            s += x
            t = t * 1 + x
        iris.store(Out, iris.sum(s))
        iris.store(Out + 1, iris.sum(t))

    x = np.full(64 * 40, 1 + 2.0**-10, np.float16)
    x[:64] = 2048
    sums = np.zeros((2, 2), np.float32)
    traced[1](x, sums[0], x.size, B=64)
    unrolled[1](x, sums[1], x.size, B=64)
    assert (sums == x.astype(np.float64).sum()).all()


def test_another_name_is_masked_where_either_operand_is() -> None:
    @iris.kernel
    def both(X, Out, N, B: iris.constexpr):
        c = iris.arange(0, B)
        x = iris.load(X + c, mask=c < N)
        y = iris.load(X + c, mask=c > 1)
        iris.store(Out, iris.sum(x + y))
        x += y
        iris.store(Out + 1, iris.sum(x))

    out = np.zeros(2, np.float32)
    both[1](np.ones(8, np.float32), out, 4, B=8)
    assert list(out) == [4, 6]


def test_an_element_that_gets_a_value_counts() -> None:
    @iris.kernel
    def filled(X, Out, N, B: iris.constexpr):
        c = iris.arange(0, B)
        there = c < N
        x = iris.load(X + c, mask=there)
        for _ in range(N - 3):
            x = iris.where(there, x, 5.0) + 1
        iris.store(Out, iris.sum(x))
        x = iris.load(X + c, mask=there)
        x = iris.where(there, x, 5.0)
        iris.store(Out + 1, iris.sum(x))

    out = np.zeros(2, np.float32)
    filled[1](np.ones(8, np.float32), out, 4, B=8)
    assert list(out) == [4 * 2 + 4 * 6, 4 + 20]


def test_numbers_of_python_stay_numbers() -> None:
    @iris.kernel
    def numbers(Out, B: iris.constexpr):
        size, scale, names = 1, 0.5, {}
        while size < B:
            size = size * 2
            scale /= 2
            names[size] = f"{size}"
        assert isinstance(size, int)
        assert names[8] == "8"
        iris.store(Out + iris.arange(0, size), iris.full((size,), scale))

    out = np.zeros(8, np.float32)
    numbers[1](out, B=8)
    assert (out == 2.0**-4).all()


def test_items_are_updated_as_variables_are() -> None:
    @iris.kernel
    def in_places(X, Out, N, B: iris.constexpr):
        sums = [0.0, 0]
        for k in (1, 0):  # the ragged block first
            c = k * B + iris.arange(0, B)
            x = iris.load(X + c, mask=c < N)
            sums[0] += x
            sums[1] += x * 2.0
        iris.store(Out, iris.sum(sums[0]))
        iris.store(Out + 1, iris.sum(sums[1]))

    assert launch(in_places, 100)[:2] == [expected(100)[0], 2 * expected(100)[0]]
