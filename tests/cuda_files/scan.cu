// Sums of all elements up to each: by doubling steps, by a tree, and by warps.
__global__ void doubling(const float *x, float *out, int n) {
    extern __shared__ float both[];
    int t = threadIdx.x, to = 0, from = 1;
    both[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        to = 1 - to;
        from = 1 - to;
        float mine = both[from * n + t];
        if (t >= step) mine += both[from * n + t - step];
        both[to * n + t] = mine;
        __syncthreads();
    }
    out[t] = both[to * n + t];
}

__global__ void tree(const int *x, int *out, int n) {
    extern __shared__ int sums[];
    int t = threadIdx.x;
    int offset = 1;
    sums[2 * t] = x[2 * t];
    sums[2 * t + 1] = x[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) {
            int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1;
            sums[high] += sums[low];
        }
        offset *= 2;
    }
    if (t == 0) sums[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1;
            int kept = sums[low];
            sums[low] = sums[high];
            sums[high] += kept;
        }
    }
    __syncthreads();
    out[2 * t] = sums[2 * t];
    out[2 * t + 1] = sums[2 * t + 1];
}

__global__ void by_warps(const int *x, int *out) {
    __shared__ int totals[32];
    const unsigned all = 0xffffffff;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int value = x[threadIdx.x];
    for (int delta = 1; delta < 32; delta <<= 1) {
        int other = __shfl_up_sync(all, value, delta);
        if (lane >= delta) value += other;
    }
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    for (int w = 0; w < warp; ++w) value += totals[w];
    out[threadIdx.x] = value;
}
