# ruff: noqa: E501  (IR text)
"""The tile interpreter: each op against NumPy, programs that part ways, and every report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError, ParseError, ProgramError, RaceError, VerifyError
from iris.interp.frame import interpretation
from iris.interp.tile import run
from iris.ir import parse, scalar
from iris.ir.control import Func
from iris.ir.core import OPS
from iris.ir.literal import encode
from iris.ir.types import DTYPES, DType, bf16, bool_, f16, f32, i32

Array = np.ndarray[Any, Any]
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
FLOATS = [f16, bf16, f32]
NUMBERS = INTEGERS + FLOATS
numbers = pytest.mark.parametrize("dtype", NUMBERS, ids=str)
every = pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)


def function(arguments: str, body: str, returns: str = "") -> Func:
    returning = f" returns=[{returns}]" if returns else ""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    last = "" if lines.split("\n")[-1].strip().startswith("return") else "\n  return"
    module = parse(f"func tile @f{returning}({arguments}) {{\n{lines}{last}\n}}\n")
    (only,) = module
    assert isinstance(only, Func)
    return only


def go(arguments: str, body: str, values: list[Any], grid: Any = (1, 1, 1), **options: Any) -> None:
    """Runs the text whole, and again in chunks of one program and of three: all must agree."""
    f = function(arguments, body)
    copies = [[x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2)]
    run(f, grid, values, **options)
    largest = 4 * 64 * 64
    for copy, chunk in zip(copies, (1, 3 * largest), strict=True):
        run(f, grid, copy, chunk_bytes=chunk, output=lambda line: None)
        for one, other in zip(values, copy, strict=True):
            np.testing.assert_array_equal(one, other)


def value(arguments: str, body: str, type_: str, values: list[Any], grid: Any = (1, 1, 1)) -> Array:
    """What the text returns, a row per program."""
    (found,) = run(function(arguments, body, type_), grid, values)
    for chunk in (1, 40):
        (again,) = run(function(arguments, body, type_), grid, values, chunk_bytes=chunk)
        np.testing.assert_array_equal(again, found)
    return found


def fails(arguments: str, body: str, values: list[Any], grid: Any = (1, 1, 1)) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        run(function(arguments, body), grid, values)
    return caught.value


def draw(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small numbers in storage, integer-valued, of both signs where there are two."""
    rng = np.random.default_rng(seed)
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if dtype.low == 0 and not dtype.is_float else -4
    return rng.integers(low, 5, shape).astype(scalar.storage(dtype))


def in_memory(dtype: DType, values: Array) -> Array:
    return scalar.to_bits(dtype, values) if dtype is bf16 else values


def test_every_op_of_the_level_has_an_interpretation() -> None:
    missing = [
        name
        for name, cls in OPS.items()
        if cls.level is not None and cls.level.value == "tile" and interpretation.get(cls) is None
    ]
    assert missing == []


# Where a program is.


def test_programs_are_numbered_with_the_first_axis_fastest() -> None:
    body = "\n".join(
        f"%p{i}: i32 = tile.program_id {i}\n%n{i}: i32 = tile.num_programs {i}" for i in range(3)
    )
    found = run(
        function("", body + "\nreturn %p0, %p1, %p2, %n0, %n1, %n2", ", ".join(["i32"] * 6)),
        (2, 3, 4),
        [],
    )
    z, y, x = np.indices((4, 3, 2)).reshape(3, -1)
    for have, want in zip(found, (x, y, z, *(np.full(24, n) for n in (2, 3, 4))), strict=True):
        np.testing.assert_array_equal(have, want)


def test_no_programs_do_nothing() -> None:
    assert (
        run(
            function("%X: ptr<f32>, %i: i32", "%x: f32 = tile.load %X, %i"),
            (0, 1, 1),
            [np.zeros(0, np.float32), 9],
        )
        == []
    )


def test_extent_reads_the_shape_of_an_array() -> None:
    array = np.zeros((3, 5), np.float32)
    text = "%n: i32 = tile.extent 1 %X\nreturn %n"
    assert value("%X: ptr<f32>", text, "i32", [array]).tolist() == [5]
    error = fails("%X: ptr<f32>", '%n: i32 = tile.extent 2 %X at "model.py":3', [array])
    assert error.message.startswith("X has no axis 2: it is an array of 2 dimensions")
    assert error.locations == (("model.py", 3),)


# Arguments.


def test_an_array_is_reached_only_by_its_argument() -> None:
    text = """
    %P: ptr<f32> = if %c {
      yield %X
    } else {
      yield %Y
    }
    """
    with pytest.raises(VerifyError, match="if: a pointer can only be an argument"):
        run(function("%X: ptr<f32>, %Y: ptr<f32>, %c: bool", text), (1, 1, 1), [None, None, True])


@every
def test_a_scalar_argument_is_rounded_to_its_dtype(dtype: DType) -> None:
    number = True if dtype is bool_ else (1 / 3 if dtype.is_float else 7)
    (found,) = value("%x: " + dtype.name, "return %x", dtype.name, [number])
    bits = encode(number, dtype)
    assert int(scalar.to_bits(dtype, np.asarray([found]))[0]) == bits


