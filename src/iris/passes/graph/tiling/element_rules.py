"""The element expression of each op of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iris.ir import graph, math
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, of_nothing
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.passes.graph.tiling.element_exprs import (
    Alias,
    Contraction,
    ElementExpr,
    IndexValue,
    Piecewise,
    Pointwise,
    ReduceExpr,
    ScanExpr,
    SplatExpr,
)
from iris.passes.graph.tiling.element_graph import ElementGraph, element_rules
from iris.passes.graph.tiling.element_ref import (
    CannotFuse,
    ElementRef,
    Guard,
    Within,
    axes_of,
    indices_of,
    looked_up_indices,
    row_major_offset,
)
from iris.passes.graph.tiling.index_expr import Atom, Axis, IndexExpr, divide

SCATTER_READ = "the result of a scatter must be in memory before it is read"


@element_rules(math.Elementwise)
def elementwise_expr(op: math.Elementwise, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    return Pointwise(op, tuple([ref.of(v) for v in op.operands]))


@element_rules(math.Constant)
def constant_expr(op: math.Constant, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    return SplatExpr(op.bits)


@element_rules(graph.Iota)
def iota_expr(op: graph.Iota, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    return IndexValue(ref.indices[op.axis])


@element_rules(graph.Broadcast)
def broadcast_expr(op: graph.Broadcast, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    sizes = element_type(op.x.type).shape
    indices = [i if size > 1 else IndexExpr() for i, size in zip(ref.indices, sizes, strict=True)]
    return Alias(ref.of(op.x, indices=tuple(indices)))


@element_rules(graph.Reshape)
def reshape_expr(op: graph.Reshape, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    bounded, indices = _in_range(ref)
    found = unflatten(row_major_offset(bounded), op.x)
    return Alias(ref.of(op.x, indices=tuple([i.substitute(indices.get) for i in found])))


def _in_range(ref: ElementRef) -> tuple[ElementRef, dict[Atom, IndexExpr]]:
    """The element with an axis for each index that leaves the tensor where the guard does not hold,
    so that divisions may count on its range; and the indices by these axes."""
    indices = list(ref.indices)
    own: dict[Atom, IndexExpr] = {}
    for n, (index, size) in enumerate(zip(ref.indices, ref.shape, strict=True)):
        if not Within(index, 0, size).is_certain:
            axis = Axis("index", size)
            own[axis] = index
            indices[n] = IndexExpr.of(axis)
    return ref.of(ref.value, indices=tuple(indices)), own


def unflatten(offset: IndexExpr, value: Value) -> tuple[IndexExpr, ...]:
    """The indices of the element at an offset in row-major order."""
    indices = []
    for size in reversed(element_type(value.type).shape):
        offset, index = divide(offset, size)
        indices.append(index)
    return tuple(indices[::-1])


@element_rules(graph.Transpose)
def transpose_expr(op: graph.Transpose, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    indices = [ref.indices[op.permutation.index(axis)] for axis in range(len(ref.indices))]
    return Alias(ref.of(op.x, indices=tuple(indices)))


@element_rules(graph.Slice)
def slice_expr(op: graph.Slice, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    steps = zip(ref.indices, op.starts, op.steps, strict=True)
    return Alias(ref.of(op.x, indices=tuple([i * step + start for i, start, step in steps])))


@element_rules(graph.Pad)
def pad_expr(op: graph.Pad, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    sizes = element_type(op.x.type).shape
    indices = tuple([i + -low for i, low in zip(ref.indices, op.low, strict=True)])
    inside = tuple([Within(i, 0, size) for i, size in zip(indices, sizes, strict=True)])
    inner = ref.of(op.x, indices=indices)
    return _piecewise([(inside, inner), ((), ref.of(op.value, indices=()))])


@element_rules(graph.Concat)
def concat_expr(op: graph.Concat, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    """An element of the last tensor that it may be of, or of those before it: so two are needed at
    a time, and what a recurrence has computed is put in its place step by step."""
    index = ref.indices[op.axis]
    start = ref.shape[op.axis]
    low, high = ref.bounds(index)
    low, high = max(low, 0), min(high, start)
    for value in reversed(op.values):
        size = element_type(value.type).shape[op.axis]
        start -= size
        if start < high:
            break
    own = index + -start
    indices = list(ref.indices)
    # Of one element it is 0, so that what is computed of it does not depend on the index.
    indices[op.axis] = IndexExpr() if size == 1 else own
    # The guard is of the tensor's own index, as that of others who read the tensor.
    last = ref.within(own, max(low - start, 0), high - start).of(value, indices=tuple(indices))
    last = last.with_own_guard()
    if start <= low:
        return Alias(last)
    return Piecewise((((Within(index, low, start),), ref.within(index, low, start)), ((), last)))


def _piecewise(cases: Sequence[tuple[tuple[Within, ...], ElementRef]]) -> ElementExpr:
    """The first case whose conditions hold; there must be one."""
    possible: list[tuple[tuple[Within, ...], ElementRef]] = []
    for conditions, ref in cases:
        if any(c.is_impossible for c in conditions):
            continue
        open_ = tuple([c for c in conditions if not c.is_certain])
        possible.append((open_, ref.where(*open_).with_own_guard()))
        if not open_:
            break
    if len(possible) == 1:
        return Alias(possible[0][1])
    return Piecewise(tuple(possible))


@element_rules(graph.Reduce)
def reduce_expr(op: graph.Reduce, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    shape = element_type(op.x.type).shape
    if not prod(shape):
        return _empty_aggregate(op.kind, ref)
    ref = ref.with_own_guard()
    axes: list[Axis] = []
    indices = list(ref.indices)
    for position in op.axes:
        axis = elements.reduction_axis(shape[position], ref, axes)
        axes.append(axis)
        indices.insert(position, IndexExpr.of(axis))
    inner = ref.of(op.x, indices=tuple(indices))
    over = tuple([axis for axis in axes if axis.size > 1])
    if not over:
        is_index = op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        return SplatExpr(0) if is_index else Alias(inner)
    return ReduceExpr(over, op.kind, inner)


def _empty_aggregate(kind: ReduceKind, ref: ElementRef) -> SplatExpr:
    """The result of a reduction of no elements."""
    return SplatExpr(encode(of_nothing(kind, ref.element), ref.element))


@element_rules(graph.Scan)
def scan_expr(op: graph.Scan, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    index = ref.indices[op.axis]
    axes = tuple(axes_of([index]))
    others = axes_of([i for axis, i in enumerate(ref.indices) if axis != op.axis])
    if index not in (IndexExpr(), *indices_of(axes)) or others.keys() & {*axes}:
        raise CannotFuse(f"its consumer reads {op.name} in another order than the axis has")
    # An element needs all elements before it, whatever its guard says of the scanned axis.
    other_conditions = [c for c in ref.guard if not axes_of([c.index]).keys() & {*axes}]
    bounds = zip(ref.indices, ref.shape, strict=True)
    inner = ElementRef(op.x, ref.indices, Guard(other_conditions)).where(
        *[Within(i, 0, size) for i, size in bounds]
    )
    return ScanExpr(axes, op.kind, inner)


@element_rules(graph.Matmul)
def matmul_expr(op: graph.Matmul, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    *batch, row, column = ref.indices
    depth = element_type(op.a.type).shape[-1]
    if not depth:
        return _empty_aggregate(ReduceKind.SUM, ref)
    ref = ref.with_own_guard()
    # Products of the same rows share one loop.
    rows = ref.of(op.a, indices=(*batch, row))
    axis = elements.contraction_axes.get(rows)
    if axis is None:
        axis = elements.contraction_axes[rows] = elements.new_axis("k", depth)
    a = ref.of(op.a, indices=(*batch, row, IndexExpr.of(axis)))
    b = ref.of(op.b, indices=(*batch, IndexExpr.of(axis), column))
    return Contraction((axis,), a, b, ref.element)


@element_rules(graph.Conv2d)
def conv2d_expr(op: graph.Conv2d, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    image, channel, *pixel = ref.indices
    filters, count, *window = element_type(op.w.type).shape
    depth = count * window[0] * window[1]
    if not depth:
        return _empty_aggregate(ReduceKind.SUM, ref)
    axis = elements.new_axis("k", depth)
    rest, across = divide(IndexExpr.of(axis), window[1])
    source, down = divide(rest, window[0])
    indices = [
        p * stride + step * dilation + -before
        for p, stride, step, dilation, before in zip(
            pixel, op.strides, (down, across), op.dilation, op.padding[::2], strict=True
        )
    ]
    group = channel // (filters // op.groups)
    sizes = element_type(op.x.type).shape[2:]
    within = [Within(i, 0, size) for i, size in zip(indices, sizes, strict=True)]
    inside = tuple([c for c in within if not c.is_certain])
    x = ref.of(op.x, indices=(image, group * count + source, *indices)).where(*inside)
    w = ref.of(op.w, indices=(channel, source, down, across))
    return Contraction((axis,), w, x, ref.element, inside)


@element_rules(graph.Gather)
def gather_expr(op: graph.Gather, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    return Alias(ref.of(op.x, indices=looked_up_indices(op, ref.indices, ref.guard)))


@element_rules(graph.Scatter)
def scatter_expr(op: graph.Scatter, ref: ElementRef, elements: ElementGraph) -> ElementExpr:
    raise CannotFuse(SCATTER_READ)


@element_rules(graph.Kernel, graph.Launch)
def kernel_expr(
    op: graph.Kernel | graph.Launch, ref: ElementRef, elements: ElementGraph
) -> ElementExpr:
    raise CannotFuse(f"it has kernels of its own, such as @{op.symbol}")
