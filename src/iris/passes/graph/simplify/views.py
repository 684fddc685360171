"""Views of views: what only says where elements are is said once, and in one order.

From what is computed to what is made of it, slices come first, then reshapes that add or drop
axes of size 1, then transposes, then broadcasts: the less elements there are the earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.generic import fold
from iris.passes.graph.simplify.making import (
    Before,
    Shape,
    dtype_of,
    plain,
    rules,
    shape_of,
    used_once,
)
from iris.passes.graph.simplify.reshapes import groups, is_in_order, only_ones, spread_after

# What changes nothing, and the same thing twice.

# So that other rules see a number that is the same all over as what it is.
rules(graph.Broadcast, graph.Reshape, graph.Transpose, graph.Slice, graph.Pad, graph.Concat)(
    fold.reshape
)


@rules(graph.Reshape, graph.Broadcast, graph.Pad)
def no_other_shape(op: graph.Reshape | graph.Broadcast | graph.Pad, rewriter: Rewriter) -> None:
    """A reshape, broadcast or pad to the shape that is there."""
    if op.x.type is op.result.type:
        rewriter.replace(op, op.x)


@rules(graph.Slice)
def slice_of_all(op: graph.Slice, rewriter: Rewriter) -> None:
    """Every element in order; where there is one, its step says nothing."""
    starts, steps = plain(op.starts, op.steps, shape_of(op.result))
    if op.x.type is op.result.type and min(steps, default=1) > 0:
        rewriter.replace(op, op.x)
    elif (starts, steps) != (op.starts, op.steps):
        rewriter.replace(op, graph.Slice(starts, steps, op.x, op.result.type))


@rules(graph.Reshape)
def reshape_twice(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Only the last shape matters."""
    inner = op.x.op
    if isinstance(inner, graph.Reshape):
        rewriter.replace(op, Before(op, rewriter).reshape(inner.x, shape_of(op.result)))


@rules(graph.Broadcast)
def broadcast_twice(op: graph.Broadcast, rewriter: Rewriter) -> None:
    """Only the last shape matters."""
    inner = op.x.op
    if isinstance(inner, graph.Broadcast):
        rewriter.replace(op, Before(op, rewriter).broadcast(inner.x, shape_of(op.result)))


@rules(graph.Transpose)
def transpose_twice(op: graph.Transpose, rewriter: Rewriter) -> None:
    """Two orders of axes are one."""
    inner = op.x.op
    if isinstance(inner, graph.Transpose):
        order = [inner.permutation[axis] for axis in op.permutation]
        rewriter.replace(op, Before(op, rewriter).transpose(inner.x, order))


@rules(graph.Slice)
def slice_twice(op: graph.Slice, rewriter: Rewriter) -> None:
    """A part of a part is a part."""
    inner = op.x.op
    if not isinstance(inner, graph.Slice):
        return
    starts, steps = [], []
    for a, b, start, step in zip(inner.starts, inner.steps, op.starts, op.steps, strict=True):
        starts.append(a + b * start)
        steps.append(b * step)
    before = Before(op, rewriter)
    rewriter.replace(op, before.slice(inner.x, starts, steps, shape_of(op.result)))


@rules(graph.Transpose)
def transpose_of_ones(op: graph.Transpose, rewriter: Rewriter) -> None:
    """A transpose that moves axes of size 1 only is a reshape, or nothing."""
    if is_in_order(op.permutation, shape_of(op.x)):
        rewriter.replace(op, Before(op, rewriter).reshape(op.x, shape_of(op.result)))


# Reshapes before transposes.