@pytest.mark.parametrize(
    ("arguments", "values", "message"),
    [
        ("%x: i32", [], "f takes 1 arguments, not 0"),
        ("%x: i32", [2**31], "x: 2147483648 does not fit i32"),
        ("%X: ptr<f32>", [np.zeros(3)], "X must be an array of float32, not float64"),
        ("%X: ptr<bf16>", [np.zeros(3, np.float32)], "X must be an array of uint16, not float32"),
        ("%X: ptr<f32>", [3], "X must be an array of float32, not int"),
    ],
)
def test_wrong_arguments_are_told(arguments: str, values: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(function(arguments, ""), (1, 1, 1), values)


STORE = """
%p: i32 = tile.program_id 0
%x: f32 = constant 5.0
tile.store %X, %p, %x
"""


def test_a_read_only_array_cannot_be_written() -> None:
    array = np.zeros(1, np.float32)
    array.flags.writeable = False
    with pytest.raises(ArgumentError, match="X is written, but its array is read-only"):
        run(function("%X: ptr<f32>", STORE), (1, 1, 1), [array])


def test_noalias_must_be_true() -> None:
    array = np.zeros(8, np.float32)
    f = function("%X: ptr<f32, noalias>, %Y: ptr<f32>", STORE)
    with pytest.raises(ArgumentError, match="Y and X share memory, but X is declared noalias"):
        run(f, (1, 1, 1), [array[2:], array[:4]])
    run(f, (1, 1, 1), [array[:4], array[4:]])


# The shared math runs by `iris.ir.scalar`, which has its own tests: here only its ways with tiles.


@every
def test_constants(dtype: DType) -> None:
    number = 1.5 if dtype.is_float else 1
    word = "true" if dtype is bool_ else str(number)
    type_ = f"tile<4x2x{dtype}>"
    found = value("", f"%c: {type_} = constant {word}\nreturn %c", type_, [])
    assert found.shape == (1, 4, 2)
    assert found.dtype == scalar.storage(dtype)
    assert (found == number).all()


def test_a_scalar_condition_chooses_for_a_whole_tile() -> None:
    text = """
    %p: i32 = tile.program_id 0
    %c1: i32 = constant 1
    %odd: bool = compare eq %p, %c1
    %z: tile<2x2xi32> = select %odd, %x, %y
    return %z
    """
    x, y = np.ones((2, 2), np.int32), np.zeros((2, 2), np.int32)
    found = value("%x: tile<2x2xi32>, %y: tile<2x2xi32>", text, "tile<2x2xi32>", [x, y], (3, 1, 1))
    np.testing.assert_array_equal(found, np.stack([y, x, y]))


def test_broadcast_expand_transpose_reshape() -> None:
    x = draw(f32, (4, 8))
    v = draw(f32, (4,))
    text = """
    %c: tile<4x1xf32> = tile.expand_dims 1 %v
    %b: tile<4x8xf32> = tile.broadcast %c
    %s: tile<4x8xf32> = tile.broadcast %k
    %y: tile<4x8xf32> = add %x, %b
    %z: tile<4x8xf32> = mul %y, %s
    %t: tile<8x4xf32> = tile.transpose [1, 0] %z
    %r: tile<2x4x4xf32> = tile.reshape %t
    %u: tile<4x2x4xf32> = tile.transpose [2, 0, 1] %r
    return %u
    """
    found = value(
        "%x: tile<4x8xf32>, %v: tile<4xf32>, %k: f32", text, "tile<4x2x4xf32>", [x, v, 3.0]
    )
    want = ((x + v[:, None]) * 3).T.reshape(2, 4, 4).transpose(2, 0, 1)
    np.testing.assert_array_equal(found[0], want)


def test_reshape_and_reduce_of_what_is_the_same_everywhere() -> None:
    text = """
    %b: tile<4x8xf32> = tile.broadcast %k
    %r: tile<2x16xf32> = tile.reshape %b
    %s: tile<2xf32> = tile.reduce sum 1 %r
    %t: f32 = tile.reduce sum 0 %s
    return %t
    """
    assert value("%k: f32", text, "f32", [3.0]).tolist() == [96.0]


def test_layouts_and_staging_change_no_value() -> None:
    text = """
    %a: tile<128xf32, linear<128, register=[32, 64], lane=[1, 2, 4, 8, 16]>> = tile.convert_layout %x
    %b: tile<128xf32> = tile.convert_layout %a
    %s: staged<128xf32, 128:1> = tile.stage %b
    %c: tile<128xf32> = tile.unstage %s
    return %c
    """
    x = draw(f32, (128,))
    np.testing.assert_array_equal(value("%x: tile<128xf32>", text, "tile<128xf32>", [x])[0], x)


# Memory.


@every
def test_load_and_store(dtype: DType) -> None:
    text = f"""
    %p: i32 = tile.program_id 0
    %c16: i32 = constant 16
    %start: i32 = mul %p, %c16
    %cols: tile<16xi32> = tile.arange 0
    %s: tile<16xi32> = tile.broadcast %start
    %o: tile<16xi32> = add %s, %cols
    %nb: tile<16xi32> = tile.broadcast %n
    %in: tile<16xbool> = compare lt %o, %nb
    %other: tile<16x{dtype}> = tile.broadcast %fill
    %x: tile<16x{dtype}> = tile.load %X, %o, mask=%in, other=%other
    tile.store %Y, %o, %x
    tile.store %Z, %o, %x, mask=%in
    """
    x, fill = draw(dtype, (40,)), draw(dtype, (1,), seed=3)[0]
    y, z = in_memory(dtype, draw(dtype, (48,))), in_memory(dtype, draw(dtype, (40,), 1))
    pointer = f"ptr<{dtype}>"
    go(
        f"%X: {pointer}, %Y: {pointer}, %Z: {pointer}, %n: i32, %fill: {dtype}",
        text,
        [in_memory(dtype, x), y, z, 40, fill],
        (3, 1, 1),
    )
    np.testing.assert_array_equal(y, in_memory(dtype, np.append(x, np.full(8, fill))))
    np.testing.assert_array_equal(z, in_memory(dtype, x))


def test_offsets_may_be_i64_and_scalars() -> None:
    text = """
    %p: i32 = tile.program_id 0
    %w: i64 = cast %p
    %x: f32 = tile.load %X, %w
    %y: f32 = add %x, %x
    tile.store %X, %w, %y
    """
    x = draw(f32, (5,))
    want = 2 * x
    go("%X: ptr<f32>", text, [x], (5, 1, 1))
    np.testing.assert_array_equal(x, want)


def test_a_masked_lane_touches_no_memory() -> None:
    text = """
    %o: tile<4xi32> = tile.arange -2
    %zero: tile<4xi32> = constant 0
    %in: tile<4xbool> = compare ge %o, %zero
    %x: tile<4xi32> = tile.load %X, %o, mask=%in, other=%zero
    tile.store %X, %o, %x, mask=%in
    %old: tile<4xi32> = tile.atomic add %X, %o, %x, mask=%in
    %two: tile<4xi32> = tile.atomic_cas %X, %o, %x, %x, mask=%in
    """
    x = np.array([5, 6], np.int32)
    go("%X: ptr<i32>", text, [x])
    np.testing.assert_array_equal(x, [10, 12])
    none = text.replace("compare ge", "compare ne").replace("%o, %zero", "%zero, %zero")
    go("%X: ptr<i32>", none, [np.zeros(0, np.int32)])


STRIDED = [
    lambda a: a.T,
    lambda a: a[:, ::2],
    lambda a: a[1:, 1::3],
    lambda a: a[::2, 1::3].T,
    lambda a: np.lib.stride_tricks.as_strided(a[2, 3:], (3, 2), (0, 0)),
    lambda a: a[::3, 4:5],
]
ADD_ONE = """
%one: f32 = constant 1.0
%x: f32 = tile.load %X, %i
%y: f32 = add %x, %one
tile.store %X, %i, %y
"""


@pytest.mark.parametrize("make", STRIDED)
def test_arrays_are_the_memory_from_their_first_element_on(make: Any) -> None:
    whole = np.arange(56, dtype=np.float32).reshape(7, 8)
    expected = whole.copy()
    f = function("%X: ptr<f32>, %i: i32", ADD_ONE)
    array = make(whole)
    start = (array.ctypes.data - whole.ctypes.data) // 4
    own = {(make(expected).ctypes.data - expected.ctypes.data) // 4}
    for stride, n in zip(array.strides, array.shape, strict=True):
        own = {place + k * (stride // 4) for place in own for k in range(n)}
    for index in range(-1, 57 - start):
        if start + index in own:
            run(f, (1, 1, 1), [array, index])
        else:
            with pytest.raises(ProgramError, match=f"index {index} is outside X"):
                run(f, (1, 1, 1), [array, index])
    expected.reshape(-1)[sorted(own)] += 1
    np.testing.assert_array_equal(whole, expected)


def test_strides_are_whole_elements_and_not_negative() -> None:
    record, x = np.zeros(3, np.dtype([("a", "f4"), ("b", "u1")])), np.zeros((3, 4), np.float32)
    for array in (record["a"], x[::-1], x[:, ::-1]):
        with pytest.raises(ArgumentError, match=r"the strides of X, in bytes.* and none negative"):
            run(function("%X: ptr<f32>", ""), (1, 1, 1), [array])


BLOCKS = """
%p: i32 = tile.program_id 0
%q: i32 = tile.program_id 1
%c4: i32 = constant 4
%c8: i32 = constant 8
%c1: i32 = constant 1
%cm1: i32 = constant -1
%i0: i32 = mul %p, %c4
%i: i32 = add %i0, %cm1
%j: i32 = mul %q, %c8
"""


@pytest.mark.parametrize("limit", [None, 31])
@numbers
def test_blocks(dtype: DType, limit: int | None) -> None:
    """Tiles from row -1 on, over the edges of a matrix of 7 rows and 11 columns."""
    given = "limit=%limit, " if limit else ""
    block = f"{given}offsets=[%i, %j], strides=[%s, %c1], bounds=[%m, %n]"
    text = f"""{BLOCKS}
    %x: tile<4x8x{dtype}> = tile.load_tile %X, {block}
    %y: tile<4x8x{dtype}> = add %x, %x
    tile.store_tile %Y, %y, {block}
    """
    x = draw(dtype, (7, 11))
    y = in_memory(dtype, draw(dtype, (7, 11), seed=1))
    want = in_memory(dtype, x + x).reshape(-1).copy()
    if limit:
        want[limit:] = y.reshape(-1)[limit:]
    go(
        f"%X: ptr<{dtype}>, %Y: ptr<{dtype}>, %m: i32, %n: i32, %s: i32, %limit: i32",
        text,
        [in_memory(dtype, x), y, 7, 11, 11, limit or 0],
        (2, 2, 1),
    )
    np.testing.assert_array_equal(y.reshape(-1), want)


def test_what_a_block_does_not_reach_reads_zero() -> None:
    text = f"""{BLOCKS}
    %x: tile<4x8xf32> = tile.load_tile %X, offsets=[%i, %j], strides=[%c8, %c1], bounds=[%c4, %c4]
    return %x
    """
    x = draw(f32, (4, 8)) + 10
    (found,) = value("%X: ptr<f32>", text, "tile<4x8xf32>", [x])
    want = np.zeros((4, 8), np.float32)
    want[1:, :4] = x[:3, :4]
    np.testing.assert_array_equal(found, want)


# Dot.


@numbers
@pytest.mark.parametrize("acc", [False, True])
def test_dot(dtype: DType, acc: bool) -> None:
    a, b, c = draw(dtype, (8, 16)), draw(dtype, (16, 4), 1), draw(dtype, (8, 4), 2)
    result = dtype if acc else (f32 if dtype.is_float else i32)
    given = ", acc=%c" if acc else ""
    (found,) = value(
        f"%a: tile<8x16x{dtype}>, %b: tile<16x4x{dtype}>, %c: tile<8x4x{dtype}>",
        f"%d: tile<8x4x{result}> = tile.dot %a, %b{given}\nreturn %d",
        f"tile<8x4x{result}>",
        [a, b, c],
    )
    exact = a.astype(np.int64) @ b.astype(np.int64) + (c.astype(np.int64) if acc else 0)
    np.testing.assert_array_equal(found, exact.astype(scalar.storage(result)))


def test_a_dot_wraps_integers() -> None:
    a = np.full((1, 4), 2**30, np.int32)
    b = np.array([[3], [5], [7], [2]], np.int32)
    text = "%d: tile<1x1xi32> = tile.dot %a, %b\nreturn %d"
    found = value("%a: tile<1x4xi32>, %b: tile<4x1xi32>", text, "tile<1x1xi32>", [a, b])
    assert found.item() == (17 * 2**30 + 2**31) % 2**32 - 2**31
    a64, b64 = a.astype(np.int64) << 32, b.astype(np.int64)
    text = "%z: tile<1x1xi64> = constant 1\n%d: tile<1x1xi64> = tile.dot %a, %b, acc=%z\nreturn %d"
    found = value("%a: tile<1x4xi64>, %b: tile<4x1xi64>", text, "tile<1x1xi64>", [a64, b64])
    assert found.item() == (17 * 2**62 + 1 + 2**63) % 2**64 - 2**63


def test_a_dot_in_f16_is_rounded_once() -> None:
    a = np.array([[2048, 1, 1, 1]], np.float16)  # 2049 and 2050 are not both f16
    b = np.ones((4, 1), np.float16)
    text = (
        "%z: tile<1x1xf16> = constant 1.0\n%d: tile<1x1xf16> = tile.dot %a, %b, acc=%z\nreturn %d"
    )
    found = value("%a: tile<1x4xf16>, %b: tile<4x1xf16>", text, "tile<1x1xf16>", [a, b])
    assert found.item() == 2052.0


# Reductions and scans.

KINDS = ("sum", "prod", "maxnum", "minnum", "maximum", "minimum")
SEQUENTIAL: dict[str, Any] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "maxnum": max,
    "minnum": min,
    "maximum": max,
    "minimum": min,
}


def accumulated(kind: str, x: Array, axis: int) -> Array:
    """By Python's integers."""
    rows = np.moveaxis(x.astype(np.int64).astype(object), axis, 0)
    totals = [rows[0]]
    for row in rows[1:]:
        totals.append(np.frompyfunc(SEQUENTIAL[kind], 2, 1)(totals[-1], row))
    return np.moveaxis(np.array(totals), 0, axis)


def wrapped(dtype: DType, exact: Array) -> Array:
    if dtype.is_float:
        return scalar.round_to(dtype, exact.astype(np.float64))
    unsigned = (exact & (2**dtype.bits - 1)).astype(np.uint64)
    return scalar.from_bits(dtype, unsigned)


@numbers
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reduce_and_scan(dtype: DType, kind: str, axis: int) -> None:
    x = draw(dtype, (4, 8, 2))
    if kind == "prod":
        x = np.where(x == 0, x.dtype.type(1), x) if dtype.is_float else x
        x[:, 4:] = 1  # within what f32 has exactly
    names = f"4x8x2x{dtype}"
    shape = "x".join(str(n) for i, n in enumerate((4, 8, 2)) if i != axis)
    text = f"""
    %r: tile<{shape}x{dtype}> = tile.reduce {kind} {axis} %x
    %s: tile<{names}> = tile.scan {kind} {axis} %x
    return %r, %s
    """
    f = function(f"%x: tile<{names}>", text, f"tile<{shape}x{dtype}>, tile<{names}>")
    total, running = run(f, (1, 1, 1), [x])
    exact = wrapped(dtype, accumulated(kind, x, axis))
    np.testing.assert_array_equal(running[0], exact)
    np.testing.assert_array_equal(total[0], exact.take(-1, axis))


@pytest.mark.parametrize("kind", ["any", "all"])
def test_any_and_all(kind: str) -> None:
    x = draw(bool_, (8, 2))
    x[0], x[1] = True, False
    text = f"%r: tile<8xbool> = tile.reduce {kind} 1 %x\nreturn %r"
    found = value("%x: tile<8x2xbool>", text, "tile<8xbool>", [x])
    np.testing.assert_array_equal(found[0], getattr(np, kind)(x, axis=1))


@numbers
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_the_first_place_of_an_extremum(dtype: DType, kind: str) -> None:
    x = draw(dtype, (4, 16))
    text = f"%r: tile<4xi32> = tile.reduce {kind} 1 %x\nreturn %r"
    found = value(f"%x: tile<4x16x{dtype}>", text, "tile<4xi32>", [x])
    function_ = max if kind == "argmax" else min
    assert found[0].tolist() == [row.index(function_(row)) for row in x.tolist()]


NAN, INF = math.nan, math.inf
EXTREMES = [
    # values, maxnum, maximum, minnum, minimum, argmax, argmin
    ([NAN, 1, 2, NAN], 2, NAN, 1, NAN, 0, 0),
    ([NAN] * 4, NAN, NAN, NAN, NAN, 0, 0),
    ([3, NAN, INF, NAN], INF, NAN, 3, NAN, 1, 1),
    ([-0.0, 0.0, -0.0, 0.0], 0.0, 0.0, -0.0, -0.0, 0, 0),
    ([0.0, -0.0, 0.0, -0.0], 0.0, 0.0, -0.0, -0.0, 0, 0),
    ([-0.0, -1, NAN, 0.0], 0.0, NAN, -1, NAN, 2, 2),
    ([-INF, -INF, -0.0, NAN], -0.0, NAN, -INF, NAN, 3, 3),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("column", range(6))
def test_nan_and_zeros_in_reductions(dtype: DType, column: int) -> None:
    kind = ("maxnum", "maximum", "minnum", "minimum", "argmax", "argmin")[column]
    x = np.array([row[0] for row in EXTREMES] + [[1] * 4], scalar.storage(dtype))
    result = "i32" if column > 3 else dtype.name
    text = f"%r: tile<8x{result}> = tile.reduce {kind} 1 %x\nreturn %r"
    found = value(f"%x: tile<8x4x{dtype}>", text, f"tile<8x{result}>", [x])[0][:-1]
    assert [str(float(v)) for v in found] == [str(float(row[1 + column])) for row in EXTREMES]


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_the_least_of_the_places_given_for_an_extremum(kind: str) -> None:
    x = np.array([[3, 1, 3, 1], [np.nan, 0, 5, np.nan], [-np.inf] * 4], np.float32)
    x = np.concatenate([x, x[:1, ::-1]])
    places = np.array([[7, 8, 5, 6], [4, 1, 0, 3], [9, 2, 2, 4], [-1, 1, -2, 2]], np.int32)
    text = f"%r: tile<4xi32> = tile.reduce {kind} 1 %x, places=%p\nreturn %r"
    found = value("%x: tile<4x4xf32>, %p: tile<4x4xi32>", text, "tile<4xi32>", [x, places])[0]
    assert found.tolist() == ([5, 3, 2, 1] if kind == "argmax" else [6, 3, 2, -2])


@pytest.mark.parametrize(
    ("kind", "places", "message"),
    [
        ("maximum", "tile<8xi32>", "maximum does not give places"),
        ("argmax", "tile<8xi64>", "places is tile<8xi64> where tile<8xi32> goes"),
        ("argmax", "tile<4xi32>", "places is tile<4xi32> where tile<8xi32> goes"),
    ],
)
def test_places_that_do_not_fit(kind: str, places: str, message: str) -> None:
    result = "i32" if kind == "argmax" else "f32"
    text = f"%r: {result} = tile.reduce {kind} 0 %x, places=%p\nreturn %r"
    with pytest.raises(ParseError, match=message):
        function(f"%x: tile<8xf32>, %p: {places}", text, result)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("maxnum", [-0.0, 0.0, 0.0, 5]),
        ("maximum", [-0.0, 0.0, NAN, NAN]),
        ("minnum", [-0.0, -0.0, -0.0, -0.0]),
        ("minimum", [-0.0, -0.0, NAN, NAN]),
    ],
)
def test_nan_and_zeros_in_scans(dtype: DType, kind: str, want: list[float]) -> None:
    x = np.array([-0.0, 0.0, NAN, 5], scalar.storage(dtype))
    text = f"%r: tile<4x{dtype}> = tile.scan {kind} 0 %x\nreturn %r"
    found = value(f"%x: tile<4x{dtype}>", text, f"tile<4x{dtype}>", [x])[0]
    assert list(map(str, found.astype(float))) == list(map(str, map(float, want)))


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_sums_of_short_floats_are_rounded_once(dtype: DType) -> None:
    big = 2048 if dtype is f16 else 256
    x = np.array([big, 1, 1, 1, 1, 1, 1, 2], scalar.storage(dtype))
    text = f"%r: {dtype} = tile.reduce sum 0 %x\nreturn %r"
    assert value(f"%x: tile<8x{dtype}>", text, dtype.name, [x]).tolist() == [big + 8]


# Atomics.

COMBINE: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "max": max,
    "min": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exchange": lambda a, b: b,
}


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(d, k) for d in NUMBERS for k in COMBINE if d.is_integer or k not in ("and", "or", "xor")],
    ids=str,
)
def test_atomics_take_effect_one_after_the_other(dtype: DType, kind: str) -> None:
    at, new = draw(i32, (3, 16)) + 4, draw(dtype, (3, 16), 1)
    memory = draw(dtype, (9,), 2)
    text = f"""
    %p: i32 = tile.program_id 0
    %c16: i32 = constant 16
    %s: i32 = mul %p, %c16
    %sb: tile<16xi32> = tile.broadcast %s
    %r: tile<16xi32> = tile.arange 0
    %o: tile<16xi32> = add %sb, %r
    %at: tile<16xi32> = tile.load %At, %o
    %new: tile<16x{dtype}> = tile.load %New, %o
    %zero: tile<16xi32> = constant 4
    %in: tile<16xbool> = compare ne %at, %zero
    %old: tile<16x{dtype}> = tile.atomic {kind} %M, %at, %new, mask=%in
    tile.store %Old, %o, %old
    """
    have, old = in_memory(dtype, memory).copy(), in_memory(dtype, np.zeros_like(new))
    go(
        f"%At: ptr<i32>, %New: ptr<{dtype}>, %M: ptr<{dtype}>, %Old: ptr<{dtype}>",
        text,
        [at, in_memory(dtype, new), have, old],
        (3, 1, 1),
    )
    wanted, before = [int(v) for v in memory], []
    for place, number in zip(at.ravel().tolist(), new.ravel().tolist(), strict=True):
        before.append(0 if place == 4 else wanted[place])
        if place != 4:
            wanted[place] = COMBINE[kind](wanted[place], int(number))
    for found, exact in ((have, wanted), (old, before)):
        right = wrapped(dtype, np.array(exact, object))
        np.testing.assert_array_equal(found.ravel(), in_memory(dtype, right))


