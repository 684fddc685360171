# ruff: noqa: E501  (IR text)
"""The interpreter of Metal IR: each op against NumPy, and threads that part ways."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError, ProgramError, VerifyError
from iris.interp.metal import run
from iris.interp.metal.rules import interpretation
from iris.ir import parse, scalar
from iris.ir.core import OPS
from iris.ir.types import DTYPES, DType, bf16, bool_
from metal_programs import fails, function, go, total, value, when
from support import ROOT

Array = np.ndarray[Any, Any]
every = pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
LANES = np.arange(32, dtype=np.int32)


def draw(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small numbers in storage, integer-valued."""
    rng = np.random.default_rng(seed)
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if dtype.low == 0 and not dtype.is_float else -4
    return rng.integers(low, 5, shape).astype(scalar.storage(dtype))


def in_memory(dtype: DType, values: Array) -> Array:
    return scalar.to_bits(dtype, values) if dtype is bf16 else values


def test_every_op_of_the_level_has_an_interpretation() -> None:
    level = [cls for cls in OPS.values() if cls.level is not None and cls.level.value == "metal"]
    shared = [OPS[name] for name in ("if", "for", "while", "add", "cast", "constant")]
    assert [cls.name for cls in level + shared if interpretation.get(cls) is None] == []


SHARED = {"iris.interp.quick", "iris.interp.observer", "iris.interp.watch"}


def test_nothing_is_shared_with_the_interpreter_of_tiles() -> None:
    """But the scalar math, what NumPy could do itself, and what tells a deadlock: else a mistake
    could hide in both."""
    paths = sorted((ROOT / "src/iris/interp/metal").glob("*.py"))
    assert paths
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iris.interp"):
                room = (node.module or "").startswith("iris.interp.metal")
                assert room or node.module in SHARED, path
                assert node.level == 0


# Arguments.


