"""Functions of many ops, arrays and numbers become kernels that fit a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import iris
from iris.compiler.graph_program import GraphProgram
from iris.frontend.arrays import ArrayFunction
from iris.ir import Level
from iris.targets import TARGETS

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


def many_arguments(*xs: Any) -> Any:
    return sum(xs)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).random(shape, np.float32) - np.float32(0.5)


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (mandelbrot, (3 * numbers(16, 16), 2 * numbers(16, 16))),
    (many_terms, (numbers(16, 16),)),
    (many_values, (numbers(16, 16),)),
    (many_results, (numbers(16, 16),)),
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


@pytest.mark.parametrize("target", ["apple-m1", "apple-m4"])
@pytest.mark.parametrize(("function", "arguments"), CASES[:5])
def test_it_fits_tiles_of_any_size(
    function: Callable[..., Any], arguments: tuple[Any, ...], target: str
) -> None:
    large = [np.resize(argument, (256, 256)) for argument in arguments]
    function_of_arrays = ArrayFunction(function)
    traced = function_of_arrays.trace(function_of_arrays.bind(large, {}))
    program = GraphProgram.of(traced.module, TARGETS[target], traced.captured)
    for kernel in dict.fromkeys(program.equal):
        kernel.lowered(Level.METAL, TARGETS[target])  # checks what it needs
