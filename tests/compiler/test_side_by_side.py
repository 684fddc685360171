"""Kernels that need nothing of each other share a launch, whatever the shapes of their results."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.compilation import entry_of
from iris.errors import PipelineError, ProgramError, VerifyError
from iris.ir import graph, parse, verify
from iris.passes import run
from iris.runtime.device import Array
from on_metal import METAL

DEVICES = ["interp", "interp:metal", pytest.param(METAL, marks=pytest.mark.metal)]
SHAPES = [(64, 128), (128,), (128, 96), (96,), (96, 10), (10,), (7, 3, 5), ()]

Tree = dict[str, Any]


def tree(seed: int) -> Tree:
    """Parameters of different shapes, none negative."""
    rng = np.random.default_rng(seed)
    return {f"p{n}": rng.random(shape, np.float32) for n, shape in enumerate(SHAPES)}


def sgd(p: Tree, slopes: Tree) -> Tree:
    return {name: value - 0.01 * slopes[name] for name, value in p.items()}


def momentum(p: Tree, speed: Tree, slopes: Tree) -> tuple[Tree, ...]:
    speed = {name: 0.9 * value + slopes[name] for name, value in speed.items()}
    return {name: value - 0.01 * speed[name] for name, value in p.items()}, speed


def adam(p: Tree, mean: Tree, square: Tree, slopes: Tree) -> tuple[Tree, ...]:
    mean = {name: 0.9 * value + 0.1 * slopes[name] for name, value in mean.items()}
    square = {name: 0.99 * value + 0.01 * slopes[name] ** 2 for name, value in square.items()}
    step = {name: mean[name] / (np.sqrt(square[name]) + 1e-8) for name in p}
    return {name: value - 0.01 * step[name] for name, value in p.items()}, mean, square


def train(x: Array, wanted: Array, p: Tree) -> Tree:
    """A step of gradient descent for two layers."""
    hidden = np.maximum(x @ p["w1"] + p["b1"], 0)
    error = (hidden @ p["w2"] + p["b2"] - wanted) / len(x)
    back = np.where(hidden > 0, error @ p["w2"].T, 0)
    slopes = {
        "w1": x.T @ back,
        "b1": back.sum(0),
        "w2": hidden.T @ error,
        "b2": error.sum(0),
    }
    return {name: value - 0.1 * slopes[name] for name, value in p.items()}


def decode(x: Array, keys: Array, values: Array, p: Tree) -> tuple[Array, ...]:
    """Attention of one token to those before it, whose keys and values are kept."""
    heads, _, width = keys.shape
    keys, values = (
        np.concatenate([kept, (x @ p[w]).reshape(heads, 1, width)], 1)
        for kept, w in ((keys, "wk"), (values, "wv"))
    )
    scores = (x @ p["wq"]).reshape(heads, 1, width) @ keys.swapaxes(-1, -2) / math.sqrt(width)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ values
    return x + mixed.reshape(x.shape) @ p["wo"], keys, values


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


LAYERS = {"w1": numbers(40, 64), "b1": numbers(64), "w2": numbers(64, 10), "b2": numbers(10)}
#: How many launches each takes.  A launch binds 28 arrays.
STEPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "sgd": (sgd, (tree(0), tree(1)), 1),
    "momentum": (momentum, (tree(0), tree(1), tree(2)), 2),
    "adam": (adam, (tree(0), tree(1), tree(2), tree(3)), 2),
    "decode": (
        decode,
        (
            numbers(1, 256),
            numbers(4, 128, 64),
            numbers(4, 128, 64),
            {name: numbers(256, 256) / 16 for name in ("wq", "wk", "wv", "wo")},
        ),
        3,
    ),
    "train": (train, (numbers(96, 40), numbers(96, 10), LAYERS), 4),
}


def leaves(x: Any) -> list[Array]:
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in leaves(value)]
    return [leaf for value in x for leaf in leaves(value)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", STEPS)
def test_steps_are_right(name: str, device: str) -> None:
    function, arguments, _ = STEPS[name]
    found = leaves(iris.jit(function)(*arguments, device=device))
    for was, now in zip(found, leaves(function(*arguments)), strict=True):
        np.testing.assert_allclose(was, now, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_few_launches(name: str) -> None:
    function, arguments, launches = STEPS[name]
    lowered = iris.jit(function).lower(*arguments)
    assert len(lowered.kernels) == launches
    assert lowered.fused.count("graph.kernel @") > launches


def test_a_cache_is_read_once_by_what_extends_it_and_what_needs_it() -> None:
    function, arguments, _ = STEPS["decode"]
    x, keys, values, weights = arguments
    results = leaves(function(*arguments))
    least = sum(v.nbytes for v in (x, keys, values, *weights.values(), *results))
    assert sum(k.bytes for k in iris.jit(function).lower(*arguments).kernels) <= 1.02 * least


def longest(keys: Any, x: Any, w: Any) -> Any:
    longer = np.concatenate([keys, (x @ w)[:, None]], axis=1)
    return longer, longer.max(1)


@pytest.mark.parametrize(("count", "length", "size", "depth"), [(4, 8, 64, 256), (16, 8, 64, 1024)])
def test_kernels_do_not_wait_for_each_other(count: int, length: int, size: int, depth: int) -> None:
    rng = np.random.default_rng(0)
    shapes = (count, length, size), (count, depth), (depth, size)
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    lowered = iris.jit(longest).lower(*arrays, device="interp")
    for found, expected in zip(lowered.run(*arrays), longest(*arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


def chained(keys: Any, x: Any) -> Any:
    longer = np.concatenate([keys, x[:, None]], axis=1)
    greatest = longer.max(1)
    return longer, greatest, greatest.max(1) - greatest.min(1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_results_that_are_made_of_each_other_are_one_launch(
    order: tuple[int, ...], device: str
) -> None:
    def function(keys: Any, x: Any) -> Any:
        results = chained(keys, x)
        return tuple(results[n] for n in order)

    arrays = numbers(4, 8, 64), numbers(4, 64)
    lowered = iris.jit(function).lower(*arrays, device=device)
    assert len(lowered.kernels) == 1
    for found, expected in zip(lowered.run(*arrays), function(*arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


def of_halves(x: Any) -> Any:
    return np.exp(x[:1000]).max(0), x[1000:].sum(1)


def test_parts_of_an_array_are_read_by_each_kernel() -> None:
    x = np.zeros((2000, 500), np.float32)
    results = of_halves(x)
    moved = sum(kernel.bytes for kernel in iris.jit(of_halves).lower(x).kernels)
    assert moved == x.nbytes + sum(result.nbytes for result in results)


@pytest.mark.parametrize("name", STEPS)
def test_each_two_kernels_say_why_they_are_two(name: str) -> None:
    function, arguments, _ = STEPS[name]
    lowered = iris.jit(function).lower(*arguments)
    launches = [kernel.kernel for kernel in lowered.kernels]
    apart = [
        (one, other)
        for one, other in combinations(launches, 2)
        if {*one.outputs}.isdisjoint(other.inputs)
    ]
    beside = [pair for k in launches for pair in combinations(k.op.kernels, 2)]
    lines = [str(line) for line in lowered.why]
    assert sum(" are made by two kernels: " in line for line in lines) == len(apart)
    assert sum(" are made side by side in one kernel: " in line for line in lines) == len(beside)


def test_what_a_launch_has_no_room_for_says_so() -> None:
    (line,) = [x for x in iris.jit(adam).lower(*STEPS["adam"][1]).why if not x.side_by_side]
    assert str(line).endswith("made by two kernels: a kernel takes 28 arrays, not 56")


def test_a_launch_is_text() -> None:
    function, arguments, _ = STEPS["sgd"]
    lowered = iris.jit(function).lower(*arguments)
    assert str(parse(lowered.fused)) == lowered.fused
    assert str(run(parse(lowered.fused), "fuse,schedule")) == lowered.fused
    for kernel in lowered.kernels:
        for stage in kernel.stages:
            assert str(parse(stage.text)) == stage.text


def test_schedules_within_a_launch_are_edited() -> None:
    lowered = iris.jit(sgd).lower(*STEPS["sgd"][1])
    text = re.sub(r"i0i1: programs \d+ of 8192", "i0i1: programs 32 of 8192", lowered.fused)
    edited = lowered.edited(text)
    (before,), (after,) = lowered.kernels, edited.kernels
    assert after.grid[0] > before.grid[0]
    found, expected = edited.run(*STEPS["sgd"][1]), sgd(*STEPS["sgd"][1])
    for was, now in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(was, now)


LAUNCH = """
func graph @step returns=[tensor<64xf32>, tensor<5xf32>](%x: tensor<64xf32>, %y: tensor<5xf32>) {
  %a: tensor<64xf32>, %b: tensor<5xf32> = graph.launch @step {
    %c: tensor<64xf32> = graph.kernel @one schedule=[i0: programs 32 of 64] {
      %0: tensor<64xf32> = exp %x
      yield %0
    }
    %d: tensor<5xf32> = graph.kernel @other schedule=[i0: programs 8 of 5] {
      %1: tensor<5xf32> = exp %y
      yield %1
    }
    yield %c, %d
  }
  return %a, %b
}
"""
SLICE = "graph.slice [0] [1]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUNCH.replace("exp %y", f"{SLICE} %c"), "@other reads what @one writes"),
        (
            LAUNCH.replace("yield %c, %d", f"%e: tensor<5xf32> = {SLICE} %x\n    yield %c, %e"),
            "it has kernels only, not graph.slice",
        ),
        (LAUNCH.replace("yield %c, %d", "yield %c, %y"), "it yields all results of its kernels"),
    ],
)
def test_a_launch_that_cannot_be_is_an_error(text: str, message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(parse(text))


def test_a_schedule_that_cannot_be_names_its_kernel() -> None:
    with pytest.raises(PipelineError, match="@other cannot run by its schedule: i1: there is no"):
        run(parse(LAUNCH.replace("i0: programs 8", "i1: programs 8")), "graph-to-tile")


def test_a_schedule_that_cannot_be_shows_the_users_line() -> None:
    compilation = iris.jit(lambda x: x / x.sum(axis=1, keepdims=True)).lower(
        np.ones((64, 48), np.float32)
    )
    text = re.sub(r"i1: \w+ \d+ of 48", "i1: programs 4 of 48", compilation.fused)
    edited = compilation.edited(text)
    with pytest.raises(
        PipelineError, match=r"by its schedule: i1: it is reduced .*\n.*\n.*x / x\.sum"
    ):
        print(edited.msl)


def test_a_kernel_without_a_schedule_among_others_is_an_error() -> None:
    text = LAUNCH.replace(" schedule=[i0: programs 8 of 5]", "")
    with pytest.raises(PipelineError, match=r"such as @one, but <graph\.kernel"):
        run(parse(text), "fuse")
    assert "schedule=[i0: programs 8 of 5, simdgroups: 1]" in str(run(parse(text), "schedule"))


def test_launches_without_schedules_are_fused_anew() -> None:
    text = re.sub(r" schedule=\[.*\]", "", LAUNCH)
    fused = run(parse(text), "fuse")
    (launch,) = graph.launches_in(entry_of(fused).body)
    assert [kernel.schedule is None for kernel in launch.kernels] == [False, False]


def test_an_index_that_is_outside_is_reported_by_its_kernel() -> None:
    def function(x: Any, y: Any, i: Any) -> Any:
        return np.exp(x), y[i]

    arguments = numbers(100), numbers(8), np.array([1, 9], np.int32)
    assert len(iris.jit(function).lower(*arguments).kernels) == 1
    for device in ("interp", "interp:metal"):
        with pytest.raises(ProgramError, match=r"return np.exp\(x\), y\[i\]"):
            np.asarray(iris.jit(function)(*arguments, device=device)[1])


def test_a_kernel_that_writes_nothing_has_no_programs() -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        return np.exp(x), y + 1, z * 2

    arguments = numbers(100, 3), numbers(0, 4), numbers(7)
    lowered = iris.jit(function).lower(*arguments)
    assert len(lowered.kernels) == 1
    x, y, z = lowered.run(*arguments)
    np.testing.assert_allclose(x, np.exp(arguments[0]), rtol=1e-6)
    np.testing.assert_array_equal(z, arguments[2] * 2)
    assert y.shape == (0, 4)


def test_in_place_updates_share_a_launch() -> None:
    def function(x: Any, y: Any, i: Any) -> Any:
        return iris.asarray(x).at[i].add(1.0), iris.asarray(y).at[i].set(2.0)

    x, y, i = numbers(100), numbers(9), np.array([3, 5], np.int32)
    found = iris.jit(function)(x, y, i, device="interp:metal")
    more, other = x.copy(), y.copy()
    more[i] += 1
    other[i] = 2
    np.testing.assert_array_equal(found[0], more)
    np.testing.assert_array_equal(found[1], other)
    assert len(iris.jit(function).lower(x, y, i).kernels) == 2  # copies, then updates


def test_a_product_is_not_computed_twice() -> None:
    """More simdgroups than it has fragments would compute them again."""

    def function(a: Any, b: Any, x: Any) -> Any:
        return a @ b, np.exp(x)

    a, b, x = numbers(8, 8), numbers(8, 8), numbers(1 << 20)
    assert "simdgroups: 4]" in iris.jit(np.exp).lower(x).fused
    (kernel,) = iris.jit(function).lower(a, b, x).kernels
    assert {op.schedule.simdgroups for op in kernel.kernel.op.kernels} == {1}


@pytest.mark.parametrize("target", ["apple-m1", "apple-m4-max", "nvidia-h100"])
def test_a_product_is_made_as_it_is_alone(target: str) -> None:
    """That of a result which another kernel might compute again, and does not."""

    def alone(x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    def beside(x: Any, w: Any) -> Any:
        y = np.tanh(x @ w)
        return y, (y * y).sum(0)

    fuse = f"fuse{{target={target}}}"
    for n in (128, 1024):
        x, w = numbers(n, n), numbers(n, n)
        traced = [iris.jit(function).lower(x, w).traced for function in (alone, beside)]
        fused = [entry_of(run(module, fuse)).body for module in traced]
        (own,), (first, _) = map(graph.launches_in, fused)
        assert [k.schedule for k in first.kernels] == [k.schedule for k in own.kernels]


def test_a_sum_that_is_returned_is_one_number() -> None:
    """A kernel that needs it does not add again, in another order."""

    def function(x: Any) -> Any:
        total = x.sum(1)
        return total, np.stack([total, 2 * total])

    total, both = iris.jit(function)(numbers(300, 1000), device="interp")
    np.testing.assert_array_equal(both, [total, 2 * total])


def test_what_costs_more_together_stays_apart() -> None:
    """Where a launch costs nothing."""
    module = iris.jit(sgd).lower(*STEPS["sgd"][1]).traced
    free = run(module, "fuse{target=slow-cores}")
    assert len(graph.launches_in(entry_of(free).body)) == len(SHAPES)


def test_work_grows_with_the_kernels() -> None:
    def calls(count: int) -> int:
        """How many functions of Python are called: unlike time, the same in each run."""
        arrays = [np.ones(n + 1, np.float32) for n in range(count)]
        function = iris.jit(lambda *x: tuple([a * 2 for a in x]))
        counted = itertools.count()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _: next(counted) if event == "call" else None)
        try:
            function.lower(*arrays)
        finally:
            sys.setprofile(before)
        return next(counted)

    calls(8)
    assert calls(200) < 2.3 * calls(100)
