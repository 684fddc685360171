"""Which lane of a simdgroup has which elements of a cooperative tensor of Metal 4.

The text that Iris emits gives elements to `matmul2d` by this map, and takes them from there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iris.codegen.languages.msl import MSL
from iris.ir.layout.linear import TENSOR_FRAGMENT
from iris.ir.types import bf16, f16, f32
from iris.runtime.device import Device
from iris.testing.gpu.by_hand import Array, as_stored, none_of, run, wrong_lanes

_TYPES = {"float": f32, "half": f16, "bfloat": bf16}
_KERNEL = """
kernel void tensors_of_{T}(device {T}* A [[buffer(0)]], device {T}* B [[buffer(1)]],
                           device float* C [[buffer(2)]], device float* Out [[buffer(3)]],
                           uint lane [[thread_index_in_threadgroup]]) {{
    using namespace mpp::tensor_ops;
    constexpr auto of = matmul2d_descriptor(16, 32, 16, false, false, false,
                                            matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<of, execution_simdgroup> product;
    auto left = product.get_left_input_cooperative_tensor<{T}, {T}, float>();
    auto right = product.get_right_input_cooperative_tensor<{T}, {T}, float>();
    auto sum = product.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    Out[0] = left.get_capacity();
    Out[1] = right.get_capacity();
    Out[2] = sum.get_capacity();
    if (Out[0] != 8 || Out[1] != 16 || Out[2] != 16) return;
    device float* loaded = Out + 32;
    device float* multiplied = Out + 800;
    auto a = tensor(A, dextents<int, 2>(16, 16));
    auto b = tensor(B, dextents<int, 2>(32, 16));
    auto stored = tensor(Out + 1312, dextents<int, 2>(32, 16));
    left.load(a);
    right.load(b);
    for (int i = 0; i < 8; i++) loaded[lane * 8 + i] = left[i];
    for (int i = 0; i < 16; i++) loaded[256 + lane * 16 + i] = right[i];
    for (int i = 0; i < 16; i++) sum[i] = C[lane * 16 + i];
    sum.store(stored);
    for (int i = 0; i < 8; i++) left[i] = A[256 + lane * 8 + i];
    for (int i = 0; i < 16; i++) right[i] = B[512 + lane * 16 + i];
    product.run(left, right, sum);
    for (int i = 0; i < 16; i++) multiplied[lane * 16 + i] = sum[i];
}}
"""
_TEXT = "".join([_KERNEL.format(T=name) for name in _TYPES])
_CAPACITIES = {"left operand": 8, "right operand": 16, "sum": 16}


def lanes_hold_tensors(device: Device) -> str:
    """The lane map of cooperative tensors of each type: loaded, stored, and multiplied."""
    assert MSL.of_tensors is not None
    language = MSL.of_tensors(MSL)
    wrong: list[str] = []
    for name, dtype in _TYPES.items():
        rng = np.random.default_rng(0)
        a, b, c = (rng.integers(-8, 9, shape) for shape in ((16, 16), (16, 32), (16, 32)))
        of_a, of_b, of_c = (_of_lanes(x) for x in (a, b, c))
        given = [
            as_stored(dtype, np.concatenate([a.reshape(-1), of_a.reshape(-1)])),
            as_stored(dtype, np.concatenate([b.reshape(-1), of_b.reshape(-1)])),
            of_c.reshape(-1).astype(np.float32),
            np.zeros(1312 + 512, np.float32),
        ]
        run(device, _TEXT, f"tensors_of_{name}", given, language=language)
        found = given[3].astype(int)
        known = len(wrong)
        for (what, right), held in zip(_CAPACITIES.items(), found, strict=False):
            if held != right:
                wrong.append(f"{name}: a lane holds {held} elements of a {what}, not {right}")
        if len(wrong) > known:
            continue
        left, other, product, stored = np.split(found[32:], [256, 768, 1280])
        uses = {
            "a loaded left operand": (left.reshape(32, 8), of_a),
            "a loaded right operand": (other.reshape(32, 16), of_b),
            "what is stored as a sum": (_of_lanes(stored.reshape(16, 32)), of_c),
            "a product": (product.reshape(32, 16), _of_lanes(a @ b + c)),
        }
        wrong += wrong_lanes(name, uses)
    none_of(wrong)
    return f"cooperative tensors of {', '.join(_TYPES)} lie in a simdgroup as they must"


def _of_lanes(matrix: Array) -> Array:
    """The elements that each lane has of matrices of 16x16 beside each other."""
    return np.array([[*_of_lane(matrix, lane)] for lane in range(32)])


def _of_lane(matrix: Array, lane: int) -> Iterator[int]:
    for start in range(0, matrix.shape[1], 16):
        for register in range(8):
            row, column = TENSOR_FRAGMENT.apply(register=register, lane=lane)
            yield matrix[row, start + column]
