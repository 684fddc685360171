"""The check by clang has teeth."""

from __future__ import annotations

import pytest

from metal_check import complaints

KERNEL = """\
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

kernel void f(
    device const float* X [[buffer(0)]],
    device float* Y [[buffer(1)]],
    device half* H [[buffer(2)]],
    device atomic_uint* A [[buffer(3)]],
    uint3 tid [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]])
{
    threadgroup float shared[32];
    shared[lane] = 0.0f;
    STATEMENT
}
"""

RIGHT = [
    "Y[lane] = X[tid.x];",
    "float4 v = *(device const float4*)(X + lane); Y[0] = v.x + v.zw.y;",
    "*(threadgroup float4*)shared = float4(1.0f);",
    "H[0] = 1.5h * H[1];",
    "bool4 b = float4(X[0]) < float4(X[1]); Y[0] = select(float4(0.0f), float4(1.0f), b).x;",
    "float v = X[0]; Y[0] = simd_shuffle_xor(v, 1);",
    "simdgroup_half8x8 a; simdgroup_float8x8 c; simdgroup_multiply_accumulate(c, a, a, c);",
    "simdgroup_float8x8 c = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);"
    " reinterpret_cast<thread float2&>(c.thread_elements()) += 1.0f;",
    "uint old = 0; atomic_compare_exchange_weak_explicit(A, &old, 1u, memory_order_relaxed,"
    " memory_order_relaxed);",
]
WRONG = {
    "device float* p = shared; p[0] = 1.0f;": "cannot initialize",
    "threadgroup float* p = Y; p[0] = 1.0f;": "cannot initialize",
    "device float* p = X; p[0] = 1.0f;": "cannot initialize",
    "X[0] = 1.0f;": "not assignable",
    "*(device const float4*)(X + 4) = float4(1.0f);": "no viable",
    "*(device float4*)shared = float4(1.0f);": "address space",
    "Y[0] = erf(X[0]);": "undeclared identifier",
    "Y[0] = max(X[0], 1);": "",
    "Y[0] = precise::exp(H[0]) + max(lane, 1);": "ambiguous",
    "int4 v = float4(X[0]); Y[0] = v.x;": "no viable conversion",
    "float4 v = float4(X[0]) < float4(1.0f); Y[0] = v.x;": "no viable conversion",
    "Y[0] = as_type<half>(X[0]);": "no matching function",
    "float4 v = float4(X[0]); Y[0] = simd_shuffle(v < v, 1).x;": "no matching function",
    "atomic_load_explicit(Y, memory_order_relaxed);": "no matching function",
    "simdgroup_float8x8 c = 0.0f;": "no viable conversion",
    "simdgroup_float8x8 c; c.thread_elements() = float2(0.0f);": "no viable",
    "simdgroup_float8x8 c; float2 v = c.thread_elements(); Y[0] = v.x;": "no viable conversion",
    "float2 a, c; simdgroup_multiply_accumulate(c, a, a, c);": "no matching function",
    "float unused = X[0];": "unused variable",
    "float v; Y[0] = v;": "uninitialized",
    "Y[0] = X[0]": "expected ';'",
    "float lane = X[0]; Y[0] = lane;": "redefinition",
}


@pytest.mark.parametrize("statement", RIGHT)
def test_what_is_right_passes(statement: str) -> None:
    assert complaints(KERNEL.replace("STATEMENT", statement)) == []


@pytest.mark.parametrize("statement", WRONG)
def test_what_is_wrong_does_not(statement: str) -> None:
    found = complaints(KERNEL.replace("STATEMENT", statement))
    assert any(WRONG[statement] in complaint for complaint in found), found
