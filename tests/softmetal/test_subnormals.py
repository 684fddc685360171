"""Where softmetal takes subnormal floats for zero, as Apple's GPUs do, those of halves stay."""

from __future__ import annotations

import numpy as np
import pytest
from msl import Library

TEXT = """\
#include <metal_stdlib>
using namespace metal;
kernel void k(device float* F [[buffer(0)]], device half* H [[buffer(1)]],
              device ushort* B [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    F[i] = F[i] * 0.5f;
    F[i + 64] = F[i + 64] + 0.0f;
    H[i] = H[i] * 0.5h;
    B[i] = as_type<ushort>(bfloat(as_type<bfloat>(B[i]) * 0.5f));
}
"""


@pytest.mark.parametrize("flush", [False, True])
def test_subnormals(flush: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_SOFTMETAL_FLUSH", str(int(flush)))
    smallest, tiny = np.float32(2.0**-126), np.float32(2.0**-130)
    floats = np.repeat([smallest, tiny], 64).astype(np.float32)
    halves = np.full(64, 2.0**-14, np.float16)
    upper = np.full(64, np.float32(2.0**-126).view(np.uint32) >> 16, np.uint16)
    Library.compile(TEXT).run("k", [floats, halves, upper], 64, 64)
    exact = np.repeat([smallest / 2, tiny], 64)
    np.testing.assert_array_equal(floats, np.zeros(128) if flush else exact)
    np.testing.assert_array_equal(halves, np.full(64, 2.0**-15, np.float16))
    np.testing.assert_array_equal(upper, np.full(64, 0 if flush else 0x40, np.uint16))
    assert np.float32(2.0**-126) * np.float32(0.5) != 0  # the caller's own arithmetic is as it was
