#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#pragma STDC FP_CONTRACT OFF

struct Params {
    int n;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void atomics(
    device int* Bins [[buffer(0)]],
    device uint* Mask [[buffer(1)]],
    device float* Sum [[buffer(2)]],
    device float* X [[buffer(3)]],
    constant Params& p [[buffer(4)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    threadgroup int shared[32];
    shared[lane] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float x = X[lane];
    int at = atomic_fetch_add_explicit((threadgroup atomic_int*)shared + int(x), 1,
            memory_order_relaxed);
    int at_1 = atomic_fetch_max_explicit((device atomic_int*)Bins + lane, at, memory_order_relaxed);
    int Bins_at = atomic_fetch_min_explicit((device atomic_int*)Bins, at_1, memory_order_relaxed);
    int at_2 = atomic_exchange_explicit((device atomic_int*)Bins + Bins_at, p.n,
            memory_order_relaxed);
    uint u = uint(at_2);
    uint at_3 =
            atomic_fetch_and_explicit((device atomic_uint*)Mask + lane, u, memory_order_relaxed);
    uint at_4 =
            atomic_fetch_or_explicit((device atomic_uint*)Mask + lane, at_3, memory_order_relaxed);
    atomic_fetch_xor_explicit((device atomic_uint*)Mask + lane, at_4, memory_order_relaxed);
    float v = as_type<float>(atomic_exchange_explicit((device atomic_uint*)Sum + lane,
            as_type<uint>(x), memory_order_relaxed));
    float start =
            as_type<float>(atomic_load_explicit((device atomic_uint*)Sum, memory_order_relaxed));
    bool done = false;
    while (!done) {
        float sum = start + v;
        uint seen_bits = as_type<uint>(start);
        bool wrote = atomic_compare_exchange_weak_explicit((device atomic_uint*)Sum, &seen_bits,
                as_type<uint>(sum), memory_order_relaxed, memory_order_relaxed);
        start = as_type<float>(seen_bits);
        done = wrote;
    }
    int prior = 0;
    bool ok = atomic_compare_exchange_weak_explicit((device atomic_int*)Bins + lane, &prior, p.n,
            memory_order_relaxed, memory_order_relaxed);
    int old = prior;
    atomic_compare_exchange_weak_explicit((device atomic_int*)Bins + 1, &old, p.n,
            memory_order_relaxed, memory_order_relaxed);
    uint old_bits = as_type<uint>(start);
    atomic_compare_exchange_weak_explicit((device atomic_uint*)Sum + 1, &old_bits,
            as_type<uint>(x), memory_order_relaxed, memory_order_relaxed);
    if (ok) X[lane] = start;
}
