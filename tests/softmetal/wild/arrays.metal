// In the style of array frameworks: functors, complex numbers by spaces, strides, instances by macros.
#include <metal_atomic>
#include <metal_math>
#include <metal_simdgroup>
#include <metal_stdlib>
#define LIBRARY_CONSTANT static constant constexpr const
LIBRARY_CONSTANT int reads_per_thread = 4;
typedef bfloat bfloat16_t;
typedef half float16_t;
using namespace metal;

template <typename T> struct Range {
  static const constant T highest = metal::numeric_limits<T>::max();
  static const constant T lowest = metal::numeric_limits<T>::lowest();
};
#define floating_range(type)                                                            \
  template <> struct Range<type> {                                                      \
    static constexpr constant type highest = metal::numeric_limits<type>::infinity();   \
    static constexpr constant type lowest = -metal::numeric_limits<type>::infinity();   \
  };
floating_range(half);
floating_range(float);
floating_range(bfloat16_t);

struct complex_t;
template <typename T>
static constexpr constant bool becomes_complex = !is_same_v<T, complex_t> && is_convertible_v<T, float>;
struct complex_t {
  float re;
  float im;
  constexpr complex_t(float re, float im) : re(re), im(im){};
  constexpr complex_t() : re(0), im(0){};
  constexpr complex_t() threadgroup : re(0), im(0){};
  template <typename T, typename = typename enable_if<becomes_complex<T>>::type>
  constexpr complex_t(T x) thread : re(x), im(0) {}
  template <typename T, typename = typename enable_if<becomes_complex<T>>::type>
  constexpr complex_t(T y) threadgroup : re(y), im(0) {}
  template <typename T, typename = typename enable_if<becomes_complex<T>>::type>
  constexpr complex_t(T x) device : re(x), im(0) {}
  template <typename T, typename = typename enable_if<becomes_complex<T>>::type>
  constexpr complex_t(T x) constant : re(x), im(0) {}
  explicit constexpr operator float() const thread { return re; }
  explicit constexpr operator float() const threadgroup { return re; }
  explicit constexpr operator float() const device { return re; }
  explicit constexpr operator float() const constant { return re; }
};
constexpr complex_t operator-(complex_t x) { return {-x.re, -x.im}; }
constexpr complex_t operator+(complex_t x, complex_t y) { return {x.re + y.re, x.im + y.im}; }
constexpr complex_t operator*(complex_t x, complex_t y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
#define accumulates_in(space)                                              \
  inline space complex_t& operator+=(space complex_t& x, complex_t y) {    \
    x = x + y;                                                             \
    return x;                                                              \
  }
accumulates_in(device);
accumulates_in(thread);
accumulates_in(threadgroup);

struct Square {
  template <typename T> T operator()(T x) { return x * x; }
  complex_t operator()(complex_t x) { return -x * -x; }
};
struct Logistic {
  template <typename T> T operator()(T x) {
    auto small = metal::exp(-metal::abs(x));
    auto made = small / (1 + small);
    return T((x < 0) ? made : 1 - made);
  }
};
struct Plus { template <typename T> T operator()(T x, T y) { return x + y; } };
struct LogPlus {
  template <typename T> T operator()(T x, T y) {
    if (metal::isnan(x) || metal::isnan(y)) return metal::numeric_limits<T>::quiet_NaN();
    constexpr T inf = metal::numeric_limits<T>::infinity();
    T big = metal::max(x, y), small = metal::min(x, y);
    return (small == -inf || big == inf) ? big : big + T(metal::log(1.0f + metal::exp(float(small - big))));
  }
};
// Names that a library's own helpers might have, too.
template <typename T> struct Sum {
  static constexpr constant T start = T(0);
  template <typename U> T operator()(U x, T y) { return x + y; }
  T across(T x) { return simd_sum(x); }
};
template <typename T> struct Greatest {
  static constexpr constant T start = Range<T>::lowest;
  template <typename U> T operator()(U x, T y) { return T(x) > y ? T(x) : y; }
  T across(T x) { return simd_max(x); }
};

template <typename I = int64_t>
METAL_FUNC I place_of(I number, constant const int* shape, constant const int64_t* strides, int axes) {
  I place = 0;
  for (int axis = axes - 1; axis >= 0 && number > 0; number /= shape[axis--])
    place += number % shape[axis] * I(strides[axis]);
  return place;
}
template <typename I = int64_t>
METAL_FUNC I place_of(uint3 at, constant const int* shape, constant const int64_t* strides, int axes) {
  I place = at.x * I(strides[axes - 1]) + at.y * I(strides[axes - 2]);
  for (int axis = axes - 3; axis >= 0; --axis) {
    place += (at.z % shape[axis]) * I(strides[axis]);
    at.z /= shape[axis];
  }
  return place;
}
template <typename T, typename U, typename F, int N = 1>
[[kernel]] void map(device const T* in, device U* out, constant uint& size, uint at [[thread_position_in_grid]]) {
  at *= N;
  if (N > 1 && at + N > size) {
    for (int i = 0; at + i < size; ++i) out[at + i] = static_cast<U>(F()(in[at + i]));
  } else {
    for (int i = 0; i < N; ++i) out[at + i] = static_cast<U>(F()(in[at + i]));
  }
}
template <typename T, typename U, typename F, typename I = int64_t>
[[kernel]] void map_strided(device const T* in, device U* out, constant const int* shape,
                            constant const int64_t* strides, device const int& axes,
                            uint3 at [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]) {
  auto from = place_of<I>(at, shape, strides, axes);
  auto to = at.x + grid.x * (at.y + grid.y * at.z);
  out[to] = F()(in[from]) + T(place_of<I>(I(to), shape, strides, axes) - from);
}
template <typename T, typename F, int AXES>
[[kernel]] void zip(device const T* a [[buffer(0)]], device const T* b [[buffer(1)]], device T* c [[buffer(2)]],
                    constant const int64_t a_strides[AXES], constant const int64_t (&b_strides)[AXES],
                    uint2 at [[thread_position_in_grid]], uint2 grid [[threads_per_grid]]) {
  long i = at.x * a_strides[1] + at.y * a_strides[0], j = at.x * b_strides[1] + at.y * b_strides[0];
  c[at.y * ulong(grid.x) + at.x] = F()(a[i], b[j]);
}
template <typename T, typename U, typename F, int N = reads_per_thread>
[[kernel]] void reduce_rows(device const T* in [[buffer(0)]], device U* out [[buffer(1)]],
                            constant const size_t& columns [[buffer(2)]],
                            uint3 group [[threadgroup_position_in_grid]],
                            uint3 lid [[thread_position_in_threadgroup]],
                            uint3 threads [[threads_per_threadgroup]], uint width [[threads_per_simdgroup]],
                            uint simdgroups [[simdgroups_per_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  F f;
  threadgroup U partial[32];
  U total = F::start;
  in += group.x * columns;
  for (size_t i = lid.x * N; i < columns; i += threads.x * N)
    for (int k = 0; k < N && i + k < columns; ++k) total = f(in[i + k], total);
  total = f.across(total);
  if (simdgroups > 1) {
    if (lane == 0) partial[simdgroup] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    total = f.across(lid.x < simdgroups && lid.x < width ? partial[lid.x] : f.start);
  }
  if (lid.x == 0) out[group.x] = total;
}
#define instantiate(name, function, ...) \
  template [[host_name(name)]] [[kernel]] decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;
#define instantiate_map(F, type)                      \
  instantiate("map_" #F "_" #type, map, type, type, F) \
  instantiate("map4_" #F "_" #type, map, type, type, F, 4)
instantiate_map(Square, float)
instantiate_map(Square, int)
instantiate_map(Square, complex_t)
instantiate_map(Logistic, float16_t)
instantiate_map(Logistic, bfloat16_t)
instantiate("strided", map_strided, float, float, Square)
instantiate("log_plus", zip, float, LogPlus, 2)
instantiate("plus_complex", zip, complex_t, Plus, 2)
instantiate("sum_float", reduce_rows, float, float, Sum<float>)
instantiate("sum_bfloat", reduce_rows, bfloat16_t, float, Sum<float>, 2)
instantiate("sum_uchar", reduce_rows, uint8_t, int32_t, Sum<int32_t>)
instantiate("max_half", reduce_rows, half, half, Greatest<half>)
instantiate("max_int", reduce_rows, int, int, Greatest<int>)

// Overloads of Metal's own functions for more types.
inline uint64_t simd_shuffle_down(uint64_t x, uint16_t by) {
  return as_type<uint64_t>(metal::simd_shuffle_down(as_type<uint2>(x), by));
}
inline bool simd_shuffle_down(bool x, uint16_t by) { return simd_shuffle_down(static_cast<uint32_t>(x), by); }
inline complex_t simd_shuffle_down(complex_t x, uint16_t by) {
  return complex_t(simd_shuffle_down(x.re, by), simd_shuffle_down(x.im, by));
}
kernel void shuffles(device ulong* x, device complex_t* z, device bool* b, uint i [[thread_position_in_grid]]) {
  x[i] = simd_shuffle_down(ulong(x[i]), ushort(1));
  b[i] = simd_shuffle_down(bool(b[i]), 1);
  threadgroup complex_t shared[32];
  shared[i] = simd_shuffle_down(z[i], 1);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  shared[i] += complex_t(1);
  z[i] = shared[i];
  z[i] += complex_t(0.5f, float(shared[i]));
}
template <typename T>
[[kernel]] void steps(constant const T& start, constant const T& step, device T* out,
                      uint at [[thread_position_in_grid]]) {
  out[at] = start + at * step;
}
#define instantiate_steps(type)                                                               \
  template [[host_name("steps_" #type)]] [[kernel]] void steps<type>(constant const type& start, \
      constant const type& step, device type* out, uint at [[thread_position_in_grid]]);
instantiate_steps(uint8_t)
instantiate_steps(float16_t)
instantiate_steps(bfloat16_t)
