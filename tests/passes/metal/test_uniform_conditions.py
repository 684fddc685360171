"""Uniform conditions: which are given out by one thread, how, and that programs stay the same."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from iris.errors import VerifyError
from iris.ir import parse, verify
from iris.ir.core import Module
from iris.passes import run
from shared_programs import execute, shared_program
from support import counts

HEAD = "%X: ptr<i32>, %n: i32, %x: f32"
START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%lane: i32 = metal.lane
%sg: i32 = metal.simdgroup
%A: threadgroup<128xi32> = metal.alloc
%u: i32 = xor %lane, %c1
%zero: i32 = mul %lane, %c0
%some: bool = compare lt %zero, %n
%part: bool = compare lt %sg, %n
%all: bool = compare lt %c0, %n
"""


def module(body: str, simdgroups: int) -> Module:
    lines = f"{START}{dedent(body)}\nreturn\n"
    return parse(f"func metal @f simdgroups={simdgroups}({HEAD}) {{\n{lines}}}\n")


def becomes(body: str, expected: str, simdgroups: int = 1, before: str = "") -> None:
    done = run(module(body, simdgroups), "uniform-conditions")
    text = str(done)
    rest = text[text.index("  %all: bool") :].partition("\n")[2].removesuffix("  return\n}\n")
    assert dedent(rest) == dedent(expected).strip("\n ") + "\n"
    assert before in text[: text.index("  %c0: i32")]
    verify(done)
    again = run(done, "insert-barriers")
    verify(again)
    assert run(done, "uniform-conditions") == done


def unchanged(body: str, simdgroups: int = 1) -> None:
    assert run(module(body, simdgroups), "uniform-conditions") == module(body, simdgroups)


def branch(condition: str, *lines: str) -> str:
    inside = "\n  ".join(lines)
    return f"if {condition} {{\n  {inside}\n  yield\n}} else {{\n  yield\n}}\n"


SHUFFLE = "%y: f32 = metal.shuffle_xor 1 %x"
EXCHANGE = ("metal.store %A, %lane, %n", "%z: i32 = metal.load %A, %u")


def test_one_lane_decides_for_its_simdgroup() -> None:
    broadcast = """\
%0: i32 = cast %some
%1: i32 = metal.broadcast 0 %0
%some_1: bool = cast %1
"""
    for simdgroups in (1, 4):
        becomes(branch("%some", SHUFFLE), broadcast + branch("%some_1", SHUFFLE), simdgroups)
    becomes(branch("%some", *EXCHANGE), broadcast + branch("%some_1", *EXCHANGE))


@pytest.mark.parametrize("condition", ["%some", "%part"])
def test_one_thread_decides_for_the_threadgroup(condition: str) -> None:
    through_memory = f"""\
%c0_1: i32 = constant 0
%1: i32 = metal.lane
%2: i32 = metal.simdgroup
%3: bool = compare eq %1, %c0_1
%4: bool = compare eq %2, %c0_1
%5: bool = and %3, %4
metal.store %0, %c0_1, {condition}, mask=%5
{condition}_1: bool = metal.load %0, %c0_1
"""
    cell = "%0: threadgroup<1xbool> = metal.alloc"
    for inside in (EXCHANGE, ("metal.barrier threadgroup",)):
        becomes(
            branch(condition, *inside),
            through_memory + branch(f"{condition}_1", *inside),
            simdgroups=2,
            before=cell,
        )


def test_what_is_provably_uniform_stays() -> None:
    for inside in ((SHUFFLE,), EXCHANGE, ("metal.barrier device",)):
        unchanged(branch("%all", *inside), 4)
        unchanged(branch("%part", *inside), 1)
    unchanged(branch("%part", SHUFFLE), 4)


def test_so_does_what_threads_may_each_decide() -> None:
    unchanged(branch("%some", "metal.store %A, %lane, %n", "%z: i32 = metal.load %A, %lane"))
    unchanged("metal.store %A, %lane, %n\n" + branch("%some", "%z: i32 = metal.load %A, %u"))
    unchanged(branch("%some", "%z: i32 = metal.atomic add %X, %c0, %n"), 4)


