#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int N;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void softmax(
    device const float* X [[buffer(0)]],
    device float* Out [[buffer(1)]],
    constant Params& p [[buffer(2)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup float shared[4];
    alignas(16) threadgroup float shared_1[4];
    int row = tid.x;
    int base = row * p.N;
    int first = simdgroup * 128 + lane * 4;
    float4 x[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        int cols = first + i * 512;
        x[i] = cols < p.N ? *(device const float4*)&X[base + cols] : float4(-1e+38f);
    }
    float4 v = fmax(x[0], x[1]);
    float2 v_1 = fmax(v.xy, v.zw);
    float v_2 = fmax(v_1.x, v_1.y);
    float v_3 = fmax(v_2, simd_shuffle_xor(v_2, 1));
    float v_4 = fmax(v_3, simd_shuffle_xor(v_3, 2));
    float v_5 = fmax(v_4, simd_shuffle_xor(v_4, 4));
    float v_6 = fmax(v_5, simd_shuffle_xor(v_5, 8));
    bool inside = lane == 0;
    float v_7 = fmax(v_6, simd_shuffle_xor(v_6, 16));
    if (inside) shared[simdgroup] = v_7;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float4 v_8 = *(threadgroup const float4*)shared;
    float2 v_9 = fmax(v_8.xy, v_8.zw);
    float m = fmax(v_9.x, v_9.y);
    float4 e[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) e[i] = precise::exp(x[i] - m);
    float4 v_10 = e[0] + e[1];
    float2 v_11 = v_10.xy + v_10.zw;
    float v_12 = v_11.x + v_11.y;
    float v_13 = v_12 + simd_shuffle_xor(v_12, 1);
    float v_14 = v_13 + simd_shuffle_xor(v_13, 2);
    float v_15 = v_14 + simd_shuffle_xor(v_14, 4);
    float v_16 = v_15 + simd_shuffle_xor(v_15, 8);
    float v_17 = v_16 + simd_shuffle_xor(v_16, 16);
    if (inside) shared_1[simdgroup] = v_17;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float4 v_18 = *(threadgroup const float4*)shared_1;
    float2 v_19 = v_18.xy + v_18.zw;
    float s = v_19.x + v_19.y;
    float4 v_20[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) v_20[i] = e[i] / s;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        int cols = first + i * 512;
        if (cols < p.N) *(device float4*)&Out[base + cols] = v_20[i];
    }
}
