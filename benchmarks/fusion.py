"""What functions of arrays become: kernels, and the bytes that these read and write, each tensor
once a kernel; and the milliseconds from Python to the text of all kernels.

`least` is what has to be moved: for one kernel, its arguments and results.  For the others it is
what a schedule moves that somebody would write by hand: of a network, a kernel for each product of
matrices that takes in what is elementwise about it, and the norm before it; of attention, no
scores.  `ratio` is to that, and `bar` what it is to be at most.

`median`, `least ms` and `most` are of 20 fresh functions, every cache of the compiler empty.  The
columns of tinygrad need it installed: its kernels for the same programs, and their bytes.
"""

from __future__ import annotations

import gc
import importlib.util
import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import report
from compile import Caches
from iris import nn
from iris.codegen.emitter import emit
from iris.compiler.compilation import entry_of
from iris.compiler.graph_program import GraphProgram
from iris.compiler.jit import jit
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.frontend.arrays import ArrayFunction
from iris.ir.core import Level
from iris.passes import run
from iris.targets import DEFAULT

Array = npt.NDArray[np.float32]
ROWS, WIDTH, HIDDEN = 512, 1024, 2048
BATCH, LENGTH, MODEL, HEADS = 2, 128, 256, 4
LLAMA_HEADS, GATED = 8, 640


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def chain(x: Any) -> Any:
    for n in range(12):
        x = np.tanh(x * 0.5 + n)
    return x


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, gain: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def rms_norm(x: Any, added: Any, gain: Any) -> Any:
    total = x + added
    return total, total / np.sqrt((total * total).mean(-1, keepdims=True) + 1e-6) * gain


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return gelu(x @ w1 + b1) @ w2 + b2


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])) @ v


