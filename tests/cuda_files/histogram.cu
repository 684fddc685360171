// Counts of bytes: each block counts for itself first.
__global__ void histogram(const unsigned char *data, unsigned int *counts, int n) {
    __shared__ unsigned int mine[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) mine[bin] = 0;
    __syncthreads();
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&mine[data[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) {
        if (mine[bin] > 0) atomicAdd(&counts[bin], mine[bin]);
    }
}
