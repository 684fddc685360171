"""The check of resources: what is counted, and what the errors say."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given

from iris.analysis.registers import Pressure, most_half_registers
from iris.codegen import emit
from iris.cost.resources import needs_of
from iris.errors import OutOfResources, UserError
from iris.ir import parse
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import run
from iris.passes.metal.check_resources import CheckResources
from iris.targets.apple import M1
from iris.testing import programs
from iris.tools.replay import Program

GPU = M1


HEAD = "%X: ptr<f32>, %n: i32, %yes: bool"


def function(body: str, arguments: str = HEAD) -> Func:
    text = f"func metal @f simdgroups=4({arguments}) {{\n{dedent(body)}\nreturn\n}}\n"
    (only,) = parse(text)
    assert isinstance(only, Func)
    return only


def refused(body: str, arguments: str = HEAD) -> str:
    with pytest.raises(OutOfResources) as caught:
        needs_of(function(body, arguments), GPU)
    return caught.value.message


def registers(body: str) -> int:
    return needs_of(function(body), GPU).registers


# Memory.


def test_all_of_the_memory_may_be_used_in_multiples_of_16_bytes() -> None:
    body = "%a: threadgroup<8188xf32> = metal.alloc\n%b: threadgroup<3xf32> = metal.alloc"
    assert needs_of(function(body), GPU).memory == 32768
    assert "16 more" in refused(body + "\n%c: threadgroup<1xi8> = metal.alloc")


def test_the_error_points_at_the_line_of_the_largest(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("first\n    stage(a)\n")
    body = f"""
        %small: threadgroup<4096xf32> = metal.alloc at "{kernel}":1
        %big: threadgroup<8192xf32> = metal.alloc at "{kernel}":2
        """
    with pytest.raises(UserError, match="needs 49152 bytes") as caught:
        run(parse(f"func metal @f(%n: i32) {{\n{dedent(body)}\nreturn\n}}"), "check-resources")
    spot = caught.value.spot
    assert spot is not None
    assert (spot.line, spot.source) == (2, "    stage(a)")


# Threads and buffers.


def test_threads() -> None:
    needs_of(function(""), replace(GPU, max_threads=128))
    with pytest.raises(OutOfResources, match=r"runs 128 threads, 32 more .* use 3 simdgroups"):
        needs_of(function(""), replace(GPU, max_threads=96))


def test_buffers() -> None:
    def arrays(count: int) -> str:
        return ", ".join(f"%a{n}: ptr<f32>" for n in range(count)) + ", %yes: bool"

    report = 'metal.assert "" %yes'
    needs_of(function("", arrays(30)), GPU)
    needs_of(function(report, arrays(29)), GPU)
    assert refused("", arrays(32)) == (
        "@f takes 32 arrays, 2 more than fit beside the scalars; pass several as one"
    )
    assert "30 arrays, 1 more than fit beside the scalars and the report" in refused(
        report, arrays(30)
    )


# Registers.


def test_what_is_live_together_is_added_up() -> None:
    load = "%x: regs<4xf32> = metal.load %X, %n\n"
    assert registers("") == 0
    assert registers(load) == 4
    assert registers(load + "%y: regs<4xf32> = exp %x\n%z: regs<4xf32> = exp %y") == 4
    assert registers(load + "%y: regs<4xf32> = exp %x\n%z: regs<4xf32> = add %x, %y") == 8
    assert registers("%x: regs<8xf16> = constant 1.0\n%y: regs<8xf16> = exp %x") == 4
    assert registers("%x: regs<8xi8> = constant 1\n%y: regs<8xi8> = neg %x") == 4


def test_a_loop_keeps_what_it_uses_and_what_is_needed_after_it() -> None:
    body = """
        %c0: i32 = constant 0
        %c1: i32 = constant 1
        %x: regs<4xf32> = metal.load %X, %n
        %y: regs<2xf32> = metal.load %X, %n
        %s: regs<4xf32> = for %c0, %n, %c1 (%k: i32, %a: regs<4xf32> = %x) {
          %z: regs<2xf32> = metal.load %X, %k
          %both: regs<4xf32> = metal.join %y, %z
          %b: regs<4xf32> = add %a, %both
          yield %b
        }
        metal.store %X, %n, %x
        metal.store %X, %n, %s
        """
    # x, y, what is carried, what is joined.
    assert registers(body) == 4 + 2 + 4 + 4


def test_branches_do_not_add_up() -> None:
    branch = "%{0}: regs<4xf32> = metal.load %X, %n\nmetal.store %X, %n, %{0}\nyield\n"
    body = f"if %yes {{\n{branch.format('a')}}} else {{\n{branch.format('b')}}}"
    assert registers(body) == 4


def test_a_foreach_fills_its_results_part_by_part() -> None:
    body = """
        %x: regs<4xf32> = metal.load %X, %n
        %y: regs<32xf32> = metal.foreach 8 (%i: i32) {
          %z: regs<4xf32> = exp %x
          yield %z
        }
        """
    assert registers(body) == 4 + 32 + 4 + 1


def test_a_while_carries_through_its_condition() -> None:
    body = """
        %x: regs<4xf32> = metal.load %X, %n
        %r: regs<4xf32> = while (%a: regs<4xf32> = %x) {
          %z: regs<2xf32> = metal.load %X, %n
          metal.store %X, %n, %z
          yield %yes
        } do (%b: regs<4xf32>) {
          yield %b
        }
        """
    assert registers(body) == 6


def test_offsets_share_the_register_of_the_number_that_they_start_from() -> None:
    body = """
        %first: regs<4xi32> = metal.splat %n
        %more: regs<4xi32> = metal.pattern [1, 2]
        %offsets: regs<4xi32> = add %first, %more
        %further: regs<4xi32> = add %more, %offsets
        """
    assert registers(body) == 2
    # Their products are as many numbers.
    assert registers(body + "%squares: regs<4xi32> = mul %further, %further") == 4
    assert registers(body + "%sums: regs<4xi32> = add %further, %offsets") == 4


def test_an_element_that_is_taken_several_times_is_there_once() -> None:
    body = """
        %x: regs<2xf32> = metal.load %X, %n
        %rows: regs<4xf32> = metal.take [INDICES] %x
        metal.store %X, %n, %rows
        """
    assert registers(body.replace("INDICES", "0, 0, 1, 1")) == 2
    assert registers(body.replace("INDICES", "1, 1, 1, 1")) == 2  # both when they are loaded
    assert registers(body.replace("2xf", "4xf").replace("INDICES", "0, 3, 1, 2")) == 4


def test_an_array_whose_halves_are_combined_is_never_there_as_a_whole() -> None:
    loads = """
        %x: regs<16x2xf32> = metal.foreach 16 (%i: i32) {
          %part: regs<1x2xf32> = metal.load %X, %i
          yield %part
        }
        """
    low, high = (", ".join(map(str, range(n, n + 16))) for n in (0, 16))
    halves = f"""
        %a: regs<8x2xf32> = metal.take [{low}] %x
        %b: regs<8x2xf32> = metal.take [{high}] %x
        """
    combine = """
        %y: regs<8x2xf32> = metal.foreach 8 (%j: i32) {
          %c: regs<1x2xf32> = metal.slice %a, %j
          %d: regs<1x2xf32> = metal.slice %b, %j
          %e: regs<1x2xf32> = add %c, %d
          yield %e
        }
        """
    # All of %y; of %x five parts: one of it, and one of the sums of 2, 4, 8 and 16 parts.
    assert registers(loads + halves + combine) == 16
    whole = registers(loads + halves + combine + "%f: f32 = metal.take [0] %x")
    assert whole >= 32


@given(programs.metal())
def test_no_fewer_registers_are_bounded_than_counted(program: Program) -> None:
    most = Pressure(program.function).most
    assert most <= most_half_registers(program.function.body)
    needs = needs_of(program.function, GPU)
    assert [needs.exceed(-(-most // 2) - less) for less in (0, 1)] == [False, most > 0]


def test_the_pass_counts_and_changes_nothing() -> None:
    given = function("%a: threadgroup<4xf32> = metal.alloc")
    module = Module([given.clone({})])
    assert CheckResources().run(module) == {"threadgroup bytes": 16}
    assert run(module, "check-resources") == module


# Numbers.


@pytest.mark.parametrize("dtypes", [["i32"], ["bool", "i64"], ["f16", "f32", "u8"], ["i8"]])
def test_numbers_fit_one_struct_as_the_text_has_it(dtypes: list[str]) -> None:
    """Of as many as fit, the text's struct is no bigger than may be, and one more is too many."""
    body = "%m: i32 = metal.extent 0 %X\n%n: i32 = metal.extent 1 %X\n%k: i32 = add %m, %n"
    body += "\nmetal.store %X, %k, %k"

    def arguments(count: int) -> str:
        given = [f"%a{n}: {dtypes[n % len(dtypes)]}" for n in range(count)]
        return ", ".join(["%X: ptr<i32>", *given])

    def fits(count: int) -> bool:
        try:
            needs_of(function(body, arguments(count)), GPU)
        except OutOfResources as error:
            assert "bytes of numbers" in error.message
            return False
        return True

    most = bisect_left(range(5000), True, key=lambda count: not fits(count)) - 1
    sizes = [emit(function(body, arguments(n))).constants_bytes for n in (most, most + 1)]
    assert sizes[0] <= GPU.constant_bytes < sizes[1]


def test_too_many_numbers() -> None:
    many = ", ".join(f"%a{n}: i64" for n in range(520))
    assert refused("", many) == (
        "@f takes 4160 bytes of numbers, 64 more than are passed without an array; pass some in one"
    )
