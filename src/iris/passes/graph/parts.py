"""Build axes in parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from iris.ir import graph, math
from iris.ir.builder import Builder
from iris.ir.core import Value
from iris.ir.math import Constant, element_type
from iris.ir.types import DType, Tensor


@dataclass(frozen=True)
class Parts:
    """An axis in parts of one length; the last may have padding at its end."""

    b: Builder
    size: int
    count: int
    length: int

    def of(self, x: Value, axis: int, padding: float) -> Value:
        """A tensor with two axes in place of one: the part, and the place in it."""
        type_ = element_type(x.type)
        before, after = type_.shape[:axis], type_.shape[axis + 1 :]
        whole = self.count * self.length
        if whole > self.size:
            value = self.b(Constant(padding, Tensor((), type_.element)))
            padded = Tensor((*before, whole, *after), type_.element)
            x = self.b(graph.Pad((0,) * len(type_.shape), x, value, padded))
        return in_parts(self.b, x, axis, 0, self.count, self.length)


def part_of(b: Builder, x: Value, starts: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    """The elements of a shape from a start on."""
    if shape == element_type(x.type).shape:
        return x
    return b(graph.Slice(starts, (1,) * len(shape), x, Tensor(shape, x.type.element)))


def along(b: Builder, axis: int, start: int, count: int, x: Value) -> Value:
    """Some elements along an axis."""
    shape = element_type(x.type).shape
    starts = tuple([start if a == axis else 0 for a in range(len(shape))])
    return part_of(b, x, starts, (*shape[:axis], count, *shape[axis + 1 :]))


def in_parts(b: Builder, x: Value, axis: int, start: int, count: int, length: int) -> Value:
    """The elements from a start on, with two axes in place of one: the part, and the place in
    it."""
    type_ = element_type(x.type)
    to = (*type_.shape[:axis], count, length, *type_.shape[axis + 1 :])
    return b(graph.Reshape(along(b, axis, start, count * length, x), Tensor(to, type_.element)))


def repeated(b: Builder, x: Value, axes: Collection[int], like: Value) -> Value:
    """A tensor repeated along axes that another one has and it has not."""
    to = element_type(like.type).with_element(x.type.element)
    return b(graph.Broadcast(b(graph.Reshape(x, Tensor(kept(to.shape, axes), to.element))), to))


def kept(shape: Sequence[int], axes: Collection[int]) -> tuple[int, ...]:
    """A shape with one element along some axes."""
    return tuple([1 if axis in axes else size for axis, size in enumerate(shape)])


def is_repeated(x: Value, axes: Collection[int]) -> bool:
    """Whether a tensor repeats one element along some axes."""
    if not isinstance(x.op, graph.Broadcast):
        return False
    shape = element_type(x.op.x.type).shape
    return shape == kept(shape, axes)


def cast(b: Builder, x: Value, to: DType) -> Value:
    return x if x.type.element is to else b(math.Cast(x, element_type(x.type).with_element(to)))
