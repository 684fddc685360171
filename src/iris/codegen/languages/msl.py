"""The Metal Shading Language, as a table.

MSL is C++, in which overflow of signed integers is undefined; its specification says nothing that
would take this back.  In the IR they wrap.  `analysis.ranges` decides where the text must say so.

Functions of floats come as `precise::` and `fast::`; both are of 32 bits only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from iris.codegen.language import Helper, Intrinsic, Language, Position
from iris.codegen.languages.cpp import HELPERS, KEYWORDS, integer_literal
from iris.codegen.tree import Member, Name, Number, Tree
from iris.ir import literal, math
from iris.ir.kinds import AtomicKind
from iris.ir.metal import Scope
from iris.ir.types import (
    DType,
    Kind,
    bf16,
    bool_,
    f16,
    f32,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

_TYPES = {
    bool_: "bool",
    i8: "char",
    i16: "short",
    i32: "int",
    i64: "long",
    u8: "uchar",
    u16: "ushort",
    u32: "uint",
    u64: "ulong",
    f16: "half",
    bf16: "bfloat",
    f32: "float",
}
_SUFFIX = {i64: "l", u32: "u", u64: "ul", f16: "h", f32: "f"}


@lru_cache(maxsize=4096)
def _literal(bits: int, dtype: DType) -> tuple[Number, DType]:
    if dtype.kind is Kind.FLOAT:
        return Number(_float(bits, dtype), bits), dtype
    return integer_literal(bits, dtype, _SUFFIX)


def _float(bits: int, dtype: DType) -> str:
    text = literal.text(bits, dtype)
    sign, magnitude = ("-", text[1:]) if text.startswith("-") else ("", text)
    if magnitude.startswith("nan("):
        payload = f"{bits}u" if dtype is f32 else f"ushort({bits})"
        return f"as_type<{_TYPES[dtype]}>({payload})"
    if magnitude in ("inf", "nan"):
        number = sign + {"inf": "INFINITY", "nan": "NAN"}[magnitude]
        return number if dtype is f32 else f"{_TYPES[dtype]}({number})"
    if dtype is bf16:
        return f"bfloat({text}f)"
    return text + _SUFFIX[dtype]


def _lanes(vector: Tree, lanes: Sequence[int]) -> Tree:
    return Member("".join(["xyzw"[i] for i in lanes]), vector)


def _combined_bits(operator: str, dtype: DType) -> str:
    # There is no arithmetic shorter than that of int.
    if dtype.bits < 32:
        return f"short(as_type<short>(x) {operator} as_type<short>(y))"
    return f"as_type<int>(x) {operator} as_type<int>(y)"


_HELPERS = {
    **HELPERS,
    "pair": Helper(
        "pair",
        1,
        """\
// The two elements that a lane holds of a matrix.
METAL_FUNC thread {T}2& pair(thread simdgroup_{T}8x8& x) {{
    return reinterpret_cast<thread {T}2&>(x.thread_elements());
}}
""",
    ),
    "row_pair": Helper(
        "row_pair",
        5,
        """\
// What a lane holds of one of four matrices, where each lane says the place of a row.
METAL_FUNC {T}2 row_pair(const threadgroup {T}* from, int place, bool transposed, ushort lane,
                         ushort which) {{
    ushort row = ((lane >> 1) & 3) | ((lane >> 2) & 4);
    ushort column = ((lane << 1) & 2) | ((lane >> 1) & 4);
    {T}2 made;
    for (ushort i = 0; i < 2; ++i) {{
        ushort at = transposed ? column + i : row, beside = transposed ? row : column + i;
        ushort giver = (at & 1) | (at & 4) >> 1 | (which & 1) << 2 | (at & 2) << 2 |
                       (which & 2) << 3;
        made[i] = from[simd_shuffle(place, giver) + beside];
    }}
    return made;
}}
""",
    ),
    "transposed": Helper(
        "transposed",
        2,
        """\
