"""Merge views of views, and put them in one order.

Slices come first, then reshapes that add or drop axes of size 1, then transposes, then broadcasts:
views of fewer elements first.
"""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.generic import fold
from iris.passes.graph.simplify.reshapes import (
    broadcast_before_reshape,
    differ_by_unit_axes,
    moves_only_unit_axes,
    reshape_groups,
)
from iris.passes.graph.simplify.rule_helpers import (
    InsertBefore,
    Shape,
    dtype_of,
    is_only_use,
    normal_slice,
    rules,
    shape_of,
)

# Identities, and one view twice.

# Folds views of constants, so that other rules see the constants.
rules(graph.Broadcast, graph.Reshape, graph.Transpose, graph.Slice, graph.Pad, graph.Concat)(
    fold.reshape
)


@rules(graph.Reshape, graph.Broadcast, graph.Pad)
def identity_view(op: graph.Reshape | graph.Broadcast | graph.Pad, rewriter: Rewriter) -> None:
    """Erase a reshape, broadcast or pad to the same shape."""
    if op.x.type is op.result.type:
        rewriter.replace(op, op.x)


@rules(graph.Slice)
def identity_slice(op: graph.Slice, rewriter: Rewriter) -> None:
    """Erase a slice of all elements; normalise starts and steps that do not matter."""
    starts, steps = normal_slice(op.starts, op.steps, shape_of(op.result))
    if op.x.type is op.result.type and min(steps, default=1) > 0:
        rewriter.replace(op, op.x)
    elif (starts, steps) != (op.starts, op.steps):
        rewriter.replace(op, graph.Slice(starts, steps, op.x, op.result.type))