def test_an_atomic_sum_in_f16_rounds_at_each_step() -> None:
    text = """
    %o: tile<4xi32> = constant 0
    %x: tile<4xf16> = constant 1.0
    %old: tile<4xf16> = tile.atomic add %X, %o, %x
    return %old
    """
    x = np.array([2047], np.float16)
    run(function("%X: ptr<f16>", text, "tile<4xf16>"), (1, 1, 1), [x])
    assert x.tolist() == [2048.0]


def test_compare_and_swap_is_serial() -> None:
    """Each of many programs takes a ticket: it writes its number plus one where that is next."""
    text = """
    %p: i32 = tile.program_id 0
    %c0: i32 = constant 0
    %c1: i32 = constant 1
    %next: i32 = add %p, %c1
    %old: i32 = tile.atomic_cas %X, %c0, %p, %next
    return %old
    """
    x = np.zeros(1, np.int32)
    (old,) = run(function("%X: ptr<i32>", text, "i32"), (50, 1, 1), [x])
    assert x.tolist() == [50]
    assert old.tolist() == list(range(50))


def test_a_retry_loop_of_compare_and_swap_ends() -> None:
    text = """
    %c0: i32 = constant 0
    %true: bool = constant true
    %one: f32 = constant 1.0
    %zero: f32 = constant 0.0
    %seen: f32, %go: bool = while (%a: f32 = %zero, %more: bool = %true) {
      yield %more
    } do (%expected: f32, %more_1: bool) {
      %sum: f32 = add %expected, %one
      %old: f32 = tile.atomic_cas %X, %c0, %expected, %sum
      %again: bool = compare ne %old, %expected
      yield %old, %again
    }
    """
    x = np.zeros(1, np.float32)
    go("%X: ptr<f32>", text, [x], (20, 1, 1))
    assert x.tolist() == [20.0]


