// What training a language model runs: packed loads of 16 bytes, reductions over blocks that a
// template takes as an argument, one pass over logits for the loss and its gradient.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>

#define WARP 32

template <class Element>
struct alignas(16) Pack {
    static constexpr const size_t size = sizeof(int4) / sizeof(Element);
    Element held[size];

    Pack() = default;
    __device__ explicit Pack(int4 bits) { memcpy(&held, &bits, sizeof(bits)); }
    __device__ Element &operator[](int i) { return held[i]; }
    __device__ const Element &operator[](int i) const { return held[i]; }
    __device__ int4 bits() const {
        int4 made;
        memcpy(&made, &held, sizeof(made));
        return made;
    }
};
typedef Pack<float> Floats;

template <class Element> __device__ Pack<Element> load_pack(const Element *from) {
    return Pack<Element>{__ldcs(reinterpret_cast<const int4 *>(from))};
}

template <class Element> __device__ void store_pack(Element *to, Pack<Element> pack) {
    *reinterpret_cast<int4 *>(to) = pack.bits();
}

__device__ inline float warp_sum(float x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, lanes);
    return x;
}

__device__ inline float warp_max(float x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, lanes));
    return x;
}

using Reduction = float (*)(float);

template <Reduction of_warp> __device__ inline float of_block(float x, float neutral = 0.0f) {
    __shared__ float warps[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, count = blockDim.x / WARP;
    x = of_warp(x);
    if (lane == 0) warps[warp] = x;
    __syncthreads();
    return of_warp(lane < count ? warps[lane] : neutral);
}

__global__ void embedded(float *out, const int *tokens, const float *words, const float *places,
                         int T, int C, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * Floats::size;
    if (i >= n) return;
    int place = i / C, c = i % C;
    Floats word = load_pack(words + tokens[place] * C + c);
    Floats position = load_pack(places + (place % T) * C + c);
    Floats sum;
#pragma unroll
    for (int k = 0; k < word.size; k++) sum[k] = word[k] + position[k];
    store_pack(out + i, sum);
}

__global__ void causal_softmax(float *out, float scale, const float *in, int T) {
    int lane = threadIdx.x % WARP, row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    int own = row % T;
    const float *x = reinterpret_cast<const float *>(__builtin_assume_aligned(in + row * T, 16));
    float most = -FLT_MAX, sum = 0.0f;
    for (int i = lane; i <= own; i += WARP) {
        float before = most;
        most = fmaxf(most, x[i]);
        sum *= expf(scale * (before - most));
        sum += expf(scale * (x[i] - most));
    }
    float all = warp_max(most);
    sum = warp_sum(sum * expf(scale * (most - all)));
    for (int i = lane; i <= own; i += WARP) __stcs(out + row * T + i, expf(scale * (x[i] - all)) / sum);
}

struct Softmax {
    float scale, offset;
};

__device__ Softmax of_row(const float *x, int V) {
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < V / Floats::size; i += blockDim.x) {
        Floats pack = load_pack(x + i * Floats::size);
        for (int k = 0; k < pack.size; ++k) {
            float before = most;
            most = fmaxf(most, pack[k]);
            sum *= expf(before - most);
            sum += expf(pack[k] - most);
        }
    }
    float all = of_block<warp_max>(most, -INFINITY);
    sum *= expf(most - all);
    return Softmax{1.f / of_block<warp_sum>(sum), all};
}

template <bool WriteGradient>
__global__ void __launch_bounds__(1024, 1)
classified(float *logits, float *losses, const float loss, const int *targets, int V) {
    long row = gridDim.x - (blockIdx.x + 1);
    int target = targets[row];
    Softmax softmax = of_row(logits + row * V, V);
    if (threadIdx.x == 0)
        losses[row] -= logf(expf(logits[row * V + target] - softmax.offset) * softmax.scale);
    if constexpr (WriteGradient) {
        __syncthreads();
        for (int i = threadIdx.x; i < V; i += blockDim.x) {
            float p = expf(logits[row * V + i] - softmax.offset) * softmax.scale;
            logits[row * V + i] = (p - (i == target ? 1.0f : 0.0f)) * loss;
        }
    }
}

__device__ float between(float a, float b, float t) { return fma(t, b, fma(-t, a, a)); }

template <typename Parameter>
__global__ void adamw(Parameter *weights, float *kept, const float *gradients, float *m, float *v,
                      size_t n, ptrdiff_t stride, float rate, float beta1, float beta2, float decay) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    weights += blockIdx.y * stride;
    gradients += blockIdx.y * stride;
    float g = gradients[i], first = between(g, m[i], beta1), second = between(g * g, v[i], beta2);
    m[i] = first;
    v[i] = second;
    float old = kept != NULL ? kept[i] : (float)weights[i];
    float now = old - rate * (first / (sqrtf(second) + 1e-8f) + decay * old);
    weights[i] = (Parameter)now;
    if (kept != NULL) kept[i] = now;
}

__global__ void tinted(uchar4 *pixels, const uchar4 colour, float3 weights, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = pixels[i];
    float grey = weights.x * p.x + weights.y * p.y + weights.z * p.z;
    p.x = (unsigned char)(grey + colour.x);
    p.y ^= colour.y;
    p.w = colour.w;
    pixels[i] = p;
}

__global__ void tails(const float *x, float *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = erfcf(x[i]);
        out[n + i] = erfcxf(x[i]);
        out[2 * n + i] = normcdff(x[i]);
    }
}

__global__ void dotted(const half2 *a, const half2 *b, float *out, int n) {
    half2 sum = __float2half2_rn(0.f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum = __hfma2(a[i], b[i], sum);
    out[threadIdx.x] = __low2float(sum) + __high2float(sum);
}

__global__ void segments(const int *x, int *out, int width) {
    int i = threadIdx.x, v = x[i];
    out[i] = __shfl_sync(0xffffffff, v, 1, width) + 100 * __shfl_xor_sync(0xffffffff, v, 1, width);
    for (int by = 1; by < width; by *= 2) {
        int lower = __shfl_up_sync(0xffffffff, v, by, width);
        if (i % width >= by) v += lower;
    }
    out[i + blockDim.x] = v;
}

#ifndef __CUDACC_RTC__
void launch(float *p, int *i) {
    classified<true><<<1, 64>>>(p, p, 1.f, i, 1);
    adamw<float><<<1, 64>>>(p, p, p, p, p, 1, 1, 0, 0, 0, 0);
}
#endif
