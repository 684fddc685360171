// Structs in memory: of arrays, of a launch's arguments, of __constant__ and __shared__ memory.
#include <cuda_runtime.h>

struct Inner {
    float2 at;
    short kind;
};

struct Particle {
    float3 place;
    float mass;
    Inner inner;
    int ids[3];
};

struct Limits {
    float low, high;
    int n;
};

__constant__ Limits limits;

__device__ float energy(const Particle *p) { return p->mass * p->place.x + p->inner.at.y; }

__device__ void move(Particle &p, float by) {
    p.place.x += by;
    p.ids[1] += 7;
    p.inner.kind = 3;
}

__global__ void step(Particle *all, Limits mine, float *out) {
    int t = threadIdx.x;
    __shared__ Particle near[32];
    Particle p = all[t];
    move(p, 2.0f);
    near[t] = p;
    __syncwarp();
    out[t] = energy(&p) + energy(&near[(t + 1) % 32]) + energy(all + t) + near[t].place.x;
    all[t].mass = fminf(fmaxf(p.mass, mine.low), limits.high);
    move(all[t], 1.0f);
    Particle *q = &all[t];
    q->inner.at.x = mine.n + limits.n;
    if (q->ids[2] > 0) *q = p;
}

// What CUDA computes with double's digits, but rounds to what float's own arithmetic gives.
__global__ void rounded(const float *x, float *out) {
    float a = x[threadIdx.x], b = a - 0.75;
    b *= 3.0;
    if (a > 0.5) b = 1.0 / a;
    out[threadIdx.x] = b;
}
