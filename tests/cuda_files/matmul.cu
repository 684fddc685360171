// A product of matrices by tiles; a column of results for each thread in the second one.
template <int TILE>
__global__ void tiled(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        a[threadIdx.y][threadIdx.x] = row < M && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = k + threadIdx.y < K && column < N ? B[(k + threadIdx.y) * N + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && column < N) C[row * N + column] = sum;
}

constexpr int BLOCK = 32, DEPTH = 8, EACH = 4;

__global__ void columns(const float *A, const float *B, float *C, int N, int K) {
    __shared__ float a[BLOCK * DEPTH];
    __shared__ float b[DEPTH * BLOCK];
    const int column = threadIdx.x % BLOCK, group = threadIdx.x / BLOCK;
    A += blockIdx.y * BLOCK * K;
    B += blockIdx.x * BLOCK;
    float sums[EACH] = {0.0f};
    for (int k = 0; k < K; k += DEPTH) {
        a[threadIdx.x] = A[(threadIdx.x / DEPTH) * K + threadIdx.x % DEPTH];
        b[threadIdx.x] = B[group * N + column];
        __syncthreads();
        A += DEPTH;
        B += DEPTH * N;
        for (int d = 0; d < DEPTH; ++d) {
            float each = b[d * BLOCK + column];
            for (int e = 0; e < EACH; ++e) sums[e] += a[(group * EACH + e) * DEPTH + d] * each;
        }
        __syncthreads();
    }
    float *to = C + (blockIdx.y * BLOCK + group * EACH) * N + blockIdx.x * BLOCK;
    for (int e = 0; e < EACH; ++e) to[e * N + column] = sums[e];
}
