"""Threadgroup memory that loops carry: what it holds, and that all checks see through its names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.errors import VerifyError
from iris.interp.metal import run
from metal_programs import fails, function, go

Array = np.ndarray[Any, Any]
M = "threadgroup<64xi32>"
TWO = f"""
%A: {M} = metal.alloc
%B: {M} = metal.alloc
%u: i32 = xor %t, %c1
metal.store %A, %t, %t
metal.barrier threadgroup
"""


def turns(body: str, bound: str = "%n") -> str:
    return (
        f"%r: {M}, %s: {M} = for %c0, {bound}, %c1 (%k: i32, %a: {M} = %A, %b: {M} = %B) {{\n"
        f"{body}\nyield %b, %a\n}}\n"
    )


NEXT = """
%x: i32 = metal.load %a, %u
%y: i32 = add %x, %c2
metal.store %b, %t, %y
metal.barrier threadgroup
"""
LAST = """
%z: i32 = metal.load %r, %u
%at: i32 = mul %p, %c64
%to: i32 = add %at, %t
metal.store %X, %to, %z
"""
ARGUMENTS = "%X: ptr<i32>, %n: i32"


def result(rounds: int) -> Array:
    t = np.arange(64)
    return (t ^ (rounds + 1) % 2) + 2 * rounds


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_what_was_written_is_read_by_the_other_name(rounds: int) -> None:
    x = np.zeros(3 * 64, np.int32)
    go(ARGUMENTS, f"%c64: i32 = constant 64\n{TWO}{turns(NEXT)}{LAST}", [x, rounds], 3, 2)
    assert (x.reshape(3, 64) == result(rounds)).all()


def test_programs_leave_a_loop_with_different_memories() -> None:
    x = np.zeros(4 * 64, np.int32)
    go(ARGUMENTS, f"%c64: i32 = constant 64\n{TWO}{turns(NEXT, '%p')}{LAST}", [x, 0], 4, 2)
    assert (x.reshape(4, 64) == [result(rounds) for rounds in range(4)]).all()


def test_threads_that_do_are_not_run() -> None:
    body = f"%c64: i32 = constant 64\n{TWO}{turns('', '%lane')}"
    go(ARGUMENTS, body, [np.zeros(64, np.int32), 0], 1, 2)
    f = function(ARGUMENTS, body + LAST, 2)
    with pytest.raises(VerifyError, match="threads leave it with different memories as %r"):
        run(f, (1, 1, 1), [np.zeros(64, np.int32), 0])


def test_the_checks() -> None:
    x = np.zeros(64, np.int32)
    late = NEXT.replace("metal.barrier threadgroup", "")
    race = fails(ARGUMENTS, TWO + turns(late), [x, 3], 1, 2).message
    assert "reads element 1 of B, which thread 1" in race
    assert "writes as an element of b, and no barrier" in race
    nothing = turns("%x: i32 = metal.load %b, %t")
    assert (
        "of B is read before anything is written there"
        in fails(ARGUMENTS, TWO + nothing, [x, 1], 1, 2).message
    )
    second = turns("%x: i32 = metal.load %a, %t")
    go(ARGUMENTS, TWO + second, [x, 1], 1, 2)
    assert "of B is read before" in fails(ARGUMENTS, TWO + second, [x, 2], 1, 2).message
    far = turns("%v: i32 = add %t, %c1\nmetal.store %b, %v, %t")
    assert (
        "index 64 is outside B, which has 64" in fails(ARGUMENTS, TWO + far, [x, 1], 1, 2).message
    )


def test_only_for_loops_carry_memory() -> None:
    body = f"""
    %yes: bool = compare lt %n, %c1
    %m: {M} = if %yes {{
      yield %A
    }} else {{
      yield %B
    }}
    """
    f = function(ARGUMENTS, TWO + body, 2)
    with pytest.raises(VerifyError, match="what an allocation, a view or a for loop gives"):
        run(f, (1, 1, 1), [np.zeros(64, np.int32), 0])
