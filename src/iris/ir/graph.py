"""Graph IR: what a function of whole arrays computes; shapes are static, and nothing is a kernel
until `graph.kernel` says so."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod

from iris.ir.attributes import Boolean, Integer, Integers, OneOf, Symbol
from iris.ir.axis_schedule import WrittenSchedule, WrittenSchedules
from iris.ir.core import Level, Op, Region, Value
from iris.ir.declare import (
    INTEGERS,
    NUMBERS,
    TENSORS,
    attribute,
    operand,
    region,
    result,
    results,
    variadic,
)
from iris.ir.kinds import COLLECTED_BITS, ReduceKind, ScanKind
from iris.ir.types import DType, Tensor, Type, bool_, f32, i32, i64, u32, u64


class GraphOp(Op):
    level = Level.GRAPH


class Iota(GraphOp):
    """The index along an axis, from 0 on, in every element.

    %column: tensor<3x5xi32> = graph.iota 1
    """

    name = "graph.iota"
    axis: int = attribute(Integer(0))
    result: Value = result(NUMBERS)

    def check(self) -> None:
        if self.axis >= len(_tensor(self.result).shape):
            raise self.invalid(f"{self.result.type} has no axis {self.axis}", at="axis")


class Broadcast(GraphOp):
    """A tensor with its sizes of 1 broadcast to others.

    %rows: tensor<64x32xf32> = graph.broadcast %column
    """

    name = "graph.broadcast"
    x: Value = operand(TENSORS)
    result: Value = result(TENSORS)

    def check(self) -> None:
        x, to = _tensor(self.x), _tensor(self.result)
        if (
            x.element is not to.element
            or len(x.shape) != len(to.shape)
            or any(s not in (1, t) for s, t in zip(x.shape, to.shape, strict=True))
        ):
            raise self.invalid(f"{x} cannot be broadcast to {to}", at="result")


class Reshape(GraphOp):
    """The same elements, in row-major order, in another shape.

    %flat: tensor<15xf32> = graph.reshape %x
    """

    name = "graph.reshape"
    x: Value = operand(TENSORS)
    result: Value = result(TENSORS)

    def check(self) -> None:
        x, to = _tensor(self.x), _tensor(self.result)
        if x.element is not to.element or prod(x.shape) != prod(to.shape):
            raise self.invalid(f"{x} and {to} differ in dtype or number of elements", at="result")


class Transpose(GraphOp):
    """The axes in another order: axis i of the result is axis `permutation[i]` of the operand.

    %xt: tensor<5x3xf32> = graph.transpose [1, 0] %x
    """

    name = "graph.transpose"
    permutation: tuple[int, ...] = attribute(Integers())
    x: Value = operand(TENSORS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tensor(self.x)
        if sorted(self.permutation) != list(range(len(x.shape))):
            axes = ", ".join(map(str, range(len(x.shape))))
            raise self.invalid(f"the axes of {x} are {axes}, in any order", at="permutation")
        return (Tensor(tuple([x.shape[i] for i in self.permutation]), x.element),)


class Slice(GraphOp):
    """The elements from a start on, by a step along each axis; a negative step goes backwards.

    %odd: tensor<3x2xf32> = graph.slice [0, 3] [1, -2] %x
    """

    name = "graph.slice"
    starts: tuple[int, ...] = attribute(Integers())
    steps: tuple[int, ...] = attribute(Integers())
    x: Value = operand(TENSORS)
    result: Value = result(TENSORS)

    def check(self) -> None:
        x, to = _tensor(self.x), _tensor(self.result)
        if x.element is not to.element or len(x.shape) != len(to.shape):
            raise self.invalid(f"{to} is no part of {x}", at="result")
        for field, numbers in (("starts", self.starts), ("steps", self.steps)):
            if len(numbers) != len(x.shape):
                raise self.invalid(f"{x} needs {len(x.shape)} {field}", at=field)
        if 0 in self.steps:
            raise self.invalid("a step of 0 goes nowhere", at="steps")
        for axis, (start, step, size) in enumerate(
            zip(self.starts, self.steps, to.shape, strict=True)
        ):
            for index in (start, start + step * (size - 1)) if size else ():
                if not 0 <= index < x.shape[axis]:
                    raise self.invalid(f"axis {axis} of {x} has no index {index}", at="result")


class Pad(GraphOp):
    """A tensor with a value before and after it, along each axis.

    %y: tensor<5x9xf32> = graph.pad [1, 2] %x, %zero

    `low` says how much goes before; what the result has more goes after.
    """

    name = "graph.pad"
    low: tuple[int, ...] = attribute(Integers())
    x: Value = operand(TENSORS)
    value: Value = operand(TENSORS)
    result: Value = result(TENSORS)

    def check(self) -> None:
        x, to, value = _tensor(self.x), _tensor(self.result), _tensor(self.value)
        if value is not Tensor((), x.element):
            raise self.invalid(f"{x} is padded with a {Tensor((), x.element)}", at="value")
        if len(self.low) != len(x.shape) or min(self.low, default=0) < 0:
            raise self.invalid(f"{x} needs {len(x.shape)} numbers, none negative", at="low")
        if (
            x.element is not to.element
            or len(x.shape) != len(to.shape)
            or any(n + s > t for n, s, t in zip(self.low, x.shape, to.shape, strict=True))
        ):
            raise self.invalid(f"{to} has no room for {x}", at="result")


class Concat(GraphOp):
    """Tensors one after another along an axis.

    %both: tensor<6x5xf32> = graph.concat 0 %x, %y
    """

    name = "graph.concat"
    axis: int = attribute(Integer(0))
    values: tuple[Value, ...] = variadic(TENSORS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        if not self.operands:
            raise self.invalid("there is nothing to put together")
        types = [_tensor(v) for v in self.operands]
        first = types[0]
        if self.axis >= len(first.shape):
            raise self.invalid(f"{first} has no axis {self.axis}", at="axis")
        rest = _without(first.shape, (self.axis,))
        for index, type_ in enumerate(types):
            if (
                type_.element is not first.element
                or len(type_.shape) != len(first.shape)
                or _without(type_.shape, (self.axis,)) != rest
            ):
                message = f"{first} and {type_} do not fit along axis {self.axis}"
                raise self.invalid(message, at="values", index=index)
        sizes = list(first.shape)
        sizes[self.axis] = sum(t.shape[self.axis] for t in types)
        return (Tensor(tuple(sizes), first.element),)


class Reduce(GraphOp):
    """One value for all elements along some axes, which go away.

    %total: tensor<3xf32> = graph.reduce sum [1] %x

    It means what `tile.reduce` does; of `argmax` and `argmin` there is one axis.
    """

    name = "graph.reduce"
    kind: ReduceKind = attribute(OneOf(ReduceKind))
    axes: tuple[int, ...] = attribute(Integers())
    x: Value = operand(TENSORS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tensor(self.x)
        _check_axes(self, self.axes, x)
        truth = self.kind in (ReduceKind.ANY, ReduceKind.ALL)
        if truth is not (x.element is bool_):
            raise self.invalid(f"{self.kind.value} does not apply to {x.element}", at="x")
        places = self.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        if places and len(self.axes) != 1:
            raise self.invalid(f"{self.kind.value} has one axis", at="axes")
        if self.kind not in _OF_NOTHING and 0 in [x.shape[a] for a in self.axes]:
            raise self.invalid(f"{self.kind.value} of no elements has no value", at="x")
        return (Tensor(_without(x.shape, self.axes), i32 if places else x.element),)


_OF_NOTHING = (ReduceKind.SUM, ReduceKind.PROD, ReduceKind.ANY, ReduceKind.ALL)


class Scan(GraphOp):
    """The reduction of the elements up to and with each one along an axis.

    %running: tensor<3x5xf32> = graph.scan sum 1 %x
    """

    name = "graph.scan"
    kind: ScanKind = attribute(OneOf(ScanKind))
    axis: int = attribute(Integer(0))
    x: Value = operand(NUMBERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tensor(self.x)
        _check_axes(self, (self.axis,), x, at="axis")
        return (x,)


class Matmul(GraphOp):
    """Products of matrices, one for each index of the axes before the last two.

    %c: tensor<8x64x32xf32> = graph.matmul %a, %b

    Of floats the result is f32, summed in any order; of integers it has at least 32 bits, and
    wraps.
    """

    name = "graph.matmul"
    a: Value = operand(NUMBERS)
    b: Value = operand(NUMBERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        a, b = _tensor(self.a), _tensor(self.b)
        if a.element is not b.element:
            raise self.invalid(f"{a.element} and {b.element} do not multiply", at="b")
        if len(a.shape) < 2:
            raise self.invalid(f"{a} is no matrix", at="a")
        if len(b.shape) != len(a.shape) or (*a.shape[:-2], a.shape[-1]) != b.shape[:-1]:
            raise self.invalid(f"{a} and {b} do not multiply", at="b")
        return (Tensor((*a.shape[:-1], b.shape[-1]), accumulated(a.element)),)


class Conv2d(GraphOp):
    """Images of shape (batch, channels, height, width) under filters of shape (channels made,
    channels of a group, height, width).

    %y: tensor<1x8x16x16xf32> = graph.conv2d [1, 1] [1, 1, 1, 1] [1, 1] 1 %x, %w

    `strides` and `dilation` go down and across; `padding` says how many zeros stand above, below,
    left and right.  Each of the `groups` makes a part of the channels from a part of them.
    """

    name = "graph.conv2d"
    strides: tuple[int, ...] = attribute(Integers())
    padding: tuple[int, ...] = attribute(Integers())
    dilation: tuple[int, ...] = attribute(Integers())
    groups: int = attribute(Integer(1))
    x: Value = operand(NUMBERS)
    w: Value = operand(NUMBERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x, w = _tensor(self.x), _tensor(self.w)
        for field, numbers, count, least in (
            ("strides", self.strides, 2, 1),
            ("padding", self.padding, 4, 0),
            ("dilation", self.dilation, 2, 1),
        ):
            if len(numbers) != count or min(numbers) < least:
                raise self.invalid(f"{count} numbers of at least {least}", at=field)
        if len(x.shape) != 4:
            raise self.invalid(f"{x} has no four axes", at="x")
        if len(w.shape) != 4 or w.element is not x.element:
            raise self.invalid(f"{w} does not go with {x}", at="w")
        if w.shape[1] * self.groups != x.shape[1] or w.shape[0] % self.groups:
            raise self.invalid(f"{self.groups} groups of {w} do not go with {x}", at="w")
        sizes = []
        for axis in (0, 1):
            space = x.shape[2 + axis] + sum(self.padding[2 * axis : 2 * axis + 2])
            reach = self.dilation[axis] * (w.shape[2 + axis] - 1) + 1
            sizes.append(max(0, (space - reach) // self.strides[axis] + 1))
        return (Tensor((x.shape[0], w.shape[0], *sizes), accumulated(x.element)),)


class Gather(GraphOp):
    """Elements of a tensor at computed indices.

    %y: tensor<7x5xf32> = graph.gather [0] %x, %rows

    For each of some axes there is a tensor of indices, all of one shape: the result has that shape,
    then the axes that are not looked up.  A place outside of the axis is a program error.
    """

    name = "graph.gather"
    axes: tuple[int, ...] = attribute(Integers())
    x: Value = operand(TENSORS)
    indices: tuple[Value, ...] = variadic(INTEGERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tensor(self.x)
        return (Tensor(_looked_up(self, x), x.element),)

    def may_speculate(self) -> bool:
        return False  # there may be no such place


class ScatterKind(Enum):
    """What becomes of an element that is scattered to."""

    SET = "set"
    ADD = "add"


class Scatter(GraphOp):
    """A tensor with the elements at computed indices replaced, or added to.

    %y: tensor<3x5xf32> = graph.scatter add [0] %x, %updates, %rows

    The indices are given as for `graph.gather`, and the updates have the shape of its result.
    To replace one element twice is a race.  Each program of a `collected` sum adds up its updates
    in threadgroup memory, and then adds once to each element.
    """

    name = "graph.scatter"
    kind: ScatterKind = attribute(OneOf(ScatterKind))
    axes: tuple[int, ...] = attribute(Integers())
    collected: bool = attribute(Boolean(), False)
    x: Value = operand(TENSORS)
    updates: Value = operand(TENSORS)
    indices: tuple[Value, ...] = variadic(INTEGERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tensor(self.x)
        wanted = Tensor(_looked_up(self, x), x.element)
        if self.updates.type is not wanted:
            raise self.invalid(f"the updates are a {wanted}", at="updates")
        if self.kind is ScatterKind.ADD and x.element is bool_:
            raise self.invalid("add does not apply to bool", at="x")
        if self.collected and (self.kind is ScatterKind.SET or x.element.bits != COLLECTED_BITS):
            raise self.invalid(f"sums of {COLLECTED_BITS} bits are collected", at="collected")
        return (x,)

    def may_speculate(self) -> bool:
        return False


class Kernel(GraphOp):
    """What one kernel computes: its region reads tensors from outside and yields those that the
    kernel writes.

    %y: tensor<64xf32> = graph.kernel @scale schedule=[i0: programs 32 of 64] {
      %z: tensor<64xf32> = mul %x, %x
      yield %z
    }

    Its schedule says how it goes over each axis of its results, `i0`, `i1` and so on, and over
    each axis that it reduces, and how many simdgroups run a program (docs/graphs.md).
    """

    name = "graph.kernel"
    symbol: str = attribute(Symbol())
    schedule: WrittenSchedule | None = attribute(WrittenSchedules(), None)
    body: Region = region()
    results = results()

    @property
    def inputs(self) -> list[Value]:
        """The values that its region reads from outside."""
        inside = {v for op in self.body for v in op.results}
        used = dict.fromkeys(v for op in self.body for v in op.operands)
        return [v for v in used if v not in inside]

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels that one launch of it runs: itself."""
        return [self]

    @property
    def written(self) -> tuple[Value, ...]:
        """The value of its region that each result is."""
        return self.body.end.operands

    def check(self) -> None:
        mistake = None if self.schedule is None else self.schedule.mistake
        if mistake is not None:
            raise self.invalid(mistake, at="schedule")

    def expects(self, region: Region) -> Sequence[Type]:
        return [v.type for v in self.results]

    def surely_runs(self, region: Region) -> bool:
        return True


