"""Random programs: what they are made of, how fast, and that nothing is wrong with them."""

from __future__ import annotations

import time
from collections import Counter
from math import prod
from statistics import median

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from iris.errors import DeclarationError
from iris.ir import math, tile, verify
from iris.ir.control import For, Func, Return, Yield
from iris.ir.core import Op
from iris.ir.types import ElementType, Tile
from iris.passes import run as run_passes
from iris.testing import programs
from iris.testing.choices import Choices
from iris.tools.replay import Array, Program
from support import counts

SHRUNK = 10  # ops of a program that is shrunk: of more, shrinking takes minutes


def is_compute(op: Op) -> bool:
    return not isinstance(op, Func | Return | Yield | math.Constant)


def drawn(number: int, **options: object) -> list[Program]:
    found: list[Program] = []

    @settings(max_examples=number, phases=[Phase.generate])
    @given(programs.tile(**options))  # type: ignore[arg-type]
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found


def test_programs_vary() -> None:
    grids, ranks, sizes, dtypes, depths = set(), set(), set(), set(), set()
    ragged = aliased = 0
    for program in drawn(200):
        grids.add(prod(program.grid))
        arrays = [a for a in program.arguments if isinstance(a, Array)]
        aliased += any(a.alias is not None for a in arrays)
        ragged += any(prod(a.shape) % 2 for a in arrays)
        for op in program.module.walk():
            depths.add(depth(op))
            for value in op.results:
                assert isinstance(value.type, ElementType)
                dtypes.add(value.type.element.name)
                if isinstance(value.type, Tile):
                    ranks.add(len(value.type.shape))
                    sizes |= set(value.type.shape)
    assert ranks == {1, 2, 3, 4, 5}
    assert {1, 2, 4, 8, 16, 32, 64} <= sizes
    assert dtypes == {"bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"} | {
        "f16",
        "bf16",
        "f32",
    }
    assert {1, 2, 3, 4, 12} <= grids
    assert {1, 2, 3, 4} <= depths
    assert ragged > 40
    assert aliased > 20


def depth(op: Op) -> int:
    return 0 if op.parent_op is None else 1 + depth(op.parent_op)


def test_programs_are_large_enough_and_fast_enough() -> None:
    number = counts(200, 2000)
    start = time.process_time()
    found = drawn(number)
    for program in found:
        verify(program.module)
        for _ in range(2):
            program.launch(program.make_arguments())
    rate = number / (time.process_time() - start)
    ops = median([sum(map(is_compute, p.module.walk())) for p in found])
    print(f"\n{rate:.0f} programs/s through verify and the interpreter twice, median {ops} ops")
    assert ops >= 8
    assert rate >= 25


@given(st.one_of(programs.tile(), programs.tile(rounding=True)))
def test_other_data_makes_no_errors_either(program: Program) -> None:
    for seed in (1, 2):
        program.launch(program.make_arguments(seed))


@settings(max_examples=counts(30, 300))
@given(programs.tile(ops=[tile.Dot], dtypes=["f32"], max_ops=4, rounding=True))
def test_what_is_multiplied_as_tf32_has_no_more_bits(program: Program) -> None:
    program.launch(program.make_arguments())


@given(programs.tile(masked=True))
def test_masks_can_be_followed(program: Program) -> None:
    module = run_passes(program.module, "follow-masks")
    verify(module)
    program.with_module(module).launch(program.make_arguments())


def test_the_simplest_program() -> None:
    simplest = find(programs.tile(), lambda program: True)
    assert [op.name for op in simplest.module.walk()] == ["func", "tile.program_id", "return"]
    assert simplest.grid == (1, 1, 1)


def test_a_simple_program_is_found() -> None:
    def has_loop_of_loads(program: Program) -> bool:
        loads = [op for op in program.module.walk() if isinstance(op, tile.Load)]
        return any(isinstance(op.parent_op, For) for op in loads)

    simplest = find(programs.tile(max_ops=SHRUNK), has_loop_of_loads)
    # A product of two matrices, block by block, is one step, of 38 ops.
    assert sum(map(is_compute, simplest.module.walk())) <= 38, str(simplest)


# Options.


def test_ops_are_those_asked_for() -> None:
    for program in drawn(50, ops=[math.Sub, math.Exp], dtypes=["f32"], max_ops=6):
        names = Counter(op.name for op in program.module.walk())
        assert names["sub"] + names["exp"] <= 6
        # What makes operands and stores results.
        helpers = {"func", "return", "sub", "exp", "constant", "mul", "add", "and"}
        helpers |= {"div", "neg", "select"}
        assert {n for n in names if not n.startswith("tile.")} <= helpers


def test_dtypes_are_those_asked_for() -> None:
    found = set()
    for program in drawn(100, dtypes=["f16", "u8"]):
        found |= {a.dtype.name for a in program.arguments}
    # f32 is what `dot` makes of f16.
    assert found == {"f16", "u8", "i32", "bool", "f32"}


def test_masked_loads_are_there_only_on_demand() -> None:
    masked = [
        sum(isinstance(op, tile.MaskedLoad) for p in drawn(50, masked=m) for op in p.module.walk())
        for m in (False, True)
    ]
    assert masked[0] == 0
    assert masked[1] > 25


def test_options_that_mean_nothing() -> None:
    with pytest.raises(DeclarationError, match=r"not made of tile\.stage"):
        programs.tile(ops=[tile.Stage])
    with pytest.raises(DeclarationError, match="no random programs of these ops and dtypes"):
        programs.tile(ops=[math.Exp], dtypes=["i32"])


def test_choices() -> None:
    choices = Choices(bytes([7, 1, 0, 0]))
    assert choices.below(4) == 3
    assert choices.of("ab") == "b"
    assert choices.of("ab") == "a"
    assert not choices.flag()


def test_choices_go_on_after_the_last_byte() -> None:
    def more(data: bytes) -> list[int]:
        choices = Choices(data)
        return [choices.below(256) for _ in range(200)][len(data) :]

    assert more(b"\1\2") == more(b"\1\2") != more(b"\1\3")
    assert len({*more(b"\1\2")}) > 50
    assert not any(more(b"\1\0")) and not any(more(b""))
