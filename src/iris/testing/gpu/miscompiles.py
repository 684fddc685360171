"""The shapes of code that Apple's compiler is known to have got wrong.

Arrays that a loop swaps, one of them through `tanh`; remainders of shifted and of large integers
[PyTorch: pull request 175481; Bend: issue 824]; arrays of matrices that are passed to a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.runtime.device import Device
from iris.runtime.messages import MathMode
from iris.testing.gpu.by_hand import MODES, none_of, run

Array = npt.NDArray[Any]

_TEXT = """
kernel void swapped_arrays(device const float* X [[buffer(0)]],
                           device const int* Steps [[buffer(1)]],
                           device float* Out [[buffer(2)]],
                           uint lane [[thread_index_in_threadgroup]]) {
    float a[8], b[8], was[8];
    for (uint i = 0; i < 8; i++) {
        a[i] = X[lane * 16 + i];
        b[i] = X[lane * 16 + 8 + i];
    }
    for (int step = 0; step < Steps[0]; step++) {
        for (uint i = 0; i < 8; i++) was[i] = a[i];
        for (uint i = 0; i < 8; i++) a[i] = precise::tanh(b[i]);
        for (uint i = 0; i < 8; i++) b[i] = was[i];
    }
    for (uint i = 0; i < 8; i++) {
        Out[lane * 16 + i] = a[i];
        Out[lane * 16 + 8 + i] = b[i];
    }
}

kernel void shifted_remainders(device const int* X [[buffer(0)]], device int* Out [[buffer(1)]],
                               uint lane [[thread_index_in_threadgroup]]) {
    int x = X[lane];
    Out[lane * 2] = (x >> 16) % 6;
    Out[lane * 2 + 1] = x / 65536 % 6;
}

kernel void large_remainders(device const uint* X [[buffer(0)]], device const uint* Y [[buffer(1)]],
                             device uint* Out [[buffer(2)]],
                             uint lane [[thread_index_in_threadgroup]]) {
    uint x = X[lane], y = Y[lane];
    Out[lane * 4] = x % y;
    Out[lane * 4 + 1] = x / y;
    Out[lane * 4 + 2] = x % 7u;
    Out[lane * 4 + 3] = x % 65537u;
}

void add_products(thread simdgroup_float8x8* sums, thread const simdgroup_float8x8* a,
                  thread const simdgroup_float8x8* b) {
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            simdgroup_multiply_accumulate(sums[i * 2 + j], a[i], b[j], sums[i * 2 + j]);
        }
    }
}

kernel void passed_matrices(device const float* A [[buffer(0)]],
                            device const float* B [[buffer(1)]],
                            device float* Out [[buffer(2)]]) {
    simdgroup_float8x8 sums[4], a[2], b[2];
    for (int i = 0; i < 4; i++) sums[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k = 0; k < 16; k += 8) {
        for (int i = 0; i < 2; i++) simdgroup_load(a[i], A + i * 8 * 16 + k, 16);
        for (int j = 0; j < 2; j++) simdgroup_load(b[j], B + k * 16 + j * 8, 16);
        add_products(sums, a, b);
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) simdgroup_store(sums[i * 2 + j], Out + i * 8 * 16 + j * 8, 16);
    }
}
"""

_STEPS = 5


def known_miscompiles_are_right(device: Device) -> str:
    """Each shape, in each math mode."""
    wrong, count = [], 0
    for mode in MODES:
        for entry, arrays, expected in _shapes():
            out = np.zeros_like(expected)
            run(device, _TEXT, entry, [*arrays, out], mode)
            # `tanh` may be off by a few units of the last place; all else is exact.
            near = np.isclose(out, expected, rtol=1e-4 if entry == "swapped_arrays" else 0, atol=0)
            if not near.all():
                wrong.append(_what(entry, mode, out, expected, near))
            count += 1
    none_of(wrong)
    return f"{count // len(MODES)} shapes in {len(MODES)} math modes"


def _shapes() -> Iterator[tuple[str, list[Array], Array]]:
    """For each kernel what it reads, and what it must write."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 2, (32, 2, 8)).astype(np.float32)
    a, b = x[:, 0].astype(np.float64), x[:, 1].astype(np.float64)
    for _ in range(_STEPS):
        a, b = np.tanh(b), a
    swapped = np.stack([a, b], axis=1).astype(np.float32)
    yield "swapped_arrays", [x, np.array([_STEPS], np.int32)], swapped
    whole = rng.integers(0, 2**31, 32, dtype=np.int32)
    parts = (whole >> 16) % 6
    yield "shifted_remainders", [whole], np.stack([parts, parts], axis=1)
    large = rng.integers(2**31, 2**32, 32, dtype=np.uint32)
    large[:3] = 2**32 - 1, 2**31, 2**32 - 2
    by = rng.integers(1, 2**32, 32, dtype=np.uint32) >> rng.integers(0, 31, 32, dtype=np.uint32) | 1
    remainders = [large % by, large // by, large % np.uint32(7), large % np.uint32(65537)]
    yield "large_remainders", [large, by], np.stack(remainders, axis=1)
    m, n = rng.integers(-9, 9, (2, 16, 16)).astype(np.float32)
    yield "passed_matrices", [m, n], m @ n


def _what(entry: str, mode: MathMode, out: Array, expected: Array, near: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(~near)[0])
    return (
        f"{entry.replace('_', ' ')} in mode {mode.name.lower()}: {out[at]} where it must be "
        f"{expected[at]}, at {list(at)} and {int((~near).sum()) - 1} more places"
    )
