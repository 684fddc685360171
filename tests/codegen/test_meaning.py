# ruff: noqa: E501  (IR has no line breaks)
"""Where the obvious text would mean something else than the IR."""

from __future__ import annotations

import pytest

from iris.codegen import emit
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.testing.texts import shaped
from metal_check import complaints

HEAD = """\
func metal @k simdgroups=1(%X: ptr<f32, aligned>, %Y: ptr<f32, aligned>, %H: ptr<f16>, \
%I: ptr<i32>, %n: i32, %m: i32, %flag: bool) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c4: i32 = constant 4
  %zero: f32 = constant 0.0
  %lane: i32 = metal.lane
"""


def body(text: str) -> str:
    """The statements of a kernel, without their indentation."""
    module = parse(HEAD + text + "  return\n}\n")
    verify(module)
    (function,) = module
    assert isinstance(function, Func)
    made = emit(shaped(function)).text
    assert complaints(made) == []
    lines = made[made.index("\n{\n") + 3 : made.rindex("}")].splitlines()
    return "\n".join([line.removeprefix("    ") for line in lines])


def test_a_load_is_not_moved_past_a_store() -> None:
    assert (
        body("""\
  %0: f32 = metal.load %X, %lane
  metal.store %Y, %lane, %zero
  metal.store %Y, %n, %0
""")
        == """\
float v = X[lane];
Y[lane] = 0.0f;
Y[p.n] = v;"""
    )


def test_what_is_used_in_a_loop_and_after_it_is_computed_before() -> None:
    assert body("""\
  %0: i32 = mul %n, %m
  %1: i32 = assume_divisible 4 %0
  for %c0, %n, %c1 (%i: i32) {
    %2: i32 = metal.load %I, %1
    %3: i32 = metal.load %I, %2
    metal.store %I, %i, %3
    yield
  }
  metal.store %I, %1, %m
""").startswith("int at = ")


def test_a_load_is_not_moved_past_a_barrier_or_into_a_loop() -> None:
    assert body("""\
  %0: f32 = metal.load %X, %lane
  metal.barrier device
  %1: f32 = metal.load %X, %n
  for %c0, %n, %c1 (%i: i32) {
    metal.store %Y, %i, %1
    yield
  }
  metal.store %X, %lane, %0
""").startswith("float v = X[lane];\nthreadgroup_barrier")


def test_a_shuffle_is_not_put_where_some_lanes_do_not_come() -> None:
    assert (
        body("""\
  %0: f32 = metal.load %X, %lane
  %1: f32 = metal.shuffle_xor 1 %0
  %2: f32 = select %flag, %1, %zero
  %3: f32 = metal.shuffle_xor 2 %2
  metal.store %Y, %lane, %3, mask=%flag
""")
        == """\
float v = simd_shuffle_xor(X[lane], 1);
float v_1 = simd_shuffle_xor(p.flag ? v : 0.0f, 2);
if (p.flag) Y[lane] = v_1;"""
    )


def test_where_an_access_is_comes_of_all_lanes_before_some_access_it() -> None:
    function = next(
        iter(
            parse("""
func metal @k simdgroups=1(%X: ptr<f32>, %I: ptr<i32>, %Y: ptr<f32>) {
  %lane: i32 = metal.lane
  %c16: i32 = constant 16
  %zero: f32 = constant 0.0
  %some: bool = compare lt %lane, %c16
  %0: i32 = metal.load %I, %lane
  %1: i32 = metal.shuffle_xor 1 %0
  %2: f32 = metal.load %X, %1, mask=%some, other=%zero
  %3: i32 = metal.shuffle_xor 2 %lane
  metal.store %Y, %3, %2, mask=%some
  return
}
""")
        )
    )
    assert isinstance(function, Func)
    lines = emit(shaped(function)).text.splitlines()
    shuffles = [line for line in lines if "simd_shuffle_xor(" in line]
    assert len(shuffles) == 2
    assert not any("?" in line or "if" in line for line in shuffles)


def test_what_a_store_overwrites_part_by_part_is_read_before() -> None:
    assert (
        body("""\
  %0: regs<8xf16> = metal.load %H, %lane
  metal.store %H, %n, %0
""")
        == """\
half4 v[2];
#pragma unroll
for (int i = 0; i < 2; ++i) v[i] = ((device const packed_half4*)&H[lane])[i];
#pragma unroll
for (int i = 0; i < 2; ++i) ((device packed_half4*)&H[p.n])[i] = v[i];"""
    )


def test_carried_values_are_assigned_all_at_once() -> None:
    assert (
        body("""\
  %0: i32, %1: i32, %2: i32 = for %c0, %n, %c1 (%i: i32, %a: i32 = %c0, %b: i32 = %c1, %c: i32 = %n) {
    yield %b, %c, %a
  }
  metal.store %Y, %0, %zero
  metal.store %Y, %1, %zero
  metal.store %Y, %2, %zero
""")
        == """\
int a = 0;
int b = 1;
int c = p.n;
for (int i = 0; i < p.n; ++i) {
    int old_a = a;
    a = b;
    b = c;
    c = old_a;
}
Y[a] = 0.0f;
Y[b] = 0.0f;
Y[c] = 0.0f;"""
    )


