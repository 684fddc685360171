# ruff: noqa: E501  (IR text)
"""Atomic accesses in thread programs, and simdgroups that run by turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.errors import ProgramError
from iris.interp.metal import run
from iris.ir.types import DTYPES, DType
from metal_programs import function, go, total, when

Array = np.ndarray[Any, Any]
WAYS: list[dict[str, Any]] = [{}, {"chunk_bytes": 1}, {"interleave": 0}, {"interleave": 1}]
ways = pytest.mark.parametrize("way", WAYS, ids=str)
integers = pytest.mark.parametrize("dtype", [DTYPES["i32"], DTYPES["u32"]], ids=str)

FOLDS = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def memory(where: str, body: str, dtype: DType) -> str:
    """The program, on device memory, or on a copy of it in threadgroup memory."""
    if where == "X":
        return body.replace("%M", "%X")
    copy = "%mine: {0} = metal.load %X, %t\nmetal.store %shared, %t, %mine\nmetal.barrier threadgroup\n"
    back = "\nmetal.barrier threadgroup\n%end: {0} = metal.load %shared, %t\nmetal.barrier device\nmetal.store %X, %t, %end"
    text = "%shared: threadgroup<64x{0}> = metal.alloc\n" + copy + body.replace("%M", "%shared")
    return (text + back).replace("{0}", str(dtype))


@ways
@integers
@pytest.mark.parametrize("where", ["X", "shared"])
@pytest.mark.parametrize("kind", FOLDS)
def test_updates(kind: str, where: str, dtype: DType, way: dict[str, Any]) -> None:
    """Each thread updates one of five elements, of which the first is updated most."""
    grid = 3 if where == "X" else 1
    rng = np.random.default_rng(1)
    low, high = np.iinfo(str(np.dtype(f"{dtype.kind.value[0].replace('s', 'i')}4"))).min, 2**31 - 1
    x, y = (rng.integers(low, high, n).astype(f"{'i' if low else 'u'}4") for n in (64, 64 * grid))
    at = np.minimum(np.arange(64) % 8, 4)
    body = f"""
    %eight: i32 = constant 8
    %m: i32 = mod %t, %eight
    %at: i32 = minnum %m, %c4
    %c64: i32 = constant 64
    %a: i32 = mul %p, %c64
    %o: i32 = add %a, %t
    %y: {dtype} = metal.load %Y, %o
    %old: {dtype} = metal.atomic {kind} %M, %at, %y
    """
    want, count = x.copy(), y.reshape(grid, 64)
    for element in range(5):
        values = count[:, at == element].reshape(-1)
        want[element] = FOLDS[kind].reduce(values, initial=x[element], dtype=x.dtype)
    f = function(f"%X: ptr<{dtype}>, %Y: ptr<{dtype}>", memory(where, body, dtype), 2)
    run(f, (grid, 1, 1), [x, y], **way)
    np.testing.assert_array_equal(x, want)


@ways
def test_an_update_gives_what_was_there(way: dict[str, Any]) -> None:
    """Tickets: each thread of each program draws another one."""
    body = """
    %ticket: i32 = metal.atomic add %X, %c0, %c1
    %c64: i32 = constant 64
    %a: i32 = mul %p, %c64
    %o: i32 = add %a, %t
    metal.store %Y, %o, %ticket
    """
    x, y = np.zeros(1, np.int32), np.zeros(192, np.int32)
    run(function("%X: ptr<i32>, %Y: ptr<i32>", body, 2), (3, 1, 1), [x, y], **way)
    assert x.tolist() == [192]
    assert sorted(y.tolist()) == list(range(192))
    if "interleave" not in way:
        assert (np.diff(y) == 1).all()


@ways
def test_exchanges_pass_values_on(way: dict[str, Any]) -> None:
    body = """
    %f: f32 = cast %t
    %old: f32 = metal.atomic exchange %X, %c0, %f
    metal.store %Y, %t, %old
    """
    x, y = np.full(1, -1, np.float32), np.zeros(64, np.float32)
    run(function("%X: ptr<f32>, %Y: ptr<f32>", body, 2), (1, 1, 1), [x, y], **way)
    assert sorted([*y.tolist(), *x.tolist()]) == [-1, *range(64)]


def test_atomics_of_inactive_threads_do_nothing() -> None:
    x = np.zeros(64, np.int32)
    body = "%old: i32 = metal.atomic add %X, %c4, %t\n%seen: i32 = metal.atomic_load %X, %c4"
    go("%X: ptr<i32>", when("lt %t, %c4", body), [x], 2, 2)
    assert x.tolist() == [0, 0, 0, 0, 12] + [0] * 59


# A sum of floats, which has no atomic of its own.
ADD = """
%two: i32 = mod %t, %c2
%x: f32 = cast %t
%start: f32 = metal.atomic_load %X, %two
%true: bool = constant true
%last: f32, %no: bool, %tries: i32 = while (%a: f32 = %start, %g: bool = %true, %n: i32 = %c0) {
  yield %g
} do (%seen: f32, %b: bool, %k: i32) {
  %new: f32 = add %seen, %x
  %now: f32, %done: bool = metal.compare_exchange %X, %two, %seen, %new
  %again: bool = not %done
  %kk: i32 = add %k, %c1
  yield %now, %again, %kk
}
%row: i32 = mul %p, %c64
%o: i32 = add %row, %t
metal.store %Tries, %o, %tries
"""


@pytest.mark.parametrize("way", [*WAYS, *[{"interleave": seed} for seed in range(2, 20)]], ids=str)
def test_a_loop_of_compare_exchange(way: dict[str, Any]) -> None:
    x, tries = np.zeros(2, np.float32), np.zeros(192, np.int32)
    f = function("%X: ptr<f32>, %Tries: ptr<i32>", "%c64: i32 = constant 64\n" + ADD, 2)
    run(f, (3, 1, 1), [x, tries], **way)
    t = np.tile(np.arange(64), 3)
    assert x.tolist() == [t[t % 2 == 0].sum(), t[t % 2 == 1].sum()]
    assert tries.min() >= 1
    assert tries.max() > 10  # they were in each other's way


def test_compare_exchange_fails_for_no_reason_only_by_turns() -> None:
    body = """
    %old: i32, %done: bool = metal.compare_exchange %X, %t, %c0, %t
    %as: i32 = cast %done
    metal.store %Y, %t, %as
    """
    f = function("%X: ptr<i32>, %Y: ptr<i32>", body, 8)
    failures = 0
    for seed in (None, *range(8)):
        x, y = np.zeros((2, 256), np.int32)
        run(f, (1, 1, 1), [x, y], interleave=seed)
        np.testing.assert_array_equal(x, np.where(y, np.arange(256), 0))
        if seed is None:
            assert y.all()
        failures += int((y == 0).sum())
    assert 2048 / 16 < failures < 2048 / 5


def test_compare_exchange_compares_bits() -> None:
    body = """
    %minus: f32 = constant -0.0
    %nan: f32 = constant nan
    %one: f32 = constant 1.0
    %a: f32, %adone: bool = metal.compare_exchange %X, %c0, %minus, %one
    %b: f32, %bdone: bool = metal.compare_exchange %X, %c1, %nan, %one
    """
    x = np.array([0, np.nan], np.float32)
    run(function("%X: ptr<f32>", when("eq %t, %c4", body)), (1, 1, 1), [x])
    assert x.tolist() == [0, 1]


# By turns.


def test_simdgroups_see_each_other_in_many_orders() -> None:
    """Tickets that four simdgroups draw come in an order that depends on the seed; lockstep has
    one that no seed changes."""
    body = """
    for %c0, %c4, %c1 (%i: i32) {
      %ticket: i32 = metal.atomic add %X, %c0, %c1
      %first: bool = compare eq %lane, %c0
      %n: i32 = mul %i, %c4
      %o: i32 = add %n, %sg
      metal.store %Y, %o, %ticket, mask=%first
      yield
    }
    """
    f = function("%X: ptr<i32>, %Y: ptr<i32>", body, 4)
    orders = set()
    for seed in range(20):
        for _ in range(2):
            x, y = np.zeros(1, np.int32), np.zeros(16, np.int32)
            run(f, (1, 1, 1), [x, y], interleave=seed)
            orders.add(tuple(np.argsort(y).tolist()))
        assert len(orders) <= seed + 1  # the same seed gives the same order
    assert len(orders) > 15


def test_a_barrier_keeps_simdgroups_together() -> None:
    """What is counted before a barrier is all counted after it."""
    body = """
    %one: i32 = metal.atomic add %X, %p, %c1
    metal.barrier device
    %seen: i32 = metal.atomic_load %X, %p
    %c128: i32 = constant 128
    %all: bool = compare eq %seen, %c128
    metal.assert "all are there" %all
    """
    for seed in (None, *range(20)):
        f = function("%X: ptr<i32>", body, 4)
        run(f, (3, 1, 1), [np.zeros(3, np.int32)], interleave=seed)
    with pytest.raises(ProgramError, match="all are there"):
        f = function("%X: ptr<i32>", body.replace("metal.barrier device", ""), 4)
        run(f, (3, 1, 1), [np.zeros(3, np.int32)], interleave=0)


def test_an_allocation_in_a_loop_by_turns() -> None:
    """One simdgroup may come to an allocation when another has already written to it."""
    body = f"""
    %end: i32 = for %c0, %c4, %c1 (%i: i32, %x: i32 = %t) {{
      {total(4)}
      metal.barrier threadgroup
      yield %sum
    }}
    metal.store %Y, %t, %end
    """
    y = np.zeros(128, np.int32)
    go("%Y: ptr<i32>", body, [y], 1, 4, interleavings=20)
    wide = np.array(128 * 127 // 2 * 128**3)
    assert (y == wide.astype(np.int32)).all()
