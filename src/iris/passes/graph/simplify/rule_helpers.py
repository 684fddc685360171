"""Helpers of the rules: queries of values, and insertion of ops."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import graph
from iris.ir.core import Op, Value
from iris.ir.math import Constant, Elementwise, element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import DType, Tensor

Shape = tuple[int, ...]

rules = Rules()


def shape_of(value: Value) -> Shape:
    return element_type(value.type).shape


def dtype_of(value: Value) -> DType:
    return value.type.element


def is_splat(value: Value) -> bool:
    """Whether all elements are one constant."""
    return isinstance(value.op, Constant)


def is_only_use(value: Value, by: Op) -> bool:
    """Whether an op of the same region is the only user of a value."""
    return len(value.users) == 1 and value.home is by.parent


def has_padding(op: graph.Pad) -> bool:
    """Whether the result has elements of padding."""
    return op.x.type is not op.result.type and 0 not in shape_of(op.result)


def normal_slice(starts: Sequence[int], steps: Sequence[int], shape: Shape) -> tuple[Shape, Shape]:
    """Starts and steps of a slice, with 0 and 1 in place of those that do not matter."""
    return (
        tuple([start if n else 0 for start, n in zip(starts, shape, strict=True)]),
        tuple([step if n > 1 else 1 for step, n in zip(steps, shape, strict=True)]),
    )


class InsertBefore:
    """Inserts ops before an op; views that change nothing are left out."""

    def __init__(self, op: Op, rewriter: Rewriter):
        self.op = op
        self.rewriter = rewriter

    def insert(self, op: Op) -> Value:
        return self.rewriter.insert(op, self.op).results[0]

    def splat(self, value: Value, shape: Shape) -> Value:
        """The same constant in another shape."""
        constant = value.op
        assert isinstance(constant, Constant), f"{value!r} is not one number"
        return self.insert(Constant.of_bits(constant.bits, Tensor(shape, dtype_of(value))))

    def constant(self, number: float, shape: Shape, dtype: DType) -> Value:
        return self.insert(Constant(number, Tensor(shape, dtype)))

    def reshape(self, x: Value, shape: Shape) -> Value:
        if shape_of(x) == shape:
            return x
        return self.insert(graph.Reshape(x, Tensor(shape, dtype_of(x))))

    def broadcast(self, x: Value, shape: Shape) -> Value:
        if shape_of(x) == shape:
            return x
        return self.insert(graph.Broadcast(x, Tensor(shape, dtype_of(x))))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        if list(permutation) == sorted(permutation):
            return x
        return self.insert(graph.Transpose(tuple(permutation), x))

    def slice(self, x: Value, starts: Sequence[int], steps: Sequence[int], shape: Shape) -> Value:
        starts, steps = normal_slice(starts, steps, shape)
        if shape_of(x) == shape and min(steps, default=1) > 0:
            return x
        return self.insert(graph.Slice(starts, steps, x, Tensor(shape, dtype_of(x))))

    def fill(self, x: Value, shape: Shape) -> Value:
        """Fill a shape with a tensor of one element."""
        if is_splat(x):
            return self.splat(x, shape)
        return self.broadcast(self.reshape(x, (1,) * len(shape)), shape)

    def elementwise(self, op: Elementwise, operands: Sequence[Value], shape: Shape) -> Value:
        """An elementwise op on operands of another shape."""
        type_ = Tensor(shape, dtype_of(op.results[0]))
        return self.insert(
            type(op).create(tuple(operands), op.attributes, (type_,), (), op.location)
        )
