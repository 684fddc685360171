// A sum in seven steps, each one better than the one before.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void interleaved(const float *x, float *out, unsigned int n) {
    extern __shared__ float partial[];
    unsigned int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    partial[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        if (t % (2 * s) == 0) partial[t] += partial[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = partial[0];
}

__global__ void strided(const float *x, float *out, unsigned int n) {
    extern __shared__ float partial[];
    unsigned int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    partial[t] = (i < n) ? x[i] : 0;
    __syncthreads();
    for (unsigned int s = 1; s < blockDim.x; s <<= 1) {
        unsigned int at = 2 * s * t;
        if (at < blockDim.x) partial[at] += partial[at + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = partial[0];
}

__global__ void sequential(const float *x, float *out, unsigned int n) {
    extern __shared__ float partial[];
    cg::thread_block block = cg::this_thread_block();
    unsigned int t = block.thread_rank(), i = block.group_index().x * blockDim.x * 2 + t;
    float sum = (i < n) ? x[i] : 0;
    if (i + blockDim.x < n) sum += x[i + blockDim.x];
    partial[t] = sum;
    cg::sync(block);
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) partial[t] = sum = sum + partial[t + s];
        block.sync();
    }
    if (t == 0) out[blockIdx.x] = sum;
}

__inline__ __device__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__global__ void shuffled(const float *x, float *out, unsigned int n) {
    __shared__ float warps[32];
    float sum = 0;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    sum = warp_sum(sum);
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    sum = (threadIdx.x < blockDim.x / warpSize) ? warps[lane] : 0;
    if (warp == 0) {
        sum = warp_sum(sum);
        if (lane == 0) out[blockIdx.x] = sum;
    }
}

__global__ void tiles(const float *x, float *out, unsigned int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    __shared__ float warps[32];
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = cg::reduce(tile, i < n ? x[i] : 0.f, cg::plus<float>());
    if (tile.thread_rank() == 0) warps[tile.meta_group_rank()] = sum;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        float all = tile.thread_rank() < tile.meta_group_size() ? warps[tile.thread_rank()] : 0.0f;
        for (int step = tile.size() / 2; step > 0; step >>= 1) all += tile.shfl_xor(all, step);
        if (tile.thread_rank() == 0) out[blockIdx.x] = all;
    }
}

template <typename T, unsigned int BLOCK>
__global__ void unrolled(const T *x, T *out, unsigned int n) {
    __shared__ T partial[BLOCK];
    unsigned int t = threadIdx.x;
    unsigned int i = blockIdx.x * (BLOCK * 2) + t;
    T sum = 0;
    while (i < n) {
        sum += x[i];
        if (i + BLOCK < n) sum += x[i + BLOCK];
        i += BLOCK * 2 * gridDim.x;
    }
    partial[t] = sum;
    __syncthreads();
    if (BLOCK >= 256) {
        if (t < 128) partial[t] += partial[t + 128];
        __syncthreads();
    }
    if (BLOCK >= 128) {
        if (t < 64) partial[t] += partial[t + 64];
        __syncthreads();
    }
    if (t < 32) {
        T mine = partial[t] + partial[t + 32];
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes >>= 1) mine += __shfl_xor_sync(0xffffffffu, mine, lanes);
        if (t == 0) out[blockIdx.x] = mine;
    }
}

__global__ void atomic(const int *x, int *out, int n) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&total, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(out, total);
}

#ifndef __CUDACC_RTC__
int main() {
    unrolled<float, 256><<<4, 256>>>(nullptr, nullptr, 0);
    return 0;
}
#endif