class Launch(GraphOp):
    """Kernels that one launch runs side by side, each by programs of its own.

    %y: tensor<64xf32>, %s: tensor<5xf32> = graph.launch @scale_both {
      %a: tensor<64xf32> = graph.kernel @scale {
        %0: tensor<64xf32> = mul %x, %x
        yield %0
      }
      %b: tensor<5xf32> = graph.kernel @total {
        %1: tensor<5xf32> = graph.reduce sum [1] %w
        yield %1
      }
      yield %a, %b
    }

    It yields all results of its kernels, in order.  No kernel reads what another one writes, as
    nothing orders them.
    """

    name = "graph.launch"
    symbol: str = attribute(Symbol())
    body: Region = region()
    results = results()

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels that it runs."""
        return [op for op in self.body if isinstance(op, Kernel)]

    @property
    def inputs(self) -> list[Value]:
        """The values that its kernels read."""
        return list(dict.fromkeys(v for kernel in self.kernels for v in kernel.inputs))

    @property
    def written(self) -> tuple[Value, ...]:
        """The value of a kernel's region that each result is."""
        return tuple([v for kernel in self.kernels for v in kernel.written])

    def check(self) -> None:
        if not (_is_whole(self) and all(_is_whole(op) for op in self.kernels)):
            return  # it is being built, or a region is found to be wrong
        kernels = self.kernels
        for op in self.body:
            if not isinstance(op, Kernel) and not op.terminator:
                raise self.invalid(f"it has kernels only, not {op.name}")
        if not kernels:
            raise self.invalid("it has no kernel")
        if self.body.end.operands != tuple([v for kernel in kernels for v in kernel.results]):
            raise self.invalid("it yields all results of its kernels, in order")
        writers = {v: kernel.symbol for kernel in kernels for v in kernel.results}
        for kernel in kernels:
            for value in kernel.inputs:
                if value in writers:
                    raise self.invalid(f"@{kernel.symbol} reads what @{writers[value]} writes")

    def expects(self, region: Region) -> Sequence[Type]:
        return [v.type for v in self.results]

    def surely_runs(self, region: Region) -> bool:
        return True


