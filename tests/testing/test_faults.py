"""Which pass is guilty, and what the failure says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import DeviceError, OutOfTimeError, RaceError
from iris.ir import Level, Module, Op, graph, math, metal, tile
from iris.ir.control import While
from iris.passes import Pass, Pipeline
from iris.testing import agree, preserves
from iris.testing.faults import Judge, Oracle, bisect
from iris.testing.levels import Disagreement, WithinBounds, with_simdgroups
from iris.testing.limit import TimeLimitError
from iris.testing.oracles import same_bits
from iris.testing.report import Failure
from iris.testing.smallest import smallest
from iris.tools.replay import Program

SUM = """\
# grid: 1
# argument %X: f32[64] seed=1 range=[1, 8]
# argument %Y: f32[64]

func tile @f(%X: ptr<f32>, %Y: ptr<f32>) {
  %i: tile<64xi32> = tile.arange 0
  %x: tile<64xf32> = tile.load %X, %i
  %y: tile<64xf32> = add %x, %x
  %s: f32 = tile.reduce sum 0 %y
  %t: tile<64xf32> = tile.broadcast %s
  %z: tile<64xf32> = sub %y, %t
  tile.store %Y, %i, %z
  return
}
"""


@dataclass(frozen=True)
class Guilty(Pass):
    """Does something to every op."""

    name = "guilty"
    change: Callable[[Op], object]

    def run(self, module: Module) -> None:
        for op in module.walk():
            self.change(op)

    def __str__(self) -> str:
        return self.name


def swap_operands(op: Op) -> None:
    if isinstance(op, math.Sub):
        op.set_operands(op.operands[::-1])


def drop_operands(op: Op) -> None:
    if isinstance(op, math.Sub):
        op.set_operands(op.operands[:1])


def crash(op: Op) -> None:
    raise KeyError(op.name)


def drop_barrier(op: Op) -> None:
    if isinstance(op, metal.Barrier):
        op.erase()


def go_outside(op: Op) -> None:
    if isinstance(op, tile.Load | metal.Load):
        far = math.Constant(1 << 20, op.offset.type)  # type: ignore[arg-type]
        op.insert_before(far)
        op.set_operands((op.operands[0], far.result, *op.operands[2:]))


def among(pipeline: Pipeline, name: str, change: Callable[[Op], object]) -> Pipeline:
    """A pipeline with a wrong pass after the last pass of a name."""
    position = max(i for i, pass_ in enumerate(pipeline) if pass_.name == name)
    passes = list(pipeline)
    return Pipeline((*passes[: position + 1], Guilty(change), *passes[position + 1 :]))


LOWERING = with_simdgroups(METAL_PIPELINE, 4)


@pytest.mark.parametrize(
    ("name", "change", "doing"),
    [
        ("follow-masks", swap_operands, "changed what the program does"),
        ("assign-layouts", swap_operands, "changed what the program does"),
        ("lower-to-metal", swap_operands, "changed what the program does"),
        ("fuse-register-loops", swap_operands, "changed what the program does"),
        ("check-resources", swap_operands, "changed what the program does"),
        ("insert-barriers", drop_barrier, "made a program that fails"),
        ("lower-to-metal", go_outside, "made a program that fails"),
        ("cse", drop_operands, "failed"),
        ("expand-math", crash, "failed"),
    ],
)
def test_the_guilty_pass_is_named(name: str, change: Callable[[Op], object], doing: str) -> None:
    pipeline = among(LOWERING, name, change)
    fault = bisect(Program.parse(SUM), pipeline, WithinBounds())
    assert fault is not None
    assert fault.guilty == Guilty(change)
    assert fault.wrong.doing == doing
    assert fault.step is not None and fault.step.position == list(pipeline).index(Guilty(change))


def test_right_pipelines_have_no_fault() -> None:
    program = Program.parse(SUM)
    assert bisect(program, LOWERING, WithinBounds()) is None
    assert bisect(program, Pipeline.parse("fold,canonicalize,cse,dce"), same_bits) is None


def test_a_missing_barrier_is_a_race() -> None:
    fault = bisect(
        Program.parse(SUM), among(LOWERING, "insert-barriers", drop_barrier), WithinBounds()
    )
    assert fault is not None and isinstance(fault.wrong.error, RaceError)


CUT = """\
# argument %x: f32[6] seed=1