@rules(graph.Reshape)
def reshape_of_transpose(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Axes of size 1 come and go before others are transposed, so that transposes meet."""
    inner = op.x.op
    shape = shape_of(op.result)
    if not isinstance(inner, graph.Transpose) or not used_once(op.x, op):
        return
    if only_ones(shape_of(op.x), shape):
        rewriter.replace(op, _moved(Before(op, rewriter), inner, shape, range(len(shape))))


@rules(graph.Transpose)
def transpose_around_ones(op: graph.Transpose, rewriter: Rewriter) -> None:
    """Transposes that only axes of size 1 keep apart are one."""
    middle = op.x.op
    if not isinstance(middle, graph.Reshape) or not used_once(op.x, op):
        return
    inner = middle.x.op
    if isinstance(inner, graph.Transpose) and only_ones(shape_of(middle.x), shape_of(op.x)):
        moved = _moved(Before(op, rewriter), inner, shape_of(op.x), op.permutation)
        rewriter.replace(op, moved)


def _moved(
    before: Before, inner: graph.Transpose, shape: Shape, permutation: Sequence[int]
) -> Value:
    """A transpose, then a reshape to a shape with other axes of size 1, then another transpose;
    as a reshape, then a transpose."""
    source = shape_of(inner.x)
    long = iter([axis for axis in inner.permutation if source[axis] != 1])
    # Where each axis of the result comes from; a new one from nowhere.
    axes = [next(long) if n != 1 else None for n in shape]
    result = [(axes[i], i) for i in permutation]
    # The new axes stand before the same axis as in the result.
    order: list[tuple[int | None, int]] = []
    for axis in [i for i, n in enumerate(source) if n != 1]:
        at = next(n for n, (origin, _) in enumerate(result) if origin == axis)
        first = at
        while first and result[first - 1][0] is None:
            first -= 1
        order += result[first : at + 1]
    order += [place for place in result if place not in order]
    reshaped = before.reshape(
        inner.x, tuple([1 if axis is None else source[axis] for axis, _ in order])
    )
    return before.transpose(reshaped, [order.index(place) for place in result])


# Broadcasts last.


@rules(graph.Transpose)
def transpose_of_broadcast(op: graph.Transpose, rewriter: Rewriter) -> None:
    """There are fewer axes to transpose before."""
    inner = op.x.op
    if isinstance(inner, graph.Broadcast):
        before = Before(op, rewriter)
        moved = before.transpose(inner.x, op.permutation)
        rewriter.replace(op, before.broadcast(moved, shape_of(op.result)))


@rules(graph.Reshape)
def reshape_of_broadcast(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Where axes that are spread stay apart from the others, a reshape of what there was."""
    inner = op.x.op
    if not isinstance(inner, graph.Broadcast) or 0 in shape_of(op.x):
        return
    shape = shape_of(op.result)
    to = spread_after(shape_of(inner.x), shape_of(op.x), shape)
    if to is not None:
        before = Before(op, rewriter)
        rewriter.replace(op, before.broadcast(before.reshape(inner.x, to), shape))


# Slices first.


@rules(graph.Slice)
def slice_of_broadcast(op: graph.Slice, rewriter: Rewriter) -> None:
    """Of an axis that is spread, a part is one that is spread less."""
    inner = op.x.op
    shape = shape_of(op.result)
    if not isinstance(inner, graph.Broadcast) or 0 in shape:
        return
    narrow, wide = shape_of(inner.x), shape_of(op.x)
    cut = [
        (start, step, size) if n == m else (0, 1, 1)
        for start, step, size, n, m in zip(op.starts, op.steps, shape, narrow, wide, strict=True)
    ]
    starts, steps, sizes = (tuple(part) for part in zip(*cut, strict=True))
    before = Before(op, rewriter)
    rewriter.replace(op, before.broadcast(before.slice(inner.x, starts, steps, sizes), shape))


@rules(graph.Slice)
def slice_of_transpose(op: graph.Slice, rewriter: Rewriter) -> None:
    """Of what nobody else wants transposed, a part is transposed."""
    inner = op.x.op
    if not isinstance(inner, graph.Transpose) or not used_once(op.x, op):
        return
    shape = shape_of(op.result)
    order = sorted(range(len(shape)), key=inner.permutation.__getitem__)
    before = Before(op, rewriter)
    starts, steps, sizes = (
        tuple([numbers[axis] for axis in order]) for numbers in (op.starts, op.steps, shape)
    )
    part = before.slice(inner.x, starts, steps, sizes)
    rewriter.replace(op, before.transpose(part, inner.permutation))


@rules(graph.Slice)
def slice_of_reshape(op: graph.Slice, rewriter: Rewriter) -> None:
    """Of what nobody else wants in another shape, a part along axes that stay is reshaped."""
    inner = op.x.op
    wide, shape = shape_of(op.x), shape_of(op.result)
    if not isinstance(inner, graph.Reshape) or not used_once(op.x, op) or 0 in shape:
        return
    source = shape_of(inner.x)
    starts, steps, sizes = [0] * len(source), [1] * len(source), list(source)
    for group in groups(source, wide):
        if len(group.before) == len(group.after) == 1:
            (i,), (j,) = group
            starts[i], steps[i], sizes[i] = op.starts[j], op.steps[j], shape[j]
        elif not all(shape[j] == wide[j] and op.steps[j] > 0 for j in group.after):
            return
    before = Before(op, rewriter)
    part = before.slice(inner.x, starts, steps, tuple(sizes))
    rewriter.replace(op, before.reshape(part, shape))


# Iotas, which are the same along all axes but one.


@rules(graph.Iota)
def iota_along_its_axis(op: graph.Iota, rewriter: Rewriter) -> None:
    """Made along its axis only, and spread along the others."""
    shape = shape_of(op.result)
    narrow = tuple([n if axis == op.axis else 1 for axis, n in enumerate(shape)])
    before = Before(op, rewriter)
    if shape[op.axis] == 1:
        rewriter.replace(op, before.number(0, shape, dtype_of(op.result)))
    elif narrow != shape:
        made = before.put(graph.Iota(op.axis, Tensor(narrow, dtype_of(op.result))))
        rewriter.replace(op, before.broadcast(made, shape))


@rules(graph.Reshape)
def reshape_of_iota(op: graph.Reshape, rewriter: Rewriter) -> None:
    """One along another axis."""
    inner, shape = op.x.op, shape_of(op.result)
    if isinstance(inner, graph.Iota) and only_ones(shape_of(op.x), shape):
        long = [axis for axis, n in enumerate(shape) if n != 1]
        if len(long) == 1:
            rewriter.replace(op, graph.Iota(long[0], op.result.type))
