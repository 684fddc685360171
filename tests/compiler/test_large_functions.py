"""Functions of many ops, arrays and numbers become kernels that fit a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import iris
from iris.compiler.graph_program import GraphProgram
from iris.cost.resources import needs_of
from iris.frontend.arrays import ArrayFunction
from iris.ir import Level, to_text
from iris.ir.control import Func
from iris.passes.graph.tiling import fusion
from iris.passes.graph.tiling.choose_schedule import cheapest_schedule
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.runtime.devices import select
from iris.targets import TARGETS, Target
from support import counts

Array = npt.NDArray[Any]


def mandelbrot(x: Any, y: Any) -> Any:
    real, imaginary, count = x, y, np.zeros_like(x)
    for _ in range(200):
        inside = real * real + imaginary * imaginary < 4
        count = count + np.where(inside, 1, 0).astype(np.float32)
        real, imaginary = (
            np.where(inside, real * real - imaginary * imaginary + x, real),
            np.where(inside, 2 * real * imaginary + y, imaginary),
        )
    return count


def many_terms(x: Any) -> Any:
    return sum(x * number for number in range(300))


def many_values(x: Any) -> Any:
    values = [np.exp(x * (number / 32)) for number in range(28)]
    product = values[0]
    for value in values[1:]:
        product = product * value
    return product + sum(values)


def many_results(x: Any) -> Any:
    return [x * number for number in range(100)]


def values_from_the_last(x: Any) -> Any:
    """All exponentials are alive between the sums, of which one begins with the last."""
    values = [np.exp(x * (number / 64)) for number in range(150)]
    one, other = values[0], values[-1]
    for value, last in zip(values, values[::-1], strict=True):
        one, other = one + value, other * 0.5 + last
    return one * other


def maxima_of_rows(x: Any) -> Any:
    maxima = [np.max(x * (1 + number / 64), axis=-1, keepdims=True) for number in range(70)]
    one, other = x, x
    for value, last in zip(maxima, maxima[::-1], strict=True):
        one, other = one * 0.5 + value, other * 0.5 + last
    return one * other


def moving_averages(x: Any) -> Any:
    """All columns are chosen from where the last is known."""
    averages = [x[:, 0]]
    for column in range(1, 40):
        averages.append(0.9 * averages[-1] + 0.1 * x[:, column % 16])
    return np.stack(averages, axis=1)


def many_arguments(*xs: Any) -> Any:
    return sum(xs)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).random(shape, np.float32) - np.float32(0.5)


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (mandelbrot, (3 * numbers(16, 16), 2 * numbers(16, 16))),
    (many_terms, (numbers(16, 16),)),
    (many_values, (numbers(16, 16),)),
    (many_results, (numbers(16, 16),)),
    (values_from_the_last, (numbers(16, 16),)),
    (maxima_of_rows, (numbers(16, 16),)),
    (moving_averages, (numbers(16, 16),)),
    (many_arguments, tuple(numbers(16, 16) for _ in range(60))),
    (many_arguments, (numbers(16, 16), *map(np.float32, range(2000)))),
]


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_it_fits_and_returns_what_numpy_does(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    found = iris.jit(function)(*arguments, device="interp:metal")
    expected = function(*arguments)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-4)


def program_of(
    function: Callable[..., Any], arguments: Sequence[Any], target: Target
) -> GraphProgram:
    """The kernels of a function of arrays."""
    function_of_arrays = ArrayFunction(function)
    traced = function_of_arrays.trace(function_of_arrays.bind(arguments, {}))
    return GraphProgram.of(traced.module, target, traced.captured)


def kernels_of(
    function: Callable[..., Any], arguments: Sequence[Any], target: Target
) -> list[Func]:
    """The same, each once, as Metal IR."""
    program = program_of(function, arguments, target)
    return [kernel.lowered(Level.METAL, target) for kernel in dict.fromkeys(program.equal)]


@pytest.mark.parametrize("target", ["apple-m1", "apple-m4"])
@pytest.mark.parametrize(("function", "arguments"), CASES[:8])
def test_it_fits_registers_with_tiles_of_any_size(
    function: Callable[..., Any], arguments: tuple[Any, ...], target: str
) -> None:
    large = [np.resize(argument, (256, 256)) for argument in arguments]
    on = TARGETS[target]
    for kernel in kernels_of(function, large, on):
        assert needs_of(kernel, on).registers <= on.thread_registers


@pytest.mark.parametrize("target", ["apple-m1", "nvidia-h100"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_a_concatenation_of_more_arrays_than_a_thread_has_registers(
    dtype: type[Any], target: str
) -> None:
    arrays = [np.full((2, 3), n, dtype) for n in range(80)]
    program = program_of(lambda xs: np.concatenate(xs), [arrays], TARGETS[target])
    (result,) = program.run(select("interp"), arrays)
    np.testing.assert_array_equal(result.numpy(), np.concatenate(arrays))


ELEMENTWISE: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.tanh(x) - y,
    lambda x, y: np.where(x > y, x, y * 0.5),
    lambda x, y: np.sqrt(np.abs(x)) / (1 + y * y),
    lambda x, y: x.astype(np.float16).astype(np.float32) + y,
]
ALONG_AXES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x - y.mean(axis=-1, keepdims=True),
    lambda x, y: x * 0.5 - y.max(axis=0),
    lambda x, y: np.where(np.argmax(y, axis=0) > 3, x, y * 0.5),
    lambda x, y: x * np.exp(y - y.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True),
    lambda x, y: np.cumsum(x, axis=0) * 0.1 + y.var(),
]
MOVING: list[Callable[[Any, Any], Any]] = [
    lambda x, y: (x @ y.T) @ x * 0.01,
    lambda x, y: np.roll(x, 3, axis=1) + y[::-1],
    lambda x, y: np.concatenate([x[:7], y[7:]]),
    lambda x, y: np.pad(x, 1)[2:, 2:] * y,
]


def random_function(seed: int, lines: int, alive: int) -> Callable[..., Any]:
    """Random lines, on values of which many are needed at once."""

    def function(*xs: Any) -> Any:
        rng = np.random.default_rng(seed)
        weights = rng.permutation([0.8, 0.2, 0.0])
        values = list(xs)
        for _ in range(lines):
            makers = (ELEMENTWISE, ALONG_AXES, MOVING)[rng.choice(3, p=weights)]
            x, y = (values[i] for i in rng.integers(0, len(values), 2))
            made = makers[rng.integers(0, len(makers))](x, y)
            if len(values) < alive:
                values.append(made)
            else:
                values[rng.integers(0, alive)] = made
        return values if seed % 2 else [values[0], sum(values)]

    return function


# The most lines of a random function: a few ops each.
MOST_LINES = max(counts([40], [500]))


# Of the last three, fusion alone makes kernels whose threads spill.
@pytest.mark.parametrize("seed", counts([1, 3, 4, 5, 7, 9, 11, 13], range(300)))
def test_random_functions_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = (MOST_LINES // 10, MOST_LINES), (2, 200), (1, 60)
    lines, alive, arrays = (int(rng.integers(*r)) for r in bounds)
    arguments = [numbers(32, 48) * np.float32(n + 1) for n in range(arrays)]
    function = random_function(seed, lines, alive)
    for on in (TARGETS["apple-m1"], TARGETS["apple-m4"]):
        for kernel in kernels_of(function, arguments, on):
            assert needs_of(kernel, on).registers <= on.thread_registers


def test_the_same_function_becomes_the_same_kernels() -> None:
    """Whatever the addresses of objects are, which sets are ordered by."""
    arguments = [numbers(12, 40) * np.float32(n + 1) for n in range(8)]
    function = random_function(1, 30, 20)
    programs = [program_of(function, arguments, TARGETS["apple-m1"]) for _ in range(4)]
    assert len({"\n".join([to_text(k.module) for k in p.kernels]) for p in programs}) == 1


def test_kernels_that_cannot_pay_are_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal kernels are planned once, and not where another dispatch costs more than they save: so
    there is less than one plan for two ops."""
    planned = 0

    def counted(elements: ElementGraph, max_tile_bytes: int, target: Target) -> KernelSchedule:
        nonlocal planned
        planned += 1
        return cheapest_schedule(elements, max_tile_bytes, target)

    monkeypatch.setattr(fusion, "cheapest_schedule", counted)
    function_of_arrays = ArrayFunction(values_from_the_last)
    module = function_of_arrays.trace(function_of_arrays.bind([numbers(16, 16)], {})).module
    GraphProgram.of(module, TARGETS["apple-m1"], ())
    assert 2 * planned < len(module.walk())
