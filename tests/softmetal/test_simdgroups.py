# ruff: noqa: E501  (MSL in strings)
"""What threads do together, against NumPy, in several orders of threads."""

from __future__ import annotations

import numpy as np
import pytest
from msl import Kernels, Library

from iris.ir.layout.linear import APPLE_FRAGMENT

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
LANES = np.arange(64) % 32
FIRST = np.arange(64) // 32 * 32


def by_simdgroup(f):  # type: ignore[no-untyped-def]
    return lambda x: np.concatenate([f(x[:32]), f(x[32:])])


def by_quad(f):  # type: ignore[no-untyped-def]
    return lambda x: np.concatenate([f(q) for q in x.reshape(16, 4)])


def everywhere(f):  # type: ignore[no-untyped-def]
    return lambda x: np.full_like(x, f(x))


def fill_up(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.concatenate([s[-3:] + 100, s[:-3]]) for s in x.reshape(8, 8)])


def fill_down(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.concatenate([s[3:], s[:3] + 100]) for s in x.reshape(8, 8)])


EXCHANGES = {
    "quad_shuffle_and_fill_up(x, x + 100, 1)": by_quad(lambda q: np.append(q[3:] + 100, q[:3])),
    "quad_shuffle_and_fill_down(x, x + 100, 3)": by_quad(lambda q: np.append(q[3:], q[:3] + 100)),
    "simd_sum(x)": by_simdgroup(everywhere(np.sum)),
    "simd_product(x < 4 ? 1 : 2)": by_simdgroup(lambda x: np.full_like(x, np.prod(np.where(x < 4, 1, 2)))),
    "simd_min(x)": by_simdgroup(everywhere(np.min)),
    "simd_max(x)": by_simdgroup(everywhere(np.max)),
    "simd_and(uint(x))": by_simdgroup(everywhere(lambda x: np.bitwise_and.reduce(x.astype(int)))),
    "simd_or(uint(x))": by_simdgroup(everywhere(lambda x: np.bitwise_or.reduce(x.astype(int)))),
    "simd_xor(uint(x))": by_simdgroup(everywhere(lambda x: np.bitwise_xor.reduce(x.astype(int)))),
    "simd_prefix_inclusive_sum(x)": by_simdgroup(np.cumsum),
    "simd_prefix_exclusive_sum(x)": by_simdgroup(lambda x: np.cumsum(x) - x),
    "simd_shuffle(x, 31 - lane)": lambda x: x[FIRST + 31 - LANES],
    "simd_shuffle_xor(x, 5)": lambda x: x[FIRST + (LANES ^ 5)],
    "simd_shuffle_up(x, 3)": lambda x: x[FIRST + np.where(LANES < 3, LANES, LANES - 3)],
    "simd_shuffle_down(x, 3)": lambda x: x[FIRST + np.where(LANES > 28, LANES, LANES + 3)],
    "simd_shuffle_rotate_up(x, 3)": lambda x: x[FIRST + (LANES - 3) % 32],
    "simd_shuffle_rotate_down(x, 3)": lambda x: x[FIRST + (LANES + 3) % 32],
    "simd_shuffle_and_fill_up(x, x + 100, 3, 8)": fill_up,
    "simd_shuffle_and_fill_down(x, x + 100, 3, 8)": fill_down,
    "simd_shuffle_xor(float3(x, 0, i), 1).z": lambda x: np.arange(64) ^ 1,
    "float(simd_shuffle_xor(bfloat(x), 1))": lambda x: x[np.arange(64) ^ 1],
    "simd_broadcast(x, 7)": lambda x: x[FIRST + 7],
    "simd_broadcast_first(x)": lambda x: x[FIRST],
    "ulong(simd_ballot(lane % 3 == 0)) == 0x49249249": lambda x: x * 0 + 1,
    "simd_all(lane < 32) + 2 * simd_any(i == 40) + 4 * simd_is_first()":
        lambda x: 1 + 2 * (FIRST == 32) + 4 * (LANES == 0),
    "lane < 5 ? simd_sum(x) : 0": by_simdgroup(lambda x: np.where(np.arange(32) < 5, x[:5].sum(), 0)),
    "popcount(ulong(simd_active_threads_mask()))": lambda x: x * 0 + 32,
    "quad_sum(x)": by_quad(everywhere(np.sum)),
    "quad_max(x)": by_quad(everywhere(np.max)),
    "quad_prefix_exclusive_sum(x)": by_quad(lambda x: np.cumsum(x) - x),
    "quad_shuffle_xor(x, 3)": by_quad(lambda x: x[::-1]),
    "quad_shuffle_up(x, 1)": by_quad(lambda x: x[[0, 0, 1, 2]]),
    "quad_shuffle_down(x, 1)": by_quad(lambda x: x[[1, 2, 3, 3]]),
    "quad_broadcast(x, 2)": by_quad(lambda x: x[[2, 2, 2, 2]]),
    "uint(quad_ballot(lane % 2))": lambda x: x * 0 + 10,
    "quad_all(lane >= 4) + 2 * quad_any(lane == 5)": lambda x: (LANES >= 4) + 2 * (LANES // 4 == 1),
}  # fmt: skip
TWO_BRANCHES = "lane < 10 ? simd_sum(x) : simd_sum(x * 2)"


def kernel(name: str, expression: str) -> str:
    return (
        f"kernel void {name}(device float* X [[buffer(0)]], uint i [[thread_position_in_grid]],"
        f" ushort lane [[thread_index_in_simdgroup]]) {{ float x = X[i]; X[i] = {expression}; }}"
    )


KERNELS = Kernels(HEAD, kernel, [*EXCHANGES, TWO_BRANCHES])


def run(expression: str, x: np.ndarray, seed: int = 1) -> np.ndarray:
    y = x.copy()
    KERNELS.run(expression, [y], 64, 64, seed=seed)
    return y


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("expression", EXCHANGES)
def test_lanes_exchange(expression: str, seed: int) -> None:
    x = np.random.default_rng(0).integers(0, 5, 64).astype(np.float32)
    np.testing.assert_array_equal(run(expression, x, seed), EXCHANGES[expression](x))


def test_two_branches_on_one_line_do_not_meet() -> None:
    x = np.ones(64, np.float32)
    both = run(TWO_BRANCHES, x)
    assert (both == np.where(LANES < 10, 10, 44)).all()


def test_the_lane_map() -> None:
    library = Library.compile(
        HEAD
        + """
kernel void k(device const float* X [[buffer(0)]], device float* Y [[buffer(1)]],
              ushort lane [[thread_index_in_simdgroup]]) {
    simdgroup_float8x8 m;
    simdgroup_load(m, X, 8);
    Y[lane * 2] = m.thread_elements()[0];
    Y[lane * 2 + 1] = m.thread_elements()[1];
}"""
    )
    x, y = np.arange(64, dtype=np.float32), np.zeros((32, 2), np.float32)
    library.run("k", [x, y], 32, 32)
    for lane, element in np.ndindex(32, 2):
        row, column = APPLE_FRAGMENT.apply(register=element, lane=lane)
        assert y[lane, element] == row * 8 + column


@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("half", np.float16)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_matrices(name: str, dtype: type, transposed: bool) -> None:
    flag = "true" if transposed else "false"
    library = Library.compile(
        HEAD
        + f"""
kernel void k(device const {name}* A [[buffer(0)]], device const {name}* B [[buffer(1)]],
              device {name}* C [[buffer(2)]]) {{
    simdgroup_matrix<{name}, 8, 8> a, b, c = make_filled_simdgroup_matrix<{name}, 8, 8>(0);
    simdgroup_matrix<{name}, 8, 8> twice = simdgroup_matrix<{name}, 8, 8>(2);
    for (int k = 0; k < 24; k += 8) {{
        simdgroup_load(a, A, 24, ulong2(k, 0), false);
        simdgroup_load(b, B + k * {"1" if transposed else "16"}, {24 if transposed else 16}, ulong2(0, 0), {flag});
        simdgroup_multiply_accumulate(c, a, b, c);
    }}
    simdgroup_multiply(c, c, twice);
    simdgroup_store(c, C, 8, 0, {flag});
}}"""
    )
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (8, 24)).astype(dtype), rng.integers(-3, 4, (24, 16)).astype(dtype)
    c = np.zeros((8, 8), dtype)
    passed = np.ascontiguousarray(b.T) if transposed else b
    library.run("k", [a, passed, c], 32, 32)
    want = a.astype(np.float32) @ b.astype(np.float32)[:, :8] * 2
    assert (c == (want.T if transposed else want)).all()


