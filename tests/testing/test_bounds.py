"""Error bounds: sound, for every execution that is as correct as the interpreter's; not silly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import wild
from iris.interp import tile as interp
from iris.ir import parse
from iris.ir.control import Func
from iris.ir.types import Ptr
from iris.testing import bounds, programs
from iris.testing.bounds.interval import TINY
from iris.testing.bounds.terms import one_term
from iris.testing.levels import Agreement, compare
from iris.tools.replay import Program
from support import counts

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
ULP = 2.0**-23  # of 1


def function(arguments: str, body: str) -> Func:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    (only,) = parse(f"func tile @f({arguments}) {{\n{lines}\n  return\n}}\n")
    assert isinstance(only, Func)
    return only


def run(arguments: str, body: str, *values: Any, grid: int = 1, exact: bool = True) -> list[Array]:
    """The errors of all that is written."""
    found = bounds.run(function(arguments, body), (grid, 1, 1), values, exact_math=exact)
    return list(found.values())


def of(body: str, *values: Any, exact: bool = True, dtype: str = "f32") -> Array:
    """The errors of %y, a tile of 8, made of %x: the first eighths of some numbers, each of them a
    sum of three in any order; %e has the same values, of which each is exact."""
    x = np.array([[v, v * 2.0**-26, -v * 2.0**-26] for v in values], np.float32)
    x = np.where(np.isfinite(x), x, np.array(values, np.float32)[:, None])
    padded = np.zeros((8, 4), np.float32)
    padded[: len(values), :3] = x
    exactly = np.zeros(8, np.float32)
    exactly[: len(values)] = values
    out = np.zeros(8, {"f32": np.float32, "bool": np.bool_, "i32": np.int32}[dtype])
    text = f"""
    %i: tile<8xi32> = tile.arange 0
    %flat: tile<32xi32> = tile.arange 0
    %j: tile<8x4xi32> = tile.reshape %flat
    %terms: tile<8x4xf32> = tile.load %X, %j
    %x: tile<8xf32> = tile.reduce sum 1 %terms
    %e: tile<8xf32> = tile.load %E, %i
    {body}
    tile.store %Out, %i, %y
    """
    head = f"%X: ptr<f32>, %E: ptr<f32>, %Out: ptr<{dtype}>"
    (errors,) = run(head, text, padded, exactly, out, exact=exact)
    return errors[: len(values)]


# Soundness.


def outcome(program: Program, seed: int, errors: dict[int, Array], arguments: Any) -> Agreement:
    """What another execution makes, held against the bounds."""
    counted, found = Agreement(), wild.run(program, seed)
    for position, error in errors.items():
        parameter = program.function.body.arguments[position]
        assert isinstance(parameter.type, Ptr)
        name, dtype = str(parameter.name), parameter.type.element
        counted += compare(name, dtype, arguments[position], error, found[position])
    return counted


@settings(max_examples=counts(50, 2000))
@given(programs.tile())
def test_other_executions_are_within_the_bounds(program: Program) -> None:
    program = wild.inexact(program)
    arguments = program.make_arguments()
    errors = bounds.run(program.function, program.grid, arguments, output=lambda line: None)
    for seed in range(2):
        outcome(program, seed, errors, arguments)


@settings(max_examples=counts(50, 1000))
@given(programs.tile())
def test_the_values_are_those_of_the_interpreter(program: Program) -> None:
    program = wild.inexact(program)
    expected, found = program.make_arguments(), program.make_arguments()
    lines: list[str] = []
    bounds.run(program.function, program.grid, found, output=lines.append)
    assert program.launch(expected) == lines
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("math", ["as interpreted", "as promised", "fast"])
@pytest.mark.parametrize(
    "change", [lambda program: program, wild.inexact], ids=["as is", "inexact"]
)
def test_few_elements_are_undetermined(
    change: Any, math: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shares: list[float] = []

    @settings(max_examples=counts(150, 2000))
    @given(programs.tile(fast_math=math == "fast"))
    def count(drawn: Program) -> None:
        program = change(drawn)
        errors = bounds.run(
            program.function,
            program.grid,
            program.make_arguments(),
            exact_math=math == "as interpreted",
            output=lambda line: None,
        )
        unknown = sum(int((array == INF).sum()) for array in errors.values())
        shares.append(unknown / max(1, sum(array.size for array in errors.values())))

    count()
    # Of each program, as one that writes much would outweigh all others.
    share = float(np.mean(shares))
    with capsys.disabled():
        print(f"\n{share:.2%} of what a program writes is undetermined")
    assert share < 0.04


# Sums, products, dots.

SUM = """
%i: i32 = tile.program_id 0
%n: i32 = constant {size}
%start: i32 = mul %i, %n
%lanes: tile<{size}xi32> = tile.arange 0
%starts: tile<{size}xi32> = tile.broadcast %start
%at: tile<{size}xi32> = add %starts, %lanes
%x: tile<{size}x{dtype}> = tile.load %X, %at
%y: {dtype} = tile.reduce {kind} 0 %x
tile.store %Out, %i, %y
"""


def reduced(x: Array, kind: str = "sum") -> tuple[Array, Array]:
    """The reductions of some rows, and their errors."""
    dtype = {"float32": "f32", "float16": "f16"}[x.dtype.name]
    out = np.zeros(len(x), x.dtype)
    body = SUM.format(size=x.shape[1], dtype=dtype, kind=kind)
    (errors,) = run(f"%X: ptr<{dtype}>, %Out: ptr<{dtype}>", body, x, out, grid=len(x))
    return out, errors


@pytest.mark.parametrize(("size", "fraction"), [(4, 0.25), (64, 0.02), (512, 0.002)])
def test_sums_come_near_their_bounds(size: int, fraction: float) -> None:
    """Sums in a hundred orders, the best of all of 200 rows."""
    rng = np.random.default_rng(size)
    x = rng.uniform(0.5, 1, (200, size)).astype(np.float32)
    out, errors = reduced(x)
    assert (errors > 0).all()
    assert (errors <= 1.01 * size * ULP * np.abs(x).sum(1)).all()
    worst = 0.0
    for _ in range(100):
        other = np.add.accumulate(rng.permuted(x, axis=1), axis=1)[:, -1]
        off = np.abs(other.astype(np.float64) - out)
        assert (off <= errors).all()
        worst = max(worst, float((off / errors).max()))
    assert worst > fraction


def test_a_sum_that_is_exact_in_any_order() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-1000, 1000, (20, 64)).astype(np.float32)
    assert (reduced(x)[1] == 0).all()
    assert (reduced(x / 512)[1] == 0).all()
    assert (reduced((x / 512).astype(np.float16))[1] == 0).all()
    x[:, 0] = 2**24
    assert (reduced(x)[1] > 0).all()


def test_sums_of_infinities_and_nan() -> None:
    x = np.array([[INF, 0.1, 0.2, 1], [INF, -INF, 0.1, 1], [NAN, 0.1, 0.2, 1], [3e38] * 4], "f")
    assert list(reduced(x)[1]) == [0, 0, 0, INF]
    x = np.array([[3e38, 3e38, 1, -INF], [3e38, 3e38, 1, NAN], [3e38, 1, 1, -INF]], "f")
    assert list(reduced(x)[1]) == [INF, 0, 0]


def test_a_nan_that_signals_loses_nothing() -> None:
    x = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    assert list(one_term(x, np.zeros(2)).gross) == [0, 1]


def test_products_of_infinities_and_nan() -> None:
    x = np.array(
        [[1e-30, 1e-30, 1, INF], [1e-30, 1, 1, INF], [1e-30, 1e-30, 1, NAN], [0, 1e-30, 1, INF]],
        "f",
    )
    assert list(reduced(x, "prod")[1]) == [INF, 0, 0, 0]


def test_products() -> None:
    x = np.array([[2, 0.5, -8, 1], [3, 5, 7, 11], [0.1, 0.2, 0.3, 0.4], [0, 0.1, 7, 3]], "f")
    out, errors = reduced(x, "prod")
    assert list(errors == 0) == [True, True, False, True]
    assert errors[2] < 5 * np.spacing(out[2])
    assert list(reduced(np.full((1, 8), 1e30, "f"), "prod")[1]) == [INF]
    # Infinite, and then times 0; or 0 from the start.
    assert list(reduced(np.array([[1e30] * 15 + [0]], "f"), "prod")[1]) == [INF]


def test_a_dot_is_exact_where_each_order_is() -> None:
    body = """
    %flat: tile<64xi32> = tile.arange 0
    %at: tile<8x8xi32> = tile.reshape %flat
    %a: tile<8x8xf32> = tile.load %A, %at
    %b: tile<8x8xf32> = tile.load %B, %at
    %c: tile<8x8xf32> = tile.dot %a, %b
    tile.store %C, %at, %c
    """
    rng = np.random.default_rng(0)
    head = "%A: ptr<f32>, %B: ptr<f32>, %C: ptr<f32>"
    a, b = rng.integers(-9, 9, (2, 8, 8)).astype(np.float32)
    a[3] += np.float32(0.1)
    (errors,) = run(head, body, a, b / 4, np.zeros((8, 8), np.float32))
    assert (errors[3] > 0).all() and (errors[3] < 1e-4).all()
    assert (np.delete(errors, 3, 0) == 0).all()


# Elementwise.


def test_arithmetic_passes_errors_on() -> None:
    (x,) = of("%y: tile<8xf32> = neg %x", 3.0)
    assert 0 < x <= 12 * ULP
    (doubled,) = of("%y: tile<8xf32> = add %x, %x", 3.0)
    assert 2 * x <= doubled <= 2 * x + 2 * ULP
    (squared,) = of("%y: tile<8xf32> = mul %x, %x", 3.0)
    assert 5 * x < squared < 7.5 * x
    assert list(of("%y: tile<8xf32> = sub %e, %e", 3.0)) == [0]
    assert list(of("%y: tile<8xf32> = div %e, %x", 0.0)) == [0]  # nothing is inexact there
    assert list(of("%y: tile<8xf32> = mul %x, %e", INF, NAN)) == [0, 0]
    assert list(of("%d: tile<8xf32> = sub %x, %e\n%y: tile<8xf32> = div %e, %d", 3.0)) == [INF]
    assert list(of("%d: tile<8xf32> = sub %x, %e\n%y: tile<8xf32> = sqrt %d", 3.0)) == [INF]


def test_steps_are_determined_away_from_them() -> None:
    for op in ("floor", "ceil"):
        assert list(of(f"%y: tile<8xf32> = {op} %x", 3.0, 3.5)) == [1, 0]
    assert list(of("%y: tile<8xf32> = round %x", 3.0, 3.5)) == [0, 1]
    assert list(of("%y: tile<8xi32> = cast %x", 3.0, 3.5, dtype="i32")) == [INF, 0]
    assert list(of("%y: tile<8xi32> = bitcast %x", 3.0, dtype="i32")) == [INF]


def test_which_nan_it_is_nobody_knows() -> None:
    body = """
    %i: i32 = tile.program_id 0
    %x: f32 = tile.load %X, %i
    tile.store %Y, %i, %x
    %bits: i32 = bitcast %x
    tile.store %Z, %i, %bits
    """
    y = np.zeros(2, np.float32)
    values = np.array([1.0, NAN], np.float32), y, np.zeros(2, np.int32), y.view(np.int32)
    arguments = "%X: ptr<f32>, %Y: ptr<f32>, %Z: ptr<i32>, %W: ptr<i32>"
    for found in run(arguments, body, *values, grid=2):
        assert list(found) == [0, INF]


def test_comparisons_are_determined_where_values_are_apart() -> None:
    half = "%h: tile<8xf32> = constant 3.0\n"
    for predicate in ("lt", "le", "gt", "ge", "eq", "ne"):
        body = f"{half}%y: tile<8xbool> = compare {predicate} %x, %h"
        errors = of(body, 3.0, 3.1, -1.0, NAN, INF, dtype="bool")
        assert list(errors) == [INF, 0, 0, 0, 0]


def test_a_choice_that_is_not_determined_is_between_the_two() -> None:
    body = """
    %h: tile<8xf32> = constant 3.0
    %c: tile<8xbool> = compare lt %x, %h
    %a: tile<8xf32> = constant 7.0
    %y: tile<8xf32> = select %c, %a, %h
    """
    assert list(of(body, 3.0, 4.0)) == [4, 0]
    same = body.replace("%a, %h", "%a, %a")
    assert list(of(same, 3.0, 4.0)) == [0, 0]


def test_what_decides_alone_is_determined() -> None:
    body = """
    %h: tile<8xf32> = constant 3.0
    %c: tile<8xbool> = compare lt %x, %h
    %known: tile<8xbool> = constant {value}
    %y: tile<8xbool> = {op} %c, %known
    """
    for op, value, expected in [("and", "false", 0), ("or", "true", 0), ("and", "true", INF)]:
        assert list(of(body.format(op=op, value=value), 3.0, dtype="bool")) == [expected]


def test_math_functions_are_off_by_what_the_target_allows() -> None:
    body = "%y: tile<8xf32> = exp %e"
    assert list(of(body, 0.5, -INF)) == [0, 0]
    inexact, zero = of(body, 0.5, -INF, exact=False)
    assert 4 * ULP <= inexact <= 5 * ULP and zero == 0
    assert 0 < of("%y: tile<8xf32> = sigmoid %e", 0.5)[0] <= 4 * ULP / 2


def test_subnormal_numbers_may_be_flushed() -> None:
    body = "%h: tile<8xf32> = constant 0.5\n%y: tile<8xf32> = mul %e, %h"
    assert list(of(body, 2.0**-126, 1.0, exact=False)) == [2.0**-127, 0]
    assert list(of(body, 2.0**-126, 1.0)) == [0, 0]


def test_extrema_and_their_places() -> None:
    body = """
    %m: f32 = tile.reduce maxnum 0 %x
    %at: i32 = tile.reduce argmax 0 %{of}
    %f: f32 = cast %at
    %t: tile<8xf32> = tile.broadcast %{which}
    %y: tile<8xf32> = add %t, %z
    """
    zero = "%z: tile<8xf32> = constant 0.0\n"
    maximum = zero + body.format(of="x", which="m")
    assert 0 < of(maximum, 1.0, 3.0)[0] < 12 * ULP
    for of_, values, expected in [
        ("x", (1.0, 3.0), 0), ("x", (3.0, 3.0), INF), ("e", (3.0, 3.0), 0), ("x", (NAN, 3.0), 0),
    ]:  # fmt: skip
        place = zero + body.format(of=of_, which="f")
        assert of(place, *values)[0] == expected


def test_places_given_for_extrema() -> None:
    body = """
    %z: tile<8xf32> = constant 0.0
    %one: tile<8xi32> = constant 1
    %doubt: tile<8xi32> = cast %x
    %at: i32 = tile.reduce argmax 0 %{of}, places=%{places}
    %f: f32 = cast %at
    %t: tile<8xf32> = tile.broadcast %f
    %y: tile<8xf32> = add %t, %z
    """
    assert of(body.format(of="x", places="one"), 1.0, 3.0)[0] == 0
    assert of(body.format(of="x", places="one"), 3.0, 3.0)[0] == INF
    assert of(body.format(of="e", places="one"), 3.0, 3.0)[0] == 0
    assert of(body.format(of="e", places="doubt"), 1.0, 3.0)[0] > 0


# Control flow and memory.

DOUBT = """
%i: i32 = tile.program_id 0
%lanes: tile<4xi32> = tile.arange 0
%c4: i32 = constant 4
%start: i32 = mul %i, %c4
%starts: tile<4xi32> = tile.broadcast %start
%at: tile<4xi32> = add %starts, %lanes
%terms: tile<4xf32> = tile.load %X, %at
%s: f32 = tile.reduce sum 0 %terms
%one: f32 = constant 1.0
%c: bool = compare lt %s, %one
%zero: i32 = constant 0
%two: i32 = constant 2
%n: i32 = select %c, %zero, %two
"""
HEAD = "%X: ptr<f32>, %Y: ptr<f32>, %Z: ptr<f32>"


def doubtful() -> tuple[Array, Array, Array]:
    """For each of three programs the terms of a sum: of the second it may be less than 1."""
    x = np.array([[3, 1, 1, 1], [1, 2**-26, 2**-26, -(2**-26)], [-1, -1, 0, 0]], np.float32)
    return x, np.zeros(3, np.float32), np.zeros(3, np.float32)


def test_of_a_branch_not_determined_nothing_is() -> None:
    body = f"""{DOUBT}
    %r: f32 = if %c {{
      yield %one
    }} else {{
      tile.store %Z, %i, %one
      yield %s
    }}
    tile.store %Y, %i, %r
    """
    y, z = run(HEAD, body, *doubtful(), grid=3)
    assert list(y) == [0, INF, 0]
    assert list(z) == [INF] * 3


def test_of_a_branch_not_determined_no_element_of_a_tile_is() -> None:
    body = f"""{DOUBT}
    %ones: tile<4xf32> = tile.broadcast %one
    %r: tile<4xf32> = if %c {{
      yield %ones
    }} else {{
      %none: tile<4xf32> = sub %ones, %ones
      yield %none
    }}
    %more: tile<4xf32> = add %r, %ones
    tile.store %Y, %at, %more
    """
    x, _, z = doubtful()
    (y,) = run(HEAD, body, x, np.zeros(12, np.float32), z, grid=3)
    assert y.tolist() == [0] * 4 + [INF] * 4 + [0] * 4


def test_of_a_loop_not_determined_nothing_is() -> None:
    body = f"""{DOUBT}
    %c1: i32 = constant 1
    %r: f32 = for %zero, %n, %c1 (%k: i32, %a: f32 = %one) {{
      %b: f32 = add %a, %one
      yield %b
    }}
    %w: f32 = while (%a: f32 = %one) {{
      %more: bool = compare lt %a, %s
      yield %more
    }} do (%a: f32) {{
      %b: f32 = add %a, %one
      yield %b
    }}
    tile.store %Y, %i, %r
    tile.store %Z, %i, %w
    """
    y, z = run(HEAD, body, *doubtful(), grid=3)
    assert list(y) == [0, INF, 0]
    assert list(z) == [0, INF, 0]


def test_an_offset_not_determined_may_be_anywhere() -> None:
    load = f"""{DOUBT}
    %v: f32 = tile.load %X, %n
    tile.store %Y, %i, %v
    """
    assert list(run(HEAD, load, *doubtful(), grid=3)[0]) == [0, INF, 0]
    store = f"""{DOUBT}
    %k: i32 = sub %i, %n
    %k2: i32 = add %k, %n
    tile.store %Y, %k2, %s
    """
    assert list(run(HEAD, store, *doubtful(), grid=3)[0]) == [INF] * 3


def test_a_mask_not_determined_is_of_its_elements() -> None:
    body = f"""{DOUBT}
    %old: f32 = tile.load %X, %i, mask=%c, other=%one
    tile.store %Y, %i, %old
    tile.store %Z, %i, %one, mask=%c
    """
    y, z = run(HEAD, body, *doubtful(), grid=3)
    assert list(y) == [0, INF, 0]
    assert list(z) == [0, INF, 0]


def test_errors_are_kept_in_memory_that_arrays_share() -> None:
    body = f"""{DOUBT}
    tile.store %Y, %i, %s
    %back: f32 = tile.load %W, %i
    tile.store %Z, %i, %back
    """
    x, y, z = doubtful()
    errors = run(f"{HEAD}, %W: ptr<f32>", body, x, y, z, y[:], grid=3)
    for found in errors:
        assert list(found > 0) == [False, True, False]


ATOMIC = """
%i: i32 = tile.program_id 0
%j: i32 = constant 0
%x: {dtype} = tile.load %X, %i
%old: {dtype} = tile.atomic {kind} %Y, %{at}, %x
tile.store %Z, %i, %old
"""


@pytest.mark.parametrize(
    ("kind", "dtype", "at", "updated", "old"),
    [
        ("add", "i32", "j", 0, INF),
        ("add", "i32", "i", 0, 0),
        ("max", "f32", "j", 0, INF),
        ("exchange", "f32", "j", INF, INF),
        ("exchange", "f32", "i", 0, 0),
        ("add", "f32", "i", 0, 0),
    ],
)
def test_atomic_updates(kind: str, dtype: str, at: str, updated: float, old: float) -> None:
    storage = {"i32": np.int32, "f32": np.float32}[dtype]
    x = np.array([1, 2.5, 0.1], np.float32).astype(storage)
    head = ", ".join(f"%{name}: ptr<{dtype}>" for name in "XYZ")
    body = ATOMIC.format(kind=kind, dtype=dtype, at=at)
    y, z = run(head, body, x, np.zeros(3, storage), np.zeros(3, storage), grid=3)
    assert y[0] == updated
    assert list(z) == [old] * 3


def test_floats_are_added_atomically_in_any_order() -> None:
    rng = np.random.default_rng(0)
    body = ATOMIC.format(kind="add", dtype="f32", at="j")
    for x, exact in [(rng.integers(-9, 9, 100), True), (rng.uniform(0.5, 1, 100), False)]:
        x = x.astype(np.float32)
        y, z = np.zeros(1, np.float32), np.zeros(100, np.float32)
        errors, _ = run(HEAD, body, x, y, z, grid=100)
        assert (errors[0] == 0) is np.bool_(exact) or (errors[0] > 0) is np.bool_(not exact)
        for _ in range(50):
            other = np.add.accumulate(rng.permutation(x))[-1]
            assert abs(float(other) - float(y[0])) <= errors[0]
        assert errors[0] <= 100 * 2 * ULP * np.abs(x).sum()


def test_the_interpreter_is_not_changed_by_what_runs_beside_it() -> None:
    body = ATOMIC.format(kind="add", dtype="f32", at="j")
    x, found, expected = np.full(5, 0.1, np.float32), *np.zeros((2, 1), np.float32)
    z = np.zeros(5, np.float32)
    run(HEAD, body, x, found, z, grid=5)
    interp.run(function(HEAD, body), (5, 1, 1), [x, expected, z])
    assert found == expected


# Fast math.


def fast(body: str, *inputs: Any) -> tuple[Array, Array]:
    """What the interpreter makes of %x, %y and so on, and how far any order may be from that."""
    arrays = [np.asarray(x, np.float32) for x in inputs]
    size = len(arrays[0])
    names = "xyzw"[: len(arrays)]
    arguments = ", ".join(f"%{name.upper()}: ptr<f32>" for name in names)
    loads = [f"  %{n}: tile<{size}xf32> = tile.load %{n.upper()}, %i" for n in names]
    lines = [f"  {line.strip()}" for line in body.replace("T", f"tile<{size}xf32>").splitlines()]
    text = [
        f"func tile @f fast_math=true({arguments}, %Out: ptr<f32>) {{",
        f"  %i: tile<{size}xi32> = tile.arange 0",
        *loads,
        *lines,
        "  tile.store %Out, %i, %r",
        "  return",
        "}",
    ]
    (only,) = parse("\n".join(text))
    assert isinstance(only, Func)
    out = np.zeros(size, np.float32)
    (errors,) = bounds.run(only, (1, 1, 1), [*arrays, out], exact_math=False).values()
    return out, errors


def test_terms_that_cancel_may_be_left_out() -> None:
    """`(x + y) - x` may be y."""
    x, y = [1e8, 3e6, 16.0, 1.0], [0.1, 0.3, 0.7, 0.1]
    made, errors = fast("%s: T = add %x, %y\n%r: T = sub %s, %x", x, y)
    assert (np.abs(made - np.float32(y)) <= errors).all()
    assert (errors < 100 * ULP * np.float32(x)).all()


def test_sums_of_products_may_be_products_of_sums() -> None:
    chance = np.random.default_rng(0)
    x, y, z = chance.normal(0, 1, (3, 64)).astype(np.float32)
    made, errors = fast("%a: T = mul %x, %z\n%b: T = mul %y, %z\n%r: T = add %a, %b", x, y, z)
    assert (np.abs(made - (x + y) * z) <= errors).all()
    assert (np.abs(made - np.float32(x * np.float64(z) + y * np.float64(z))) <= errors).all()
    assert (errors < 16 * ULP * (np.abs(x) + np.abs(y)) * np.abs(z)).all()


def test_a_sum_made_by_a_loop_may_be_made_in_any_order() -> None:
    body = """
    %zero: i32 = constant 0
    %one: i32 = constant 1
    %many: i32 = constant 100
    %start: T = constant 0.0
    %r: T = for %zero, %many, %one (%k: i32, %sum: T = %start) {
    %f: f32 = cast %k
    %wide: T = tile.broadcast %f
    %term: T = mul %wide, %x
    %square: T = mul %term, %term
    %next: T = add %sum, %square
    yield %next
    }
    """
    x = np.random.default_rng(0).normal(0, 1, 16).astype(np.float32)
    made, errors = fast(body, x)
    terms = (np.arange(100, dtype=np.float32)[:, None] * x) ** 2
    for order in (terms, terms[::-1], np.sort(terms, 0)):
        assert (np.abs(made - np.add.accumulate(order)[-1]) <= errors).all()
    assert (errors < 100 * 300 * ULP * made).all()


def test_sums_and_products_of_small_integers_are_exact_in_any_order() -> None:
    x, y = np.arange(-8, 8), np.arange(16) % 5
    made, errors = fast("%p: T = mul %x, %y\n%s: T = add %p, %x\n%r: T = sub %s, %y", x, y)
    assert (errors[made != 0] == 0).all()
    assert (errors[made == 0] == 5e-324).all()  # of a zero the sign is not kept


def test_bits_of_what_stays_a_float_are_as_far_off_as_it() -> None:
    made, errors = fast("%q: T = div %x, %y\n%r: T = bitcast %q", [1.0], [3.0])
    assert 0 < errors[0] < 9 * np.spacing(made[0])


def test_infinity_and_nan_stay_what_they_are() -> None:
    made, errors = fast("%s: T = add %x, %y\n%r: T = exp %s", [-INF, INF, NAN, 0], [1, 2, 3, 1])
    np.testing.assert_array_equal(made[:3], [0, INF, NAN])
    assert (np.isfinite(errors)).all()
    assert (errors[1:3] == 0).all()


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("%r: T = sub %x, %y", [[INF], [INF]]),
        ("%a: T = mul %x, %y\n%r: T = mul %a, %x", [[1e30], [1e-30]]),
        ("%r: T = div %x, %y", [[1], [0]]),
        ("%r: T = div %x, %y", [[1], [1e-39]]),
        ("%r: T = sin %x", [[3.2]]),
        ("%r: T = cos %x", [[-INF]]),
    ],
)
def test_what_fast_math_leaves_open(body: str, inputs: Any) -> None:
    assert fast(body, *inputs)[1].tolist() == [INF]


def test_functions_are_as_far_off_as_the_specification_of_fast_math_allows() -> None:
    x = np.array([0.25, -3, 10, 80], np.float32)
    made, errors = fast("%r: T = exp %x", x)
    units = errors / np.spacing(made)
    assert (units >= 3 + np.floor(np.abs(2 * x))).all()
    assert (units <= 5 + 2 * np.abs(x)).all()
    made, errors = fast("%r: T = sin %x", [0.5, 1.0, -3.0, 2.0])
    assert (errors >= 2.0**-13).all() and (errors < 2.0**-12).all()
    made, errors = fast("%r: T = div %x, %y", [1.0, 5.0], [3.0, 7.0])
    assert (errors >= 2.5 * np.spacing(made)).all() and (errors < 9 * np.spacing(made)).all()
    made, errors = fast("%r: T = floordiv %x, %y", [6.0, 7.5], [3.0, 2.5])
    assert made.tolist() == [2, 3] and errors.tolist() == [0, 0]


@pytest.mark.parametrize(("kind", "bound"), [("add", TINY), ("min", TINY), ("exchange", 0.0)])
def test_fast_math_keeps_no_sign_of_zero_in_memory(kind: str, bound: float) -> None:
    body = f"%m: T = tile.atomic {kind} %Out, %i, %x\n%r: T = tile.load %Out, %i"
    assert fast(body, [-0.0])[1].tolist() == [bound]
