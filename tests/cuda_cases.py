"""Launches of the kernels in `tests/cuda_files`, and what NumPy says of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import iris
from iris.compiler.cuda_file import CudaFile
from support import ROOT

FOLDER = ROOT / "tests/cuda_files"
Array = np.ndarray[Any, Any]
rng = np.random.default_rng(0)

# The structs that arrays of launches hold.
ENTRY = np.dtype(
    {
        "names": ["key", "count", "sum", "last"],
        "formats": ["u4", "i4", "f4", ("f4", 2)],
        "offsets": [0, 4, 8, 16],
        "itemsize": 24,
    }
)
_INNER = np.dtype(
    {"names": ["at", "kind"], "formats": [("f4", 2), "i2"], "offsets": [0, 8], "itemsize": 16}
)
PARTICLE = np.dtype(
    {
        "names": ["place", "mass", "inner", "ids"],
        "formats": [("f4", 3), "f4", _INNER, ("i4", 3)],
        "offsets": [0, 12, 16, 32],
        "itemsize": 48,
    }  # type: ignore[call-overload]
)
LIMITS = np.dtype([("low", "f4"), ("high", "f4"), ("n", "i4")])
SETTINGS = np.dtype(
    [("n", "i4"), ("scale", "f4"), ("op", "u4"), ("sign", "i4"), ("small", "u1")], align=True
)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9) -> Array:
    return rng.integers(low, high, shape).astype(np.int32)


class Case(NamedTuple):
    """A launch, and what the last array among its arguments is afterwards."""

    file: str
    kernel: str
    shape: tuple[Any, ...]
    arguments: Sequence[Any]
    written: int  # which argument
    expected: Array
    runs_on_metal: bool = False

    def run(self, file: CudaFile, device: str) -> Array:
        given = [np.copy(x) if isinstance(x, np.ndarray) else x for x in self.arguments]
        file[self.kernel][self.shape](*given, device=device)
        found: Array = given[self.written]
        return found


@cache
def loaded(name: str) -> CudaFile:
    return iris.cuda.load(FOLDER / f"{name}.cu")


def _elementwise() -> list[Case]:
    a, b, n = floats(200), floats(200), 180
    some = np.arange(200) < n
    x, h = floats(256), floats(70).astype(np.float16)
    four = x.reshape(-1, 4) * [1.5, 1, -1, 1.5]
    four[:, 3] = x.reshape(-1, 4)[:, 2] + x.reshape(-1, 4)[:, 3] * np.float32(1.5)
    zero, p = np.zeros_like(a), floats(20, 3)
    inside = np.sqrt(2 / np.pi) * (a + 0.044715 * a.astype(np.float64) ** 3)
    gelu = 0.5 * a * (1 + np.tanh(inside))
    turn = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * a**2) / np.cosh(inside) ** 2
    slope = 0.5 * (1 + np.tanh(inside) + a * turn)
    turned = p[:, 0] * p[:, 1] - 12 * p[:, 0]
    return [
        Case("elementwise", "add", (4, 64), (a, b, zero, n), 2, np.where(some, a + b, 0), True),
        Case("elementwise", "saxpy", (2, 32), (2.0, a, b, n), 2, np.where(some, 2 * a + b, b)),
        Case("elementwise", "scale4", (1, 64), (x, x, 1.5, 256), 1, four.reshape(-1)),
        Case("elementwise", "gelu", (4, 64), (a, zero, zero, 200), 1, gelu),
        Case("elementwise", "gelu", (4, 64), (a, zero, zero, 200), 2, slope + np.trunc(a)),
        Case("elementwise", "turned", (1, 32), (p, zero[:20], 20), 1, turned),
        Case("elementwise", "halves", (3, 32), (h, h, 70), 1, np.maximum(2 * h, 0.5)),
    ]


def _transpose() -> list[Case]:
    x = floats(40, 70)
    given = (np.zeros((70, 40), np.float32), x, 70, 40)
    return [Case("transpose", "transpose", ((3, 2), (32, 8)), given, 0, x.T, True)]


def _reductions() -> list[Case]:
    n, block = 1000, 128
    x = ints(n).astype(np.float32)
    padded = np.pad(x, (0, 24)).reshape(-1, block)
    one, two = padded.sum(1), padded.reshape(4, -1).sum(1)
    out, memory = np.zeros(8, np.float32), 4 * block

    def case(kernel: str, blocks: int, sums: Array, *more: Any, block: int = block) -> Case:
        given = (x, out[:blocks], n)
        on_metal = kernel == "shuffled"
        return Case("reduction", kernel, (blocks, block, *more), given, 1, sums, on_metal)

    everything = np.array([x.sum()], np.float32)
    turns = np.pad(x, (0, 24)).reshape(-1, 2, 128).sum((0, 2))
    pairs = np.pad(x, (0, 24)).reshape(2, 512).sum(1)
    return [
        case("interleaved", 8, one, memory),
        case("strided", 8, one, memory),
        case("sequential", 4, two, memory),
        case("shuffled", 2, turns),
        case("tiles", 8, one),
        case("unrolled<float, 256>", 2, pairs, block=256),
        Case(
            "reduction",
            "atomic",
            (8, 128),
            (x.astype(np.int32), np.zeros(1, np.int32), n),
            1,
            everything,
        ),
    ]


def _scans() -> list[Case]:
    x, n = ints(64), 64
    f = x.astype(np.float32)
    exclusive = np.cumsum(x) - x
    return [
        Case("scan", "doubling", (1, 64, 2 * 4 * 64), (f, 0 * f, n), 1, np.cumsum(f)),
        Case("scan", "tree", (1, 32, 4 * 64), (x, 0 * x, n), 1, exclusive),
        Case("scan", "by_warps", (1, 64), (x, 0 * x), 1, np.cumsum(x)),
    ]


def _others() -> list[Case]:
    data = rng.integers(0, 256, 500).astype(np.uint8)
    counts = np.zeros(256, np.uint32)
    a, b, c = floats(20, 40), floats(40, 30), np.zeros((20, 30), np.float32)
    wide, tall, square = floats(64, 16), floats(16, 32), np.zeros((64, 32), np.float32)
    line = ints(128 + 6)
    near = np.lib.stride_tricks.sliding_window_view(line, 7).sum(1)
    grid = floats(10, 40)
    framed = np.pad(grid, 1)
    five = framed[1:-1, :-2] + framed[1:-1, 2:] + framed[:-2, 1:-1] + framed[2:, 1:-1] - 4 * grid
    return [
        Case(
            "histogram",
            "histogram",
            (2, 64),
            (data, counts, 500),
            1,
            np.bincount(data, minlength=256),
            True,
        ),
        Case("matmul", "tiled<16>", ((2, 2), (16, 16)), (a, b, c, 20, 30, 40), 2, a @ b),
        Case("matmul", "columns", ((1, 2), 256), (wide, tall, square, 32, 16), 2, wide @ tall),
        Case("stencil", "line", (2, 64), (line, np.zeros(128, np.int32)), 1, near),
        Case("stencil", "five", ((2, 2), (32, 8)), (grid, 0 * grid, 40, 10), 1, five),
    ]


def _rows() -> list[Case]:
    x = floats(4, 90)
    e = np.exp(x - x.max(1, keepdims=True))
    softmax = e / e.sum(1, keepdims=True)
    scale, shift = floats(90), floats(90)
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return [
        Case("rows", "softmax_warp", (2, 64), (x, 0 * x, 4, 90), 1, softmax),
        Case("rows", "softmax_block", (4, 64, 256), (x, 0 * x, 90), 1, softmax),
        Case(
            "rows",
            "layernorm",
            (4, 64),
            (x, scale, shift, 0 * x, 90),
            3,
            normal * scale + shift,
            True,
        ),
    ]


def _collatz(x: int) -> int:
    count = 0
    while x != 1 and count < 100:
        x, count = (3 * x + 1 if x % 2 else x // 2), count + 1
    return count


def _language() -> list[Case]:
    x = np.arange(1, 61, dtype=np.int32)
    steps = np.array([_collatz(int(n)) for n in x])
    rows = ints(32, 8)
    above = [next((i for i, v in enumerate(row) if v > 6), -1) for row in rows]
    ordered = np.concatenate([np.sort(rows), np.array(above)[:, None]], 1)
    a, b = ints(32, low=-99, high=99), ints(32)
    b[b == 0] = 5
    quotient = np.trunc(a / b).astype(np.int32)
    truth = ((a < b) & (b > 0)) | (a == 0)
    scaled = np.trunc(a * np.float32(0.37)).astype(np.int32)
    words = np.stack([quotient, a - quotient * b, (a >> 2) ^ (b << 3), scaled + truth], 1)
    ones = np.array([int(v).bit_count() for v in a.view(np.uint32)], np.uint32)
    bits = (a.view(np.uint32) >> 28 | 1) + b.astype(np.uint8) + ones
    nothing = np.zeros((32, 4), np.int32)
    v = ints(32)
    positive = int((v > 0) @ (1 << np.arange(32, dtype=np.int64)))
    following = np.roll(v.reshape(4, 8), -1, 1).reshape(-1)
    votes = positive + bool((v == 7).any()) + 2 * bool((v < 9).all()) + 4 * (following + 16)
    last = rows[:, 0]
    for column in rows.T[1:]:
        last = 3 * last + column
    ends = 8 * np.arange(1, 33) * 3 + 6 + 17
    walked = np.stack([-np.ones_like(last), rows.sum(1), last, ends], 1)
    start, most = np.array([-100], np.int32), np.array([max(x)], np.int32)
    return [
        Case("language", "steps", (2, 32), (x, 0 * x, 60), 1, steps, True),
        Case("language", "walks", (1, 32), (rows, np.zeros((32, 4), np.int32), 8), 1, walked),
        Case("language", "greatest", (2, 32), (x, start, 60), 1, most),
        Case("language", "sorted", (1, 32), (rows, np.zeros((32, 9), np.int32), 6), 1, ordered),
        Case("language", "arithmetic", (1, 32), (a, b, nothing, np.zeros(32, np.uint32)), 2, words),
        Case("language", "arithmetic", (1, 32), (a, b, nothing, np.zeros(32, np.uint32)), 3, bits),
        Case(
            "language", "votes", (1, 32), (v, np.zeros(32, np.uint32)), 1, votes.astype(np.uint32)
        ),
    ]


def _structs() -> list[Case]:
    x, y = floats(128), floats(256).astype(np.float16)
    half = (1 + 1.5 * y.astype(np.float32)).astype(np.float16)
    u, v = floats(32), floats(32, 4)
    out = np.zeros((32, 8), np.float32)
    total = u + u + np.roll(u, -1) + np.roll(u, -2)
    mean, t = total / 4, np.arange(32)
    low, high = np.minimum(u, mean), np.maximum(u, mean)
    sign = np.where(u > mean, -2 * t, 2 * t)
    fraction = u - np.floor(u)
    mine = v.copy()
    mine[t, t % 4] = -1
    picked = mine[t, t % 4] + mine[:, 0] + mine[:, 3]
    records = [mean + 2 * total, 11 * low + 10, high, sign, np.floor(u), fraction, picked]
    records.append(fraction.view(np.int32).astype(np.float32))
    expected = np.stack(records, 1).astype(np.float32)
    w, bytes_ = ints(64), ints(256, low=0, high=255).astype(np.uint8)
    upper = bytes_.view(np.uint32) >> 16
    sums = np.cumsum(np.arange(64).reshape(2, 32), 1).reshape(-1)
    turned = np.concatenate([w[::-1] + upper.astype(np.int32), sums]).astype(np.int32)
    return [
        Case("structs", "axpy<float>", (1, 32), (x, 0 * x, 1.5), 1, 1 + np.float32(1.5) * x, True),
        Case("structs", "axpy<half>", (1, 32), (y, 0 * y, 1.5), 1, half, True),
        Case("structs", "records", (1, 32), (u, v, out, ints(1)), 2, expected, True),
        Case("structs", "turned<int>", (1, 64, 256), (w, ints(128), bytes_), 1, turned),
    ]


def _published() -> list[Case]:
    x, t = ints(64), np.arange(64)
    tiles = x.reshape(-1, 4).astype(np.int64)
    low = ((tiles < 0) << np.arange(4)).sum(1, keepdims=True)
    rotated = np.roll(tiles, -1, 1) + 1000 * tiles.max(1, keepdims=True) + 100 * low + (low > 0)
    rotated += np.arange(16)[:, None]
    words = rng.integers(0, 2**32, 112, np.uint32) | np.uint32(0xF0F00F0F)
    lowest = np.append(np.bitwise_and.reduce(words.reshape(-1, 16), 1), np.uint32(0))
    squares = (x.reshape(2, 32).sum(1) ** 2).astype(np.int32)
    f, counts = np.abs(floats(100)), np.array([-1, 0, 0], np.int32)
    v = np.clip(floats(64), -1.4, 1.4)
    d, turned = v.astype(np.float64), (v + np.float32(100)).astype(np.float64)
    shifted = [int(i) << 30 for i in t]
    clz = [64 - n.bit_length() for n in shifted]
    ffs = [(n & -n).bit_length() for n in shifted]
    functions = [
        np.arctan2(d, 0.5) + np.hypot(d, 3),
        np.fmod(v * np.float32(37), np.float32(0.75)),
        np.tan(d) + np.arcsin(d / 4) + np.log1p(d * d) + np.cbrt(d),
        np.cos(np.pi * turned),
        np.minimum(t, 7) + clz + ffs,
        np.rint(d) + (t - 3) // 2 + np.abs(t - 9),
    ]
    given = (f, np.zeros(1, np.float32), counts, 100)
    return [
        Case("published", "rotated<int, 4>", (1, 64), (x, 0 * x), 1, rotated.reshape(-1)),
        Case("published", "bits", (1, 112), (words, np.zeros(8, np.uint32)), 1, lowest, True),
        Case("published", "sums", (1, 64, 256), (x, np.zeros(2, np.int32)), 1, squares),
        Case("published", "extremes", (2, 64), given, 1, f.max(keepdims=True)),
        Case("published", "extremes", (2, 64), given, 2, np.array([0, 100 % 41, 4], np.int32)),
        Case(
            "published",
            "functions",
            (1, 64),
            (v, np.zeros(6 * 64, np.float32), 64),
            1,
            np.concatenate(functions).astype(np.float32),
            True,
        ),
    ]


def _training() -> list[Case]:
    T, C, V = 12, 8, 96
    tokens, words, places = ints(2 * T, low=0, high=20), floats(20, C), floats(T, C)
    summed = (words[tokens] + np.tile(places, (2, 1))).astype(np.float32)
    scores = floats(2 * T, T)
    exponentials = np.exp(0.5 * scores.astype(np.float64)) * np.tile(np.tri(T), (2, 1))
    shares = exponentials / exponentials.sum(1, keepdims=True)
    logits, targets, losses = floats(5, V), ints(5, low=0, high=V), floats(5)
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(1, keepdims=True)
    rows = np.arange(5)
    lost = losses - np.log(p[rows, targets])
    slopes = p.copy()
    slopes[rows, targets] -= 1
    given = (logits, losses, 0.25, targets, V)
    w, g, m, v = floats(2, 70), floats(2, 70), floats(70), np.abs(floats(70))
    first = 0.9 * m + 0.1 * g[0].astype(np.float64)
    second = 0.99 * v + 0.01 * g[0].astype(np.float64) ** 2
    kept = w[0] - 0.1 * (first / (np.sqrt(second) + 1e-8) + 0.5 * w[0].astype(np.float64))
    step = (w[0], w[0], g[0], m, v, 70, 0, 0.1, 0.9, 0.99, 0.5)
    pixels = rng.integers(0, 80, (50, 4), np.uint8)
    colour = np.array([9, 255, 0, 77], np.uint8)
    tinted = pixels ^ np.array([0, 255, 0, 0], np.uint8)
    tinted[:, 0] = 9 + pixels[:, :3] @ np.array([0.5, 0.25, 0.25])
    tinted[:, 3] = 77
    a, b = (ints(2, 60, 2).astype(np.float16) / 4).astype(np.float16)
    dots = (a.astype(np.float32) * b).reshape(2, 30, 2)[..., :].sum((0, 2))
    v = ints(64)
    eights, fours = v.reshape(-1, 8), v.reshape(-1, 4)
    partners = v.reshape(-1, 2)[:, ::-1].reshape(-1)

    def of_segments(rows: Array) -> Array:
        seconds = np.repeat(rows[:, 1], rows.shape[1])
        sums = np.cumsum(rows, 1).reshape(-1)
        return np.concatenate([seconds + 100 * partners, sums]).astype(np.int32)

    at = (2, 32)
    image = (pixels, colour, np.array([0.5, 0.25, 0.25], np.float32), 50)
    return [
        Case(
            "training", "embedded", at, (0 * summed, tokens, words, places, T, C, 24 * C), 0, summed
        ),
        Case("training", "causal_softmax", (12, 64), (0 * scores, 0.5, scores, T), 0, shares),
        Case("training", "classified<true>", (5, 64), given, 0, slopes / 4, True),
        Case("training", "classified<true>", (5, 64), given, 1, lost),
        Case("training", "classified<false>", (5, 64), given, 1, lost),
        Case("training", "adamw<float>", (2, 64), step, 1, kept),
        Case("training", "adamw<float>", (2, 64), step, 4, second),
        Case("training", "tinted", at, image, 0, tinted, True),
        Case(
            "training", "segments", (1, 64), (v, np.zeros(128, np.int32), 8), 1, of_segments(eights)
        ),
        Case(
            "training", "segments", (1, 64), (v, np.zeros(128, np.int32), 4), 1, of_segments(fours)
        ),
        Case("training", "dotted", (1, 30), (a, b, np.zeros(30, np.float32), 60), 2, dots),
    ]


CASES = [
    *_elementwise(),
    *_transpose(),
    *_reductions(),
    *_scans(),
    *_others(),
    *_rows(),
    *_language(),
    *_structs(),
    *_published(),
    *_training(),
]
