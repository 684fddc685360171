"""Exchanges that share a barrier: which do, and that programs stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from iris.ir import parse, verify
from iris.ir.metal import Barrier
from iris.passes import run
from iris.testing import exchanges, orders
from iris.tools.replay import Program
from shared_programs import execute, shared_program
from support import counts

PASSES = "share-barriers,uniform-conditions,insert-barriers"


def barriers(body: str, size: int = 4) -> int:
    """How many barriers two exchanges, the first of `%x` by `%a`, need with the pass."""
    text = f"""
    func metal @f simdgroups=4(%Y: ptr<f32>, %x: f32, %n: i32) {{
      %c0: i32 = constant 0
      %c1: i32 = constant 1
      %simdgroup: i32 = metal.simdgroup
      %lane: i32 = metal.lane
      %c32: i32 = constant 32
      %start: i32 = mul %simdgroup, %c32
      %thread: i32 = add %start, %lane
      %a: threadgroup<{size}xf32> = metal.alloc
      metal.store %a, %simdgroup, %x
      %first: f32 = metal.load %a, %c0
      {body}
      metal.store %Y, %simdgroup, %second
      return
    }}
    """
    done = run(parse(text), "share-barriers,insert-barriers")
    verify(done)
    return sum(isinstance(op, Barrier) for op in done.walk())


def exchange(value: str, size: int = 4) -> str:
    return f"""
    %b: threadgroup<{size}xf32> = metal.alloc
    metal.store %b, %simdgroup, {value}
    %second: f32 = metal.load %b, %c0
    """


def test_an_exchange_that_needs_the_other_waits_for_it() -> None:
    assert barriers(exchange("%x")) == 1
    assert barriers(f"%y: f32 = mul %first, %x\n{exchange('%y')}") == 2


def test_what_a_store_needs_moves_with_it() -> None:
    assert barriers(f"%y: f32 = metal.load %Y, %c1\n{exchange('%y')}") == 1
    written = "metal.store %Y, %thread, %first\n%y: f32 = metal.load %Y, %thread\n"
    assert barriers(f"{written}{exchange('%y')}") == 2


def test_memory_that_was_touched_before_is_not_written_earlier() -> None:
    again = "metal.store %a, %simdgroup, %x\n%second: f32 = metal.load %a, %c1"
    assert barriers(again) == 3


def test_memory_that_should_be_shared_is_not_kept_longer() -> None:
    assert barriers(exchange("%x", size=3000), size=3000) == 2


@pytest.mark.parametrize("simdgroups", [1, 4])
def test_random_programs_run_as_meant(simdgroups: int) -> None:
    for seed in range(counts(25, 400)):
        program = shared_program(seed, simdgroups)
        done = run(program.module, PASSES)
        verify(done)
        for order in (None, seed, seed + 1):
            got = execute(done, program.arguments(), order)
            for one, want in zip(got, program.expected(), strict=True):
                np.testing.assert_array_equal(one, want, err_msg=program.text)


@settings(max_examples=60)
@given(exchanges.programs())
def test_programs_of_exchanges_keep_their_order(program: Program) -> None:
    orders(PASSES, program)
