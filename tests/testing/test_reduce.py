"""Programs become as small as they get, and stay valid."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from iris.errors import ProgramError
from iris.ir import metal, tile, verify
from iris.ir.control import For
from iris.ir.core import OPS
from iris.ir.math import Add, Constant, constant_bits
from iris.passes import Pipeline
from iris.testing import preserves, programs
from iris.testing.edits import load, of_threads, ops_of
from iris.testing.faults import Fault, Wrong
from iris.testing.reduce import reduce
from iris.testing.report import ReplayFile
from iris.tools.replay import Program

NESTED = """\
# grid: 4, 2, 1
# argument %X: f32[128] seed=3
# argument %Y: f32[128] alias=%X
# argument %Z: f32[256] seed=4
# argument %n: 9

func tile @f(%X: ptr<f32>, %Y: ptr<f32>, %Z: ptr<f32>, %n: i32) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %i: tile<64xi32> = tile.arange 0
  %yes: bool = compare lt %c0, %n
  %zero: tile<64xf32> = constant 0.0
  %sum: tile<64xf32> = for %c0, %n, %c1 (%k: i32, %s: tile<64xf32> = %zero) {
    %x: tile<64xf32> = tile.load %X, %i
    %e: tile<64xf32> = if %yes {
      %a: tile<64xf32> = exp %x
      yield %a
    } else {
      yield %x
    }
    %t: tile<64xf32> = add %s, %e
    yield %t
  }
  tile.store %Z, %i, %sum
  return
}
"""


def has(program: Program, name: str) -> bool:
    return any(isinstance(op, OPS[name]) for op in ops_of(program))


@pytest.mark.parametrize(("name", "most"), [("exp", 3), ("for", 6), ("if", 6), ("tile.load", 4)])
def test_what_matters_stays(name: str, most: int) -> None:
    small = reduce(Program.parse(NESTED), lambda p: has(p, name))
    verify(small.module)
    assert has(small, name)
    assert len(ops_of(small)) <= most, str(small)
    assert small.grid == (1, 1, 1)
    again = Program.parse(str(small))
    assert again.module == small.module


def test_the_launch_shrinks() -> None:
    small = reduce(Program.parse(NESTED), lambda p: has(p, "tile.load"))
    text = str(small)
    assert "tile<1xf32>" in text and "64" not in text
    assert "seed" not in text and "%n" not in text
    (parameter,) = small.function.body.arguments
    assert parameter.name == "X" and parameter.index == 0


THREADS = """\
# grid: 3, 1, 1

func metal @f simdgroups=4() {
  %lane: i32 = metal.lane
  %arena: threadgroup<512xu8> = metal.alloc
  %part: threadgroup<128xf32> = metal.view 0 %arena
  %zero: regs<4xf32> = constant 0.0
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c9: i32 = constant 9
  %start: f32 = constant 1.0
  %a: f32, %b: i32 = for %c0, %c9, %c1 (%i: i32, %x: f32 = %start, %y: i32 = %lane) {
    %next: i32 = add %y, %i
    metal.store %part, %next, %zero
    yield %x, %next
  }
  return
}
"""


def test_threads_registers_and_carried_values_become_fewer() -> None:
    program = Program.parse(THREADS)
    text = str(reduce(program, lambda p: has(p, "metal.store") and has(p, "for")))
    assert "simdgroups=1" in text and "grid: 1, 1, 1" in text
    assert "regs" not in text and "view" not in text
    assert "yield\n" in text


MIXED = """\
# grid: 1, 1, 1
# argument %X: bf16[4] data=[1.5, -2.0]
# argument %Y: f32[4]

func tile @f(%X: ptr<bf16>, %Y: ptr<f32>) {
  %id: i32 = tile.program_id 0
  %c3: i32 = constant 3
  %a: i32 = mul %id, %c3
  %b: i32 = shl %a, %c3
  %x: bf16 = tile.load %X, %b
  %y: f32 = cast %x
  tile.store %Y, %b, %y
  return
}
"""


LAID_OUT = """\
# grid: 1, 1, 1
# argument %Y: f32[64]

