"""Split reductions, scans and matrix products that would leave most cores idle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from iris.ir import graph, math
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Facet, Level, Module, Op, Value
from iris.ir.kinds import ReduceKind, ScanKind, accumulator, combined, identity
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import Tensor, i32
from iris.passes.graph.parts import Parts, along, cast, repeated
from iris.passes.graph.split_deviations import deviating, split_deviations
from iris.passes.graph.split_exponentials import maximum_of, split_exponentials
from iris.passes.pipeline import TargetPass

EXTREMA = {
    ReduceKind.ARGMAX: ReduceKind.MAXIMUM,
    ReduceKind.ARGMIN: ReduceKind.MINIMUM,
}


@dataclass(frozen=True)
class SplitReductions(TargetPass):
    """Reduce long axes in parts, and then the parts, where results are too few for the cores.

        %sum: tensor<f32> = graph.reduce sum [0] %x

    of `tensor<16777216xf32>` becomes, for a target of 8 cores,

        %0: tensor<32x524288xf32> = graph.reshape %x
        %1: tensor<32xf32> = graph.reduce sum [1] %0
        %sum: tensor<f32> = graph.reduce sum [0] %1

    A program reduces all that one result needs, so one result keeps one core busy.  In parts of at
    least `min_part` elements there are enough programs for all cores.  A scan of a part starts at
    the reduction of all parts before it.  It is done where the cost model says that it saves more
    than further kernels take.  Sums of floats are added in the order of the parts wherever they
    are needed, and are rounded to 16 bits once.  For a variance or a softmax, each part has a mean
    or a maximum of its own (`split_deviations`, `split_exponentials`).
    """

    name = "split-reductions"
    level = Level.GRAPH
    min_part: int = 256

    def run(self, module: Module) -> dict[str, int]:
        split = 0
        for function in module:
            if isinstance(function, Func):
                # Users come first: what the parts of these do not need is not split, too.
                for op in reversed(list(function.body)):
                    rule = split_rules.get(type(op))
                    if op.results and not any(v.users for v in op.results):
                        op.erase()
                    elif rule is not None:
                        split += self._split(op, rule)
        return {"split": split}

    def _split(self, op: Op, rule: SplitRule) -> bool:
        """Split an op, if that pays; say whether it does."""
        size, beside, rereads, split = rule(op)
        most = min(size, size * beside // self.min_part)
        parts = min(self._wanted_parts(op, rereads), most)
        if parts < 2:
            return False
        parts = next((n for n in range(parts, min(2 * parts, size)) if size % n == 0), parts)
        b = Builder.before_op(op)
        result = split(Parts(b, size, -(-size // -(-size // parts)), -(-size // parts)))
        result.name = op.results[0].name
        op.results[0].replace_by(result)
        op.erase()
        return True

    def _wanted_parts(self, op: Op, rereads: int) -> int:
        """How many parts make enough programs for all cores; 1 if that does not pay."""
        from iris.passes.graph.tiling.choose_schedule import (  # opened when first used
            parts_that_pay,
        )

        return parts_that_pay(op, self.target, rereads)


# The size of the axis to split, how many elements a result needs of each along it, how often the
# parts read all elements again, and what makes the result of the parts.
Split = tuple[int, int, int, Callable[[Parts], Value]]
SplitRule = Callable[[Op], Split]
split_rules = Facet("split in parts")


@split_rules(graph.Reduce)
def split_reduce(op: graph.Reduce) -> Split:
    shape = element_type(op.x.type).shape
    axis = max(op.axes, key=lambda axis: shape[axis])
    split = _arg_reduce if op.kind in EXTREMA else _reduce
    if (x := deviating(op)) is not None:
        split = partial(_deviations, x)
    elif (top := maximum_of(op)) is not None:
        split = partial(_exponentials, top)
    beside = prod([shape[a] for a in op.axes if a != axis])
    return shape[axis], beside, 0, lambda parts: split(op, axis, parts)


def _reduce(op: graph.Reduce, axis: int, parts: Parts) -> Value:
    """Reduce each part, then the parts."""
    b, element = parts.b, op.x.type.element
    wide = accumulator(op.kind, element)
    # The axes after it are one further on, and the parts stay.
    inner = tuple([a + (a >= axis) for a in op.axes])
    x = parts.of(cast(b, op.x, wide), axis, identity(op.kind, wide))
    partial = b(graph.Reduce(op.kind, inner, x))
    outer = axis - sum(a < axis for a in op.axes)
    return cast(b, b(graph.Reduce(op.kind, (outer,), partial)), element)


def _deviations(x: Value, op: graph.Reduce, axis: int, parts: Parts) -> Value:
    return split_deviations(parts.b, op, x, axis, parts.count)


def _exponentials(top: graph.Reduce, op: graph.Reduce, axis: int, parts: Parts) -> Value:
    """With the maximum, which all that needs it takes from the parts, too."""
    ahead = replace(parts, b=Builder(op.enclosing, top, op.location))
    total, maximum = split_exponentials(ahead, op, top, axis)
    maximum.name = top.result.name
    top.result.replace_by(maximum)
    return total


def _arg_reduce(op: graph.Reduce, axis: int, parts: Parts) -> Value:
    """The place in the first of the parts that have the extremum."""
    b, kind = parts.b, EXTREMA[op.kind]
    x = parts.of(op.x, axis, identity(kind, op.x.type.element))
    places = b(graph.Reduce(op.kind, (axis + 1,), x))
    extrema = b(graph.Reduce(kind, (axis + 1,), x))
    best = b(graph.Reduce(op.kind, (axis,), extrema))
    part = b(graph.Iota(axis, places.type))
    chosen = repeated(b, best, (axis,), places)
    is_chosen = b(math.Compare(Predicate.EQ, part, chosen))
    start = b(math.Mul(part, b(Constant(parts.length, element_type(places.type)))))
    other = b(Constant(i32.high, element_type(places.type)))
    place = b(math.Select(is_chosen, b(math.Add(start, places)), other))
    return b(graph.Reduce(ReduceKind.MINIMUM, (axis,), place))


@split_rules(graph.Scan)
def split_scan(op: graph.Scan) -> Split:
    return element_type(op.x.type).shape[op.axis], 1, 1, lambda parts: _scan(op, parts)


def _scan(op: graph.Scan, parts: Parts) -> Value:
    """Scan each part, and combine it with the reduction of all parts before it."""
    b, axis, element = parts.b, op.axis, op.x.type.element
    wide = accumulator(op.kind, element)
    x = parts.of(cast(b, op.x, wide), axis, identity(op.kind, wide))
    totals = b(graph.Reduce(ReduceKind(op.kind.value), (axis + 1,), x))
    within = b(graph.Scan(op.kind, axis + 1, x))
    start = repeated(b, _exclusive_scan(b, op.kind, axis, totals), (axis + 1,), within)
    whole = b(combined(op.kind)(start, within))
    shape = element_type(op.x.type).shape
    padded = (*shape[:axis], parts.count * parts.length, *shape[axis + 1 :])
    flat = b(graph.Reshape(whole, Tensor(padded, wide)))
    if padded != shape:
        flat = along(b, axis, 0, parts.size, flat)
    return cast(b, flat, element)


def _exclusive_scan(b: Builder, kind: ScanKind, axis: int, x: Value) -> Value:
    """The reduction of the elements before each one."""
    type_ = element_type(x.type)
    low = tuple([int(a == axis) for a in range(len(type_.shape))])
    shape = tuple([n + more for n, more in zip(type_.shape, low, strict=True)])
    neutral = b(Constant(identity(kind, type_.element), Tensor((), type_.element)))
    shifted = graph.Pad(low, b(graph.Scan(kind, axis, x)), neutral, Tensor(shape, type_.element))
    return along(b, axis, 0, type_.shape[axis], b(shifted))


@split_rules(graph.Matmul)
def split_matmul(op: graph.Matmul) -> Split:
    rank = len(element_type(op.a.type).shape)
    depth = element_type(op.a.type).shape[-1]

    def split(parts: Parts) -> Value:
        """Multiply parts of the rows with parts of the columns, and add the products."""
        b = parts.b
        rows = parts.of(op.a, rank - 1, 0)
        order = (*range(rank - 2), rank - 1, rank - 2, rank)
        products = graph.Matmul(b(graph.Transpose(order, rows)), parts.of(op.b, rank - 2, 0))
        return b(graph.Reduce(ReduceKind.SUM, (rank - 2,), b(products)))

    return depth, 1, 0, split
