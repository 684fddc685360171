#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

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
inline thread half2& pair(thread simdgroup_half8x8& x) {
    return reinterpret_cast<thread half2&>(x.thread_elements());
}

// The two elements that a lane holds of a matrix.
inline thread float2& pair(thread simdgroup_float8x8& x) {
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
    alignas(16) threadgroup half a[2552];
    alignas(16) threadgroup half b[2296];
    int at = lane >> 3;
    int at_1 = at + simdgroup * 4;
    int at_2 = (lane & 7) * 4;
    int at_3 = lane >> 4;
    int at_4 = at_3 + simdgroup * 2;
    int at_5 = (lane & 15) * 4;
    int at_6 = ((lane >> 1) & 3) + at_3 * 4;
    int at_7 = at_6 + (simdgroup & 1) * 32;
    int at_8 = (lane & 1) * 2 + (at & 1) * 4;
    int at_9 = at_8 + (simdgroup >> 1) * 32;
    int pid_m = tid.x;
    int pid_n = tid.y;
    int at_10 = pid_m * 64u;
    int at_11 = pid_n * 64u;
    int A_row = uint(at_10) + at_1;
    int A_at = A_row * p.K;
    int B_col = uint(at_11) + at_5;
    int a_at = at_1 * 40 + at_2;
    int b_at = at_4 * 72 + at_5;
    int a_at_1 = at_7 * 40 + at_8;
    int b_at_1 = at_6 * 72 + at_9;
    simdgroup_float8x8 acc[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k = 0; k < p.K; k += 32) {
        int A_col = k + at_2;
        int A_at_1 = A_at + A_col;
        bool inside = A_col < p.A_extent_1;
        int B_row = k + at_4;
        int B_at = B_row * p.N + B_col;
        bool inside_1 = B_col < p.B_extent_1;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int i = 0; i < 4; ++i) {
            int at_12 = i * 16;
            half4 a_1 = int(uint(A_row) + at_12) < p.A_extent_0 && inside
                    ? *(device const half4*)&A[A_at_1 + at_12 * p.K] : half4(0.0h);
            int at_13 = i * 8;
            half4 b_1 = B_row + at_13 < p.B_extent_0 && inside_1
                    ? *(device const half4*)&B[B_at + at_13 * p.N] : half4(0.0h);
            *(threadgroup half4*)&a[a_at + i * 640] = a_1;
            *(threadgroup half4*)&b[b_at + i * 576] = b_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int k_1 = 0; k_1 < 4; ++k_1) {
            int a_at_2 = k_1 * 8;
            int b_at_2 = k_1 * 576;
            simdgroup_half8x8 left[4];
            simdgroup_half8x8 right[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                pair(left[i]) = *(threadgroup const half2*)&a[a_at_2 + a_at_1 + i * 320];
                pair(right[i]) = *(threadgroup const half2*)&b[b_at_2 + b_at_1 + i * 8];
            }
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                simdgroup_multiply_accumulate(acc[i], left[i / 4], right[i % 4], acc[i]);
            }
        }
    }
    int C_row = uint(at_10) + at_7;
    int C_col = uint(at_11) + at_9;
    int C_at = C_row * p.N + C_col;
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        int at_12 = (i & 3) * 8;
        int at_13 = (i >> 2) * 8;
        bool inside =
                int(uint(C_row) + at_12) < p.C_extent_0 && int(uint(C_col) + at_13) < p.C_extent_1;
        if (inside) *(device float2*)&C[C_at + at_12 * p.N + at_13] = pair(acc[i]);
    }
}
