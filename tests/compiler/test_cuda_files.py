"""Kernels of CUDA files, each against NumPy; and each without one of its barriers."""

from __future__ import annotations

import inspect
import math
import re
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import iris
from iris.compiler.cuda_file import CudaFile
from iris.errors import ArgumentError, FileError, LanguageError, ProgramError, RaceError
from iris.frontend.cuda import words
from iris.frontend.cuda.clang import CLANG
from on_metal import SHARING
from support import ROOT, counts

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

FOLDER = ROOT / "tests/cuda_files"
Array = np.ndarray[Any, Any]
rng = np.random.default_rng(0)


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


def _name(case: Case) -> str:
    return f"{case.file}-{case.kernel}"


def _check(case: Case, device: str) -> None:
    found = case.run(loaded(case.file), device)
    relative = 2e-3 if found.dtype == np.float16 else 2e-5
    np.testing.assert_allclose(found, case.expected, relative, 1e-5)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_kernels_are_right(case: Case) -> None:
    assert case.expected.shape == np.shape(case.arguments[case.written])
    _check(case, "interp:metal")


@pytest.mark.metal
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.runs_on_metal or counts(0, 1)], ids=_name
)
def test_kernels_are_right_on_metal(case: Case) -> None:
    _check(case, SHARING)


def _energy(particles: Array) -> Array:
    found: Array = particles["mass"] * particles["place"][:, 0] + particles["inner"]["at"][:, 1]
    return found


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_structs_in_memory(device: str) -> None:
    inner = np.dtype(
        {"names": ["at", "kind"], "formats": [("f4", 2), "i2"], "offsets": [0, 8], "itemsize": 16}
    )
    names, formats = ["place", "mass", "inner", "ids"], [("f4", 3), "f4", inner, ("i4", 3)]
    offsets = [0, 12, 16, 32]
    particle = np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": 48}  # type: ignore[call-overload]
    )
    limits = np.dtype([("low", "f4"), ("high", "f4"), ("n", "i4")])
    before = np.zeros(32, particle)
    before["place"], before["mass"], before["ids"] = floats(32, 3), floats(32), ints(32, 3)
    before["inner"]["at"], before["inner"]["kind"] = floats(32, 2), 9
    moved, after, out = before.copy(), before.copy(), np.zeros(32, np.float32)
    file = loaded("records")
    file.symbols["limits"] = np.array((0, 0.5, 5), limits)
    file.step[1, 32](found := before.copy(), np.array((-0.5, 9, 4), limits), out, device=device)
    for particles, by in ((moved, 2), (after, 1)):
        particles["place"][:, 0] += by
        particles["ids"][:, 1] += 7
        particles["inner"]["kind"] = 3
    energy = _energy(moved) + np.roll(_energy(moved), -1) + _energy(before)
    np.testing.assert_allclose(out, energy + moved["place"][:, 0], 1e-5, 1e-5)
    after["mass"] = np.clip(moved["mass"], -0.5, 0.5)
    after["inner"]["at"][:, 0] = 9
    after = np.where(after["ids"][:, 2] > 0, moved, after)
    for name in ("place", "mass", "ids"):
        np.testing.assert_array_equal(found[name], after[name])
    for name in ("at", "kind"):
        np.testing.assert_array_equal(found["inner"][name], after["inner"][name])


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_what_is_left_of_the_error_function(device: str) -> None:
    """To a few units in the last place, however small it is; NVIDIA states 4 to 6 of its own."""
    x = np.concatenate([np.linspace(-4, 9, 500), [0, -0.0, 1e-30]]).astype(np.float32)
    out = np.zeros(3 * len(x), np.float32)
    loaded("training").tails[1, 64](x, out, len(x), device=device)
    exact = [math.erfc(v) for v in x.astype(np.float64)]
    scaled = [math.erfc(v) * math.exp(v * v) for v in x.astype(np.float64)]
    normal = [math.erfc(-v * math.sqrt(0.5)) / 2 for v in x.astype(np.float64)]
    for found, expected in zip(out.reshape(3, -1), (exact, scaled, normal), strict=True):
        units = np.abs(found - np.array(expected)) / np.spacing(np.float32(expected))
        assert units.max() < 8
    edges = np.float32([np.inf, -np.inf, np.nan])
    out = np.zeros(9, np.float32)
    loaded("training").tails[1, 3](edges, out, 3, device=device)
    np.testing.assert_array_equal(out, [0, 2, np.nan, 0, np.inf, np.nan, 1, 0, np.nan])


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_structs_are_chosen_and_enums_held(device: str) -> None:
    x = floats(2, 200) * 3
    y = np.zeros_like(x)
    loaded("choices").online_softmax[2, 128](x, y, 200, device=device)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), 1e-4)
    given = np.dtype([("n", "i4"), ("scale", "f4"), ("op", "u4"), ("sign", "i4"), ("small", "u1")])
    a, b = floats(40), floats(40)
    results = {0: a + 2 * b, 3: np.maximum(a, b), 4: np.maximum(a, b), 2**32 - 1: 0 * a}
    for op, expected in results.items():
        found, settings = a.copy(), np.array((40, 2, op, -2, 7), np.dtype(given, align=True))
        loaded("choices").apply[1, 64](found, b, settings, device=device)
        np.testing.assert_allclose(found, expected - 2 + 100, 1e-5)


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_only_the_struct_that_is_chosen_is_read(device: str) -> None:
    pairs = np.zeros(4, np.dtype([("a", "i4"), ("b", "i4")]))
    pairs["a"], pairs["b"] = np.arange(4), 10 * np.arange(4)
    out = np.zeros(32, np.int32)
    loaded("choices").picked[1, 32](pairs, out, 4, device=device)
    t = np.arange(32)
    np.testing.assert_array_equal(out, np.where(t < 4, 11 * t + 1, 200 - t))


