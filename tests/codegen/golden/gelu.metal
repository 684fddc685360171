#include <metal_stdlib>
using namespace metal;

// The error function, within 1 ulp plus what `exp` adds.
METAL_FUNC float error_function(float x) {
    float t = abs(x), s = x * x;
    if (t <= 0.927734375f) {
        float r = fma(-5.96761703e-4f, s, 4.99119423e-3f);
        r = fma(r, s, -2.67681349e-2f);
        r = fma(r, s, 1.12819925e-1f);
        r = fma(r, s, -3.76125336e-1f);
        r = fma(r, s, 1.28379166e-1f);
        return fma(r, x, x);
    }
    float r = fma(-1.72853470e-5f, t, 3.83197126e-4f);
    r = fma(r, s, fma(-3.88396438e-3f, t, 2.42546219e-2f));
    r = fma(r, t, -1.06777877e-1f);
    r = fma(r, t, -6.34846687e-1f);
    r = fma(r, t, -1.28717512e-1f);
    r = 1.0f - fast::exp(fma(r, t, -t));
    return copysign(r, x);
}

METAL_FUNC float4 error_function(float4 x) {
    return float4(error_function(x.x), error_function(x.y),
            error_function(x.z), error_function(x.w));
}

[[max_total_threads_per_threadgroup(64)]]
kernel void gelu(
    device const bfloat* X [[buffer(0)]],
    device bfloat* Y [[buffer(1)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    int program = tid.x;
    int start = program * 256;
    int base = start + simdgroup * 128 + lane * 4;
    bfloat4 x[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) x[i] = *(device const bfloat4*)&X[base + i * 128];
    float4 v[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) v[i] = float4(x[i]);
    float4 v_1[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) v_1[i] = v[i] * (error_function(v[i] * 0.70710677f) + 1.0f) * 0.5f;
    bfloat4 y[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) y[i] = bfloat4(fast::exp(fmax(v_1[i], float4(0.0f))));
    #pragma unroll
    for (int i = 0; i < 2; ++i) *(device bfloat4*)&Y[base + i * 128] = y[i];
}