func graph @f returns=[tensor<3xf32>](%x: tensor<6xf32>) {
  %y: tensor<3xf32> = graph.slice [0] [1] %x
  %z: tensor<3xf32> = neg %y
  return %z
}
"""


def test_a_value_that_lost_elements_is_shown() -> None:
    def move(op: Op) -> None:
        if isinstance(op, graph.Slice):
            op.attributes = ((5,), (1,))

    differs = "first value that differs is %y.* 1 elements and not 3"
    with pytest.raises(AssertionError, match=differs):
        preserves(Guilty(move), Program.parse(CUT), seconds=0)


def test_the_failure_of_a_pipeline_shows_one_pass() -> None:
    pipeline = among(LOWERING, "lower-to-metal", swap_operands)
    with pytest.raises(Disagreement) as caught:
        agree(Program.parse(SUM), pipeline=pipeline, seconds=0)
    message = str(caught.value)
    assert message.startswith("guilty changed what the program does, in lockstep: Y[0] is ")
    assert f"guilty is pass {list(pipeline).index(Guilty(swap_operands)) + 1} of " in message
    assert "the first value that differs is %z: f32 = sub " in message
    _, _, changes = message.partition("--- before guilty\n+++ after guilty\n")
    changed = [line for line in changes.splitlines() if line[0:1] in ("-", "+")]
    assert changed and all(" = sub " in line for line in changed)


@dataclass(frozen=True)
class HalfWay(Pass):
    """Stop when a second function of the same name stands beside the one that it works on."""

    name = "half-way"

    def run(self, module: Module) -> None:
        (function,) = module
        function.insert_before(function.clone({}))
        raise KeyError("half way")


def test_the_failure_of_a_pass_is_shown_whatever_it_left() -> None:
    with pytest.raises(Failure) as caught:
        preserves(HalfWay(), Program.parse(SUM), seconds=0)
    assert "half-way failed: KeyError" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "kind"),
    [
        ("follow-masks", swap_operands, Disagreement),
        # Its smallest program is of Metal IR, whose values are compared by themselves.
        ("fuse-register-loops", swap_operands, AssertionError),
        ("insert-barriers", drop_barrier, RaceError),
        ("expand-math", crash, KeyError),
    ],
)
def test_any_failure_is_shown_in_few_ops(
    name: str, change: Callable[[Op], object], kind: type[Exception]
) -> None:
    oracle = WithinBounds()
    fault = bisect(Program.parse(SUM), among(LOWERING, name, change), oracle)
    assert fault is not None
    small = smallest(fault, oracle)
    assert small.guilty == fault.guilty
    assert (small.wrong.doing, small.wrong.how) == (fault.wrong.doing, fault.wrong.how)
    assert isinstance(small.wrong.error, kind)
    assert len(small.program.function.body.walk()) <= 7


@pytest.mark.parametrize("quick_finds", [True, False])
def test_a_quick_oracle_looks_for_what_it_finds(quick_finds: bool) -> None:
    """It is asked of each smaller program, and the other oracle of the smallest one; the other way
    round if it does not find the fault."""
    asked = {"quick": 0, "other": 0}

    def counting(name: str, oracle: Oracle) -> Oracle:
        def asks(program: Program) -> Judge:
            asked[name] += 1
            return oracle(program)

        return asks

    def finds_nothing(program: Program) -> Judge:
        return lambda made, rest: None

    quick = counting("quick", same_bits if quick_finds else finds_nothing)
    other = counting("other", same_bits)
    fault = bisect(Program.parse(SUM), Pipeline((Guilty(swap_operands),)), other)
    assert fault is not None
    small = smallest(fault, other, quick=quick)
    assert small.guilty == fault.guilty
    assert len(small.program.function.body.walk()) <= 7
    searching, confirming = ("quick", "other") if quick_finds else ("other", "quick")
    assert asked[confirming] <= 4 < 20 < asked[searching]


UNORDERED = """\
# grid: 1
# argument %Y: f32[32]

