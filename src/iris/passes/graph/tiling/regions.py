"""The regions of a graph's kernels: written, and taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iris.ir import graph
from iris.ir.builder import Builder
from iris.ir.control import Func, Yield
from iris.ir.core import Op, Value
from iris.passes.graph.tiling.cost import Cost
from iris.passes.graph.tiling.schedule import Cut


@dataclass(eq=False)
class Candidate:
    """What one kernel might write, all of one shape, and what it would cost."""

    outputs: tuple[Value, ...]
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    cut: Cut
    cost: Cost
    sums: frozenset[Value]  # what it sums, and would be another number in another order


def write(function: Func, kernels: Iterable[Candidate]) -> None:
    """Put the ops of each kernel into a region; each kernel comes after those it reads of."""
    body = function.body
    old = set(body)
    end = body.last
    names: dict[str, int] = {}
    made: dict[Value, Value] = {}
    for kernel in kernels:
        types = [v.type for v in kernel.outputs]
        region = graph.Kernel(_symbol(function, kernel, names), types)
        builder = Builder(body, end)
        builder.insert(region)
        region.location = kernel.ops[-1].location if kernel.ops else function.location
        inner = dict(made)
        for op in kernel.ops:
            region.body.append(op.clone(inner))
        region.body.append(Yield([inner.get(v, v) for v in kernel.outputs]))
        for value, result in zip(kernel.outputs, region.results, strict=True):
            result.name = value.name
            made[value] = result
    _reshape_results(function, made)
    _sweep(function, old)


def _reshape_results(function: Func, made: Mapping[Value, Value]) -> None:
    """What is a result in another shape than it is written in follows the kernels."""
    end = function.body.last
    assert end is not None
    results = []
    for value in end.operands:
        chain = []
        while value not in made:
            assert value.op is not None
            chain.append(value.op)
            value = value.op.operands[0]
        value = made[value]
        for op in reversed(chain):
            copy = op.clone({op.operands[0]: value})
            end.insert_before(copy)
            value = copy.results[0]
        results.append(value)
    end.set_operands(tuple(results))


def _symbol(function: Func, kernel: Candidate, names: dict[str, int]) -> str:
    """A name for a kernel: its function's, and that of what it makes."""
    value = kernel.outputs[-1]
    what = value.name or (value.op.name.split(".")[-1] if value.op else "copy")
    name = f"{function.symbol}_{what}"
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}_{names[name]}"


def dissolve(function: Func) -> None:
    """Take apart the kernels that there are."""
    for op in list(function.body):
        if isinstance(op, graph.Kernel):
            for inner in list(op.body):
                if not inner.terminator:
                    inner.detach()
                    op.insert_before(inner)
            end = op.body.end
            for result, value in zip(op.results, end.operands, strict=True):
                result.replace_by(value)
            end.erase()
            op.erase()


def _sweep(function: Func, old: set[Op]) -> None:
    """Remove what has its copy in a kernel now."""
    for op in reversed(list(function.body)):
        if op in old and not any(v.users for v in op.results) and not op.terminator:
            op.erase()