def test_the_number_of_simdgroups_must_be_chosen() -> None:
    (f,) = parse("func metal @f() {\n  return\n}\n")
    with pytest.raises(ArgumentError, match="f does not say how many simdgroups run it"):
        run(f, (1, 1, 1), [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "values", "message"),
    [
        ("%x: i32", [], "f takes 1 arguments, not 0"),
        ("%x: i32", [2**31], "x: 2147483648 does not fit i32"),
        ("%X: ptr<f32>", [np.zeros(3)], "X must be an array of float32, not float64"),
        ("%X: ptr<bf16>", [np.zeros(3, np.float32)], "X must be an array of uint16, not float32"),
        ("%X: ptr<f32>", [3], "X must be an array of float32, not int"),
        (
            "%X: ptr<f32, aligned>",
            [np.zeros(8, np.float32)[1:]],
            "X is declared aligned, but its array does not start at a multiple of 16 bytes",
        ),
    ],
)
def test_wrong_arguments_are_told(arguments: str, values: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(function(arguments, ""), (1, 1, 1), values)


def test_a_read_only_array_cannot_be_written() -> None:
    array = np.zeros(32, np.int32)
    array.flags.writeable = False
    with pytest.raises(ArgumentError, match="X is written, but its array is read-only"):
        run(function("%X: ptr<i32>", "metal.store %X, %t, %t"), (1, 1, 1), [array])


def test_noalias_must_be_true() -> None:
    array = np.zeros(64, np.int32)
    f = function("%X: ptr<i32, noalias>, %Y: ptr<i32>", "metal.store %X, %t, %t")
    with pytest.raises(ArgumentError, match="share memory, but X is declared noalias"):
        run(f, (1, 1, 1), [array[4:], array[:40]])
    run(f, (1, 1, 1), [array[32:], array[:32]])


def test_memory_is_reached_only_by_its_name() -> None:
    text = """
    %P: ptr<f32> = if %c {
      yield %X
    } else {
      yield %Y
    }
    """
    with pytest.raises(VerifyError, match="if: a pointer can only be an argument"):
        run(function("%X: ptr<f32>, %Y: ptr<f32>, %c: bool", text), (1, 1, 1), [None, None, True])
    text = """
    %a: threadgroup<4xf32> = metal.alloc
    %b: threadgroup<4xf32> = if %c {
      yield %a
    } else {
      yield %a
    }
    """
    with pytest.raises(VerifyError, match="if: threadgroup memory is only what"):
        run(function("%c: bool", text), (1, 1, 1), [True])


# Where a thread is.


def test_positions() -> None:
    lines = [
        f"%p{i}: i32 = metal.threadgroup_id {i}\n%n{i}: i32 = metal.num_threadgroups {i}"
        for i in range(3)
    ]
    body = "\n".join([*lines, "return %p0, %p1, %p2, %n0, %n1, %n2, %lane, %sg"])
    found = run(function("", body, 2, ", ".join(["i32"] * 8)), (2, 3, 4), [])
    z, y, x = (np.broadcast_to(a.reshape(24, 1), (24, 64)) for a in np.indices((4, 3, 2)))
    threads = np.broadcast_to(np.arange(64), (24, 64))
    wanted = (x, y, z, *(np.full((24, 64), n) for n in (2, 3, 4)), threads % 32, threads // 32)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(have, want)


def test_no_programs_do_nothing() -> None:
    f = function("%X: ptr<f32>", "%x: f32 = metal.load %X, %t")
    assert run(f, (0, 1, 1), [np.zeros(0, np.float32)]) == []


def test_extent() -> None:
    array = np.zeros((3, 5), np.float32)
    body = "%n: i32 = metal.extent 1 %X\nreturn %n"
    assert (value("%X: ptr<f32>", body, "i32", [array]) == 5).all()
    error = fails("%X: ptr<f32>", '%n: i32 = metal.extent 2 %X at "model.py":3', [array])
    assert error.message.startswith("X has no axis 2: it is an array of 2 dimensions")
    assert error.locations == (("model.py", 3),)


# The shared math runs by `iris.ir.scalar`, which has its own tests: here only its ways with threads.


@every
def test_constants_and_arguments(dtype: DType) -> None:
    number: Any = True if dtype is bool_ else 1
    word = "true" if dtype is bool_ else "1.0" if dtype.is_float else "1"
    found = value("", f"%c: regs<3x{dtype}> = constant {word}\nreturn %c", f"regs<3x{dtype}>", [])
    assert found.shape == (1, 32, 3)
    assert found.dtype == scalar.storage(dtype)
    assert (found == number).all()
    assert (value(f"%x: {dtype}", "return %x", str(dtype), [number]) == number).all()


def test_elementwise_math_on_registers() -> None:
    x = draw(DTYPES["f32"], (2 * 64 * 4,))
    body = """
    %c64: i32 = constant 64
    %a: i32 = mul %p, %c64
    %b: i32 = add %a, %t
    %o: i32 = mul %b, %c4
    %x: regs<4xf32> = metal.load %X, %o
    %y: regs<4xf32> = mul %x, %x
    %z: regs<4xf32> = sub %y, %x
    %less: regs<4xbool> = compare lt %z, %y
    %s: regs<4xf32> = select %less, %z, %y
    %flag: bool = compare eq %sg, %c0
    %r: regs<4xf32> = select %flag, %s, %x
    return %r
    """
    found = value("%X: ptr<f32>", body, "regs<4xf32>", [x], 2, 2)
    rows = x.reshape(2, 64, 4)
    want = np.minimum(rows * rows - rows, rows * rows)
    want[:, 32:] = rows[:, 32:]
    np.testing.assert_array_equal(found, want)


def test_integers_wrap() -> None:
    body = "%big: i32 = constant 2147483647\n%y: i32 = add %t, %big\nreturn %y"
    found = value("", body, "i32", [])
    np.testing.assert_array_equal(found[0], LANES + np.int32(2**31 - 1))


def test_a_scalar_error_counts_only_where_threads_run_it() -> None:
    divide = '%q: i32 = floordiv %c4, %lane at "f.py":7'
    error = fails("", divide, [], 2, 2)
    assert (
        error.message
        == "integer division by zero, in program (0, 0, 0), thread 0 (simdgroup 0, lane 0)"
    )
    assert (error.program, error.thread, error.locations) == ((0, 0, 0), 0, (("f.py", 7),))
    go("", when("ne %lane, %c0", divide), [], 2, 2)
    body = "%five: i32 = constant 5\n%z: i32 = sub %t, %five\n" + when(
        "ge %t, %c2", when("eq %p, %c1", '%q: i32 = mod %c4, %z at "f.py":8')
    )
    error = fails("", body, [], 3, 2)
    assert (error.program, error.thread, error.locations) == ((1, 0, 0), 5, (("f.py", 8),))
    body = "%even: i32 = mod %t, %c2\n" + when("ge %t, %c4", "%q: i32 = mod %t, %even")
    assert fails("", body, [], 3, 2).thread == 4


# Register arrays.


def test_register_arrays_are_taken_apart_and_joined() -> None:
    x = draw(DTYPES["f32"], (128,))
    body = """
    %o: i32 = mul %t, %c4
    %x: regs<4xf32> = metal.load %X, %o
    %a: regs<3xf32> = metal.take [2, 0, 2] %x
    %b: f32 = metal.take [1] %x
    %c: regs<2xf32> = metal.splat %b
    %k: regs<2xf32> = constant 7.0
    %d: regs<9xf32> = metal.join %a, %b, %c, %k, %b
    %l: regs<2xi32> = metal.literal [-3, 9]
    %e: regs<2xf32> = cast %l
    %f: regs<11xf32> = metal.join %d, %e
    return %f
    """
    found = value("%X: ptr<f32>", body, "regs<11xf32>", [x])[0]
    r = x.reshape(32, 4)
    want = np.concatenate(
        [r[:, [2, 0, 2, 1, 1, 1]], np.full((32, 2), 7), r[:, [1]], np.tile([-3, 9], (32, 1))], 1
    )
    np.testing.assert_array_equal(found, want)


def test_taking_from_equal_elements() -> None:
    body = "%k: regs<4xi32> = constant 7\n%a: regs<2xi32> = metal.take [3, 1] %k\n%b: i32 = metal.take [2] %a\nreturn %b"
    assert (value("", body.replace("[2]", "[1]"), "i32", []) == 7).all()


@pytest.mark.parametrize("images", [(), (1, 2, 128), (5, 3), (0, 2**30)])
def test_patterns(images: tuple[int, ...]) -> None:
    type_ = f"regs<{1 << len(images)}xi64>"
    found = value("", f"%x: {type_} = metal.pattern {list(images)}\nreturn %x", type_, [])
    for number, x in enumerate(found[0, 0].tolist()):
        want = 0
        for bit, image in enumerate(images):
            want ^= image * (number >> bit & 1)
        assert x == want


@pytest.mark.parametrize("index", ["%c1", "%odd"])
def test_slices_by_number(index: str) -> None:
    x = draw(DTYPES["i32"], (256,))
    body = f"""
    %c8: i32 = constant 8
    %o: i32 = mul %t, %c8
    %x: regs<8xi32> = metal.foreach 2 (%half: i32) {{
      %s: i32 = mul %half, %c4
      %q: i32 = add %o, %s
      %f: regs<4xi32> = metal.load %X, %q
      yield %f
    }}
    %odd: i32 = mod %t, %c4
    %y: regs<2xi32> = metal.slice %x, {index}
    %z: i32 = metal.slice %x, {index}
    %w: regs<2xi32> = metal.splat %z
    %k: regs<4xi32> = constant 5
    %five: i32 = metal.slice %k, {index}
    %v: regs<2xi32> = metal.splat %five
    %a: regs<2xi32> = sub %y, %w
    %b: regs<2xi32> = add %a, %v
    return %b
    """
    found = value("%X: ptr<i32>", body, "regs<2xi32>", [x])[0]
    r, at = x.reshape(32, 8), LANES % 4 if index == "%odd" else np.ones(32, int)
    parts = np.take_along_axis(r.reshape(32, 4, 2), at[:, None, None], 1)[:, 0]
    np.testing.assert_array_equal(found, parts - r[LANES, at][:, None] + 5)


def test_a_part_that_is_not_there() -> None:
    body = '%k: regs<4xi32> = constant 5\n%y: regs<2xi32> = metal.slice %k, %lane at "f.py":3'
    error = fails("", body, [])
    assert error.message.startswith(
        "regs<4xi32> has no part of that number, in program (0, 0, 0), thread 2 ("
    )
    assert (error.thread, error.locations) == (2, (("f.py", 3),))
    go("", when("lt %lane, %c2", body), [])


def test_an_element_is_put_in_its_place() -> None:
    body = """
    %k: regs<4xi32> = constant 5
    %odd: i32 = mod %lane, %c4
    %x: regs<4xi32> = metal.insert %k, %odd, %t
    return %x
    """
    found = value("%X: ptr<i32>", body, "regs<4xi32>", [np.zeros(1, np.int32)])[0]
    expected = np.full((32, 4), 5)
    expected[LANES, LANES % 4] = LANES
    np.testing.assert_array_equal(found[:32], expected)


def test_no_element_is_put_beyond_an_array() -> None:
    body = (
        '%k: regs<4xi32> = constant 5\n%y: regs<4xi32> = metal.insert %k, %lane, %lane at "f.py":3'
    )
    error = fails("", body, [])
    assert error.message.startswith("regs<4xi32> has no element of that number, in program (0, 0")
    assert (error.thread, error.locations) == (4, (("f.py", 3),))


# The loop over registers.


FOREACH = """
%c8: i32 = constant 8
%first: i32 = mul %t, %c8
%x: regs<8xi32> = metal.foreach 4 (%i: i32) {
  %two: i32 = mul %i, %c2
  %o: i32 = add %first, %two
  %v: regs<2xi32> = metal.load %X, %o
  yield %v
}
%y: regs<8xi32>, %n: regs<4xi32>, %k: regs<4xi32> = metal.foreach 4 (%j: i32) {
  %part: regs<2xi32> = metal.slice %x, %j
  %jj: regs<2xi32> = metal.splat %j
  %s: regs<2xi32> = add %part, %jj
  BARRIER
  yield %s, %j, %c4
}
metal.foreach 8 (%e: i32) {
  %one: i32 = metal.slice %y, %e
  %to: i32 = add %first, %e
  metal.store %Y, %to, %one
  yield
}
metal.foreach 4 (%f: i32) {
  %a: i32 = metal.slice %n, %f
  %b: i32 = metal.slice %k, %f
  %c: i32 = mul %a, %b
  %g: i32 = mul %t, %c4
  %h: i32 = add %g, %f
  metal.store %Z, %h, %c
  yield
}
"""


@pytest.mark.parametrize("barrier", ["", "metal.barrier simdgroup"])
def test_rounds_at_once_and_one_by_one(barrier: str) -> None:
    """With a barrier the rounds cannot run at once."""
    x = draw(DTYPES["i32"], (256,))
    y, z = np.zeros(256, np.int32), np.zeros(128, np.int32)
    go("%X: ptr<i32>, %Y: ptr<i32>, %Z: ptr<i32>", FOREACH.replace("BARRIER", barrier), [x, y, z])
    np.testing.assert_array_equal(y, x + np.tile(np.repeat(np.arange(4), 2), 32))
    np.testing.assert_array_equal(z, np.tile(4 * np.arange(4), 32))


@pytest.mark.parametrize("barrier", ["", "metal.barrier simdgroup"])
def test_loops_over_registers_within_each_other(barrier: str) -> None:
    x = draw(DTYPES["i32"], (32 * 12,))
    body = f"""
    %c12: i32 = constant 12
    %first: i32 = mul %t, %c12
    %sum: regs<12xi32> = metal.foreach 3 (%i: i32) {{
      %c4i: i32 = mul %i, %c4
      %o: i32 = add %first, %c4i
      %x: regs<4xi32> = metal.load %X, %o
      %y: regs<4xi32> = metal.foreach 2 (%j: i32) {{
        %part: regs<2xi32> = metal.slice %x, %j
        %ij: i32 = mul %c4i, %j
        %lanes: i32 = add %ij, %lane
        %w: regs<2xi32> = metal.splat %lanes
        %z: regs<2xi32> = add %part, %w
        %m: regs<2xi32> = metal.shuffle_xor 3 %z
        {barrier}
        yield %m
      }}
      yield %y
    }}
    return %sum
    """
    found = value("%X: ptr<i32>", body, "regs<12xi32>", [x])[0]
    i, j, _ = np.indices((3, 2, 2))
    want = x.reshape(32, 3, 2, 2) + 4 * i * j + LANES.reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(found, want.reshape(32, 12)[LANES ^ 3])


def test_masks_that_differ_by_round() -> None:
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    body = """
    %low: regs<4xi32> = metal.foreach 4 (%i: i32) {
      %a: i32 = mul %i, %c32
      %o: i32 = add %a, %lane
      %is: bool = compare lt %lane, %i
      %five: i32 = constant 5
      %v: i32 = metal.load %X, %o, mask=%is, other=%five
      yield %v
    }
    metal.foreach 4 (%j: i32) {
      %b: i32 = mul %j, %c32
      %to: i32 = add %b, %lane
      %not: bool = compare gt %lane, %j
      %w: i32 = metal.slice %low, %j
      metal.store %Y, %to, %w, mask=%not
      yield
    }
    """
    go("%X: ptr<i32>, %Y: ptr<i32>", when("ne %lane, %c4", body), [x, y])
    rounds, lanes = np.indices((4, 32))
    want = np.where(lanes < rounds, x.reshape(4, 32), 5)
    want[(lanes <= rounds) | (lanes == 4)] = 0
    np.testing.assert_array_equal(y.reshape(4, 32), want)


def test_rounds_that_meet_in_memory_run_in_order() -> None:
    body = """
    %shared: threadgroup<33xi32> = metal.alloc
    metal.store %shared, %lane, %lane
    metal.foreach 4 (%i: i32) {
      %x: i32 = metal.load %shared, %lane
      %y: i32 = add %x, %c1
      metal.store %shared, %lane, %y
      yield
    }
    %z: i32 = metal.load %shared, %lane
    return %z
    """
    np.testing.assert_array_equal(value("", body, "i32", [])[0], LANES + 4)


def test_one_round_may_give_a_scalar() -> None:
    for barrier in ("", "metal.barrier simdgroup"):
        body = f"%y: i32 = metal.foreach 1 (%i: i32) {{\n%z: i32 = add %i, %lane\n{barrier}\nyield %z\n}}\nreturn %y"
        np.testing.assert_array_equal(value("", body, "i32", [])[0], LANES)


# Loads and stores.


@every
@pytest.mark.parametrize("size", [1, 8, 16])
def test_copies(dtype: DType, size: int) -> None:
    count = max(1, 8 * size // max(8, dtype.bits))
    kept = in_memory(dtype, draw(dtype, (2 * 64 * count,)))
    out = np.zeros_like(kept)
    type_ = f"regs<{count}x{dtype}>" if count > 1 else str(dtype)
    body = f"""
    %n: i32 = constant {count}
    %c64: i32 = constant 64
    %a: i32 = mul %p, %c64
    %b: i32 = add %a, %t
    %wide: i64 = cast %b
    %o: i32 = mul %b, %n
    %so: i32 = mul %t, %n
    %shared: threadgroup<{64 * count}x{dtype}> = metal.alloc
    %x: {type_} = metal.load %X, %o
    metal.store %shared, %so, %x
    %y: {type_} = metal.load %shared, %so
    metal.store %Y, %o, %y
    """
    go(f"%X: ptr<{dtype}>, %Y: ptr<{dtype}>", body, [kept, out], 2, 2)
    np.testing.assert_array_equal(out, kept)


@pytest.mark.parametrize("count", [1, 4])
def test_masked_accesses_touch_nothing(count: int) -> None:
    """Out of bounds, misaligned, in another's way: all the same where the mask is false."""
    x = draw(DTYPES["i32"], (16 * count,)) + np.int32(10)
    y = np.zeros_like(x)
    type_ = f"regs<{count}xi32>" if count > 1 else "i32"
    body = f"""
    %n: i32 = constant {count}
    %c16: i32 = constant 16
    %inside: bool = compare lt %t, %c16
    %o: i32 = mul %t, %n
    %odd: i32 = sub %c1, %t
    %at: i32 = select %inside, %o, %odd
    %other: {type_} = constant -1
    %x: {type_} = metal.load %X, %at, mask=%inside, other=%other
    metal.store %Y, %at, %x, mask=%inside
    return %x
    """
    found = value("%X: ptr<i32>, %Y: ptr<i32>", body, type_, [x, y])[0]
    want = np.full((32, count), -1)
    want[:16] = x.reshape(16, count)
    np.testing.assert_array_equal(found.reshape(32, count), want)
    np.testing.assert_array_equal(y, x)
    empty = np.zeros(0, np.int32)
    body = f"""
    %no: bool = constant false
    %other: {type_} = constant -1
    %x: {type_} = metal.load %X, %lane, mask=%no, other=%other
    metal.store %X, %lane, %x, mask=%no
    """
    go("%X: ptr<i32>", body, [empty])


@pytest.mark.parametrize(
    "make", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[1:, 1::3], lambda x: x[::2, 1::3].T]
)
def test_arrays_are_the_memory_from_their_first_element_on(make: Any) -> None:
    x, y = np.arange(64, dtype=np.int32).reshape(8, 8), np.zeros(64, np.int32)
    array = make(x)
    body = "%x: i32 = metal.load %X, %i\nmetal.store %Y, %t, %x"
    f = function("%X: ptr<i32>, %Y: ptr<i32>, %i: i32", body)
    first, own = int(array[(0,) * array.ndim]), array.reshape(-1).tolist()
    for index in range(-1, 65 - first):
        if first + index in own:
            run(f, (1, 1, 1), [array, y, index])
            assert y[0] == first + index
        else:
            with pytest.raises(ProgramError, match=f"index {index} is outside X"):
                run(f, (1, 1, 1), [array, y, index])
    pairs = function("%X: ptr<i32>", "%x: regs<2xi32> = metal.load %X, %c0")
    with pytest.raises(ProgramError, match="and the 1 after it are not all in X"):
        run(pairs, (1, 1, 1), [x[:, ::2]])
    with pytest.raises(ArgumentError, match="X has a stride that is negative"):
        run(pairs, (1, 1, 1), [x[::-1]])


@pytest.mark.parametrize(("start", "dtype"), [(0, "u8"), (16, "u8"), (128, "u16"), (4, "f32")])
def test_views_are_the_same_bytes(start: int, dtype: str) -> None:
    numbers = draw(DTYPES["i32"], (128,)) * np.int32(0x01010203)
    type_ = DTYPES[dtype]
    count = (512 - start) // type_.bytes
    body = f"""
    %shared: threadgroup<128xi32> = metal.alloc
    %o: i32 = mul %t, %c2
    %x: regs<2xi32> = metal.load %X, %o
    metal.store %shared, %o, %x
    metal.barrier threadgroup
    %view: threadgroup<{count}x{dtype}> = metal.view {start} %shared
    %y: {dtype} = metal.load %view, %t
    return %y
    """
    found = value("%X: ptr<i32>", body, dtype, [numbers], 2, 2)
    want = numbers.view(np.uint8)[start:].view(scalar.storage(type_))[:64]
    np.testing.assert_array_equal(found, np.tile(want, (2, 1)))


def test_each_program_has_its_own_threadgroup_memory() -> None:
    body = f"%x: i32 = add %p, %t\n{total(2)}\nreturn %sum"
    found = value("", body, "i32", [], 5, 2)
    np.testing.assert_array_equal(found, np.repeat(64 * np.arange(5) + 2016, 64).reshape(5, 64))


# What lanes give each other.


def test_shuffles() -> None:
    x = draw(DTYPES["i32"], (128,))
    body = """
    %o: i32 = mul %t, %c2
    %x: regs<2xi32> = metal.load %X, %o
    %a: regs<2xi32> = metal.shuffle_xor 5 %x
    %b: regs<2xi32> = metal.broadcast 7 %x
    %three: i32 = constant 3
    %k: i32 = mul %lane, %three
    %m: i32 = mod %k, %c32
    %c: regs<2xi32> = metal.shuffle %x, %m
    %d: regs<2xi32> = metal.shuffle %x, %c2
    %e: i32 = metal.broadcast 3 %p
    %ee: regs<2xi32> = metal.splat %e
    %r: regs<10xi32> = metal.join %a, %b, %c, %d, %ee
    return %r
    """
    found = value("%X: ptr<i32>", body, "regs<10xi32>", [x], 2, 2)
    r = x.reshape(2, 32, 2)
    parts = [r[:, LANES ^ 5], r[:, [7] * 32], r[:, 3 * LANES % 32], r[:, [2] * 32]]
    for program in range(2):
        want = np.concatenate([*parts, np.full((2, 32, 2), program)], axis=2)
        np.testing.assert_array_equal(found[program], want.reshape(64, 10))


@pytest.mark.parametrize("simdgroups", [1, 2, 4, 8])
def test_reductions_of_a_threadgroup(simdgroups: int) -> None:
    count = 32 * simdgroups
    x = draw(DTYPES["i32"], (3 * count,))
    out = np.zeros(3, np.int32)
    body = f"""
    %n: i32 = constant {count}
    %a: i32 = mul %p, %n
    %o: i32 = add %a, %t
    %x: i32 = metal.load %X, %o
    {total(simdgroups)}
    """ + when("eq %t, %c0", "metal.store %Y, %p, %sum")
    go("%X: ptr<i32>, %Y: ptr<i32>", body, [x, out], 3, simdgroups, interleavings=20)
    np.testing.assert_array_equal(out, x.reshape(3, -1).sum(1))


# Threads and programs that part ways.


@pytest.mark.parametrize(
    "condition", ["lt %lane, %c4", "eq %p, %c1", "lt %s, %c4", "eq %p, %p", "ne %p, %p"]
)
def test_branches(condition: str) -> None:
    body = f"""
    %s: i32 = add %p, %lane
    %is: bool = compare {condition}
    %y: i32, %z: regs<2xi32> = if %is {{
      %a: i32 = mul %t, %c2
      %k: regs<2xi32> = constant 3
      yield %a, %k
    }} else {{
      %even: i32 = mod %t, %c2
      %iseven: bool = compare eq %even, %c0
      %b: i32 = if %iseven {{
        yield %p
      }} else {{
        %c: i32 = neg %t
        yield %c
      }}
      %r: regs<2xi32> = metal.splat %b
      yield %b, %r
    }}
    %yy: regs<1xi32> = metal.splat %y
    %all: regs<3xi32> = metal.join %yy, %z
    return %all
    """
    found = value("", body, "regs<3xi32>", [], 3, 2)
    p, t = np.indices((3, 64))
    lane = t % 32
    taken = {
        "lt %lane, %c4": lane < 4,
        "eq %p, %c1": p == 1,
        "lt %s, %c4": p + lane < 4,
        "eq %p, %p": p == p,
        "ne %p, %p": p != p,
    }[condition]
    other = np.where(t % 2 == 0, p, -t)
    np.testing.assert_array_equal(found[..., 0], np.where(taken, 2 * t, other))
    np.testing.assert_array_equal(found[..., 1], np.where(taken, 3, other))


@pytest.mark.parametrize("bound", ["%lane", "%p", "%both", "%c4", "%c0"])
@pytest.mark.parametrize("loop", ["for", "while"])
def test_loops(loop: str, bound: str) -> None:
    """Sums of the numbers below a bound, some of which some threads leave out."""
    step = """
    %skip: bool = compare eq %i, %lane
    %next: i32 = if %skip {
      yield %s
    } else {
      %n: i32 = add %s, %i
      yield %n
    }
    """
    body = {
        "for": f"""
        %both: i32 = mul %p, %lane
        %sum: i32 = for %c0, {bound}, %c1 (%i: i32, %s: i32 = %c0) {{
          {step}
          yield %next
        }}
        return %sum
        """,
        "while": f"""
        %both: i32 = mul %p, %lane
        %last: i32, %sum: i32 = while (%k: i32 = %c0, %u: i32 = %c0) {{
          %more: bool = compare lt %k, {bound}
          yield %more
        }} do (%i: i32, %s: i32) {{
          {step}
          %ii: i32 = add %i, %c1
          yield %ii, %next
        }}
        return %sum
        """,
    }[loop]
    p, t = np.indices((3, 64))
    lane = t % 32
    n = {"%lane": lane, "%p": p, "%both": p * lane, "%c4": 4 + 0 * t, "%c0": 0 * t}[bound]
    want = n * (n - 1) // 2 - np.where(lane < n, lane, 0)
    np.testing.assert_array_equal(value("", body, "i32", [], 3, 2), want)
    masked = body.replace("%c0 (", "%c0 (").rsplit("return", 1)[0]
    go("", when("lt %lane, %c4", masked), [], 3, 2)


def test_loops_in_divergent_branches_stop_for_those_outside() -> None:
    body = """
    %is: bool = compare lt %lane, %c4
    %y: i32 = if %is {
      %s: i32 = for %c0, %lane, %c1 (%i: i32, %u: i32 = %c0) {
        %v: i32 = add %u, %c1
        yield %v
      }
      yield %s
    } else {
      yield %c32
    }
    return %y
    """
    found = value("", body, "i32", [], 2)
    np.testing.assert_array_equal(found, np.tile(np.where(LANES < 4, LANES, 32), (2, 1)))


def test_backward_and_unsigned_loops() -> None:
    body = """
    %last: u64 = constant 18446744073709551615
    %from: u64 = constant 18446744073709551610
    %two: u64 = constant 2
    %sum: u64 = for %from, %last, %two (%i: u64, %s: u64 = %two) {
      %n: u64 = add %s, %i
      yield %n
    }
    %m: i32 = neg %c1
    %down: i32 = for %c4, %m, %m (%j: i32, %d: i32 = %c0) {
      %ten: i32 = constant 10
      %x: i32 = mul %d, %ten
      %y: i32 = add %x, %j
      yield %y
    }
    %r: u64 = cast %down
    %all: regs<2xu64> = metal.join %sum, %r
    return %all
    """
    found = value("", body, "regs<2xu64>", [])
    assert set(map(tuple, found[0].tolist())) == {((2 - 6 - 4 - 2) % 2**64, 43210)}


@pytest.mark.parametrize(
    ("lower", "upper", "step", "wraps"),
    [
        (0, 120, 7, False),
        (100, 120, 14, True),
        (100, 120, 13, False),
        (120, 100, 14, False),
        (0, -120, -8, False),
        (-100, -128, -15, True),
        (-100, -128, -14, False),
    ],
)
def test_a_last_step_that_wraps(lower: int, upper: int, step: int, wraps: bool) -> None:
    constants = "".join(
        f"%{name}: i8 = constant {number}\n"
        for name, number in (("from", lower), ("to", upper), ("by", step))
    )
    loop = "for %from, %to, %by{} (%i: i8) {{\nyield\n}}"
    go("", constants + loop.format(""), [])
    marked = constants + loop.format(", nowrap=true")
    if not wraps:
        go("", marked, [])
        return
    error = fails("", marked, [])
    assert error.message.startswith("a for loop with nowrap=true whose last step wraps")


def test_marks_of_threads_that_are_elsewhere_do_not_matter() -> None:
    body = """
    %high: i32 = constant 2147483647
    %sum: i32 = add %lane, %high, nowrap=fits
    """
    error = fails("", body, [])
    assert error.thread == 1
    assert error.message.startswith("add with nowrap=fits, of a result that does not fit i32")
    go("", when("eq %lane, %c0", body), [])


def test_a_step_of_zero() -> None:
    body = 'for %c0, %c4, %lane (%i: i32) {\nyield\n} at "f.py":4'
    error = fails("", body, [])
    assert (error.thread, error.locations) == (0, (("f.py", 4),))
    assert error.message.startswith("a for loop with a step of zero")
    go("", when("ne %lane, %c0", body), [])
