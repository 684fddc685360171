// In the style of tensor libraries: nested namespaces, types chosen by traits, atomics of small types by
// words, instances whose parameters are spelt out without attributes.
#include <metal_stdlib>
using namespace metal;
namespace lib {
namespace metal {
template <typename T> struct Wide { using type = T; };
template <> struct Wide<half> { using type = float; };
template <> struct Wide<bfloat> { using type = float; };
template <typename T> using wide_t = typename Wide<T>::type;
constant constexpr unsigned most_axes = 16;

template <typename T, ::metal::enable_if_t<::metal::is_floating_point_v<T>, bool> = true>
inline T max(T a, T b) { return ::metal::isunordered(a, b) ? NAN : ::metal::max(a, b); }
template <typename T, ::metal::enable_if_t<::metal::is_integral_v<T>&& !::metal::is_same_v<T, bool>, bool> = true>
inline T max(T a, T b) { return ::metal::max(a, b); }
template <typename T> inline ::metal::enable_if_t<::metal::is_integral_v<T>, T> floor_divide(T a, T b) {
  const auto q = a / b;
  return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}
template <typename T> inline ::metal::enable_if_t<::metal::is_floating_point_v<T>, T> floor_divide(T a, T b) {
  return ::metal::floor(a / b);
}
template <typename T>
wide_t<T> threadgroup_sum(threadgroup wide_t<T>* shared, T x, unsigned at, unsigned threads) {
  wide_t<T> sum = ::metal::simd_sum(static_cast<wide_t<T>>(x));
  if (threads > 32) {
    if (at % 32 == 0) shared[at / 32] = sum;
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (at < (threads + 31) / 32) sum = ::metal::simd_sum(shared[at]);
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (at == 0) shared[0] = sum;
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    sum = shared[0];
  }
  return sum;
}
template <typename T, typename = void> struct Adder {};
template <typename T>
struct Adder<T, ::metal::enable_if_t<::metal::is_same_v<T, float> || ::metal::is_same_v<T, int>>> {
  using type = ::metal::atomic<T>;
  static inline void add(device type* to, long at, T x) {
    ::metal::atomic_fetch_add_explicit(to + at, x, ::metal::memory_order_relaxed);
  }
};
template <typename T> static inline void add_in_word(device ::metal::atomic<uint>* to, long at, T x) {
  constexpr auto per_word = sizeof(uint) / sizeof(T);
  auto word = to + at / per_word;
  auto old = ::metal::atomic_load_explicit(word, ::metal::memory_order_relaxed);
  union { uint all; T each[per_word]; } next;
  do {
    next.all = old;
    next.each[at & (per_word - 1)] += x;
  } while (!::metal::atomic_compare_exchange_weak_explicit(
      word, &old, next.all, ::metal::memory_order_relaxed, ::metal::memory_order_relaxed));
}
template <> struct Adder<half> {
  using type = ::metal::atomic<uint>;
  static inline void add(device type* to, long at, half x) { add_in_word<half>(to, at, x); }
};
template <typename T> using adder_t = typename Adder<T>::type;

namespace counter {
static inline uint2 product(uint a, uint b) {
  auto both = static_cast<ulong>(a) * b;
  return uint2(both, both >> 32);
}
static inline uint4 bits(long seed, long at) {
  uint4 c = 0;
  c.zw = as_type<uint2>(at);
  uint2 key = as_type<uint2>(seed);
  for (int i = 0; i < 10; ++i, key += uint2(0x9E3779B9, 0xBB67AE85)) {
    const uint2 x = product(0xD2511F53, c.x), z = product(0xCD9E8D57, c.z);
    c = uint4(z.y ^ c.y ^ key.x, z.x, x.y ^ c.w ^ key.y, x.x);
  }
  return c;
}
} // namespace counter
} // namespace metal
} // namespace lib
using namespace lib::metal;
using lib::metal::max;

