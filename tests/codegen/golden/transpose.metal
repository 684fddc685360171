#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int m;
    int n;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void transpose(
    device const half* X [[buffer(0)]],
    device half* Y [[buffer(1)]],
    constant Params& p [[buffer(2)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup half tile[1056];
    int row0 = tid.x * 32;
    int col0 = tid.y * 32;
    int at = uint(col0) + lane;
    bool inside = at < p.n;
    half x[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int at_1 = uint(row0) + i * 4 + simdgroup;
        x[i] = at_1 < p.m && inside ? X[at_1 * p.n + at] : 0.0h;
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) tile[(i * 4 + simdgroup) * 33 + lane] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    half y[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = tile[lane * 33 + i * 4 + simdgroup];
    int at_1 = uint(row0) + lane;
    bool inside_1 = at_1 < p.m;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int at_2 = uint(col0) + i * 4 + simdgroup;
        if (at_2 < p.n && inside_1) Y[at_2 * p.m + at_1] = y[i];
    }
}