def test_many_lanes_at_few_and_at_many_places() -> None:
    text = """
    %p: i32 = tile.program_id 0
    %c1: i32 = constant 1
    %at: i32 = tile.load %At, %p
    %old: i32 = tile.atomic add %X, %at, %c1
    """
    rng = np.random.default_rng(0)
    at = rng.geometric(0.001, 20000).clip(0, 4999).astype(np.int32)
    x = np.zeros(5000, np.int32)
    run(function("%At: ptr<i32>, %X: ptr<i32>", text), (20000, 1, 1), [at, x])
    np.testing.assert_array_equal(x, np.bincount(at, minlength=5000))


# Control flow.


def test_programs_part_at_an_if_and_meet_again() -> None:
    text = """
    %p: i32 = tile.program_id 0
    %c3: i32 = constant 3
    %f: f32 = cast %p
    %fs: tile<4xf32> = tile.broadcast %f
    %low: bool = compare lt %p, %c3
    %r: tile<4xf32> = if %low {
      %in: bool = compare eq %p, %c3
      %a: tile<4xf32> = add %x, %fs
      yield %a
    } else {
      %even: i32 = mod %p, %two
      %c0: i32 = constant 0
      %is: bool = compare eq %even, %c0
      %b: tile<4xf32> = if %is {
        tile.store %Y, %p, %f
        yield %x
      } else {
        yield %fs
      }
      yield %b
    }
    return %r
    """
    x, y = np.arange(4, dtype=np.float32), np.full(8, -1, np.float32)
    found = value(
        "%x: tile<4xf32>, %Y: ptr<f32>, %two: i32", text, "tile<4xf32>", [x, y, 2], (8, 1, 1)
    )
    for p in range(8):
        want = x + p if p < 3 else (x if p % 2 == 0 else np.full(4, p))
        np.testing.assert_array_equal(found[p], want)
    assert y.tolist() == [-1, -1, -1, -1, 4, -1, 6, -1]


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_for_has_the_meaning_of_range(dtype: DType, same: bool) -> None:
    text = f"""
    %p: i32 = tile.program_id 0
    %lower: {dtype} = tile.load %L, %p
    %upper: {dtype} = tile.load %U, %p
    %step: {dtype} = tile.load %S, %p
    %c0: i64 = constant 0
    %c10: i64 = constant 10
    %r: i64 = for %lower, %upper, %step (%i: {dtype}, %acc: i64 = %c0) {{
      %w: i64 = cast %i
      %ten: i64 = mul %acc, %c10
      %next: i64 = add %ten, %w
      yield %next
    }}
    return %r
    """
    bounds = [(0, 5, 1), (3, 3, 1), (5, 2, 2), (2, 9, 3), (0, 0, 7), (1, 100, 50)]
    if dtype.is_signed:
        bounds += [(5, 0, -1), (-3, 4, 2), (0, 5, -1), (dtype.low, dtype.low + 3, 1)]
        bounds += [(-128, 127, 100)]
    else:
        bounds += [(dtype.high - 5, dtype.high, 2)]
    if same:
        bounds = [(dtype.low, dtype.high, dtype.high // 2)] * 3
    columns = [np.array(c, scalar.storage(dtype)) for c in zip(*bounds, strict=True)]
    found = value(
        f"%L: ptr<{dtype}>, %U: ptr<{dtype}>, %S: ptr<{dtype}>",
        text,
        "i64",
        columns,
        (len(bounds), 1, 1),
    )
    for have, (lower, upper, step) in zip(found.tolist(), bounds, strict=True):
        want = 0
        for i in range(lower, upper, step):
            want = want * 10 + i
        assert have == (want + 2**63) % 2**64 - 2**63


def test_while_runs_as_long_as_each_program_wants() -> None:
    """The length of Collatz sequences, with a tile carried along."""
    text = """
    %p: i32 = tile.program_id 0
    %c0: i32 = constant 0
    %c1: i32 = constant 1
    %c2: i32 = constant 2
    %c3: i32 = constant 3
    %start: i32 = add %p, %c1
    %n: i32, %k: i32, %t: tile<2xi32> = while (%a: i32 = %start, %b: i32 = %c0, %u: tile<2xi32> = %x) {
      %more: bool = compare gt %a, %c1
      yield %more
    } do (%m: i32, %j: i32, %v: tile<2xi32>) {
      %odd: i32 = mod %m, %c2
      %is: bool = compare eq %odd, %c1
      %next: i32 = if %is {
        %three: i32 = mul %m, %c3
        %up: i32 = add %three, %c1
        yield %up
      } else {
        %half: i32 = floordiv %m, %c2
        yield %half
      }
      %j_1: i32 = add %j, %c1
      %ps: tile<2xi32> = tile.broadcast %p
      %v_1: tile<2xi32> = add %v, %ps
      yield %next, %j_1, %v_1
    }
    return %n, %k, %t
    """
    f = function("%x: tile<2xi32>", text, "i32, i32, tile<2xi32>")
    x = np.array([5, 6], np.int32)
    last, count, carried = run(f, (30, 1, 1), [x])
    for p in range(30):
        n, steps = p + 1, 0
        while n > 1:
            n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
        assert (last[p], count[p]) == (1, steps)
        np.testing.assert_array_equal(carried[p], x + steps * p)


def test_errors_are_those_of_programs_that_are_there() -> None:
    """Only the programs that take a branch, or still loop, can do something wrong in it."""
    text = """
    %p: i32 = tile.program_id 0
    %c0: i32 = constant 0
    %c1: i32 = constant 1
    %some: bool = compare ne %p, %c0
    if %some {
      %d: i32 = floordiv %c1, %p
      yield
    } else {
      yield
    }
    for %c0, %p, %c1 (%i: i32) {
      %e: i32 = floordiv %c1, %p
      tile.store %X, %p, %e
      yield
    }
    """
    x = np.zeros(4, np.int32)
    go("%X: ptr<i32>", text, [x], (4, 1, 1))
    assert x.tolist() == [0, 1, 0, 0]


# Reports.


def located(body: str, path: Path, line: str) -> str:
    """The body, its last op said to come from the third line of a file."""
    path.write_text(f"def kernel():\n    pass\n    {line}\n")
    return f'{body.rstrip()} at "{path}":3'


def test_out_of_bounds(tmp_path: Path) -> None:
    body = located(
        """
        %p: i32 = tile.program_id 1
        %o: tile<4xi32> = tile.arange 0
        %pb: tile<4xi32> = tile.broadcast %p
        %i: tile<4xi32> = add %o, %pb
        %x: tile<4xf32> = tile.load %X, %i
        """,
        tmp_path / "model.py",
        "x = load(X + i)",
    )
    error = fails("%X: ptr<f32>", body, [np.zeros(5, np.float32)], (1, 4, 1))
    assert str(error) == (
        "index 5 is outside X, which has 5 elements, in program (0, 2, 0)\n"
        f"  at {tmp_path / 'model.py'}:3\n"
        "    x = load(X + i)"
    )
    assert (error.array, error.index, error.program) == ("X", 5, (0, 2, 0))


@pytest.mark.parametrize("index", [-1, 3])
@pytest.mark.parametrize(
    "op",
    [
        "%y: i32 = tile.load %X, %i",
        "tile.store %X, %i, %i",
        "%y: i32 = tile.atomic add %X, %i, %i",
        "%y: i32 = tile.atomic_cas %X, %i, %i, %i",
        "%y: tile<1xi32> = tile.load_tile %X, offsets=[%c0], strides=[%i], bounds=[%c9]",
        "tile.store_tile %X, %t, offsets=[%c0], strides=[%i], bounds=[%c9]",
    ],
)
def test_every_access_is_checked(op: str, index: int) -> None:
    setup = "%c0: i32 = constant 1\n%c9: i32 = constant 9\n%t: tile<1xi32> = constant 1\n"
    error = fails("%X: ptr<i32>, %i: i32", setup + op, [np.zeros(3, np.int32), index])
    assert (
        error.message == f"index {index} is outside X, which has 3 elements, in program (0, 0, 0)"
    )


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("%y: i32 = floordiv %x, %p", "integer division by zero, in program (0, 0, 0)"),
        ("%y: i32 = mod %x, %p", "integer division by zero, in program (0, 0, 0)"),
        ("%y: i32 = shl %x, %x", "shift by an amount outside 0 to 31, in program (0, 0, 0)"),
        ("%y: i32 = shr %x, %q", "shift by an amount outside 0 to 31, in program (2, 0, 0)"),
        ("%y: i8 = cast %f", "a float outside the range of i8, in program (2, 0, 0)"),
        (
            "for %x, %x, %p (%i: i32) {\n yield\n }",
            "a for loop with a step of zero, in program (0, 0, 0)",
        ),
        (
            "for %p, %high, %x, nowrap=true (%i: i32) {\n yield\n }",
            "a for loop with nowrap=true whose last step wraps, in program (0, 0, 0)",
        ),
        (
            "%y: i32 = add %p, %high, nowrap=fits",
            "add with nowrap=fits, of a result that does not fit i32, in program (1, 0, 0)",
        ),
        ('tile.assert "p > {0}" %some', "assertion failed: p > {0}, in program (0, 0, 0)"),
    ],
)
def test_program_errors(op: str, message: str) -> None:
    body = f"""
    %p: i32 = tile.program_id 0
    %c0: i32 = constant 0
    %x: i32 = constant 64
    %c30: i32 = constant 30
    %high: i32 = constant 2147483647
    %q: i32 = add %p, %c30
    %some: bool = compare gt %p, %c0
    %big: i32 = mul %p, %x
    %f: f32 = cast %big
    %o: tile<1xi32> = constant 0
    %m: tile<1xbool> = constant true
    {op} at "f.py":9
    """
    error = fails("%X: ptr<i32>", body, [np.zeros(3, np.int32)], (4, 1, 1))
    assert message in error.message
    assert error.locations == (("f.py", 9),)


