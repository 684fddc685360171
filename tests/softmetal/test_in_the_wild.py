"""Whole texts of the kinds that other programs bring, against NumPy: `wild/` has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msl import Library
from numpy.typing import NDArray

Array = NDArray[Any]
SEEDS = (0, 1, 2)
F32 = np.float32


@cache
def wild(name: str) -> Library:
    return Library.compile((Path(__file__).parent / "wild" / f"{name}.metal").read_text())


def bfloat(x: Array) -> Array:
    bits = np.ascontiguousarray(x, F32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(x: Array) -> Array:
    return (x.astype(np.uint32) << 16).view(F32)


rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(F32)


def integers(count: int, dtype: Any, low: int = 0, high: int = 100) -> Array:
    return rng.integers(low, high, count).astype(dtype)


# Arrays.


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize("each", [1, 4])
def test_maps(each: int) -> None:
    name = "map" if each == 1 else "map4"
    count, threads = 101, -(-101 // each)
    size = np.array([count], np.uint32)
    for kind, dtype in (("float", F32), ("int", np.int32)):
        x = integers(count, dtype, -50, 50)
        y = np.zeros_like(x)
        wild("arrays").run(f"{name}_Square_{kind}", [x, y, size], threads, 32)
        assert (y == x * x).all()
    z = (normal(count) + 1j * normal(count)).astype(np.complex64)
    y = np.zeros_like(z)
    wild("arrays").run(f"{name}_Square_complex_t", [z, y, size], threads, 32)
    np.testing.assert_allclose(y, z * z, rtol=1e-5)
    x = normal(count)
    h, out = x.astype(np.float16), np.zeros(count, np.float16)
    wild("arrays").run(f"{name}_Logistic_float16_t", [h, out, size], threads, 32)
    np.testing.assert_allclose(out, logistic(h), rtol=3e-3)
    b, made = bfloat(x), np.zeros(count, np.uint16)
    wild("arrays").run(f"{name}_Logistic_bfloat16_t", [b, made, size], threads, 32)
    np.testing.assert_allclose(widened(made), logistic(widened(b)), rtol=3e-2)


def test_strides() -> None:
    base = normal(5, 4, 3, 2)
    view = base.transpose(2, 0, 3, 1)
    shape = np.array(view.shape, np.int32)
    strides = np.array(view.strides, np.int64) // 4
    out = np.zeros(view.shape, F32)
    grid = (view.shape[3], view.shape[2], view.shape[0] * view.shape[1])
    library = wild("arrays")
    library.run("strided", [base, out, shape, strides, np.array([4], np.int32)], grid, (2, 2, 2))
    np.testing.assert_allclose(out, view * view, rtol=1e-6)


def test_zips() -> None:
    a, b, c = normal(6, 8), normal(8, 6), np.zeros((6, 8), F32)
    a[0, 0], b[0, 0], a[1, 1], b[2, 2] = -np.inf, -np.inf, np.nan, np.inf
    strides = [np.array([8, 1], np.int64), np.array([1, 6], np.int64)]
    wild("arrays").run("log_plus", [a, b, c, *strides], (8, 6), (4, 3))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(c, np.logaddexp(a, b.T), rtol=1e-5, atol=1e-6)
    x, y = (normal(6, 8) + 1j * normal(6, 8)).astype(np.complex64), np.ones((8, 6), np.complex64)
    z = np.zeros((6, 8), np.complex64)
    wild("arrays").run("plus_complex", [x, y, z, *strides], (8, 6), (4, 3))
    assert (z == x + 1).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [32, 96, 256])
def test_row_reductions(threads: int, seed: int) -> None:
    rows, columns = 3, 333
    size = np.array([columns], np.uint64)

    def run(name: str, x: Array, dtype: Any) -> Array:
        out = np.zeros(rows, dtype)
        wild("arrays").run(name, [x, out, size], rows * threads, threads, seed=seed)
        return out

    x = normal(rows, columns)
    np.testing.assert_allclose(run("sum_float", x, F32), x.sum(1), rtol=1e-4, atol=1e-4)
    b = bfloat(x)
    np.testing.assert_allclose(run("sum_bfloat", b, F32), widened(b).sum(1), rtol=1e-4, atol=1e-4)
    u = rng.integers(0, 256, (rows, columns)).astype(np.uint8)
    assert (run("sum_uchar", u, np.int32) == u.sum(1, dtype=np.int32)).all()
    h = -np.abs(x).astype(np.float16)
    assert (run("max_half", h, np.float16) == h.max(1)).all()
    i = rng.integers(-1000, -10, (rows, columns)).astype(np.int32)
    assert (run("max_int", i, np.int32) == i.max(1)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffles_of_more_types(seed: int) -> None:
    x = rng.integers(0, 2**63, 32).astype(np.uint64)
    z = (normal(32) + 1j * normal(32)).astype(np.complex64)
    b = rng.integers(0, 2, 32).astype(np.uint8)
    y, w, c = x.copy(), z.copy(), b.copy()
    wild("arrays").run("shuffles", [y, w, c], 32, 32, seed=seed)
    assert (y[:31] == x[1:]).all() and (c[:31] == b[1:]).all()
    moved = np.append(z[1:], z[31]) + 1
    np.testing.assert_allclose(w, moved + 0.5 + 1j * moved.real, rtol=1e-6)


def test_steps() -> None:
    for kind, dtype in (("uint8_t", np.uint8), ("float16_t", np.float16)):
        out = np.zeros(20, dtype)
        wild("arrays").run(
            f"steps_{kind}", [np.array([3], dtype), np.array([2], dtype), out], 20, 8
        )
        assert (out == np.arange(20) * 2 + 3).all()


# Models.


def arguments(columns: int, rows: int, row_bytes: int, out_columns: int, epsilon: float) -> Array:
    made = np.zeros(40, np.uint8)
    made[:8].view(np.int32)[:] = [columns, rows]
    made[8:16].view(np.uint64)[:] = row_bytes
    made[16:20].view(np.int32)[:] = out_columns
    made[24:32].view(np.uint64)[:] = out_columns * 4
    made[32:36].view(F32)[:] = epsilon
    return made


def packed(x: Array) -> tuple[Array, Array]:
    """Rows as blocks of a half and 32 nibbles, and what these stand for."""
    blocks = x.reshape(len(x), -1, 32)
    scale = (np.abs(blocks).max(2) / 7).astype(np.float16)
    codes = np.clip(np.rint(blocks / scale[:, :, None].astype(F32)) + 8, 0, 15).astype(np.uint8)
    made = np.zeros((*blocks.shape[:2], 18), np.uint8)
    made[:, :, :2] = scale[:, :, None].view(np.uint8)
    made[:, :, 2:] = codes[:, :, :16] | codes[:, :, 16:] << 4
    values = (codes.astype(F32) - 8) * scale[:, :, None].astype(F32)
    return made.reshape(len(x), -1), values.reshape(x.shape)


def test_packed_rows_are_picked() -> None:
    x = normal(10, 64)
    blocks, values = packed(x)
    picked = np.array([7, 0, 3], np.int32)
    for name, table, want in (("nibbles", blocks, values), ("plain", x, x)):
        out = np.zeros((3, 64), F32)
        args = arguments(64, 10, table.strides[0], 64, 0)
        wild("models").run(f"pick_rows_{name}", [args, table, picked, out], 3 * 4, 4)
        np.testing.assert_allclose(out, want[picked], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_packed_matrices_are_multiplied(seed: int) -> None:
    a, b = normal(64, 96), normal(32, 96)
    blocks, values = packed(a)
    plain = wild("models").specialize(_200=("b", np.uint8(1)), FC_scale=("s", np.int16(1)))
    for library, name, data, want, element in (
        (plain, "multiply_plain", a, a.astype(np.float16).astype(F32), 2),
        (wild("models"), "multiply_nibbles", blocks, values, 4),
    ):
        out = np.zeros((64, 32), F32)
        args = arguments(96, 64, data.strides[0], 32, 0)
        shared = 32 * 16 * (element + 4)
        library.run(
            name, [args, data, b, out], (128, 2), (128, 1), threadgroup_bytes=[shared], seed=seed
        )
        np.testing.assert_allclose(out, want @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_layers(seed: int) -> None:
    x = normal(4, 256)
    y = np.zeros_like(x)
    wild("models").run("gelu", [x, y], x.size, 64)
    want = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x * x)))
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-6)
    kinds: tuple[tuple[str, Any, float], ...]
    kinds = (("norm_f32", F32, 1e-5), ("norm_f16", np.float16, 2e-3))
    for name, dtype, bound in kinds:
        data = x.astype(dtype)
        out = np.zeros_like(data)
        args = arguments(256, 4, data.strides[0], 256, 1e-5)
        args[24:32].view(np.uint64)[:] = data.strides[0]
        wild("models").run(name, [args, data, out], 4 * 64, 64, threadgroup_bytes=[128], seed=seed)
        wide = data.astype(np.float64)
        want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(out, want, rtol=bound)
    for name, order in (("up", 1), ("down", -1)):
        places = np.zeros((4, 256), np.int32)
        args = arguments(256, 4, 1024, 256, 0)
        wild("models").run(
            f"sort_rows_{name}", [args, x, places], (256, 4), (256, 1),
            threadgroup_bytes=[1024], seed=seed,
        )  # fmt: skip
        assert (places == np.argsort(x * order, axis=1)).all()
    vector = normal(256)
    matrices: tuple[tuple[str, Array, Array], ...] = (
        ("matvec_f16", x.astype(np.float16), x.astype(np.float16)),
        ("matvec_bf16", bfloat(x), widened(bfloat(x))),
    )
    for name, data, values in matrices:
        sums = np.zeros(4, F32)
        args = arguments(256, 4, data.strides[0], 0, 0)
        wild("models").run(name, [args, data, vector, sums], 2 * 32, 32, seed=seed)
        np.testing.assert_allclose(sums, values.astype(F32) @ vector, rtol=1e-4, atol=1e-4)


def test_rotations_and_tables() -> None:
    x = normal(6, 8, 2)
    y = np.zeros_like(x)
    wild("models").run(
        "rotate_pairs", [x, y, np.array([100], F32), np.array([8], np.int32)], (8, 6), (4, 2)
    )
    angle = np.arange(6)[:, None] * 100.0 ** -(np.arange(8) / 8)
    turned = (x[..., 0] + 1j * x[..., 1]) * np.exp(1j * angle)
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], turned, rtol=1e-5, atol=1e-5)
    blocks = np.zeros((4, 8), np.uint8)
    halves = np.array([[2, 3]] * 4, np.float16)
    blocks[:, :4] = halves.view(np.uint8)
    blocks[:, 4:6] = [[0x80, 0], [0x1F, 0x40], [9, 0xC0], [0, 0x80]]
    out = np.zeros(4, F32)
    wild("models").run("look_up", [blocks, out], 4, 4)
    assert (out == [-254 + 3, 226 + 6, 26 + 12, -254 + 9]).all()


# Tensors.


def test_functors() -> None:
    x = normal(24)
    i = integers(24, np.int32, -5, 5)
    z = (normal(24) + 1j * normal(24)).astype(np.complex64)
    sizes, axes = np.array([4, 3, 2], np.int64), np.array([3], np.uint32)
    for kind, data in (("float", x), ("int", i), ("float2", z)):
        dtype = F32 if kind == "int" else data.dtype
        out = np.zeros(24, dtype)
        wild("tensors").run(f"exp_dense_{kind}", [out, data], 24, 8)
        np.testing.assert_allclose(out, np.exp(data), rtol=1e-5)
        # As sizes 4, 3, 2 from the fastest axis; written with the axes the other way round.
        strides = np.array([1, 4, 12], np.int64), np.array([6, 2, 1], np.int64)
        wild("tensors").run(f"exp_strided_{kind}", [out, data, sizes, *strides, axes], 24, 8)
        want = np.exp(data).reshape(2, 3, 4).transpose(2, 1, 0)
        np.testing.assert_allclose(out.reshape(4, 3, 2), want, rtol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [32, 128])
def test_normalised_rows(threads: int, seed: int) -> None:
    x = normal(3, 200) * 3 + 1
    size, epsilon = np.array([200], np.uint32), np.array([1e-5], F32)
    for kind, data, bound in (("float", x, 1e-4), ("bfloat", bfloat(x), 2e-2)):
        wide = x if kind == "float" else widened(data)
        out = np.zeros_like(data)
        wild("tensors").run(
            f"normalize_{kind}", [out, data, size, epsilon], 3 * threads, threads, seed=seed
        )
        want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
        got = out if kind == "float" else widened(out)
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound)


def test_adding_where_told() -> None:
    where = rng.integers(0, 9, 500)
    for kind, dtype in (("float", F32), ("int", np.int32), ("half", np.float16)):
        x = integers(500, dtype, 0, 8)
        out = np.zeros(10, dtype)
        wild("tensors").run(f"add_at_{kind}", [out, where, x], 500, 64)
        assert (out == np.bincount(where, x, 10)).all()


def test_random_bits() -> None:
    out = np.zeros((64, 4), np.uint32)
    seed, base = 12345678901234, 99
    wild("tensors").run("random_bits", [out, np.array([seed, base], np.int64)], 64, 32)
    for at in (0, 63):
        c = [0, 0, *((base + at) >> s & 0xFFFFFFFF for s in (0, 32))]
        key = [seed >> s & 0xFFFFFFFF for s in (0, 32)]
        for _ in range(10):
            x, z = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [z >> 32 ^ c[1] ^ key[0], z & 0xFFFFFFFF, x >> 32 ^ c[3] ^ key[1], x & 0xFFFFFFFF]
            key = [(k + s) & 0xFFFFFFFF for k, s in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)]
        assert list(out[at]) == c
    a, b = np.arange(-9, 9, dtype=np.int32), np.arange(-9, 9, dtype=F32)
    c, d = a.copy(), b.copy()
    wild("tensors").run("divide", [c, d], 18, 6)
    assert (c == a // 3 + np.maximum(a, 2)).all()
    assert (d == np.floor(b / 3) + np.maximum(b, 2)).all()


# Programs.


def addresses(*arrays: Array) -> list[int]:
    return [a.ctypes.data for a in arrays]


def test_pointers_in_structs() -> None:
    x, y, counter = np.zeros(8, F32), np.arange(8, dtype=F32), np.zeros(4, np.int32)
    more = [np.full(8, k, F32) for k in (100, 200, 300, 400)]
    pointers = np.array([*addresses(x, y), 6, *addresses(counter)], np.uint64)
    tables = np.array(addresses(*more), np.uint64)
    wild("programs").run("by_pointers", [pointers, tables], 8, 4)
    assert (x == np.where(np.arange(8) < 6, y * 2 + 600, 0)).all()
    assert counter[0] == 7


@pytest.mark.parametrize("seed", SEEDS)
def test_algorithms(seed: int) -> None:
    bodies = normal(64, 4)
    out = np.zeros((64, 3), F32)
    program = wild("programs")
    program.run("nbody", [bodies, out, np.array([64], np.uint32)], 64, 32, seed=seed)
    d = bodies[None, :, :3].astype(np.float64) - bodies[:, None, :3]
    pull = bodies[None, :, 3] / ((d * d).sum(2) + 0.01) ** 1.5
    np.testing.assert_allclose(out, (d * pull[:, :, None]).sum(1), rtol=1e-3, atol=1e-3)

    image = np.zeros((12, 20, 4), np.uint8)
    program.run("mandelbrot", [image, np.array([-2, -1, 3, 2], F32)], (20, 12), (8, 4), seed=seed)
    x, y = np.arange(20, dtype=F32) / F32(20) * F32(3) - F32(2), np.arange(12, dtype=F32) / F32(12)
    c = x[None, :] + 1j * (y * F32(2) - F32(1))[:, None]
    z, count = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(64):
        inside = np.abs(z) < 2
        z, count = np.where(inside, z * z + c, z), count + inside
    assert (np.abs(image[:, :, 0].astype(int) - count) <= 1).mean() > 0.97
    assert (image[:, :, 3] == 255).all() and (image[:, :, 1] == image[:, :, 0] * 2).all()

    a, v, w = np.array([2.5], F32), normal(50), normal(50)
    made = w.copy()
    program.run("axpy", [a, v, made], 50, 16, seed=seed)
    np.testing.assert_allclose(made, a * v + w, rtol=1e-6, atol=1e-6)

    data, bins = rng.integers(0, 256, 4096).astype(np.uint8), np.zeros(256, np.uint32)
    program.run("histogram", [data, bins], 4096, 128, seed=seed)
    assert (bins == np.bincount(data, minlength=256)).all()

    n, sums = integers(512, np.uint32), np.zeros(512, np.uint32)
    program.run("scan", [n, sums], 128, 128, seed=seed)
    assert (sums == np.cumsum(n)).all()

    keys = rng.integers(0, 2**32, 128).astype(np.uint32)
    wanted = np.sort(keys)
    program.run("bitonic", [keys], 128, 128, seed=seed)
    assert (keys == wanted).all()

    values, best = integers(128, F32, 0, 30), np.zeros(1, np.uint32)
    program.run("argmax", [values, best], 128, 128, seed=seed)
    assert best[0] == values.argmax()


@pytest.mark.parametrize("seed", SEEDS)
def test_odds_and_ends(seed: int) -> None:
    y, counter, fixed = np.zeros((32, 32), F32), np.array([40], np.int32), np.array([5], np.int32)
    uniforms = np.zeros(96, np.uint8)
    uniforms[:64].view(F32)[:] = np.diag([1, 2, 3, 4]).ravel()
    uniforms[64:76].view(F32)[:] = [9, 1, 1]
    uniforms[80:84].view(np.uint32)[:] = 2
    uniforms[84:88].view(np.float16)[:] = [1, 6]
    uniforms[88] = 1
    big = np.array([0, 2**63], np.uint64)
    wild("programs").run("odds", [y, counter, uniforms, big, fixed], 32, 32, seed=seed)
    tenth = float(np.float16(0.1))
    want = np.array([
        1 + 8 + 9 + 3 + 2, 3 + tenth + 5 - 1, 725, 4 + 10 * 9, 10 + 2 + 6 + 0.5, 8, 0, 626,
        9 + 100 * 17, 4 + 9 + 2 + 3, 1.5 + 1 + 0.5 - 1 + 0.25 + 1.5, 8 + 3 + 31 + 2 + 3 + 2 - 1,
        0, 0x55, 64, 1,
    ])  # fmt: skip
    i = np.arange(32)
    expected = np.zeros((32, 32))
    expected[:, :16] = want
    expected[:, 6] = np.choose(i % 4, [3, 2, -1, -1])
    expected[:, 12] = 4 + (i + 1) % 32 + 2 + 1 + 1
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert counter[0] == 42 and (big == [31 << 40, 1 << 40]).all()
