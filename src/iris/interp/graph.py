"""The reference interpreter of Graph IR: what a function of whole arrays computes.

Op by op in NumPy, each array dropped after its last use.  Arrays on the way may be views of one
another, with strides of 0 where something is spread: nothing is written in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, ProgramError
from iris.interp import reductions
from iris.interp.lifetimes import last_uses
from iris.interp.memory import memory_dtype
from iris.interp.products import product
from iris.ir import graph, math, scalar
from iris.ir.control import Func
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.math import element_type
from iris.ir.types import DType, f32

Array = npt.NDArray[Any]

interpretation = Facet("graph interpretation")


@np.errstate(all="ignore")
def run(function: Func, arguments: Sequence[Array]) -> list[Array]:
    """What a function returns for some arrays.

    They are those of the function's arguments, in order, of their dtypes and shapes; bf16 comes
    and goes as its bits, in uint16.  What is returned shares no memory with anything.
    """
    parameters = function.body.arguments
    if len(arguments) != len(parameters):
        raise ArgumentError(
            f"{function.symbol} takes {len(parameters)} arguments, not {len(arguments)}"
        )
    given = [_bind(v, x) for v, x in zip(parameters, arguments, strict=True)]
    found = Frame().run(function.body, given)
    return [_made(t, x) for t, x in zip(_dtypes(function), found, strict=True)]


def _bind(parameter: Value, argument: Array) -> Array:
    """An argument, in storage."""
    name, type_ = parameter.name or f"argument {parameter.index}", element_type(parameter.type)
    wanted = memory_dtype(type_.element)
    if not isinstance(argument, np.ndarray | np.generic) or argument.dtype != wanted:
        have = getattr(argument, "dtype", type(argument).__name__)
        raise ArgumentError(f"{name} must be an array of {wanted}, not {have}")
    if argument.shape != type_.shape:
        raise ArgumentError(f"{name} must have the shape {type_.shape}, not {argument.shape}")
    if wanted == scalar.storage(type_.element):
        return np.asarray(argument)
    return scalar.from_bits(type_.element, np.asarray(argument))


def _dtypes(function: Func) -> list[DType]:
    return [t.element for t in function.returns]


def _made(dtype: DType, x: Array) -> Array:
    """A result, as the caller gets it."""
    bits = scalar.to_bits(dtype, x) if memory_dtype(dtype) != x.dtype else x
    return np.array(bits, order="C")


class Frame:
    """What has been computed, and may be used again."""

    def __init__(self) -> None:
        self.values: dict[Value, Array] = {}

    def run(self, region: Region, arguments: Sequence[Array] = ()) -> list[Array]:
        """What the terminator of a region carries, the region being run."""
        values = self.values
        values.update(zip(region.arguments, arguments, strict=True))
        for op, dying in last_uses(region):
            rule = interpretation[type(op)]
            found = rule(self, op, *[values[v] for v in op.operands])
            values.update(zip(op.results, found, strict=True))
            for value in dying:
                del values[value]
        carried = [values[v] for v in region.end.operands]
        for value in set(region.end.operands):
            if value.home is region:
                del values[value]
        return carried


def _fail(
    op: Op, message: str, *, array: Value | None = None, index: int | None = None
) -> NoReturn:
    raise ProgramError(
        message,
        array=None if array is None else _name(array),
        index=index,
        locations=[] if op.location is None else [op.location],
    )


def _name(value: Value) -> str:
    return value.name or f"a {value.type}"


def _place(where: Array) -> list[int]:
    """The index of the first element for which something holds."""
    return [int(i) for i in np.unravel_index(int(where.argmax()), where.shape)]


def _shape(value: Value) -> tuple[int, ...]:
    return element_type(value.type).shape


def _dtype(value: Value) -> DType:
    return value.type.element


def _number(value: Value, wide: Array) -> Array:
    """Exact numbers in the storage of a value, rounded or wrapped."""
    dtype = _dtype(value)
    if dtype.is_float:
        return scalar.round_to(dtype, wide.astype(np.float64))
    return wide.astype(scalar.storage(dtype))


# The shared math.


@interpretation(math.Elementwise)
def elementwise(frame: Frame, op: math.Elementwise, *operands: Array) -> Sequence[Array]:
    for where, message in scalar.program_errors(op, *operands):
        if where.any():
            _fail(op, f"{message}, at {_place(np.asarray(where))}" if where.ndim else message)
    return [scalar.evaluate_unwarned(op, *operands)]


@interpretation(math.Constant)
def constant(frame: Frame, op: math.Constant) -> Sequence[Array]:
    number = scalar.from_bits(op.dtype, np.array(op.bits, np.uint64))
    return [np.broadcast_to(number, _shape(op.result))]


@interpretation(graph.Iota)
def iota(frame: Frame, op: graph.Iota) -> Sequence[Array]:
    shape = _shape(op.result)
    places = _number(op.result, np.arange(shape[op.axis]))
    along = [-1 if axis == op.axis else 1 for axis in range(len(shape))]
    return [np.broadcast_to(places.reshape(along), shape)]


# The same elements elsewhere.


@interpretation(graph.Broadcast)
def broadcast(frame: Frame, op: graph.Broadcast, x: Array) -> Sequence[Array]:
    return [np.broadcast_to(x, _shape(op.result))]


@interpretation(graph.Reshape)
def reshape(frame: Frame, op: graph.Reshape, x: Array) -> Sequence[Array]:
    return [x.reshape(_shape(op.result))]


@interpretation(graph.Transpose)
def transpose(frame: Frame, op: graph.Transpose, x: Array) -> Sequence[Array]:
    return [x.transpose(op.permutation)]


@interpretation(graph.Slice)
def cut(frame: Frame, op: graph.Slice, x: Array) -> Sequence[Array]:
    return [x[tuple(map(_range, op.starts, op.steps, _shape(op.result)))]]


def _range(start: int, step: int, count: int) -> slice:
    """So many indices of an axis."""
    end = start + step * count
    if not count:
        return slice(0, 0)
    return slice(start, end if end >= 0 else None, step)


@interpretation(graph.Pad)
def pad(frame: Frame, op: graph.Pad, x: Array, value: Array) -> Sequence[Array]:
    padded = np.full(_shape(op.result), value)
    padded[tuple([slice(n, n + size) for n, size in zip(op.low, x.shape, strict=True)])] = x
    return [padded]


@interpretation(graph.Concat)
def concat(frame: Frame, op: graph.Concat, *values: Array) -> Sequence[Array]:
    return [np.concatenate(values, op.axis)]


# What combines elements.


@interpretation(graph.Reduce)
def reduce(frame: Frame, op: graph.Reduce, x: Array) -> Sequence[Array]:
    return [np.asarray(reductions.reduce(op.kind, _dtype(op.x), x, *op.axes))]


@interpretation(graph.Scan)
def scan(frame: Frame, op: graph.Scan, x: Array) -> Sequence[Array]:
    return [reductions.scan(op.kind, _dtype(op.x), x, op.axis)]


@interpretation(graph.Matmul)
def matmul(frame: Frame, op: graph.Matmul, a: Array, b: Array) -> Sequence[Array]:
    return [product(_dtype(op.result), a, b)]


@interpretation(graph.Conv2d)
def conv2d(frame: Frame, op: graph.Conv2d, x: Array, w: Array) -> Sequence[Array]:
    """A product of matrices: the filters, and what each of them sees at each place."""
    images, made, *places = _shape(op.result)
    _, channels, *window = w.shape
    above, below, left, right = op.padding
    wide = np.pad(x, ((0, 0), (0, 0), (above, below), (left, right)))
    rows, columns = (
        np.add.outer(np.arange(places[i]) * op.strides[i], np.arange(window[i]) * op.dilation[i])
        for i in (0, 1)
    )
    # images, groups, channels of a group, down, down in the window, across, across in the window
    seen = wide[:, :, rows[:, :, None, None], columns[None, None]]
    seen = seen.reshape(images, op.groups, channels, places[0], window[0], places[1], window[1])
    seen = seen.transpose(1, 0, 3, 5, 2, 4, 6)
    reach = channels * window[0] * window[1]
    seen = seen.reshape(op.groups, images * places[0] * places[1], reach)
    filters = w.reshape(op.groups, made // op.groups, reach).transpose(0, 2, 1)
    total = product(_dtype(op.result), seen, filters)
    total = total.reshape(op.groups, images, *places, made // op.groups)
    return [total.transpose(1, 0, 4, 2, 3).reshape(images, made, *places)]


# Computed places.


def _places(op: graph.Gather | graph.Scatter, indices: Sequence[Array]) -> tuple[Array, ...]:
    """Indices along some axes, checked."""
    for axis, index in zip(op.axes, indices, strict=True):
        size = _shape(op.x)[axis]
        outside = (index < 0) | (index >= size)
        if outside.any():
            at = int(index[tuple(_place(outside))])
            message = f"index {at} is outside axis {axis} of {_name(op.x)}, which has {size}"
            _fail(op, message, array=op.x, index=at)
    return tuple([index.astype(np.intp, copy=False) for index in indices])


@interpretation(graph.Gather)
def gather(frame: Frame, op: graph.Gather, x: Array, *indices: Array) -> Sequence[Array]:
    places = _places(op, indices)
    return [np.moveaxis(x, op.axes, range(len(op.axes)))[places]]


@interpretation(graph.Scatter)
def scatter(
    frame: Frame, op: graph.Scatter, x: Array, updates: Array, *indices: Array
) -> Sequence[Array]:
    places, dtype = _places(op, indices), _dtype(op.x)
    # Sums of 16-bit floats are made in f32, and rounded once.
    wide = scalar.storage(f32 if dtype.is_float else dtype)
    whole = x.astype(wide)
    there = np.moveaxis(whole, op.axes, range(len(op.axes)))
    if op.kind is graph.ScatterKind.SET:
        _check_races(op, places, there.shape)
        there[places] = updates
    else:
        with np.errstate(all="ignore"):
            np.add.at(there, places, updates.astype(wide))
    return [scalar.round_to(dtype, whole) if dtype.is_float else whole]


def _check_races(op: graph.Scatter, places: tuple[Array, ...], shape: tuple[int, ...]) -> None:
    """Reports a place to which two updates go, if there is anything there."""
    along, rest = shape[: len(places)], shape[len(places) :]
    if not places[0].size or 0 in rest:
        return
    met, times = np.unique(np.ravel_multi_index(places, along), return_counts=True)
    if times.max() == 1:
        return
    first = int(met[times.argmax()])
    at = ", ".join(str(int(i)) for i in np.unravel_index(first, along))
    which = f"{times.max()} updates replace what is at {at} along axes {list(op.axes)}"
    _fail(op, f"race: {which} of {_name(op.x)}", array=op.x, index=first)


# Kernels.


@interpretation(graph.Kernel, graph.Launch)
def kernel(frame: Frame, op: graph.Kernel | graph.Launch) -> Sequence[Array]:
    return frame.run(op.body)
