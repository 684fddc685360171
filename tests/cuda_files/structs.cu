// Structs, their methods and operators; pointers and references to a thread's own variables.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

template <typename T> struct alignas(16) Packed {
    static constexpr int size = sizeof(int4) / sizeof(T);
    T items[size];

    Packed() = default;
    __device__ explicit Packed(int4 bits) { memcpy(&items, &bits, sizeof(bits)); }
    __device__ static Packed filled(T value) {
        Packed made;
        for (int i = 0; i < size; ++i) made.items[i] = value;
        return made;
    }
    __device__ T &operator[](int i) { return items[i]; }
    __device__ const T &operator[](int i) const { return items[i]; }
    __device__ int4 bits() const {
        int4 bits;
        memcpy(&bits, &items, sizeof(bits));
        return bits;
    }
};

template <typename T> __device__ Packed<T> load(const T *from) {
    return Packed<T>{*reinterpret_cast<const int4 *>(from)};
}

template <typename T> __device__ void store(T *to, Packed<T> value) {
    *reinterpret_cast<int4 *>(to) = value.bits();
}

template <typename T> __global__ void axpy(const T *x, T *y, float a) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * Packed<T>::size;
    const Packed<T> mine = load(x + at);
    auto sum = Packed<T>::filled((T)1.0f);
    for (int i = 0; i < Packed<T>::size; ++i) sum[i] = (T)((float)sum[i] + a * (float)mine[i]);
    store(y + at, sum);
}

struct Mean {
    float total = 0.0f;
    int count;

    __device__ Mean(float first) : count(1) { total = first; }
    __device__ void add(const Mean &other) {
        total += other.total;
        count += other.count;
    }
    __device__ float value() const { return total / count; }
};

struct Pair {
    float2 ends;
    int at;
};

__device__ Pair ordered(float a, float b, int at) {
    Pair made = {make_float2(fminf(a, b), fmaxf(a, b)), at};
    if (a > b) made.at = -at;
    return made;
}

__device__ void halves(float x, float *whole, float *rest) {
    *whole = floorf(x);
    *rest = x - *whole;
}

__device__ float element(const float4 &v, int i) { return reinterpret_cast<const float *>(&v)[i]; }

__device__ float sum_of(Mean *mean, float scale = 2.0f) { return mean->total * scale; }

__global__ void records(const float *x, const float4 *v, float *out, const int *given) {
    int t = threadIdx.x;
    Mean mean(x[t]);
    for (int i = 0; i < 3; i++) {
        Mean other(x[(t + i) % 32]);
        mean.add(other);
    }
    Pair p = ordered(x[t], mean.value(), t), q = p;
    q.ends.x += 1.0f;
    q.at += p.at;
    float whole, rest;
    halves(x[t], &whole, &rest);
    float &place = out[8 * t];
    place = mean.value();
    place += sum_of(&mean);
    out[8 * t + 1] = p.ends.x + 10 * q.ends.x;
    out[8 * t + 2] = p.ends.y;
    out[8 * t + 3] = q.at;
    out[8 * t + 4] = whole;
    out[8 * t + 5] = rest;
    float4 mine = v[t];
    reinterpret_cast<float *>(&mine)[t & 3] = -1.0f;
    out[8 * t + 6] = element(mine, t % 4) + element(mine, 0) + element(mine, 3);
    if (given != nullptr && x) out[8 * t + 7] = (float)*reinterpret_cast<int *>(&rest);
}

template <typename T> struct SharedMemory {
    __device__ operator T *() {
        extern __shared__ int memory[];
        return (T *)memory;
    }
    __device__ operator const T *() const {
        extern __shared__ int memory[];
        return (T *)memory;
    }
};

__device__ int lower_sum(const cg::thread_block_tile<32> &warp, int x) {
    for (int delta = 1; delta < warp.size(); delta *= 2) {
        int lower = warp.shfl_up(x, delta);
        if (warp.thread_rank() >= delta) x += lower;
    }
    return x;
}

template <typename T> __global__ void turned(const T *x, T *out, const unsigned char *bytes) {
    T *shared = SharedMemory<T>();
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    shared[threadIdx.x] = x[threadIdx.x];
    cg::sync(block);
    unsigned word = reinterpret_cast<const unsigned *>(bytes)[threadIdx.x];
    out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x] + (T)(word >> 16);
    out[blockDim.x + threadIdx.x] = lower_sum(warp, threadIdx.x);
}

#ifndef __CUDACC_RTC__
void host() {
    axpy<float><<<1, 32>>>(nullptr, nullptr, 1.0f);
    axpy<half><<<1, 32>>>(nullptr, nullptr, 1.0f);
    turned<int><<<1, 64, 64 * sizeof(int)>>>(nullptr, nullptr, nullptr);
}
#endif