ENTRY = np.dtype(
    {
        "names": ["key", "count", "sum", "last"],
        "formats": ["u4", "i4", "f4", ("f4", 2)],
        "offsets": [0, 4, 8, 16],
        "itemsize": 24,
    }
)
EVERYWHERE = pytest.mark.parametrize(
    "device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)]
)


@EVERYWHERE
def test_pointers_lead_to_fields(device: str) -> None:
    keys = rng.integers(1, 20, 100).astype(np.uint32)
    table = np.zeros(32, ENTRY)
    loaded("pointers").count[2, 64](table, keys, 100, 32, device=device)
    unique, counts = np.unique(keys, return_counts=True)
    order = np.argsort(table["key"])[-len(unique) :]
    np.testing.assert_array_equal(table["key"][order], unique)
    np.testing.assert_array_equal(table["count"][order], counts)
    np.testing.assert_array_equal(table["sum"][order], counts / 2)
    assert table["count"].sum() == 100
    before, after = table.copy(), table.copy()
    loaded("pointers").one_field[1, 32](after, device=device)
    before["sum"] = (before["sum"] + 1) * 2
    before["last"][:, 1] = before["sum"]
    for name in ENTRY.names or ():
        np.testing.assert_array_equal(after[name], before[name])


@EVERYWHERE
def test_pointers_lead_to_parts_of_vectors(device: str) -> None:
    p, q = floats(8, 4), floats(8, 3)
    found_p, found_q = p.copy(), q.copy()
    loaded("pointers").arrows[1, 8](found_p, found_q, device=device)
    p[:, 0] = p[:, 1] + 1
    p[:, 3] *= 2
    q[:, 1:] = np.stack([3 + p[:, 3], p[:, 0]], 1)
    np.testing.assert_array_equal(found_p, p)
    np.testing.assert_array_equal(found_q, q)


@EVERYWHERE
def test_a_reference_to_a_parameter_is_its_value(device: str) -> None:
    x, out = floats(32, 3), np.zeros((32, 3), np.float32)
    wholes = np.zeros_like(out)
    loaded("pointers").returned[1, 32](x, out, wholes, device=device)
    np.testing.assert_array_equal(wholes, np.trunc(2 * x))
    np.testing.assert_array_equal(out, 2 * x - np.trunc(2 * x))


@EVERYWHERE
def test_a_pointer_goes_on_in_another_array(device: str) -> None:
    x = floats(3, 100)
    out = np.zeros_like(x)
    loaded("pointers").softmax_in_place[3, 32](x, out, 100, device=device)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), 1e-5)


@EVERYWHERE
def test_a_tile_reduces_by_a_function(device: str) -> None:
    x, pairs = ints(64).astype(np.float32), floats(64, 2)
    nearest, made = np.zeros(64, np.int32), np.zeros_like(pairs)
    loaded("pointers").by_functions[1, 64](x, nearest, pairs, made, device=device)
    first = x.reshape(2, 32).argmin(1) + np.array([0, 32])
    np.testing.assert_array_equal(nearest, first.repeat(32) + 1000 * np.arange(64))
    tiles = pairs.astype(float).reshape(8, 8, 2)
    expected = np.stack([tiles[..., 0].sum(1), tiles[..., 1].prod(1)], 1)
    np.testing.assert_allclose(made, expected.repeat(8, 0), 1e-4, 1e-6)


