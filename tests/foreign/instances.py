"""Instances of the kernel templates of MLX's headers: their own are in files on no registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Header(NamedTuple):
    """A header, what it needs before it, and instances of its kernels: names and arguments."""

    before: tuple[str, ...]
    instances: tuple[tuple[str, str], ...]
    version: int = 310  # of the language


METAL_4 = 400


def _all(arguments: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, arguments) for name in names)


_UTILS = ("utils.h",)
_REDUCE = ("utils.h", "atomic.h", "reduction/ops.h")
_GEMM = ("utils.h", "steel/gemm/gemm.h")
_CONV = ("utils.h", "steel/gemm/mma.h", "steel/conv/conv.h", "steel/conv/params.h", "steel/utils.h")
_TILE = "32, 32, 16, 2, 2"
_QUANTIZED = ("utils.h", "steel/gemm/gemm.h", "quantized_utils.h")
_VECTORS = ("binary_sv", "binary_vs", "binary_vv", "binary_sv2", "binary_vs2", "binary_vv2")
_STRIDED = ("binary_g_nd1", "binary_g_nd2", "binary_g_nd3", "binary_g")
_COPIES = (
    *("copy_s", "copy_v", "copy_s2", "copy_v2", "copy_g_nd1", "copy_g_nd2", "copy_g_nd3", "copy_g"),
    *("copy_gg_nd1", "copy_gg_nd2", "copy_gg_nd3", "copy_gg", "copy_gg_dynamic_nd1"),
    *("copy_gg_dynamic_nd2", "copy_gg_dynamic_nd3", "copy_gg_dynamic"),
)
_NAX = ("utils.h", "steel/gemm/gemm.h", "steel/gemm/gemm_nax.h")
_NAX_TILE = "64, 64, 64, 2, 2"
_QUANTIZED_NAX = (*_NAX, "quantized_utils.h")
# With more than one simdgroup to a row, a barrier of theirs is not reached by all threads.
_MV = "8, 1, 1, 32, 4, 4"

HEADERS = {
    "arange.h": Header(_UTILS, _all("float", "arange") + _all("bfloat16_t", "arange")),
    "binary.h": Header(
        ("utils.h", "binary_ops.h"),
        _all("float, float, Add", "binary_ss", *_VECTORS, *_STRIDED)
        + _all("bfloat16_t, bfloat16_t, Maximum", "binary_vv")
        + _all("int, int, Remainder", "binary_vv")
        + _all("complex64_t, complex64_t, Multiply", "binary_vv"),
    ),
    "binary_two.h": Header(
        ("utils.h", "unary_ops.h", "binary_ops.h"),
        _all("float, float, DivMod", "binary_ss", *_VECTORS, *_STRIDED),
    ),
    "copy.h": Header(_UTILS, _all("float, half", *_COPIES) + _all("int, bfloat16_t", "copy_v")),
    "cross_entropy.h": Header(_UTILS, _all("half", "cross_entropy", "cross_entropy_vjp")),
    "dot.h": Header(_UTILS, _all("float, 4, 256, 8", "dot_product")),
    "fft.h": Header(
        _UTILS,
        _all("256, float2, float2", "fft", "rader_fft", "bluestein_fft")
        + _all("256, float2, float2, 0", "four_step_fft"),
    ),
    "fp_quantized.h": Header(
        (*_QUANTIZED, "fp8.h", "fp4.h"),
        _all("half, 32, 4, 64, false", "fp_qmv_quad")
        + _all("half, 32, 4, false", "fp_qmv_fast", "fp_qmv", "fp_qvm", "fp_qmm_n")
        + _all("half, 32, 4, 4, 8, false", "fp_qmv_wide")
        + _all("half, 32, 4", "fp_qvm_split_k", "fp_gather_qmv_fast", "fp_gather_qmv")
        + _all("half, 32, 4", "fp_gather_qvm", "fp_gather_qmm_n")
        + _all("half, 32, 4, true, false", "fp_qmm_t")
        + _all("half, 32, 4, true", "fp_gather_qmm_t", "fp_qmm_t_splitk")
        + _all("half, 32, 4, 16, 32, 32, 1, 2, true", "fp_gather_qmm_rhs")
        + _all("half, 32, 4, false", "fp_quantize", "fp_dequantize", "fp_quantize_dequantize"),
    ),
    "gated_delta_update.h": Header(
        _GEMM,
        _all("half, 64, 64, 2, 4, 32", "gated_delta_fused_chunk", "gated_delta_seq"),
    ),
    "gated_delta_update_vjp.h": Header(
        _UTILS, _all("half, 64, 64, 2, 4, 32", "gated_delta_vjp_seq")
    ),
    "gemv.h": Header(
        ("utils.h", "steel/utils.h"),
        _all(f"float, {_MV}, false, false", "gemv", "gemv_t")
        + _all(f"half, {_MV}", "gemv_gather", "gemv_t_gather")
        + _all("float, 4, 8", "gemv_wide", "gemv_wide_gather"),
    ),
    "gemv_masked.h": Header(
        ("utils.h", "steel/utils.h"),
        _all(f"float, bool, bool, {_MV}, false", "gemv_masked", "gemv_t_masked"),
    ),
    "hadamard.h": Header(
        ("utils.h",),
        _all("float, 64, 16, 2", "hadamard_n"),
    ),
    "indexing/gather_axis.h": Header(
        ("utils.h", "indexing/indexing.h"), _all("float, int, int, true, true", "gather_axis")
    ),
    "indexing/gather_front.h": Header(
        ("utils.h", "indexing/indexing.h"), _all("float, int, int, 4", "gather_front")
    ),
    "indexing/masked_scatter.h": Header(_UTILS, _all("float, true", "masked_assign_impl")),
    "indexing/scatter.h": Header(
        (*_REDUCE, "indexing/indexing.h"),
        _all("float, int, Sum<float>, true, true, false, 4, 2", "slice_update_op_impl"),
    ),
    "indexing/scatter_axis.h": Header(
        (*_REDUCE, "indexing/indexing.h"),
        _all("float, int, int, Sum<float>, true, true", "scatter_axis"),
    ),
    "logsumexp.h": Header(_UTILS, _all("float", "logsumexp", "logsumexp_looped")),
    "quantized.h": Header(
        _QUANTIZED,
        _all("half, 64, 4, 64, false", "affine_qmv_quad")
        + _all("half, 64, 4, false", "affine_qmv_fast", "affine_qmv", "affine_qvm", "affine_qmm_n")
        + _all("half, 64, 4, 4, 8, false", "affine_qmv_wide")
        + _all("half, 64, 4", "affine_qvm_split_k", "affine_gather_qmv_fast", "affine_gather_qmv")
        + _all("half, 64, 4", "affine_gather_qvm", "affine_gather_qmm_n")
        + _all("half, 64, 4", "affine_quantize", "affine_dequantize")
        + _all("half, 64, 4, true, false", "affine_qmm_t")
        + _all("half, 64, 4, true", "affine_qmm_t_splitk", "affine_gather_qmm_t")
        + _all("half, 64, 4, 16, 32, 32, 1, 2, true", "affine_gather_qmm_rhs"),
    ),
    "reduction/reduce_all.h": Header(
        _REDUCE,
        _all("float, float, Sum<float>", "all_reduce")
        + _all("bool, bool, And<bool>", "all_reduce"),
    ),
    "reduction/reduce_col.h": Header(
        _REDUCE,
        _all("float, float, Max<float>, int, 1", "col_reduce_small", "col_reduce_longcolumn")
        + _all("float, float, Sum<float>, int, 1, 32, 32", "col_reduce_looped", "col_reduce_2pass"),
    ),
    "reduction/reduce_init.h": Header(_REDUCE, _all("float, Prod<float>", "init_reduce")),
    "reduction/reduce_row.h": Header(
        _REDUCE,
        _all("float, float, Sum<float>, int, 1", "row_reduce_small", "row_reduce_looped")
        + _all("float, float, Min<float>", "row_reduce_simple"),
    ),
    "scan.h": Header(
        ("utils.h", "binary_ops.h"),
        _all("float, float, CumSum<float>, 4, true, false", "contiguous_scan", "strided_scan")
        + _all("int, int, CumMax<int>, 4, false, true", "contiguous_scan"),
    ),
    "sdpa_blocked.h": Header(
        _UTILS, _all("half", "sdpa_blocked_scale_copy", "sdpa_blocked_causal_mask")
    ),
    "sdpa_vector.h": Header(
        _UTILS,
        _all("half, 64", "sdpa_vector", "sdpa_vector_2pass_1", "sdpa_vector_2pass_2")
        + _all("float, 64, 64, 4, 2", "sdpa_vector_2pass_1_gqa"),
    ),
    "searchsorted.h": Header(("utils.h", "sort.h"), _all("float, true", "searchsorted")),
    "softmax.h": Header(
        _UTILS,
        _all("float", "softmax_single_row", "softmax_looped")
        + _all("bfloat16_t, float", "softmax_single_row"),
    ),
    "sort.h": Header(
        _UTILS,
        _all("float, float, false, 128, 4", "block_sort", "block_sort_nc")
        + _all("float, uint, true, 128, 4", "block_sort", "mb_block_sort")
        + _all("float, uint, true, 128, 4", "mb_block_partition", "mb_block_merge"),
    ),
    "steel/attn/kernels/steel_attention.h": Header(
        _UTILS, _all("half, 32, 16, 128, 128, 4, 1, half", "attention")
    ),
    "steel/conv/kernels/steel_conv.h": Header(
        _CONV, _all(f"half, {_TILE}", "implicit_gemm_conv_2d")
    ),
    "steel/conv/kernels/steel_conv_3d.h": Header(
        _CONV, _all(f"half, {_TILE}", "implicit_gemm_conv_3d")
    ),
    "steel/conv/kernels/steel_conv_general.h": Header(
        _CONV, _all(f"half, {_TILE}", "implicit_gemm_conv_2d_general")
    ),
    "steel/gemm/kernels/steel_gemm_fused.h": Header(
        _GEMM,
        _all(f"float, {_TILE}, false, false", "gemm") + _all(f"half, {_TILE}, false, true", "gemm"),
    ),
    "steel/gemm/kernels/steel_gemm_gather.h": Header(
        _GEMM, _all(f"half, {_TILE}, false, true", "gather_mm_rhs", "gather_mm")
    ),
    "steel/gemm/kernels/steel_gemm_masked.h": Header(
        _GEMM, _all(f"half, bool, bool, {_TILE}, false, false, true, true", "block_masked_gemm")
    ),
    "steel/gemm/kernels/steel_gemm_segmented.h": Header(
        _GEMM, _all(f"half, {_TILE}, false, false", "segmented_mm")
    ),
    "steel/gemm/kernels/steel_gemm_splitk.h": Header(
        _GEMM,
        _all(f"half, float, {_TILE}, false, false, true, true", "gemm_splitk")
        + _all("float, half", "gemm_splitk_accum", "gemm_splitk_accum_axpby"),
    ),
    # Kernels of tensors.  MLX has three more, which call functions that no header defines.
    "fp_quantized_nax.h": Header(
        _QUANTIZED_NAX,
        _all("half, 32, 4, true, false", "fp_qmm_t_nax")
        + _all("half, 32, 4, true", "fp_gather_qmm_t_nax")
        + _all("half, 32, 4, 64, 64, 64, 2, 2, true", "fp_gather_qmm_rhs_nax"),
        METAL_4,
    ),
    "gated_delta_update_nax.h": Header(
        _NAX, _all("half, 64, 64, 2, 4, 16, 4", "gated_delta_fused_nax"), METAL_4
    ),
    "gated_delta_update_nax_vjp.h": Header(
        _NAX,
        # Of halves, a call of `max` with a float would be ambiguous.
        _all("float, 64, 64, 2, 4, 16, 4", "gated_delta_vjp_fused_nax")
        + _all("float, 64, 64, 2, 4, 16", "gated_delta_vjp_fused_nax1")
        + _all("float, 16", "gated_delta_dgamma_to_dg"),
        METAL_4,
    ),
    "quantized_nax.h": Header(
        _QUANTIZED_NAX,
        _all("half, 64, 4, true, false", "affine_qmm_t_nax")
        + _all("half, 64, 4, false", "affine_qmm_n_nax")
        + _all("half, 64, 4, true", "affine_gather_qmm_t_nax")
        + _all("half, 64, 4", "affine_gather_qmm_n_nax")
        + _all("half, 64, 4, 64, 64, 64, 2, 2, true", "affine_gather_qmm_rhs_nax"),
        METAL_4,
    ),
    "steel/attn/kernels/steel_attention_nax.h": Header(
        _UTILS,
        _all("half, 64, 32, 64, 64, 4, 1, half", "attention_nax")
        + _all("half, 32, 32, 256, 2, 2, half", "attention_nax_dsplit"),
        METAL_4,
    ),
    "steel/gemm/kernels/steel_gemm_fused_nax.h": Header(
        _NAX,
        _all(f"float, {_NAX_TILE}, false, false", "gemm")
        + _all(f"half, {_NAX_TILE}, false, true", "gemm")
        + _all(f"bfloat16_t, {_NAX_TILE}, true, false", "gemm"),
        METAL_4,
    ),
    "steel/gemm/kernels/steel_gemm_gather_nax.h": Header(
        _NAX,
        _all(f"half, {_NAX_TILE}, false, true", "gather_mm_rhs_nax"),
        METAL_4,
    ),
    "steel/gemm/kernels/steel_gemm_segmented_nax.h": Header(
        _NAX,
        _all(f"half, {_NAX_TILE}, false, false", "segmented_mm_nax"),
        METAL_4,
    ),
    "steel/gemm/kernels/steel_gemm_splitk_nax.h": Header(
        _NAX,
        _all(f"half, {_NAX_TILE}, false, false", "gemm_splitk_nax"),
        METAL_4,
    ),
    "steel/gemm/kernels/steel_gemm_thin_nax.h": Header(
        _NAX,
        _all("half, 1, 2, 1, 2, 2, false", "gemm_thin_nax")
        + _all("half, 2, 1, 2, 1, 1, true", "gemm_thin_nax"),
        METAL_4,
    ),
    "ternary.h": Header(
        ("utils.h", "ternary_ops.h"),
        _all("float, Select, false, false", "ternary_v", "ternary_v2")
        + _all("float, Select", "ternary_g_nd1", "ternary_g_nd2", "ternary_g_nd3", "ternary_g"),
    ),
    "unary.h": Header(
        ("utils.h", "unary_ops.h"),
        _all("float, float, Exp", "unary_v", "unary_v2", "unary_g")
        + _all("bfloat16_t, bfloat16_t, Erf", "unary_v")
        + _all("half, half, Tanh", "unary_v"),
    ),
}

#: A header of MLX's host code with texts of kernels in it, which MLX completes with values; what
#: they need before them; and values for each, by its name.
TEXTS = "jit/indexing.h"
BEFORE_TEXTS = (*_REDUCE, "indexing/gather.h", "indexing/scatter.h", "indexing/masked_scatter.h")
_INDICES = "const device int* rows [[buffer(20)]],", "rows"
VALUES: Mapping[str, tuple[object, ...]] = {
    "gather_kernels": ("_of_floats", "float", "int", 1, *_INDICES, 1, "int"),
    "scatter_kernels": ("_sum", "float", "int", "Sum<float>", 1, *_INDICES, "true", 1, "int"),
    "masked_assign_kernel": ("masked_assign", "half", "false"),
    "slice_update_op_kernel": ("slice", "int", "int", "Prod<int>", "true", "false", "true", 2, 3),
}
_TEXT = re.compile(r'(\w+) = R"\((.*?)\)"', re.S)


def completed(header: str) -> str:
    """The texts of kernels in a header of host code, with values."""
    return "".join([text.format(*VALUES[name]) for name, text in _TEXT.findall(header)])


def lines(header: Header) -> str:
    """Instances, called name_0, name_1 and so on."""
    made = ""
    for number, (name, arguments) in enumerate(header.instances):
        function = f"{name}<{arguments}>"
        made += f'template [[host_name("{name}_{number}")]] [[kernel]] '
        made += f"decltype({function}) {function};\n"
    return made
