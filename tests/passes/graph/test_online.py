"""A sum that depends on a maximum along the same axis is made in one loop with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import iris
from iris.errors import PipelineError
from iris.interp import metal
from iris.interp.metal import Counters
from iris.passes import run
from iris.runtime.device import ArrayArgument
from iris.runtime.interpreters import MetalInterpreter
from iris.testing import fuses
from iris.tools.replay import Program

Array = npt.NDArray[Any]
DEVICES = ("interp", "interp:metal")


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    rows, columns = np.arange(q.shape[-2]), np.arange(k.shape[-2])
    return softmax(np.where(rows[:, None] >= columns[None, :], scores, -np.inf)) @ v


def window(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    distance = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])[None, :]
    return softmax(np.where((distance >= 0) & (distance < 40), scores, -np.inf)) @ v


def linear_bias(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))
    distance = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])[None, :]
    return softmax(scores - np.abs(distance) * np.float32(0.125)) @ v


def grouped(q: Any, k: Any, v: Any) -> Any:
    heads, length, width = k.shape
    return attention(q.reshape(heads, -1, length, width), k[:, None], v[:, None])


def log_sum_exp(x: Any) -> Any:
    m = x.max(-1, keepdims=True)
    return np.log(np.exp(x - m).sum(-1)) + m[..., 0]


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def check(
    function: Callable[..., Any], *arguments: Array, device: str, tolerance: float = 1e-5
) -> str:
    """The kernels of a function, which returns what NumPy does of float64."""
    compiled = iris.jit(function)
    found = np.asarray(compiled(*arguments, device=device))
    with np.errstate(all="ignore"):
        expected = function(*[a.astype(np.float64) for a in arguments])
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return compiled.lower(*arguments).fused


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", [attention, causal, window, linear_bias])
@pytest.mark.parametrize("shape", [(2, 128, 64), (1, 100, 40), (3, 70, 128), (2, 33, 16)])
def test_attention_is_one_kernel(
    function: Callable[..., Any], shape: tuple[int, ...], device: str
) -> None:
    text = check(function, *[numbers(*shape) for _ in range(3)], device=device)
    assert text.count("graph.kernel") == 1
    assert "online" in text


def counted(function: Callable[..., Any], *arguments: Array) -> Counters:
    """What the kernels of a function do."""

    class Counting(MetalInterpreter):
        counters = Counters()

        def launch(
            self, program: Any, grid: Any, arguments: Sequence[Any], stream: Any = None
        ) -> None:
            views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
            metal.run(program.entry, grid, views, counters=self.counters)

    device = Counting()
    iris.jit(function)(*arguments, device=device)
    return device.counters


def test_masks_leave_out_products() -> None:
    """As many as a kernel computes that is written for causal attention, by blocks of 32."""
    q = numbers(8, 128, 64)
    all_pairs, causal_pairs = counted(attention, q, q, q), counted(causal, q, q, q)
    assert (all_pairs.mmas, causal_pairs.mmas) == (32768, 20480)
    assert causal_pairs.transcendentals["exp"] / q.size < 1.41
    assert counted(window, q, q, q).mmas < 20480


def hidden(x: Any, first: int) -> Any:
    """Where the elements before and after some are -inf."""
    places = np.arange(x.shape[-1])
    return np.where((places >= first) & (places < first + 5000), x, -np.inf)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", [-5000, 0, 100, 4096, 8999, 9000])
def test_what_is_hidden_of_rows(first: int, device: str) -> None:
    """All of it, or the first or last blocks, which may have an infinity or nan."""
    x = numbers(6, 9000)
    x[0, 10] = x[1, 8990] = np.nan
    x[2, 10] = x[3, 8990] = np.inf
    x[4, 4100] = np.inf
    x[5, 4100:] = -np.inf
    check(lambda x: log_sum_exp(hidden(x, first)), x, device=device)
    check(lambda x: softmax(hidden(x, first)), x, device=device)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_few_rows_and_halves(rows: int, dtype: Any) -> None:
    """As of a step of decoding, which has one row."""
    q, k, v = numbers(2, rows, 64, dtype=dtype), *[numbers(2, 200, 64, dtype=dtype)] * 2
    tolerance = 1e-5 if dtype is np.float32 else 4e-3
    text = check(attention, q, k, v, device="interp:metal", tolerance=tolerance)
    assert text.count("graph.kernel") == 1


@pytest.mark.parametrize("device", DEVICES)
def test_heads_in_groups(device: str) -> None:
    q, k, v = numbers(6, 64, 32), numbers(2, 64, 32), numbers(2, 64, 32)
    text = check(grouped, q, k, v, device=device)
    assert text.count("graph.kernel") == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(4, 100), (3, 5000), (70, 20000), (2, 3, 4097)])
def test_log_sum_exp_reads_its_input_once(shape: tuple[int, ...], device: str) -> None:
    text = check(log_sum_exp, 9 * numbers(*shape), device=device)
    assert ("online" in text) == (shape[-1] > 4096)


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def rms_norm(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True))


@pytest.mark.parametrize(
    ("function", "length", "times"),
    [
        (log_sum_exp, 1000, 1),
        (log_sum_exp, 9000, 1),
        (lambda x: cross_entropy(x, np.arange(64, dtype=np.int32)), 1000, 1),
        (lambda x: cross_entropy(x, np.arange(64, dtype=np.int32)), 9000, 1),
        (lambda x: x.var(-1), 1000, 1),
        (lambda x: x.var(-1), 9000, 1),
        (lambda x: x.std(0), 9000, 1),
        *[(f, n, 1) for f in (softmax, layer_norm, rms_norm) for n in (1000, 9000)],
        *[(f, 33000, 2) for f in (softmax, layer_norm, rms_norm)],
    ],
)
def test_how_often_rows_are_read(function: Callable[..., Any], length: int, times: int) -> None:
    """Once if one fits in a program, or if its elements are not needed again; and at times a few
    of them, by all threads of a program."""
    x = numbers(64, length)
    assert times <= counted(function, x).device_loads.bytes / x.nbytes < times + 0.2


@pytest.mark.parametrize("device", DEVICES)
def test_special_rows(device: str) -> None:
    """Of rows whose blocks are -inf, +inf or nan in part or all."""
    x = numbers(8, 9000)
    x[0, :8000] = x[1, 5000:] = x[2] = -np.inf
    x[3, 100], x[4, 7000] = np.inf, np.nan
    x[5, 3], x[5, 8000] = np.inf, -np.inf
    x[6] = -3e38
    x[7] *= 1e4
    check(log_sum_exp, x, device=device)
    check(softmax, x, device=device)


CHAIN = """
# argument %x: f32[60, 500] seed=1 range=[-9, 9]
# argument %v: f32[60, 500] seed=2 range=[-9, 9]

