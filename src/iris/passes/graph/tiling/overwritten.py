"""Check that nothing needs a tensor that a scatter overwrites in memory."""

from __future__ import annotations

from collections.abc import Iterable

from iris.errors import PipelineError
from iris.ir import graph
from iris.ir.control import Func
from iris.ir.core import Op, Value


def check_overwritten(function: Func, kept: Iterable[Value] = ()) -> None:
    """Raise an error if a function of launches needs a tensor that a scatter overwrites, or if a
    scatter overwrites a tensor that must be `kept`.

    A scatter writes in place.  Kernels of one launch run in any order, and so do the programs of a
    kernel.  So from the scatter's launch on, nothing but the scatter may use the tensor.
    """
    needed = set(kept)
    overwritten: dict[Value, graph.Scatter] = {}
    for op in function.body:
        if isinstance(op, graph.Reshape):
            continue  # another shape of the same memory
        if isinstance(op, (graph.Kernel, graph.Launch)):
            for scatter in [inner for inner in op.walk() if isinstance(inner, graph.Scatter)]:
                tensor = graph.storage_root(scatter.x)
                overwritten.setdefault(tensor, scatter)
                if tensor in needed:
                    raise _error(scatter, tensor, function, scatter)
        if overwritten:
            for user in op.walk():
                for index, value in enumerate(user.operands):
                    tensor = graph.storage_root(value)
                    first = overwritten.get(tensor)
                    if first is not None and (index or user is not first):
                        raise _error(first, tensor, user.parent_op, user)


def _error(scatter: graph.Scatter, tensor: Value, needs: Op | None, at: Op) -> PipelineError:
    """The error that a scatter overwrites what a kernel or function needs."""
    kernel = scatter.parent_op
    assert isinstance(kernel, graph.Kernel)
    assert isinstance(needs, (graph.Kernel, graph.Launch, Func))
    return PipelineError(
        f"@{kernel.symbol} overwrites {tensor!r}, which @{needs.symbol} needs: a scatter writes in "
        "place, so a kernel in an earlier launch has to copy the tensor",
        at.location,
    )
