#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
    long wide;
    half scale;
    bool ok;
    bfloat b;
    int A_extent_0;
    int B_extent_1;
};

[[max_total_threads_per_threadgroup(64)]]
kernel void memory(
    device half* A [[buffer(0)]],
    device half* B [[buffer(1)]],
    device uchar* F [[buffer(2)]],
    device long* L [[buffer(3)]],
    device bfloat* H [[buffer(4)]],
    constant Params& p [[buffer(5)]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup uchar arena[1024];
    threadgroup uchar flags[32];
    alignas(16) threadgroup half halves[128];
    threadgroup float tile[32];
    int A_row = lane * 4;
    bool inside = A_row < p.A_extent_0;
    uint4 bits = *(device const uint4*)&A[p.wide];
    half4 v[2] = {as_type<half4>(bits.xy), as_type<half4>(bits.zw)};
    half4 v_1[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        v_1[i] = inside ? half4(((device const packed_half4*)&B[p.wide])[i]) : half4(0.0h);
    }
    if (inside) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) ((device packed_half4*)&B[p.wide])[i] = v[i] + v_1[i];
    }
    bool4 flag = uchar4(*(device const packed_uchar4*)&F[A_row]) != uchar(0);
    bool4 flag_1 =
            inside ? uchar4(*(device const packed_uchar4*)&F[A_row]) != uchar(0) : bool4(false);
    *(device packed_uchar4*)&F[A_row] = uchar4(flag & flag_1);
    F[p.B_extent_1] = F[p.B_extent_1] != 0 || p.ok;
    *(device packed_half2*)&B[A_row] = *(device const half2*)&A[A_row] * p.scale;
    long2 at = *(device const long2*)&L[A_row];
    *(device long2*)&L[A_row] = long2(ulong2(at) + ulong2(at));
    if (inside) H[A_row] *= p.b;
    threadgroup int* ints = (threadgroup int*)arena;
    threadgroup float* floats = (threadgroup float*)(arena + 256);
    threadgroup half* low = halves + 32;
    threadgroup uchar* bits_1 = (threadgroup uchar*)halves + 5;
    ints[lane] = p.n;
    flags[lane] = p.ok;
    halves[lane] = p.scale;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    float v_2 = float(ints[simdgroup]);
    floats[lane] = v_2;
    tile[lane] = v_2;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint4 bits_2 = *(threadgroup const uint4*)halves;
    half4 v_3[2] = {as_type<half4>(bits_2.xy), as_type<half4>(bits_2.zw)};
    half v_4 = low[0];
    *(threadgroup uint4*)halves = uint4(as_type<uint2>(v_3[0] * v_4), as_type<uint2>(v_3[1] * v_4));
    F[0] = (flags[0] != 0) != (bits_1[0] != 0);
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    A[lane] = half(tile[lane]);
}
