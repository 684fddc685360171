"""Kernels and functions of arrays follow the globals and closures that they read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import iris
from iris.frontend.captured import Captured

FACTOR: Any = 2.0
PAIR: Any = (1, 2)
config = ModuleType("config_of_a_user")
X = np.arange(8, dtype=np.float32)
COUNTS = {"traces": 0}


def scaled(x: Any) -> Any:
    return x * FACTOR


@iris.kernel
def scale(X, Out, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    iris.store(Out + i, iris.load(X + i, mask=i < N) * FACTOR, mask=i < N)


@iris.kernel
def scale_by_a_call(X, Out, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    iris.store(Out + i, scaled(iris.load(X + i, mask=i < N)), mask=i < N)


@iris.jit
def scale_array(x):
    COUNTS["traces"] += 1
    return x * FACTOR


def launched(kernel: Any) -> np.ndarray:
    out = np.zeros_like(X)
    kernel[1](X, out, 8, BLOCK=8)
    return out


@pytest.fixture(autouse=True)
def _globals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("FACTOR", "PAIR", "scaled"):
        monkeypatch.setitem(globals(), name, globals()[name])  # as it was, afterwards
    yield


@pytest.mark.parametrize(
    "compute",
    [
        lambda: launched(scale),
        lambda: launched(scale_by_a_call),
        lambda: scale_array(X),
    ],
)
def test_another_number(compute: Callable[[], np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    for factor in (2.0, 3.0, -1, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(2):
            np.testing.assert_array_equal(compute(), X * np.float32(factor))


def test_launches_of_buffers_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = iris.asarray(X), iris.asarray(np.zeros_like(X))
    for factor in (2.0, 2.0, 5.0, 5.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        scale[1](x, out, 8, BLOCK=8)
        np.testing.assert_array_equal(iris.to_numpy(out), X * np.float32(factor))


def test_another_function(monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(launched(scale_by_a_call), X * 2)
    monkeypatch.setitem(globals(), "scaled", lambda x: x + FACTOR)
    np.testing.assert_array_equal(launched(scale_by_a_call), X + 2)


class Scaling:
    """Reads a global in ways that no name of a function tells."""

    @staticmethod
    def alone(x: Any) -> Any:
        return x * FACTOR

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * FACTOR

    @property
    def factor(self) -> Any:
        return FACTOR

    def method(self, x: Any) -> Any:
        return x * FACTOR

    __call__ = method


SCALING = Scaling()
HELD: Any = {"scaled": [(scaled,)]}
PARTLY = partial(lambda y, x: x * FACTOR + y, 0)
WAYS: dict[str, Callable[[Any], Any]] = {
    "static method": lambda x: Scaling.alone(x),
    "class method": lambda x: Scaling.of_class(x),
    "property": lambda x: x * SCALING.factor,
    "method": lambda x: SCALING.method(x),
    "method of a new object": lambda x: Scaling().method(x),
    "call of an object": lambda x: SCALING(x),
    "object": SCALING,
    "partial": lambda x: PARTLY(x),
    "container": lambda x: HELD["scaled"][0][0](x),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_is_read_through_objects(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = iris.jit(WAYS[way])
    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.testing.assert_array_equal(compiled(X), X * np.float32(factor))


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_a_constant_reads(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = iris.jit(lambda x, how: how(x), static_argnames="how")

    @iris.kernel
    def kernel(X, Out, how: iris.constexpr, BLOCK: iris.constexpr):
        i = iris.arange(0, BLOCK)
        iris.store(Out + i, how(iris.load(X + i)))

    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.testing.assert_array_equal(compiled(X, WAYS[way]), X * np.float32(factor))
        out = np.zeros_like(X)
        kernel[1](X, out, WAYS[way], BLOCK=8)
        np.testing.assert_array_equal(out, X * np.float32(factor))


def test_defaults_of_a_function_that_is_called() -> None:
    def shifted(x: Any, by: float = 1.0, *, scale: float = 1.0) -> Any:
        return x * scale + by

    compiled = iris.jit(lambda x: shifted(x))
    np.testing.assert_array_equal(compiled(X), X + 1)
    shifted.__defaults__ = (5.0,)
    np.testing.assert_array_equal(compiled(X), X + 5)
    shifted.__kwdefaults__ = {"scale": 2.0}
    np.testing.assert_array_equal(compiled(X), X * 2 + 5)


def test_arrays_that_an_object_held_are_not_kept() -> None:
    class Held:
        def __init__(self) -> None:
            self.weight = np.ones(8, np.float32)

    held = Held()
    weight = weakref.ref(held.weight)
    captured = Captured(lambda x: x * held.weight)
    assert not captured.changed()
    held.weight = np.zeros(8, np.float32)
    assert weight() is None


def test_an_array_of_a_global_and_of_a_closure() -> None:
    weight = np.ones(8, np.float32)

    @iris.jit
    def weighted(x):
        return x * weight

    np.testing.assert_array_equal(weighted(X), X)
    weight = weight * 4
    np.testing.assert_array_equal(weighted(X), X * 4)


def test_a_value_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    config.shift = 1.0  # type: ignore[attr-defined]

    @iris.jit
    def shifted(x):
        return x + config.shift  # type: ignore[attr-defined]

    np.testing.assert_array_equal(shifted(X), X + 1)
    config.shift = 7.0  # type: ignore[attr-defined]
    np.testing.assert_array_equal(shifted(X), X + 7)


def test_equal_values_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    COUNTS["traces"] = 0
    monkeypatch.setitem(globals(), "FACTOR", 11.5)
    scale_array(X)
    monkeypatch.setitem(globals(), "FACTOR", float("11.5"))
    scale_array(X)
    assert COUNTS["traces"] == 1
    monkeypatch.setitem(globals(), "FACTOR", np.float32(11.5))  # which makes other types
    scale_array(X)
    assert COUNTS["traces"] == 2


def test_what_a_trace_assigns_is_no_change() -> None:
    traces = 0

    @iris.jit
    def counted(x):
        nonlocal traces
        traces += 1
        return x + 1

    for _ in range(3):
        counted(X)
    assert traces == 1


def test_what_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(x: Any) -> Any:
        return scaled(np.sum(x)) + PAIR[0] + np.pi

    captured = Captured(reads)
    assert not captured.changed()
    for name, same, other in (
        ("PAIR", (1, 2), (1, 2.0)),
        ("FACTOR", float("2"), 2),
        ("scaled", scaled, lambda x: x),
    ):
        was = globals()[name]
        globals()[name] = same
        assert not captured.changed()
        globals()[name] = other
        assert captured.changed()
        globals()[name] = was
    assert not captured.changed()
    monkeypatch.setitem(globals(), "sum", 3)  # no global of this name is read
    assert not captured.changed()


def test_a_name_without_a_value_gets_one() -> None:
    def reads() -> Any:
        return later

    captured = Captured(reads)
    later = 1
    assert captured.changed()
    assert reads() == 1
