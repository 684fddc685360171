// Idioms of published files: their own headers, tiles of all sizes, pointers that are set late,
// volatile memory, atomics on memory of another type, tags that are types.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_profiler_api.h>
#include <type_traits>
namespace cg = cooperative_groups;

// A host's handle, which only a library declares, as an argument of what launches.
template <typename T> struct Buffers { T *first, *second; someHandle_t handle; };

template <typename T, unsigned N>
__global__ void rotated(const T *in, T *out) {
    auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    T mine = in[threadIdx.x];
    T next = tile.shfl(mine, (tile.thread_rank() + 1) % tile.size());
    T most = cg::reduce(tile, mine, cg::greater<T>());
    unsigned low = tile.ballot(mine < 0);
    out[threadIdx.x] = next + 1000 * most + 100 * low + tile.all(low > 0) + tile.meta_group_rank();
    tile.sync();
}

#ifndef __CUDACC_RTC__
template <typename T> void launch(Buffers<T> &b, anotherHandle_t *handles) {
    rotated<T, 4><<<1, 64>>>(b.first, b.second);
}
template void launch<int>(Buffers<int> &, anotherHandle_t *);
#endif

// The lowest bits of all, by tiles in a block that does not fill its simdgroups.
__global__ void bits(const unsigned *in, unsigned *out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    unsigned both = cg::reduce(tile, in[threadIdx.x], cg::bit_and<unsigned>());
    __shared__ unsigned each[8];
    if (tile.thread_rank() == 0) each[tile.meta_group_rank()] = both;
    block.sync();
    if (threadIdx.x < tile.meta_group_size()) out[threadIdx.x] = each[threadIdx.x];
}

// Warps that wait for nobody but themselves.
template <bool SQUARED> __device__ int summed(volatile int *mine, int lane, std::bool_constant<SQUARED>) {
    for (int half = 16; half > 0; half >>= 1) {
        int other = lane < half ? mine[lane + half] : 0;
        __syncwarp();
        if (lane < half) mine[lane] = mine[lane] + other;
        __syncwarp();
    }
    return SQUARED ? mine[0] * mine[0] : mine[0];
}

__global__ void sums(const int *in, int *out, std::true_type) {
    extern __shared__ char *raw[];
    int *all = reinterpret_cast<int *>(raw), *row;
    row = all + threadIdx.x / 32 * 32;
    row[threadIdx.x % 32] = in[threadIdx.x];
    __syncwarp();
    int sum = summed(row, threadIdx.x % 32, std::bool_constant<true>{});
    int *to = threadIdx.x < 32 ? out : out + 1;
    if (threadIdx.x % 32 == 0) *to = sum;
}

// Floats whose bits are ordered as integers are, and counters that are unsigned elsewhere.
__global__ void extremes(const float *in, float *most, int *counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned mask = 0xffffffffu >> (warpSize - 32);
    int lower = __shfl_up_sync(mask, i, 1);
    if (i >= n) return;
    atomicMax((int *)most, __float_as_int(in[i]));
    atomicMin_block((unsigned *)&counts[0], (unsigned)(i - 3));
    atomicInc((unsigned *)&counts[1], 40u);
    atomicAdd_system(&counts[2], lower == i ? 1 : 0);
}

// Functions of one number and of two.
__global__ void functions(const float *x, float *out, int n) {
    int i = threadIdx.x;
    float v = x[i];
    out[i] = atan2f(v, 0.5f) + hypotf(v, 3.0f);
    out[i + n] = fmodf(v * 37.0f, 0.75f);
    out[i + 2 * n] = tanf(v) + asinf(v * 0.25f) + log1pf(v * v) + cbrtf(v);
    out[i + 3 * n] = cospif(v + 100.0f);
    out[i + 4 * n] = (float)(umin(i, 7u) + __clzll((long long)i << 30) + __ffsll((long long)i << 30));
    out[i + 5 * n] = (float)(lrintf(v) + __hadd(-3, i) + llabs(i - 9LL));
}