func graph @chain returns=[tensor<60xf32>](%x: tensor<60x500xf32>, %v: tensor<60x500xf32>) {
  %y: tensor<60xf32> = graph.kernel @chain schedule=[i0: programs 4 of 60, r0: PLACE 32 of 500] {
    %max: tensor<60xf32> = graph.reduce KIND [1] %x
    %column: tensor<60x1xf32> = graph.reshape %max
    %maxima: tensor<60x500xf32> = graph.broadcast %column
    %difference: tensor<60x500xf32> = sub %x, %maxima
    %e: tensor<60x500xf32> = FUNCTION %difference
    %weighted: tensor<60x500xf32> = mul %e, %v
    %y_1: tensor<60xf32> = graph.reduce sum [1] %weighted
    yield %y_1
  }
  return %y
}
"""


def chain(place: str, kind: str, function: str) -> str:
    text = CHAIN.replace("PLACE", place).replace("KIND", kind)
    return text.replace("FUNCTION", function)


@pytest.mark.parametrize("place", ["loop", "online"])
@pytest.mark.parametrize("function", ["exp", "exp2"])
def test_both_ways_return_the_same(place: str, function: str) -> None:
    fuses(Program.parse(chain(place, "maximum", function)))
    fuses(Program.parse(chain(place, "maximum", function)), "interp:metal")


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("minimum", "exp"),
        ("maxnum", "exp"),
        ("sum", "exp"),
        ("maximum", "tanh"),
        ("maximum", "neg"),
    ],
)
def test_without_a_law_an_axis_is_not_online(kind: str, function: str) -> None:
    fuses(Program.parse(chain("loop", kind, function)))
    with pytest.raises(PipelineError, match="r0: no sum depends on a maximum or a mean along it"):
        run(Program.parse(chain("online", kind, function)).module, "graph-to-tile")


@pytest.mark.parametrize(
    "function",
    [
        lambda e, m: e.astype(np.int32).sum(-1),
        lambda e, m: (e * np.exp(m)).sum(-1),
        lambda e, m: (e / np.maximum(e.sum(-1, keepdims=True) - 2, 0)).sum(-1),
    ],
    ids=["whole numbers", "a factor that may be infinite", "a divisor that may be 0"],
)
def test_sums_that_no_law_holds_for(function: Callable[..., Any]) -> None:
    def of_rows(x: Any) -> Any:
        m = x.max(-1, keepdims=True)
        return function(np.exp(x - m), m)

    x = 20 * numbers(3, 9000)
    x[1] = -np.inf
    x[1, 0] = 0
    with np.errstate(all="ignore"):
        expected = of_rows(x)
    found = np.asarray(iris.jit(of_rows)(x, device="interp:metal"))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_columns_in_blocks_are_an_error() -> None:
    q = numbers(1, 64, 64)
    compilation = iris.jit(attention).lower(q, q, q)
    text = compilation.fused.replace("i2: programs 64 of 64", "i2: programs 32 of 64")
    with pytest.raises(PipelineError, match="i2: a matrix product would be recomputed"):
        compilation.edited(text).kernels[0].stages  # noqa: B018 -- made when it is asked for


def cross_entropy(x: Any, targets: Any) -> Any:
    chosen = np.take_along_axis(x, targets[:, None], -1)[:, 0]
    return (log_sum_exp(x) - chosen).mean()


def test_the_mean_of_row_losses_leaves_the_rows_to_all_cores() -> None:
    """What is looked up in a tensor costs what it reads, not all of that tensor."""
    x, targets = 4 * numbers(64, 8000), np.arange(64, dtype=np.int32)
    compilation = iris.jit(cross_entropy).lower(x, targets)
    assert max(kernel.grid[0] for kernel in compilation.kernels) >= 64
    found = float(np.asarray(compilation.run(x, targets)))
    assert abs(found - cross_entropy(x.astype(np.float64), targets)) < 1e-4
