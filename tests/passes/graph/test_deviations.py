"""A sum of squared deviations is made in one loop with the mean that they are from."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iris
from iris.compiler.array_compilation import ArrayCompilation
from iris.errors import PipelineError
from iris.ir import parse
from iris.passes import run
from iris.testing import fuses
from iris.tools.replay import Program

Array = npt.NDArray[Any]
DEVICES = ("interp", "interp:metal")
EPS = 2.0**-23  # of f32


def variance(x: Any) -> Any:
    return x.var(-1)


def of_columns(x: Any) -> Any:
    return x.var(0)


def of_channels(x: Any) -> Any:
    return x.var((0, 2, 3))


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@cache
def compilations(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> tuple[ArrayCompilation, ArrayCompilation]:
    """A variance that is made in one loop, and one that is made in two."""
    online = iris.jit(function).lower(np.zeros(shape, np.float32))
    assert "online" in online.fused
    return online, online.edited(online.fused.replace("online", "loop"))


def errors(function: Callable[..., Any], x: Array) -> list[Array]:
    """How far both are off, in units of the last place."""
    exact = function(x.astype(np.float64))
    made = [np.asarray(c.run(x)).astype(np.float64) for c in compilations(function, x.shape)]
    return [np.abs(found - exact) / exact / EPS for found in made]


SHAPES = [
    (variance, (8, 5000)),
    (variance, (8, 9000)),
    (variance, (64, 8192)),
    (of_columns, (2000, 512)),
    (of_channels, (9, 6, 33, 35)),
    (of_channels, (3, 8, 70, 90)),
]


@pytest.mark.parametrize("mean", [0, 100, 10_000])
@pytest.mark.parametrize(("function", "shape"), SHAPES)
def test_errors_are_those_of_two_loops(
    function: Callable[..., Any], shape: tuple[int, ...], mean: int
) -> None:
    one, two = errors(function, numbers(*shape) + np.float32(mean))
    assert (one <= np.maximum(4 * two, 4)).all()


def rows(mean: float, kind: str, seed: int) -> Array:
    """Eight rows of some deviations from a mean."""
    rng = np.random.default_rng(seed)
    x = {
        "normal": lambda: rng.standard_normal((8, 5000)),
        "uniform": lambda: rng.uniform(-1, 1, (8, 5000)),
        "sorted": lambda: np.sort(rng.standard_normal((8, 5000))),
        "two values": lambda: rng.integers(0, 2, (8, 5000)),
        "steps": lambda: np.repeat(rng.standard_normal((8, 50)), 100, axis=1),
        "tails": lambda: rng.standard_t(3, (8, 5000)),
    }[kind]()
    return (x + mean * x.std()).astype(np.float32)


@given(
    st.sampled_from([0, 1, 100, -10_000, 10_000]),
    st.sampled_from(["normal", "uniform", "sorted", "two values", "steps", "tails"]),
    st.integers(-60, 60),
    st.integers(0, 1000),
)
def test_errors_whatever_the_rows_are(mean: float, kind: str, exponent: int, seed: int) -> None:
    one, two = errors(variance, rows(mean, kind, seed) * np.float32(2.0**exponent))
    assert (one <= np.maximum(4 * two, 4)).all()


@pytest.mark.parametrize("place", [0, 1, 1024, 4999])
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e8, 1e18])
def test_one_element_far_from_the_others(place: int, outlier: float) -> None:
    """The first one, too, which is subtracted from all."""
    x = numbers(8, 5000)
    x[:, place] = outlier
    one, _ = errors(variance, x)
    assert one.max() <= 8


@pytest.mark.parametrize("device", DEVICES)
def test_special_rows(device: str) -> None:
    """Infinities and nan at the start, in between and at the end; and what is too great."""
    x = numbers(16, 5000)
    for row, (place, value) in enumerate(
        [(p, v) for p in (0, 10, 4999) for v in (np.inf, -np.inf, np.nan)]
    ):
        x[row, place] = value
    x[9, 0], x[9, 1] = np.inf, -np.inf
    x[10, 0] = 3e38
    x[11, 100] = -3e38
    x[12] *= 1e20
    x[13] = 3.3
    x[14] *= 1e-30
    x[15, 0] = 1e38
    found = np.asarray(iris.jit(variance)(x, device=device))
    with np.errstate(all="ignore"):
        expected = x.astype(np.float64).var(-1).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-44)


def test_a_great_row_of_both_signs_is_infinite_and_not_nan() -> None:
    """Two of its elements are farther apart than the greatest number is from 0."""
    x = 3e38 * np.sign(numbers(8, 5000))
    assert np.isposinf(np.asarray(iris.jit(variance)(x.astype(np.float32)))).all()


def layer_norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def batch_norm(x: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)


def both(x: Any) -> Any:
    return x.mean(-1), x.std(-1)


def of_a_function(x: Any) -> Any:
    return np.tanh(x[:, ::-1] * 3 + x[:, :1]).var(-1)


def of_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).var(-1), e.var(-1)


def of_a_pad(x: Any) -> Any:
    return np.pad(x, ((0, 0), (3, 5))).var(-1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (layer_norm, (8, 33000)),
        (batch_norm, (4, 2, 90, 100)),
        (both, (9, 4097)),
        (of_a_function, (8, 5000)),
        (of_a_pad, (8, 5000)),
        (of_softmax, (8, 33000)),
    ],
)
def test_uses(function: Callable[..., Any], shape: tuple[int, ...], device: str) -> None:
    x = numbers(*shape) + np.float32(3)
    compiled = iris.jit(function)
    assert "online" in compiled.lower(x).fused
    found, expected = compiled(x, device=device), function(x.astype(np.float64))
    for one, other in zip(
        *[r if isinstance(r, tuple) else (r,) for r in (found, expected)], strict=True
    ):
        np.testing.assert_allclose(np.asarray(one), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("length", [100, 1024, 4096])
def test_a_row_that_a_program_holds_keeps_its_two_passes(length: int) -> None:
    assert "online" not in iris.jit(variance).lower(numbers(64, length)).fused


def test_halves() -> None:
    x = (numbers(8, 5000) + 100).astype(np.float16)
    assert "online" in iris.jit(variance).lower(x).fused
    found = np.asarray(iris.jit(variance)(x)).astype(np.float64)
    np.testing.assert_allclose(found, x.astype(np.float64).var(-1), rtol=2.0**-11)


CHAIN = """
# argument %x: f32[60, 500] seed=1 range=[-9, 9]

