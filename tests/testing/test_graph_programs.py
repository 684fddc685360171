"""Random graphs: what they are made of, how fast, that nothing is wrong with them, and that wrong
passes are found by them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings

from iris.errors import DeclarationError
from iris.ir import Module, graph, math, parse, tile, verify
from iris.ir.control import Func, Return, Yield
from iris.ir.core import Level, Op, Value
from iris.ir.graph import ScatterKind
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.math import element_type
from iris.ir.types import Tensor
from iris.passes import Pass, Pipeline
from iris.passes.generic import cse
from iris.testing import all_preserve, pipelines, preserves, programs, roundtrips
from iris.tools.cli import main
from iris.tools.replay import Program
from support import counts


def is_compute(op: Op) -> bool:
    return not isinstance(op, Func | Return | Yield | math.Constant)


def drawn(number: int, **options: object) -> list[Program]:
    found: list[Program] = []

    @settings(max_examples=number, phases=[Phase.generate])
    @given(programs.graph(**options))  # type: ignore[arg-type]
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found


def test_graphs_vary() -> None:
    ranks, sizes, returned, kinds = Counter[int](), Counter[int](), set(), set()
    for program in drawn(200):
        returned.add(len(program.function.returns))
        for op in program.module.walk():
            if isinstance(op, graph.Reduce | graph.Scan | graph.Scatter):
                kinds.add(op.kind)
            for value in op.results:
                assert isinstance(value.type, Tensor)
                ranks[len(value.type.shape)] += 1
                sizes.update(set(value.type.shape))
    assert set(ranks) == {0, 1, 2, 3, 4, 5, 6}
    assert min(ranks.values()) >= 100, ranks
    assert all(sizes[size] >= 50 for size in (0, 1, 2, 3, 4, 5, 7, 8, 13)), sizes
    assert max(sizes) > 8192, sizes  # rows of several tiles
    assert {1, 2, 3, 4, 8} <= returned
    assert kinds == {*ReduceKind, *ScanKind, *ScatterKind}


def test_graphs_are_large_enough_and_fast_enough() -> None:
    number = counts(200, 2000)
    start = time.process_time()
    found = drawn(number)
    for program in found:
        verify(program.module)
        for _ in range(2):
            program.run(program.make_arguments())
    rate = number / (time.process_time() - start)
    ops = median([sum(map(is_compute, p.module.walk())) for p in found])
    print(f"\n{rate:.0f} graphs/s through verify and the interpreter twice, median {ops} ops")
    assert ops >= 8
    assert rate >= 25


@given(programs.graph())
def test_other_data_makes_no_errors_either(program: Program) -> None:
    for seed in (1, 2):
        program.run(program.make_arguments(seed))


@given(programs.graph())
def test_the_text_of_graphs(program: Program) -> None:
    roundtrips(program)
    again = Program.parse(str(program))
    assert str(again) == str(program)
    assert again.module == program.module
    assert again.arguments == program.arguments


def test_the_simplest_graph() -> None:
    simplest = find(programs.graph(), lambda program: True)
    assert [op.name for op in simplest.module.walk()] == ["func", "return"]


# Options.


def test_ops_are_those_asked_for() -> None:
    for program in drawn(50, ops=[math.Sub, graph.Transpose], dtypes=["f32"], max_ops=6):
        names = Counter(op.name for op in program.module.walk())
        assert names["sub"] + names["graph.transpose"] <= 6
        operands = {"constant", "graph.iota", "graph.broadcast", "graph.reshape"}
        assert set(names) <= {"func", "return", "sub", "graph.transpose", *operands}


def test_dtypes_are_those_asked_for() -> None:
    found = set()
    for program in drawn(100, dtypes=["f16", "u8"]):
        found |= {a.dtype.name for a in program.arguments}
    # Products are summed in f32 and u32; places are i32 or i64; conditions are bool.
    assert found == {"f16", "u8", "f32", "u32", "i32", "i64", "bool"}


def test_options_that_mean_nothing() -> None:
    with pytest.raises(DeclarationError, match=r"not made of tile\.dot"):
        programs.graph(ops=[tile.Dot])
    with pytest.raises(DeclarationError, match="no random programs of these ops and dtypes"):
        programs.graph(ops=[math.Exp], dtypes=["i32"])


# Passes.


@given(programs.graph())
def test_passes_preserve_graphs(program: Program) -> None:
    all_preserve(programs.GENERIC, program)


@given(pipelines(), programs.graph())
def test_passes_preserve_graphs_in_any_order(pipeline: Pipeline, program: Program) -> None:
    preserves(pipeline, program)


@dataclass(frozen=True)
class Wrong(Pass):
    """Does something to every op; its name is that of no pass that there is."""

    name = "wrong-graph"
    level = Level.GRAPH
    how: str
    change: Callable[[Op], object]

    def run(self, module: Module) -> None:
        for op in module.walk():
            if op.parent is not None:
                self.change(op)

    def __str__(self) -> str:
        return f"{self.name}-{self.how}"


def become(op: Op, other: Op) -> None:
    op.insert_before(other)
    op.results[0].replace_by(other.results[0])
    op.erase()


def shape_of(value: Value) -> tuple[int, ...]:
    return element_type(value.type).shape


def invert_transpose(op: Op) -> None:
    """`permutation[i]` taken for where axis i goes."""
    if isinstance(op, graph.Transpose):
        other = graph.Transpose(tuple(np.argsort(op.permutation).tolist()), op.x)
        if other.result.type is op.result.type:
            become(op, other)
        else:
            other.erase()


def drop_square_transpose(op: Op) -> None:
    if isinstance(op, graph.Transpose) and op.x.type is op.result.type:
        op.result.replace_by(op.x)
        op.erase()


def transpose_by_reshape(op: Op) -> None:
    if isinstance(op, graph.Transpose):
        become(op, graph.Reshape(op.x, op.result.type))


def swap_matrices(op: Op) -> None:
    if isinstance(op, graph.Matmul) and op.a.type is op.b.type:
        op.set_operands((op.b, op.a))


def forget_start(op: Op) -> None:
    if isinstance(op, graph.Slice) and min(op.steps, default=0) > 0:
        op.attributes = ((0,) * len(op.starts), op.steps)


def forget_step(op: Op) -> None:
    if isinstance(op, graph.Slice) and min(op.steps, default=0) > 0:
        op.attributes = (op.starts, (1,) * len(op.starts))


def forget_backwards(op: Op) -> None:
    """The right elements, but forwards."""
    if isinstance(op, graph.Slice):
        starts = [
            start + min(step, 0) * max(size - 1, 0)
            for start, step, size in zip(op.starts, op.steps, shape_of(op.result), strict=True)
        ]
        op.attributes = (tuple(starts), tuple(map(abs, op.steps)))


def pad_after(op: Op) -> None:
    if isinstance(op, graph.Pad):
        op.attributes = ((0,) * len(op.low),)


def pad_with_zero(op: Op) -> None:
    if isinstance(op, graph.Pad):
        zero = math.Constant(0, Tensor((), element_type(op.x.type).element))
        op.insert_before(zero)
        op.set_operands((op.x, zero.result))


def concat_in_reverse(op: Op) -> None:
    if isinstance(op, graph.Concat):
        op.set_operands(op.operands[::-1])


def other_axis(op: Op) -> None:
    if isinstance(op, graph.Scan | graph.Iota) and op.axis:
        op.attributes = (*op.attributes[:-1], 0)


def reduce_fewer(op: Op) -> None:
    """Axes of a sum left out that do have size 1, or that seem to."""
    if isinstance(op, graph.Reduce) and op.kind is ReduceKind.SUM and len(op.axes) > 1:
        zero = [0] * len(shape_of(op.x))
        sizes = [1 if axis == op.axes[0] else n for axis, n in enumerate(shape_of(op.x))]
        part = graph.Slice(
            tuple(zero),
            tuple([1] * len(zero)),
            op.x,
            Tensor(tuple(sizes), element_type(op.x.type).element),
        )
        if 0 not in shape_of(op.x):
            op.insert_before(part)
            op.set_operands((part.result,))
        else:
            part.erase()


def forget_nan(op: Op) -> None:
    drops = {ReduceKind.MAXIMUM: ReduceKind.MAXNUM, ReduceKind.MINIMUM: ReduceKind.MINNUM}
    if isinstance(op, graph.Reduce) and op.kind in drops:
        op.attributes = (drops[op.kind], op.axes)


def gather_other_axis(op: Op) -> None:
    if isinstance(op, graph.Gather):
        op.set_operands((op.x, *op.indices[::-1]))


def scatter_nothing(op: Op) -> None:
    if isinstance(op, graph.Scatter) and op.kind is ScatterKind.SET:
        op.result.replace_by(op.x)
        op.erase()


def add_once(op: Op) -> None:
    """Scatters that add, taken for ones that replace what was added before."""
    if isinstance(op, graph.Scatter) and op.kind is ScatterKind.ADD:
        zero = math.Constant(0, element_type(op.updates.type))
        op.insert_before(zero)
        op.set_operands((op.x, zero.result, *op.indices))


def pad_images_the_other_way(op: Op) -> None:
    if isinstance(op, graph.Conv2d):
        above, below, left, right = op.padding
        op.attributes = (op.strides, (below, above, right, left), op.dilation, op.groups)


def swap_yields(op: Op) -> None:
    if isinstance(op, Yield):
        op.set_operands(_swapped(op.operands))


def swap_returns(op: Op) -> None:
    if isinstance(op, Return):
        op.set_operands(_swapped(op.operands))


def _swapped(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The first two that are of one type, each in the place of the other."""
    for i, one in enumerate(values):
        for j, other in enumerate(values[:i]):
            if one.type is other.type and one is not other:
                swapped = list(values)
                swapped[i], swapped[j] = other, one
                return tuple(swapped)
    return values