def test_an_array_is_not_assigned_while_its_elements_are_needed() -> None:
    assert (
        body("""\
  %zeros: regs<8xf32> = constant 0.0
  %0: regs<8xf32> = for %c0, %n, %c1 (%k: i32, %s: regs<8xf32> = %zeros) {
    %1: f32 = metal.take [0] %s
    %2: regs<8xf32> = metal.splat %1
    %3: regs<8xf32> = add %s, %2
    yield %3
  }
  %4: regs<4xf32> = metal.slice %0, %c1
  metal.store %Y, %lane, %4
""")
        == """\
float4 s[2] = {};
for (int k = 0; k < p.n; ++k) {
    float4 next_s[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) next_s[i] = s[i] + s[0].x;
    #pragma unroll
    for (int i = 0; i < 2; ++i) s[i] = next_s[i];
}
*(device float4*)&Y[lane] = s[1];"""
    )


def test_signed_overflow_is_left_to_addresses() -> None:
    assert (
        body("""\
  %0: i32 = mul %n, %m
  %1: i32 = add %0, %lane
  %2: i32 = mul %n, %m
  %3: i32 = sub %2, %lane
  %4: i32 = mul %lane, %c4
  metal.store %I, %1, %3
  metal.store %I, %n, %4
""")
        == """\
I[p.n * p.m + lane] = uint(p.n) * p.m - lane;
I[p.n] = lane * 4;"""
    )


@pytest.mark.parametrize(
    ("bounds", "head"),
    [
        ("%c0, %n, %c1", "int i = 0; i < p.n; ++i"),
        ("%c0, %n, %c4", "int i = 0; i < p.n; i = addsat(i, 4)"),
        ("%c0, %lane, %c4", "int i = 0; i < lane; i += 4"),
        ("%n, %c0, %cm1", "int i = p.n; i > 0; --i"),
        ("%n, %c0, %cm4", "int i = p.n; i > 0; i -= 4"),
        ("%n, %m, %cm4", "int i = p.n; i > p.m; i = addsat(i, -4)"),
        ("%c0, %n, %m", "int i = 0; p.m > 0 ? i < p.n : i > p.n; i = addsat(i, p.m)"),
    ],
)
def test_a_loop_ends_like_a_range(bounds: str, head: str) -> None:
    assert (
        body(f"""\
  %cm1: i32 = constant -1
  %cm4: i32 = constant -4
  for {bounds} (%i: i32) {{
    metal.store %Y, %i, %zero
    yield
  }}
""")
        == f"for ({head}) Y[i] = 0.0f;"
    )


def test_what_nobody_uses_is_not_written() -> None:
    assert body("  %0: f32 = metal.load %X, %lane\n  %1: f32 = exp %0\n") == ""


def test_a_bool_that_flips_has_no_compound_assignment() -> None:
    assert "b = b != p.flag;" in body("""\
  %a: bool = for %c0, %n, %c1 (%i: i32, %b: bool = %flag) {
    %0: bool = xor %b, %flag
    yield %0
  }
  metal.assert "b" %a
""")


def test_a_vector_of_bool_has_no_compound_assignment() -> None:
    text = body("""\
  %false: regs<4xbool> = constant false
  %a: regs<4xbool> = for %c0, %n, %c1 (%i: i32, %b: regs<4xbool> = %false) {
    %at: i32 = mul %i, %c4
    %x: regs<4xf32> = metal.load %X, %at
    %y: regs<4xbool> = compare lt %x, %x
    %0: regs<4xbool> = or %b, %y
    yield %0
  }
  %first: bool = metal.take [0] %a
  metal.assert "b" %first
""")
    assert "b = b | " in text and "|=" not in text


def test_a_variable_goes_from_loop_to_loop() -> None:
    assert (
        body("""\
  %a: f32 = for %c0, %n, %c1 (%i: i32, %s: f32 = %zero) {
    %0: f32 = for %c0, %m, %c1 (%j: i32, %t: f32 = %s) {
      %1: f32 = metal.load %X, %j
      %2: f32 = add %t, %1
      yield %2
    }
    yield %0
  }
  metal.store %Y, %lane, %a
""")
        == """\
float s = 0.0f;
for (int i = 0; i < p.n; ++i) {
    for (int j = 0; j < p.m; ++j) s += X[j];
}
Y[lane] = s;"""
    )


def test_results_that_nobody_uses_are_not_made() -> None:
    assert (
        body("""\
  %0: regs<4xi32>, %1: regs<4xf32> = metal.foreach 4 (%i: i32) {
    %2: i32, %3: f32 = if %flag {
      %4: i32 = metal.atomic add %I, %i, %n
      %5: f32 = metal.load %X, %i
      %6: f32 = exp %5
      yield %4, %6
    } else {
      %7: f32 = mul %zero, %zero
      yield %c0, %7
    }
    yield %2, %3
  }
""")
        == """\
#pragma unroll
for (int i = 0; i < 4; ++i) {
    if (p.flag) atomic_fetch_add_explicit((device atomic_int*)I + i, p.n, memory_order_relaxed);
}"""
    )


