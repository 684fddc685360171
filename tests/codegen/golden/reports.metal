#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
};

// Adds a record to the report; see iris.codegen.source.Source.
METAL_FUNC void add_record(device atomic_uint* report, uint site, uint program, uint thread_index,
                           uint part = 0, int place = 0, ulong bits = 0) {
    uint at = atomic_fetch_add_explicit(report, 8u, memory_order_relaxed);
    if (at >= atomic_load_explicit(report + 1, memory_order_relaxed)) return;
    device uint* record = (device uint*)(report + 2) + at;
    record[0] = site;
    record[1] = program;
    record[2] = thread_index;
    record[3] = part;
    record[4] = uint(place);
    record[5] = uint(bits);
    record[6] = uint(bits >> 32);
    record[7] = 0;
}

[[max_total_threads_per_threadgroup(64)]]
kernel void reports(
    device const float* X [[buffer(0)]],
    constant Params& p [[buffer(1)]],
    device atomic_uint* report [[buffer(2)]],
    uint3 tid [[threadgroup_position_in_grid]],
    uint3 grid [[threadgroups_per_grid]],
    ushort lane [[thread_index_in_simdgroup]],
    ushort thread_index [[thread_index_in_threadgroup]])
{
    uint program = tid.x + grid.x * (tid.y + grid.y * tid.z);
    int row = tid.y;
    float x = X[lane];
    if (!(lane < p.n)) add_record(report, 0, program, thread_index);
    if (lane >= 0) add_record(report, 1, program, thread_index, 0, lane, uint(row));
    half4 h = half4(half(x));
    int4 places[2] = {int4(0, 1, 2, 3), int4(4, 5, 6, 7)};
    int4 at = int4(0, 1, -1, 3);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (at[i] >= 0) add_record(report, 2, program, thread_index, 0, at[i], as_type<uint>(x));
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (at[i] >= 0) {
            add_record(report, 2, program, thread_index, 1, at[i], as_type<ushort>(h[i]));
        }
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (places[i / 4][i % 4] >= 0) {
            add_record(report, 2, program, thread_index, 2, places[i / 4][i % 4], ulong(7l));
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (at[i] >= 0) add_record(report, 2, program, thread_index, 3, at[i], as_type<uint>(x));
    }
    if (thread_index == 0) add_record(report, 3, program, thread_index, 0, -1);
    bool b = x > x;
    if (lane >= 0) add_record(report, 4, program, thread_index, 0, lane, b);
    if (!b) add_record(report, 5, program, thread_index);
}
