"""Fusing takes time in proportion to the ops of a function, however many become one kernel."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.compilation import entry_of
from iris.compiler.graph_program import GraphProgram
from iris.cost.resources import needs_of
from iris.frontend.arrays import ArrayFunction
from iris.ir.core import Level
from iris.passes.graph.tiling import fusion
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.targets import DEFAULT, find


def layers(n: int) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        for _ in range(n):
            x = np.tanh(x) + x / 2
        return x

    return function


def mandelbrot(n: int) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        real, imaginary, count = x, y, np.zeros_like(x)
        for _ in range(n):
            real, imaginary = real * real - imaginary * imaginary + x, 2 * real * imaginary + y
            count = count + np.where(real * real + imaginary * imaginary < 4, 1.0, 0.0)
        return count

    return function


def averages(n: int) -> Callable[..., Any]:
    """Columns, of which each depends on the one before."""

    def function(x: Any, y: Any) -> Any:
        columns = [x[:, 0]]
        for column in range(1, n):
            columns.append(0.9 * columns[-1] + 0.1 * x[:, column])
        return np.stack(columns, axis=1)

    return function


def cells(n: int) -> Callable[..., Any]:
    """Products that each depend on the one before, and on a state that is cheap to recompute."""

    def function(x: Any, y: Any) -> Any:
        shown = state = x[:8, :32]
        for _ in range(n):
            gates = shown @ y[:32]
            keep, show = 1 / (1 + np.exp(-gates[:, :32])), gates[:, 32:]
            state = keep * state + np.tanh(show)
            shown = show * np.tanh(state)
        return shown

    return function


def network(n: int) -> Callable[..., Any]:
    """Stages that compare each element of a row with another one, as networks that sort do."""

    def function(x: Any, y: Any) -> Any:
        for stage in range(n):
            pairs = x.reshape(64, -1, 2, 32 >> stage % 6)
            one, other = pairs[:, :, 0], pairs[:, :, 1]
            x = np.stack([np.minimum(one, other), np.maximum(one, other)], axis=2).reshape(64, 64)
        return x

    return function


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many elements each kernel has that was planned."""
    planned: list[int] = []
    cheapest = fusion.cheapest_schedule

    def counting(elements: ElementGraph, *options: Any) -> Any:
        planned.append(len(elements.exprs))
        return cheapest(elements, *options)

    monkeypatch.setattr(fusion, "cheapest_schedule", counting)
    return planned


@pytest.mark.parametrize(
    ("function", "first"), [(layers, 60), (mandelbrot, 30), (averages, 64), (cells, 8)]
)
def test_what_is_planned_grows_with_the_function(
    function: Callable[[int], Any], first: int, planned: list[int]
) -> None:
    x = np.zeros((64, 256 if function is averages else 64), np.float32)
    counts = []
    for n in (first, 2 * first, 4 * first):
        planned.clear()
        kernels = iris.jit(function(n)).kernels(x, x.copy())
        assert len(kernels) == 1 or function is cells
        counts.append(sum(planned))
    assert counts[1] < 2.3 * counts[0]
    assert counts[2] < 2.3 * counts[1]


@pytest.mark.parametrize("columns", [5, 65, 128, 256])
def test_columns_of_a_recurrence_are_one_kernel_of_few_registers(columns: int) -> None:
    """Each is put in its place as soon as it is computed, so that few are alive at once."""
    x = np.random.default_rng(0).standard_normal((64, columns)).astype(np.float32)
    function = averages(columns)
    compiled = iris.jit(function)
    (kernel,) = compiled.lower(x, x).kernels
    registers = needs_of(entry_of(kernel.stages[-1].module), DEFAULT).registers
    assert registers <= DEFAULT.thread_registers
    for device in ("interp", "interp:metal"):
        found = compiled(x, x, device=device)
        np.testing.assert_allclose(found, function(x, x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", ["apple-m1", "apple-m4-max"])
def test_what_a_recurrence_is_lowered_to_grows_with_its_columns(target: str) -> None:
    on, ops = find(target), []
    for columns in (32, 64, 128, 256):
        function = ArrayFunction(averages(columns))
        x = np.zeros((64, columns), np.float32)
        module = function.trace(function.bind([x, x], {})).module
        (kernel,) = GraphProgram.of(module, on).kernels
        ops.append(len(kernel.lowered(Level.METAL, on).walk()))
    assert all(more < 2.3 * fewer for fewer, more in pairwise(ops))


@pytest.mark.parametrize("step", [-1, 7])
def test_columns_in_another_order_than_that_of_a_recurrence(step: int) -> None:
    def function(x: Any, y: Any) -> Any:
        columns = averages(20)(x, y)
        order = [column * step % 20 for column in range(20)]
        return np.stack([columns[:, column] for column in order], axis=1) + y

    x = np.random.default_rng(0).standard_normal((8, 20)).astype(np.float32)
    for device in ("interp", "interp:metal"):
        found = iris.jit(function)(x, x, device=device)
        np.testing.assert_allclose(found, function(x, x), rtol=1e-6, atol=1e-6)


def test_what_doubles_at_each_stage_grows_by_at_most_a_square(planned: list[int]) -> None:
    """A few stages are one kernel, in which each computes what the one after it needs again."""
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    counts = []
    for n in (6, 12, 24):
        planned.clear()
        kernels = iris.jit(network(n)).kernels(x, x)
        assert len(kernels) <= n // 3
        counts.append(sum(planned))
    assert counts[1] < 4 * counts[0]
    assert counts[2] < 4 * counts[1]
    np.testing.assert_array_equal(iris.jit(network(6))(x, x), network(6)(x, x))


def test_equal_kernels_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[tuple[int, ...]] = []
    cheapest = fusion.cheapest_schedule

    def counting(elements: ElementGraph, *options: Any) -> Any:
        planned[-1] += (len(elements.exprs),)
        return cheapest(elements, *options)

    def equal_layers(n: int) -> Callable[..., Any]:
        def function(x: Any, w: Any) -> Any:
            for _ in range(n):
                x = np.maximum(x @ w, 0)
            return x

        return function

    monkeypatch.setattr(fusion, "cheapest_schedule", counting)
    x = np.zeros((64, 64), np.float32)
    for n in (10, 40):
        planned.append(())
        assert len(iris.jit(equal_layers(n)).kernels(x, x.copy())) == n
    assert planned[0] == planned[1]


def unequal_cells(n: int) -> Callable[..., Any]:
    """Cells of which no two are equal, some of them too large for a kernel."""

    def function(x: Any, y: Any) -> Any:
        values = [x, y]
        for k in range(n):
            values.append(np.tanh(values[-1] * (k + 2)) @ y + values[k // 2])
        return sum(np.exp(v) for v in values)

    return function


def test_plans_are_dropped_without_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[ElementGraph] = weakref.WeakSet()
    most: list[int] = []
    cheapest = fusion.cheapest_schedule

    def counting(elements: ElementGraph, *options: Any) -> Any:
        alive.add(elements)
        most[-1] = max(most[-1], len(alive))
        return cheapest(elements, *options)

    monkeypatch.setattr(fusion, "cheapest_schedule", counting)
    x = np.zeros((64, 64), np.float32)
    for n in (20, 40):
        gc.collect()
        most.append(0)
        iris.jit(unequal_cells(n)).kernels(x, x.copy())
    assert most[0] == most[1]
