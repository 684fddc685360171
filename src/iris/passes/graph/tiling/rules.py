"""What a demand for the result of each op becomes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, of_nothing
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.passes.graph.tiling.demand import (
    Demand,
    Guard,
    Unfit,
    Within,
    address,
    axes_of,
    indices_of,
    places,
)
from iris.passes.graph.tiling.demands import Demands, rules
from iris.passes.graph.tiling.index import Axis, Index, divide
from iris.passes.graph.tiling.recipes import (
    Choice,
    Contraction,
    Number,
    Pointwise,
    Recipe,
    Reduction,
    Running,
    Same,
    Splat,
)


@rules(math.Elementwise)
def elementwise(op: math.Elementwise, demand: Demand, demands: Demands) -> Recipe:
    return Pointwise(op, tuple([demand.of(v) for v in op.operands]))


@rules(math.Constant)
def constant(op: math.Constant, demand: Demand, demands: Demands) -> Recipe:
    return Splat(op.bits)


@rules(graph.Iota)
def iota(op: graph.Iota, demand: Demand, demands: Demands) -> Recipe:
    return Number(demand.at[op.axis])


@rules(graph.Broadcast)
def broadcast(op: graph.Broadcast, demand: Demand, demands: Demands) -> Recipe:
    sizes = element_type(op.x.type).shape
    at = [i if size > 1 else Index() for i, size in zip(demand.at, sizes, strict=True)]
    return Same(demand.of(op.x, at=tuple(at)))


@rules(graph.Reshape)
def reshape(op: graph.Reshape, demand: Demand, demands: Demands) -> Recipe:
    return Same(demand.of(op.x, at=unflattened(address(demand), op.x)))


def unflattened(place: Index, value: Value) -> tuple[Index, ...]:
    """The indices of the element at a place in row-major order."""
    at = []
    for size in reversed(element_type(value.type).shape):
        place, index = divide(place, size)
        at.append(index)
    return tuple(at[::-1])


@rules(graph.Transpose)
def transpose(op: graph.Transpose, demand: Demand, demands: Demands) -> Recipe:
    at = [demand.at[op.permutation.index(axis)] for axis in range(len(demand.at))]
    return Same(demand.of(op.x, at=tuple(at)))


@rules(graph.Slice)
def slice_(op: graph.Slice, demand: Demand, demands: Demands) -> Recipe:
    steps = zip(demand.at, op.starts, op.steps, strict=True)
    return Same(demand.of(op.x, at=tuple([i * step + at for i, at, step in steps])))


@rules(graph.Pad)
def pad(op: graph.Pad, demand: Demand, demands: Demands) -> Recipe:
    sizes = element_type(op.x.type).shape
    at = tuple([i + -low for i, low in zip(demand.at, op.low, strict=True)])
    inside = tuple([Within(i, 0, size) for i, size in zip(at, sizes, strict=True)])
    inner = demand.of(op.x, at=at)
    return _choice([(inside, inner), ((), demand.of(op.value, at=()))])


@rules(graph.Concat)
def concat(op: graph.Concat, demand: Demand, demands: Demands) -> Recipe:
    options, start = [], 0
    for value in op.values:
        size = element_type(value.type).shape[op.axis]
        at = list(demand.at)
        at[op.axis] = at[op.axis] + -start
        inside = Within(at[op.axis], 0, size)
        options.append(((inside,), demand.of(value, at=tuple(at))))
        start += size
    return _choice(options)


def _choice(options: Sequence[tuple[tuple[Within, ...], Demand]]) -> Recipe:
    """The first element whose conditions hold, of which there is one."""
    possible: list[tuple[tuple[Within, ...], Demand]] = []
    for conditions, demand in options:
        if any(c.is_impossible for c in conditions):
            continue
        open_ = tuple([c for c in conditions if not c.is_certain])
        possible.append((open_, demand.where(*open_)))
        if not open_:
            break
    if len(possible) == 1:
        return Same(possible[0][1])
    return Choice(tuple(possible))


@rules(graph.Reduce)
def reduce(op: graph.Reduce, demand: Demand, demands: Demands) -> Recipe:
    shape = element_type(op.x.type).shape
    if not prod(shape):
        return _nothing(op.kind, demand)
    demand = demand.alone()
    axes: list[Axis] = []
    at = list(demand.at)
    for place in op.axes:
        axis = demands.axis_over(shape[place], demand, axes)
        axes.append(axis)
        at.insert(place, Index.of(axis))
    inner = demand.of(op.x, at=tuple(at))
    over = tuple([axis for axis in axes if axis.size > 1])
    if not over:
        is_place = op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        return Splat(0) if is_place else Same(inner)
    return Reduction(over, op.kind, inner)


def _nothing(kind: ReduceKind, demand: Demand) -> Splat:
    """What is made of no elements."""
    return Splat(encode(of_nothing(kind, demand.element), demand.element))


@rules(graph.Scan)
def scan(op: graph.Scan, demand: Demand, demands: Demands) -> Recipe:
    index = demand.at[op.axis]
    axes = tuple(axes_of([index]))
    others = axes_of([i for axis, i in enumerate(demand.at) if axis != op.axis])
    if index not in (Index(), *indices_of(axes)) or others.keys() & {*axes}:
        raise Unfit(f"its consumer reads {op.name} in another order than the axis has")
    # What comes before is needed, too, wherever one element is.
    elsewhere = [c for c in demand.guard if not axes_of([c.index]).keys() & {*axes}]
    bounds = zip(demand.at, demand.shape, strict=True)
    inner = Demand(op.x, demand.at, Guard(elsewhere)).where(
        *[Within(i, 0, size) for i, size in bounds]
    )
    return Running(axes, op.kind, inner)


@rules(graph.Matmul)
def matmul(op: graph.Matmul, demand: Demand, demands: Demands) -> Recipe:
    *batch, row, column = demand.at
    depth = element_type(op.a.type).shape[-1]
    if not depth:
        return _nothing(ReduceKind.SUM, demand)
    demand = demand.alone()
    # Products of the same rows go over them together.
    rows = demand.of(op.a, at=(*batch, row))
    axis = demands.summed.setdefault(rows, Axis(f"k{len(demands.summed)}", depth))
    a = demand.of(op.a, at=(*batch, row, Index.of(axis)))
    b = demand.of(op.b, at=(*batch, Index.of(axis), column))
    return Contraction((axis,), a, b, demand.element)


@rules(graph.Conv2d)
def conv2d(op: graph.Conv2d, demand: Demand, demands: Demands) -> Recipe:
    image, channel, *place = demand.at
    made, count, *window = element_type(op.w.type).shape
    axis = Axis("k", count * window[0] * window[1])
    if not axis.size:
        return _nothing(ReduceKind.SUM, demand)
    rest, across = divide(Index.of(axis), window[1])
    source, down = divide(rest, window[0])
    at = [
        p * stride + step * dilation + -before
        for p, stride, step, dilation, before in zip(
            place, op.strides, (down, across), op.dilation, op.padding[::2], strict=True
        )
    ]
    group = channel // (made // op.groups)
    sizes = element_type(op.x.type).shape[2:]
    within = [Within(i, 0, size) for i, size in zip(at, sizes, strict=True)]
    inside = tuple([c for c in within if not c.is_certain])
    x = demand.of(op.x, at=(image, group * count + source, *at)).where(*inside)
    w = demand.of(op.w, at=(channel, source, down, across))
    return Contraction((axis,), w, x, demand.element, inside)


@rules(graph.Gather)
def gather(op: graph.Gather, demand: Demand, demands: Demands) -> Recipe:
    return Same(demand.of(op.x, at=places(op, demand.at, demand.guard)))


@rules(graph.Scatter)
def scatter(op: graph.Scatter, demand: Demand, demands: Demands) -> Recipe:
    raise Unfit("the result of a scatter must be in memory before it is read")


@rules(graph.Kernel)
def kernel(op: graph.Kernel, demand: Demand, demands: Demands) -> Recipe:
    raise Unfit(f"it has kernels of its own, such as @{op.symbol}; take one of them")
