// Structs that a condition chooses, and enums where they are held.
#include <cuda_runtime.h>
#include <math.h>

struct __align__(8) MD {
    float m, d;
};

__device__ __forceinline__ MD merged(MD a, MD b) {
    bool bigger = a.m > b.m;
    MD big = bigger ? a : b, small = bigger ? b : a;
    MD r;
    r.d = big.d + small.d * __expf(small.m - big.m);
    r.m = big.m;
    return r;
}

__global__ void online_softmax(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ MD parts[4];
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    MD mine = {-3.0e38f, 0.0f};
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        MD one = {x[i], 1.0f};
        mine = merged(mine, one);
    }
    for (int o = 16; o; o >>= 1) {
        MD other;
        other.m = __shfl_xor_sync(0xffffffffu, mine.m, o);
        other.d = __shfl_xor_sync(0xffffffffu, mine.d, o);
        mine = merged(mine, other);
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = mine;
    __syncthreads();
    MD total = parts[0];
    for (int w = 1; w < 4; w++) total = merged(total, parts[w]);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i] - total.m) / total.d;
}

enum Op { OP_ADD, OP_MULTIPLY = 3, OP_MAX, OP_LAST = 0xffffffff };
enum Sign { MINUS = -2, PLUS = 2 };
enum class Small : unsigned char { NO, YES = 7 };
struct Settings {
    int n;
    float scale;
    Op op;
    Sign sign;
    Small small;
};

__device__ float sign_of(Sign sign) { return sign; }

__global__ void apply(float *x, const float *y, Settings given) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= given.n) return;
    enum Op op = given.op;
    float r = 0;
    switch (op) {
    case OP_ADD: r = x[i] + given.scale * y[i]; break;
    case OP_MULTIPLY: r = x[i] * y[i];  // and on
    case OP_MAX: r = fmaxf(x[i], y[i]); break;
    default: break;
    }
    if (op > OP_MAX && op != OP_LAST) r = 1000;
    Small small = r > 1e6f ? Small::NO : given.small;
    x[i] = r + sign_of(given.sign) + (small == Small::YES ? 100 : 0);
}

struct Pair {
    int a, b;
    __device__ int sum() const { return a + b; }
};

__device__ Pair made(int a, int b) {
    Pair p = {a, b};
    return p;
}

__device__ Pair chosen(const Pair *p, int t, int n) { return t < n ? p[t] : made(200, -t); }

__global__ void picked(const Pair *p, int *out, int n) {
    int t = threadIdx.x;
    Pair q = chosen(p, t, n), old = q;
    q = t < n ? made(q.a + 1, q.b) : old;
    q.b += 0 * old.a;
    out[t] = q.sum();
}