func graph @chain returns=[tensor<60xf32>](%x: tensor<60x500xf32>) {
  %y: tensor<60xf32> = graph.kernel @chain schedule=[i0: programs 4 of 60, r0: PLACE of 500] {
    %sum: tensor<60xf32> = graph.reduce KIND [1] %x
    %count: tensor<60xf32> = constant COUNT
    %mean: tensor<60xf32> = OP %sum, %count
    %column: tensor<60x1xf32> = graph.reshape %mean
    %means: tensor<60x500xf32> = graph.broadcast %column
    %deviation: tensor<60x500xf32> = sub %x, %means
    %square: tensor<60x500xf32> = mul %deviation, %deviation
    %y_1: tensor<60xf32> = graph.reduce sum [1] %square
    yield %y_1
  }
  return %y
}
"""


def chain(place: str, kind: str = "sum", op: str = "div", count: str = "500.0") -> Program:
    text = CHAIN.replace("PLACE", place).replace("KIND", kind)
    return Program.parse(text.replace("COUNT", count).replace("OP", op))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lanes", [1, 32, 256, 512])
@pytest.mark.parametrize("place", ["loop", "online"])
def test_both_ways_return_the_same(place: str, lanes: int, device: str) -> None:
    fuses(chain(f"{place} {lanes}"), device)
    fuses(chain(f"{place} {lanes}", op="mul", count="0.002"), device)


@pytest.mark.parametrize(
    ("kind", "op", "count"),
    [("sum", "div", "499.0"), ("sum", "mul", "500.0"), ("maximum", "div", "500.0")],
)
def test_without_a_law_an_axis_is_not_online(kind: str, op: str, count: str) -> None:
    fuses(chain("loop 32", kind, op, count))
    with pytest.raises(PipelineError, match="r0: no sum depends on a maximum or a mean along it"):
        run(chain("online 32", kind, op, count).module, "graph-to-tile")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x - x[:, ::-1].mean(-1, keepdims=True)) * (x - x.mean(-1, keepdims=True))).sum(
            -1
        ),
        lambda x: ((x - (x * x).mean(-1, keepdims=True)) ** 2).sum(-1),
        lambda x: ((np.cumsum(x, -1) - np.cumsum(x, -1).mean(-1, keepdims=True)) ** 2).sum(-1),
    ],
    ids=["two means", "the mean of others", "a scan, whose first element is no other"],
)
def test_sums_that_no_law_holds_for(function: Callable[..., Any]) -> None:
    x = numbers(8, 5000)
    assert "online" not in iris.jit(function).lower(x).fused
    found = np.asarray(iris.jit(function)(x))
    np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=1e-3)


@pytest.mark.parametrize("tile_bytes", [256, 1024, 4096, 16384])
@pytest.mark.parametrize("shape", [(4, 8, 30, 41), (3, 2, 7, 5), (5, 1, 129, 3)])
def test_any_lane_may_have_fewer_elements(shape: tuple[int, ...], tile_bytes: int) -> None:
    """The end of the inner of two loops comes before the end of the outer one."""
    x = numbers(*shape) + np.float32(3)
    compilation = iris.jit(batch_norm).lower(x)
    bare = re.sub(r" schedule=\[.*?\]", "", compilation.fused)
    scheduled = str(run(parse(bare), f"schedule{{max-tile-bytes={tile_bytes}}}"))
    found = compilation.edited(scheduled).run(x, device="interp")
    np.testing.assert_allclose(found, batch_norm(x.astype(np.float64)), rtol=2e-5, atol=2e-5)


def test_the_axis_with_an_end_is_outside_so_all_lanes_count_alike() -> None:
    """Then one number is divided by in an iteration, not one for each lane."""
    x = numbers(6, 4, 50, 50)
    compilation = iris.jit(of_channels).lower(x)
    bare = re.sub(r" schedule=\[.*?\]", "", compilation.fused)
    made = compilation.edited(str(run(parse(bare), "schedule{max-tile-bytes=2048}")))
    (kernel,) = made.kernels
    assert len(re.findall(r"= for ", kernel.tile)) == 2
    assert {*re.findall(r": (\S+) = div ", kernel.tile)} == {"f32"}
    for device in DEVICES:
        found = made.run(x, device=device)
        np.testing.assert_allclose(found, of_channels(x.astype(np.float64)), rtol=1e-5)


def test_lanes_of_several_axes_are_reduced_at_once() -> None:
    """Each simdgroup reduces its lanes first, and writes one number to threadgroup memory."""
    x = numbers(6, 4, 50, 50)
    (kernel,) = iris.jit(of_channels).lower(x).kernels
    reductions = re.findall(r"tile\.reduce sum (\d)", kernel.tile)
    assert reductions == ["0"] * len(reductions)
    assert kernel.estimate.threadgroup_bytes <= 4 * kernel.estimate.simdgroups * len(reductions)


def joined_by_its_variance(x: Any) -> Any:
    y = np.concatenate([x, x[1:4]])
    quotient = y.var() / y
    return y, quotient, quotient[:1]


def test_an_element_that_is_read_alone_comes_after_what_it_is_made_of() -> None:
    """The first element, from which deviations are counted, is that of a result, too."""
    x = np.array([-2.0, 4.0, 1.0, -3.0, 2.0], np.float32)
    for found, wanted in zip(
        iris.jit(joined_by_its_variance)(x),
        joined_by_its_variance(x.astype(np.float64)),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
