"""`and` and `or` give the operand that Python's give, and run no more than these."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import iris
from iris import metal
from iris.errors import ControlFlowError, DTypeError, LanguageError
from iris.ir.math import Compare, Select

DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]
OF_THREADS = ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]


def _chosen(x: Any, y: Any, n: Any) -> list[Any]:
    """Numbers that the same text gives in Python and in a kernel."""
    return [
        x or 7,
        x and 9,
        x or y,
        x and y,
        x or y or 5,
        x and y and 5,
        (x and y) or 5,
        (x or y) and n,
        x or 2.5,
        n or x,
        n and -3,
        x > 1 and n,
        x > 1 or n,
        n or x > 1,
        7 and x,
        0 or y,
        x or True,
        (1 if x and y else 2) + (10 if x or y else 20) + (100 if not (x or n) else 200),
        x > 1 and y > 1,
        (x or n) - (y and n),
    ]


COUNT = len(_chosen(1, 1, 1))


@iris.kernel
def by_program(X, Y, N, Out):
    chosen = _chosen(iris.load(X), iris.load(Y), iris.load(N))
    for at, value in enumerate(chosen):
        iris.store(Out + at, value)


@metal.kernel
def by_thread(X, Y, N, Out):
    chosen = _chosen(X[0], Y[0], N[0])
    for at, value in enumerate(chosen):
        Out[at] = value


NUMBERS = [*product((0, 1, 5), (0, 3), (0, -4))]


def check(launched: Any, dtypes: tuple[Any, Any, Any], device: str) -> None:
    for numbers in NUMBERS:
        given = [np.array([x], dtype) for x, dtype in zip(numbers, dtypes, strict=True)]
        out = np.full(COUNT, -99, np.float32)
        launched(*given, out, device=device)
        expected = _chosen(*[x.item() for x in given])
        assert list(out) == [float(x) for x in expected], numbers


@pytest.mark.parametrize("device", DEVICES)
def test_of_numbers_a_program_has_the_operand(device: str) -> None:
    check(by_program[1], (np.int32, np.int32, np.int32), device)
    check(by_program[1], (np.int32, np.uint8, np.int64), device)
    check(by_program[1], (np.float32, np.bool_, np.int32), device)


@pytest.mark.parametrize("device", OF_THREADS)
def test_of_numbers_a_thread_has_the_operand(device: str) -> None:
    check(by_thread[1, 1], (np.int32, np.uint8, np.float32), device)


@pytest.mark.parametrize("device", DEVICES)
def test_only_what_is_needed_runs(device: str) -> None:
    """A store of the other side, and a load that is out of bounds where the first decides."""

    def noted(Out, value):
        iris.store(Out, 1)
        return value

    @iris.kernel
    def loads(X, n, Out):
        iris.store(Out, n and iris.load(X + n - 1))
        iris.store(Out + 1, n > 2 or noted(Out + 2, n))
        iris.store(Out + 3, n or noted(Out + 4, 8))

    x = np.array([4, 6], np.int32)
    for n, expected in ((0, [0, 0, 1, 8, 1]), (2, [6, 2, 1, 2, 0]), (-1 + 2, [4, 1, 1, 1, 0])):
        out = np.zeros(5, np.int32)
        loads[1](x, n, out, device=device)
        assert list(out) == expected


def test_where_only_the_truth_is_asked_no_number_is_chosen() -> None:
    @iris.kernel
    def asks(X, n, m, Out):
        total = 0
        while total < 9 and (n or m):
            total += 1
        if n and m:
            total += 1
        assert n or m
        iris.store(Out, (3 if n or (m and total) else 4) + (not (n and m)) + total)

    lowered = asks.lower(np.zeros(2, np.int32), 5, 6, np.zeros(1, np.int32), grid=1)
    ops = [*lowered.stages[0].module.walk()]
    assert not any(isinstance(op, Select) for op in ops)
    # Each of n, m and total is compared with 0 where it is an operand.
    assert len([op for op in ops if isinstance(op, Compare)]) == 12


@pytest.mark.parametrize(
    ("of", "error", "message"),
    [
        (lambda x, t: x or t, ControlFlowError, "or is for scalar conditions"),
        (lambda x, t: x and t, ControlFlowError, "and is for scalar conditions"),
        (lambda x, t: x or None, LanguageError, "cannot be computed with"),
        (lambda x, t: x or 2**40, DTypeError, "does not fit i32"),
    ],
)
def test_what_is_no_number_is_an_error(of: Any, error: Any, message: str) -> None:
    @iris.kernel
    def gives(X, Out):
        iris.store(Out, of(iris.load(X), iris.load(X + iris.arange(0, 2))))

    with pytest.raises(error, match=message) as e:
        gives.lower(np.zeros(2, np.int32), np.zeros(2, np.int32), grid=1)
    assert e.value.spot is not None
    assert e.value.spot.file == __file__
