// What C has beside: loops that end early, side effects within expressions, arrays of a thread's own.
__global__ void steps(const int *x, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = x[i], count = 0;
    while (value != 1) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        if (++count == 100) break;
    }
    out[i] = count;
}

__device__ int first_above(const int *x, int n, int limit) {
    for (int i = 0; i < n; i++) {
        if (x[i] < 0) continue;
        if (x[i] > limit) return i;
    }
    return -1;
}

__device__ void order(int &low, int &high) {
    if (low > high) {
        int kept = low;
        low = high;
        high = kept;
    }
}

__global__ void sorted(const int *x, int *out, int limit) {
    int mine[8], *to = out + threadIdx.x * 9;
    const int *from = x + threadIdx.x * 8;
    for (int i = 0; i < 8; ++i) mine[i] = from[i];
    int end = 8;
    do {
        for (int i = 1; i < end; ++i) order(mine[i - 1], mine[i]);
    } while (--end > 1);
    for (int i = 0; i < 8; ++i) to[i] = mine[i];
    to[8] = first_above(from, 8, limit);
}

// Pointers that walk and meet, and what the file calls constants.
enum Mode { NONE, FIRST = 5, SECOND, THIRD = 1 << 4, FOURTH };
const int LIMIT = 3;

__global__ void walks(const int *x, int *out, int n) {
    const int *from = x + threadIdx.x * n, *end = from + n;
    int sum = 0, last = 0;
    for (const int *p = from; p < end; ++p) sum += *p;
    while (from != end) last = 3 * last + *from++;
    out += threadIdx.x * 4;
    *out++ = -1;
    *out = sum;
    out[1] = last;
    *(out + 2) = (end - x) * LIMIT + SECOND + FOURTH + NONE;
}

// Words for numbers: C's division, its shifts, its conversions.
__global__ void arithmetic(const int *a, const int *b, int *out, unsigned int *bits) {
    int t = threadIdx.x, at = t * 4;
    out[at++] = a[t] / b[t];
    out[at++] = a[t] % b[t];
    out[at++] = (a[t] >> 2) ^ (b[t] << 3);
    out[at] = (int)(a[t] * 0.37f) + (a[t] < b[t] && b[t] > 0 || !a[t]);
    bits[t] = ((unsigned int)a[t] >> 28 | 1u) + (unsigned char)b[t] + __popc(a[t]);
}

__global__ void votes(const int *x, unsigned int *out) {
    unsigned int positive = __ballot_sync(0xffffffff, x[threadIdx.x] > 0);
    int any = __any_sync(0xffffffff, x[threadIdx.x] == 7), all = __all_sync(0xffffffff, x[threadIdx.x] < 9);
    int next = __shfl_sync(0xffffffff, x[threadIdx.x], threadIdx.x + 1, 8);
    out[threadIdx.x] = positive + any + 2 * all + 4 * (next + 16);
}

__global__ void greatest(const int *x, int *lock, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int old = atomicAdd(lock, 0), expected;
        do {
            expected = old;
            old = atomicCAS(lock, expected, max(expected, x[i]));
        } while (old != expected);
    }
}
