// What else programs use: overloads by address space, members of objects in every space, argument buffers,
// constructors, unions, lambdas, and the algorithms of every tutorial.
#include <metal_compute>
#include <metal_stdlib>
#include <simd/simd.h>
using namespace metal;

float head(device const float* p) { return p[0]; }
float head(threadgroup const float* p) { return p[0]; }
float head(thread const float* q) { return q[0]; }
float head(constant float* p) { return p[0]; }
template <typename T> T total(device const T* p, int n) { T s = 0; for (int i = 0; i < n; ++i) s += p[i]; return s; }
template <typename T> T total(threadgroup const T* p, int count) { T s = 0; for (int i = 0; i < count; ++i) s += p[i]; return s; }
template <typename T> struct pointee;
template <typename T> struct pointee<device T*> { typedef T type; };
template <typename T> struct pointee<threadgroup T*> { typedef T type; };
template <typename T> struct pointee<constant T*> { typedef T type; };
template <typename P> METAL_FUNC remove_const_t<typename pointee<P>::type> first(P p) { return *p; }

struct Body { packed_float3 at; float mass; };
struct alignas(16) Uniforms { float4x4 m; float3 v; uint flags; half2 h; bool b; };
static_assert(sizeof(Uniforms) == 96 && sizeof(float3) == 16 && alignof(packed_float3) == 4, "as Metal lays out");
static_assert(sizeof(float3x3) == 48 && sizeof(half3) == 8 && sizeof(bool4) == 4, "as Metal lays out");
struct Counter {
  int n;
  void add(int k) device { n += k; }
  void add(int k) threadgroup { n += k; }
  void add(int k) thread { n += k; }
  int get() const device { return n; }
  int get() const thread { return n; }
  int get() const constant { return n; }
  int get() const threadgroup { return n; }
};
class Accumulator {
public:
  Accumulator() : sum(0.0f), many{1, 2} {}
  explicit Accumulator(float x) thread : sum{x}, many{3, 4} {}
  thread Accumulator& operator+=(float x) thread { sum += x; return *this; }
  float operator()() const { return sum + many[1]; }
private:
  float sum;
  int many[2];
};
template <typename T> struct Indexed {
  uint i;
  T value;
  constexpr Indexed<T>() thread = default;
  constexpr Indexed<T>() threadgroup = default;
  constexpr Indexed<T>(uint i, T value) : i(i), value(value) {}
};
template <typename T> METAL_FUNC bool operator<(Indexed<T> a, Indexed<T> b) { return a.value < b.value || (a.value == b.value && a.i > b.i); }

