"""Assignment: what is made of a variable's old value updates it, in a loop or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import iris
from iris import metal
from iris.ir import verify
from iris.testing import sources


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
    """One iteration, in a helper."""
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


@dataclass
class Held:
    sum: Any = 5.0

    def add(self, x: Any) -> None:
        self.sum = self.sum + x

    def __iadd__(self, x: Any) -> Held:
        self.sum = self.sum + x
        return self

    def add_in_place(self, x: Any) -> None:
        self.sum += x


@dataclass(frozen=True)
class Frozen:
    sum: Any = 5.0

    def plus(self, x: Any) -> Frozen:
        return replace(self, sum=self.sum + x)


class Inheriting:
    sum: Any = 5.0

    def add(self, x: Any) -> None:
        self.sum = self.sum + x


def new() -> dict[str, Any]:
    return {"sum": 5.0}


def add_to(held: dict[str, Any], x: Any) -> None:
    held["sum"] = held["sum"] + x


def index(k: int) -> int:
    return k


# Where a sum is held, how that is made, an update of it, and how it is read: each is the same sum.
CALLED: list[Any] = [Held, Frozen, Inheriting, new, add_to, index, partial, SimpleNamespace]
PLACES = [
    ("s = 5", "s += x", "s"),
    ("s = 5.0", "0 if (s := s + x) is None else 1", "s"),
    ("s = 5.0", "0 if F and (s := s + x) is None else 1", "s"),
    ("a = [5.0]", "a[0] += x", "a[0]"),
    ("a = [5.0] * 2", "a[0] = a[0] + x", "a[0]"),
    ("a = [0, 5.0]", "a[2 - 1] = x + a[2 - 1]", "a[1]"),
    ("a = [0, 5.0]", "a[index(1)] += x", "a[1]"),
    ("a = [0.0, 5.0]", "t = a[index(1)] + x; a[index(1)] = t", "a[1]"),
    ("a = [5.0, 5.0]", "a[0], *a[1:] = a[0] + x, a[1] + x", "a[1]"),
    ("a = [5.0, 5.0]", "a[:] = [v + x for v in a]", "a[1]"),
    ("a = [5.0, 5.0]", "a = [v + x for v in a]", "a[1]"),
    ("a = (0, (5.0,))", "a = (0, (a[1][0] + x,))", "a[1][0]"),
    ("a = new()", "a['sum'] = a['sum'] + x", "a['sum']"),
    ("a = new()", "a.update(sum=a['sum'] + x)", "a['sum']"),
    ("a = new()", "add_to(a, x)", "a['sum']"),
    ("a = new(); add = partial(add_to, a)", "add(x)", "a['sum']"),
    ("a = SimpleNamespace(sum=5.0)", "a.sum = a.sum + x", "a.sum"),
    ("a = SimpleNamespace(sum=5.0)", "setattr(a, 'sum', a.sum + x)", "a.sum"),
    ("a = Held()", "a.sum, t = a.sum + x, 1", "a.sum"),
    ("a = Held()", "a.add(x)", "a.sum"),
    ("a = [Held()]", "a[0].add_in_place(x)", "a[0].sum"),
    ("a = Held()", "a += x", "a.sum"),
    ("a = [Held()]", "a[0] += x", "a[0].sum"),
    ("a = Frozen()", "a = a.plus(x)", "a.sum"),
    ("s = False", "s = s | (x > 3)", "iris.where(s, 5.0, 7.0)"),
    ("s = True", "s &= x > 3", "iris.where(s, 5.0, 7.0)"),
]


def in_a_loop(loop: str, start: str, update: str, read: str) -> Any:
    """A kernel that updates something with blocks that have masked lanes, the first block, too."""
    known = ": iris.constexpr" if "traced" not in loop else ""
    step = ["c = i + iris.arange(0, 4)", "x = iris.load(X + c, mask=(c < N) & (c % 3 != 1))"]
    step += update.split("; ")
    if loop == "none":
        lines = [line for i in (0, 4, 8) for line in (f"i = {i}", *step)]
    else:
        over = "iris.tile_range" if loop == "traced by tile_range" else "range"
        lines = [f"for i in {over}(0, N, 4):", *[f"    {line}" for line in step]]
    body = [*start.split("; "), *lines, f"iris.store(Out + iris.arange(0, 4), {read})"]
    head = ["@iris.kernel", f"def drawn(X, Out, N{known}, F):"]
    text = "\n".join([*head, *[f"    {line}" for line in body], ""])
    return sources.defined(text, **{x.__name__: x for x in CALLED})


@pytest.mark.parametrize("place", PLACES, ids=["; ".join(p[:2]) for p in PLACES])
def test_what_is_updated_may_be_held_anywhere(place: tuple[str, str, str]) -> None:
    x, out = np.arange(1, 13, dtype=np.float32), np.zeros(4, np.float32)
    counts = (np.arange(12) < 10) & (np.arange(12) % 3 != 1)
    expected = 5 + np.where(counts, x, 0).reshape(3, 4).sum(0)
    if "s = True" in place[0] or "s = False" in place[0]:
        over = np.where(counts, x > 3, "True" in place[0]).reshape(3, 4)
        expected = np.where(over.all(0) if "True" in place[0] else over.any(0), 5.0, 7.0)
    for loop in ("traced", "traced by tile_range", "unrolled", "none"):
        out[:] = 99
        in_a_loop(loop, *place)[1](x, out, 10, 1)
        assert out.tolist() == expected.tolist(), loop


@pytest.mark.parametrize("update", ["a.add(x)", "a.sum = a.sum + x", "a.sum += x"])
def test_an_attribute_updates_what_the_class_has(update: str) -> None:
    x, out = np.arange(1, 13, dtype=np.float32), np.zeros(4, np.float32)
    counts = (np.arange(12) < 10) & (np.arange(12) % 3 != 1)
    for loop in ("unrolled", "none"):
        in_a_loop(loop, "a = Inheriting()", update, "a.sum")[1](x, out, 10, 1)
        assert (out == 5 + np.where(counts, x, 0).reshape(3, 4).sum(0)).all()
    assert type(Inheriting.sum) is float


def test_numbers_in_objects_of_the_user_are_plain_numbers_after_the_trace() -> None:
    settings = {"scale": 2.0, "names": ["a", 1]}

    @iris.kernel
    def scaled(X, Out):
        chosen = settings
        iris.store(Out, iris.load(X) * chosen["scale"])

    out = np.zeros(1, np.float32)
    scaled[1](np.ones(1, np.float32), out)
    assert out[0] == 2
    assert type(settings["scale"]) is float
    assert type(settings["names"][1]) is int


def test_numbers_of_variables_are_plain_in_attributes() -> None:
    @iris.kernel
    def tiles(Out):
        start, axis = 0, 0
        if iris.program_id(0) > 0:
            start, axis = start + 4, axis + 1
            x = iris.reshape(iris.arange(start, start + 16), (4, 4))
            iris.store(Out + iris.arange(0, 4), iris.sum(iris.cumsum(x, axis), 0))

    @metal.kernel(param_types={"Out": "device int*"})
    def threads(Out):
        i = metal.thread_id_x()
        lane = 1
        v = metal.int2(i, i)
        if i > 3:
            v = v + 1
        Out[i] = metal.simd_broadcast(v[lane], lane)

    out = np.zeros(32, np.int32)
    verify(tiles.lower(out, grid=1).traced)
    verify(threads.lower(out, grid=1, threadgroup=32).traced)
