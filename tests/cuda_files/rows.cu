// Rows at a time: softmax by a warp and by a block, and a layer norm.
__device__ float block_sum(float value) {
    __shared__ float warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffff, value, mask);
    __syncthreads();
    if (lane == 0) warps[warp] = value;
    __syncthreads();
    float sum = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += warps[w];
    return sum;
}

__global__ void softmax_warp(const float *x, float *out, int rows, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float *from = x + row * columns;
    float most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < columns; i += 32) {
        float before = most;
        most = fmaxf(most, from[i]);
        sum = sum * expf(before - most) + expf(from[i] - most);
    }
    for (int mask = 16; mask > 0; mask >>= 1) {
        float other = __shfl_xor_sync(0xffffffff, most, mask), its = __shfl_xor_sync(0xffffffff, sum, mask);
        float greatest = fmaxf(most, other);
        sum = sum * expf(most - greatest) + its * expf(other - greatest);
        most = greatest;
    }
    for (int i = lane; i < columns; i += 32) out[row * columns + i] = expf(from[i] - most) / sum;
}

__global__ void softmax_block(const float *x, float *out, int columns) {
    extern __shared__ float row[];
    int t = threadIdx.x;
    x += blockIdx.x * columns;
    float most = -INFINITY;
    for (int i = t; i < columns; i += blockDim.x) most = max(most, x[i]);
    row[t] = most;
    __syncthreads();
    for (int step = blockDim.x / 2; step >= 1; step /= 2) {
        if (t < step) row[t] = fmaxf(row[t], row[t + step]);
        __syncthreads();
    }
    most = row[0];
    float sum = 0;
    for (int i = t; i < columns; i += blockDim.x) sum += __expf(x[i] - most);
    sum = block_sum(sum);
    for (int i = t; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = __expf(x[i] - most) / sum;
}

__global__ void layernorm(const float *x, const float *scale, const float *shift, float *out, int columns) {
    const float *row = x + blockIdx.x * columns;
    float *to = out + blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    const float mean = block_sum(sum) / columns;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float d = row[i] - mean;
        squares += d * d;
    }
    const float s = rsqrtf(block_sum(squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) to[i] = (row[i] - mean) * s * scale[i] + shift[i];
}
