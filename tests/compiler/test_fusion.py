"""How many kernels programs become, however they are written, and what those move."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import iris
from iris import nn
from iris.compiler import graph_kernels
from iris.compiler.jit import Jit
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.errors import PipelineError
from iris.ir import metal, parse
from iris.ir.control import For
from iris.passes import run
from iris.runtime.device import Array

ROWS, COLUMNS = 64, 512


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def chain(length: int) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        for n in range(length):
            x = np.tanh(x * 0.5 + n)
        return x

    return function


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_otherwise(x: Array) -> Array:
    """With the sum in two parts, and a pair of transposes that changes nothing."""
    e = np.exp(-x.max(-1, keepdims=True) + x).T.T
    half = x.shape[-1] // 2
    return e * (1 / (e[:, :half].sum(-1, keepdims=True) + e[:, half:].sum(-1, keepdims=True)))


def layer_norm(x: Array, gain: Array, shift: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def layer_norm_otherwise(x: Array, gain: Array, shift: Array) -> Array:
    count = x.shape[-1]
    centred = x - np.add.reduce(x, axis=-1, keepdims=True) / count
    scale = 1 / np.sqrt(np.sum(centred * centred, axis=-1, keepdims=True) * (1 / count) + 1e-5)
    return shift + gain * (scale * centred)


def rms_norm(x: Array, added: Array, gain: Array) -> tuple[Array, Array]:
    """With what is left of the sum, which is returned too."""
    total = x + added
    return total, total / np.sqrt((total * total).mean(-1, keepdims=True) + 1e-6) * gain


def normalised(axes: tuple[int, ...]) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        centred = x - x.mean(axes, keepdims=True)
        return centred / np.sqrt(x.var(axes, keepdims=True) + 1e-5)

    return function


def group_norm(x: Array) -> Array:
    images, channels, *size = x.shape
    groups = x.reshape(images, 4, channels // 4, *size)
    return normalised((2, 3, 4))(groups).reshape(x.shape)


def mlp(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    h = x @ w1 + b1
    return (0.5 * h * (1 + np.tanh(0.79788456 * (h + 0.044715 * h**3)))) @ w2 + b2


def mlp_otherwise(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    h = b1 + np.matmul(x, w1.T.T)
    return b2 + np.einsum(
        "ij,jk->ik", 0.5 * h * (1 + np.tanh(0.79788456 * (h + 0.044715 * h**3))), w2
    )


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    return softmax(scores) @ v


def attention_otherwise(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("hid,hjd->hij", q / math.sqrt(q.shape[-1]), k)
    return np.einsum("hij,hjd->hid", nn.softmax(scores), v)


def block(x: Array, p: dict[str, Array]) -> Array:
    batch, length, width = x.shape

    def heads(t: Array) -> Array:
        return t.reshape(batch, length, 4, width // 4).transpose(0, 2, 1, 3)

    h = layer_norm(x, p["gain1"], p["shift1"])
    mixed = attention(heads(h @ p["wq"]), heads(h @ p["wk"]), heads(h @ p["wv"]))
    x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["wo"]
    h = nn.layer_norm(x, p["gain2"], p["shift2"])
    return x + mlp(h, p["w1"], p["b1"], p["w2"], p["b2"])


def turned(x: Array, cos: Array, sin: Array) -> Array:
    """Each pair of neighbours turned by an angle."""
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def llama_block(x: Array, cos: Array, sin: Array, p: dict[str, Array]) -> Array:
    """Eight heads, of which two share their keys and values; a gate in the hidden layer."""
    batch, length, width = x.shape

    def heads(t: Array) -> Array:
        return t.reshape(batch, length, -1, width // 8).transpose(0, 2, 1, 3)

    h = nn.rms_norm(x, p["gain1"])
    q, k = (turned(heads(h @ p[w]), cos, sin) for w in ("wq", "wk"))
    q = q.reshape(batch, 4, 2, length, width // 8)
    scores = q @ k[:, :, None].swapaxes(-1, -2) / math.sqrt(width // 8)
    hidden = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    mixed = nn.softmax(hidden) @ heads(h @ p["wv"])[:, :, None]
    mixed = mixed.reshape(batch, 8, length, width // 8).transpose(0, 2, 1, 3)
    x = x + mixed.reshape(x.shape) @ p["wo"]
    h = nn.rms_norm(x, p["gain2"])
    return x + (nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"]


def residual(depth: int) -> Callable[[Array, Array], Array]:
    """Layers that add to what they normalise."""

    def function(x: Array, w: Array) -> Array:
        for _ in range(depth):
            x = x + np.tanh(nn.layer_norm(x, w[0], w[1]) @ w)
        return x

    return function


def parameters(width: int) -> dict[str, Array]:
    shapes = {
        **dict.fromkeys(("gain1", "shift1", "gain2", "shift2", "b2"), (width,)),
        **dict.fromkeys(("wq", "wk", "wv", "wo"), (width, width)),
        "w1": (width, 4 * width),
        "b1": (4 * width,),
        "w2": (4 * width, width),
    }
    return {n: 0.1 * numbers(*s, seed=i) for i, (n, s) in enumerate(shapes.items())}


def llama_parameters(width: int) -> dict[str, Array]:
    shapes = {
        **dict.fromkeys(("gain1", "gain2"), (width,)),
        **dict.fromkeys(("wq", "wo"), (width, width)),
        **dict.fromkeys(("wk", "wv"), (width, width // 2)),
        **dict.fromkeys(("w1", "w3"), (width, 640)),
        "w2": (640, width),
    }
    return {n: 0.1 * numbers(*s, seed=i) for i, (n, s) in enumerate(shapes.items())}


X = numbers(ROWS, COLUMNS)
ROW = numbers(COLUMNS)
IMAGES = numbers(2, 16, 24, 32)
LAYERS = (numbers(96, 256), numbers(256, 512), numbers(512), numbers(512, 128), numbers(128))
HEADS = tuple(numbers(8, 128, 64, seed=n) for n in range(3))
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    **{f"chain of {n}": (chain(n), (X,), 1) for n in (1, 7, 300)},
    "softmax": (softmax, (X,), 1),
    "softmax otherwise": (softmax_otherwise, (X,), 1),
    "nn.softmax": (nn.softmax, (X,), 1),
    "layer_norm": (layer_norm, (X, ROW, ROW + 1), 1),
    "layer_norm otherwise": (layer_norm_otherwise, (X, ROW, ROW + 1), 1),
    "nn.layer_norm": (nn.layer_norm, (X, ROW, ROW + 1), 1),
    "rms_norm and residual": (rms_norm, (X, X + 1, ROW), 1),
    "instance norm": (normalised((2, 3)), (IMAGES,), 1),
    "batch norm": (normalised((0, 2, 3)), (IMAGES,), 1),
    "group norm": (group_norm, (IMAGES,), 1),
    "mlp": (mlp, LAYERS, 2),
    "mlp otherwise": (mlp_otherwise, LAYERS, 2),
    "residual layers": (residual(4), (numbers(128, 256), numbers(256, 256) / 16), 4),
    "narrow residual layers": (residual(4), (numbers(32, 64), numbers(64, 64) / 8), 4),
    "attention": (attention, HEADS, 1),
    "attention otherwise": (attention_otherwise, HEADS, 1),
    "llama block": (
        llama_block,
        (
            numbers(2, 128, 256),
            *[numbers(128, 16, seed=n) for n in range(2)],
            llama_parameters(256),
        ),
        7,
    ),
    "block": (block, (numbers(2, 128, 256), parameters(256)), 6),
}
# Each is traced and fused once for all tests.
COMPILED: dict[str, Jit] = {name: iris.jit(function) for name, (function, *_) in CASES.items()}


def tensors_written(function: Jit, arguments: tuple[Any, ...]) -> list[tuple[int, ...]]:
    return [v.type.shape for k in function.lower(*arguments).kernels for v in k.kernel.outputs]


@pytest.mark.parametrize("name", CASES)
def test_there_are_few_kernels(name: str) -> None:
    _, arguments, most = CASES[name]
    lowered = COMPILED[name].lower(*arguments)
    assert len(lowered.kernels) <= most, "\n".join(map(str, lowered.why))


@pytest.mark.parametrize("name", CASES)
def test_they_are_right(name: str) -> None:
    function, arguments, _ = CASES[name]
    found = COMPILED[name](*arguments)
    wide = [_wide(a) for a in arguments]
    expected = function(*wide)
    pairs = zip(_leaves(found), _leaves(expected), strict=True)
    for was, now in pairs:
        np.testing.assert_allclose(was, now, rtol=2e-4, atol=2e-4)


def _wide(x: Any) -> Any:
    if isinstance(x, dict):
        return {n: v.astype(np.float64) for n, v in x.items()}
    return x.astype(np.float64)


def _leaves(x: Any) -> list[Array]:
    return list(x) if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[2] == 1])
def test_rows_move_what_they_must(name: str) -> None:
    """What is read, once, and what is written."""
    function, arguments, _ = CASES[name]
    kernels = COMPILED[name].kernels(*arguments)
    results = _leaves(function(*arguments))
    least = sum(a.nbytes for a in (*arguments, *results))
    assert sum(k.bytes for k in kernels) <= 1.25 * least


def several(x: Array) -> tuple[Array, ...]:
    y = chain(40)(x)
    return y + 1, y * 2, y * y


def product_and_functions(x: Array, w: Array) -> tuple[Array, ...]:
    y = x @ w
    return y + 1, np.sin(y)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (several, (numbers(512, 256),)),
        (product_and_functions, (numbers(128, 64) / 8, numbers(64, 128) / 8)),
    ],
)
def test_what_only_one_kernel_needs_is_not_stored(
    function: Callable[..., Any], arguments: tuple[Array, ...]
) -> None:
    found = iris.jit(function)(*arguments)
    for was, now in zip(found, function(*map(_wide, arguments)), strict=True):
        np.testing.assert_allclose(was, now, rtol=2e-4, atol=2e-4)
    (kernel,) = iris.jit(function).kernels(*arguments)
    assert kernel.bytes == sum(x.nbytes for x in (*arguments, *found))


def test_a_product_is_stored_in_halves_if_its_readers_need_only_these() -> None:
    def function(x: Any, y: Any) -> Any:
        halves = (x @ y).astype(np.float16)
        return halves.T + np.float16(1), halves * np.float16(2)

    x, y = numbers(256, 256) / 16, numbers(256, 256) / 16
    found = iris.jit(function)(x, y)
    for was, now in zip(found, function(x, y), strict=True):
        np.testing.assert_allclose(was, now, rtol=2e-3, atol=2e-3)
    moved = sum([kernel.bytes for kernel in iris.jit(function).kernels(x, y)])
    half = found[0].nbytes
    assert moved == x.nbytes + y.nbytes + (1 + 1 + 2) * half  # stored, loaded, and both results


def test_each_boundary_says_why() -> None:
    _, arguments, _ = CASES["block"]
    lowered = COMPILED["block"].lower(*arguments)
    handed_on = len(tensors_written(COMPILED["block"], arguments)) - 1
    assert sum("is written to memory" in str(line) for line in lowered.why) == handed_on


def test_the_reasons_are_those_of_the_stages() -> None:
    """Without the stages, only the passes before `fuse` run for them."""
    for name in ("mlp", "block"):
        _, arguments, _ = CASES[name]
        alone, after = (COMPILED[name].lower(*arguments) for _ in range(2))
        assert "graph.kernel" in after.fused
        assert [*map(str, alone.why)] == [*map(str, after.why)] != []


def test_each_two_kernels_say_why_they_are_two() -> None:
    _, arguments, _ = CASES["block"]
    lowered = COMPILED["block"].lower(*arguments)
    pairs = [
        (one, other)
        for one, other in combinations([kernel.kernel for kernel in lowered.kernels], 2)
        if {*one.outputs}.isdisjoint(other.inputs)
    ]
    assert sum("are made by two kernels: " in str(line) for line in lowered.why) == len(pairs) > 0


def update(w: Any, b: Any, dw: Any, db: Any) -> Any:
    return w - 0.1 * dw, b - 0.1 * db, np.tanh(b)


def test_kernels_of_results_of_different_shapes_say_so() -> None:
    w, b = np.ones((64, 32), np.float32), np.ones(64, np.float32)
    (line,) = iris.jit(update).lower(w, b, w, b).why
    assert str(line).endswith("results of a kernel have one shape, not (64, 32) and (64,)")


def test_fusion_is_read_in_the_graph() -> None:
    lowered = COMPILED["mlp"].lower(*LAYERS)
    assert lowered.fused.count("graph.kernel @") == 2
    module = parse(lowered.fused)
    assert str(module) == lowered.fused
    for kernel in lowered.kernels:
        for stage in kernel.stages:
            assert str(parse(stage.text)) == stage.text


def test_what_is_fused_already_is_not_one_kernel() -> None:
    fused = parse(COMPILED["mlp"].lower(*LAYERS).fused)
    with pytest.raises(PipelineError, match="@mlp has 2 kernels, not one: @mlp_mul, @mlp_add"):
        run(fused, "graph-to-tile")


def test_schedules_that_are_written_stay() -> None:
    fused = COMPILED["mlp"].lower(*LAYERS).fused
    edited = re.sub(r"programs \d+ of", "programs 16 of", fused)
    assert edited != fused
    assert str(run(parse(edited), GRAPH_PIPELINE)) == edited
    more = edited.replace("return %13", "%y: tensor<96x128xf32> = exp %13\n  return %y")
    with pytest.raises(PipelineError, match=r"such as @mlp_mul, but <exp .*> is not in one"):
        run(parse(more), "fuse")


def powers(x: Array) -> Array:
    return np.exp(x)


def test_the_schedules_that_were_considered() -> None:
    (kernel,) = iris.jit(powers).kernels(numbers(64, 64))
    first, *lines = kernel.why.splitlines()
    assert first.startswith("@powers_exp at ")
    assert first.endswith(" on apple-m1:")
    (own,) = [line for line in lines if line.startswith("->")]
    (cost,) = kernel.costs
    assert f"{cost.microseconds:.1f} us, {cost.programs} programs" in own
    costs = [float(line[3:].split()[0]) for line in lines]
    assert costs == sorted(costs)
    assert costs[lines.index(own)] == costs[0]
    assert len({*lines}) == len(lines) == 3


def greatest(x: Array, w: Array) -> tuple[Array, ...]:
    """Where sums are the greatest of all, and of each row and column."""
    rows, product = x.sum(1), x @ w
    return (
        rows == rows.max(),
        product == product.max(1, keepdims=True),
        product == product.max(0, keepdims=True),
        rows[:, None] == rows,
    )


GREATEST = iris.jit(greatest)
# Each result as a function of its own.
ALONE = [iris.jit(lambda x, w, at=at: greatest(x, w)[at]) for at in range(4)]


@pytest.mark.parametrize("shape", [(40, 8), (300, 100), (600, 3)])
@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_a_sum_is_one_number_wherever_it_is_needed(shape: tuple[int, int], device: str) -> None:
    x, w = numbers(*shape), numbers(shape[1], 10, seed=1)
    whole, rows, columns, square = GREATEST(x, w, device=device)
    assert whole.any()
    assert rows.any(1).all()
    assert columns.any(0).all()
    assert square.diagonal().all()
    for alone in ALONE:
        assert alone(x, w, device=device).any()


def test_no_two_kernels_sum_the_same() -> None:
    def function(x: Array, w: Array) -> tuple[Array, ...]:
        s = x.sum(1)
        return s.max(), s + w, (s * w).sum()

    lowered = iris.jit(function).lower(numbers(1000, 2), numbers(1000))
    sums = [k for k in lowered.kernels if "graph.reduce sum [1]" in k.graph]
    assert len(sums) == 1
    assert "in different orders" in str(*lowered.why)


def sums_of_scans(x: Array) -> Array:
    return np.cumsum(np.stack([x, x], 1), 0).sum(1)


def greatest_of_scans(x: Array) -> Array:
    scanned = np.cumsum(np.maximum(x, x[0, :1, :]), 0)
    return (scanned * scanned.sum(1, keepdims=True)).max()


@pytest.mark.parametrize(
    "function, shape", [(sums_of_scans, (65, 65)), (greatest_of_scans, (2, 3, 2, 3, 2))]
)
def test_what_one_program_cannot_do_is_not_fused(
    function: Callable[[Array], Array], shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).integers(-4, 4, shape).astype(np.float32)
    np.testing.assert_array_equal(iris.jit(function)(x), function(x))


def sorting_network(x: Array) -> Array:
    """Rounds of comparing neighbours, each of which looks at two places of the one before."""
    for _ in range(len(x) // 2):
        a, b = x[0::2], x[1::2]
        x = np.stack([np.minimum(a, b), np.maximum(a, b)], 1).reshape(-1)
        a, b = x[1:-1:2], x[2::2]
        inner = np.stack([np.minimum(a, b), np.maximum(a, b)], 1).reshape(-1)
        x = np.concatenate([x[:1], inner, x[-1:]])
    return x


def test_what_looks_at_more_places_each_time_is_several_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = numbers(24)
    compilation = iris.jit(sorting_network).lower(x)
    np.testing.assert_array_equal(compilation.run(x), np.sort(x))
    assert len(compilation.kernels) > 1
    assert sum(k.flops for k in compilation.kernels) < 100 * 24 * 24
    assert any("a consumer would have over" in str(boundary) for boundary in compilation.why)
    # Without that limit, what it costs to compute elements again is one; it shows in fewer rounds.
    monkeypatch.setattr("iris.passes.graph.tiling.fusion.MOST_OPS", 10**6)
    why = iris.jit(sorting_network).lower(x[:12]).why
    assert any("recompute too many elements" in str(boundary) for boundary in why)


def test_what_a_product_is_made_of_waits_for_no_more_than_its_matrices() -> None:
    """Two barriers in each round: before and after its factors are written for all."""
    (kernel,) = iris.jit(residual(1)).kernels(numbers(128, 256), numbers(256, 256))
    rounds = [
        op
        for op in kernel.stages[-1].module.walk()
        if isinstance(op, For) and any(isinstance(inner, metal.Mma) for inner in op.walk())
    ]
    barriers = [op for op in rounds[0].walk() if isinstance(op, metal.Barrier)]
    assert len(barriers) == 2


def rotated(x: Array, cos: Array, sin: Array) -> Array:
    """Rotary embeddings of halves of rows."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_parts_of_rows_are_indexed_without_divisions(device: str) -> None:
    arguments = numbers(8, 24, 32), numbers(24, 16), numbers(24, 16)
    (kernel,) = iris.jit(rotated).lower(*arguments).kernels
    assert not re.search(r"= (floordiv|mod) ", kernel.tile)
    found = iris.jit(rotated)(*arguments, device=device)
    np.testing.assert_allclose(found, rotated(*arguments), rtol=1e-5, atol=1e-6)


def attend_rotated(q: Array, k: Array, v: Array, cos: Array, sin: Array) -> Array:
    scores = rotated(q, cos, sin) @ rotated(k, cos, sin).swapaxes(-1, -2)
    return softmax(scores / math.sqrt(q.shape[-1])) @ v


def test_the_registers_of_rotated_operands_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel whose registers are predicted too low is lowered again with smaller tiles."""
    lowered = []
    fits = graph_kernels.with_smaller_tiles

    def counted(module: Any, pipeline: Any, target: Any, lower: Any) -> Any:
        return fits(module, pipeline, target, lambda *own: lowered.append(own) or lower(*own))

    monkeypatch.setattr(graph_kernels, "with_smaller_tiles", counted)
    x, turns = numbers(8, 128, 32), numbers(128, 16)
    (kernel,) = iris.jit(attend_rotated).lower(x, x, x, turns, turns).kernels
    assert len(lowered) == 1
    assert kernel.tile.count("tile.dot") == 2