# Addresses of more than 32 bits.

WIDE = """
%p: i32 = tile.program_id 0
%big: i32 = constant 1000000000
%far: i32 = mul %p, %big at "f.py":5
"""


@pytest.mark.parametrize(
    "use",
    [
        '%x: f32 = tile.load %X, %far at "f.py":9',
        '%o: tile<2xi32> = tile.broadcast %far\n%x: tile<2xf32> = tile.load %X, %o at "f.py":9',
        '%w: i64 = cast %far at "f.py":9\n%x: f32 = tile.load %X, %w',
        '%w: i32 = mod %far, %big at "f.py":9\n%x: f32 = tile.load %X, %w',
        '%x: tile<1xf32> = tile.load_tile %X, offsets=[%far], strides=[%p], bounds=[%p] at "f.py":9',
        'for %big, %far, %big (%i: i32) {\n%x: f32 = tile.load %X, %p\ntile.store %X, %i, %x\nyield\n} at "f.py":9',
    ],
)
def test_32_bit_overflow_in_an_address(use: str) -> None:
    last = "%c3: i32 = constant 3\n%three: bool = compare eq %p, %c3\nif %three {\n"
    error = fails(
        "%X: ptr<f32>",
        WIDE + last + use + "\nyield\n} else {\nyield\n}",
        [np.zeros(4, np.float32)],
        (4, 1, 1),
    )
    assert error.message == (
        "32-bit overflow in an address: i32 does not hold 3000000000; use i64 from mul on, "
        "in program (3, 0, 0)"
    )
    assert error.locations == (("f.py", 9), ("f.py", 5))


