#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
    int step;
    bool flag;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void control(
    device const float* X [[buffer(0)]],
    device float* Y [[buffer(1)]],
    constant Params& p [[buffer(2)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    float s = 0.0f;
    float t = 1.0f;
    for (int i = 0; i < p.n; ++i) {
        float old_s = s;
        s = t;
        t = old_s + t;
    }
    for (int i = p.n; i > 0; --i) {
        float old_s = s;
        s = t;
        t = old_s;
    }
    float4 sum[2] = {};
    for (int k = lane; k < 100; k += 4) {
        float4 x[2];
        #pragma unroll
        for (int h = 0; h < 2; ++h) x[h] = *(device const float4*)&X[k + h];
        #pragma unroll
        for (int i = 0; i < 2; ++i) sum[i] += x[i];
    }
    float4 u[2] = {};
    for (int k = lane; k < p.n; k = addsat(k, 4)) {
        float4 next_sum[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) next_sum[i] = u[i] * u[0].w;
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            u[i] = sum[i];
            sum[i] = next_sum[i];
        }
    }
    for (int k = p.n; k > lane; k -= 3) Y[k] = s;
    for (int k = lane; p.step > 0 ? k < p.n : k > p.n; k = addsat(k, p.step)) t = Y[k] * t;
    int j = p.n;
    while (j > 0) {
        j >>= 2;
        t = precise::exp(t);
    }
    while (j > 0) j -= 1u;
    float res = p.flag ? t : 1.0f;
    float res2;
    int res3;
    if (p.flag) {
        res2 = res + 1.0f;
        res3 = 1;
    } else {
        Y[lane] = 0.0f;
        res2 = t;
        res3 = j;
    }
    if (p.flag) Y[lane] = res2;
    if (!p.flag) {
        Y[res3] = res2;
        Y[lane] = res;
    }
    #pragma unroll
    for (int h = 0; h < 2; ++h) *(device float4*)&Y[lane + h] = u[h];
    #pragma unroll
    for (int h = 0; h < 2; ++h) *(device float4*)&Y[lane + h] = sum[h];
}
