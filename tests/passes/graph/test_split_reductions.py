"""Reductions in parts give what they give whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given

import iris
from iris.compiler.graph_program import GraphProgram
from iris.ir import Module, parse
from iris.passes import Pipeline, run
from iris.passes.graph.split_reductions import SplitReductions
from iris.passes.graph.tiling.tile_program import schedule_of
from iris.runtime.interpreters import Interpreter
from iris.targets import DEFAULT
from iris.testing import fuses, preserves, programs
from iris.tools.replay import Program

# On this target every reduction is split that can be.
WIDE = replace(DEFAULT, cores=64, dispatch_microseconds=0)
SPLIT = SplitReductions(WIDE, min_part=2)
SIMPLIFIED = Pipeline.parse("canonicalize,fold,cse,simplify,cse,dce")
EPS = 2.0**-23  # of f32


@given(programs.graph())
def test_it_keeps_what_a_graph_returns(program: Program) -> None:
    preserves(SPLIT, program)


@given(programs.graph(portable=True))
def test_the_kernels_return_the_same(program: Program) -> None:
    fuses(program.with_module(run(program.module, Pipeline((SPLIT,)))))


def test_it_needs_no_other_pass_before_it() -> None:
    code = """
from iris.ir import Module, parse
from iris.passes import run
run(parse('''func graph @f returns=[tensor<1x1xf32>](%x: tensor<1x999xf32>, %y: tensor<999x1xf32>) {
  %z: tensor<1x1xf32> = graph.matmul %x, %y
  return %z
}'''), "split-reductions")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


DEVICE = Interpreter()


def computed(program: GraphProgram, *arrays: np.ndarray) -> np.ndarray:
    """The only result of a program."""
    (result,) = program.run(DEVICE, arrays)
    return result.numpy()


@cache
def split(function: str) -> GraphProgram:
    """A reduction, split in the finest parts."""
    module = parse(function)
    parts = run(module, Pipeline((SPLIT,)))
    assert parts != module
    return GraphProgram.of(parts, DEFAULT)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("size", [8, 9, 37])
def test_the_first_of_equals_and_the_first_nan(kind: str, size: int) -> None:
    text = f"""
func graph @f returns=[tensor<3xi32>](%x: tensor<3x{size}xf32>) {{
  %y: tensor<3xi32> = graph.reduce {kind} [1] %x
  return %y
}}
"""
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.choice(np.array([0, -0.0, 1, -np.inf, np.inf], np.float32), (3, size))
        x[1] = x[1, 0]
        x[2, rng.integers(size, size=2)] = np.nan
        np.testing.assert_array_equal(computed(split(text), x), getattr(np, kind)(x, axis=1))


@pytest.mark.parametrize("dtype", ["i32", "f32"])
@pytest.mark.parametrize("shape", [(8,), (37,), (3, 9), (9, 3)])
def test_scans_start_at_what_is_before_each_part(dtype: str, shape: tuple[int, ...]) -> None:
    axis = int(np.argmax(shape))
    type_ = f"tensor<{'x'.join(map(str, shape))}x{dtype}>"
    kinds = {
        "maximum": np.maximum,
        "minimum": np.minimum,
        "sum": np.add,
        "prod": np.multiply,
    }
    rng = np.random.default_rng(0)
    for kind, function in kinds.items():
        text = f"""
func graph @f returns=[{type_}](%x: {type_}) {{
  %y: {type_} = graph.scan {kind} {axis} %x
  return %y
}}
"""
        for special in (0.0, np.nan, np.inf, -0.0):
            x = rng.integers(-2, 3, shape).astype(np.int32 if dtype == "i32" else np.float32)
            if dtype == "f32":
                x[rng.random(shape) < 0.1] = special
            with np.errstate(invalid="ignore"):
                expected = function.accumulate(x, axis)
            np.testing.assert_array_equal(computed(split(text), x), expected)


def test_a_running_sum_of_halves_is_rounded_once() -> None:
    text = """
func graph @f returns=[tensor<65536xf16>](%x: tensor<65536xf16>) {
  %y: tensor<65536xf16> = graph.scan sum 0 %x
  return %y
}
"""
    x = np.full(65536, 0.5, np.float16)
    x[0] = 31.0
    expected = x.astype(np.float64).cumsum().astype(np.float16)
    np.testing.assert_array_equal(computed(split(text), x), expected)