def test_an_address_that_overflows_64_bits() -> None:
    text = f"""{WIDE}
    %far2: i32 = mul %far, %far at "f.py":6
    %far3: i32 = mul %far2, %far at "f.py":7
    %x: f32 = tile.load %X, %far3
    """
    error = fails("%X: ptr<f32>", text, [np.zeros(4, np.float32)], (4, 1, 1))
    assert error.message.startswith("32-bit overflow in an address: i32 does not hold 10000000000")
    assert error.locations == (("f.py", 7), ("f.py", 5))


@pytest.mark.parametrize(
    "use",
    [
        "%back: i32 = sub %far, %far\n%x: f32 = tile.load %X, %back",
        "%m: i32 = and %far, %p\n%q: i32 = xor %m, %m\n%x: f32 = tile.load %X, %q",
        "%y: i32 = add %far, %p",
        "%z: f32 = constant 0.0\n%c2: i32 = constant 2\n%in: tile<1xbool> = constant false\n"
        "%o: tile<1xi32> = tile.broadcast %far\n%zs: tile<1xf32> = constant 0.0\n"
        "%x: tile<1xf32> = tile.load %X, %o, mask=%in, other=%zs",
        "%c2: i32 = constant 2\n%ok: bool = compare lt %p, %c2\nif %ok {\n"
        "%s: i32 = sub %far, %far\n%x: f32 = tile.load %X, %s\nyield\n} else {\nyield\n}",
    ],
)
def test_wrapping_that_does_no_harm(use: str) -> None:
    run(function("%X: ptr<f32>", WIDE + use), (4, 1, 1), [np.zeros(4, np.float32)])