func tile @f simdgroups=2(%Y: ptr<f32>) {
  %at: tile<64xi32, linear<64, register=[], lane=[1, 2, 4, 8, 16], simdgroup=[32]>> = tile.arange 0
  %x: tile<64xf32, linear<64, register=[], lane=[1, 2, 4, 8, 16], simdgroup=[32]>> = constant 1.0
  tile.store %Y, %at, %x
  return
}
"""


def test_as_many_simdgroups_stay_as_hold_a_tile() -> None:
    program = Program.parse(LAID_OUT)
    assert [edit(program) for edit in of_threads(program)] == [None]


def test_elements_become_of_one_type_and_indices_simple() -> None:
    def stores_by_index(program: Program) -> bool:
        stores = [op for op in ops_of(program) if isinstance(op, tile.Store)]
        made = [[v.op for v in (store.offset, store.value)] for store in stores]
        return any(not {None, Constant} & {op and type(op) for op in ops} for ops in made)

    small = reduce(Program.parse(MIXED), lambda p: has(p, "tile.load") and stores_by_index(p))
    assert [op.name for op in ops_of(small)] == [
        *("tile.program_id", "tile.load", "tile.store", "return")
    ]
    assert "bf16" not in str(small) and "-2.0" not in str(small)


def test_numbers_are_drawn_that_the_new_type_has() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: i64[4] seed=1 range=[-9223372036854775808, 9223372036854775807]

func tile @f(%X: ptr<i64>) {
  %c0: i32 = constant 0
  %x: i64 = tile.load %X, %c0
  tile.store %X, %c0, %x
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        return has(candidate, "tile.load") and "seed" in str(candidate)

    small = reduce(program, fails)
    assert "i64" not in str(small)
    assert Program.parse(str(small)).module == small.module


def test_an_edit_that_makes_nothing_lighter_may_lead_to_less() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1

func metal @f simdgroups=1() {
  %simdgroup: i32 = metal.simdgroup
  %lane: i32 = metal.lane
  %twice: i32 = add %lane, %lane
  %shared: threadgroup<64xi32> = metal.alloc
  metal.store %shared, %twice, %twice
  metal.store %shared, %simdgroup, %twice
  return
}
"""
    )
    wanted = [["add", "metal.simdgroup"], ["add", "metal.lane"], ["metal.lane"] * 2]

    def fails(candidate: Program) -> bool:
        """The first index becomes simple only once the second one is another."""
        ops = ops_of(candidate)
        offsets = [op.offset.op for op in ops if isinstance(op, metal.Store)]
        doubled = [v.op for op in ops if isinstance(op, Add) for v in op.operands]
        names = [op.name for op in offsets if op is not None]
        return names in wanted and all(isinstance(op, metal.Lane) for op in doubled)

    names = [op.name for op in ops_of(reduce(program, fails))]
    assert "add" not in names and "metal.simdgroup" not in names


def test_what_a_loop_used_stays_without_the_loop() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1