def test_an_array_that_a_loop_carries_is_overwritten_by_what_is_made_of_it() -> None:
    assert (
        body("""\
  %zeros: regs<8xf32> = constant 0.0
  %low: regs<4xf32> = metal.load %X, %lane
  %high: regs<4xf32> = metal.load %X, %n
  %one: regs<8xf32> = metal.join %low, %high
  %0: regs<8xf32>, %1: regs<8xf32> = for %c0, %n, %c1 (%k: i32, %s: regs<8xf32> = %zeros, %t: regs<8xf32> = %one) {
    %2: regs<8xf32>, %3: regs<8xf32> = metal.foreach 2 (%i: i32) {
      %4: regs<4xf32> = metal.slice %s, %i
      %5: regs<4xf32> = metal.slice %t, %i
      %6: regs<4xf32> = add %4, %5
      %7: regs<4xf32> = mul %4, %5
      yield %6, %7
    }
    yield %2, %3
  }
  %8: regs<4xf32> = metal.slice %0, %c1
  %9: regs<4xf32> = metal.slice %1, %c1
  metal.store %Y, %lane, %8
  metal.store %Y, %n, %9
""")
        == """\
float4 low = *(device const float4*)&X[lane];
float4 high = *(device const float4*)&X[p.n];
float4 one[2] = {low, high};
float4 s[2] = {};
for (int k = 0; k < p.n; ++k) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        float4 v = s[i];
        float4 v_1 = one[i];
        s[i] = v + v_1;
        one[i] = v * v_1;
    }
}
*(device float4*)&Y[lane] = s[1];
*(device float4*)&Y[p.n] = one[1];"""
    )


def test_an_array_that_is_needed_again_is_not_overwritten() -> None:
    assert "s[i] *=" not in body("""\
  %zeros: regs<8xf32> = constant 0.0
  %0: regs<8xf32> = for %c0, %n, %c1 (%k: i32, %s: regs<8xf32> = %zeros) {
    %1: regs<8xf32> = metal.foreach 2 (%i: i32) {
      %2: regs<4xf32> = metal.slice %s, %i
      %3: regs<4xf32> = mul %2, %2
      yield %3
    }
    %4: regs<8xf32> = metal.foreach 2 (%j: i32) {
      %5: regs<4xf32> = metal.slice %s, %j
      %6: regs<4xf32> = metal.slice %1, %j
      %7: regs<4xf32> = add %5, %6
      yield %7
    }
    yield %4
  }
  %8: regs<4xf32> = metal.slice %0, %c1
  metal.store %Y, %lane, %8
""")


def test_an_element_of_what_repeats_is_one_of_those_there_are() -> None:
    """One vector stands for both halves where these are taken whole, but has not their elements."""
    assert (
        body("""\
  %at: i32 = mul %lane, %c4
  %0: regs<4xf32> = metal.load %X, %at
  %1: regs<4xbool> = compare lt %0, %0
  %2: regs<8xbool> = metal.take [0, 1, 2, 3, 0, 1, 2, 3] %1
  metal.foreach 8 (%i: i32) {
    %3: bool = metal.slice %2, %i
    metal.store %Y, %i, %zero, mask=%3
    yield
  }
""")
        == """\
int at = lane * 4;
float4 v = *(device const float4*)&X[at];
bool4 flag = v < v;
bool flag_1[8] = {flag.x, flag.y, flag.z, flag.w, flag.x, flag.y, flag.z, flag.w};
#pragma unroll
for (int i = 0; i < 8; ++i) {
    if (flag_1[i]) Y[i] = 0.0f;
}"""
    )


def test_a_part_of_the_first_half_is_where_it_is_in_the_whole() -> None:
    """A part of several vectors, of another view of a variable."""
    assert body("""\
  %0: regs<32xf32> = metal.foreach 8 (%i: i32) {
    %1: i32 = mul %i, %c4
    %2: regs<4xf32> = metal.load %X, %1
    yield %2
  }
  %3: regs<16xf32> = metal.take [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] %0
  %4: regs<16xf32> = metal.foreach 2 (%i: i32) {
    %5: regs<8xf32> = metal.slice %3, %i
    %6: regs<8xf32> = neg %5
    yield %6
  }
  metal.foreach 4 (%i: i32) {
    %7: i32 = mul %i, %c4
    %8: regs<4xf32> = metal.slice %4, %i
    metal.store %Y, %7, %8
    yield
  }
""").startswith(
        """\
float4 v[8];
#pragma unroll
for (int i = 0; i < 8; ++i) v[i] = *(device const float4*)&X[i * 4];
float4 v_1[4];
#pragma unroll
for (int i = 0; i < 2; ++i) {
    #pragma unroll
    for (int j = 0; j < 2; ++j) v_1[i * 2 + j] = -v[(i * 2 + j) % 8];
}
"""
    )
