#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
    bool flag;
};

// The two elements that a lane holds of a matrix.
METAL_FUNC thread float2& pair(thread simdgroup_float8x8& x) {
    return reinterpret_cast<thread float2&>(x.thread_elements());
}

// The two elements that a lane holds of a matrix.
METAL_FUNC thread bfloat2& pair(thread simdgroup_bfloat8x8& x) {
    return reinterpret_cast<thread bfloat2&>(x.thread_elements());
}

[[max_total_threads_per_threadgroup(32)]]
kernel void matrices(
    device const float* A [[buffer(0)]],
    device const bfloat* B [[buffer(1)]],
    device float* C [[buffer(2)]],
    constant Params& p [[buffer(3)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    float4 a_loaded = *(device const float4*)&A[lane];
    simdgroup_float8x8 a[2];
    pair(a[0]) = a_loaded.xy;
    pair(a[1]) = a_loaded.zw;
    bfloat4 b_loaded = *(device const bfloat4*)&B[lane];
    simdgroup_bfloat8x8 b[2];
    pair(b[0]) = b_loaded.xy;
    pair(b[1]) = b_loaded.zw;
    simdgroup_float8x8 one = a[1];
    simdgroup_float8x8 first[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) first[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        simdgroup_multiply_accumulate(first[i], a[i / 2], a[i % 2], first[i]);
    }
    simdgroup_float8x8 second[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        simdgroup_multiply_accumulate(second[i], b[i / 2], b[i % 2], first[i]);
    }
    simdgroup_float8x8 third[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        simdgroup_multiply_accumulate(third[i], a[i / 2], a[i % 2], first[i]);
    }
    simdgroup_float8x8 single;
    simdgroup_multiply_accumulate(single, one, one, one);
    for (int i = 0; i < p.n; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            simdgroup_multiply_accumulate(second[j], a[j / 2], a[j % 2], second[j]);
        }
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            simdgroup_float8x8 old_second = second[j];
            second[j] = third[j];
            third[j] = old_second;
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) pair(second[j]) *= pair(third[j]);
    simdgroup_float8x8 z[4];
    if (p.flag) {
        simdgroup_float8x8 scaled[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            simdgroup_multiply_accumulate(scaled[i], a[i / 2], a[i % 2], second[i]);
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) z[i] = scaled[i];
    } else {
        #pragma unroll
        for (int i = 0; i < 4; ++i) z[i] = second[i];
    }
    for (int k = 0; k < p.n; ++k) {
        #pragma unroll
        for (int l = 0; l < 2; ++l) {
            float4 v = precise::exp(float4(pair(z[l * 2]), pair(z[l * 2 + 1])));
            pair(z[l * 2]) = v.xy;
            pair(z[l * 2 + 1]) = v.zw;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) simdgroup_multiply_accumulate(z[i], a[i / 2], a[i % 2], z[i]);
    }
    *(device float2*)&C[lane] = pair(z[p.n]) + pair(single);
    *(device float4*)&C[p.n] = float4(pair(z[0]), pair(z[3]));
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
        *(device float4*)&C[0 + h] = float4(pair(z[h * 2]), pair(z[h * 2 + 1]));
    }
}
