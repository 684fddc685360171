#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
    bool inside;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void words(
    device half* A [[buffer(0)]],
    device bfloat* B [[buffer(1)]],
    device char* I [[buffer(2)]],
    device uchar* F [[buffer(3)]],
    device const half* P [[buffer(4)]],
    constant Params& p [[buffer(5)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    alignas(16) threadgroup half shared[512];
    int at = lane * 8;
    uint4 ahead[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) ahead[i] = *(device const uint4*)&A[i];
    for (int k = 0; k < p.n; ++k) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) *(threadgroup uint4*)&shared[i] = ahead[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint4 next[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            next[i] = p.inside ? *(device const uint4*)&A[k] : uint4(0xfc00fc00u);
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) ahead[i] = next[i];
    }
    *(device uint4*)&A[at] = ahead[1];
    uint4 copy = p.inside ? *(device const uint4*)&A[at] : uint4(0);
    if (p.inside) *(threadgroup uint4*)&shared[at] = copy;
    uint4 b_bits = *(device const uint4*)&B[at];
    bfloat4 b[2] = {as_type<bfloat4>(b_bits.xy), as_type<bfloat4>(b_bits.zw)};
    uint4 bits = p.inside ? *(device const uint4*)&B[at]
            : uint4(as_type<uint2>(b[0] * b[0]), as_type<uint2>(b[1] * b[1]));
    bfloat4 v[2] = {as_type<bfloat4>(bits.xy), as_type<bfloat4>(bits.zw)};
    *(device uint4*)&B[at] = uint4(as_type<uint2>(v[0] + b[0]), as_type<uint2>(v[1] + b[1]));
    uint4 i8_bits = p.inside ? *(device const uint4*)&I[at] : uint4(0x07070707u);
    char4 i8[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) i8[i] = as_type<char4>(i8_bits[i]);
    uint4 bits_1;
    #pragma unroll
    for (int i = 0; i < 4; ++i) bits_1[i] = as_type<uint>(i8[i] ^ char(7));
    if (p.inside) *(device uint4*)&I[at] = bits_1;
    *(device uint4*)&I[at] = uint4(0x07070707u);
    uint2 i4_bits = *(device const uint2*)&I[at];
    char4 i4[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) i4[i] = as_type<char4>(i4_bits[i]);
    half4 v_1[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) v_1[i] = half4(i4[i]);
    *(device uint4*)&A[at] = uint4(as_type<uint2>(v_1[0]), as_type<uint2>(v_1[1]));
    uint4 f_bits = p.inside ? *(device const uint4*)&F[at] : uint4(0x01010101u);
    bool4 f[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) f[i] = as_type<uchar4>(f_bits[i]) != uchar(0);
    uint4 f_bits_1;
    #pragma unroll
    for (int i = 0; i < 4; ++i) f_bits_1[i] = as_type<uint>(uchar4(f[i]));
    *(device uint4*)&F[at] = f_bits_1;
    *(device uint4*)&A[at] =
            uint4(as_type<uint2>(half4(v_1[0].x)), as_type<uint2>(half4(v_1[0].x)));
    half4 p_1[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) p_1[i] = ((device const packed_half4*)&P[at])[i];
    *(device uint4*)&A[at] = uint4(as_type<uint2>(p_1[0]), as_type<uint2>(p_1[1]));
    half4 both[2];
    if (p.inside) {
        uint4 bits_2 = *(device const uint4*)&A[at];
        both[0] = as_type<half4>(bits_2.xy);
        both[1] = as_type<half4>(bits_2.zw);
    } else {
        #pragma unroll
        for (int i = 0; i < 8; ++i) both[i / 4][i % 4] = A[i];
    }
    *(device uint4*)&A[at] = uint4(as_type<uint2>(both[0]), as_type<uint2>(both[1]));
}