def block(x: Any, p: dict[str, Any]) -> Any:
    batch, length, width = x.shape

    def heads(t: Any) -> Any:
        return t.reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)

    h = layer_norm(x, p["gain1"], p["shift1"])
    mixed = attention(heads(h @ p["wq"]), heads(h @ p["wk"]), heads(h @ p["wv"]))
    x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["wo"]
    h = layer_norm(x, p["gain2"], p["shift2"])
    return x + mlp(h, p["w1"], p["b1"], p["w2"], p["b2"])


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """Each pair of neighbours turned by an angle."""
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def llama_block(x: Any, cos: Any, sin: Any, p: dict[str, Any]) -> Any:
    """Causal attention, two query heads to each head of keys and values, and a gated MLP."""
    batch, length, width = x.shape
    size = width // LLAMA_HEADS

    def heads(t: Any) -> Any:
        return t.reshape(batch, length, -1, size).transpose(0, 2, 1, 3)

    h = nn.rms_norm(x, p["gain1"])
    q, k = (turned(heads(h @ p[w]), cos, sin) for w in ("wq", "wk"))
    scores = q.reshape(batch, -1, 2, length, size) @ k[:, :, None].swapaxes(-1, -2)
    seen = np.where(np.tri(length, dtype=bool), scores / math.sqrt(size), -np.inf)
    mixed = (softmax(seen) @ heads(h @ p["wv"])[:, :, None]).reshape(batch, -1, length, size)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ p["wo"]
    h = nn.rms_norm(x, p["gain2"])
    return x + (nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"]


def decode(x: Any, keys: Any, values: Any, p: dict[str, Any]) -> Any:
    """Attention of one token to those before it, whose keys and values are kept."""
    heads, _, width = keys.shape

    def with_own(kept: Any, w: Any) -> Any:
        return np.concatenate([kept, (x @ w).reshape(heads, 1, width)], 1)

    keys, values = with_own(keys, p["wk"]), with_own(values, p["wv"])
    mixed = attention((x @ p["wq"]).reshape(heads, 1, width), keys, values)
    return x + mixed.reshape(x.shape) @ p["wo"], keys, values


def train(x: Any, wanted: Any, p: dict[str, Any]) -> Any:
    """One step of gradient descent for two layers."""
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


def momentum(p: dict[str, Any], speed: dict[str, Any], slopes: dict[str, Any]) -> Any:
    """One step of an optimiser, for a tree of parameters."""
    speed = {name: 0.9 * value + slopes[name] for name, value in speed.items()}
    return {name: value - 0.1 * speed[name] for name, value in p.items()}, speed


class Case(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    least: int  # elements
    bar: float


def cases() -> dict[str, Case]:
    x, row = numbers(ROWS, WIDTH), numbers(WIDTH)
    rows = ROWS * WIDTH
    weights = {
        **dict.fromkeys(("gain1", "shift1", "gain2", "shift2", "b2"), numbers(MODEL)),
        **dict.fromkeys(("wq", "wk", "wv", "wo"), numbers(MODEL, MODEL)),
        "w1": numbers(MODEL, 4 * MODEL),
        "b1": numbers(4 * MODEL),
        "w2": numbers(4 * MODEL, MODEL),
    }
    tokens, square = BATCH * LENGTH * MODEL, MODEL * MODEL
    layers = [
        4 * tokens + 3 * square + 2 * MODEL,  # the norm, and the heads
        4 * tokens,  # attention, whose scores are never in memory
        3 * tokens + square,  # put together, and added
        tokens + 4 * square + 4 * tokens + 6 * MODEL,  # the norm, and the hidden layer
        4 * tokens + 4 * square + 2 * tokens + MODEL,
    ]
    angles = numbers(LENGTH, MODEL // LLAMA_HEADS // 2)
    llama_weights = {
        **dict.fromkeys(("gain1", "gain2"), numbers(MODEL)),
        **dict.fromkeys(("wq", "wo"), numbers(MODEL, MODEL)),
        **dict.fromkeys(("wk", "wv"), numbers(MODEL, MODEL // 2)),
        **dict.fromkeys(("w1", "w3"), numbers(MODEL, GATED)),
        "w2": numbers(GATED, MODEL),
    }
    gated = BATCH * LENGTH * GATED
    llama_layers = [
        3 * tokens + 2 * square + 2 * angles.size + MODEL,  # the norm, and the heads
        3 * tokens,  # attention
        3 * tokens + square,  # put together, and added
        tokens + 2 * MODEL * GATED + gated + MODEL,  # the norm, and the hidden layer
        gated + MODEL * GATED + 2 * tokens,
    ]
    hidden = ROWS * WIDTH + WIDTH * HIDDEN + HIDDEN + ROWS * HIDDEN
    out = ROWS * HIDDEN + HIDDEN * WIDTH + WIDTH + ROWS * WIDTH
    heads = numbers(8, LENGTH, 64)
    kept = numbers(HEADS, LENGTH, MODEL // HEADS)
    layer = {
        "w1": numbers(WIDTH, HIDDEN),
        "b1": numbers(HIDDEN),
        "w2": numbers(HIDDEN, WIDTH),
        "b2": numbers(WIDTH),
    }
    passes = [  # a kernel for each product: forward, back, and the slopes
        hidden,
        out + ROWS * WIDTH,
        2 * ROWS * HIDDEN + ROWS * WIDTH + WIDTH * HIDDEN,
        ROWS * (WIDTH + HIDDEN) + 2 * WIDTH * HIDDEN,
        ROWS * (WIDTH + HIDDEN) + 2 * WIDTH * HIDDEN,
        ROWS * (WIDTH + HIDDEN) + 2 * (WIDTH + HIDDEN),
    ]
    return {
        "chain of 36": Case(chain, (x,), 2 * rows, 1.25),
        "softmax": Case(softmax, (x,), 2 * rows, 1.25),
        "layer_norm": Case(layer_norm, (x, row, row), 2 * rows + 2 * WIDTH, 1.25),
        "rms_norm, added": Case(rms_norm, (x, x, row), 4 * rows + WIDTH, 1.25),
        "mlp": Case(
            mlp,
            (x, numbers(WIDTH, HIDDEN), numbers(HIDDEN), numbers(HIDDEN, WIDTH), row),
            hidden + out,
            1.1,
        ),
        "attention": Case(attention, (heads, heads, heads), 4 * heads.size, 1.1),
        "decode": Case(
            decode,
            (numbers(1, MODEL), kept, kept, weights),
            4 * kept.size + 4 * square + 12 * MODEL,
            1.1,
        ),
        "train": Case(train, (x, x, layer), sum(passes), 1.15),
        "momentum": Case(momentum, (layer,) * 3, 5 * sum(v.size for v in layer.values()), 1.15),
        "block": Case(block, (numbers(BATCH, LENGTH, MODEL), weights), sum(layers), 1.1),
        "LLaMA block": Case(
            llama_block,
            (numbers(BATCH, LENGTH, MODEL), angles, angles, llama_weights),
            sum(llama_layers),
            1.1,
        ),
    }


def compiled(case: Case) -> None:
    """From the Python function to the texts of all kernels."""
    function = ArrayFunction(case.function)
    traced = function.trace(function.bind(case.arguments, {}))
    program = GraphProgram(run(traced.module, GRAPH_PIPELINE), traced.captured)
    for kernel in program.kernels:
        emit(entry_of(run(kernel.module, kernel.pipeline(Level.METAL, DEFAULT))))


def tinygrad_kernels(case: Case) -> tuple[int, int] | None:
    """Count tinygrad's kernels for a program, and the bytes of their arguments; None for programs
    that have no version for tinygrad."""
    os.environ.setdefault("DEV", "METAL")
    from tinygrad import Tensor
    from tinygrad.uop.ops import Ops

    programs: dict[str, Callable[..., Any]] = {
        "chain": lambda x: _times(x, 12, lambda y, n: (y * 0.5 + n).tanh()),
        "softmax": lambda x: x.softmax(),
        "layer_norm": lambda x, gain, shift: x.layernorm() * gain + shift,
        "mlp": lambda x, w1, b1, w2, b2: (x @ w1 + b1).gelu() @ w2 + b2,
        "attention": lambda q, k, v: q.scaled_dot_product_attention(k, v),
        "rms_norm": _their_rms_norm,
        "block": _their_block,
    }

    if case.function.__name__ not in programs:
        return None

    def given(x: Any) -> Any:
        if isinstance(x, dict):
            return {name: given(v) for name, v in x.items()}
        return Tensor.empty(*x.shape)

    results = programs[case.function.__name__](*[given(x) for x in case.arguments])
    first, *others = results if isinstance(results, tuple) else (results,)
    kernels = moved = 0
    for call in first.schedule_linear(*others).toposort():
        if call.op is Ops.CALL and call.src[0].op is Ops.SINK:
            kernels += 1
            moved += sum(4 * math.prod(buffer.shape) for buffer in call.src[1:])
    return kernels, moved


def _times(x: Any, count: int, step: Callable[[Any, int], Any]) -> Any:
    for n in range(count):
        x = step(x, n)
    return x


def _their_rms_norm(x: Any, added: Any, gain: Any) -> Any:
    total = x + added
    return total, total * ((total * total).mean(-1, keepdim=True) + 1e-6).rsqrt() * gain


def _their_block(x: Any, p: dict[str, Any]) -> Any:
    batch, length, width = x.shape

    def heads(t: Any) -> Any:
        return t.reshape(batch, length, HEADS, width // HEADS).transpose(1, 2)

    h = x.layernorm() * p["gain1"] + p["shift1"]
    q, k, v = (heads(h @ p[name]) for name in ("wq", "wk", "wv"))
    mixed = q.scaled_dot_product_attention(k, v).transpose(1, 2).reshape(batch, length, width)
    x = x + mixed @ p["wo"]
    h = x.layernorm() * p["gain2"] + p["shift2"]
    return x + (h @ p["w1"] + p["b1"]).gelu() @ p["w2"] + p["b2"]


def main() -> None:
    rows: dict[str, dict[str, float]] = {}
    has_tinygrad = importlib.util.find_spec("tinygrad") is not None
    caches = Caches()
    for name, case in cases().items():
        kernels = jit(case.function).kernels(*case.arguments)
        moved = sum(kernel.bytes for kernel in kernels)
        row: dict[str, float] = {"kernels": len(kernels), "KB": moved / 1e3}
        row |= {"least": 4 * case.least / 1e3, "ratio": moved / (4 * case.least), "bar": case.bar}
        seconds = []
        for _ in range(report.times(20)):
            caches.clear()
            gc.collect()
            start = time.perf_counter()
            compiled(case)
            seconds.append(time.perf_counter() - start)
        times = report.spread(seconds, 1e-3)
        row |= {"median": times["median"], "least ms": times["least"], "most": times["most"]}
        found = tinygrad_kernels(case) if has_tinygrad else None
        if found is not None:
            count, theirs = found
            row |= {"tinygrad": count, "KB, theirs": theirs / 1e3}
        rows[name] = row
    print("kernels, bytes, milliseconds" + ("" if has_tinygrad else " (tinygrad not installed)"))
    report.write("fusion", rows)


if __name__ == "__main__":
    main()
