#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void registers(
    device float* X [[buffer(0)]],
    device int* I [[buffer(1)]],
    constant Params& p [[buffer(2)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    float2 x[8];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        float4 v = *(device const float4*)&X[lane + i];
        x[i * 2] = v.xy;
        x[i * 2 + 1] = v.zw;
    }
    float2 wide[8];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) wide[i * 4 + j] = precise::exp(x[i * 4 + j]);
    }
    float pairs[16];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        pairs[i * 2] = (-wide[i]).x;
        pairs[i * 2 + 1] = (-wide[i]).y;
    }
    float ones[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) ones[i] = precise::sqrt(pairs[i]);
    float4 four;
    #pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = ones[i];
    float4 four2;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        float2 v = float2(four[i * 2], four[i * 2 + 1]);
        four2[i * 2] = v.x;
        four2[i * 2 + 1] = v.y;
    }
    float odd[7] = {ones[0], ones[2], ones[4], ones[6], ones[8], ones[10], ones[12]};
    float odd2[21];
    #pragma unroll
    for (int i = 0; i < 3; ++i) {
        float v = float(i);
        #pragma unroll
        for (int j = 0; j < 7; ++j) odd2[i * 7 + j] = odd[j] * v;
    }
    float2 single = float2(float(0));
    float4 mix_1 = float4(ones[15], ones[0], ones[1], ones[7]);
    float4 high[2] = {
        float4(ones[8], ones[9], ones[10], ones[11]),
        float4(ones[12], ones[13], ones[14], ones[15]),
    };
    float4 even[2] = {
        float4(ones[0], ones[2], ones[4], ones[6]),
        float4(ones[8], ones[10], ones[12], ones[14]),
    };
    float five[5] = {four2.x, four2.y, four2.z, four2.w, ones[5]};
    float4 j12[3] = {high[0], high[1], four.wzyx};
    float4 j16[4] = {
        float4(single, j12[0].xy),
        float4(j12[0].zw, j12[1].xy),
        float4(j12[1].zw, j12[2].xy),
        float4(j12[2].zw, single),
    };
    int4 lit[2] = {int4(0, 1, 2, 3), int4(4, 5, -6, 7)};
    int4 lit4 = int4(0, 1, 2, 3);
    int4 at = int4(uint(p.n) + uint4(lit4));
    bool4 flag = at < p.n;
    *(device int4*)&I[lane] = select(int4(0), select(lit4, at, flag), flag);
    #pragma unroll
    for (int h = 0; h < 2; ++h) *(device int4*)&I[0 + h] = lit[h];
    *(device float4*)&X[lane] = simd_broadcast(simd_shuffle(simd_shuffle_xor(mix_1, 8), p.n), 3);
    bool flag_1 = lane < p.n;
    float4 v[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) v[i] = flag_1 ? high[i] : even[i];
    #pragma unroll
    for (int h = 0; h < 2; ++h) *(device float4*)&X[lane + h] = v[h];
    float v_1 = simd_shuffle(odd2[lane * 7 + 1], lane);
    X[lane] = flag_1 ? v_1 : five[4];
    *(device float4*)&X[lane] = single.xyxy;
    *(device float4*)&X[lane] = j16[1];
    *(device float4*)&X[lane] = j16[lane];
}
