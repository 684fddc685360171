// In the style of inference engines: packed blocks, kernels over functions that unpack them, one char array
// of threadgroup memory that is cast as needed, arguments in structs.
#include <metal_stdlib>
using namespace metal;
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define EXCHANGE(x, y) { auto kept = (x); (x) = (y); (y) = kept; }
#define UNROLLED(x) _Pragma("clang loop unroll(full)") for (x)
#define WIDTH 32
#define NIBBLES 32
#define FIRST_CONSTANT 200
typedef struct { half scale; uint8_t pairs[NIBBLES / 2]; } block_nibbles;
typedef struct { half scale; int8_t values[NIBBLES]; } block_bytes;
static_assert(sizeof(block_nibbles) == sizeof(half) + NIBBLES / 2, "blocks are packed");
typedef struct {
    union { struct { half scale; half least; }; half2 both; };
    uint8_t codes[4];
} block_codes;
enum direction : short { up, down };
typedef struct { int32_t columns; int32_t rows; uint64_t row_bytes; int32_t out_columns; uint64_t out_bytes; float epsilon; } shape_args;
constant static const float codebook[16] = {-127.f, -104.f, -83.f, -65.f, -49.f, -35.f, -22.f, -10.f,
                                            1.f, 13.f, 25.f, 38.f, 53.f, 69.f, 89.f, 113.f};
constexpr constant static float quarter[4] = {1.f, 2.f, 3.f, 4.f};
constant float ROOT_2_OVER_PI = 0.79788456080286535587989211986876f;

template <typename M> void unpack_plain(device const float4x4 * from, short part, thread M & to) { to = (M)(*from); }
// Sixteen values: low nibbles come first.
template <typename M>
void unpack_nibbles(device const block_nibbles * from, short part, thread M & to) {
    device const uint16_t * words = ((device const uint16_t *) from + 1);
    const float high = part ? (from->scale / 16.h) : from->scale;
    const float higher = high / 256.f, least = -8.h * from->scale;
    const ushort mask = part ? 0x00F0 : 0x000F;
    float4x4 made;
    for (int i = 0; i < 8; i++) {
        made[i / 2][2 * (i % 2) + 0] = high * (words[i] & mask) + least;
        made[i / 2][2 * (i % 2) + 1] = higher * (words[i] & (mask << 8)) + least;
    }
    to = (M) made;
}
template<typename block, short parts, void (*unpack)(device const block *, short, thread float4x4 &)>
kernel void pick_rows(
        constant shape_args & args,
        device const  void  * table,
        device const  void  * picked,
        device       float  * out,
        uint3                 group[[threadgroup_position_in_grid]],
        uint                  thread_id[[thread_index_in_threadgroup]],
        uint3                 threads [[threads_per_threadgroup]]) {
    const int64_t row = ((const device int32_t *) ((const device char *) picked + 4 * group.x))[0];
    for (int64_t i = thread_id; i < args.columns / 16; i += threads.x) {
        float4x4 values;
        unpack(((device const block *) ((const device char *) table + row * args.row_bytes)) + i / parts, i % parts, values);
        *(((device float4x4 *) ((device char *) out + group.x * args.out_bytes)) + i) = values;
    }
}
typedef decltype(pick_rows<float4x4, 1, unpack_plain>) pick_rows_t;
template [[host_name("pick_rows_plain")]]   kernel pick_rows_t pick_rows<float4x4,      1, unpack_plain>;
template [[host_name("pick_rows_nibbles")]] kernel pick_rows_t pick_rows<block_nibbles, 2, unpack_nibbles>;

constant bool  FC_checked [[function_constant(FIRST_CONSTANT + 0)]];
constant short FC_scale   [[function_constant(FIRST_CONSTANT + 1)]];
constant bool  is_checked = is_function_constant_defined(FC_checked) ? FC_checked : false;

