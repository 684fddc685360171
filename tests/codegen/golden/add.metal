#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void add(
    device const float* X [[buffer(0)]],
    device const float* Y [[buffer(1)]],
    device float* Z [[buffer(2)]],
    constant Params& p [[buffer(3)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    int program = tid.x;
    int start = program * 1024u;
    int at = uint(start) + simdgroup * 128 + lane * 4;
    float4 x[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        int at_1 = uint(at) + i * 512;
        bool inside = at_1 < p.n;
        x[i] = inside ? *(device const float4*)&X[at_1] : float4(0.0f);
    }
    float4 y[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        int at_1 = uint(at) + i * 512;
        y[i] = at_1 < p.n ? *(device const float4*)&Y[at_1] : float4(0.0f);
    }
    float4 z[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) z[i] = x[i] + y[i];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        int at_1 = uint(at) + i * 512;
        if (at_1 < p.n) *(device float4*)&Z[at_1] = z[i];
    }
}
