#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
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

// Adds products of 16x16 matrices and pairs of them, each of four fragments, to pairs.
template <ushort rows, ushort columns, bool tf32>
METAL_FUNC void multiply_tensors(thread simdgroup_float8x8* to, thread simdgroup_half8x8* a,
                                 thread simdgroup_half8x8* b, thread simdgroup_float8x8* acc) {
    using namespace mpp::tensor_ops;
    constexpr auto of = matmul2d_descriptor(16, 32, 16, false, false, tf32,
                                            matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<of, execution_simdgroup> product;
    auto left = product.template get_left_input_cooperative_tensor<half, half, float>();
    auto right = product.template get_right_input_cooperative_tensor<half, half, float>();
    auto sum = product.template get_destination_cooperative_tensor<decltype(left), decltype(right),
                                                                   float>();
    #pragma unroll
    for (ushort row = 0; row < rows; ++row) {
        #pragma unroll
        for (ushort i = 0; i < 8; ++i) left[i] = pair(a[row * 4 + i / 2])[i % 2];
        #pragma unroll
        for (ushort column = 0; column < columns; ++column) {
            ushort at = (row * columns + column) * 8;
            #pragma unroll
            for (ushort i = 0; i < 16; ++i) {
                right[i] = pair(b[column * 8 + i / 2])[i % 2];
                sum[i] = pair(acc[at + i / 2])[i % 2];
            }
            product.run(left, right, sum);
            #pragma unroll
            for (ushort i = 0; i < 16; ++i) pair(to[at + i / 2])[i % 2] = sum[i];
        }
    }
}

[[max_total_threads_per_threadgroup(32)]]
kernel void gemm(
    device const half* A [[buffer(0)]],
    device const half* B [[buffer(1)]],
    device float* C [[buffer(2)]],
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
    int at_6 = at_1 * 4 + ((lane >> 3) & 1) * 8;
    int pid_m = tid.x;
    int pid_n = tid.y;
    int at_7 = pid_m * 32u;
    int at_8 = pid_n * 32u;
    int a_at = at * 24 + at_2;
    int b_at = at_3 * 40 + at_4;
    int a_at_1 = at_5 * 24 + at_6;
    int b_at_1 = at_5 * 40 + at_6;
    simdgroup_float8x8 acc[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k = 0; k < p.K; k += 16) {
        int last = p.A_extent_0 - 32;
        int last_1 = p.A_extent_1 - 16;
        int last_2 = p.B_extent_0 - 16;
        int last_3 = p.B_extent_1 - 32;
        bool inside = at_7 <= last && k <= last_1 && k <= last_2 && at_8 <= last_3;
        uint4 a[2];
        uint4 b[2];
        if (inside) {
            int A_at = (at_7 + at) * p.K + k + at_2;
            int B_at = (k + at_3) * p.N + at_8 + at_4;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                a[i] = *(device const uint4*)&A[A_at + i * 16 * p.K];
                b[i] = *(device const uint4*)&B[B_at + i * 8 * p.N];
            }
        } else {
            int A_row = uint(at_7) + at;
            int A_col = k + at_2;
            int A_at = A_row * p.K + A_col;
            bool inside_1 = A_col < p.A_extent_1;
            int B_row = k + at_3;
            int B_col = uint(at_8) + at_4;
            int B_at = B_row * p.N + B_col;
            bool inside_2 = B_col < p.B_extent_1;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int at_9 = i * 16;
                uint4 a_1 = int(uint(A_row) + at_9) < p.A_extent_0 && inside_1
                        ? *(device const uint4*)&A[A_at + at_9 * p.K] : uint4(0);
                int at_10 = i * 8;
                uint4 b_1 = B_row + at_10 < p.B_extent_0 && inside_2
                        ? *(device const uint4*)&B[B_at + at_10 * p.N] : uint4(0);
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
        simdgroup_half8x8 left[8];
        simdgroup_half8x8 right[8];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            half4 v = *(threadgroup const half4*)&a_2[a_at_1 + i * 192];
            pair(left[i * 2]) = v.xy;
            pair(left[i * 2 + 1]) = v.zw;
            half4 v_1 = *(threadgroup const half4*)&b_2[b_at_1 + (i & 1) * 320 + (i >> 1) * 16];
            pair(right[i * 2]) = v_1.xy;
            pair(right[i * 2 + 1]) = v_1.zw;
        }
        multiply_tensors<2, 1, false>(&acc[0], &left[0], &right[0], &acc[0]);
    }
    int C_row = uint(at_7) + at_5;
    int C_col = uint(at_8) + at_6;
    int C_at = C_row * p.N + C_col;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int at_9 = (i & 1) * 8 + (i >> 2) * 16;
        int at_10 = ((i >> 1) & 1) * 16;
        bool inside =
                int(uint(C_row) + at_9) < p.C_extent_0 && int(uint(C_col) + at_10) < p.C_extent_1;
        if (inside) {
            *(device float4*)&C[C_at + at_9 * p.N + at_10] =
                    float4(pair(acc[i * 2]), pair(acc[i * 2 + 1]));
        }
    }
}