func metal @f simdgroups=1() {
  %lane: i32 = metal.lane
  %shared: threadgroup<128xi32> = metal.alloc
  metal.store %shared, %lane, %lane
  %parts: regs<4xi32> = metal.foreach 4 (%i: i32) {
    %x: i32 = metal.load %shared, %lane
    yield %x
  }
  return
}
"""
    )
    small = reduce(program, lambda p: has(p, "metal.store") and has(p, "metal.load"))
    assert not has(small, "metal.foreach")


def test_what_an_op_must_be_given_stays() -> None:
    text = NESTED.replace(
        "%t: tile<64xf32> = add %s, %e",
        "%t: tile<64xf32> = add %s, %e\n"
        "    %m: tile<8x8xf32> = tile.reshape %t\n    %p: tile<8x8xf32> = tile.dot %m, %m",
    )
    small = reduce(Program.parse(text), lambda p: has(p, "tile.dot"))
    assert [op.name for op in ops_of(small)] == ["constant", "tile.dot", "return"]


def test_no_second_more_than_given() -> None:
    program = Program.parse(NESTED)
    assert reduce(program, lambda p: True, seconds=-1) is program


def test_each_smaller_program_is_told() -> None:
    told: list[Program] = []
    small = reduce(Program.parse(NESTED), lambda p: has(p, "exp"), kept=told.append)
    assert told[-1] is small
    assert all(has(p, "exp") for p in told)


@settings(max_examples=10)
@given(programs.tile().filter(lambda program: len(ops_of(program)) > 12))
def test_only_valid_programs_are_tried(program: Program) -> None:
    def fails(candidate: Program) -> bool:
        verify(candidate.module)
        return len(ops_of(candidate)) > 12

    assert len(ops_of(reduce(program, fails, seconds=0.5))) > 12


@settings(max_examples=10)
@given(programs.graph())
def test_graphs_shrink_to_nothing(program: Program) -> None:
    assert len(ops_of(reduce(program, lambda p: True))) == 1


def test_the_file_is_replaced_by_smaller_programs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = Program.parse(NESTED)
    small = reduce(program, lambda p: has(p, "exp"))
    wrong = Wrong("failed", "", "", ValueError())
    fault = Fault(program, Pipeline.parse("cse"), wrong)
    file = ReplayFile(fault)
    file.keep(replace(fault, program=small))
    file.keep(fault)
    assert Program.parse(file.path.read_text()).module == small.module
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]
    assert str(file).splitlines()[0] == "to see it again:"


def test_an_interrupt_leaves_the_smallest_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, told = ReplayFile.keep, list[Program]()

    def keep(file: ReplayFile, fault: Fault) -> None:
        real(file, fault)
        told.append(fault.program)
        if len(told) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(ReplayFile, "keep", keep)
    wrong_order = NESTED.replace("grid: 4, 2, 1", "grid: 200, 2, 1")  # a race
    with pytest.raises(KeyboardInterrupt):
        preserves("cse", Program.parse(wrong_order))
    (file,) = (tmp_path / "iris-failures").iterdir()
    assert Program.parse(file.read_text()).module == told[-1].module


@pytest.mark.parametrize("wanted", range(20))
def test_one_store_of_many_is_found_by_halves(wanted: int) -> None:
    stores = "".join(f"  tile.store %Y{n}, %c{n}, %x\n" for n in range(20))
    indices = "".join(f"  %c{n}: i32 = constant {n}\n" for n in range(20))
    pointers = ", ".join(f"%Y{n}: ptr<f32>" for n in range(20))
    recipes = "".join(f"# argument %Y{n}: f32[20]\n" for n in range(20))
    program = Program.parse(
        f"# grid: 1, 1, 1\n{recipes}"
        f"func tile @many({pointers}) {{\n{indices}  %x: f32 = constant 3.0\n{stores}  return\n}}\n"
    )
    tried: list[int] = []

    def fails(candidate: Program) -> bool:
        tried.append(len(ops_of(candidate)))
        return any(v.name == f"Y{wanted}" and v.users for v in candidate.function.body.arguments)

    reduce(program, fails)
    # A store, its operands and the end are left: far sooner than if stores went one by one.
    assert tried.index(4) <= 12


def test_an_allocation_goes_with_its_accesses() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %Y: f32[64]

func metal @f simdgroups=1(%Y: ptr<f32>) {
  %lane: i32 = metal.lane
  %x: f32 = constant 1.0
  %a: threadgroup<64xf32> = metal.alloc
  metal.store %a, %lane, %x
  metal.store %Y, %lane, %x
  %c32: i32 = constant 32
  %at: i32 = add %lane, %c32
  metal.store %a, %at, %x
  metal.store %Y, %at, %x
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        (array,) = candidate.function.body.arguments
        return len(array.users) == 2

    assert not any(op.name == "metal.alloc" for op in ops_of(reduce(program, fails)))


def test_no_edits_undo_each_other() -> None:
    """Nothing is tried twice, and the search ends by itself."""
    tried: list[str] = []

    def fails(candidate: Program) -> bool:
        tried.append(str(candidate))
        return has(candidate, "tile.load") and has(candidate, "exp")

    began = time.monotonic()
    reduce(Program.parse(NESTED), fails, seconds=60)
    assert time.monotonic() - began < 30
    assert len(tried) == len(set(tried))


def test_edits_of_ops_lower_the_load() -> None:
    loads: list[tuple[float, ...]] = []
    reduce(Program.parse(NESTED), lambda p: has(p, "exp"), kept=lambda p: loads.append(load(p)))
    computing = [first for first, *_ in loads]
    assert computing == sorted(computing, reverse=True)


def test_what_is_computed_of_numbers_becomes_a_number() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: f32[64]
# argument %n: 3

func tile @f(%X: ptr<f32>, %n: i32) {
  %c4: i32 = constant 4
  %x: f32 = constant 1.0
  %at: i32 = shl %n, %c4
  tile.store %X, %at, %x
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        arguments = candidate.make_arguments()
        with suppress(ProgramError):  # an index may be out of bounds by now
            candidate.run(arguments)
        return len(arguments) > 0 and arguments[0].size > 48 and arguments[0][48] == 1.0

    small = reduce(program, fails)
    assert [op.name for op in ops_of(small)] == ["constant"] * 2 + ["tile.store", "return"]
    assert "constant 48" in str(small)


@pytest.mark.parametrize("dtype", ["bool", "i8", "u64", "f16", "bf16", "f32"])
def test_numbers_of_all_types_are_computed(dtype: str) -> None:
    function = "not" if dtype == "bool" else "abs"
    number, result = ("true", "false") if dtype == "bool" else ("3", "3")
    if dtype.endswith(("16", "32")):
        number, result = "3.0", "3.0"
    program = Program.parse(
        f"""\
