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

[[max_total_threads_per_threadgroup(32)]]
kernel void gemm(
    device const half* A [[buffer(0)]],
    device const half* B [[buffer(1)]],
    device half* C [[buffer(2)]],
    constant Params& p [[buffer(3)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]])
{
    alignas(16) threadgroup half a_2[760];
    alignas(16) threadgroup half b_2[632];
    int at = lane >> 1;
    int at_1 = lane & 1;
    int at_2 = at_1 * 8;
    int at_3 = lane >> 2;
    int at_4 = (lane & 3) * 8;
    int at_5 = (at & 3) + (lane >> 4) * 4;
    int at_6 = (lane >> 3) & 1;
    int at_7 = at_2 + at_6 * 16;
    int pid_m = tid.x;
    int pid_n = tid.y;
    int at_8 = pid_m * 32u;
    int at_9 = pid_n * 32u;
    int a_at = at * 24 + at_2;
    int b_at = at_3 * 40 + at_4;
    int a_at_1 = at_5 * 24 + at_1 * 2 + at_6 * 4;
    int b_at_1 = at_5 * 40 + at_7;
    simdgroup_float8x8 acc[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k = 0; k < p.K; k += 16) {
        int last = p.A_extent_0 - 32;
        int last_1 = p.A_extent_1 - 16;
        int last_2 = p.B_extent_0 - 16;
        int last_3 = p.B_extent_1 - 32;
        bool inside = at_8 <= last && k <= last_1 && k <= last_2 && at_9 <= last_3;
        uint4 a[2];
        uint4 b[2];
        if (inside) {
            int A_at = (at_8 + at) * p.K + k + at_2;
            int B_at = (k + at_3) * p.N + at_9 + at_4;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                a[i] = *(device const uint4*)&A[A_at + i * 16 * p.K];
                b[i] = *(device const uint4*)&B[B_at + i * 8 * p.N];
            }
        } else {
            int A_row = uint(at_8) + at;
            int A_col = k + at_2;
            int A_at = A_row * p.K + A_col;
            bool inside_1 = A_col < p.A_extent_1;
            int B_row = k + at_3;
            int B_col = uint(at_9) + at_4;
            int B_at = B_row * p.N + B_col;
            bool inside_2 = B_col < p.B_extent_1;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int at_10 = i * 16;
                uint4 a_1 = int(uint(A_row) + at_10) < p.A_extent_0 && inside_1
                        ? *(device const uint4*)&A[A_at + at_10 * p.K] : uint4(0);
                int at_11 = i * 8;
                uint4 b_1 = B_row + at_11 < p.B_extent_0 && inside_2
                        ? *(device const uint4*)&B[B_at + at_11 * p.N] : uint4(0);
                a[i] = a_1;
                b[i] = b_1;
            }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            *(threadgroup uint4*)&a_2[a_at + i * 384] = a[i];
            *(threadgroup uint4*)&b_2[b_at + i * 320] = b[i];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (int k_1 = 0; k_1 < 2; ++k_1) {
            int a_at_2 = a_at_1 + k_1 * 8;
            simdgroup_half8x8 left[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                pair(left[i]) = *(threadgroup const half2*)&a_2[a_at_2 + i * 192];
            }
            uint4 bits = *(threadgroup const uint4*)&b_2[b_at_1 + k_1 * 320];
            simdgroup_half8x8 right[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) pair(right[i]) = as_type<half2>(bits[i]);
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                simdgroup_multiply_accumulate(acc[i], left[i / 4], right[i % 4], acc[i]);
            }
        }
    }
    int C_row = uint(at_8) + at_5;
    int C_col = uint(at_9) + at_7;
    int C_at = C_row * p.N + C_col;
    bool inside = C_col < p.C_extent_1;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at_10 = i * 8;
        uint4 bits;
        #pragma unroll
        for (int j = 0; j < 4; ++j) bits[j] = as_type<uint>(half2(pair(acc[i * 4 + j])));
        if (int(uint(C_row) + at_10) < p.C_extent_0 && inside) {
            *(device uint4*)&C[C_at + at_10 * p.N] = bits;
        }
    }
}