def test_a_sum_of_halves_is_rounded_once() -> None:
    text = """
func graph @f returns=[tensor<f16>](%x: tensor<65536xf16>) {
  %y: tensor<f16> = graph.reduce sum [0] %x
  return %y
}
"""
    x = np.full(65536, 0.5, np.float16)
    x[0] = 31.0
    assert computed(split(text), x) == np.float16(x.astype(np.float64).sum())


MANY = 1 << 24
X = np.zeros(MANY, np.float32)
ROWS = X.reshape(-1, 64)
LOGITS = np.zeros((2048, 32000), np.float32)


def cross_entropy(x: Any, labels: Any) -> Any:
    top = x.max(1, keepdims=True)
    sums = np.log(np.exp(x - top).sum(1)) + top[:, 0]
    return (sums - np.take_along_axis(x, labels[:, None], 1)[:, 0]).mean()


def log_sum_exp(x: Any) -> Any:
    top = x.max()
    return np.log(np.exp(x - top).sum()) + top


def softmax(x: Any) -> Any:
    grown = np.exp(x - x.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def histogram(x: Any) -> Any:
    bins: Any = np.zeros(256, np.int32, like=x)
    return bins.at[x].add(1)


class Row(NamedTuple):
    """A whole reduction, and the schedule that somebody would write by hand: how many kernels read
    or write all elements, and how often each element goes to or from memory in all of these."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    kernels: int = 1
    moved: int = 1
    # As often as this, from caches, too: by a product of an array with itself, or by rows that are
    # shorter than a line.
    loaded: int = 1
    mmas: int = 0


WHOLE = {
    "sum": Row(lambda x: x.sum(), (X,)),
    "sum of rows": Row(lambda x: x.sum(), (X.reshape(4096, 4096),)),
    "max": Row(lambda x: x.max(), (X,)),
    "argmax": Row(lambda x: x.argmax(), (X,)),
    "mean": Row(lambda x: x.mean(), (X,)),
    "var": Row(lambda x: x.var(), (X,)),
    "std of columns": Row(lambda x: x.std(0), (ROWS,)),
    "std of few columns": Row(lambda x: x.std(0), (np.zeros((1 << 20, 5), np.float32),), loaded=3),
    "norm": Row(lambda x: np.sqrt((x * x).sum()), (X,)),
    "dot": Row(lambda x: x @ x, (X,)),
    "mean of columns": Row(lambda x: x.mean(0), (ROWS[: 1 << 16],)),
    "product": Row(lambda x: x.T @ x, (ROWS,), loaded=2, mmas=8 * 8 * MANY // 64 // 8),
    "cumsum": Row(lambda x: np.cumsum(x), (X[: 1 << 20],), kernels=2, moved=3),
    "normalize": Row(lambda x: (x - x.mean()) / (x.std() + 1e-5), (X,), kernels=2, moved=3),
    "log-sum-exp": Row(log_sum_exp, (X,)),
    "softmax": Row(softmax, (X,), kernels=2, moved=3),
    "cross-entropy": Row(cross_entropy, (LOGITS, np.zeros(2048, np.int32))),
    "histogram": Row(histogram, (X.view(np.int32),)),
}


@pytest.mark.parametrize("row", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("name", ["apple-m1", "apple-m4", "apple-m4-max", "apple-m1-ultra"])
def test_whole_reductions_use_all_cores(
    row: Row, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take no longer than what is written by hand, and touch as few lines of memory."""
    monkeypatch.setenv("IRIS_TARGET", name)
    target, size = iris.targets.find(name), row.arguments[0].nbytes
    kernels = iris.jit(row.function).kernels(*row.arguments)
    long = [k for k in kernels if k.bytes >= size]
    assert len(long) == row.kernels
    for kernel in long:
        programs = np.prod(kernel.grid)
        assert programs == schedule_of(kernel.kernel.op).programs  # so none is idle
        assert programs >= 4 * target.cores
    milliseconds = lines = 0.0
    for kernel in kernels:
        (chip,) = [c for c in kernel.estimate.chips if c.chip is target]
        milliseconds += chip.milliseconds
        lines += np.prod(kernel.grid) * kernel.estimate.counts.device.lines
    cycles = row.mmas * target.core.mma_cycles / target.core.schedulers / target.cores
    least = max(row.moved * size / target.bandwidth, cycles / target.clock) / 1e6
    assert milliseconds <= 1.3 * least
    assert lines <= 1.3 * max(row.moved, row.loaded) * size / target.line_bytes


def in_parts(function: Callable[[Any], Any], shape: tuple[int, ...]) -> tuple[Module, Module]:
    """A function of arrays, as it is written and in the finest parts."""
    whole = run(iris.jit(function).lower(np.zeros(shape, np.float32)).traced, SIMPLIFIED)
    parts = run(whole, Pipeline((SPLIT,)))
    assert parts != whole
    return whole, parts


@cache
def variances(axes: Any, shape: tuple[int, ...]) -> tuple[GraphProgram, GraphProgram]:
    """Variances by parts, and in two loops over all elements."""
    whole, parts = in_parts(lambda x: x.var(axes), shape)
    loops = parse(str(run(whole, "fuse,schedule")).replace("online", "loop"))
    return GraphProgram.of(parts, DEFAULT), GraphProgram.of(loops, DEFAULT)


@cache
def softmax_in_parts(shape: tuple[int, ...]) -> GraphProgram:
    _, parts = in_parts(softmax, shape)
    return GraphProgram.of(parts, DEFAULT)


@pytest.mark.parametrize("mean", [0, 100, 10_000])
@pytest.mark.parametrize(
    ("axes", "shape"), [(0, (30_011,)), ((0, 1), (4, 5000)), (0, (4099, 7)), ((0, 2), (70, 3, 90))]
)
def test_a_variance_in_parts_is_as_exact_as_one_in_two_loops(
    axes: Any, shape: tuple[int, ...], mean: int
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) + mean).astype(np.float32)
    exact = x.astype(np.float64).var(axes)
    found = [computed(program, x) for program in variances(axes, shape)]
    one, two = [np.abs(np.asarray(v, np.float64) - exact) / exact / EPS for v in found]
    assert (one <= np.maximum(4 * two, 4)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e18])
