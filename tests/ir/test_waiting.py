"""Which loops wait for other programs, as the text of a function tells it."""

from __future__ import annotations

from textwrap import dedent, indent

from iris.ir import parse
from iris.ir.control import Func, While
from iris.ir.waiting import gives_up, shares_memory, stands_still, waiting_loops

HEAD = "%L: ptr<i32, noalias>, %D: ptr<i32, noalias>, %n: i32"
START = "%c0: i32 = constant 0\n%c1: i32 = constant 1\n"
SPIN = """
    while {
      %x: i32 = tile.load %L, %c0, volatile=true
      %more: bool = compare eq %x, %c0
      yield %more
    } do {
      yield
    }
"""
LOCK = """
    while {
      %x: i32 = tile.atomic_cas %L, %c0, %c0, %c1
      %more: bool = compare ne %x, %c0
      yield %more
    } do {
      yield
    }
"""
#: What is asked in the body decides on the next iteration.
CARRIED = """
    %last: i32 = while (%x: i32 = %c0) {
      %more: bool = compare ne %x, %n
      yield %more
    } do (%y: i32) {
      %next: i32 = tile.atomic add %L, %c0, %c1
      yield %next
    }
"""
COUNTS = """
    %last: i32 = while (%x: i32 = %c0) {
      %more: bool = compare ne %x, %n
      yield %more
    } do (%y: i32) {
      %old: i32 = tile.atomic add %L, %c0, %c1
      %next: i32 = add %y, %c1
      yield %next
    }
"""
STALE = SPIN.replace(", volatile=true", "")
FOLLOWS = """
    %last: i32 = while (%x: i32 = %n) {
      %more: bool = compare ne %x, %c0
      yield %more
    } do (%y: i32) {
      %next: i32 = tile.load %L, %y
      yield %next
    }
"""
#: A carried value that is loaded anew from one place settles after the first iteration.
SETTLES = FOLLOWS.replace("%L, %y", "%L, %n")


def function(body: str, level: str = "tile") -> Func:
    text = indent(START + dedent(body).strip(), "  ")
    func = next(iter(parse(f"func {level} @f({HEAD}) {{\n{text}\n  return\n}}\n")))
    assert isinstance(func, Func)
    return func


def loop(body: str) -> While:
    return next(op for op in function(body).walk() if isinstance(op, While))


TRIES = """
    %tries: i32 = while (%i: i32 = %c0) {
      %more: bool = compare lt %i, %n
      %found: bool = if %more {
        %x: i32 = tile.atomic_cas %L, %c0, %c0, %c1
        %taken: bool = compare ne %x, %c0
        yield %taken
      } else {
        %no: bool = constant false
        yield %no
      }
      yield %found
    } do (%j: i32) {
      %next: i32 = add %j, %c1
      yield %next
    }
"""


def test_a_loop_that_counts_its_tries_gives_up() -> None:
    assert gives_up(loop(TRIES)) and len(waiting_loops(function(TRIES))) == 1
    for old, new in [
        ("add %j, %c1", "sub %j, %c1"),
        ("compare lt %i", "compare ne %i"),
        ("constant false", "constant true"),
        ("add %j, %c1", "add %j, %n"),
    ]:
        assert not gives_up(loop(TRIES.replace(old, new)))
    for body in (SPIN, LOCK, CARRIED):
        assert not gives_up(loop(body))


def test_a_loop_waits_if_what_others_write_decides() -> None:
    for body in (SPIN, LOCK, CARRIED):
        assert len(waiting_loops(function(body))) == 1
    for body in (COUNTS, STALE, FOLLOWS):
        assert not waiting_loops(function(body))


def test_a_loop_that_repeats_an_exchange_waits_for_nobody() -> None:
    tries = """
    %last: i32 = while (%x: i32 = %c0) {
      %old: i32, %done: bool = metal.compare_exchange %L, %c0, %c0, %c1
      %failed: bool = not %done
      yield %failed
    } do (%y: i32) {
      yield %y
    }
    """
    assert waiting_loops(function(tries, "metal"))  # it expects the same each time
    again = """
    %go: bool = constant true
    %a: bool, %b: i32 = while (%more: bool = %go, %x: i32 = %c0) {
      yield %more
    } do (%m: bool, %y: i32) {
      %new: i32 = add %y, %c1
      %old: i32, %done: bool = metal.compare_exchange %L, %c0, %y, %new
      %failed: bool = not %done
      yield %failed, %old
    }
    """
    assert not waiting_loops(function(again, "metal"))


def test_what_threads_give_each_other_counts() -> None:
    through_memory = """
    %cell: threadgroup<1xi32> = metal.alloc
    while {
      %x: i32 = metal.load %L, %c0, volatile=true
      metal.store %cell, %c0, %x
      metal.barrier threadgroup
      %y: i32 = metal.load %cell, %c0
      %more: bool = compare eq %y, %c0
      yield %more
    } do {
      yield
    }
    """
    assert waiting_loops(function(through_memory, "metal"))


def test_a_loop_stands_still_if_nothing_changes_its_condition() -> None:
    assert stands_still(loop(STALE))
    assert stands_still(loop(SETTLES))
    for body in (SPIN, LOCK, CARRIED, COUNTS, FOLLOWS):
        assert not stands_still(loop(body))
    stores = STALE.replace("} do {", "} do {\n      tile.store %L, %c0, %n")
    assert not stands_still(loop(stores))


def test_programs_share_what_one_stores_and_another_asks_for() -> None:
    store, load = "tile.store %D, %n, %n\n", "%d: i32 = tile.load %D, %c0\n"
    counts = "%t: i32 = tile.atomic add %L, %c0, %c1\n"
    asks = counts + "tile.store %D, %t, %t\n"
    assert shares_memory(function(store + counts + "tile.store %D, %n, %t\n"))
    assert shares_memory(function(dedent(LOCK) + store))
    assert not shares_memory(function(store + load + counts))  # whose result nobody uses
    assert not shares_memory(function(asks))
    assert not shares_memory(function(asks + load))  # which nobody is told of
    assert not shares_memory(
        function(store + load + asks.replace("tile.store %D", "tile.store %L"))
    )


def test_an_op_that_runs_again_may_follow_itself() -> None:
    asks = "%t: i32 = tile.atomic add %L, %c0, %c1\ntile.store %D, %n, %t\n"
    free = "%free: bool = compare eq %t, %c0\n"
    inside = "%t: i32 = tile.atomic_cas %L, %c0, %c0, %c1\n" + free

    def branch(then: str, otherwise: str = "") -> str:
        return f"if %free {{\n{then}  yield\n}} else {{\n{otherwise}  yield\n}}\n"

    store, give = "tile.store %D, %c0, %c1\n", "%u: i32 = tile.atomic exchange %L, %c0, %c0\n"
    assert not shares_memory(function(asks))
    assert shares_memory(function(f"for %c0, %n, %c1 (%i: i32) {{\n{asks}  yield\n}}\n"))
    assert shares_memory(function(inside + branch(store + give)))
    assert shares_memory(function(inside + branch(store) + give))
    assert not shares_memory(function(inside + branch(give + store)))
    assert not shares_memory(function(inside + branch(store, give)))
