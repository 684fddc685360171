"""How the time to compile a function of arrays grows with the number of its ops.

Seconds of the processor from the function to the Metal text of its kernels, for `n` layers,
iterations, sweeps or columns, for twice and for four times as many; `x2` and `x4` say by how much
more than before.

Below that, seconds of programs that have a `bar` to stay under, and `part`, what they take of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fusion
import report
from iris.codegen.emitter import emit
from iris.compiler.graph_program import GraphProgram
from iris.frontend.arrays import ArrayFunction
from iris.ir.core import Level
from iris.targets import DEFAULT


def layers(n: int) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        for _ in range(n):
            x = np.tanh(x) + x / 2
        return x

    return function


def mandelbrot(n: int) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        real, imaginary, count = x, y, np.zeros_like(x)
        for _ in range(n):
            real, imaginary = (
                real * real - imaginary * imaginary + x,
                2 * real * imaginary + y,
            )
            count = count + np.where(real * real + imaginary * imaginary < 4, 1.0, 0.0)
        return count

    return function


def jacobi(n: int) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        for _ in range(n):
            padded = np.pad(x, 1)
            across = padded[1:-1, :-2] + padded[1:-1, 2:]
            x = (padded[:-2, 1:-1] + padded[2:, 1:-1] + across) / 4
        return x

    return function


def moving_average(n: int) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        averages, average = [], x[:, 0]
        for column in range(n):
            average = 0.9 * average + 0.1 * x[:, column]
            averages.append(average)
        return np.stack(averages, axis=1)

    return function


def equal_layers(n: int) -> Callable[..., Any]:
    def function(x: Any, w: Any) -> Any:
        for _ in range(n):
            x = np.maximum(x @ w, 0)
        return x

    return function


def cell(n: int) -> Callable[..., Any]:
    def function(x: Any, w: Any, u: Any) -> Any:
        h = c = np.zeros((8, 32), np.float32)
        for _ in range(n):
            gates = x @ w + h @ u
            parts = [gates[:, 32 * i : 32 * (i + 1)] for i in range(4)]
            keep, write, show = (1 / (1 + np.exp(-part)) for part in parts[:3])
            c = keep * c + write * np.tanh(parts[3])
            h = show * np.tanh(c)
        return h

    return function


def network(n: int) -> Callable[..., Any]:
    """Stages of a network that sorts rows: each element is compared with another one."""

    def function(x: Any) -> Any:
        for stage in range(n):
            pairs = x.reshape(64, -1, 2, 32 >> stage % 6)
            one, other = pairs[:, :, 0], pairs[:, :, 1]
            x = np.stack([np.minimum(one, other), np.maximum(one, other)], axis=2).reshape(64, 64)
        return x

    return function


def cheapest_paths(n: int) -> Callable[..., Any]:
    """A dynamic program by rows: each element needs three of the row before."""

    def function(costs: Any) -> Any:
        row, rows = costs[0], [costs[0]]
        for step in range(1, n):
            left = np.concatenate([row[:1], row[:-1]])
            right = np.concatenate([row[1:], row[-1:]])
            row = costs[step] + np.minimum(np.minimum(left, right), row)
            rows.append(row)
        return np.stack(rows)

    return function


class Case(NamedTuple):
    """A function for any number of repetitions, the shapes that it takes, and the first number."""

    function: Callable[[int], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    n: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple([np.ones(shape, np.float32) for shape in self.shapes])


CASES = {
    "tanh(x) + x/2": Case(layers, ((64, 64),), 250),
    "Mandelbrot": Case(mandelbrot, ((64, 64), (64, 64)), 15),
    "Jacobi sweeps": Case(jacobi, ((64, 64),), 5),
    "moving average": Case(moving_average, ((64, 128),), 32),
    "equal layers": Case(equal_layers, ((64, 64), (64, 64)), 15),
    "sorting network": Case(network, ((64, 64),), 12),
    "cheapest paths": Case(cheapest_paths, ((64, 100),), 16),
    "recurrent cell": Case(cell, ((8, 32), (32, 128), (32, 128)), 5),
}


class Bar(NamedTuple):
    """A program, and the seconds that compiling it may take on a quiet machine."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    seconds: float


def bars() -> dict[str, Bar]:
    block = fusion.cases()["LLaMA block"]
    numbered = [
        ("tanh(x) + x/2", 1000, 5.0),
        ("Mandelbrot", 60, 2.85),
        ("Jacobi sweeps", 10, 1.0),
        ("moving average", 32, 1.95),
        ("equal layers", 60, 0.75),
        ("recurrent cell", 10, 0.8),
    ]
    return {
        "LLaMA block": Bar(block.function, block.arguments, 0.45),
        **{
            f"{name}, {n}": Bar(CASES[name].function(n), CASES[name].arguments, most)
            for name, n, most in numbered
        },
    }


def seconds(function_of_arrays: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    function = ArrayFunction(function_of_arrays)
    bound = function.bind(arguments, {})
    start = time.process_time()
    traced = function.trace(bound)
    program = GraphProgram.of(traced.module, DEFAULT, traced.captured)
    for kernel in dict.fromkeys(program.equal):
        emit(kernel.lowered(Level.METAL, DEFAULT))
    return time.process_time() - start


def least(function: Callable[..., Any], arguments: tuple[Any, ...], tries: int) -> float:
    return min([seconds(function, arguments) for _ in range(report.times(tries))])


def main() -> None:
    rows: dict[str, dict[str, float]] = {}
    for name, case in report.some(CASES, "equal layers").items():
        n = report.times(case.n)
        spent = [least(case.function(m), case.arguments, 2) for m in (n, 2 * n, 4 * n)]
        rows[f"{name}, {n}"] = {
            "n": spent[0],
            "2n": spent[1],
            "4n": spent[2],
            "x2": spent[1] / spent[0],
            "x4": spent[2] / spent[1],
        }
    print("seconds")
    report.write("growth", rows)
    rows = {}
    for name, bar in report.some(bars(), "LLaMA block", "moving average, 32").items():
        spent = least(bar.function, bar.arguments, 5)
        rows[name] = {"seconds": spent, "bar": bar.seconds, "part": spent / bar.seconds}
    report.write("compile_times", rows)


if __name__ == "__main__":
    main()