@pytest.mark.parametrize("place", [0, 1, 999, -1])
def test_a_variance_in_parts_of_an_element_unlike_the_others(place: int, value: float) -> None:
    x = np.random.default_rng(0).standard_normal(9973).astype(np.float32)
    x[place] = value
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64).var()
    joined, _ = variances(None, x.shape)
    np.testing.assert_allclose(computed(joined, x), exact, rtol=8 * EPS)


FAR = {
    "one": {0: 3e38},
    "both signs": {0: -3e38, 7: 3e38},
    "sum overflows": {1: 3e38, 2: 3e38},
    "in two parts": {5: 3e38, -1: 3e38},
}


@pytest.mark.parametrize("far", FAR.values(), ids=FAR)
@pytest.mark.parametrize("beside", [0.0, np.nan, np.inf])
def test_a_variance_in_parts_that_overflows(far: dict[int, float], beside: float) -> None:
    """As in NumPy it is infinite, but beside an element that is no number."""
    x = np.zeros(9973, np.float32)
    x[5000] = beside
    for place, value in far.items():
        x[place] = value
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.var()
    joined, _ = variances(None, x.shape)
    np.testing.assert_equal(computed(joined, x), expected)


LOWEST = {"few": 0.1, "most": 0.9, "all": 1.0}


@pytest.mark.parametrize("share", LOWEST.values(), ids=LOWEST)
@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan])
@pytest.mark.parametrize("shape", [(997,), (3, 500)])
def test_a_softmax_in_parts(shape: tuple[int, ...], special: float, share: float) -> None:
    """Of parts, too, that are nothing but -inf."""
    rng = np.random.default_rng(0)
    x = (80 * rng.standard_normal(shape)).astype(np.float32)
    x[rng.random(shape) < share] = -np.inf
    x[..., :300] = -np.inf
    x.flat[400] = special
    with np.errstate(invalid="ignore"):
        expected = softmax(x.astype(np.float64))
    found = computed(softmax_in_parts(shape), x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-37)


def test_the_pass_needs_nothing_else_to_be_imported() -> None:
    text = """
    func graph @total returns=[tensor<f32>](%x: tensor<16777216xf32>) {
      %sum: tensor<f32> = graph.reduce sum [0] %x
      return %sum
    }
    """
    code = f"""
from iris.compiler import graph_program
from iris.ir import parse
from iris.passes import run
print(run(parse({text!r}), "split-reductions"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("graph.reduce") == 2
