// References: what a function has of them are places, which others may be, too.


struct Pair {
    int a, b;
    int many[3];
    float3 at;
};
struct Sums {
    int total;
    __device__ explicit Sums(int &from) : total(from) { from = 0; }
    __device__ void take(int &x) { total += x; x = total; total += x; }
    __device__ int &part() { return total; }
};

__device__ void two(int &a, int &b) { a += 1; b += 10; }
__device__ void both(int &a, int *x) { a += 1; x[0] += 5; a *= 2; }
__device__ int watched(const int &a, int *x) { x[0] = 7; return a; }
__device__ int watched_by(const int &a, int &b) { b += 3; return a; }
__device__ void of_struct(int &a, Pair &p) { a += 1; p.a *= 3; a += 1; }
__device__ void outer(int &a, int &b, int n) {
    for (int i = 0; i < n; i++) two(b, a);
    if (n > 2) two(a, a);
}
__device__ void kept(int &a, int *x) {
    int before = a;
    x[0] = 100;
    while (a > 90) { x[0] -= 4; before += a; }
    a = before;
}
template <typename T> __device__ void swap(T &a, T &b) { T c = a; a = b; b = c; }
template <typename T> __device__ T least(const T &a, const T &b) { return b < a ? b : a; }
template <typename T> __device__ void bump(T &a, const T &by) { a += by; a += by; }
__device__ int &chosen(int *x, int i) { return x[i]; }
__device__ int &same(int &a) { return a; }
__device__ void turned(float &a, float3 &v) { a += 1; v.x *= 2; v.y += v.x; a += 1; }
__device__ void shifted(float4 &v, float &part) { v.x = 1; part += 2; v.z += part; }
__device__ void changed(int &a, int b) { a += b; a += b; }
__device__ int early(int &a, int &b) {
    a += 1;
    if (b > 3) return a;
    b += 10;
    return a + b;
}

__global__ void elements(int *x, int i, int j) {
    two(x[i], x[j]);             // the same element, by indices of a launch
    both(x[2], x + 2);
    x[3] = watched(x[4], x + 4);
    x[5] = watched_by(x[6], x[6]);
    outer(x[7], x[7], 3);
    outer(x[8], x[9], 2);
    kept(x[10], &x[10]);
    swap(x[11], x[12]);
    swap(x[13], x[13]);
    bump(x[14], x[14]);
    two(chosen(x, 15), *(x + 15));
    changed(x[16], x[16]);
    x[17] = early(x[18], x[18]);
    x[19] = early(x[20], x[21]);
    same(x[22]) += 4;
    two(same(x[23]), x[23]);
    int at = 24;
    two(x[at++], x[25]);
    x[26] = at;
    int *p = x + 27;
    p += 1;
    both(*p, p);
    int &r = x[29];
    two(r, x[29]);
    both(r, &r);
    chosen(x, 30)++;
    x[31] = chosen(x, 30)-- * 2;
}

__global__ void own(int *x, int k) {
    int a = x[0], b = x[1], c[4] = {1, 2, 3, 4}, d = 9;
    two(a, a);
    both(b, &b);
    x[0] = a;
    x[1] = b;
    two(c[k], c[1]);             // the same, by an index of a launch
    both(c[2], &c[2]);
    outer(c[3], d, 3);
    bump(c[0], c[0]);
    swap(c[0], c[k]);
    for (int i = 0; i < 4; i++) x[2 + i] = c[i];
    x[6] = d;
    int &r = d;
    two(r, d);
    x[7] = d;
    x[8] = watched_by(d, r);
    bump(d, 5);
    x[9] = d;
    x[10] = least(d, least(x[9], 40));
    for (int i = 0; i < 3; i++) {
        bump(d, i);
        if (i == 1) swap(d, x[11]);
    }
    x[12] = d;
    same(d) = 3;
    x[13] = d;
    for (int i = 0; i < 9; i++) {
        two(i, i);
        x[14]++;
    }
    bump(k, 2);
    x[15] = k;
    for (int i = 0; i < 4; i++) two(c[i], c[3 - i]);
    for (int i = 0; i < 4; i++) x[16 + i] = c[i];
    chosen(c, k - 3) += 50;
    x[20] = c[2];
    changed(c[1], c[1]);
    x[21] = c[1];
    int *p = c + 1;
    both(p[1], p + 1);
    x[22] = c[2];
    bool late = x[0] > 3;
    if (late) swap(a, b);
    x[23] = a;
    x[24] = b;
}