# grid: 1, 1, 1
# argument %X: {dtype}[1]

func tile @f(%X: ptr<{dtype}>) {{
  %c0: i32 = constant 0
  %n: {dtype} = constant {number}
  %y: {dtype} = {function} %n
  tile.store %X, %c0, %y
  return
}}
"""
    )

    def fails(candidate: Program) -> bool:
        arguments = candidate.make_arguments()
        is_same = [a.dtype for a in arguments] == [a.dtype for a in program.make_arguments()]
        candidate.run(arguments)
        stored = [op for op in ops_of(candidate) if isinstance(op, tile.Store)]
        return (
            is_same
            and [str(op.value.type) for op in stored] == [dtype]
            and (arguments[0].tobytes() == expected)
        )

    (array,) = program.make_arguments()
    program.run([array])
    expected = array.tobytes()
    small = reduce(program, fails)
    assert f"constant {result}" in str(small)
    assert not has(small, function)


def test_ops_without_their_last_operands_need_not_be_valid() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: f32[8]

func tile @f(%X: ptr<f32>) {
  %x: tile<8xf32> = constant 1.0
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c8: i32 = constant 8
  tile.store_tile %X, %x, offsets=[%c0], strides=[%c1], bounds=[%c8]
  return
}
"""
    )
    small = reduce(program, lambda candidate: has(candidate, "tile.store_tile"))
    assert [op.name for op in ops_of(small)] == ["constant"] * 2 + ["tile.store_tile", "return"]


def test_a_number_becomes_simpler_where_one_of_its_users_lets_it() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: f32[64]