struct exp_functor {
  template <typename T> inline enable_if_t<is_floating_point_v<T>, T> operator()(const T x) { return T(precise::exp(float(x))); }
  template <typename T> inline enable_if_t<is_integral_v<T>, float> operator()(const T x) { return precise::exp(static_cast<float>(x)); }
  template <typename T> inline enable_if_t<is_same_v<T, float2>, T> operator()(const T x) {
    return T(precise::exp(x.x) * precise::cos(x.y), precise::exp(x.x) * precise::sin(x.y));
  }
};
template <typename T, typename F> using result_of = decltype(::metal::declval<F>()(::metal::declval<T>()));
template <typename T, typename F>
kernel void dense(device result_of<T, F>* out [[buffer(0)]], constant T* in [[buffer(1)]], uint at [[thread_position_in_grid]]) {
  F f;
  out[at] = f(in[at]);
}
template <typename T, typename F>
kernel void strided(device result_of<T, F>* out [[buffer(0)]], constant T* in [[buffer(1)]], constant long* sizes [[buffer(2)]],
                    constant long* from_strides [[buffer(3)]], constant long* to_strides [[buffer(4)]],
                    constant uint& axes [[buffer(5)]], uint at [[thread_position_in_grid]]) {
  F f;
  int position[most_axes];
  for (unsigned i = 0; i < axes; at /= sizes[i++]) position[i] = at % sizes[i];
  long from = 0, to = 0;
  for (unsigned i = 0; i < axes; ++i) {
    from += position[i] * from_strides[i];
    to += position[i] * to_strides[i];
  }
  *reinterpret_cast<device result_of<T, F>*>(reinterpret_cast<device char*>(out) + to * sizeof(result_of<T, F>)) = f(in[from]);
}
#define REGISTER(NAME, FROM, TO)                                                                       \
  static_assert(::metal::is_same_v<TO, result_of<FROM, NAME##_functor>>, "another type comes out");    \
  template [[host_name(#NAME "_dense_" #FROM)]] kernel void ::dense<FROM, NAME##_functor>(             \
      device result_of<FROM, NAME##_functor> * out, constant FROM * in, uint at);                      \
  template [[host_name(#NAME "_strided_" #FROM)]] kernel void ::strided<FROM, NAME##_functor>(         \
      device result_of<FROM, NAME##_functor> * out, constant FROM * in, constant long* sizes,          \
      constant long* from_strides, constant long* to_strides, constant uint& axes, uint at)
REGISTER(exp, float, float);
REGISTER(exp, int, float);
REGISTER(exp, float2, float2);

template <typename T>
kernel void normalize_rows(device T* out, constant T* in, constant uint& columns, constant float& epsilon,
                           uint tid [[thread_index_in_threadgroup]], uint row [[threadgroup_position_in_grid]],
                           uint threads [[threads_per_threadgroup]]) {
  threadgroup wide_t<T> shared[32];
  wide_t<T> sum = 0, squares = 0;
  for (uint i = tid; i < columns; i += threads) {
    const auto x = static_cast<wide_t<T>>(in[row * columns + i]);
    sum += x;
    squares += x * x;
  }
  sum = threadgroup_sum(shared, sum, tid, threads);
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  squares = threadgroup_sum(shared, squares, tid, threads);
  const auto mean = sum / columns, scale = ::metal::rsqrt(squares / columns - mean * mean + epsilon);
  for (uint i = tid; i < columns; i += threads)
    out[row * columns + i] = static_cast<T>((in[row * columns + i] - mean) * scale);
}
template [[host_name("normalize_float")]] kernel void normalize_rows<float>(device float*, constant float*, constant uint&, constant float&, uint, uint, uint);
template [[host_name("normalize_bfloat")]] kernel void normalize_rows<bfloat>(device bfloat*, constant bfloat*, constant uint&, constant float&, uint, uint, uint);
template <typename T>
kernel void add_at(device adder_t<T>* to [[buffer(0)]], constant long* where, constant T* x, uint i [[thread_position_in_grid]]) {
  Adder<T>::add(to, where[i], x[i]);
}
#define REGISTER_ADD(T) template [[host_name("add_at_" #T)]] kernel void add_at<T>(device adder_t<T>*, constant long*, constant T*, uint)
REGISTER_ADD(float);
REGISTER_ADD(int);
REGISTER_ADD(half);
kernel void random_bits(device uint4* out, constant long2& seed, uint i [[thread_position_in_grid]]) {
  out[i] = counter::bits(seed.x, seed.y + i);
}
kernel void divide(device int* a, device float* b, uint i [[thread_position_in_grid]]) {
  a[i] = floor_divide(a[i], 3) + lib::metal::max(a[i], 2);
  b[i] = floor_divide(b[i], 3.0f) + max(b[i], 2.0f);
}