def test_elsewhere_an_address_is_its_low_bits() -> None:
    """A number that is too large for an address has wrapped where it is compared or stored."""
    text = f"""{WIDE}
    %c0: i32 = constant 0
    %ok: bool = compare lt %far, %c0
    tile.store %Y, %p, %far
    %at: i32 = select %ok, %c0, %far
    %r: i32 = for %c0, %c0, %big (%i: i32, %a: i32 = %far) {{
      yield %a
    }}
    %b: i32 = sub %r, %far
    %x: f32 = tile.load %X, %b
    return %r
    """
    y = np.zeros(4, np.int32)
    f = function("%X: ptr<f32>, %Y: ptr<i32>", text, "i32")
    (found,) = run(f, (4, 1, 1), [np.zeros(4, np.float32), y])
    want = np.array([0, 10**9, 2 * 10**9, 3 * 10**9 - 2**32])
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(found, want)


# Races.


def races(arguments: str, body: str, values: list[Any], grid: int = 4) -> str:
    """The message of the race that there is, whatever the chunks."""
    messages = set()
    for chunk in (1, 8, 1 << 20):
        with pytest.raises(ProgramError) as caught:
            run(function(arguments, body), (grid, 1, 1), values, chunk_bytes=chunk)
        assert caught.value.message.startswith("race: ")
        messages.add(caught.value.message)
    return sorted(messages)[0]


OWN = "%p: i32 = tile.program_id 0\n%c0: i32 = constant 0\n%c1: i32 = constant 1\n"
AT_ZERO = {
    "reads": "%x: i32 = tile.load %X, %c0",
    "writes": "tile.store %X, %c0, %p",
    "atomically updates": "%y: i32 = tile.atomic add %X, %c0, %p",
}


@pytest.mark.parametrize("first", AT_ZERO)
@pytest.mark.parametrize("second", AT_ZERO)
def test_races_between_programs(first: str, second: str) -> None:
    """Program 1 does one thing, program 2 the other, in either order."""
    parts = []
    for number, what in ((1, first), (2, second)):
        op = AT_ZERO[what].replace("%x", f"%x{number}").replace("%y", f"%y{number}")
        parts.append(
            f"%n{number}: i32 = constant {number}\n%is{number}: bool = compare eq %p, %n{number}\n"
            f'if %is{number} {{\n{op} at "f.py":{number}\nyield\n}} else {{\nyield\n}}\n'
        )
    harmless = first == second and first != "writes"
    for ordered in (parts, parts[::-1]):
        body = OWN + "".join(ordered)
        if harmless:
            go("%X: ptr<i32>", body, [np.zeros(4, np.int32)], (4, 1, 1))
            continue
        message = races("%X: ptr<i32>", body, [np.zeros(4, np.int32)])
        assert message in (
            f"race: program (2, 0, 0) {second} element 0 of X, which program (1, 0, 0) {first}",
            f"race: program (1, 0, 0) {first} element 0 of X, which program (2, 0, 0) {second}",
        )
    if not harmless:
        error = fails("%X: ptr<i32>", OWN + "".join(parts), [np.zeros(4, np.int32)], (4, 1, 1))
        assert error.locations == (("f.py", 2), ("f.py", 1))
        assert isinstance(error, RaceError)
        assert error.kind == ("programs", "device", {first, second})