@EVERYWHERE
def test_a_tile_reduces_by_an_operator_of_the_file(device: str) -> None:
    """Whatever its name: `plus` may be the file's own."""
    x = ints(64, low=-50, high=50)
    found = np.zeros((3, 64), np.int32)
    loaded("pointers").by_structs[1, 64](x, *found, 7, device=device)
    tiles = x.reshape(4, 16)
    ranked = np.take_along_axis(tiles, np.lexsort((tiles, abs(tiles - 7))), 1)
    expected = tiles.max(1), tiles.sum(1), ranked[:, 0]
    for one, by_tile in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, np.repeat(by_tile, 16))


@EVERYWHERE
def test_volatile_variables(device: str) -> None:
    x, out = floats(32, 4), np.zeros(32, np.float32)
    loaded("pointers").own_volatile[1, 32](x, out, device=device)
    np.testing.assert_allclose(out, x[:, 0] + x[:, 3] + 5 * (1 + np.arange(32)), 1e-6)
    (compiled,) = [loaded("pointers").own_volatile.lower(x, out, grid=1, block=32)]
    volatile = [line for line in str(compiled.metal).splitlines() if "volatile=true" in line]
    assert len(volatile) == 1  # of the memory that threads share, and not of a thread's own


def test_enums_and_structs_have_the_names_that_typedefs_give() -> None:
    t, out = np.arange(8), np.zeros(8, np.int32)
    states = np.where(t % 3, 7, 0).astype(np.uint32)
    turns = np.where(t % 2, 1, -1).astype(np.int32)
    switches = np.zeros(8, np.dtype([("state", "u4"), ("turn", "i4")]))
    switches["turn"] = -turns
    given = (7, -1, switches[1], states, turns, switches, out)
    loaded("scopes").typedefs[1, 8](*given, device="interp:metal")
    expected = 7 - 10 + 100 * -1 + 1000 * turns - 10000 * turns + np.where(t % 3, 0, 7)
    np.testing.assert_array_equal(out, expected)


def test_types_of_namespaces_are_known_within_and_without() -> None:
    t, out = np.arange(8), np.zeros(8, np.int32)
    several = np.where(t % 2, 9, 0).astype(np.uint32)
    inner = np.zeros(8, np.dtype([("answer", "u4"), ("kind", "u4")]))
    inner["answer"], inner["kind"] = 2 * (t % 2), 6 * (t % 3)
    both = np.zeros(8, np.dtype([("first", "u4"), ("level", "i1")], align=True))
    both["first"], both["level"] = t, -t
    given = (np.int8(-3), 9, several, inner, both, out)
    loaded("scopes").within[1, 8](*given, device="interp:metal")
    np.testing.assert_array_equal(out, 6 + 10 * several + 600 * (t % 3) - 999 * t)

    small = np.array((4,), np.dtype([("count", "i4")]))
    large = np.array((0.5, 6), np.dtype([("value", "f4"), ("count", "i4")]))
    given = (300, np.int8(-3), np.uint16(65000), small, large, (-t).astype(np.int8), inner, out)
    loaded("scopes").without[1, 8](*given, device="interp:metal")
    expected = 300 - 3 + 65000 + 4000 + 60000 - t + 200000 * (t % 2) + 4 - 5 + 9
    np.testing.assert_array_equal(out, expected)


def test_an_enum_is_another_argument_of_a_template_than_its_integers() -> None:
    one = np.array((5,), np.dtype([("value", "f4")]))
    other = np.array((1, 2), np.dtype([("unused", "i4"), ("value", "f4")]))
    out = np.zeros(4, np.float32)
    loaded("scopes").specialised[1, 4](one, other, out, device="interp:metal")
    np.testing.assert_array_equal(out, 4 * [3])


def test_types_of_a_function_are_its_own() -> None:
    x, out = ints(8), np.zeros(8, np.int32)
    loaded("scopes").local[1, 8](x, out, device="interp:metal")
    np.testing.assert_array_equal(out, x * np.tile([1, 5], 4).astype(np.int32) + 3)


