"""Allocation of threadgroup memory: what shares it, when, and that programs stay the same."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from iris.ir import parse, verify
from iris.ir.core import Module
from iris.ir.metal import Alloc, View
from iris.ir.types import Threadgroup
from iris.passes import run
from iris.passes.pipeline import Pipeline
from shared_programs import execute, shared_program
from support import counts

START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%x: f32 = constant 1.0
%h: f16 = constant 1.0
"""


def module(body: str) -> Module:
    lines = f"{START}{dedent(body)}\nreturn\n"
    return parse(f"func metal @f simdgroups=1(%n: i32, %yes: bool) {{\n{lines}}}\n")


def allocated(body: str, budget: int = 0) -> str:
    done = run(module(body), f"allocate-threadgroup{{budget={budget}}}")
    verify(done)
    return str(done)


def arenas(body: str, budget: int = 0) -> dict[str, int]:
    """Of what is allocated in the end, how many bytes each takes."""
    ops = parse(allocated(body, budget)).walk()
    sizes = {}
    for op in ops:
        if isinstance(op, Alloc):
            type_ = op.result.type
            assert isinstance(type_, Threadgroup)
            sizes[op.result.name or ""] = type_.bytes
    return sizes


def alloc(name: str, count: int, element: str = "f32") -> str:
    return f"%{name}: threadgroup<{count}x{element}> = metal.alloc\n"


def use(*names: str) -> str:
    return "".join(f"metal.store %{name}, %c0, %x\n" for name in names)


ONE_AFTER_THE_OTHER = """
%a: threadgroup<4096xf32> = metal.alloc
metal.store %a, %c0, %x
%y: f32 = metal.load %a, %c1
%b: threadgroup<8192xf16> = metal.alloc
metal.store %b, %c0, %h
%w: f16 = metal.load %b, %c1
"""


def rounds(body: str) -> str:
    return f"for %c0, %n, %c1 (%i: i32) {{\n{body}\nyield\n}}\n"


def test_nothing_is_shared_in_a_loop_within_the_budget() -> None:
    body = rounds(ONE_AFTER_THE_OTHER)
    given = str(module(body))
    assert allocated(body, 32768) == given
    assert allocated(body, 32767) != given
    assert str(run(module(body), "allocate-threadgroup")) != given
    assert str(Pipeline.parse("allocate-threadgroup")) == "allocate-threadgroup"


@pytest.mark.parametrize(
    ("count", "shared"),
    [
        (4096, True),  # 32 KiB: one program on a core, which has room for three of half of that
        (512, True),
        (320, False),  # 2560 bytes, as 24 programs may have
    ],
)
def test_outside_loops_it_is_shared_where_a_core_then_holds_more(count: int, shared: bool) -> None:
    body = ONE_AFTER_THE_OTHER.replace("4096", str(count)).replace("8192", str(2 * count))
    assert (allocated(body, 32768) != str(module(body))) is shared


def test_what_a_loop_uses_shares_with_what_comes_after_it() -> None:
    loop = rounds(alloc("a", 2048) + alloc("b", 2048) + use("a") + use("b"))
    body = loop + alloc("c", 4096) + use("c")
    assert arenas(body, 32768) == {"arena": 16384}
    text = allocated(body, 32768)
    assert "%a: threadgroup<2048xf32> = metal.view 0 %arena" in text
    assert "%b: threadgroup<2048xf32> = metal.view 8192 %arena" in text
    assert "%c: threadgroup<4096xf32> = metal.view 0 %arena" in text


def test_what_is_in_use_together_lies_apart() -> None:
    body = alloc("a", 100) + alloc("b", 10) + alloc("c", 30) + use("a", "b", "a", "c", "b")
    assert arenas(body) == {"arena": 400, "b": 40}
    text = allocated(body)
    assert "%a: threadgroup<100xf32> = metal.view 0 %arena" in text
    assert "%c: threadgroup<30xf32> = metal.view 0 %arena" in text
    together = alloc("a", 100) + alloc("b", 10) + use("a", "b", "a")
    assert arenas(together) == {"a": 400, "b": 40}


