// What pointers lead to: fields of structs, parts of vectors, another array than before; and what
// threads of a tile make of their values by a function.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

struct Entry {
    unsigned int key;
    int count;
    float sum;
    float2 last;
};

__device__ unsigned int slot_of(unsigned int key) {
    key ^= key >> 16;
    key *= 0x85ebca6bu;
    return key ^ key >> 13;
}

// Open addressing: 0 is no key.
__global__ void count(Entry *table, const unsigned int *keys, int n, unsigned int slots) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int key = keys[i], slot = slot_of(key) % slots;
    while (true) {
        unsigned int before = atomicCAS(&table[slot].key, 0u, key);
        if (before == 0 || before == key) {
            atomicAdd(&table[slot].count, 1);
            atomicAdd(&(table[slot].sum), 0.5f);
            return;
        }
        slot = (slot + 1) % slots;
    }
}

__global__ void one_field(Entry *table) {
    Entry *mine = table + threadIdx.x;
    float *sum = &mine->sum;
    *sum += 1.0f;
    sum[0] *= 2.0f;
    mine->last.y = *sum;
}

__global__ void arrows(float4 *p, float3 *q) {
    float4 *mine = p + threadIdx.x;
    mine->x = mine->y + 1.0f;
    mine->w *= 2.0f;
    (&q[threadIdx.x])->z = (mine + 0)->x;
    float4 own = *mine, *to = &own;
    to->x = 3.0f;
    q[threadIdx.x].y = own.x + to->w;
}

// Softmax of rows, the second half in place.
__global__ void softmax_in_place(const float *in, float *out, int columns) {
    const float *x = in + blockIdx.x * columns;
    x += threadIdx.x;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32, x += 32) most = fmaxf(most, *x);
    for (int lanes = 16; lanes; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
    x = in + blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += 32) out[blockIdx.x * columns + i] = expf(x[i] - most);
    x = out + blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += 32) sum += x[i];
    for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    for (int i = threadIdx.x; i < columns; i += 32) out[blockIdx.x * columns + i] = x[i] / sum;
}

struct Nearest {
    float distance;
    int index;
};

__device__ Nearest nearer(Nearest a, const Nearest &b) {
    return b.distance < a.distance || (b.distance == a.distance && b.index < a.index) ? b : a;
}

__device__ float2 sum_and_product(const float2 &a, float2 b) {
    return make_float2(a.x + b.x, a.y * b.y);
}

__global__ void by_functions(const float *x, int *nearest, const float2 *pairs, float2 *made) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(block);
    Nearest mine = {x[threadIdx.x], (int)threadIdx.x};
    nearest[threadIdx.x] = cg::reduce(warp, mine, nearer).index;
    nearest[threadIdx.x] += 1000 * mine.index;
    made[threadIdx.x] = cg::reduce(tile, pairs[threadIdx.x], sum_and_product);
}

__global__ void own_volatile(const float4 *x, float *out) {
    volatile float4 p = x[threadIdx.x];
    volatile int k = threadIdx.x;
    __shared__ volatile int all;
    if (threadIdx.x == 0) all = 5;
    __syncthreads();
    k += 1;
    out[threadIdx.x] = p.x + p.w + k * all;
}

__device__ float3 &operator+=(float3 &a, const float3 &b) {
    a.x += b.x;
    a.y += b.y;
    a.z += b.z;
    return a;
}

__global__ void returned(const float3 *x, float3 *out, float3 *wholes) {
    float3 sum = x[threadIdx.x], part, whole;
    float3 same = sum += x[threadIdx.x];
    float of_x, of_y, of_z;
    part.x = modff(same.x, &of_x);
    part.y = modff(sum.y, &of_y);
    part.z = modff(sum.z, &of_z);
    whole = make_float3(of_x, of_y, of_z);
    out[threadIdx.x] = part;
    wholes[threadIdx.x] = whole;
}

namespace ours {
// Of the name of one of cooperative groups' own.
template <typename T>
struct plus {
    __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

struct Closer {
    int to;
    __device__ int operator()(int a, int b) const {
        return abs(a - to) < abs(b - to) || (abs(a - to) == abs(b - to) && a < b) ? a : b;
    }
};
}  // namespace ours

__global__ void by_structs(const int *x, int *most, int *sum, int *close, int to) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = threadIdx.x;
    ours::Closer closer = {to};
    most[i] = cg::reduce(tile, x[i], ours::plus<int>());
    sum[i] = cg::reduce(tile, x[i], cg::plus<int>());
    close[i] = cg::reduce(tile, x[i], closer);
}