def test_variables_may_be_called_as_positions_are() -> None:
    out = np.zeros(32, np.int32)
    file = loaded("scopes")
    file.symbols["blockDim"] = np.array([5, 6], np.int32)
    file.positions[1, 32](out, device="interp:metal")
    np.testing.assert_array_equal(out, 10 * np.arange(32) + 2 + 6000 + 32 + 540)


def test_a_width_of_segments_is_a_power_of_two() -> None:
    given = ints(64), np.zeros(128, np.int32), 6
    with pytest.raises(ProgramError, match="the width is a power of two, up to 32"):
        loaded("training").segments[1, 64](*given, device="interp:metal")


def test_variables_of_a_thread() -> None:
    x, v, h = ints(32, low=0, high=60), floats(32, 4), floats(32, 2).astype(np.float16)
    out, sums, found = np.zeros(128, np.int32), np.zeros(32, np.float32), h.copy()
    loaded("variables").own[1, 32](x, out, v, sums, found, device="interp:metal")
    for t in range(32):
        total = 0
        for i in range(4):
            quotient, rest = divmod(int(x[t]) + i, 3)
            if rest == 1:
                quotient = quotient + 5 if quotient + 5 <= 20 else -quotient - 5
            total += quotient * 10 + rest
            if total > 300:
                break
        added = [i + (2.5 if t & 1 and i == t & 3 else 0) for i in range(4)]
        added[t & 3] = 0
        vectors = [v[(t + i) % 32].astype(float) for i in range(3)]
        vectors[t % 3][1] += 10
        total_sum = sum(2 * one[0] + one[1] * (i + 1) for i, one in enumerate(vectors))
        total_sum += sum(10**i * y for i, y in enumerate(added))
        assert out[t] == total
        assert out[32 + t] == (t + 100 if t & 1 else 2 * t - 7)
        np.testing.assert_allclose(sums[t], total_sum, 1e-4, 1e-4)
    t = np.arange(32)
    np.testing.assert_array_equal(out[64:96], t + 2 + 1100)
    np.testing.assert_array_equal(out[96:], (sums.view(np.uint32) >> 23).astype(np.int32))
    np.testing.assert_array_equal(found, h + np.float16(1))


def test_doubles_that_are_floats() -> None:
    x, out = floats(64), np.zeros(64, np.float32)
    loaded("records").rounded[1, 64](x, out, device="interp:metal")
    below = (x.astype(np.float64) - 0.75).astype(np.float32) * 3.0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, np.where(x > 0.5, 1 / x, below).astype(np.float32))


# By file and line: threads read only what they wrote last themselves, or what nobody then writes.
REDUNDANT = {("scan.cu", 43), ("published.cu", 20), ("published.cu", 43)}


def _lines_of_barriers(case: Case, monkeypatch: pytest.MonkeyPatch, left_out: int) -> set[int]:
    """Run a case without the barrier at a line; give the lines of all that its kernel has."""
    lines = set()

    def maybe(barrier: Callable[..., None]) -> Callable[..., None]:
        def meet(*arguments: Any) -> None:
            line = next(one.lineno for one in inspect.stack(0) if one.filename.endswith(".cu"))
            lines.add(line)
            if line != left_out:
                barrier(*arguments)

        return meet

    with monkeypatch.context() as patch:
        for word in ("barrier", "warp_barrier"):
            patch.setattr(words, word, maybe(getattr(words, word)))
        file = loaded(case.file)
        file._kernels.pop(case.kernel, None)  # to be traced anew
        try:
            case.run(file, "interp:metal")
        finally:
            file._kernels.pop(case.kernel)
    return lines


def test_each_barrier_that_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both lines, unless it is redundant."""
    missing: dict[tuple[str, int], list[RaceError]] = {}
    for case in CASES:
        for line in sorted(_lines_of_barriers(case, monkeypatch, 0)):
            races = missing.setdefault((f"{case.file}.cu", line), [])
            if not races:
                try:
                    _lines_of_barriers(case, monkeypatch, line)
                except RaceError as error:
                    races.append(error)
    assert len(missing) == 39
    assert {place for place, races in missing.items() if not races} == REDUNDANT
    for (file, _), races in missing.items():
        for race in races:
            assert [name for name, _ in race.locations] == [str(FOLDER / file)] * 2


# What is wrong, and where: `^` is below the place.
WRONG = {
    "double": """\
__global__ void k(float *x) {
    x[0] = x[0] * 0.1;
           ^ Apple's GPUs have no double
}
""",
    "goto": """\