def test_a_race_within_one_instruction() -> None:
    message = races("%X: ptr<i32>", OWN + AT_ZERO["writes"], [np.zeros(4, np.int32)])
    assert "writes element 0 of X" in message


def test_different_values_for_one_element_in_one_store() -> None:
    places = (
        "%i: tile<4xi32> = tile.arange 0\n%c2: i32 = constant 2\n"
        "%two: tile<4xi32> = tile.broadcast %c2\n%at: tile<4xi32> = floordiv %i, %two\n"
    )
    values = [np.zeros(4, np.int32)]
    body = places + "tile.store %X, %at, %i"
    message = races("%X: ptr<i32>", body, values, 1)
    assert message == "race: program (0, 0, 0) writes different values to element 0 of X at once"
    error = fails("%X: ptr<i32>", body, values, (1, 1, 1))
    assert isinstance(error, RaceError)
    assert error.kind == ("one op", "device", {"writes"})
    go("%X: ptr<i32>", places + "tile.store %X, %at, %two", values, (1, 1, 1))


def test_a_race_with_one_of_several_readers() -> None:
    body = (
        OWN
        + f"""
    {AT_ZERO["reads"]}
    %is: bool = compare eq %p, %c1
    if %is {{
      {AT_ZERO["writes"]}
      yield
    }} else {{
      yield
    }}
    """
    )
    races("%X: ptr<i32>", body, [np.zeros(4, np.int32)], 2)
    races("%X: ptr<i32>", body, [np.zeros(4, np.int32)], 3)


def test_a_program_may_read_what_it_wrote_and_write_again() -> None:
    body = (
        OWN
        + """
    tile.store %X, %p, %p
    %x: i32 = tile.load %X, %p
    %y: i32 = tile.atomic add %X, %p, %x
    %z: i32 = tile.load %X, %p
    tile.store %X, %p, %z
    """
    )
    x = np.zeros(4, np.int32)
    go("%X: ptr<i32>", body, [x], (4, 1, 1))
    assert x.tolist() == [0, 2, 4, 6]


def test_masked_lanes_do_not_race() -> None:
    body = (
        OWN
        + """
    %zero: tile<4xi32> = constant 0
    %o: tile<4xi32> = tile.arange 0
    %pb: tile<4xi32> = tile.broadcast %p
    %own: tile<4xbool> = compare eq %o, %pb
    %x: tile<4xi32> = tile.load %X, %o, mask=%own, other=%zero
    tile.store %X, %o, %pb, mask=%own
    """
    )
    x = np.zeros(4, np.int32)
    go("%X: ptr<i32>", body, [x], (4, 1, 1))
    assert x.tolist() == [0, 1, 2, 3]


SHIFTED = (
    OWN
    + """
%x: i32 = tile.load %X, %p
tile.store %Y, %p, %x
"""
)


def test_overlapping_arguments_are_one_memory() -> None:
    x = np.arange(6, dtype=np.int32)
    message = races("%X: ptr<i32>, %Y: ptr<i32>", SHIFTED, [x[:4], x[1:5]])
    assert "as an element of" in message
    run(function("%X: ptr<i32>, %Y: ptr<i32>", SHIFTED), (3, 1, 1), [x[:3], x[3:]])
    doubled = SHIFTED.replace("%x:", "%two: i32 = constant 2\n%q: i32 = mul %p, %two\n%x:")
    doubled = doubled.replace("%X, %p", "%X, %q").replace("%Y, %p", "%Y, %q")
    run(function("%X: ptr<i32>, %Y: ptr<i32>", doubled), (3, 1, 1), [x[::2], x[1::2]])
    run(function("%X: ptr<i32>, %Y: ptr<i32>", SHIFTED), (3, 1, 1), [x[:3], x[:3]])


def test_overlap_of_arrays_of_different_dtypes() -> None:
    text = (
        OWN
        + """
    %x: i64 = tile.load %X, %p
    %y: i8 = cast %x
    tile.store %Y, %p, %y
    """
    )
    memory = np.zeros(4, np.int64)
    message = races("%X: ptr<i64>, %Y: ptr<i8>", text, [memory, memory.view(np.int8)[8:]], 3)
    assert message.startswith("race: program (")
    run(function("%X: ptr<i64>, %Y: ptr<i8>", text), (3, 1, 1), [memory, memory.view(np.int8)[24:]])


def test_a_store_through_one_argument_is_seen_through_another() -> None:
    text = (
        OWN
        + """
    tile.store %Y, %p, %p
    %x: i32 = tile.load %X, %p
    tile.store %Z, %p, %x
    """
    )
    x, z = np.full(4, 9, np.int32), np.zeros(4, np.int32)
    run(function("%X: ptr<i32>, %Y: ptr<i32>, %Z: ptr<i32>", text), (4, 1, 1), [x, x, z])
    assert z.tolist() == [0, 1, 2, 3]


# Prints.


def test_prints_come_in_the_order_of_the_programs() -> None:
    text = """
    %p: i32 = tile.program_id 0
    %f: bf16 = cast %p
    %t: bf16 = constant 0.1
    %s: bf16 = add %f, %t
    %o: tile<4xi32> = tile.arange 0
    tile.print "a" %p, %s
    %c1: i32 = constant 1
    %is: bool = compare ge %p, %c1
    if %is {
      tile.print "b"
      yield
    } else {
      tile.print "c" %o
      yield
    }
    tile.assert "stop" %is
    """
    f = function("", text)
    for chunk in (1, 1 << 20):
        lines: list[str] = []
        with pytest.raises(ProgramError, match="assertion failed: stop"):
            run(f, (2, 1, 1), [], output=lines.append, chunk_bytes=chunk)
        want = ["a[program (0,0,0)] 0 0.1", "c[program (0,0,0)] [0, 1, 2, 3]"]
        if chunk > 1:
            want += ["a[program (1,0,0)] 1 1.1", "b[program (1,0,0)]"]
        assert lines == want


def test_prints_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    run(function("%x: f32", 'tile.print "x =" %x'), (1, 1, 1), [0.1])
    assert capsys.readouterr().out == "x =[program (0,0,0)] 0.1\n"
