#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void halves(
    device const float* X [[buffer(0)]],
    device float* Y [[buffer(1)]],
    constant Params& p [[buffer(2)]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup float row[128];
    alignas(16) threadgroup float spare[128];
    alignas(16) threadgroup float third[128];
    int t = simdgroup * 32 + lane;
    int other = t ^ 127;
    float x = X[t];
    row[t] = x;
    threadgroup float* now = row;
    threadgroup float* next = spare;
    for (int i = 0; i < p.n; ++i) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float a = now[t];
        float b = now[other];
        float c = a + b;
        next[t] = c;
        threadgroup float* old_now = now;
        now = next;
        next = old_now;
    }
    threadgroup float* r = third;
    float s = x;
    for (int j = 0; j < p.n; ++j) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float d = now[other];
        float e = s + d;
        r[t] = e;
        s = d;
        threadgroup float* old_now = now;
        now = r;
        r = next;
        next = old_now;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float y = now[other];
    float z = y + s;
    Y[t] = z;
}
