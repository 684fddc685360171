// A thread's own variables, in loops and branches: what pointers lead to, structs, vectors.
#include <cuda_fp16.h>

struct Row {
    int first;
    float rest[4];
};

__device__ void split(int x, int *quotient, int *rest) {
    *quotient = x / 3;
    *rest = x % 3;
}

__device__ void bump(int *value) {
    *value += 5;
    if (*value > 20) *value = -*value;
}

template <int (*F)(int)> __device__ int twice(int x) { return F(F(x)); }

__device__ int after(int x) { return x + 1; }

__global__ void own(const int *x, int *out, const float4 *v, float *sums, half2 *h) {
    int t = threadIdx.x, total = 0;
    for (int i = 0; i < 4; i++) {
        int quotient, rest;
        split(x[t] + i, &quotient, &rest);
        if (rest == 1) bump(&quotient);
        total += quotient * 10 + rest;
        if (total > 300) break;
    }
    out[t] = total;
    Row row = {t}, other = row;
    if (t & 1) {
        other.first = 100;
        other.rest[t & 3] = 2.5f;
    } else {
        row = other;
        row.first -= 7;
    }
    for (int i = 0; i < 4; i++) {
        if (i == (t & 3)) continue;
        row.rest[i] += other.rest[i] + i;
    }
    out[32 + t] = row.first + other.first;
    float4 all[3];
    for (int i = 0; i < 3; i++) all[i] = v[(t + i) % 32];
    all[t % 3].y += 10.0f;
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        float4 &one = all[i];
        one.x *= 2.0f;
        sum += one.x + one.y * (i + 1);
    }
    sums[t] = sum + row.rest[0] + 10 * row.rest[1] + 100 * row.rest[2] + 1000 * row.rest[3];
    out[64 + t] = twice<after>(t) + __syncthreads_count(t % 3 == 0) * 100;
    h[t] = __hadd2(h[t], __float2half2_rn(1.0f));
    float mine = sums[t];
    out[96 + t] = (int)(*(unsigned *)&mine >> 23);
}