func metal @f simdgroups=1(%Y: ptr<f32>) {
  %lane: i32 = metal.lane
  %x: f32 = constant 1.0
  %c31: i32 = constant 31
  %shared: threadgroup<32xf32> = metal.alloc
  metal.store %shared, %lane, %x
  %other: i32 = sub %c31, %lane
  %y: f32 = metal.load %shared, %other
  metal.store %Y, %lane, %y
  return
}
"""


def test_a_race_stays_the_same_race() -> None:
    """The store alone, with a number as its index, is a race of another kind."""
    fault = bisect(Program.parse(UNORDERED), Pipeline(), same_bits)
    assert fault is not None
    error = smallest(fault, same_bits).wrong.error
    assert isinstance(error, RaceError)
    assert error.kind == ("threads", "threadgroup", {"reads", "writes"})


OUTSIDE = """\
# grid: 1
# argument %X: f32[16]
# argument %n: 90

func tile @f(%X: ptr<f32>, %n: i32) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  for %c0, %c0, %c1 (%i: i32) {
    %rest: i32 = mod %c1, %c0
    yield
  }
  %x: f32 = tile.load %X, %n
  tile.store %X, %c0, %x
  return
}
"""


def test_what_a_program_does_wrong_stays_the_same() -> None:
    """What is in a loop that never runs would be a division by zero."""
    fault = bisect(Program.parse(OUTSIDE), Pipeline(), same_bits)
    assert fault is not None
    assert "outside" in str(smallest(fault, same_bits).wrong.error)


def test_a_launch_out_of_time_is_no_other_failure() -> None:
    """Without the reduction, a launch would take too long."""

    def oracle(program: Program) -> Judge:
        has_sum = any(isinstance(op, tile.Reduce) for op in program.module.walk())
        raise DeviceError("out of bounds") if has_sum else OutOfTimeError("too long")

    fault = bisect(Program.parse(SUM), Pipeline(), oracle)
    assert fault is not None
    small = smallest(fault, oracle)
    assert type(small.wrong.error) is DeviceError
    ops = [type(op) for op in small.program.module.walk()]
    assert tile.Reduce in ops and tile.Store not in ops


def never_end(op: Op) -> None:
    """Makes loops endless."""
    if isinstance(op, While):
        end = op.condition.end
        true = math.Constant(1, end.operands[0].type)  # type: ignore[arg-type]
        end.insert_before(true)
        end.set_operands((true.result,))


WAIT = """\
# grid: 1
# argument %X: i32[1]

func tile @f(%X: ptr<i32>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c3: i32 = constant 3
  %x: i32 = while (%i: i32 = %c0) {
    %more: bool = compare lt %i, %c3
    yield %more
  } do (%i: i32) {
    %next: i32 = add %i, %c1
    yield %next
  }
  tile.store %X, %c0, %x
  return
}
"""


def test_a_program_that_never_ends_is_a_failure() -> None:
    fault = bisect(Program.parse(WAIT), Pipeline((Guilty(never_end),)), same_bits, limit=0.5)
    assert fault is not None and isinstance(fault.wrong.error, TimeLimitError)
    assert fault.wrong.doing == "made a program that fails"


def test_what_is_shown_where_the_level_changes() -> None:
    """No value is the same before and after, so none is shown."""

    @dataclass(frozen=True)
    class Lower(Pass):
        """Lowers, and does it wrong."""

        name = "lower-wrong"
        level = Level.TILE

        def run(self, module: Module) -> None:
            for pass_ in Pipeline.parse("choose-simdgroups,assign-layouts,lower-to-metal"):
                pass_.run(module)
            Guilty(swap_operands).run(module)

    with pytest.raises(AssertionError) as caught:
        preserves(Pipeline((Lower(), *Pipeline.parse("insert-barriers"))), Program.parse(SUM))
    message = str(caught.value)
    assert "lower-wrong changed what the program does" in message
    assert "the first value" not in message
