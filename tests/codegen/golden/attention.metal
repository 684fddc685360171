#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int S;
    float scale;
    int Q_extent_0;
    int Q_extent_1;
    int K_extent_0;
    int K_extent_1;
    int V_extent_0;
    int V_extent_1;
    int Out_extent_0;
    int Out_extent_1;
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
kernel void attention(
    device float* Out [[buffer(0)]],
    device const half* Q [[buffer(1)]],
    device const half* K [[buffer(2)]],
    device const half* V [[buffer(3)]],
    constant Params& p [[buffer(4)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort simdgroup [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup half q[1272];
    alignas(16) threadgroup half shared[1272];
    alignas(16) threadgroup half v_9[1272];
    int at = lane >> 3;
    int at_1 = at + simdgroup * 4;
    int at_2 = (lane & 7) * 4;
    int Out_col = (lane & 1) * 2 + (at & 1) * 4;
    int at_3 = ((lane >> 1) & 3) + (lane >> 4) * 4;
    int at_4 = at_3 + simdgroup * 8;
    int first = tid.x * 32;
    int Q_row = uint(first) + at_1;
    int Q_at = Q_row * 32 + at_2;
    bool inside = at_2 < p.Q_extent_1;
    int end = min(p.S, int(first + 32u));
    int at_5 = at_1 * 40 + at_2;
    int rows = uint(first) + at_4;
    int q_at = at_4 * 40 + Out_col;
    int shared_at = at_3 + Out_col * 40;
    int v_at = at_3 * 40 + Out_col;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        half4 q_1 = int(uint(Q_row) + i * 16) < p.Q_extent_0 && inside
                ? *(device const half4*)&Q[Q_at + i * 512] : half4(0.0h);
        *(threadgroup half4*)&q[at_5 + i * 640] = q_1;
    }
    float total = 0.0f;
    float2 acc[4] = {};
    float m = -1e+30f;
    for (int start = 0; start < end; start += 32) {
        int at_6 = start + at_1;
        int at_7 = at_6 * 32 + at_2;
        bool inside_1 = at_2 < p.K_extent_1;
        bool inside_2 = at_2 < p.V_extent_1;
        half4 v[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            int at_8 = at_7 + i * 512;
            int at_9 = at_6 + i * 16;
            half4 k =
                    at_9 < p.K_extent_0 && inside_1 ? *(device const half4*)&K[at_8] : half4(0.0h);
            half4 v_1 =
                    at_9 < p.V_extent_0 && inside_2 ? *(device const half4*)&V[at_8] : half4(0.0h);
            *(threadgroup half4*)&shared[at_5 + i * 640] = k;
            v[i] = v_1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 acc_1[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) acc_1[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (int k = 0; k < 4; ++k) {
            int at_8 = k * 8;
            simdgroup_half8x8 left;
            pair(left) = *(threadgroup const half2*)&q[at_8 + q_at];
            simdgroup_half8x8 right[4];
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                pair(right[i / 2])[i % 2] =
                        shared[at_8 + shared_at + ((i & 1) + (i >> 1) * 8) * 40];
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_multiply_accumulate(acc_1[i], left, right[i], acc_1[i]);
            }
        }
        float2 scores[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float2 scores_1 = pair(acc_1[i]) * p.scale;
            int2 cols = start + Out_col + i * 8 + int2(0, 1);
            bool2 seen = cols < p.S;
            bool2 seen_1 = seen & (cols <= rows);
            scores[i] = select(float2(-1e+30f), scores_1, seen_1);
        }
        float4 v_1 = fmax(float4(scores[0], scores[1]), float4(scores[2], scores[3]));
        float2 v_2 = fmax(v_1.xy, v_1.zw);
        float v_3 = fmax(v_2.x, v_2.y);
        float v_4 = fmax(v_3, simd_shuffle_xor(v_3, 1));
        float new_1 = fmax(m, fmax(v_4, simd_shuffle_xor(v_4, 8)));
        float rescale = precise::exp(m - new_1);
        float2 p_1[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) p_1[i] = precise::exp(scores[i] - new_1);
        float4 v_5 = float4(p_1[0], p_1[1]) + float4(p_1[2], p_1[3]);
        float2 v_6 = v_5.xy + v_5.zw;
        float v_7 = v_6.x + v_6.y;
        float v_8 = v_7 + simd_shuffle_xor(v_7, 1);
        float total_1 = total * rescale + (v_8 + simd_shuffle_xor(v_8, 8));
        simdgroup_half8x8 v_10[4];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            float4 acc_2 = float4(acc[i * 2], acc[i * 2 + 1]);
            float4 p_2 = float4(p_1[i * 2], p_1[i * 2 + 1]);
            *(threadgroup half4*)&v_9[at_5 + i * 640] = v[i];
            half4 v_11 = half4(p_2);
            pair(v_10[i * 2]) = v_11.xy;
            pair(v_10[i * 2 + 1]) = v_11.zw;
            float4 v_12 = acc_2 * rescale;
            acc[i * 2] = v_12.xy;
            acc[i * 2 + 1] = v_12.zw;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 acc_2[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) acc_2[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            int v_at_1 = k * 320;
            simdgroup_half8x8 right[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                pair(right[i]) = *(threadgroup const half2*)&v_9[v_at_1 + v_at + i * 8];
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                simdgroup_multiply_accumulate(acc_2[i], v_10[k], right[i], acc_2[i]);
            }
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) acc[i] += pair(acc_2[i]);
        total = total_1;
        m = new_1;
    }
    int Out_at = rows * 32 + Out_col;
    bool inside_1 = rows < p.Out_extent_0;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at_6 = i * 8;
        if (inside_1 && Out_col + at_6 < p.Out_extent_1) {
            *(device float2*)&Out[Out_at + at_6] = acc[i] / total;
        }
    }
}
