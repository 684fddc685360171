"""Barrier insertion: where barriers come, that they are enough, and that none is too many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

from iris.analysis.ordering import barriers
from iris.analysis.windows import Windows
from iris.errors import PipelineError, ProgramError
from iris.interp import metal as interpreter
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.metal import Barrier
from iris.passes import run
from shared_programs import execute, shared_program
from support import counts

HEAD = (
    "%X: ptr<i32, noalias>, %Y: ptr<i32, noalias>, %P: ptr<i32>, %Q: ptr<i32>, %n: i32, %yes: bool"
)
START = """
%lane: i32 = metal.lane
%sg: i32 = metal.simdgroup
%c0: i32 = constant 0
%c1: i32 = constant 1
%c2: i32 = constant 2
%c32: i32 = constant 32
%first: i32 = mul %sg, %c32
%t: i32 = add %first, %lane
%u: i32 = xor %t, %c1
%m: bool = compare lt %t, %c2
%A: threadgroup<256xi32> = metal.alloc
%B: threadgroup<256xi32> = metal.alloc
metal.foreach ROUNDS (%i: i32) {
  %threads: i32 = constant THREADS
  %part: i32 = mul %i, %threads
  %at: i32 = add %part, %t
  metal.store %A, %at, %t
  metal.store %B, %at, %t
  yield
}
metal.barrier threadgroup
"""
PASSES = "uniform-conditions,insert-barriers"  # the first for loops that end by device memory
BARRIER = re.compile(r"^ *metal.barrier \w+$\n?", re.MULTILINE)


def module(body: str, simdgroups: int) -> Module:
    threads = 32 * simdgroups
    start = START.replace("ROUNDS", str(256 // threads)).replace("THREADS", str(threads))
    text = f"{start}{dedent(body)}\nreturn\n"
    return parse(f"func metal @f simdgroups={simdgroups}({HEAD}) {{\n{text}}}\n")


def launch(program: Module, seed: int | None) -> None:
    (function,) = program
    assert isinstance(function, Func)
    x, y, p = (np.arange(256, dtype=np.int32) for _ in range(3))
    arguments: Sequence[Any] = [x, y, p, p, 3, True]
    interpreter.run(function, (1, 1, 1), arguments, interleave=seed)


def is_clean(program: Module) -> bool:
    try:
        for seed in (None, 1, 2, 3):
            launch(program, seed)
    except ProgramError:
        return False
    return True


def placed(expected: str, simdgroups: int = 1, *, needed: bool = True) -> None:
    """The pass puts into a text that has no barriers the ones that it is given with here.  The
    result runs, and, unless they are there for what cannot be known only, not without any."""
    wanted = module(expected, simdgroups)
    done = run(module(BARRIER.sub("", expected), simdgroups), "insert-barriers")
    assert str(done) == str(wanted)
    verify(done)
    assert is_clean(done)
    assert run(done, "insert-barriers") == done
    positions = [i for i, op in enumerate(done.walk()) if isinstance(op, Barrier)]
    for position in positions[1:] if needed else ():
        fewer = done.clone()
        fewer.walk()[position].erase()
        assert not is_clean(fewer), f"the barrier at op {position} is not needed:\n{done}"


# What conflicts.


@pytest.mark.parametrize(("simdgroups", "scope"), [(1, "simdgroup"), (2, "threadgroup")])
def test_what_others_stored_is_loaded_after_a_barrier_and_overwritten_after_one(
    simdgroups: int, scope: str
) -> None:
    placed(
        f"""
        metal.store %A, %t, %n
        metal.barrier {scope}
        %x: i32 = metal.load %A, %u
        metal.barrier {scope}
        metal.store %A, %t, %x
        """,
        simdgroups,
    )


def test_a_thread_needs_none_for_its_own_element() -> None:
    placed(
        """
        %x: i32 = metal.load %X, %u
        metal.store %X, %u, %n
        %again: i32 = xor %t, %c1
        %y: i32 = metal.load %X, %again
        metal.store %X, %u, %y
        """
    )


def test_nor_for_its_own_elements_in_two_loops_of_unordered_rounds() -> None:
    placed(
        """
        metal.foreach 2 (%i: i32) {
          %part: i32 = mul %i, %c32
          %at: i32 = add %part, %t
          metal.store %A, %at, %n
          yield
        }
        metal.foreach 2 (%i: i32) {
          %part: i32 = mul %i, %c32
          %at: i32 = add %part, %t
          %x: i32 = metal.load %A, %at
          metal.store %A, %at, %x
          yield
        }
        """
    )


def test_the_numbers_of_two_such_loops_around_an_access_are_two_numbers() -> None:
    body = """
        metal.foreach 2 (%i: i32) {
          if %yes {
            metal.foreach 2 (%j: i32) {
              %s: i32 = add %i, %i
              metal.store %A, %s, %n
              %r: i32 = add %i, %j
              %x: i32 = metal.load %A, %r
              yield
            }
            yield
          } else {
            yield
          }
          yield
        }
        """
    assert "barrier simdgroup\n        %x:" in str(run(module(body, 1), "insert-barriers"))


def test_a_part_of_the_threads_may_write_what_all_read() -> None:
    placed(
        """
        %one: bool = compare eq %t, %c0
        metal.store %A, %c0, %n, mask=%one
        metal.barrier simdgroup
        %x: i32 = metal.load %A, %c0
        """
    )


def test_so_may_those_that_take_a_branch() -> None:
    placed(
        """
        %one: bool = compare eq %t, %c0
        if %one {
          metal.store %A, %c0, %n
          yield
        } else {
          yield
        }
        metal.barrier simdgroup
        %x: i32 = metal.load %A, %c0
        """
    )


def test_and_those_that_take_it_in_one_round() -> None:
    placed(
        """
        for %c0, %n, %c1 (%k: i32) {
          %turn: bool = compare eq %t, %k
          metal.barrier simdgroup
          if %turn {
            %x: i32 = metal.load %A, %c0
            metal.store %A, %c0, %k
            yield
          } else {
            yield
          }
          yield
        }
        """
    )


def test_under_one_mask_an_element_is_still_a_threads_own() -> None:
    placed(
        """
        metal.store %A, %t, %n, mask=%m
        %x: i32 = metal.load %A, %t, mask=%m, other=%n
        """
    )
    placed(
        """
        metal.store %A, %t, %n
        %x: i32 = metal.load %A, %t, mask=%m, other=%n
        """
    )


def test_of_which_a_part_of_the_threads_load_more() -> None:
    placed(
        """
        %four: i32 = constant 4
        %wide: i32 = mul %lane, %four
        metal.store %A, %wide, %n
        metal.barrier simdgroup
        %x: regs<4xi32> = metal.load %A, %wide
        """,
        needed=False,  # no thread stores what others load here, but offsets alone do not say so
    )


def test_reading_and_atomics_need_none_among_themselves() -> None:
    placed(
        """
        %x: i32 = metal.load %A, %c0
        %y: i32 = metal.load %A, %t
        %a: i32 = metal.atomic add %B, %c0, %n
        %b: i32 = metal.atomic add %B, %c1, %n
        """
    )


@pytest.mark.parametrize(
    "second", ["atomic max %B, %c0, %n", "atomic exchange %B, %c0, %n", "atomic_load %B, %c0"]
)
def test_atomics_do_where_their_order_tells(second: str) -> None:
    placed(
        f"""
        %a: i32 = metal.atomic add %B, %c0, %n
        metal.barrier threadgroup
        %b: i32 = metal.{second}
        metal.store %A, %t, %b
        """,
        2,
        needed=False,  # atomics in the wrong order are no race
    )


def test_an_atomic_in_turns_does_where_its_old_elements_are_used() -> None:
    placed(
        """
        %sum: i32 = for %c0, %n, %c1 (%i: i32, %before: i32 = %c0) {
          metal.barrier threadgroup
          %a: i32 = metal.atomic exchange %B, %t, %i
          %c: i32 = add %before, %a
          yield %c
        }
        """,
        2,
        needed=False,
    )


def test_an_atomic_and_a_plain_access_do() -> None:
    placed(
        """
        %a: i32 = metal.atomic add %A, %c0, %n
        metal.barrier threadgroup
        %x: i32 = metal.load %A, %c0
        metal.barrier threadgroup
        %b: i32 = metal.atomic add %A, %c0, %x
        %c: i32 = metal.atomic add %A, %c1, %x
        """,
        2,
    )


def test_views_conflict_where_they_overlap_in_bytes() -> None:
    placed(
        """
        %low: threadgroup<128xi32> = metal.view 0 %A
        %high: threadgroup<128xi32> = metal.view 512 %A
        %bytes: threadgroup<4xi8> = metal.view 4 %low
        %zero: i8 = constant 0
        metal.store %low, %t, %n
        %x: i32 = metal.load %high, %u
        metal.barrier simdgroup
        %z: i8 = metal.load %bytes, %c1
        """
    )


def test_constant_offsets_that_differ_do_not() -> None:
    placed(
        """
        %one: bool = compare eq %t, %c0
        metal.store %A, %c0, %n, mask=%one
        %x: i32 = metal.load %A, %c1
        %y: i32 = metal.atomic add %A, %c2, %x
        """
    )


def test_device_memory_is_ordered_by_a_device_barrier() -> None:
    placed(
        """
        metal.store %X, %t, %n
        metal.barrier device
        %x: i32 = metal.load %X, %u
        %y: i32 = metal.load %Y, %u
        """
    )


def test_pointers_overlap_unless_declared_otherwise() -> None:
    placed(
        """
        metal.store %P, %t, %n
        metal.barrier device
        %x: i32 = metal.load %Q, %u
        """
    )
    placed("metal.store %P, %t, %n\n%x: i32 = metal.load %X, %u")


# What windows tell apart.


def test_a_window_that_moves_on_by_its_size_meets_no_other_round() -> None:
    body = """
        for %c0, %c64, {step} (%k: i32) {{
          {barrier}metal.foreach 2 (%i: i32) {{
            %part: i32 = mul %i, %c32
            %at: i32 = add %part, %u
            %there: i32 = add %k, %at
            %x: i32 = metal.load %X, %there
            metal.store %Y, %there, %x
            yield
          }}
          yield
        }}
        """
    head = "%c64: i32 = constant 64\n%c63: i32 = constant 63\n"
    placed(head + dedent(body.format(step="%c64", barrier="")))
    placed(head + dedent(body.format(step="%c63", barrier="metal.barrier device\n          ")))


def test_a_shift_that_is_an_error_has_no_window() -> None:
    for shift in ("shl", "shr"):
        body = f"""
            %far: i32 = constant -1
            %e: i32 = {shift} %lane, %far
            metal.store %A, %lane, %n
            %x: i32 = metal.load %A, %e
            """
        assert "barrier simdgroup" in str(run(module(body, 1), "insert-barriers"))


def test_a_window_that_something_else_moves_too_may_meet_it() -> None:
    placed(
        """
        for %c0, %c2, %c1 (%k: i32) {
          %j: i32 = metal.load %P, %k
          %far: i32 = mul %k, %c32
          %from: i32 = sub %far, %j
          %at: i32 = add %from, %lane
          metal.barrier simdgroup
          metal.store %A, %at, %k
          yield
        }
        """
    )


def test_two_loops_one_of_which_goes_on_where_the_other_ends() -> None:
    body = """
        %c5: i32 = constant 5
        %c70: i32 = constant 70
        %low: i32 = mul %n, %c32
        %less: i32 = sub %low, %c1
        %high: i32 = mul %c5, %c32
        for %c0, {end}, %c32 (%k: i32) {{
          %at: i32 = add %k, %lane
          metal.store %A, %at, %k
          yield
        }}
        {barrier}for {start}, %high, %c32 (%k: i32) {{
          %at: i32 = add %k, %lane
          metal.store %A, %at, %c1
          yield
        }}
        """
    barrier = "metal.barrier simdgroup\n        "
    placed(body.format(end="%low", start="%low", barrier=""))
    placed(body.format(end="%low", start="%less", barrier=barrier))
    placed(body.format(end="%c70", start="%low", barrier=barrier), needed=False)


@pytest.mark.parametrize(
    ("offset", "apart"),
    [
        ("%f: i32 = add %lane, %c32", True),
        ("%f: i32 = sub %c63, %lane", True),
        ("%e: i32 = or %u, %c7\n%f: i32 = add %e, %c32", True),
        ("%e: i32 = and %u, %c31\n%f: i32 = add %e, %c32", True),
        ("%e: i32 = shl %lane, %c1\n%f: i32 = add %e, %c32", True),
        ("%e: i32 = shr %lane, %c1\n%f: i32 = add %e, %c32", True),
        ("%w: i64 = cast %lane\n%v: i64 = cast %c32\n%f: i64 = add %w, %v", True),
        ("%e: i32 = shr %lane, %c1\n%f: i32 = sub %c46, %e", False),
        ("%f: i32 = add %lane, %c31", False),
        ("%f: i32 = sub %c32, %lane", False),
        ("%f: i32 = xor %lane, %c7", False),
        ("%f: i32 = add %u, %n", False),
    ],
)
def test_the_bounds_of_an_offset(offset: str, apart: bool) -> None:
    constants = "\n".join(f"%c{n}: i32 = constant {n}" for n in (7, 31, 46, 63))
    body = f"{constants}\nmetal.store %A, %lane, %n\n{offset}\n%x: i32 = metal.load %A, %f\n"
    done = run(module(body, 1), "insert-barriers")
    assert (done == module(body, 1)) is apart
    assert is_clean(done)


# Where barriers come.


def test_one_orders_all_pairs_around_it() -> None:
    placed(
        """
        metal.store %A, %t, %n
        metal.store %B, %t, %n
        metal.barrier simdgroup
        %x: i32 = metal.load %A, %u
        %y: i32 = metal.load %B, %u
        """
    )


def test_one_for_device_memory_serves_for_both() -> None:
    placed(
        """
        metal.store %X, %t, %n
        metal.store %A, %t, %n
        metal.barrier device
        %x: i32 = metal.load %A, %u
        %y: i32 = metal.load %X, %u
        """
    )


def test_the_rounds_of_a_loop_are_ordered() -> None:
    placed(
        """
        for %c0, %n, %c1 (%k: i32) {
          %x: i32 = metal.load %X, %k
          metal.barrier threadgroup
          metal.store %A, %t, %x
          metal.barrier threadgroup
          %y: i32 = metal.load %A, %u
          metal.store %Y, %t, %y
          yield
        }
        """,
        2,
    )


def test_a_loop_that_orders_its_rounds_needs_none_before_it() -> None:
    placed(
        """
        %x: i32 = metal.load %A, %u
        for %c0, %n, %c1 (%k: i32) {
          metal.barrier simdgroup
          metal.store %A, %t, %x
          metal.barrier simdgroup
          %y: i32 = metal.load %A, %u
          yield
        }
        metal.barrier simdgroup
        metal.store %A, %t, %x
        """
    )


def test_across_rounds_an_element_stays_a_threads_own_if_its_offset_does() -> None:
    placed(
        """
        for %c0, %n, %c1 (%k: i32) {
          %x: i32 = metal.load %X, %t
          metal.store %X, %t, %k
          yield
        }
        for %c0, %n, %c1 (%k: i32) {
          %at: i32 = add %t, %k
          metal.barrier device
          %x: i32 = metal.load %X, %at
          metal.store %X, %at, %k
          yield
        }
        """
    )


def test_before_a_loop_rather_than_in_it() -> None:
    loads = """
          %x: i32 = metal.load %A, %u
          metal.store %Y, %t, %x
          yield
        }
        """
    store = "metal.store %A, %t, %n\n        metal.barrier simdgroup\n        "
    placed(f"""
        {store}for %c0, %n, %c1 (%k: i32) {{{loads}""")
    placed(f"""
        {store}metal.foreach 1 (%k: i32) {{{loads}""")


def test_before_a_branch_for_what_comes_before_it() -> None:
    placed(
        """
        metal.store %A, %t, %n
        metal.barrier simdgroup
        %r: i32 = if %m {
          %x: i32 = metal.load %A, %u
          yield %x
        } else {
          yield %n
        }
        """
    )


def test_in_a_branch_for_what_is_in_it() -> None:
    placed(
        """
        if %yes {
          metal.store %A, %t, %n
          metal.barrier simdgroup
          %x: i32 = metal.load %A, %u
          yield
        } else {
          metal.store %B, %t, %n
          yield
        }
        metal.barrier simdgroup
        %x: i32 = metal.load %B, %u
        metal.store %A, %t, %x
        """,
        needed=False,  # one branch is taken in a run
    )


def test_after_what_may_not_run_for_what_comes_before_it() -> None:
    exchange = """
          metal.store %B, %t, %n
          metal.barrier simdgroup
          %z: i32 = metal.load %B, %u
          yield
        }"""
    for inside in (
        f"if %yes {{{exchange} else {{\n          yield\n        }}",
        f"for %n, %n, %c1 (%k: i32) {{{exchange}".replace(
            "metal.store", "metal.barrier simdgroup\n          metal.store"
        ),
    ):
        placed(
            f"""
        metal.store %A, %t, %n
        {inside}
        metal.barrier simdgroup
        %x: i32 = metal.load %A, %u
        """,
            needed=False,  # the branch is taken, the loop does not run
        )


def test_in_a_loop_of_unordered_rounds_for_what_is_in_each() -> None:
    placed(
        """
        metal.foreach 2 (%i: i32) {
          %part: i32 = mul %i, %c32
          %at: i32 = add %part, %t
          %there: i32 = add %part, %u
          %x: i32 = metal.load %A, %at
          metal.barrier simdgroup
          metal.store %A, %there, %x
          yield
        }
        """
    )


def test_between_the_condition_and_the_body_of_a_while() -> None:
    placed(
        """
        %end: i32 = while (%k: i32 = %c0) {
          metal.barrier threadgroup
          %x: i32 = metal.load %A, %k
          %more: bool = compare lt %x, %n
          yield %more
        } do (%l: i32) {
          metal.barrier threadgroup
          metal.store %A, %t, %n
          %next: i32 = add %l, %c1
          yield %next
        }
        metal.barrier threadgroup
        metal.store %A, %t, %n
        """,
        2,
    )


def test_memory_that_a_loop_carries_may_be_any() -> None:
    carried = "%k: i32, %a: ptr<i32> = %P, %b: ptr<i32> = %Q"
    body = f"""
        %p: ptr<i32>, %q: ptr<i32> = for %c0, %n, %c1 ({carried}) {{
          %x: i32 = metal.load %a, %c0
          metal.store %a, %c1, %x
          yield %b, %a
        }}
        """
    done = str(run(module(body, 1), "insert-barriers"))
    assert "  metal.barrier device\n    metal.store %a" in done


M = "threadgroup<256xi32>"


def turns(body: str, carried: str = "%a = %A, %b = %B", yielded: str = "%b, %a") -> str:
    """A loop that carries memory, with a number for each round."""
    given = ", ".join(
        f"{argument}: {M} = {start}"
        for argument, start in (pair.split(" = ") for pair in carried.split(", "))
    )
    results = ", ".join(f"%r{i}: {M}" for i in range(len(yielded.split(", "))))
    lines = indent(dedent(body).strip(), "  ")
    return f"{results} = for %c0, %n, %c1 (%k: i32, {given}) {{\n{lines}\n  yield {yielded}\n}}\n"


def test_memories_that_take_turns_need_one_barrier_in_each_round() -> None:
    """What is written in a round is read in the next one by another name, and what is read there
    is written in the one after that."""
    for first, second in (("load", "store"), ("store", "load")):
        load, store = "%x: i32 = metal.load %a, %u\n", "metal.store %b, %t, %k\n"
        lines = {"load": load, "store": store}
        placed(turns(f"metal.barrier threadgroup\n{lines[first]}{lines[second]}"), 2)


def test_three_that_take_turns() -> None:
    """What is written is read two rounds later."""
    carried, yielded = "%a = %A, %b = %B, %c = %C", "%b, %c, %a"
    other = f"%C: {M} = metal.alloc\nmetal.store %C, %t, %t\n"
    body = "metal.barrier threadgroup\n%x: i32 = metal.load %a, %u\nmetal.store %c, %t, %k\n"
    placed(other + turns(body, carried, yielded), 2)


def test_a_round_may_touch_what_the_last_but_one_did() -> None:
    """Writing alone, every other round is in the way."""
    body = """
        %i: i32 = add %t, %k
        %at: i32 = and %i, %mask
        metal.barrier threadgroup
        metal.store %b, %at, %k
        """
    placed("%mask: i32 = constant 63\n" + turns(body), 2, needed=False)


def test_what_takes_turns_by_its_own_name() -> None:
    body = """
        metal.barrier threadgroup
        %x: i32 = metal.load %a, %u
        metal.barrier threadgroup
        metal.store %A, %t, %x
        """
    placed(turns(body), 2)
    # Another is not touched.
    other = body.replace("metal.barrier threadgroup\n        metal.store %A", "metal.store %C")
    placed(f"%C: {M} = metal.alloc\n" + turns(other.replace("metal.barrier threadgroup\n", "")), 2)


def test_memories_that_do_not_take_turns_may_be_the_same() -> None:
    body = """
        metal.barrier threadgroup
        %x: i32 = metal.load %a, %u
        metal.barrier threadgroup
        metal.store %b, %t, %x
        """
    placed(turns(body, yielded="%b, %b"), 2, needed=False)
    placed(turns(body, carried="%a = %A, %b = %A"), 2)
    parts = """
        %half: threadgroup<128xi32> = metal.view 0 %A
        %rest: threadgroup<128xi32> = metal.view {start} %A
        """
    small = turns(body).replace(M, "threadgroup<128xi32>").replace("%A", "%half")
    small = small.replace("%B", "%rest")
    placed(dedent(parts.format(start=256)) + small, 2, needed=False)
    one = small.replace("metal.barrier threadgroup\n  metal.store", "metal.store")
    placed(dedent(parts.format(start=512)) + one, 2)


def test_after_the_loop_any_of_them_may_have_been_touched() -> None:
    body = "metal.barrier threadgroup\n%x: i32 = metal.load %a, %u\nmetal.store %b, %t, %k\n"
    for name in ("%r0", "%A", "%B"):
        placed(
            turns(body) + f"metal.barrier threadgroup\n%y: i32 = metal.load {name}, %u\n",
            2,
            needed=False,
        )
    # The two are still two.
    placed(
        turns("")
        + "%y: i32 = metal.load %r0, %u\nmetal.store %r1, %t, %y\nmetal.barrier threadgroup\n"
        "%z: i32 = metal.load %r1, %u\n",
        2,
    )


def test_barriers_that_are_there_count() -> None:
    body = """
        metal.store %A, %t, %n
        metal.store %X, %t, %n
        metal.barrier threadgroup
        %x: i32 = metal.load %A, %u
        metal.barrier device
        %y: i32 = metal.load %X, %u
        """
    assert run(module(body, 2), "insert-barriers") == module(body, 2)


def test_a_simdgroups_barrier_is_none_for_the_threadgroup() -> None:
    body = "metal.store %A, %t, %n\nmetal.barrier simdgroup\n%x: i32 = metal.load %A, %u"
    assert run(module(body, 1), "insert-barriers") == module(body, 1)
    wanted = body.replace("simdgroup\n", "simdgroup\nmetal.barrier threadgroup\n")
    assert run(module(body, 2), "insert-barriers") == module(wanted, 2)


def test_where_no_barrier_can_stand_the_module_is_refused() -> None:
    body = """
        if %m {
          metal.store %A, %t, %n
          %x: i32 = metal.load %A, %u
          yield
        } else {
          yield
        }
        """
    with pytest.raises(PipelineError, match=r"in the if, whose %m: bool may .* uniform-conditions"):
        run(module(body, 1), "insert-barriers")


def test_barriers_come_from_the_line_of_what_they_are_for() -> None:
    body = 'metal.store %A, %t, %n\n%x: i32 = metal.load %A, %u at "k.py":7'
    (function,) = run(module(body, 1), "insert-barriers")
    assert [op.location for op in function.walk() if isinstance(op, Barrier)][1:] == [("k.py", 7)]


# Whatever the program.


def runs_as_meant(seed: int, simdgroups: int) -> tuple[int, int]:
    """Run a random program with the barriers it gets, and without each; how many there are, and
    without how many something is reported."""
    program = shared_program(seed, simdgroups)
    done = run(program.module, PASSES)
    verify(done)
    orders = (None, seed, seed + 1, seed + 2)
    expected = program.expected()
    for order in orders:
        for got, want in zip(execute(done, program.arguments(), order), expected, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=program.text)
    positions = [i for i, op in enumerate(done.walk()) if isinstance(op, Barrier)]
    missed = 0
    for position in positions:
        fewer = done.clone()
        fewer.walk()[position].erase()
        try:
            for order in orders[:2]:
                execute(fewer, program.arguments(), order)
        except ProgramError:
            missed += 1
    return len(positions), missed


@pytest.mark.parametrize("simdgroups", [1, 2, 4])
def test_random_programs_run_as_meant_and_not_with_a_barrier_less(simdgroups: int) -> None:
    """A barrier is not missed where its branch is not taken, or its loop not run twice, or where
    the two offsets are of different form but of the same thread: in less than half of the cases."""
    total = missed = 0
    for seed in range(counts(12, 300)):
        one, other = runs_as_meant(seed, simdgroups)
        total, missed = total + one, missed + other
    assert total > 50
    assert missed > total / 2


def test_of_the_barriers_in_random_programs_none_can_go() -> None:
    """Without it, analysis asks for it again; but where one that comes later orders its pairs."""
    total = needed = 0
    for seed in range(counts(60, 600)):
        done = run(shared_program(seed, 2).module, PASSES)
        for position, op in enumerate(done.walk()):
            if isinstance(op, Barrier):
                fewer = done.clone()
                fewer.walk()[position].erase()
                (function,) = fewer
                assert isinstance(function, Func)
                total += 1
                needed += bool(barriers(function, Windows(function)))
    assert needed > 0.99 * total
