"""Early returns: a function that returns under a traced condition, against Python."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

import iris
from iris.testing.sources import evaluated

DEVICES = ("interp", "interp:metal")
LANES = np.arange(8)


@pytest.mark.parametrize("device", DEVICES)
def test_all_that_stands_after_a_return_is_under_the_condition(device: str) -> None:
    """Loops, products, masks, reductions and atomics, which need barriers."""

    @iris.kernel
    def product(A, B, Counts, Out, left_out, n, M: iris.constexpr):
        program = iris.program_id(0)
        if program == left_out:
            return
        acc = iris.zeros((M, M))
        for k in iris.tile_range(0, n, M):
            a = iris.tile_load(A, program * M, k, n, (M, M))
            acc = iris.dot(a, iris.tile_load(B, k, 0, M, (M, M)), acc)
        iris.atomic_add(Counts, 1)
        if iris.sum(acc) == 0:
            iris.atomic_add(Counts + 1, 1)
            return
        rows = iris.arange(0, M)
        mask = rows < M - 3
        iris.store(Out + (program * M + rows[:, None]) * M + rows[None, :], acc, mask=mask[:, None])
        iris.store(Counts + 2 + program, iris.sum(iris.load(B + rows, mask=mask)))

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (32, 16)).astype(np.float32)
    b = rng.integers(-3, 4, (16, 8)).astype(np.float32)
    a[8:16] = 0
    counts, out = np.zeros(6, np.int32), np.full((4, 8, 8), -7, np.float32)
    product[4](a, b, counts, out, 3, 16, M=8, device=device)
    expected = np.full((4, 8, 8), -7, np.float32)
    stored = [0, 2]
    expected[stored, :5] = (a @ b).reshape(4, 8, 8)[stored, :5]
    assert (out == expected).all()
    first = int(b.ravel()[:5].sum())
    assert list(counts) == [3, 1, first, 0, first, 0]


def branches(X: Any, Out: Any, a: Any, b: Any, store: Any) -> None:
    """Either branch may return, or go on."""
    x = X
    if a > 0:
        if b > 0:
            return
        x = x * 2
        y = 1.0
        if b == 0:
            store(Out, x)
            x = x - 1
    elif b > 0:
        y = 2.0
        if b > 1:
            store(Out, x)
            return
    else:
        store(Out, x + 7)
        return
    store(Out, x + y)
    if b < -1:
        return
    store(Out + 8, y)


def test_a_branch_returns_or_goes_on() -> None:
    @iris.kernel
    def nested(X, Out, a, b, SHIFT: iris.constexpr = 0):
        i = iris.arange(0, 8)
        branches(iris.load(X + i), Out + i, a, b, iris.store)

    for a in (0, 2):
        for b in (-2, 0, 2, 3):
            x = LANES.astype(np.float32)
            expected = np.full(16, -1, np.float32)

            def store(where: Any, value: Any, expected: Any = expected) -> None:
                expected[where] = value

            branches(x, LANES, a, b, store)
            for device in DEVICES:
                out = np.full(16, -1, np.float32)
                nested[1](x, out, a, b, device=device)
                assert (out == expected).all(), (device, a, b)


class Pair(NamedTuple):
    value: Any
    count: Any


def helper(x: Any, n: Any, log: Any) -> Any:
    """Returns a structure, and changes an object of the caller's and some of its own."""
    found, names = [], {}
    log["n"] = n
    if n > 10:
        log["n"] = n * 2
        return Pair(x * 2, n)
    if n > 5:
        y = x + n
        if n > 7:
            found.append(y)
            return Pair(found[0] + y, 1)
        x = y
        log["n"] = 0
    for k in range(3):
        found.append(x + k)
        names[k] = found[-1]
    return Pair(found[0] + found[1] + names[2], n)


def test_a_helper_returns_early() -> None:
    @iris.kernel
    def helped(X, Out, n, trips):
        i = iris.arange(0, 8)
        log = {"n": 0}
        total = 0.0
        for _ in range(trips):
            pair = helper(iris.load(X + i), n, log)
            total += pair.value * pair.count
        iris.store(Out + i, total + log["n"])

    x = LANES.astype(np.float32)
    for n in (3, 6, 9, 12):
        log: dict[str, int] = {}
        value, count = helper(x, n, log)
        for device in DEVICES:
            out = np.empty(8, np.float32)
            helped[1](x, out, n, 2, device=device)
            assert (out == 2 * value * count + log["n"]).all(), (device, n)


