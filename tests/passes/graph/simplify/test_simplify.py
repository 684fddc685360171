"""Simplification: on random graphs it keeps what they return and computes no more, and what its
documentation shows is so."""

from __future__ import annotations

import inspect
import re
from math import prod
from textwrap import dedent

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from graph_rules import graph as graph_of
from graph_rules import program
from iris.ir import Module, graph, math, parse
from iris.ir.control import Func, Return, Yield
from iris.ir.core import Op
from iris.ir.kinds import ReduceKind
from iris.ir.math import Elementwise, element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import Tensor
from iris.passes import Pass, Pipeline, run
from iris.passes.graph.simplify import Simplify
from iris.passes.graph.simplify.rule_helpers import dtype_of, shape_of
from iris.testing import pipelines, preserves, programs
from iris.tools.replay import Program
from support import counts

VIEWS = (graph.Reshape, graph.Transpose, graph.Broadcast, graph.Slice)
KINDS: dict[str, st.SearchStrategy[Program]] = {
    "any": programs.graph(),
    "views": programs.graph(ops=[*VIEWS, math.Add, math.Exp]),
    "parts": programs.graph(
        ops=[graph.Slice, graph.Pad, graph.Concat, graph.Conv2d, math.Neg, math.Select]
    ),
    "reductions": programs.graph(ops=[*VIEWS[:3], graph.Reduce, graph.Scan, math.Mul]),
    "products": programs.graph(ops=[*VIEWS[:3], graph.Matmul]),
    "algebra": programs.graph(
        ops=[
            *(math.Neg, math.Abs, math.Add, math.Sub, math.Mul, math.Div, math.Pow, math.Floor),
            *(math.Round, math.Cast, math.Select, math.Constant),
        ]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_return_what_they_did(kind: str) -> None:
    @settings(max_examples=counts(100 if kind == "any" else 50, 2000))
    @given(KINDS[kind])
    def holds(program: Program) -> None:
        preserves(Simplify(), program)

    holds()


@given(pipelines(passes=(*programs.GENERIC, "simplify", "simplify")), programs.graph())
def test_graphs_return_what_they_did_in_any_order(pipeline: Pipeline, program: Program) -> None:
    preserves(pipeline, program)


NOT_COMPUTED = (*VIEWS, math.Constant, graph.Iota, Func, Return, Yield, graph.Kernel)


def computed(module: Module) -> int:
    """How many elements are computed, not only found elsewhere or known from where they are."""
    made = [op for op in module.walk() if not isinstance(op, NOT_COMPUTED)]
    return sum(prod(element_type(v.type).shape) for op in made for v in op.results)


@settings(max_examples=counts(50, 2000))
@given(st.one_of(*KINDS.values()))
def test_no_more_is_computed(program: Program) -> None:
    before, after = (run(program.module, passes) for passes in ("dce", "simplify,dce"))
    assert computed(after) <= computed(before), f"{before}\n{after}"


@settings(max_examples=counts(50, 1000))
@given(programs.graph())
def test_nothing_is_left_to_do(program: Program) -> None:
    once = run(program.module, "simplify")
    assert run(once, "simplify") == once


ARGUMENTS = (
    "%x: tensor<3x5xf32>, %y: tensor<3x5xf32>, %column: tensor<3x1xf32>, %p: tensor<3x0xf32>, "
    "%q: tensor<0x4xf32>"
)


def test_what_the_documentation_shows() -> None:
    text = inspect.getdoc(Simplify) or ""
    blocks = [dedent(block).strip() for block in re.findall(r"(?m)(?:^    .*\n)+", text)]
    assert len(blocks) == 10
    for before, after in zip(blocks[::2], blocks[1::2], strict=True):
        made = re.findall(r"(?m)^(%\w+):", before)
        kept = [name for name in made if re.search(rf"(?m)^{name}:", after)]
        returned = ", ".join(name for name in kept if f"{name}," not in after)
        module = graph_of(ARGUMENTS, f"{before}\n{returned}")
        found, expected = run(module, "simplify"), graph_of(ARGUMENTS, f"{after}\n{returned}")
        assert found == expected, f"{found}\n{expected}"
        preserves(Simplify(), program(module, odd=True))


def test_kernels_are_simplified_within() -> None:
    text = """
    func graph @f returns=[tensor<3x5xf32>](%x: tensor<3x5xf32>) {
      %t: tensor<5x3xf32> = graph.transpose [1, 0] %x
      %y: tensor<3x5xf32> = graph.kernel @k {
        %a: tensor<5x3xf32> = exp %t
        %b: tensor<3x5xf32> = graph.transpose [1, 0] %a
        yield %b
      }
      return %y
    }
    """
    assert run(parse(text), "simplify") == parse(
        """
        func graph @f returns=[tensor<3x5xf32>](%x: tensor<3x5xf32>) {
          %y: tensor<3x5xf32> = graph.kernel @k {
            %b: tensor<3x5xf32> = exp %x
            yield %b
          }
          return %y
        }
        """
    )


def test_what_is_moved_keeps_its_line() -> None:
    text = """
    func graph @f returns=[tensor<15xf32>](%x: tensor<3x5xf32>) {
      %a: tensor<15xf32> = graph.reshape %x at "user.py":1
      %b: tensor<15xf32> = exp %a at "user.py":2
      return %b
    }
    """
    (function,) = run(parse(text), "simplify")
    lines = {op.name: op.location and op.location.line for op in function.walk()}
    assert lines["exp"] == 2


# Rules that look right and are not.


def absorb_zero(op: math.Mul, rewriter: Rewriter) -> None:
    """nan, and -0.0."""
    if math.constant_bits(op.rhs) == 0:
        rewriter.replace(op, op.rhs)


def negate_any_difference(op: math.Neg, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, math.Sub):
        rewriter.replace(op, math.Sub(inner.rhs, inner.lhs))


def any_cast_once(op: math.Cast, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, math.Cast):
        rewriter.replace(op, math.Cast(inner.x, op.result.type))


def transpose_in_the_other_order(op: graph.Transpose, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, graph.Transpose):
        order = tuple([op.permutation[axis] for axis in inner.permutation])
        made = graph.Transpose(order, inner.x)
        if made.result.type is op.result.type:
            rewriter.replace(op, made)
        else:
            made.erase()


def reshape_any_transpose(op: graph.Transpose, rewriter: Rewriter) -> None:
    rewriter.replace(op, graph.Reshape(op.x, op.result.type))


def slice_without_first(op: graph.Slice, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, graph.Slice) and min(op.steps + inner.steps) > 0:
        starts = tuple([a + b for a, b in zip(inner.starts, op.starts, strict=True)])
        rewriter.replace(op, graph.Slice(starts, op.steps, inner.x, op.result.type))


def pad_with_the_last(op: graph.Pad, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, graph.Pad):
        low = tuple([a + b for a, b in zip(inner.low, op.low, strict=True)])
        rewriter.replace(op, graph.Pad(low, inner.x, op.value, op.result.type))


def reduce_any_broadcast(op: graph.Reduce, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, graph.Broadcast):
        made = rewriter.insert(graph.Reduce(op.kind, op.axes, inner.x), op).results[0]
        rewriter.replace(op, graph.Broadcast(made, op.result.type))


def maximum_of_maxnum(op: graph.Reduce, rewriter: Rewriter) -> None:
    """nan."""
    if op.kind is ReduceKind.MAXNUM:
        rewriter.replace(op, graph.Reduce(ReduceKind.MAXIMUM, op.axes, op.x))


def elementwise_of_one_broadcast(op: Op, rewriter: Rewriter) -> None:
    """Though another operand is not spread."""
    first = op.operands[0].op
    if isinstance(first, graph.Broadcast) and 0 not in shape_of(op.results[0]):
        narrow = shape_of(first.x)
        zeros = (0,) * len(narrow)
        parts = [
            rewriter.insert(
                graph.Slice(zeros, (1,) * len(narrow), v, Tensor(narrow, dtype_of(v))), op
            ).results[0]
            for v in op.operands
        ]
        type_ = Tensor(narrow, dtype_of(op.results[0]))
        made = type(op).create(tuple(parts), op.attributes, (type_,))
        value = rewriter.insert(made, op).results[0]
        rewriter.replace(op, graph.Broadcast(value, op.results[0].type))


@pytest.mark.parametrize(
    ("kind", "classes", "rule"),
    [
        ("algebra", (math.Mul,), absorb_zero),
        ("algebra", (math.Neg,), negate_any_difference),
        ("algebra", (math.Cast,), any_cast_once),
        ("views", (graph.Transpose,), transpose_in_the_other_order),
        ("views", (graph.Transpose,), reshape_any_transpose),
        ("parts", (graph.Slice,), slice_without_first),
        ("parts", (graph.Pad,), pad_with_the_last),
        ("reductions", (graph.Reduce,), reduce_any_broadcast),
        ("reductions", (graph.Reduce,), maximum_of_maxnum),
        ("views", (Elementwise,), elementwise_of_one_broadcast),
    ],
)
def test_a_wrong_rule_is_found(kind: str, classes: tuple[type[Op], ...], rule: object) -> None:
    wrong = Rules()
    wrong(*classes)(rule)  # type: ignore[type-var]

    class Wrong(Pass):
        name = "wrong-rule"

        def run(self, module: Module) -> None:
            wrong.apply(module)

    @settings(max_examples=2000, phases=[Phase.generate])
    @given(KINDS[kind])
    def holds(program: Program) -> None:
        # What it leaves alone is not worth a run.
        if wrong.apply(program.module.clone()):
            preserves(Wrong(), program, seconds=0)

    with pytest.raises(AssertionError, match="changed what the program does"):
        holds()
