#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
    long m;
    uchar k;
};

// What dividing and rounding down leaves; it has the sign of y.
METAL_FUNC int floor_modulo(int x, int y) {
    if (y == -1) return 0;  // x % y could overflow
    int r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// The quotient, rounded down.
METAL_FUNC int floor_divide(int x, int y) {
    if (y == -1) return int(-uint(x));  // x / y could overflow
    int q = x / y;
    return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
}

// x * y + z, rounded once.  The product has the bits of a float; a sum that has not is rounded to
// odd there, so that rounding it once more is right.
METAL_FUNC bfloat fma_bfloat(bfloat x, bfloat y, bfloat z) {
    float a = float(x), b = float(y), product = a * b, addend = float(z), scale = 1.0f;
    if (isinf(product) && !isinf(a) && !isinf(b)) {  // the sum may fit: all is made smaller before
        scale = 18446744073709551616.0f;
        product = (a / scale) * (b / scale);
        addend = addend / scale / scale;
    }
    float sum = product + addend;
    float back = sum - product;
    float lost = (product - (sum - back)) + (addend - back);
    int bits = as_type<int>(sum);
    bool inexact = lost != 0.0f && !isinf(sum) && (bits & 1) == 0;
    if (inexact) bits += (lost < 0.0f) != (sum < 0.0f) ? -1 : 1;
    return bfloat(as_type<float>(bits) * scale * scale);
}

METAL_FUNC bfloat4 fma_bfloat(bfloat4 x, bfloat4 y, bfloat4 z) {
    return bfloat4(fma_bfloat(x.x, y.x, z.x), fma_bfloat(x.y, y.y, z.y),
            fma_bfloat(x.z, y.z, z.z), fma_bfloat(x.w, y.w, z.w));
}

[[max_total_threads_per_threadgroup(32)]]
kernel void integers(
    device char* X [[buffer(0)]],
    device ushort* Y [[buffer(1)]],
    device int* I [[buffer(2)]],
    device long* J [[buffer(3)]],
    device bfloat* F [[buffer(4)]],
    constant Params& p [[buffer(5)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    char a = X[lane];
    X[lane] = -char(char(a * a) + 2);
    ushort u = Y[lane];
    ushort at = uint(u) * u;
    bool inside = ushort(~at) < u;
    if (inside) Y[lane] = at;
    int i = I[lane];
    int at_1 = int((uint(i) + p.n - 1) * 3) >> 3;
    int at_2 = uint(abs(max((at_1 & 7) / 3, floor_modulo(at_1, 7)))) + floor_divide(p.n, 3);
    if ((at_2 >= lane) == inside) I[lane] = at_2;
    long J_at = ulong(long(at_2)) * p.m;
    J[J_at] = J_at;
    uint4 f_bits = *(device const uint4*)&F[lane];
    bfloat4 f[2] = {as_type<bfloat4>(f_bits.xy), as_type<bfloat4>(f_bits.zw)};
    bfloat4 v[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
        v[j] = fma_bfloat(bfloat4(precise::tanh(float4(f[j] * bfloat(0.5f)))),
                bfloat4(bfloat(0.5f)), bfloat4(bfloat(0.5f)));
    }
    bfloat4 v_1[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) v_1[j] = bfloat4(float4(half4(float4(v[j]))));
    *(device uint4*)&F[lane] = uint4(as_type<uint2>(v_1[0]), as_type<uint2>(v_1[1]));
    float v_2 = float(uchar(p.k << p.k) >> p.k);
    float v_3 = 1.0f / (1.0f + precise::exp(-v_2));
    F[lane] = bfloat((v_2 - (v_2 - v_3 - v_3)) / v_2);
}