// 32 rows of a times 32 rows of b, by four simdgroups, sixteen columns at a time.
template<typename T, typename M, typename fragment, typename block, short parts, void (*unpack)(device const block *, short, thread M &)>
kernel void multiply(constant shape_args & args [[buffer(0)]], device const char * a [[buffer(1)]], device const char * b [[buffer(2)]],
        device char * out [[buffer(3)]], threadgroup char * memory [[threadgroup(0)]],
        uint3 group[[threadgroup_position_in_grid]], ushort tid[[thread_index_in_threadgroup]], ushort simd[[simdgroup_index_in_threadgroup]]) {
    threadgroup T     * left  = (threadgroup T     *) (memory);
    threadgroup float * right = (threadgroup float *) (memory + 32 * 16 * sizeof(T));
    const int row = group.y * 32, column = group.x * 32;
    fragment           fa;
    simdgroup_float8x8 fb[4];
    simdgroup_float8x8 sums[4];
    for (short i = 0; i < 4; i++) { sums[i] = make_filled_simdgroup_matrix<float, 8>(0.f); }
    for (int k = 0; k < args.columns; k += 16) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (tid < 32) {
            M values;
            unpack((device const block *) (a + args.row_bytes * MIN(row + tid, args.rows - 1)) + k / 16 / parts, k / 16 % parts, values);
            #pragma unroll(16)
            for (short i = 0; i < 16; i++) { left[tid * 16 + i] = values[i / 4][i % 4]; }
        }
        // Two times four columns of a row of b each.
        *(threadgroup float2x2 *) (right + tid * 4) = *((device float2x2 *) ((device float *) b + (column + tid / 4) * args.columns + k + tid % 4 * 4));
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll(2)
        for (short part = 0; part < 2; part++) {
            simdgroup_load(fa, left + simd * 8 * 16 + part * 8, 16);
            simdgroup_barrier(mem_flags::mem_none);
            for (short i = 0; i < 4; i++) { simdgroup_load(fb[i], right + i * 8 * 16 + part * 8, 16, 0, true); }
            simdgroup_barrier(mem_flags::mem_none);
            for (short i = 0; i < 4; i++) { simdgroup_multiply_accumulate(sums[i], fa, fb[i], sums[i]); }
        }
    }
    device float * to = (device float *) out + (row + simd * 8) * args.out_columns + column;
    if (!is_checked || row + 32 <= args.rows) {
        for (short i = 0; i < 4; i++) { simdgroup_store(sums[i], to + 8 * i, args.out_columns, 0, false); }
    }
}
typedef decltype(multiply<half, half4x4, simdgroup_half8x8, float4x4, 1, unpack_plain>) multiply_t;
template [[host_name("multiply_plain")]]   kernel multiply_t multiply<half,  half4x4,  simdgroup_half8x8,  float4x4,      1, unpack_plain>;
template [[host_name("multiply_nibbles")]] kernel multiply_t multiply<float, float4x4, simdgroup_float8x8, block_nibbles, 2, unpack_nibbles>;

kernel void gelu(device const float * in, device float * out, uint at[[thread_position_in_grid]]) {
    device const float & x = in[at];
    out[at] = 0.5f*x*(1.0f + precise::tanh(ROOT_2_OVER_PI*x*(1.0f + 0.044715f*x*x)));
}
template <typename T4>
kernel void norm(constant shape_args & args, device const char * in, device char * out, threadgroup float * sums [[threadgroup(0)]],
        uint3 group[[threadgroup_position_in_grid]], ushort3 tid[[thread_position_in_threadgroup]],
        ushort simd[[simdgroup_index_in_threadgroup]], ushort lane[[thread_index_in_simdgroup]], ushort3 threads[[threads_per_threadgroup]]) {
    if (simd == 0) { sums[lane] = 0.0f; }
    device const T4 * x = (device const T4 *) (in + group.x*args.row_bytes);
    float4 parts(0.0f);
    for (int i = tid.x; i < args.columns/4; i += threads.x) { parts += float4(x[i]) * float4(x[i]); }
    float sum = simd_sum(dot(parts, 1.0f));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) { sums[simd] = sum; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(sums[lane]);
    const float scale = 1.0f/sqrt(sum/args.columns + args.epsilon);
    device T4 * y = (device T4 *) (out + group.x*args.out_bytes);
    for (int i = tid.x; i < args.columns/4; i += threads.x) { y[i] = (T4)(float4(x[i]) * scale); }
}
typedef decltype(norm<float4>) norm_t;
template [[host_name("norm_f32")]] kernel norm_t norm<float4>;
template [[host_name("norm_f16")]] kernel norm_t norm<half4>;

