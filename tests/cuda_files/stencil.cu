// Sums of neighbours, with a halo in shared memory; and five points of a grid.
#define RADIUS 3
#define BLOCK 64

__global__ void line(const int *in, int *out) {
    __shared__ int near[BLOCK + 2 * RADIUS];
    int g = threadIdx.x + blockIdx.x * BLOCK + RADIUS, l = threadIdx.x + RADIUS;
    near[l] = in[g];
    if (threadIdx.x < RADIUS) {
        near[l - RADIUS] = in[g - RADIUS];
        near[l + BLOCK] = in[g + BLOCK];
    }
    __syncthreads();
    int result = 0;
    for (int offset = -RADIUS; offset <= RADIUS; offset++) result += near[l + offset];
    out[g - RADIUS] = result;
}

__device__ float at(const float *x, int i, int j, int w, int h) {
    if (i < 0 || j < 0 || i >= w || j >= h) return 0.0f;
    return x[j * w + i];
}

__global__ void five(const float *x, float *out, int w, int h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < w && j < h)
        out[j * w + i] = at(x, i - 1, j, w, h) + at(x, i + 1, j, w, h) + at(x, i, j - 1, w, h) +
                         at(x, i, j + 1, w, h) - 4 * at(x, i, j, w, h);
}

// A filter in constant memory, and how often it was used.
__constant__ float taps[2][3];
__constant__ int rounds;
__device__ int uses;

__device__ float tap(int row, int i) { return taps[row][i + 1]; }

__global__ void filtered(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        float sum = 0;
        for (int j = -1; j <= 1; ++j) sum += x[i + j] * tap(rounds % 2, j);
        out[i] = sum * rounds;
        atomicAdd(&uses, 1);
    }
}