func tile @f(%X: ptr<f32>) {
  %c6: i32 = constant 6
  %c1: i32 = constant 1
  %six: f32 = constant 6.0
  for %c6, %c6, %c1 (%i: i32) {
    tile.store %X, %i, %six
    yield
  }
  tile.store %X, %c6, %six
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        arguments = candidate.make_arguments()
        with suppress(ProgramError):
            candidate.run(arguments)
        stored = len(arguments) > 0 and arguments[0].size > 6 and arguments[0][6] == 6.0
        return stored and has(candidate, "for")

    small = reduce(program, fails)
    (loop,) = [op for op in ops_of(small) if isinstance(op, For)]
    assert [constant_bits(bound) for bound in loop.operands[:2]] == [0, 0]


def test_the_last_program_alone_has_its_number() -> None:
    program = Program.parse(
        """\
# grid: 3, 2, 1
# argument %X: i32[64]

func tile @f(%X: ptr<i32>) {
  %x: i32 = tile.program_id 0
  %y: i32 = tile.program_id 1
  %c3: i32 = constant 3
  %row: i32 = mul %y, %c3
  %at: i32 = add %row, %x
  %value: i32 = tile.load %X, %at
  %one: i32 = constant 1
  %next: i32 = add %value, %one
  tile.store %X, %at, %next
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        arguments = candidate.make_arguments()
        with suppress(ProgramError):
            candidate.run(arguments)
        return len(arguments) > 0 and arguments[0].size > 5 and arguments[0][5] == 1

    small = reduce(program, fails)
    assert small.grid == (1, 1, 1)
    assert [op.name for op in ops_of(small)] == ["constant"] * 2 + ["tile.store", "return"]


def test_fewer_programs_have_as_much_less_of_an_array() -> None:
    program = Program.parse(
        """\
# grid: 4, 2, 1
# argument %X: i32[32, 8]
# argument %n: 8

func metal @f simdgroups=1(%X: ptr<i32>, %n: i32) {
  return
}
"""
    )
    made = [edit(program) for edit in of_threads(program)]
    launched = [(p.grid, p.make_arguments()[0].size) for p in made if p is not None]
    assert {((1, 2, 1), 64), ((2, 2, 1), 128), ((4, 1, 1), 128), ((1, 1, 1), 256)} <= {*launched}


def test_what_is_loaded_in_a_loop_is_loaded_later_without_it() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: i32[1]
# argument %Y: i32[1]

func tile @f(%X: ptr<i32>, %Y: ptr<i32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c2: i32 = constant 2
  for %c0, %c2, %c1 (%i: i32) {
    %x: i32 = tile.load %X, %c0
    tile.store %X, %c0, %c1
    tile.store %Y, %c0, %x
    yield
  }
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        arguments = candidate.make_arguments()
        with suppress(ProgramError):
            candidate.run(arguments)
        return len(arguments) == 2 and arguments[1].tolist() == [1] and has(candidate, "tile.load")

    assert not has(reduce(program, fails), "for")


def test_another_value_stands_for_a_number_wherever_it_is_used() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1

func metal @f simdgroups=1() {
  %lane: i32 = metal.lane
  %c0: i32 = constant 0
  %shared: threadgroup<64xi32> = metal.alloc
  metal.store %shared, %lane, %lane
  metal.barrier threadgroup
  %x: i32 = metal.load %shared, %c0
  %y: i32 = metal.load %shared, %c0
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        """Both loads go without a barrier only if each thread loads what it has stored."""
        ops = ops_of(candidate)
        stores = [op for op in ops if isinstance(op, metal.Store)]
        loads = [op for op in ops if isinstance(op, metal.Load)]
        is_own = {type(op.offset.op) for op in (*stores, *loads)} == {metal.Lane}
        alike = len({type(op.offset.op) for op in loads}) == 1
        of_lane = [type(op.offset.op) for op in stores] == [metal.Lane] and len(loads) == 2
        return of_lane and alike and (is_own or has(candidate, "metal.barrier"))

    assert not has(reduce(program, fails), "metal.barrier")


def test_stores_change_their_order() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: i32[2]

func tile @f(%X: ptr<i32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  tile.store %X, %c0, %c1
  tile.store %X, %c1, %c1
  tile.print "%x" %c1
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        """Only without the store of the one before the other need nothing be printed."""
        offsets = [constant_bits(o.offset) for o in ops_of(candidate) if isinstance(o, tile.Store)]
        return offsets == [1, 0] or (offsets == [0, 1] and has(candidate, "tile.print"))

    small = reduce(program, fails)
    assert not has(small, "tile.print")


def test_a_branch_becomes_a_mask() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: i32[2]

func metal @f simdgroups=1(%X: ptr<i32>) {
  %lane: i32 = metal.lane
  %c2: i32 = constant 2
  %first: bool = compare lt %lane, %c2
  if %first {
    metal.store %X, %lane, %c2
    yield
  } else {
    yield
  }
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        arguments = candidate.make_arguments()
        with suppress(ProgramError):
            candidate.run(arguments)
            return bool(arguments) and arguments[0].tolist() == [2, 2]
        return False

    names = [op.name for op in ops_of(reduce(program, fails)) if not isinstance(op, Constant)]
    assert names == ["metal.lane", "compare", "metal.store", "return"]


def test_what_is_broadcast_is_computed_before() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: f32[1]
# argument %n: 3

func tile @f(%X: ptr<f32>, %n: i32) {
  %k: i32 = tile.program_id 0
  %c0: tile<1x8xi32> = constant 0
  %row: tile<1x8xi32> = tile.broadcast %k
  %less: tile<1x8xbool> = compare lt %c0, %row
  %mask: tile<8x8xbool> = tile.broadcast %less
  %at: tile<8x8xi32> = constant 0
  %x: tile<8x8xf32> = constant 1.0
  tile.store %X, %at, %x, mask=%mask
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        stores = [op for op in ops_of(candidate) if isinstance(op, tile.Store) and op.mask]
        masks = [op.mask.op for op in stores if op.mask is not None]
        return any(isinstance(op, tile.Broadcast) for op in masks) and has(candidate, "compare")

    names = [op.name for op in ops_of(reduce(program, fails))]
    assert names.count("tile.broadcast") == 1


def test_data_shrinks_to_what_matters() -> None:
    numbers = ", ".join(["nan" if n == 29 else f"{n}.0" for n in range(40)])
    program = Program.parse(
        f"# grid: 1, 1, 1\n# argument %X: f32[64] data=[{numbers}]\n"
        "func tile @f(%X: ptr<f32>) {\n  return\n}\n"
    )

    def fails(candidate: Program) -> bool:
        return any(np.isnan(x).any() for x in candidate.make_arguments())

    assert "data=[nan]" in str(reduce(program, fails))


def test_an_array_takes_what_is_cast_to_its_elements() -> None:
    program = Program.parse(
        """\
# grid: 1, 1, 1
# argument %X: i32[4]
# argument %Y: f32[4] seed=1

func tile @f(%X: ptr<i32>, %Y: ptr<f32>) {
  %at: tile<4xi32> = tile.arange 0
  %y: tile<4xf32> = tile.load %Y, %at
  %x: tile<4xi32> = cast %y
  tile.store %X, %at, %x
  return
}
"""
    )

    def fails(candidate: Program) -> bool:
        stores = [op for op in ops_of(candidate) if isinstance(op, tile.Store)]
        return has(candidate, "tile.load") and any(
            not isinstance(op.value.op, Constant) for op in stores
        )

    small = reduce(program, fails)
    assert not has(small, "cast") and "i32[" not in str(small)
