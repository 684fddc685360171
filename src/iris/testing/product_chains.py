"""Graphs of products and scans, each made of the one before: a kernel may need more registers
than a thread has, and other kernels read its results."""

from __future__ import annotations

from hypothesis import strategies as st

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ScanKind
from iris.ir.types import Tensor, f16, f32
from iris.testing.choices import Choices
from iris.testing.graphs import GraphDraft
from iris.tools.replay import Program

BYTES = 64
SIZES = (33, 64)


def programs() -> st.SearchStrategy[Program]:
    """Graphs that a GPU of few registers has several kernels for."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A graph that some bytes choose."""
    draft = GraphDraft([], choices, [f32, f16], rounding=True, portable=True)
    size = choices.of(SIZES)
    type_ = Tensor((size, size), choices.of((f32, f16)))
    x = draft.leaf(type_)
    for _ in range(choices.of((3, 2, 4))):
        x = _further(draft, _changed(draft, x, choices), type_, choices)
        if choices.flag(3):
            draft.visible.append(x)
    draft.visible.append(x)
    return draft.finish()


def _further(draft: GraphDraft, x: Value, type_: Tensor, choices: Choices) -> Value:
    """A product with something else; or a scan, with its axes exchanged."""
    if choices.flag():
        scanned = draft.put(graph.Scan(ScanKind.SUM, 0, x))
        return _narrow(draft, draft.put(graph.Transpose((1, 0), scanned)), type_)
    other = _changed(draft, draft.leaf(type_), choices)
    return _narrow(draft, draft.put(graph.Matmul(x, other)), type_)


def _changed(draft: GraphDraft, x: Value, choices: Choices) -> Value:
    """Something and a few others of its type, element by element."""
    for _ in range(choices.below(3)):
        cls = choices.of((math.Mul, math.Sub, math.Maximum))
        x = draft.put(cls(x, draft.like(x.type, choices, besides=x)))
    return x


def _narrow(draft: GraphDraft, x: Value, type_: Tensor) -> Value:
    return x if x.type is type_ else draft.put(math.Cast(x, type_))
