"""What the kit finds: wrong passes, by random programs, which shrink; and nothing in right ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from iris.ir import Module, Op, math, parse, tile
from iris.ir.control import For, If, Return, Yield
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.math import element_type
from iris.ir.types import DType
from iris.passes import Pass, Pipeline
from iris.passes.generic import cse, licm
from iris.testing import all_preserve, pipelines, preserves, programs, roundtrips
from iris.testing.report import Failure
from iris.tools.cli import main
from iris.tools.replay import Program


@given(programs.tile())
def test_passes_preserve_programs(program: Program) -> None:
    all_preserve(programs.GENERIC, program)


@given(pipelines(), programs.tile())
def test_passes_preserve_programs_in_any_order(pipeline: Pipeline, program: Program) -> None:
    preserves(pipeline, program)


# Not those that fold: what is the same for any operand, like `x ^ x`, is masked nowhere.
@given(pipelines(passes=("cse", "dce", "licm")), programs.tile(masked=True))
def test_passes_preserve_programs_before_masks_are_followed(
    pipeline: Pipeline, program: Program
) -> None:
    preserves(pipeline, program)


@given(programs.tile(masked=True))
def test_the_text_of_programs(program: Program) -> None:
    roundtrips(program)
    again = Program.parse(str(program))
    assert str(again) == str(program)
    assert again.module == program.module
    assert again.arguments == program.arguments


# Passes that are wrong.


@dataclass(frozen=True)
class Wrong(Pass):
    """Does something to every op; its name is that of no pass that there is."""

    name = "wrong"
    how: str
    change: Callable[[Op], object]

    def run(self, module: Module) -> None:
        for op in module.walk():
            if op.parent is not None:
                self.change(op)

    def __str__(self) -> str:
        return f"{self.name}-{self.how}"


def swap_operands(op: Op) -> None:
    if isinstance(op, math.Sub):
        op.set_operands(op.operands[::-1])


def drop_store(op: Op) -> None:
    if isinstance(op, tile.Store):
        op.erase()


def change_constant(op: Op) -> None:
    if isinstance(op, math.Constant) and op.bits == 2:
        op.attributes = (3,)


def loosen_mask(op: Op) -> None:
    if isinstance(op, tile.Store) and op.mask is not None:
        op.set_operands(op.operands[:3])


def loosen_comparison(op: Op) -> None:
    if isinstance(op, math.Compare) and op.predicate is math.Predicate.LT:
        op.attributes = (math.Predicate.LE,)


def hoist_load(op: Op) -> None:
    if isinstance(op, tile.Load) and isinstance(op.parent_op, For):
        move_out(op)


def speculate(op: Op) -> None:
    if isinstance(op, math.FloorDiv | math.Mod) and isinstance(op.parent_op, If):
        move_out(op)


def move_out(op: Op) -> None:
    outer = op.parent_op
    if outer is not None and all(v.home is not op.parent for v in op.operands):
        op.detach()
        outer.insert_before(op)


def forget_nan(op: Op) -> None:
    if isinstance(op, math.MaxNum):
        become(op, math.Maximum(*op.operands))


def round_twice(op: Op) -> None:
    if isinstance(op, math.Fma):
        product = math.Mul(op.a, op.b)
        op.insert_before(product)
        become(op, math.Add(product.result, op.c))


def shift_zeros_in(op: Op) -> None:
    if isinstance(op, math.Shr) and element_of(op.lhs).is_signed:
        shifted = math.Shr(unsigned(op, op.lhs), unsigned(op, op.rhs))
        op.insert_before(shifted)
        become(op, math.Bitcast(shifted.result, op.result.type))


def extend_zeros(op: Op) -> None:
    if isinstance(op, math.Cast) and element_of(op.x).is_signed:
        become(op, math.Cast(unsigned(op, op.x), op.result.type))


def compare_unsigned(op: Op) -> None:
    if isinstance(op, math.Compare) and element_of(op.lhs).is_signed:
        op.set_operands((unsigned(op, op.lhs), unsigned(op, op.rhs)))


def swap_choices(op: Op) -> None:
    if isinstance(op, math.Select):
        op.set_operands((op.condition, op.on_false, op.on_true))


def forget_other(op: Op) -> None:
    if isinstance(op, tile.Load) and op.other is not None:
        zero = math.Constant(0, op.result.type)  # type: ignore[arg-type]
        op.insert_before(zero)
        op.set_operands((*op.operands[:3], zero.result))


def drop_transpose(op: Op) -> None:
    if isinstance(op, tile.Transpose) and op.x.type is op.result.type:
        op.result.replace_by(op.x)
        op.erase()


def swap_matrices(op: Op) -> None:
    if isinstance(op, tile.Dot) and op.a.type is op.b.type:
        op.set_operands((op.b, op.a, *op.operands[2:]))


def other_axis(op: Op) -> None:
    if isinstance(op, tile.Scan) and op.axis:
        op.attributes = (op.kind, 0)


def other_axis_of_a_square(op: Op) -> None:
    if isinstance(op, tile.Reduce):
        other = tile.Reduce(op.kind, len(element_type(op.x.type).shape) - 1 - op.axis, op.x)
        if other.result.type is op.result.type:
            become(op, other)


def leave_itself_out(op: Op) -> None:
    """A scan of what comes before each element, without that element."""
    if isinstance(op, tile.Scan) and op.kind is ScanKind.SUM:
        whole = tile.Scan(op.kind, op.axis, op.x)
        op.insert_before(whole)
        become(op, math.Sub(whole.result, op.x))


def reshape_by_columns(op: Op) -> None:
    if isinstance(op, tile.Reshape) and len(element_type(op.x.type).shape) == 2:
        columns = tile.Transpose((1, 0), op.x)
        op.insert_before(columns)
        op.set_operands((columns.result,))


def other_extremum(op: Op) -> None:
    if isinstance(op, tile.Reduce) and op.kind is ReduceKind.ARGMAX:
        op.attributes = (ReduceKind.ARGMIN, op.axis)


def drop_accumulator(op: Op) -> None:
    if isinstance(op, tile.Dot) and op.acc is not None:
        other = tile.Dot(op.a, op.b)
        if other.result.type is op.result.type:
            become(op, other)


def one_round_less(op: Op) -> None:
    if isinstance(op, For) and element_of(op.upper).is_signed:
        end = math.Sub(op.upper, op.step)
        op.insert_before(end)
        op.set_operands((op.lower, end.result, *op.operands[2:]))


def swap_carried(op: Op) -> None:
    if isinstance(op, Yield) and isinstance(op.parent_op, For):
        *others, before, last = (None, None, *op.operands)
        if before is not None and before.type is last.type:
            op.set_operands((*others[2:], last, before))


def other_branch(op: Op) -> None:
    if isinstance(op, If):
        op.regions = op.regions[::-1]


def stay_inside(op: Op) -> None:
    if isinstance(op, tile.LoadTile) and op.limit is not None:
        op.set_operands((op.operands[0], *op.operands[2:]))


def forget_print(op: Op) -> None:
    if isinstance(op, tile.Print):
        op.erase()


def element_of(value: Value) -> DType:
    return element_type(value.type).element


def unsigned(op: Op, value: Value) -> Value:
    """Before an op, the bits of signed integers as unsigned ones."""
    type_ = element_type(value.type)
    bits = math.Bitcast(value, type_.with_element(DType(f"u{type_.element.bits}")))
    op.insert_before(bits)
    return bits.result


def become(op: Op, other: Op) -> None:
    op.insert_before(other)
    op.results[0].replace_by(other.results[0])
    op.erase()


WRONG = [
    swap_operands,
    change_constant,
    loosen_comparison,
    compare_unsigned,
    forget_nan,
    round_twice,
    shift_zeros_in,
    extend_zeros,
    swap_choices,
    drop_store,
    loosen_mask,
    forget_other,
    stay_inside,
    hoist_load,
    speculate,
    one_round_less,
    swap_carried,
    other_branch,
    drop_transpose,
    reshape_by_columns,
    swap_matrices,
    drop_accumulator,
    other_axis,
    leave_itself_out,
    other_axis_of_a_square,
    other_extremum,
    forget_print,
]


def failure(passes: Pass | str, strategy: st.SearchStrategy[Program], *, seconds: float = 0) -> str:
    """How `preserves` fails, within as many examples as a property is tried on."""

    @settings(max_examples=200)
    @given(strategy)
    def holds(program: Program) -> None:
        preserves(passes, program, seconds=seconds)

    with pytest.raises(AssertionError) as caught:
        holds()
    return str(caught.value)


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where programs that fail are written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path / "iris-failures"


@cache
def found() -> set[str]:
    """Which of the wrong passes change a program, of as many as a property is tried on.

    Each program is checked, and run, once for all passes that have changed none before it.
    """
    drawn: list[Program] = []

    @settings(max_examples=200, phases=[Phase.generate])
    @given(programs.tile())
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    kept = {change.__name__: Wrong(change.__name__, change) for change in WRONG}
    for program in drawn:
        while kept:
            try:
                all_preserve([*kept.values()], program, seconds=0)
            except Failure as failure:
                assert failure.fault is not None
                guilty = failure.fault.guilty
                assert isinstance(guilty, Wrong)
                assert str(failure).startswith(str(guilty))
                del kept[guilty.how]
            else:
                break
    return {change.__name__ for change in WRONG} - kept.keys()


@pytest.mark.parametrize("name", [change.__name__ for change in WRONG])
def test_a_wrong_pass_is_found(name: str) -> None:
    assert name in found()


@pytest.mark.parametrize(
    ("where", "name", "broken", "passes"),
    [
        (cse, "may_alias", lambda a, b: a is b, "cse"),
        (cse, "writes", lambda effects: [], "cse"),
        (licm, "may_speculate", lambda op: True, "licm"),
        (licm, "writes", lambda effects: [], "licm"),
    ],
)
def test_a_pass_that_is_told_wrong_is_found(
    where: object, name: str, broken: object, passes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, broken)
    assert failure(passes, programs.tile())


def ops_of(message: str) -> list[Op]:
    """The ops of the program that a failure shows."""
    (text,) = re.findall(r"^func .*?^}$", message, re.MULTILINE | re.DOTALL)
    return parse(text).walk()


def computing(message: str) -> list[Op]:
    """The ops of the program that a failure shows, but for constants and what ends regions."""
    return [op for op in ops_of(message)[1:] if not isinstance(op, math.Constant | Yield | Return)]


@pytest.mark.parametrize(
    ("change", "most"),
    [(swap_operands, 6), (drop_store, 1), (swap_choices, 5), (other_branch, 3), (forget_print, 1)],
)
def test_a_failure_shows_a_small_program(change: Callable[[Op], None], most: int) -> None:
    """Hypothesis shows the program that was reduced, and looks for no other one."""
    name = change.__name__.replace("_", "-")
    message = failure(Wrong(name, change), programs.tile(), seconds=15)
    assert len(computing(message)) <= most, message


def test_a_merge_across_a_store_is_shown_in_a_few_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load, a store, the load again, and a store of that; what is stored may be loaded, too."""
    monkeypatch.setattr(cse, "writes", lambda effects: [])
    message = failure("cse", programs.tile(), seconds=15)
    assert len(computing(message)) <= 6, message
    assert sum(isinstance(op, tile.Load | tile.LoadTile) for op in ops_of(message)) <= 3