typedef void (sort_rows_t)(constant shape_args & args, device const float * in, device int32_t * out, threadgroup int32_t * order [[threadgroup(0)]],
        uint3 group[[threadgroup_position_in_grid]], uint3 tid[[thread_position_in_threadgroup]]);
template<direction way>
kernel void sort_rows(constant shape_args & args, device const float * in, device int32_t * out, threadgroup int32_t * order [[threadgroup(0)]],
        uint3 group[[threadgroup_position_in_grid]], uint3 tid[[thread_position_in_threadgroup]]) {
    const int at = tid[0];
    device const float * row = in + group[1] * args.columns;
    order[at] = at;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int run = 2; run <= args.columns; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            const int other = at ^ step;
            const bool rising = (at & run) == 0, wrong = way == up ? row[order[at]] > row[order[other]] : row[order[at]] < row[order[other]];
            if (other > at && rising == wrong) { EXCHANGE(order[at], order[other]); }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
    out[group[1] * args.columns + at] = order[at];
}
template [[host_name("sort_rows_up")]]   kernel sort_rows_t sort_rows<up>;
template [[host_name("sort_rows_down")]] kernel sort_rows_t sort_rows<down>;

template<typename A, typename X, int ROWS>
void rows_times_vector(constant shape_args & args, device const char * a, device const char * x, device char * out, uint3 group, ushort lane) {
    device const A * row[ROWS];
    for (int i = 0; i < ROWS; ++i) row[i] = (device const A *) (a + (group.x*ROWS + i)*args.row_bytes);
    float sums[ROWS] = { 0.f };
    for (int k = lane; k < args.columns; k += WIDTH) UNROLLED (int i = 0; i < ROWS; ++i) sums[i] += (float) row[i][k] * (float) ((device const X *) x)[k];
    for (int i = 0; i < ROWS; ++i) {
        const float total = simd_sum(sums[i]);
        if (lane == 0) ((device float *) out)[group.x*ROWS + i] = total;
    }
}
template<typename A, typename X>
kernel void matrix_times_vector(constant shape_args & args, device const char * a, device const char * x, device char * out,
    uint3 group[[threadgroup_position_in_grid]], ushort lane[[thread_index_in_simdgroup]]) {
    rows_times_vector<A, X, 2>(args, a, x, out, group, lane);
}
typedef decltype(matrix_times_vector<half, half>) matrix_times_vector_t;
template [[host_name("matvec_f16")]]  kernel matrix_times_vector_t matrix_times_vector<half, float>;
template [[host_name("matvec_bf16")]] kernel matrix_times_vector_t matrix_times_vector<bfloat, float>;

kernel void rotate_pairs(device const float2* x, device float2* y, constant float& base, constant int& pairs, uint2 at [[thread_position_in_grid]]) {
    const float angle = (float) at.y * pow(base, -(float) at.x / pairs);
    float c;
    const float s = sincos(angle, c);
    const float2 v = x[at.y * pairs + at.x];
    y[at.y * pairs + at.x] = float2(v[0]*c - v[1]*s, v.x*s + v.y*c);
}
kernel void look_up(device const block_codes* b, device float* y, uint i [[thread_position_in_grid]]) {
    y[i] = codebook[b[i].codes[0] & 0xf] * b[i].both.x + quarter[b[i].codes[1] >> 6] * (float) b[i].least;
}