def test_small_ones_share_a_large_one_from_multiples_of_16_bytes_on() -> None:
    body = alloc("a", 100) + alloc("b", 9) + alloc("c", 10) + use("a", "b", "c", "b")
    assert arenas(body) == {"arena": 400}
    starts = [op.start for op in parse(allocated(body)).walk() if isinstance(op, View)]
    assert starts == [0, 0, 48]


def loop(*lines: str) -> str:
    return "for %c0, %n, %c1 (%k: i32) {\n" + "".join(lines) + "yield\n}\n"


def test_what_a_loop_uses_is_in_use_in_all_its_rounds() -> None:
    outside = alloc("a", 100) + alloc("b", 100) + loop(use("a"), use("b"))
    assert arenas(outside) == {"a": 400, "b": 400}
    inside = loop(alloc("a", 100), use("a"), alloc("b", 100), use("b"))
    assert arenas(inside) == {"arena": 400}
    before = alloc("a", 100) + alloc("b", 100) + use("a") + loop(use("b"))
    assert arenas(before) == {"arena": 400}
    around = alloc("a", 100) + loop(use("a"), alloc("b", 100), use("b"))
    assert arenas(around) == {"a": 400, "b": 400}


def test_two_branches_share() -> None:
    body = (
        alloc("a", 100)
        + alloc("b", 100)
        + f"if %yes {{\n{use('a')}yield\n}} else {{\n{use('b')}yield\n}}\n"
    )
    assert arenas(body) == {"arena": 400}
    assert arenas(body + use("a")) == {"a": 400, "b": 400}


def test_views_are_uses() -> None:
    view = "%v: threadgroup<4xf32> = metal.view 16 %a\n"
    body = alloc("a", 100) + view + alloc("b", 100) + use("a", "b")
    assert arenas(body) == {"arena": 400}
    assert arenas(body + use("v")) == {"a": 400, "b": 400}


def test_what_a_loop_carries_is_in_use_by_all_its_names() -> None:
    type_ = "threadgroup<100xf32>"
    carried = f"""
        %r: {type_}, %s: {type_} = for %c0, %n, %c1 (%k: i32, %p: {type_} = %a, %q: {type_} = %b) {{
          metal.store %q, %c0, %x
          yield %q, %p
        }}
        """
    start = alloc("a", 100) + alloc("b", 100) + alloc("c", 100) + use("a")
    assert arenas(start + dedent(carried) + use("c")) == {"arena": 400, "b": 400}
    assert arenas(start + use("c") + dedent(carried)) == {"a": 400, "arena": 400}
    assert arenas(start + dedent(carried) + use("c", "r")) == {"a": 400, "b": 400, "c": 400}
    inside = dedent(carried).replace("  yield", f"  {use('c')}  yield")
    assert arenas(start + inside) == {"a": 400, "b": 400, "c": 400}


def test_what_a_branch_yields_is_in_use_by_its_name_too() -> None:
    type_ = "threadgroup<100xf32>"
    chosen = f"%p: {type_} = if %yes {{\nyield %a\n}} else {{\nyield %b\n}}\n"
    body = alloc("a", 100) + alloc("b", 100) + alloc("c", 100) + use("a") + chosen
    assert arenas(body + use("c", "p")) == {"a": 400, "arena": 400}
    assert arenas(body + use("b", "c", "p")) == {"a": 400, "b": 400, "c": 400}
    assert arenas(body + use("b", "p", "c")) == {"arena": 400, "b": 400}


def test_unused_memory_is_left_to_dce() -> None:
    assert arenas(alloc("a", 100) + alloc("b", 100) + use("b")) == {"a": 400, "b": 400}


@pytest.mark.parametrize("simdgroups", [1, 4])
def test_random_programs_run_as_meant(simdgroups: int) -> None:
    """Barriers that are inserted afterwards keep apart what shares memory."""
    shared = 0
    for seed in range(counts(25, 400)):
        program = shared_program(seed, simdgroups)
        sharing = run(program.module, "allocate-threadgroup{budget=0}")
        shared += sharing != program.module
        done = run(sharing, "uniform-conditions,insert-barriers")
        verify(done)
        for order in (None, seed, seed + 1):
            got = execute(done, program.arguments(), order)
            for one, want in zip(got, program.expected(), strict=True):
                np.testing.assert_array_equal(one, want, err_msg=program.text)
    assert shared