def test_a_masked_value_stays_masked_where_a_helper_returns_early() -> None:
    def blocks(X, i, n):
        y = iris.load(X + i, mask=i < 5)
        if n > 3:
            if n > 4:
                return y + 1
            z = iris.load(X + i, mask=i > 1)
        else:
            z = y
        return y * z

    @iris.kernel
    def masked(X, Out, n):
        iris.store(Out, iris.min(blocks(X, iris.arange(0, 8), n)))

    x = LANES[::-1].astype(np.float32)
    for n, expected in ((3, 3 * 3), (4, 3 * 3), (5, 3 + 1)):
        out = np.empty(1, np.float32)
        masked[1](x, out, n)
        assert out[0] == expected


def drawn_block(random: Random, depth: int, *, helper: bool) -> list[str]:
    """Draw statements, among them branches that may return before what follows."""
    lines = []
    for _ in range(random.randint(1, 3)):
        match random.randrange(5 if depth else 2):
            case 0 | 1:
                lines.append(f"log[0] = log[0] * 3 + {random.randint(1, 9)}")
            case 2:
                returned = f"log[0] + {random.randint(1, 9)}" if helper else ""
                lines.append(f"if x & {random.choice((1, 2, 4, 8))}: return {returned}")
            case _:
                lines.append(f"if x & {random.choice((1, 2, 4, 8))}:")
                lines += [f"    {line}" for line in drawn_block(random, depth - 1, helper=helper)]
                if random.random() < 0.4:
                    lines.append("else:")
                    block = drawn_block(random, depth - 1, helper=helper)
                    lines += [f"    {line}" for line in block]
    return lines


@pytest.mark.parametrize("helper", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_what_follows_a_return_in_nested_branches_runs_as_in_python(
    seed: int, helper: bool
) -> None:
    lines = drawn_block(Random(seed), 4, helper=helper)
    lines += ["return log[0]"] if helper else []
    text = "\n".join(["def body(x, log):", *[f"    {line}" for line in lines]])
    body = evaluated(text)["body"]

    @iris.kernel
    def all_ways(Out):
        x = iris.program_id(0)
        log = [x]
        result = body(x, log)
        iris.store(Out + 2 * x, log[0])
        iris.store(Out + 2 * x + 1, 0 if result is None else result)

    expected = []
    for x in range(16):
        log = [x]
        expected += [0, body(x, log) or 0]
        expected[-2] = log[0]
    out = np.zeros(32, np.int32)
    all_ways[16](out)
    assert out.tolist() == expected, text


def test_a_return_under_what_is_known_leaves_no_branch() -> None:
    @iris.kernel
    def known(X, Out, n, FLAG: iris.constexpr):
        for k in range(4):
            if FLAG == k:
                return
        i = iris.program_id(0)
        if FLAG > 4:
            i = iris.load(X + i)
            if i > n:
                return
        iris.store(Out + i, 1.0)

    def ops(flag: int) -> str:
        return str(known.lower(x, out, 5, FLAG=flag, grid=3).traced)

    x, out = np.array([2, 1, 9], np.int32), np.zeros(4, np.float32)
    known[3](x, out, 5, FLAG=5)
    assert list(out) == [0, 1, 1, 0]
    assert "if" in ops(5)
    assert "if" not in ops(4)
    assert "store" not in ops(2)


def test_pointers_are_returned_early() -> None:
    def chosen(X, Out, n):
        if n > 5:
            if n > 8:
                return X, Out
            X = X + 1
            n = n - 1
        return X + n, Out + 1

    @iris.kernel
    def copies(X, Out, n):
        source, target = chosen(X, Out, n)
        iris.store(target, iris.load(source))

    for n, at, to in ((9, 0, 0), (7, 7, 1), (2, 2, 1)):
        out = np.full(2, -1, np.float32)
        copies[1](LANES.astype(np.float32), out, n)
        assert out[to] == at
        assert out[1 - to] == -1