WRONG = [
    invert_transpose,
    drop_square_transpose,
    transpose_by_reshape,
    swap_matrices,
    forget_start,
    forget_step,
    forget_backwards,
    pad_after,
    pad_with_zero,
    concat_in_reverse,
    other_axis,
    reduce_fewer,
    forget_nan,
    gather_other_axis,
    scatter_nothing,
    add_once,
    pad_images_the_other_way,
    swap_yields,
    swap_returns,
]


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where programs that fail are written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path / "iris-failures"


def failure(passes: Pass | str, *, seconds: float = 0) -> str:
    """How `preserves` fails, within as many examples as a property is tried on in each run."""

    @settings(max_examples=200)
    @given(programs.graph())
    def holds(program: Program) -> None:
        preserves(passes, program, seconds=seconds)

    with pytest.raises(AssertionError) as caught:
        holds()
    return str(caught.value)


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.__name__)
def test_a_wrong_pass_is_found(change: Callable[[Op], None]) -> None:
    name = change.__name__.replace("_", "-")
    assert f"wrong-graph-{name}" in failure(Wrong(name, change))


def test_attributes_that_are_not_compared_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cse, "_key", lambda op: (type(op), op.operands, op.result.type))
    assert failure("cse")


def test_a_failure_shows_a_small_graph(failures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failure(Wrong("swap-matrices", swap_matrices), seconds=15)
    (text,) = message.split("\n\nfunc ")[1:]
    ops = list(parse(f"func {text.partition('--- before')[0]}").walk())
    assert len(ops) <= 5, message
    (file,) = failures.iterdir()
    assert main(["run", str(file)]) == 0
    assert capsys.readouterr().out.startswith("returned[0]: ")
