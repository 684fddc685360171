"""Python's statements and values in kernels, where they are traced and where they are not."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

import numpy as np
import pytest

import iris
from iris.errors import CarriedError, ControlFlowError, ProgramError, ScopeError
from iris.frontend import control_flow

DEVICES = ("interp", "interp:metal")


class Pair(NamedTuple):
    value: Any
    count: Any = 3


def test_none_is_known_while_tracing() -> None:
    @iris.kernel
    def scaled(X, Bias, n, Out, Other=None):
        i = iris.arange(0, 8)
        x = iris.load(X + i)
        if Bias is not None:
            x += iris.load(Bias + i)
        iris.store(Out + i, x * 2 if n is None else x + n)
        if Other is not None:
            iris.store(Other + i, x)

    x = np.arange(8, dtype=np.float32)
    for device in DEVICES:
        # The same array and None, but the other way round.
        for left, right in ((None, x), (x, None)):
            out, other = np.zeros(8, np.float32), np.zeros(8, np.float32)
            scaled[1](x, left, None, out, right, device=device)
            assert (out == (x if left is None else 2 * x) * 2).all()
            scaled[1](x, left, 3, out, other, device=device)
            assert (out == (x if left is None else 2 * x) + 3).all()
            assert (other == (x if left is None else 2 * x)).all()
    assert "Bias" not in scaled.lower(x, None, None, x, grid=1).msl


@pytest.mark.parametrize("device", DEVICES)
def test_an_assert_is_checked_when_the_kernel_runs(device: str) -> None:
    @iris.kernel
    def checked(X, n, Out, MOST: iris.constexpr):
        assert MOST > 2, "of no program"
        assert n < MOST, f"more than {MOST}"
        x = iris.load(X + iris.arange(0, 4))
        assert x >= 0
        iris.store(Out, iris.sum(x))

    x, out = np.arange(4, dtype=np.int32), np.zeros(1, np.int32)
    checked[1](x, 7, out, MOST=8, device=device)
    assert out[0] == 6
    with pytest.raises(ProgramError, match="more than 8"):
        checked[1](x, 8, out, MOST=8, device=device)
    with pytest.raises(ProgramError, match="x >= 0"):
        checked[1](x - 1, 7, out, MOST=8, device=device)
    with pytest.raises(AssertionError, match="of no program"):
        checked[1](x, 7, out, MOST=2, device=device)


def values(x: Any, n: Any) -> Any:
    """Conditional expressions, conditions of several parts, and tuples in loops and branches."""

    def scaled(y, by=2, *, added=None):
        return Pair(y * by) if added is None else Pair(y + added, by)

    pair = scaled(x, by=n)
    state = (pair.value, 0, Pair(1, 2))
    first = second = 0
    for k in range(n):
        pair = scaled(pair.value, added=k if k % 2 == 0 else 2 * k)
        if 0 < k < 4 and not (n == 3 or k == 2):
            state = (pair.value, state[1] + pair.count, Pair(*state[2][::-1]))
        first, (second, _) = state[0], state[2]
    return first + second + state[1] if n > 2 else first


def test_expressions_and_tuples() -> None:
    @iris.kernel
    def program(X, Out, n):
        iris.store(Out, values(iris.load(X), n))

    for n in range(1, 7):
        for device in DEVICES:
            out = np.zeros(1, np.int32)
            program[1](np.full(1, 5, np.int32), out, n, device=device)
            assert out[0] == values(5, n), (n, device)


def test_a_function_calls_itself_as_often_as_is_known() -> None:
    def tree(values):
        if len(values) == 1:
            return values[0]
        half = len(values) // 2
        return tree(values[:half]) + tree(values[half:])

    def power(x, n):
        return x * power(x, n - 1) if n > 0 else 1

    @iris.kernel
    def summed(X, Out):
        iris.store(Out, tree([iris.load(X + k) for k in range(5)]))

    @iris.kernel
    def raised(X, n):
        iris.store(X, power(iris.load(X), n))

    x, out = np.arange(5, dtype=np.float32), np.zeros(1, np.float32)
    summed[1](x, out)
    assert out[0] == 10
    with pytest.raises(ControlFlowError, match="power calls itself under a traced condition"):
        raised[1](x, 5)


def test_a_value_that_nothing_uses_does_not_clash() -> None:
    @iris.kernel
    def reused(X, Out, n):
        total = 0.0
        for name in ("first", "second"):
            x = iris.load(X + iris.arange(0, 8)) * len(name) / len(name)
            total += iris.sum(x)
        for _ in range(n):
            name = "third"
            x = iris.load(X + iris.arange(0, 4)).to(iris.i32)
            total += iris.sum(x)
        if n > 2:
            x = (x, 1) if n is None else 3.0
        else:
            x = iris.load(X + iris.arange(0, 2))
        iris.store(Out, total)

    x, out = np.ones(8, np.float32), np.zeros(1, np.float32)
    for device in DEVICES:
        reused[1](x, out, 3, device=device)
        assert out[0] == 16 + 12


def clashes_at_its_start(X, n):
    x = iris.load(X + iris.arange(0, 8))
    for _ in range(n):
        x = iris.sum(x).to(iris.i32)  # here


def clashes_after_it(X, n):
    x = iris.load(X)
    for _ in range(n):
        x = iris.load(X + iris.arange(0, 8)).to(iris.i32)  # here
    iris.store(X, x)


def clashes_in_an_inner_loop(X, n):
    x = iris.load(X)
    for _ in range(n):
        for _ in range(n):
            x = x.to(iris.i32)  # here


def is_none_at_first(X, n):
    found = None
    for k in range(n):
        if found is None:
            iris.store(X, k)
        found = k  # here


def is_a_number_at_first(X, n):
    found = 1
    for _ in range(n):
        if isinstance(found, int):
            iris.store(X, 1.0)
        found = (n, n)  # here


@pytest.mark.parametrize(
    "program",
    [
        clashes_at_its_start,
        clashes_after_it,
        clashes_in_an_inner_loop,
        is_none_at_first,
        is_a_number_at_first,
    ],
)
def test_a_clash_is_an_error_at_its_line_if_the_value_is_used(program: Any) -> None:
    with pytest.raises((CarriedError, ScopeError)) as caught:
        iris.kernel(program)[1](np.zeros(8, np.float32), 3)
    assert caught.value.spot is not None
    assert "# here" in caught.value.spot.source


@pytest.mark.parametrize("device", DEVICES)
def test_the_else_of_a_loop_runs_after_it(device: str) -> None:
    def of_loops(n: Any, total: Any, seen: list[Any]) -> Any:
        for i in range(n):
            total += i
        else:
            seen[0] = total
            total = total * 10 + 1
        while total > 40:
            total -= 30
            seen[1] += 1
        else:
            seen[2] = total
            total += 0.5
        for _ in range(3):  # not traced, and left
            total += 1
            break
        else:
            total = -1
        return total

    @iris.kernel
    def kernel(n, Out):
        seen = [0, 0, 0.0]
        iris.store(Out, of_loops(n, 0.0, seen))
        for k, value in enumerate(seen):
            iris.store(Out + 1 + k, value)

    for n in (0, 1, 5):
        out, seen = np.zeros(4, np.float32), [0, 0, 0]
        kernel[1](n, out, device=device)
        assert list(out) == [of_loops(n, 0, seen), *seen]


@pytest.mark.parametrize("device", DEVICES)
def test_a_break_or_continue_in_an_else_is_of_the_loop_around(device: str) -> None:
    def of_loops(n: Any, ends: int) -> Any:
        total, x = 0, 0
        for k in (1, 2, 3):
            x = 0
            while x < ends:  # not traced
                x += 1
            else:
                total += k
                if k == 2:
                    continue
            while x < n:
                x += k
            else:
                total += x
                if k == ends:
                    break
            for i in range(n):
                total += i
            else:
                continue
            total = -1
        return total * 100 + x

    @iris.kernel
    def kernel(n, Out, ends: iris.constexpr):
        iris.store(Out, of_loops(n, ends))

    for n, ends in ((0, 1), (5, 3), (5, 4)):
        out = np.zeros(1, np.int32)
        kernel[1](n, out, ends, device=device)
        assert out[0] == of_loops(n, ends)


@pytest.mark.parametrize("n", [1, 5])
def test_loops_and_branches_change_scalars_of_numpy(n: int) -> None:
    def of_scalars(n: Any, t: Any) -> Any:
        total, steps = np.float32(0.5), np.int64(0)
        sums = [np.zeros((), np.float32), np.int8(1)]
        for k in range(n):
            total += 0.25
            steps = steps + np.int32(1)
            sums[0] = sums[0] + k
            sums[1] = sums[1] * np.uint8(2)
        factor = np.float16(1.5) if n > 3 else 2
        if n > 3:
            t = t + np.float32(0.5)
        else:
            t = t - np.float64(0.5)
        return total * 1000 + steps * 100 + sums[0] * 10 + sums[1] + factor * t

    @iris.kernel
    def kernel(T, n, Out):
        i = iris.arange(0, 4)
        iris.store(Out + i, of_scalars(n, iris.load(T + i)))

    t, out = np.arange(4, dtype=np.int32), np.empty(4, np.float32)
    for device in DEVICES:
        kernel[1](t, n, out, device=device)
        assert (out == of_scalars(n, t)).all()


def test_a_type_that_differs_is_an_error_where_it_is_chosen() -> None:
    @iris.kernel
    def kernel(T, n, Out):
        t = iris.load(T)
        x = t.to(iris.f32)
        iris.store(Out, 1 + (t if n > 3 else x))

    @iris.kernel
    def assigned(T, n, Out):
        t = iris.load(T)
        x = t.to(iris.f32)
        for _ in range(n):
            t = x
        iris.store(Out, t)

    for program, line in ((kernel, "(t if n > 3 else x)"), (assigned, "            t = x")):
        with pytest.raises(CarriedError, match="becomes a traced") as raised:
            program[1](np.zeros(1, np.int32), 4, np.zeros(1, np.float32))
        assert line in str(raised.value)


def test_a_choice_of_a_variable_without_a_value_names_it() -> None:
    @iris.kernel
    def kernel(n, Out):
        for i in range(n):
            iris.store(Out, i)
        iris.store(Out, i if n > 3 else 0)

    with pytest.raises(ScopeError, match="i belongs to the loop at line") as raised:
        kernel[1](4, np.zeros(1, np.int32))
    assert "i if n > 3" in str(raised.value)


def test_a_loop_that_is_unrolled_often_says_so() -> None:
    @iris.kernel
    def unrolled(X, N: iris.constexpr):
        table = []
        for k in range(100):
            table.append(k)
        x = iris.load(X)
        for k in range(N):
            x += table[k]
        iris.store(X, x)

    @iris.kernel
    def unrolled_while(X, N: iris.constexpr):
        k = 0
        while k < N:
            iris.store(X, iris.load(X) + k)
            k += 1

    x = np.zeros(1, np.float32)
    unrolled[1](x, N=64)
    for kernel in unrolled, unrolled_while:
        with pytest.warns(RuntimeWarning, match="unrolled more than 64 times") as caught:
            kernel[1](x, N=65)
        first = kernel.__wrapped__.__code__.co_firstlineno
        assert [w.filename for w in caught] == [__file__]
        assert 2 < caught[0].lineno - first < 8


def test_new_syntax_stands_at_the_first_line_of_its_statement() -> None:
    loops = " for i in range(n):\n  s = (s +\n   i)\n while s:\n  s -= 1\n  n = s\n"
    text = f"def f(n, s):\n{loops} return s"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    old = {id(node) for node in ast.walk(function)}
    control_flow.rewrite(function)
    new = [n for n in ast.walk(function) if id(n) not in old and isinstance(n, ast.stmt)]
    lines = {(node.lineno, node.end_lineno) for node in new}
    assert lines == {(1, 8), (2, 2), (3, 4), (5, 5), (6, 6), (7, 7)}  # 1: what parameters hold
    compile(ast.Module([function], []), "f", "exec")  # which wants a place of every piece
