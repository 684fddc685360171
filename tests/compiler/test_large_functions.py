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
@pytest.mark.parametrize(("function", "arguments"), CASES[:7])
def test_it_fits_registers_with_tiles_of_any_size(
    function: Callable[..., Any], arguments: tuple[Any, ...], target: str
) -> None:
    large = [np.resize(argument, (256, 256)) for argument in arguments]
    on = TARGETS[target]
    for kernel in kernels_of(function, large, on):
        assert needs_of(kernel, on).registers <= on.thread_registers


def random_function(seed: int, ops: int, alive: int) -> Callable[..., Any]:
    """Some ops on values of which many are needed at once, chosen at random."""

    def function(*xs: Any) -> Any:
        rng = np.random.default_rng(seed)
        values = list(xs)
        for _ in range(ops):
            x, y = (values[i] for i in rng.integers(0, len(values), 2))
            match rng.integers(0, 8):
                case 0:
                    made = np.tanh(x)
                case 1:
                    made = np.where(x > y, x, y * 0.5)
                case 2:
                    made = x - y.mean(axis=-1, keepdims=True)
                case 3:
                    made = x * 0.5 - y.max(axis=0)
                case _:
                    made = x * 0.25 + y * 0.5
            if len(values) < alive:
                values.append(made)
            else:
                values[rng.integers(0, alive)] = made
        return [values[0], sum(values)]

    return function


@pytest.mark.parametrize("seed", counts([0, 3], range(300)))
def test_random_functions_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ops, alive, arrays = (int(rng.integers(*r)) for r in ((200, 500), (20, 200), (1, 60)))
    arguments = [numbers(12, 40) * np.float32(n + 1) for n in range(arrays)]
    function = random_function(seed, ops, alive)
    on = TARGETS["apple-m1"]
    assert all(
        needs_of(k, on).registers <= on.thread_registers
        for k in kernels_of(function, arguments, on)
    )


def test_the_same_function_becomes_the_same_kernels() -> None:
    """Whatever the addresses of objects are, which sets are ordered by."""
    arguments = [numbers(12, 40) * np.float32(n + 1) for n in range(8)]
    function = random_function(1, 120, 40)
    programs = [program_of(function, arguments, TARGETS["apple-m1"]) for _ in range(4)]
    assert len({"\n".join([to_text(k.module) for k in p.kernels]) for p in programs}) == 1