__global__ void k(int *x) {
    goto end;
    ^ GotoStmt is not translated
    end: x[1] = 2;
}
""",
    "union": """\
union Word { int a; float b; };
__global__ void k(int *x) {
    Word p;
         ^ a union is not translated
}
""",
    "pointer in a struct": """\
struct Pair {
    int *a;
    ^ a field of type int * is not translated in memory
};
__global__ void k(int *x, Pair p) {
    x[0] = p.a[0];
}
""",
    "one of two structs, changed": """\
struct Pair { int a, b; };
__global__ void k(int *x) {
    Pair p = {1, 2}, q = {3, 4};
    (x[0] > 0 ? p : q).a = 5;
     ^ a struct by ?: is copied only: give it a variable of its own
    x[1] = p.a + q.a;
}
""",
    "reference to one of two": """\
__device__ void set(int &a) { a = 1; }
__global__ void k(int *x) {
    int a = 1, b = 2;
    set(x[0] > 0 ? a : b);
        ^ a reference to this is not translated: give it a variable of its own
}
""",
    "reference to what is counted": """\
__device__ void set(int &a) { a = 1; }
__global__ void k(int *x) {
    set(++x[0]);
        ^ a reference to what an operator leaves is not translated
}
""",
    "reference to a pointer": """\
__device__ void next(int *&p) { p++; }
                     ^ a pointer that changes is no parameter by reference
__global__ void k(int *x) {
    next(x);
    x[0] = 1;
}
""",
    "clang's own": """\
__global__ void k(int *x) {
    x[0] = y;
^ use of undeclared identifier 'y'
}
""",
    "printf": """\
extern "C" __device__ int printf(const char *, ...);
__global__ void k(int *x) {
    printf("%d", x[0]);
    ^ printf is not translated
}
""",
    "integer quotient": """\
__global__ void k(float *x) {
    x[0] = 1 / 2 * 1.0;
           ^ Apple's GPUs have no double
}
""",
    "volatile field": """\
struct Flag { volatile int set; };
              ^ a field of type volatile int is not translated in memory
__global__ void k(Flag *x) {
    while (x[0].set == 0) { }
}
""",
    "static": """\
__device__ int next() {
    static int last = 0;
    ^ a static variable is not translated
    return last++;
}
__global__ void k(int *x) { x[0] = next(); }
""",
    "set twice": """\
__global__ void k(int *x, int n) {
    int *z;
    ^ a pointer that is set twice points somewhere from the start
    if (n > 0) z = x;
    else z = x + 1;
    *z = 1;
}
""",
    "enums of one name": """\
enum T { A = 300 };
namespace n { enum T : signed char { B }; }
__global__ void k(T *x) {
                  ^ a parameter of type T * is not translated
}
""",
    "structs of one name": """\
struct T { int a, b; };
namespace n { struct T { int a; }; }
__global__ void k(T *x) {
                  ^ a parameter of type T * is not translated
}
""",
    "parameter": """\