__global__ void records(int *x, Pair *p, float *y) {
    of_struct(p[0].a, p[0]);
    two(p[0].b, p[0].b);
    two(p[1].many[1], p[1].many[1]);
    bump(p[1].many[2], p[1].many[0]);
    turned(p[0].at.x, p[0].at);
    Pair q = p[1];
    of_struct(q.a, q);
    two(q.b, q.b);
    two(q.many[2], q.many[2]);
    both(q.many[0], &q.many[0]);
    both(q.a, &q.a);
    turned(q.at.y, q.at);
    x[0] = q.a;
    x[1] = q.b;
    x[2] = q.many[2];
    x[3] = q.many[0];
    q.many[1] = 17;
    Sums sums(q.b);
    x[4] = q.b;
    sums.take(sums.total);
    x[5] = sums.total;
    two(sums.part(), sums.total);
    x[6] = sums.total;
    int &b = q.b;
    b = 6;
    two(b, q.b);
    x[7] = q.b;
    swap(q, p[2]);
    Pair &s = p[3];
    of_struct(s.a, s);
    of_struct(s.b, p[3]);
    y[0] = q.at.x;
    y[1] = q.at.y;
    float4 v = make_float4(10, 20, 30, 40);
    shifted(v, v.x);
    shifted(v, v.z);
    swap(v.y, v.w);
    swap(v.z, y[2]);
    y[3] = v.x;
    y[4] = v.y;
    y[5] = v.z;
    y[6] = v.w;
    float *part = &v.y;
    *part += 1;
    y[7] = v.y;
}

struct Row {
    int x[4];
    __device__ int &operator[](int i) { return x[i]; }
};
__device__ float &part(float4 &v, int i) { return reinterpret_cast<float *>(&v)[i]; }
__device__ int &picked(int *x, int i, int n) {
    if (i < n) return x[i];
    return x[n];
}

__global__ void returned(int *x, Row *rows, float *y) {
    float4 v = make_float4(1, 2, 3, 4);
    part(v, 2) = 9;
    part(v, 1) += part(v, 2);
    Row a = rows[0];
    two(a[1], a[1]);
    two(rows[0].x[2], rows[0].x[2]);
    a[3]++;
    for (int i = 0; i < 3; i++) a[i] += a[i + 1];
    for (int i = 0; i < 4; i++) x[i] = a[i];
    picked(x, 6, 5) += 100;
    picked(x, 4, 7) = picked(x, 9, 5);
    const int &fixed = 5, &seen = x[6];
    x[6] = 1000;
    x[7] = fixed + seen;
    y[0] = v.x;
    y[1] = v.y;
    y[2] = v.z;
}

__global__ void shared(int *x, int n) {
    __shared__ int held[32];
    __shared__ int one;
    int t = threadIdx.x;
    held[t] = x[t];
    if (t == 0) one = 3;
    __syncthreads();
    two(held[t], held[t + n]);
    __syncthreads();
    if (t == 5) {
        both(held[t], held + t);
        two(one, one);
        both(one, &one);
        swap(held[0], one);
        held[1] = watched_by(held[1], held[t - 4]);
    }
    __syncthreads();
    x[t] = held[t] + least(threadIdx.x, 4u);
    if (t == 31) x[t] = one;
}