@rules(graph.Reshape)
def reshape_of_reshape(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Only the last shape matters."""
    inner = op.x.op
    if isinstance(inner, graph.Reshape):
        rewriter.replace(op, InsertBefore(op, rewriter).reshape(inner.x, shape_of(op.result)))


@rules(graph.Broadcast)
def broadcast_of_broadcast(op: graph.Broadcast, rewriter: Rewriter) -> None:
    """Only the last shape matters."""
    inner = op.x.op
    if isinstance(inner, graph.Broadcast):
        rewriter.replace(op, InsertBefore(op, rewriter).broadcast(inner.x, shape_of(op.result)))


@rules(graph.Transpose)
def transpose_of_transpose(op: graph.Transpose, rewriter: Rewriter) -> None:
    """Compose two permutations."""
    inner = op.x.op
    if isinstance(inner, graph.Transpose):
        order = [inner.permutation[axis] for axis in op.permutation]
        rewriter.replace(op, InsertBefore(op, rewriter).transpose(inner.x, order))


@rules(graph.Slice)
def slice_of_slice(op: graph.Slice, rewriter: Rewriter) -> None:
    """Compose two slices."""
    inner = op.x.op
    if not isinstance(inner, graph.Slice):
        return
    starts, steps = [], []
    for a, b, start, step in zip(inner.starts, inner.steps, op.starts, op.steps, strict=True):
        starts.append(a + b * start)
        steps.append(b * step)
    before = InsertBefore(op, rewriter)
    rewriter.replace(op, before.slice(inner.x, starts, steps, shape_of(op.result)))


@rules(graph.Transpose)
def transpose_of_unit_axes(op: graph.Transpose, rewriter: Rewriter) -> None:
    """Reshape instead of a transpose that moves only axes of size 1."""
    if moves_only_unit_axes(op.permutation, shape_of(op.x)):
        rewriter.replace(op, InsertBefore(op, rewriter).reshape(op.x, shape_of(op.result)))


# Reshapes before transposes.


@rules(graph.Reshape)
def reshape_of_transpose(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Add and drop axes of size 1 before a transpose, so that transposes meet."""
    inner = op.x.op
    shape = shape_of(op.result)
    if not isinstance(inner, graph.Transpose) or not is_only_use(op.x, op):
        return
    if differ_by_unit_axes(shape_of(op.x), shape):
        rewriter.replace(
            op, _reshape_then_transpose(InsertBefore(op, rewriter), inner, shape, range(len(shape)))
        )


@rules(graph.Transpose)
def transpose_of_reshaped_transpose(op: graph.Transpose, rewriter: Rewriter) -> None:
    """Merge transposes with a reshape of axes of size 1 between them."""
    middle = op.x.op
    if not isinstance(middle, graph.Reshape) or not is_only_use(op.x, op):
        return
    inner = middle.x.op
    if isinstance(inner, graph.Transpose) and differ_by_unit_axes(
        shape_of(middle.x), shape_of(op.x)
    ):
        moved = _reshape_then_transpose(
            InsertBefore(op, rewriter), inner, shape_of(op.x), op.permutation
        )
        rewriter.replace(op, moved)


def _reshape_then_transpose(
    before: InsertBefore, inner: graph.Transpose, shape: Shape, permutation: Sequence[int]
) -> Value:
    """Replace transpose, reshape of axes of size 1, transpose by one reshape and one transpose."""
    source = shape_of(inner.x)
    longer = iter([axis for axis in inner.permutation if source[axis] != 1])
    # Where each axis of the result comes from; a new one from nowhere.
    axes = [next(longer) if n != 1 else None for n in shape]
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
    """Transpose before broadcasting, where there are fewer elements."""
    inner = op.x.op
    if isinstance(inner, graph.Broadcast):
        before = InsertBefore(op, rewriter)
        moved = before.transpose(inner.x, op.permutation)
        rewriter.replace(op, before.broadcast(moved, shape_of(op.result)))


@rules(graph.Reshape)
def reshape_of_broadcast(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Reshape before broadcasting, if no broadcast axis is merged with another one."""
    inner = op.x.op
    if not isinstance(inner, graph.Broadcast) or 0 in shape_of(op.x):
        return
    shape = shape_of(op.result)
    to = broadcast_before_reshape(shape_of(inner.x), shape_of(op.x), shape)
    if to is not None:
        before = InsertBefore(op, rewriter)
        rewriter.replace(op, before.broadcast(before.reshape(inner.x, to), shape))


# Slices first.


@rules(graph.Slice)
def slice_of_broadcast(op: graph.Slice, rewriter: Rewriter) -> None:
    """Slice before broadcasting; broadcast axes to the size of the slice."""
    inner = op.x.op
    shape = shape_of(op.result)
    if not isinstance(inner, graph.Broadcast) or 0 in shape:
        return
    narrow, wide = shape_of(inner.x), shape_of(op.x)
    parts = [
        (start, step, size) if n == m else (0, 1, 1)
        for start, step, size, n, m in zip(op.starts, op.steps, shape, narrow, wide, strict=True)
    ]
    starts, steps, sizes = (tuple(part) for part in zip(*parts, strict=True))
    before = InsertBefore(op, rewriter)
    rewriter.replace(op, before.broadcast(before.slice(inner.x, starts, steps, sizes), shape))


@rules(graph.Slice)
def slice_of_transpose(op: graph.Slice, rewriter: Rewriter) -> None:
    """Slice before transposing, if the slice is the only user."""
    inner = op.x.op
    if not isinstance(inner, graph.Transpose) or not is_only_use(op.x, op):
        return
    shape = shape_of(op.result)
    order = sorted(range(len(shape)), key=inner.permutation.__getitem__)
    before = InsertBefore(op, rewriter)
    starts, steps, sizes = (
        tuple([numbers[axis] for axis in order]) for numbers in (op.starts, op.steps, shape)
    )
    part = before.slice(inner.x, starts, steps, sizes)
    rewriter.replace(op, before.transpose(part, inner.permutation))


@rules(graph.Slice)
def slice_of_reshape(op: graph.Slice, rewriter: Rewriter) -> None:
    """Slice before reshaping, along axes that the reshape keeps, if the slice is the only user."""
    inner = op.x.op
    wide, shape = shape_of(op.x), shape_of(op.result)
    if not isinstance(inner, graph.Reshape) or not is_only_use(op.x, op) or 0 in shape:
        return
    source = shape_of(inner.x)
    starts, steps, sizes = [0] * len(source), [1] * len(source), list(source)
    for group in reshape_groups(source, wide):
        if len(group.before) == len(group.after) == 1:
            (i,), (j,) = group
            starts[i], steps[i], sizes[i] = op.starts[j], op.steps[j], shape[j]
        elif not all(shape[j] == wide[j] and op.steps[j] > 0 for j in group.after):
            return
    before = InsertBefore(op, rewriter)
    part = before.slice(inner.x, starts, steps, tuple(sizes))
    rewriter.replace(op, before.reshape(part, shape))


# Iotas, which differ along one axis only.


@rules(graph.Iota)
def broadcast_iota(op: graph.Iota, rewriter: Rewriter) -> None:
    """Compute an iota along its axis only, and broadcast it along the others."""
    shape = shape_of(op.result)
    narrow = tuple([n if axis == op.axis else 1 for axis, n in enumerate(shape)])
    before = InsertBefore(op, rewriter)
    if shape[op.axis] == 1:
        rewriter.replace(op, before.constant(0, shape, dtype_of(op.result)))
    elif narrow != shape:
        line = before.insert(graph.Iota(op.axis, Tensor(narrow, dtype_of(op.result))))
        rewriter.replace(op, before.broadcast(line, shape))


@rules(graph.Reshape)
def reshape_of_iota(op: graph.Reshape, rewriter: Rewriter) -> None:
    """Replace a reshaped iota by one along another axis."""
    inner, shape = op.x.op, shape_of(op.result)
    if isinstance(inner, graph.Iota) and differ_by_unit_axes(shape_of(op.x), shape):
        longer = [axis for axis, n in enumerate(shape) if n != 1]
        if len(longer) == 1:
            rewriter.replace(op, graph.Iota(longer[0], op.result.type))