def test_bounds() -> None:
    becomes(
        f"for %zero, %n, %c1 (%k: i32) {{\n  {SHUFFLE}\n  yield\n}}",
        f"""
%zero_1: i32 = metal.broadcast 0 %zero
for %zero_1, %n, %c1 (%k: i32) {{
  {SHUFFLE}
  yield
}}
""",
    )


def test_bounds_of_64_bits_in_two_parts() -> None:
    becomes(
        f"""
%w: i64 = cast %zero
%one: i64 = cast %c1
for %w, %w, %one (%k: i64) {{
  {SHUFFLE}
  yield
}}
""",
        f"""
%w: i64 = cast %zero
%one: i64 = cast %c1
%c32: i64 = constant 32
%0: i64 = shr %w, %c32
%1: u32 = cast %w
%2: u32 = metal.broadcast 0 %1
%3: i64 = cast %2
%4: u32 = cast %0
%5: u32 = metal.broadcast 0 %4
%6: i64 = cast %5
%7: i64 = shl %6, %c32
%w_1: i64 = or %7, %3
for %w_1, %w_1, %one (%k: i64) {{
  {SHUFFLE}
  yield
}}
""",
    )


def test_the_condition_of_a_while_is_decided_in_each_round() -> None:
    becomes(
        """
while {
  %z: i32 = metal.load %X, %c0
  %more: bool = compare lt %z, %n
  yield %more
} do {
  metal.store %X, %lane, %n
  yield
}
""",
        """
while {
  %z: i32 = metal.load %X, %c0
  %more: bool = compare lt %z, %n
  %0: i32 = cast %more
  %1: i32 = metal.broadcast 0 %0
  %more_1: bool = cast %1
  yield %more_1
} do {
  metal.store %X, %lane, %n
  yield
}
""",
    )


def test_the_outer_condition_comes_first_and_may_make_the_inner_one_uniform() -> None:
    body = "%q: i32 = if %some {\n  yield %c1\n} else {\n  yield %c0\n}\n"
    inner = branch("%again", SHUFFLE).replace("\n", "\n  ").rstrip()
    again = "%again: bool = compare eq %q, %c1\n"
    done = run(module(body + again + inner, 1), "uniform-conditions")
    assert str(done).count("broadcast") == 1
    nested = branch("%some", SHUFFLE, *branch("%part", *EXCHANGE).rstrip().split("\n"))
    done = run(module(nested, 4), "uniform-conditions")
    assert str(done).count("threadgroup<1xbool>") == 2
    verify(run(done, "insert-barriers"))


def test_the_verifier_refuses_what_this_pass_is_for() -> None:
    given = module(branch("%some", SHUFFLE), 1)
    with pytest.raises(VerifyError, match="must run it together"):
        verify(given)
    verify(run(given, "uniform-conditions"))


@pytest.mark.parametrize("simdgroups", [1, 2, 4])
def test_random_programs_run_as_meant(simdgroups: int) -> None:
    given_out = 0
    for seed in range(counts(20, 400)):
        program = shared_program(seed, simdgroups, provable=False)
        uniform = run(program.module, "uniform-conditions")
        given_out += uniform != program.module
        done = run(uniform, "insert-barriers")
        verify(done)
        expected = program.expected()
        for order in (None, seed, seed + 1, seed + 2):
            for got, want in zip(execute(done, program.arguments(), order), expected, strict=True):
                np.testing.assert_array_equal(got, want, err_msg=program.text)
    assert given_out


def test_a_loop_made_uniform_may_need_another_one_to_be() -> None:
    """Where a window was within bounds, it begins at a number once that is the same for all."""
    inner = """
    for %zero, %n, %c1 (%k: i32) {
      for %zero, %n, %c1 (%l: i32) {
        %low: i32 = and %k, %c0
        %at: i32 = add %low, %c1
        metal.store %A, %at, %n
        %z: i32 = metal.load %A, %c0
        yield
      }
      yield
    }
    """
    done = run(module(inner, 1), "uniform-conditions,insert-barriers")
    verify(done)
    assert "metal.barrier" in str(done)