__global__ void k(double *x) {
                  ^ Apple's GPUs have no double
}
""",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_translated_is_told_at_its_line(wrong: str, tmp_path: Path) -> None:
    lines = WRONG[wrong].splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.lstrip().startswith("^")]
    column, message = lines[at].index("^") + 1, lines[at].partition("^")[2].strip()
    file = tmp_path / "wrong.cu"
    file.write_text("\n".join([*lines[:at], *lines[at + 1 :]]))
    with pytest.raises(LanguageError, match=re.escape(message)) as told:
        iris.cuda.load(file).k  # noqa: B018
    spot = told.value.spot
    assert spot is not None
    assert (spot.line, spot.column) == (at, column)
    assert str(iris.cuda.check(file)).startswith(f"wrong.cu: k: {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("int *z = n > 0 ? x : y; *z = 1;", "a pointer leads into one array, whatever the"),
        ("atomicAdd((unsigned long long *)y, 1ull);", "an array of i32 has no atomics of ulong"),
        ("atomicAdd(w, 1ull);", "atomics are of 32 bits, not of u64"),
        ("while (n--) { *x = n; x = y; }", "x starts as the pointer x, and must stay"),
        ("if (n) x = y; *x = 1;", "x starts as the pointer y, and must stay"),
        ("One s = {n}; atomicAdd(&s.a, 1);", "atomics are of arrays and __shared__ variables"),
        ("int own = n; atomicCAS(&own, 1, 2);", "atomics are of arrays and __shared__ variables"),
        ("int own = n; int *z = &own; z[n] = 1;", "leads to one variable, not to an array"),
        ("int a = 1, b = 2; *(n ? &a : &b) = 3;", "a pointer leads into one array"),
        ("x[0] = *(volatile float *)y;", "only scalars of the array's own type can be volatile"),
    ],
)
def test_what_a_trace_refuses_is_told_at_its_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.cu"
    head = "__global__ void k(int *x, int *y, unsigned long long *w, int n) {"
    file.write_text(f"struct One {{ int a; }};\n{head}\n    {line}\n}}\n")
    (told,) = iris.cuda.check(file)
    assert told.why is not None
    assert message in told.why
    assert f"{file}:3" in told.why


def test_accesses_out_of_bounds_and_masks_of_some_lanes_are_told_at_their_lines(
    tmp_path: Path,
) -> None:
    file = tmp_path / "beyond.cu"
    file.write_text(
        "__global__ void beyond(const int *x, int *out) {\n"
        "    out[threadIdx.x] = x[threadIdx.x + 1];\n"
        "}\n"
        "__global__ void some(int *x) {\n"
        "    x[0] = __shfl_sync(0xffff, x[0], 0);\n"
        "}\n"
    )
    loaded = iris.cuda.load(file)
    x = ints(32)
    with pytest.raises(ProgramError, match="32") as told:
        loaded.beyond[1, 32](x, x.copy(), device="interp:metal")
    assert told.value.locations == ((str(file), 2),)
    with pytest.raises(LanguageError, match="all lanes take part") as refused:
        loaded.some[1, 32](x, device="interp:metal")
    assert f"{file}:5:12" in str(refused.value)


def test_launches_and_names_are_checked(tmp_path: Path) -> None:
    reductions = loaded("reduction")
    x, out = floats(64), np.zeros(1, np.float32)
    with pytest.raises(ArgumentError, match="launch it with its bytes"):
        reductions.interleaved[1, 64](x, out, 64, device="interp:metal")
    with pytest.raises(ArgumentError, match=r"interleaved\[grid, block\]"):
        reductions.interleaved[1]
    with pytest.raises(ArgumentError, match=r"no kernel 'sums'; there are: .*unrolled<\.\.\.>"):
        reductions.sums  # noqa: B018
    with pytest.raises(ArgumentError, match="no instance of the template"):
        reductions["unrolled<float>"]
    with pytest.raises(FileError, match="there is no file"):
        iris.cuda.load(tmp_path / "none.cu")
    with pytest.raises(FileError, match=r"no \.cu files"):
        iris.cuda.check(tmp_path)


def test_headers_of_libraries_may_be_missing_but_no_others(tmp_path: Path) -> None:
    file = tmp_path / "headers.cu"
    file.write_text(
        "#include <some/library.h>\n__global__ void k(int *locals) { locals[0] = 4 * 0.5; }\n"
    )
    out = np.zeros(1, np.int32)
    iris.cuda.load(file).k[1, 1](out, device="interp:metal")
    assert out == [2]
    file.write_text('int x;\n#include "mine.h"\n__global__ void k(int *x) { x[0] = 2; }\n')
    with pytest.raises(LanguageError, match=r"'mine\.h' file not found") as told:
        iris.cuda.load(file)
    assert f"{file}:2" in str(told.value)
    assert "all kernels: 'mine.h' file not found" in str(iris.cuda.check(file))


def test_variables_of_the_file_are_arrays() -> None:
    file = iris.cuda.load(FOLDER / "stencil.cu")
    x, out, taps = floats(40), np.zeros(40, np.float32), floats(2, 3)
    with pytest.raises(ArgumentError, match=r"set file\.symbols\['\w+'\]"):
        file.filtered[2, 32](x, out, 40, device="interp:metal")
    uses = np.zeros(1, np.int32)
    file.symbols.update(taps=taps, rounds=np.array([3], np.int32), uses=uses)
    file.filtered[2, 32](x, out, 40, device="interp:metal")
    np.testing.assert_allclose(out[1:-1], 3 * np.correlate(x, taps[1]), 1e-5)
    assert uses == [38]


def test_a_folder_is_checked() -> None:
    report = iris.cuda.check(FOLDER / "matmul.cu")
    assert [(one.kernel, one.why is None) for one in report] == [
        ("columns", True),
        ("tiled", False),
    ]
    assert str(report).endswith("1 of 2 kernels are translated")