struct Pointers { device float* x; constant float* y; ulong n; device Counter* counters; };
struct Tables { device float* each[2] [[id(0)]]; array<device const float*, 2> more [[id(2)]]; };
kernel void by_pointers(constant Pointers& a [[buffer(0)]], constant Tables& b [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  if (i < a.n) a.x[i] = a.y[i] * 2 + b.each[1][i] + b.more[1][i];
  if (i == 0) a.counters[0].add(7);
}
kernel void nbody(device const Body* in [[buffer(0)]], device packed_float3* out [[buffer(1)]], constant uint& n [[buffer(2)]],
                  uint i [[thread_position_in_grid]], uint l [[thread_position_in_threadgroup]], uint width [[threads_per_threadgroup]]) {
  threadgroup float4 tile[32];
  float3 me = in[i].at, a = 0;
  for (uint base = 0; base < n; base += width) {
    tile[l] = float4(float3(in[base + l].at), in[base + l].mass);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = 0; j < width; ++j) {
      const float3 d = tile[j].xyz - me;
      const float r = rsqrt(dot(d, d) + 0.01f);
      a += d * (tile[j].w * r * r * r);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  out[i] = packed_float3(a);
}
kernel void mandelbrot(device uchar4* image, constant float4& view, uint2 at [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  float2 c = view.xy + float2(at) / float2(size) * view.zw, z = 0.0;
  uint n = 0;
  while (n < 64u && length_squared(z) < 4.0) { z = float2(z.x * z.x - z.y * z.y, 2 * z.x * z.y) + c; ++n; }
  image[at.y * size.x + at.x] = uchar4(uchar(n), uchar(n * 2), 0, 255);
}
kernel void axpy(uint i [[thread_position_in_grid]], device const float* x [[buffer(1)]], device float* y [[buffer(2)]], constant float& a [[buffer(0)]]) {
  y[i] = fma(a, x[i], y[i]);
}
kernel void histogram(device const uchar* x [[buffer(0)]], device atomic_uint* bins [[buffer(1)]], uint i [[thread_position_in_grid]],
                      uint l [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup atomic_uint local[256];
  for (uint b = l; b < 256; b += threads) atomic_store_explicit(&local[b], 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&local[x[i]], 1u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint b = l; b < 256; b += threads) {
    uint n = atomic_load_explicit(local + b, memory_order_relaxed);
    if (n) atomic_fetch_add_explicit(&bins[b], n, memory_order_relaxed);
  }
}
constant constexpr ushort ITEMS = 4;
template <typename T, ushort THREADS>
METAL_FUNC T sum_before(T x, threadgroup T* sums, ushort lane, ushort simdgroup) {
  T inclusive = simd_prefix_inclusive_sum(x);
  if (lane == 31) sums[simdgroup] = inclusive;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup == 0) {
    T s = simd_prefix_exclusive_sum(lane < THREADS / 32 ? sums[lane] : T(0));
    if (lane < THREADS / 32) sums[lane] = s;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return inclusive - x + sums[simdgroup];
}
kernel void scan(device const uint* x, device uint* y, ushort l [[thread_index_in_threadgroup]],
                 ushort lane [[thread_index_in_simdgroup]], ushort simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup uint sums[4];
  uint items[ITEMS], all = 0;
  for (ushort k = 0; k < ITEMS; ++k) { items[k] = x[l * ITEMS + k]; all += items[k]; }
  uint before = sum_before<uint, 128>(all, sums, lane, simdgroup);
  for (ushort k = 0; k < ITEMS; ++k) { before += items[k]; y[l * ITEMS + k] = before; }
}
[[max_total_threads_per_threadgroup(128)]] kernel void bitonic(device uint* x, uint l [[thread_position_in_threadgroup]]) {
  threadgroup uint s[128];
  s[l] = x[l];
  for (uint run = 2; run <= 128; run <<= 1) for (uint step = run >> 1; step > 0; step >>= 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint other = l ^ step;
    if (other > l && ((l & run) == 0) == (s[l] > s[other])) { uint t = s[l]; s[l] = s[other]; s[other] = t; }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[l] = s[l];
}
kernel void argmax(device const float* x, device uint* y, uint l [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup Indexed<float> best[128];
  best[l] = Indexed<float>(l, x[l]);
  for (uint s = n / 2; s > 0; s >>= 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (l < s && best[l] < best[l + s]) best[l] = best[l + s];
  }
  Indexed<float> mine = simd_shuffle(best[0], 0);
  if (l == 0) *y = mine.i;
}
enum { A_BIT = 1 << 0, B_BIT = 1 << 1 };
enum class Kind : uint8_t { one = 1, two };
union Bits { float f; uint u; uchar c[4]; };
// Each line of what is to come out stands beside it.
kernel void odds(device float* y [[buffer(0)]], device Counter& counter [[buffer(1)]], constant Uniforms& u [[buffer(2)]],
    device atomic_ulong* big [[buffer(3)]], constant Counter& fixed [[buffer(4)]], uint i [[thread_position_in_grid]],
    uint width [[threads_per_simdgroup]], uint threads [[dispatch_threads_per_threadgroup]]) {
  threadgroup float shared[32];
  threadgroup Counter among;
  thread float mine[4] = {7, 8};
  const float more[] = {1.0, 2.0f, half(3.0), 1e-1h, 5.0bf};
  shared[i] = i;
  if (i == 0) { counter.add(2); among = {1}; among.add(1); }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  Counter own = {3};
  own.add(4);
  Bits bits;
  bits.f = 1.0;
  bits.c[3] ^= 0x80;
  Accumulator a, b(5.0);
  a += 2;
  float doubled = 0;
  auto twice = [](auto v) { return v * 2; };
  auto add = [&doubled](float v) -> void { doubled += v; };
  add(twice(4.0f));
  atomic_max_explicit(big, ulong(i) << 40, memory_order_relaxed);
  atomic_min_explicit(big + 1, ulong(i) + (1ul << 40), memory_order_relaxed);
  int turn = 0;
  switch (i & 3) { case 0: turn += 1; [[fallthrough]]; case 1: turn += 2; break; default: turn -= 1; }
  int3 v = int3(1, 2, 3);
  v.xz += 5;
  v = min(v, 6);
  uint2 s = uint2(1, 2) << 3;
  s |= uint2(1);
  float4 w = u.m * float4(u.v, 1.0);
  uint k = i * 32;
  y[k++] = head(shared + 1) + head(mine + 1) + head(&u.v.x) + total(shared, 3) + first(shared + 2);
  y[k++] = more[2] + more[3] + more[4] + bits.f;
  y[k++] = own.get() * 100 + among.get() * 10 + fixed.get();
  y[k++] = a() + 10 * b();
  y[k++] = (u.flags & B_BIT ? 10 : 20) + int(Kind::two) + u.h.y + (u.b ? 0.5 : 0.25);
  if constexpr (sizeof(long) == 8) y[k++] = doubled; else y[k++] = -1;
  y[k++] = turn;
  y[k++] = v.x * 100 + v.y * 10 + v.z;
  y[k++] = s.x + 100 * s.y;
  y[k++] = w.w + dot(w.xyz, float3(1));
  y[k++] = mix(1.0f, 2.0f, 0.5f) + step(0.5, 1.0) + smoothstep(0.0f, 1.0f, 0.5f) + sign(-2.0f) + fract(1.25) + fmod(5.5, 2.0);
  y[k++] = popcount(255u) + ctz(8) + clz(1u) + select(1, 2, true) + abs(-3) + rint(2.5f) + trunc(-1.5);
  y[k++] = quad_sum(1.0f) + simd_shuffle_rotate_down(float(i), 1) + simd_broadcast_first(2.0f) + simd_all(true) + simd_any(i == 0);
  y[k++] = ulong(simd_vote::vote_t(simd_ballot(i % 2 == 0))) & 0xff;
  y[k++] = width + threads;
  y[k++] = numeric_limits<half>::max() == half(65504) && numeric_limits<uchar>::max() == 255 && isnan(NAN) && isinf(-INFINITY);
}