// A matrix with rows and columns exchanged: each lane asks those that have its elements.
METAL_FUNC simdgroup_{T}8x8 transposed(simdgroup_{T}8x8 x, ushort lane) {{
    ushort row = ((lane >> 1) & 3) | ((lane >> 2) & 4);
    ushort column = ((lane << 1) & 2) | ((lane >> 1) & 4);
    simdgroup_{T}8x8 made;
    for (ushort i = 0; i < 2; ++i) {{
        ushort other = column + i;
        ushort from = (row >> 1 & 1) | (other & 3) << 1 | (row & 4) << 1 | (other & 4) << 2;
        float even = simd_shuffle(float(pair(x)[0]), from);
        float odd = simd_shuffle(float(pair(x)[1]), from);
        pair(made)[i] = {T}(row & 1 ? odd : even);
    }}
    return made;
}}
""",
    ),
    "multiply_tensors": Helper(
        "multiply_tensors",
        4,
        """\
// Adds products of 16x16 matrices and pairs of them, each of four fragments, to pairs.
template <ushort rows, ushort columns, bool tf32>
METAL_FUNC void multiply_tensors(thread simdgroup_float8x8* to, thread simdgroup_{T}8x8* a,
                                 thread simdgroup_{T}8x8* b, thread simdgroup_float8x8* acc) {{
    using namespace mpp::tensor_ops;
    constexpr auto of = matmul2d_descriptor(16, 32, 16, false, false, tf32,
                                            matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<of, execution_simdgroup> product;
    auto left = product.template get_left_input_cooperative_tensor<{T}, {T}, float>();
    auto right = product.template get_right_input_cooperative_tensor<{T}, {T}, float>();
    auto sum = product.template get_destination_cooperative_tensor<decltype(left), decltype(right),
                                                                   float>();
    #pragma unroll
    for (ushort row = 0; row < rows; ++row) {{
        #pragma unroll
        for (ushort i = 0; i < 8; ++i) left[i] = pair(a[row * 4 + i / 2])[i % 2];
        #pragma unroll
        for (ushort column = 0; column < columns; ++column) {{
            ushort at = (row * columns + column) * 8;
            #pragma unroll
            for (ushort i = 0; i < 16; ++i) {{
                right[i] = pair(b[column * 8 + i / 2])[i % 2];
                sum[i] = pair(acc[at + i / 2])[i % 2];
            }}
            product.run(left, right, sum);
            #pragma unroll
            for (ushort i = 0; i < 16; ++i) pair(to[at + i / 2])[i % 2] = sum[i];
        }}
    }}
}}
""",
    ),
    "multiply_shared": Helper(
        "multiply_shared",
        5,
        """\
// Adds the product of two row-major matrices in threadgroup memory to pairs of 16x16 matrices.
template <ushort rows, ushort columns, ushort depth, bool tf32>
METAL_FUNC void multiply_shared(thread simdgroup_float8x8* to, threadgroup {T}* a, int a_stride,
                                threadgroup {T}* b, int b_stride, thread simdgroup_float8x8* acc) {{
    using namespace mpp::tensor_ops;
    constexpr auto of = matmul2d_descriptor(16, 32, depth, false, false, tf32,
                                            matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<of, execution_simdgroup> product;
    auto left = tensor(a, dextents<int, 2>(depth, rows * 16), array<int, 2>{{1, a_stride}});
    auto right = tensor(b, dextents<int, 2>(columns * 32, depth), array<int, 2>{{1, b_stride}});
    auto sum = product.template get_destination_cooperative_tensor<decltype(left), decltype(right),
                                                                   float>();
    #pragma unroll
    for (ushort row = 0; row < rows; ++row) {{
        auto above = left.slice(0, row * 16);
        #pragma unroll
        for (ushort column = 0; column < columns; ++column) {{
            auto beside = right.slice(column * 32, 0);
            ushort at = (row * columns + column) * 8;
            #pragma unroll
            for (ushort i = 0; i < 16; ++i) sum[i] = pair(acc[at + i / 2])[i % 2];
            product.run(above, beside, sum);
            #pragma unroll
            for (ushort i = 0; i < 16; ++i) pair(to[at + i / 2])[i % 2] = sum[i];
        }}
    }}
}}
""",
    ),
    "add_record": Helper(
        "add_record",
        7,
        """\
// Adds a record to the report; see iris.codegen.source.Source.
METAL_FUNC void add_record(device atomic_uint* report, uint site, uint program, uint thread_index,
                           uint part = 0, int place = 0, ulong bits = 0) {{
    uint at = atomic_fetch_add_explicit(report, 8u, memory_order_relaxed);
    if (at >= atomic_load_explicit(report + 1, memory_order_relaxed)) return;
    device uint* record = (device uint*)(report + 2) + at;
    record[0] = site;
    record[1] = program;
    record[2] = thread_index;
    record[3] = part;
    record[4] = uint(place);
    record[5] = uint(bits);
    record[6] = uint(bits >> 32);
    record[7] = 0;
}}
""",
    ),
}


def _both(name: str) -> Intrinsic:
    return Intrinsic(f"precise::{name}", f"fast::{name}")


def _precise(name: str) -> Intrinsic:
    return Intrinsic(f"precise::{name}", f"precise::{name}")


# What nothing may be called, of C++ and of MSL; and what MSL and the text's own helpers define.
_KEYWORDS = """
kernel vertex fragment device constant threadgroup threadgroup_imageblock thread ray_data
object_data half bfloat uchar ushort uint ulong size_t ptrdiff_t int8_t int16_t int32_t int64_t
uint8_t uint16_t uint32_t uint64_t vec matrix packed_vec atomic atomic_int atomic_uint atomic_bool
atomic_ulong atomic_float sampler texture array metal precise fast simd visible intersection
stitchable depth2d texture1d texture2d texture3d texturecube patch_control_point as_type
NULL assert offsetof restrict llong ullong quad complex imaginary
CHAR_BIT MAXFLOAT MAXHALF MAXBFLOAT MAXDOUBLE HUGE_VAL HUGE_VALF HUGE_VALH HUGE_VALBF INFINITY NAN
FP_ILOGB0 FP_ILOGBNAN METAL_FUNC METAL_ALWAYS_INLINE METAL_CONST METAL_INTERNAL METAL_ASM
METAL_VALID_ARGS METAL_CONST_ARG coherent is_function_constant_defined
"""
# Macros that there are of many types.
_INTEGERS = """
CHAR SCHAR UCHAR SHRT USHRT INT UINT LONG ULONG LLONG ULLONG INT8 UINT8 INT16 UINT16 INT32 UINT32
INT64 UINT64 SIZE PTRDIFF
"""
_FORMAT = """
DIG DECIMAL_DIG MANT_DIG RADIX MAX MIN EPSILON MAX_EXP MIN_EXP MAX_10_EXP MIN_10_EXP TRUE_MIN
"""
_CONSTANTS = "E LOG2E LOG10E LN2 LN10 PI PI_2 PI_4 1_PI 2_PI 2_SQRTPI SQRT2 SQRT1_2"
_MACROS = {
    *[f"{kind}_{end}" for kind in _INTEGERS.split() for end in ("MAX", "MIN")],
    *[f"{kind}_{what}" for kind in ("FLT", "HALF", "BFLT", "DBL") for what in _FORMAT.split()],
    *[f"M_{what}{kind}" for kind in ("", "_F", "_H", "_BF") for what in _CONSTANTS.split()],
}
_FUNCTIONS = """
abs absdiff addsat all any acos acosh asin asinh atan atan2 atanh bitselect ceil clamp clz
copysign cos cosh cospi cross ctz degrees distance divide dot erf exp exp10 exp2 fabs fdim floor
fma fmax fmin fmod fract frexp hadd ilogb isfinite isinf isnan isnormal ldexp length log log10
log2 mad24 madhi madsat max max3 median3 min min3 mix modf mul24 mulhi nan nextafter normalize
popcount pow powr radians reflect refract reverse_bits rhadd rint rotate round rsqrt saturate
select sign signbit sin sincos sinh sinpi smoothstep sqrt step subsat tan tanh tanpi trunc
mem_flags memory_order_relaxed simd_broadcast simd_shuffle simd_shuffle_xor simd_sum simd_max
simd_min simd_any simd_all simdgroup_barrier threadgroup_barrier simdgroup_float8x8
simdgroup_half8x8 simdgroup_bfloat8x8 simdgroup_matrix simdgroup_multiply_accumulate
make_filled_simdgroup_matrix pair row_pair transposed atomic_load_explicit atomic_store_explicit
atomic_exchange_explicit atomic_compare_exchange_weak_explicit error_function fma_bfloat
multiply_tensors multiply_shared floor_divide floor_modulo maxnum minnum maximum minimum
maximum_nsz minimum_nsz
add_record Params p
"""
_VECTORS = {f"{t}{n}" for t in _TYPES.values() for n in (2, 3, 4)}

_STDLIB = "#include <metal_stdlib>\n"
_PRIMITIVES = "#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>\n"
_USING = "using namespace metal;\n"


def _of_tensors(language: Language) -> Language:
    return replace(language, version=(4, 0), prologue=_STDLIB + _PRIMITIVES + _USING)


MSL = Language(
    name="the Metal Shading Language",
    version=(3, 1),
    fence_version=(3, 2),
    prologue=_STDLIB + _USING,
    exact_pragma="#pragma METAL fp contract(off)\n#pragma STDC FP_CONTRACT OFF\n",
    types=_TYPES,
    vector="{type}{lanes}",
    packed="packed_{type}{lanes}",
    atomic="atomic_{type}",
    aligned="alignas(16)",
    word=u32,
    literal=_literal,
    lanes=_lanes,
    bitcast="as_type<{type}>",
    device="device",
    volatile="{type}",
    coherent="coherent(device) device",
    shared="threadgroup",
    shared_pointer="threadgroup",
    arena=None,
    matrix="simdgroup_{type}8x8",
    filled="make_filled_simdgroup_matrix<{type}, 8, 8>",
    pair="pair",
    load_rows="",
    multiply="simdgroup_multiply_accumulate",
    multiplies_arrays=False,
    of_matrices=lambda language: language,
    of_tensors=_of_tensors,
    kernel="[[max_total_threads_per_threadgroup({threads})]]\nkernel void {name}(",
    residents="",
    array="{device} {type}* {name} [[buffer({index})]]",
    alone="",
    constants="constant Params& p [[buffer({index})]]",
    constants_name="p",
    report="device atomic_uint* {name} [[buffer({index})]]",
    grid=None,
    positions_are_parameters=True,
    positions={
        "tid": Position("uint3 {name} [[threadgroup_position_in_grid]]", u32),
        "grid": Position("uint3 {name} [[threadgroups_per_grid]]", u32),
        "lane": Position("ushort {name} [[thread_index_in_simdgroup]]", u16),
        "simdgroup": Position("ushort {name} [[simdgroup_index_in_threadgroup]]", u16),
        "thread_index": Position("ushort {name} [[thread_index_in_threadgroup]]", u16),
    },
    intrinsics={
        **{
            op: _both(op.name)
            for op in (
                math.Exp,
                math.Exp2,
                math.Sqrt,
                math.Rsqrt,
                math.Sin,
                math.Cos,
            )
        },
        # `fast::tanh` is nan from 44.4 on, `fast::pow` where the base is negative, and what
        # `fast::log` is of 0 is undefined.
        **{op: _precise(op.name) for op in (math.Log, math.Log2, math.Tanh, math.Pow)},
        math.Floor: Intrinsic("floor", "floor"),
        math.Ceil: Intrinsic("ceil", "ceil"),
        math.Round: Intrinsic("rint", "rint"),
        math.MaxNum: Intrinsic("fmax", "fmax"),
        math.MinNum: Intrinsic("fmin", "fmin"),
        math.Fma: Intrinsic("fma", "fma"),
    },
    narrowing={},
    widening={},
    fmod="precise::fmod",  # `fast::fmod` is undefined
    quotient="",
    inline="METAL_FUNC",  # which is always inlined
    absolute="abs",
    distance="absdiff",
    greater="max",
    lesser="min",
    select="select",
    add_saturated="addsat",
    shuffle="simd_shuffle",
    shuffle_xor="simd_shuffle_xor",
    broadcast="simd_broadcast",
    helpers=_HELPERS,
    combined_bits=_combined_bits,
    unroll="#pragma unroll",
    copy="",
    wait_copies="",
    barriers={
        Scope.SIMDGROUP: "simdgroup_barrier(mem_flags::mem_threadgroup)",
        Scope.THREADGROUP: "threadgroup_barrier(mem_flags::mem_threadgroup)",
        Scope.DEVICE: "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)",
    },
    fence="atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device)",
    atomics={
        **{k: f"atomic_fetch_{k.value}_explicit" for k in AtomicKind},
        AtomicKind.EXCHANGE: "atomic_exchange_explicit",
    },
    atomic_load="atomic_load_explicit",
    compare_exchange="atomic_compare_exchange_weak_explicit",
    order=(Name("memory_order_relaxed"),),
    keywords=frozenset((KEYWORDS + _KEYWORDS).split()) | _VECTORS | _MACROS,
    functions=frozenset(_FUNCTIONS.split()),
)