def launches_in(region: Region) -> list[Kernel | Launch]:
    """The kernels of a region, and the launches of several."""
    return [op for op in region if isinstance(op, (Kernel, Launch))]


def storage_root(value: Value) -> Value:
    """The tensor that holds a value in memory: a reshape shares its source's memory."""
    while isinstance(value.op, Reshape):
        value = value.op.x
    return value


def _is_whole(op: Op) -> bool:
    """Whether an op has a region whose ops know their places, and which ends as it should."""
    if len(op.regions) != 1:
        return False
    (region,) = op.regions
    previous = None
    for inner in region:
        if inner.parent is not region or inner.previous is not previous:
            return False
        previous = inner
    return previous is not None and previous.terminator and region.last is previous


def accumulated(element: DType) -> DType:
    """The dtype in which products of a dtype are summed."""
    if element.is_float:
        return f32
    if element.bits > 32:
        return i64 if element.is_signed else u64
    return i32 if element.is_signed else u32


def _tensor(value: Value) -> Tensor:
    return value.type_as(Tensor)


def _without(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([n for axis, n in enumerate(shape) if axis not in axes])


def _check_axes(op: Op, axes: tuple[int, ...], x: Tensor, at: str = "axes") -> None:
    if list(axes) != sorted(set(axes)) or not axes or axes[0] < 0 or axes[-1] >= len(x.shape):
        raise op.invalid(f"{list(axes)} are no axes of {x} in order", at=at)


def _looked_up(op: Gather | Scatter, x: Tensor) -> tuple[int, ...]:
    """The shape of what is at the places that an op is given."""
    _check_axes(op, op.axes, x)
    if len(op.indices) != len(op.axes):
        raise op.invalid(f"{len(op.axes)} axes need as many tensors of indices", at="indices")
    first = _tensor(op.indices[0])
    for index, value in enumerate(op.indices):
        if value.type is not first:
            message = f"{first} and {value.type} are not of one type"
            raise op.invalid(message, at="indices", index=index)
    if first.element not in (i32, i64):
        raise op.invalid(f"indices are i32 or i64, not {first.element}", at="indices")
    return (*first.shape, *_without(x.shape, op.axes))
