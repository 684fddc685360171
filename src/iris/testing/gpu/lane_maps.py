"""Which lane of a simdgroup has which elements of an 8x8 matrix: all products rest on that."""

from __future__ import annotations

import numpy as np

from iris.ir.layout.linear import APPLE_FRAGMENT
from iris.ir.types import bf16, f16, f32
from iris.runtime.device import Device
from iris.testing.gpu.by_hand import as_stored, as_values, none_of, run, wrong_lanes

_TYPES = {"float": f32, "half": f16, "bfloat": bf16}
_KERNEL = """
kernel void lanes_of_{T}(device const {T}* X [[buffer(0)]], device const {T}* Y [[buffer(1)]],
                         device {T}* Out [[buffer(2)]],
                         uint lane [[thread_index_in_threadgroup]]) {{
    simdgroup_{T}8x8 x, y, loaded, product;
    simdgroup_load(loaded, X, 8);
    for (int i = 0; i < 2; i++) {{
        Out[lane * 2 + i] = loaded.thread_elements()[i];
        x.thread_elements()[i] = X[lane * 2 + i];
        y.thread_elements()[i] = Y[lane * 2 + i];
    }}
    simdgroup_store(x, Out + 64, 8);
    simdgroup_multiply(product, y, y);
    for (int i = 0; i < 2; i++) Out[128 + lane * 2 + i] = product.thread_elements()[i];
}}
"""
_TEXT = "".join([_KERNEL.format(T=name) for name in _TYPES])


def lanes_hold_matrices(device: Device) -> str:
    """The lane map of matrices of each type: loaded, stored, and multiplied."""
    pairs = [[APPLE_FRAGMENT.apply(register=r, lane=n) for r in range(2)] for n in range(32)]
    index = np.array([[8 * row + column for row, column in pair] for pair in pairs])
    x = np.arange(-32, 32)  # no two alike
    y = np.random.default_rng(0).integers(-2, 3, 64)  # of products that every type holds
    matrix = np.empty(64, int)
    matrix[index.reshape(-1)] = y
    square = (matrix.reshape(8, 8) @ matrix.reshape(8, 8)).reshape(-1)
    wrong: list[str] = []
    for name, dtype in _TYPES.items():
        given = [as_stored(dtype, array) for array in (x, y, np.zeros(3 * 64))]
        run(device, _TEXT, f"lanes_of_{name}", given)
        loaded, stored, product = as_values(dtype, given[2]).astype(int).reshape(3, 64)
        uses = {
            "a loaded matrix": (loaded.reshape(32, 2), x[index]),
            "what is stored as a matrix": (stored[index], x.reshape(32, 2)),
            "a product": (product.reshape(32, 2), square[index]),
        }
        wrong += wrong_lanes(name, uses)
    none_of(wrong)
    return f"matrices of {', '.join(_TYPES)} lie in a simdgroup as they must"