@pytest.mark.parametrize(
    ("type_", "dtype", "operation", "want"),
    [
        ("int", np.int32, "fetch_add", 2016 + 3),
        ("uint", np.uint32, "fetch_max", 63),
        ("int", np.int32, "fetch_min", 0),
        ("uint", np.uint32, "fetch_or", 63),
        ("float", np.float32, "fetch_add", 2016 + 3),
        ("float", np.float32, "fetch_sub", 3 - 2016),
    ],
)
def test_atomics(type_: str, dtype: type, operation: str, want: float) -> None:
    library = Library.compile(
        HEAD
        + f"kernel void k(device atomic<{type_}>* X [[buffer(0)]], uint i [[thread_position_in_grid]]) {{"
        f" atomic_{operation}_explicit(X, i, memory_order_relaxed); }}"
    )
    x = np.array([3], dtype)
    library.run("k", [x], 64, 8)
    assert x[0] == want


def test_compare_and_exchange_and_64_bits() -> None:
    library = Library.compile(
        HEAD
        + """
kernel void k(device atomic_uint* X [[buffer(0)]], device atomic_ulong* Y [[buffer(1)]],
              device atomic_bool* Z [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    uint seen = atomic_load_explicit(X, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(X, &seen, seen * 2 + 1, memory_order_relaxed, memory_order_relaxed)) {}
    atomic_max_explicit(Y, ulong(i) << 33, memory_order_relaxed);
    atomic_min_explicit(Y + 1, ulong(i) << 33, memory_order_relaxed);
    if (i == 5) atomic_store_explicit(Z, true, memory_order_relaxed);
    atomic_thread_fence(mem_flags::mem_device);
}"""
    )
    x, y, z = np.zeros(1, np.uint32), np.array([0, 2**63], np.uint64), np.zeros(1, np.uint8)
    library.run("k", [x, y, z], 20, 4)
    assert (x[0], y[0], y[1], z[0]) == (2**20 - 1, 19 << 33, 0, 1)