# How a failure is shown.

SUBTRACT = """\
# entry: @f
# grid: 2, 1, 1
# argument %X: f32[2] data=[1.0, 2.0]

func tile @f(%X: ptr<f32>) {
  %p: i32 = tile.program_id 0
  %x: f32 = tile.load %X, %p
  %c8_0: f32 = constant 8.0
  %y: f32 = sub %x, %c8_0
  tile.print "y" %y
  tile.store %X, %p, %y
  return
}
"""


def test_what_a_failure_says(failures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program.parse(SUBTRACT)
    with pytest.raises(AssertionError) as caught:
        preserves(Wrong("swap-operands", swap_operands), program, seconds=0)
    message = str(caught.value)
    first = "wrong-swap-operands changed what the program does: %X[0] was -7.0 and is 7.0 "
    assert message.startswith(first + "(2 of 2 elements differ); elements 0 to 1")
    assert (
        "the first value that differs is %y: f32 = sub %c8_0, %x: elements 0 to 1 were -7.0"
        in message
    )
    assert SUBTRACT in message
    assert "-  %y: f32 = sub %x, %c8_0\n+  %y: f32 = sub %c8_0, %x\n" in message
    (file,) = failures.iterdir()
    assert f"    iris run {file}\n" in message
    assert main(["run", str(file)]) == 0
    assert "[-7.0, -6.0]" in capsys.readouterr().out


def break_types(op: Op) -> None:
    if isinstance(op, tile.Store):
        op.set_operands((op.base, op.value, op.offset))


def crash(op: Op) -> None:
    raise KeyError(op.name)


def go_outside(op: Op) -> None:
    if isinstance(op, tile.ProgramId):
        far = math.Constant(1000, op.result.type)  # type: ignore[arg-type]
        become(op, far)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (break_types, "wrong-break_types failed: VerifyError"),
        (crash, "wrong-crash failed: KeyError: 'func'"),
        (go_outside, "made a program that fails: ProgramError: index 1000 is outside X"),
        (forget_print, "does: it printed 2 lines and prints 0"),
    ],
)
def test_every_kind_of_failure_shows_the_program(change: Callable[[Op], None], what: str) -> None:
    with pytest.raises(AssertionError) as caught:
        preserves(Wrong(change.__name__, change), Program.parse(SUBTRACT), seconds=0)
    assert what in str(caught.value)
    assert SUBTRACT in str(caught.value)


def test_a_program_that_is_wrong_to_begin_with() -> None:
    program = Program.parse(SUBTRACT.replace("grid: 2", "grid: 3"))
    with pytest.raises(AssertionError, match=r"^the program fails: ProgramError"):
        preserves("cse", program)


def test_nan_is_like_another() -> None:
    """`neg` changes the sign of a nan, which is not to be seen."""
    text = SUBTRACT.replace("sub %x, %c8_0", "neg %x").replace("[1.0, 2.0]", "[nan]")

    def drop(op: Op) -> None:
        if isinstance(op, math.Neg):
            op.result.replace_by(op.x)
            op.erase()

    preserves(Wrong("drop", drop), Program.parse(text))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "iris-failures").write_text("in the way")
    with pytest.raises(AssertionError, match="no file to replay it could be written"):
        preserves(Wrong("crash", crash), Program.parse(SUBTRACT), seconds=0)
