"""Run kernels of MLX and llama.cpp on softmetal: what they write is what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from msl import Library

Array = np.ndarray[Any, Any]


class Run(NamedTuple):
    """A kernel, the file it is in, and what it must write within a relative tolerance."""

    file: str
    name: str
    check: Callable[[Library], tuple[Array, Array]]
    tolerance: float


RUNS: list[Run] = []
_random = np.random.default_rng(19)


def _run(file: str, name: str, tolerance: float = 1e-5) -> Callable[..., Any]:
    def add(check: Callable[[Library], tuple[Array, Array]]) -> None:
        RUNS.append(Run(file, name, check, tolerance))

    return add


def _floats(*shape: int, dtype: Any = np.float32) -> Array:
    return _random.standard_normal(shape).astype(dtype)


def _int(*values: int) -> Array:
    return np.array(values, np.int32)


def _long(*values: int) -> Array:
    return np.array(values, np.int64)


def _struct(fields: str, **values: Any) -> Array:
    """A struct of C: `"i ne00 u nb01"` are an int and an unsigned long; values left out are 0."""
    kinds = {"i": "i4", "q": "i8", "u": "u8", "f": "f4", "h": "i2", "?": "?"}
    words = fields.split()
    names = list(zip(words[1::2], words[::2], strict=True))
    made = np.zeros(1, np.dtype([(name, kinds[kind]) for name, kind in names], align=True))
    for name, value in values.items():
        made[name] = value
    return made


def _softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


# MLX


@_run("mlx arange.h", "arange_0")
def _(library: Library) -> tuple[Array, Array]:
    out = np.zeros(100, np.float32)
    library.run("arange_0", [np.float32([3]), np.float32([0.5]), out], 100, 32)
    return out, 3 + 0.5 * np.arange(100)


@_run("mlx binary.h", "binary_vv_3")
def _(library: Library) -> tuple[Array, Array]:
    a, b, out = _floats(1000), _floats(1000), np.zeros(1000, np.float32)
    library.run("binary_vv_3", [a, b, out, np.uint32([1000])], 512, 64)
    return out, a + b


@_run("mlx unary.h", "unary_v_0", 1e-6)
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(1000), np.zeros(1000, np.float32)
    library.run("unary_v_0", [x, out, np.uint32([1000])], 512, 64)
    return out, np.exp(x)


@_run("mlx ternary.h", "ternary_v_0", 0)
def _(library: Library) -> tuple[Array, Array]:
    c, a, b, out = _floats(999) > 0, _floats(999), _floats(999), np.zeros(999, np.float32)
    library.run("ternary_v_0", [c, a, b, out, np.uint32([999])], 512, 64)
    return out, np.where(c, a, b)


@_run("mlx softmax.h", "softmax_single_row_0")
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(5, 250), np.zeros((5, 250), np.float32)
    library.run("softmax_single_row_0", [x, out, _int(250)], 5 * 64, 64)
    return out, _softmax(x)


@_run("mlx softmax.h", "softmax_looped_1")
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(3, 5000), np.zeros((3, 5000), np.float32)
    library.run("softmax_looped_1", [x, out, _int(5000)], 3 * 1024, 1024)
    return out, _softmax(x)


@_run("mlx logsumexp.h", "logsumexp_0")
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(4, 300), np.zeros(4, np.float32)
    library.run("logsumexp_0", [x, out, _int(300)], 4 * 96, 96)
    return out, np.log(np.exp(x.astype(np.float64)).sum(-1))


@_run("mlx reduction/reduce_all.h", "all_reduce_0")
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(10_000) + 1, np.zeros(1, np.float32)
    library.run("all_reduce_0", [x, out, _long(10_000), _long(10_000)], 256, 256)
    return out, x.sum(keepdims=True, dtype=np.float64)


@_run("mlx reduction/reduce_row.h", "row_reduce_simple_2", 0)
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(10, 777), np.zeros(10, np.float32)
    library.run("row_reduce_simple_2", [x, out, _long(777), _long(10)], (64, 3, 1), (64, 1, 1))
    return out, x.min(-1)


@_run("mlx scan.h", "contiguous_scan_0", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(3, 1000) + 1, np.zeros((3, 1000), np.float32)
    library.run("contiguous_scan_0", [x, out, _long(1000)], (256, 3, 1), (256, 1, 1))
    return out, np.cumsum(x, -1, dtype=np.float64)


@_run("mlx sort.h", "block_sort_0", 0)
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(4, 400), np.zeros((4, 400), np.float32)
    given = [x, out, _int(400), _int(1), _int(1), _int(400), _int(400)]
    library.run("block_sort_0", given, (128, 4, 1), (128, 1, 1))
    return out, np.sort(x, -1)


@_run("mlx searchsorted.h", "searchsorted_0", 0)
def _(library: Library) -> tuple[Array, Array]:
    a, v, out = np.sort(_floats(100)), _floats(64), np.zeros(64, np.uint32)
    library.run("searchsorted_0", [a, v, out, np.uint32([100]), _long(1)], 64, 32)
    return out, np.searchsorted(a, v, side="right")


@_run("mlx dot.h", "dot_product_0", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    a, b, out = _floats(1024) + 1, _floats(1024) + 1, np.zeros(1, np.float32)
    library.run("dot_product_0", [a, b, out, _int(1024)], 256, 256)
    return out, np.dot(a.astype(np.float64), b)[None]


@_run("mlx gemv.h", "gemv_0", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    rows, columns = 64, 200
    mat, x, out = _floats(rows, columns), _floats(columns), np.zeros(rows, np.float32)
    sizes = [_int(columns), _int(rows), _int(columns), np.float32([1]), np.float32([0])]
    batch = [_int(1), _int(1), _long(0), _long(0), _long(0), _int(1)]
    per_group = 32  # rows: eight simdgroups of four
    threads = (32 * rows // per_group, 1, 8)
    library.run("gemv_0", [mat, x, out, out, *sizes, *batch], threads, (32, 1, 8))
    return out, mat.astype(np.float64) @ x


def _gemm(
    library: Library,
    name: str,
    dtype: Any,
    transpose: bool,
    sizes: tuple[int, int, int] = (50, 70, 40),
    tile: tuple[int, int, int] = (32, 32, 16),
) -> tuple[Array, Array]:
    (m, n, k), (rows, columns, depth) = sizes, tile
    a, b, out = _floats(m, k, dtype=dtype), _floats(k, n, dtype=dtype), np.zeros((m, n), dtype)
    given = np.ascontiguousarray(b.T) if transpose else b
    across, down = -(-n // columns), -(-m // rows)
    params = _struct(
        "i M i N i K i lda i ldb i ldd i tiles_n i tiles_m q a q b q d i swizzle i steps i ndim",
        M=m,
        N=n,
        K=k,
        lda=k,
        ldb=k if transpose else n,
        ldd=n,
        tiles_n=across,
        tiles_m=down,
        steps=k // depth,
        ndim=1,
    )
    no = ("b", np.zeros(1, np.bool_))
    made = library.specialize(**{f"_{i}": no for i in (10, 100, 110, 200, 201, 202)})
    made.run(name, [a, given, None, out, params], (across * 32, down * 2, 2), (32, 2, 2))
    return out, a.astype(np.float64) @ b


@_run("mlx steel/gemm/kernels/steel_gemm_fused.h", "gemm_0", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    return _gemm(library, "gemm_0", np.float32, False)


@_run("mlx steel/gemm/kernels/steel_gemm_fused.h", "gemm_1", 5e-3)
def _(library: Library) -> tuple[Array, Array]:
    return _gemm(library, "gemm_1", np.float16, True)


_NAX = "mlx steel/gemm/kernels/steel_gemm_fused_nax.h"


@_run(_NAX, "gemm_0", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    return _gemm(library, "gemm_0", np.float32, False, (100, 90, 150), (64, 64, 64))


@_run(_NAX, "gemm_1", 5e-3)
def _(library: Library) -> tuple[Array, Array]:
    return _gemm(library, "gemm_1", np.float16, True, (130, 70, 200), (64, 64, 64))


@_run("mlx steel/gemm/kernels/steel_gemm_thin_nax.h", "gemm_thin_nax_0", 5e-3)
def _(library: Library) -> tuple[Array, Array]:
    """Two simdgroups divide the depth of each product of 16 rows and 32 columns."""
    m, n, k = 20, 70, 300
    a, b = _floats(m, k, dtype=np.float16), _floats(k, n, dtype=np.float16)
    out = np.zeros((m, n), np.float16)
    params = _struct(
        "i M i N i K i lda i ldb i ldd i tiles_n i tiles_m q a q b q d i swizzle i steps i ndim",
        M=m,
        N=n,
        K=k,
        lda=k,
        ldb=n,
        ldd=n,
        tiles_n=2,
        tiles_m=2,
        steps=-(-k // 128),
    )
    no = ("b", np.zeros(1, np.bool_))
    made = library.specialize(**{f"_{i}": no for i in (100, 110, 200, 201, 202)})
    made.run("gemm_thin_nax_0", [a, b, None, out, params], (4 * 128, 1, 1), (128, 1, 1))
    return out, a.astype(np.float64) @ b


@_run("mlx sdpa_vector.h", "sdpa_vector_0", 5e-3)
def _(library: Library) -> tuple[Array, Array]:
    heads, length, width = 4, 50, 64
    q = _floats(heads, 1, width, dtype=np.float16)
    k, v = (_floats(heads, length, width, dtype=np.float16) for _ in range(2))
    out = np.zeros_like(q)
    strides = [_long(length * width), _long(width)] * 2
    scale = np.float32([width**-0.5])
    no = ("b", np.zeros(1, np.bool_))
    made = library.specialize(**{f"_{i}": no for i in range(20, 26)}, _26=("i", _int(1)))
    given = [q, k, v, out, _int(1), _int(length), *strides, scale]
    made.run("sdpa_vector_0", given, (heads * 1024, 1, 1), (1024, 1, 1))
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * scale
    return out, _softmax(scores) @ v.astype(np.float64)


def _quantized(rows: int, columns: int) -> tuple[Array, Array, Array, Array]:
    """Numbers of four bits, eight to a word, a scale and a bias for every 64; and all as floats."""
    numbers = _random.integers(0, 16, (rows, columns), np.uint32)
    words = (numbers.reshape(rows, -1, 8) << (4 * np.arange(8, dtype=np.uint32))).sum(-1)
    scales, biases = (_floats(rows, columns // 64, dtype=np.float16) for _ in range(2))
    spread = [np.repeat(x.astype(np.float64), 64, -1) for x in (scales, biases)]
    return words.astype(np.uint32), scales, biases, numbers * spread[0] + spread[1]


@_run("mlx quantized.h", "affine_qmv_fast_1", 5e-3)
def _(library: Library) -> tuple[Array, Array]:
    rows, columns = 16, 512
    w, scales, biases, exact = _quantized(rows, columns)
    x, out = _floats(columns, dtype=np.float16), np.zeros(rows, np.float16)
    sizes = [_int(columns), _int(rows), _int(0), _int(1), _long(0)]
    given = [w, scales, biases, x, out, *sizes, _int(0), _int(1), _long(0), _long(0), _long(0)]
    library.run("affine_qmv_fast_1", given, (32, 2 * rows // 8, 1), (32, 2, 1))
    return out, exact @ x.astype(np.float64)


@_run("mlx quantized.h", "affine_dequantize_12", 5e-3)
def _(library: Library) -> tuple[Array, Array]:
    w, scales, biases, exact = _quantized(8, 128)
    out = np.zeros((8, 128), np.float16)
    library.run(
        "affine_dequantize_12", [w.view(np.uint8), scales, biases, out], (64, 8, 1), (32, 1, 1)
    )
    return out, exact


@_run("mlx jit/indexing.h", "gather_of_floats_1_1_int", 0)
def _(library: Library) -> tuple[Array, Array]:
    x, rows, out = _floats(9, 5), _int(4, -1, 0, 4, 7, 2), np.zeros((6, 5), np.float32)
    of_x = _int(9, 5), _long(5, 1), _long(2), _int(1, 5), _int(0)
    buffers = [x, out, *of_x, _int(6), _long(1), np.array([True]), _int(1)]
    buffers += [None] * (20 - len(buffers)) + [rows]
    library.run("gather_of_floats_1_1_int", buffers, (6, 1, 5), (6, 1, 1))
    return out, x[rows]


@_run("mlx jit/indexing.h", "scatter_sum_1_updc_true_nwork1_int")
def _(library: Library) -> tuple[Array, Array]:
    updates, rows, x = _floats(6, 5), _int(4, -1, 0, 4, 7, 2), _floats(9, 5)
    exact = x.astype(np.float64)
    np.add.at(exact, rows, updates)
    of_updates = _int(6, 1, 5), _long(5, 5, 1), _long(3), _long(5)
    of_x = _int(9, 5), _long(5, 1), _long(2), _int(0)
    of_rows = _int(6), _long(1), np.array([True]), _int(1), _long(6)
    buffers = [None, updates, x, *of_updates, *of_x, *of_rows]
    buffers += [None] * (20 - len(buffers)) + [rows]
    library.run("scatter_sum_1_updc_true_nwork1_int", buffers, (5, 6), (5, 1))
    return x, exact


# llama.cpp


@_run("llama.cpp softmax.metal", "kernel_soft_max_f32")
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(6, 300), np.zeros((6, 300), np.float32)
    args = _struct(
        "i ne00 i ne01 i ne02 u nb01 u nb02 u nb03 i ne11 i ne12 i ne13 u nb11 u nb12 u nb13"
        " u nb1 u nb2 u nb3 f scale f max_bias f m0 f m1 i n_head_log2",
        ne00=300,
        ne01=6,
        ne02=1,
        nb01=1200,
        nb1=1200,
        scale=0.5,
        ne11=1,
        ne12=1,
        ne13=1,
    )
    given = [args, x, x, x, out]  # the same address: no mask, no sinks
    threads = (6 * 64, 1, 1)
    library.run("kernel_soft_max_f32", given, threads, (64, 1, 1), threadgroup_bytes=[128])
    return out, _softmax(x * 0.5)


def _norm(library: Library, name: str, mean: bool) -> tuple[Array, Array]:
    x, out = _floats(5, 256), np.zeros((5, 256), np.float32)
    fields = "i ne00 i ne00_t u nb1 u nb2 u nb3 f eps"
    fields += (
        "".join(f" i e{i}" for i in range(9)) + "".join(f" u b{i}" for i in range(9)) + " f scale"
    )
    ones = {f"e{i}": 1 for i in range(9)}
    args = _struct(fields, ne00=256, ne00_t=256, nb1=1024, eps=1e-5, b0=1024, **ones)
    given = [args, x, x, x, out]
    library.run(name, given, (5 * 64, 1, 1), (64, 1, 1), threadgroup_bytes=[128])
    rows = x.astype(np.float64) - (x.mean(-1, keepdims=True) if mean else 0)
    return out, rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5)


@_run("llama.cpp norm.metal", "kernel_norm_f32")
def _(library: Library) -> tuple[Array, Array]:
    return _norm(library, "kernel_norm_f32", True)


@_run("llama.cpp norm.metal", "kernel_rms_norm_f32")
def _(library: Library) -> tuple[Array, Array]:
    return _norm(library, "kernel_rms_norm_f32", False)


@_run("llama.cpp reduce.metal", "kernel_sum_rows_f32_f32", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(6, 500) + 1, np.zeros(6, np.float32)
    fields = " ".join(f"q {n}" for n in ("ne00", "ne01", "ne02", "ne03"))
    fields += "".join(f" u nb0{i}" for i in range(4)) + "".join(f" q ne{i}" for i in range(4))
    fields += "".join(f" u nb{i}" for i in range(4))
    sizes = {"ne00": 500, "ne01": 6, "ne02": 1, "ne03": 1, "ne0": 1, "ne1": 6, "ne2": 1, "ne3": 1}
    args = _struct(fields, nb00=4, nb01=2000, nb0=4, nb1=4, **sizes)
    made = library.specialize(FC_sum_rows_op=("s", np.int16([10])))
    threads = (6 * 64, 1, 1)
    given = [args, x, out]
    made.run("kernel_sum_rows_f32_f32", given, threads, (64, 1, 1), threadgroup_bytes=[128])
    return out, x.sum(-1, dtype=np.float64)


@_run("llama.cpp argsort.metal", "kernel_argsort_f32_i32_asc", 0)
def _(library: Library) -> tuple[Array, Array]:
    x, out = _floats(4, 128), np.zeros((4, 128), np.int32)
    fields = "".join(f"i ne0{i} " for i in range(4)) + "".join(f"u nb0{i} " for i in range(4))
    fields += "".join(f"i ne{i} " for i in range(4)) + "i top_k"
    sizes = {"ne00": 128, "ne01": 4, "ne02": 1, "ne03": 1, "ne0": 128, "ne1": 4, "ne2": 1, "ne3": 1}
    args = _struct(fields, nb00=4, nb01=512, nb02=2048, nb03=2048, top_k=128, **sizes)
    name, threads = "kernel_argsort_f32_i32_asc", (4 * 128, 1, 1)
    library.run(name, [args, x, out], threads, (128, 1, 1), threadgroup_bytes=[512])
    return out, np.argsort(x, -1)


@_run("llama.cpp rope.metal", "kernel_rope_norm_f32", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    tokens, heads, width = 5, 3, 64
    x, out = _floats(tokens, heads, width), np.zeros((tokens, heads, width), np.float32)
    fields = "".join(f"i ne0{i} " for i in range(4)) + "".join(f"u nb0{i} " for i in range(4))
    fields += "".join(f"i ne{i} " for i in range(4)) + "".join(f"u nb{i} " for i in range(4))
    fields += "i n_past i n_dims i n_offs i n_ctx_orig f freq_base f freq_scale f ext_factor"
    fields += " f attn_factor f beta_fast f beta_slow i s0 i s1 i s2 i s3 ? src2 ? inplace"
    strides = [4, 4 * width, 4 * width * heads, 4 * x.size]
    sizes = {f"ne{p}{i}": n for p in ("0", "") for i, n in enumerate((width, heads, tokens, 1))}
    steps = {f"nb{p}{i}": n for p in ("0", "") for i, n in enumerate(strides)}
    turns = {"n_dims": width, "freq_base": 10000, "freq_scale": 1, "attn_factor": 1}
    args = _struct(fields, **sizes, **steps, **turns, n_ctx_orig=2048, beta_fast=32, beta_slow=1)
    positions = np.arange(tokens, dtype=np.int32) * 7
    no = ("b", np.zeros(1, np.bool_))
    made = library.specialize(FC_rope_is_imrope=no, FC_rope_is_back=no)
    given = [args, x, positions, x, out]
    made.run("kernel_rope_norm_f32", given, (heads * 32, tokens, 1), (32, 1, 1))
    angle = positions[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    even, odd = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    return out, np.stack([even * c - odd * s, even * s + odd * c], -1).reshape(x.shape)


@_run("llama.cpp mul_mv.metal", "kernel_mul_mv_q4_0_f32", 1e-4)
def _(library: Library) -> tuple[Array, Array]:
    rows, columns = 16, 256
    numbers = _random.integers(0, 16, (rows, columns // 32, 32), np.uint8)
    blocks = np.zeros((rows, columns // 32), np.dtype([("d", "f2"), ("qs", "u1", 16)]))
    blocks["d"] = _floats(rows, columns // 32, dtype=np.float16)
    blocks["qs"] = numbers[..., :16] | numbers[..., 16:] << 4
    exact = (blocks["d"].astype(np.float64)[..., None] * (numbers - 8.0)).reshape(rows, columns)
    x, out = _floats(columns), np.zeros(rows, np.float32)
    fields = "i ne00 i ne01 i ne02 u nb00 u nb01 u nb02 u nb03 i ne10 i ne11 i ne12"
    fields += " u nb10 u nb11 u nb12 u nb13 i ne0 i ne1 i nr0 h r2 h r3"
    row = 18 * columns // 32
    args = _struct(
        fields,
        ne00=columns,
        ne01=rows,
        ne02=1,
        nb00=18,
        nb01=row,
        nb02=row * rows,
        ne10=columns,
        ne11=1,
        ne12=1,
        nb10=4,
        nb11=4 * columns,
        nb12=4 * columns,
        nb03=row * rows,
        nb13=4 * columns,
        ne0=rows,
        ne1=1,
        nr0=4,
        r2=1,
        r3=1,
    )
    constants = {"FC_mul_mv_nsg": 2, "FC_mul_mv_ne12": 1, "FC_mul_mv_r2": 1, "FC_mul_mv_r3": 1}
    given: dict[str, Any] = {name: ("s", np.int16([n])) for name, n in constants.items()}
    made = library.specialize(**given, FC_mul_mv_split=("b", np.zeros(1, np.bool_)))
    name, threads = "kernel_mul_mv_q4_0_f32", (32 * rows // 8, 2, 1)
    made.run(
        name, [args, blocks.view(np.uint8), x, out], threads, (32, 2, 1), threadgroup_bytes=[256]
    )
    return out, exact @ x.astype(np.float64)
