#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int M;
    int N;
    int K;
    int A_extent_0;
    int A_extent_1;
    int B_extent_0;
    int B_extent_1;
    int C_extent_0;
    int C_extent_1;
};

// The two elements that a lane holds of a matrix.
METAL_FUNC thread half2& pair(thread simdgroup_half8x8& x) {
    return reinterpret_cast<thread half2&>(x.thread_elements());
}

// The two elements that a lane holds of a matrix.
METAL_FUNC thread float2& pair(thread simdgroup_float8x8& x) {
    return reinterpret_cast<thread float2&>(x.thread_elements());
}

[[max_total_threads_per_threadgroup(128)]]
kernel void gemm(
    device const half* A [[buffer(0)]],
    device const half* B [[buffer(1)]],
    device float* C [[buffer(2)]],
    constant Params& p [[buffer(3)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup half a_2[2552];
    alignas(16) threadgroup half b_2[2296];
    int at = (lane >> 2) + simdgroup * 8;
    int at_1 = (lane & 3) * 8;
    int at_2 = lane >> 3;
    int at_3 = at_2 + simdgroup * 4;
    int at_4 = (lane & 7) * 8;
    int at_5 = ((lane >> 1) & 3) + (lane >> 4) * 4;
    int at_6 = at_5 + (simdgroup & 1) * 32;
    int at_7 = lane & 1;
    int at_8 = at_2 & 1;
    int at_9 = at_7 * 8 + at_8 * 16 + (simdgroup >> 1) * 32;
    int pid_m = tid.x;
    int pid_n = tid.y;
    int at_10 = pid_m * 64u;
    int at_11 = pid_n * 64u;
    int a_at = at * 40 + at_1;
    int b_at = at_3 * 72 + at_4;
    int a_at_1 = at_6 * 40 + at_7 * 2 + at_8 * 4;
    int b_at_1 = at_5 * 72 + at_9;
    simdgroup_float8x8 acc[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k = 0; k < p.K; k += 32) {
        int last = p.A_extent_0 - 64;
        int last_1 = p.A_extent_1 - 32;
        int last_2 = p.B_extent_0 - 32;
        int last_3 = p.B_extent_1 - 64;
        bool inside = at_10 <= last && k <= last_1 && k <= last_2 && at_11 <= last_3;
        uint4 a[2];
        uint4 b[2];
        if (inside) {
            int A_at = (at_10 + at) * p.K + k + at_1;
            int B_at = (k + at_3) * p.N + at_11 + at_4;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                a[i] = *(device const uint4*)&A[A_at + i * 32 * p.K];
                b[i] = *(device const uint4*)&B[B_at + i * 16 * p.N];
            }
        } else {
            int A_row = uint(at_10) + at;
            int A_col = k + at_1;
            int A_at = A_row * p.K + A_col;
            bool inside_1 = A_col < p.A_extent_1;
            int B_row = k + at_3;
            int B_col = uint(at_11) + at_4;
            int B_at = B_row * p.N + B_col;
            bool inside_2 = B_col < p.B_extent_1;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int at_12 = i * 32;
                uint4 a_1 = int(uint(A_row) + at_12) < p.A_extent_0 && inside_1
                        ? *(device const uint4*)&A[A_at + at_12 * p.K] : uint4(0);
                int at_13 = i * 16;
                uint4 b_1 = B_row + at_13 < p.B_extent_0 && inside_2
                        ? *(device const uint4*)&B[B_at + at_13 * p.N] : uint4(0);
                a[i] = a_1;
                b[i] = b_1;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            *(threadgroup uint4*)&a_2[a_at + i * 1280] = a[i];
            *(threadgroup uint4*)&b_2[b_at + i * 1152] = b[i];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int k_1 = 0; k_1 < 4; ++k_1) {
            int a_at_2 = a_at_1 + k_1 * 8;
            simdgroup_half8x8 left[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                pair(left[i]) = *(threadgroup const half2*)&a_2[a_at_2 + i * 320];
            }
            uint4 bits = *(threadgroup const uint4*)&b_2[b_at_1 + k_1 * 576];
            simdgroup_half8x8 right[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) pair(right[i]) = as_type<half2>(bits[i]);
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                simdgroup_multiply_accumulate(acc[i], left[i / 4], right[i % 4], acc[i]);
            }
        }
    }
    int C_row = uint(at_10) + at_6;
    int C_col = uint(at_11) + at_9;
    int C_at = C_row * p.N + C_col;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int at_12 = (i >> 1) * 8;
        int at_13 = (i & 1) * 4;
        bool inside =
                int(uint(C_row) + at_12) < p.C_extent_0 && int(uint(C_col) + at_13) < p.C_extent_1;
        if (inside) {
            *(device float4*)&C[C_at + at_12 * p.N + at_13] =
                    float4(pair(acc[i * 2]), pair(acc[i * 2 + 1]));
        }
    }
}
