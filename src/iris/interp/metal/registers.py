"""Register arrays: their elements, in another order or number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.frame import Frame
from iris.interp.metal.rules import interpretation
from iris.ir import metal, scalar
from iris.ir.core import Value
from iris.ir.math import element_type

Array = npt.NDArray[Any]


def _as(result: Value, x: Array) -> Array:
    """Elements on an axis as the value that they are: one alone may be a scalar."""
    return x if element_type(result.type).shape else x[..., 0]


def _whole(x: Array, count: int) -> Array:
    """Elements, each for itself also where all are the same."""
    return np.broadcast_to(x, (*x.shape[:-1], count))


@interpretation(metal.Splat)
def splat(frame: Frame, op: metal.Splat, x: Array) -> Sequence[Array]:
    return [x[..., None]]


@interpretation(metal.Literal)
def literal(frame: Frame, op: metal.Literal) -> Sequence[Array]:
    type_ = element_type(op.result.type)
    numbers = np.array(op.values, scalar.storage(type_.element))
    return [numbers.reshape(*[1] * (frame.rank(type_) - 1), -1)]


@interpretation(metal.Pattern)
def pattern(frame: Frame, op: metal.Pattern) -> Sequence[Array]:
    numbers = [0]
    for image in op.images:
        numbers += [number ^ image for number in numbers]
    type_ = element_type(op.result.type)
    whole = np.array(numbers, scalar.storage(type_.element))
    return [whole.reshape(*[1] * (frame.rank(type_) - 1), -1)]


@interpretation(metal.Take)
def take(frame: Frame, op: metal.Take, x: Array) -> Sequence[Array]:
    if x.shape[-1] > 1:
        x = x[..., list(op.indices)]
    return [_as(op.result, x)]


@interpretation(metal.Join)
def join(frame: Frame, op: metal.Join, *parts: Array) -> Sequence[Array]:
    columns = []
    for value, x in zip(op.operands, parts, strict=True):
        type_ = element_type(value.type)
        columns.append(_whole(x if type_.shape else x[..., None], metal.count_of(type_)))
    lead = np.broadcast_shapes(*[x.shape[:-1] for x in columns])
    return [np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in columns], axis=-1)]


@interpretation(metal.Insert)
def insert(
    frame: Frame, op: metal.Insert, x: Array, index: Array, element: Array
) -> Sequence[Array]:
    count = metal.count_of(op.x.type)
    frame.check(op, (index < 0) | (index >= count), f"{op.x.type} has no element of that number")
    is_it = np.arange(count) == index[..., None]
    return [np.where(is_it, element[..., None], x)]


@interpretation(metal.Slice)
def part(frame: Frame, op: metal.Slice, x: Array, index: Array) -> Sequence[Array]:
    width = metal.count_of(op.result.type)
    parts = metal.count_of(op.x.type) // width
    frame.check(op, (index < 0) | (index >= parts), f"{op.x.type} has no part of that number")
    if x.shape[-1] == 1:
        return [_as(op.result, x)]
    numbers = np.clip(index, 0, parts - 1)
    if numbers.size == 1:
        first = int(numbers.reshape(-1)[0]) * width
        return [_as(op.result, x[..., first : first + width])]
    apart = x.reshape(*x.shape[:-1], parts, width)
    rounds = numbers.ndim - 1
    if numbers.size == numbers.shape[rounds] and x.shape[rounds] == 1:
        # All threads take the same one, by the number of the round alone.
        found = apart.squeeze(rounds).take(numbers.reshape(-1), axis=rounds)
    else:
        found = np.take_along_axis(apart, numbers[..., None, None].astype(np.intp), axis=-2)
        found = found[..., 0, :]
    return [_as(op.result, found)]
