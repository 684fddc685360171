"""The integers that the threads of one program hold, as far as they are known before it runs.

    %row: i32 = metal.threadgroup_id 0         3, say
    %lane: i32 = metal.lane                    0, 1, 2, ... 31
    %base: i32 = mul %row, %N                  3072, if N is 1024
    %at: i32 = add %base, %lane                3072, 3073, ... 3103
    %x: f32 = metal.load %X, %at               not known: no integer

So where a program accesses memory, and how often its loops run, can be counted.  The program is one
in the middle of the grid, which is like most others.  The first thread of each program that starts
early can be followed beside it: where two have the same address, they share what they load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import math, metal, scalar
from iris.ir.control import Func
from iris.ir.core import Facet, Op, Value
from iris.ir.math import element_type
from iris.ir.metal import SIMDGROUP_WIDTH, count_of
from iris.ir.types import ElementType, bool_

Array = npt.NDArray[Any]
Size = int | tuple[int, ...]

#: What an argument or an extent is that nobody has told: one that something divides, and another.
DIVIDED, UNDIVIDED = 1024, 1023

#: What an op gives, `rule(sample, op, *operands)`, all operands known.  An array has an axis of
#: threads, of length 1 where they have the same, and for register arrays an axis of elements.
sampling = Facet("sample")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a launch: its grid, and the known integer arguments and shapes, by name or
    position."""

    grid: tuple[int, int, int] = (1, 1, 1)
    arguments: Mapping[str | int, Size] = field(default_factory=dict)

    @classmethod
    def of(cls, grid: tuple[int, int, int], arguments: Mapping[str, object]) -> Sizes:
        """The sizes of a launch with some shapes and scalars; floats are ignored."""
        known: dict[str | int, Size] = {}
        for name, value in arguments.items():
            if isinstance(value, tuple):
                known[name] = value
            elif isinstance(value, (int, np.integer, np.bool_)):
                known[name] = int(value)
        return cls(grid, known)

    def of_argument(self, argument: Value) -> Size | None:
        """The number that an argument is, or the shape of the array; None if it is not known."""
        named = self.arguments.get(argument.name or "")
        return self.arguments.get(argument.index) if named is None else named

    @property
    def programs(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


class Sample:
    """The known values of one program, and of the first threads of `others`, the first programs of
    the grid; all ops are to be computed in order."""

    def __init__(self, function: Func, sizes: Sizes, others: int = 0):
        self.sizes = sizes
        self.threads = max(1, function.simdgroups) * SIMDGROUP_WIDTH
        self.numbers = np.concatenate([np.arange(self.threads), np.zeros(others, np.int64)])
        self._known: dict[Value, Array] = {}
        for value in function.body.arguments:
            if _is_integral(value):
                size = sizes.of_argument(value)
                if size is None and value.type is not bool_:
                    size = usual_size(value)
                self.set(value, None if size is None else np.array([size]))

    def of(self, value: Value | None) -> Array | None:
        """What a value is in the threads of the program."""
        known = None if value is None else self._known.get(value)
        return None if known is None else known[: self.threads]

    def of_others(self, value: Value) -> Array | None:
        """What a value is in the others."""
        known = self._known.get(value)
        if known is None:
            return None
        return np.broadcast_to(known, (len(self.numbers), *known.shape[1:]))[self.threads :]

    def bind(self, value: Value, other: Value) -> None:
        """Say that a value is what another one is."""
        self._known.pop(value, None)
        if other in self._known:
            self._known[value] = self._known[other]

    def program(self, axis: int) -> Array:
        """The number along an axis of the program in the middle, and of the others."""
        middle = (self.sizes.grid[axis] - 1) // 2
        count = len(self.numbers) - self.threads
        if not count:
            return np.array([middle])
        others = np.unravel_index(np.arange(count), self.sizes.grid, order="F")
        return np.concatenate([np.full(self.threads, middle), others[axis]])

    def set(self, value: Value, known: Array | None) -> None:
        """Say what a value is, in the dtype that it has."""
        if known is None:
            self._known.pop(value, None)
        else:
            type_ = element_type(value.type)
            known = known.astype(scalar.storage(type_.element), copy=False)
            self._known[value] = np.broadcast_to(known, (len(known), *type_.shape))

    def compute(self, op: Op) -> None:
        """Find what the result of an op is, from what its operands are."""
        if len(op.results) != 1 or not _is_integral(op.results[0]):
            return
        rule: Callable[..., Array] | None = sampling.get(type(op))
        operands = [self._known.get(v) for v in op.operands if isinstance(v.type, ElementType)]
        if rule is not None and all(x is not None for x in operands):
            self.set(op.results[0], rule(self, op, *operands))


def usual_size(value: Value) -> int:
    """What an integer is taken to be that depends on the launch."""
    divisors = [u.divisor for u in value.users if isinstance(u, math.AssumeDivisible)]
    most = max(divisors, default=1)
    return UNDIVIDED if most == 1 else -(-DIVIDED // most) * most


def _is_integral(value: Value) -> bool:
    return isinstance(value.type, ElementType) and not value.type.element.is_float


@sampling(math.Elementwise)
def elementwise(sample: Sample, op: math.Elementwise, *operands: Array) -> Array:
    return scalar.evaluate(op, *operands)


@sampling(math.Constant)
def constant(sample: Sample, op: math.Constant) -> Array:
    axes = 1 + len(element_type(op.result.type).shape)
    return scalar.from_bits(op.dtype, np.full((1,) * axes, op.bits, np.uint64))


@sampling(math.Select)
def select(
    sample: Sample, op: math.Select, condition: Array, on_true: Array, on_false: Array
) -> Array:
    if condition.ndim < on_true.ndim:
        condition = condition[:, None]
    return scalar.evaluate(op, condition, on_true, on_false)


@sampling(metal.Lane)
def lane(sample: Sample, op: metal.Lane) -> Array:
    return sample.numbers % SIMDGROUP_WIDTH


@sampling(metal.Simdgroup)
def simdgroup(sample: Sample, op: metal.Simdgroup) -> Array:
    return sample.numbers // SIMDGROUP_WIDTH


@sampling(metal.ThreadgroupId)
def threadgroup_id(sample: Sample, op: metal.ThreadgroupId) -> Array:
    return sample.program(op.axis)


@sampling(metal.NumThreadgroups)
def num_threadgroups(sample: Sample, op: metal.NumThreadgroups) -> Array:
    return np.array([sample.sizes.grid[op.axis]])


@sampling(metal.Extent)
def extent(sample: Sample, op: metal.Extent) -> Array:
    shape = sample.sizes.of_argument(op.base)
    return np.array([shape[op.axis] if isinstance(shape, tuple) else usual_size(op.result)])


@sampling(metal.Splat)
def splat(sample: Sample, op: metal.Splat, x: Array) -> Array:
    return np.broadcast_to(x[:, None], (len(x), count_of(op.result.type)))


@sampling(metal.Literal)
def literal(sample: Sample, op: metal.Literal) -> Array:
    return np.array([op.values])


@sampling(metal.Pattern)
def pattern(sample: Sample, op: metal.Pattern) -> Array:
    numbers = [0]
    for image in op.images:
        numbers += [number ^ image for number in numbers]
    return np.array([numbers])


@sampling(metal.Take)
def take(sample: Sample, op: metal.Take, x: Array) -> Array:
    taken = x[:, list(op.indices)]
    return taken if len(op.indices) > 1 else taken[:, 0]


@sampling(metal.Join)
def join(sample: Sample, op: metal.Join, *parts: Array) -> Array:
    rows = max(map(len, parts))
    apart = [x if x.ndim == 2 else x[:, None] for x in parts]
    return np.concatenate([np.broadcast_to(x, (rows, x.shape[1])) for x in apart], axis=1)


@sampling(metal.Insert)
def insert(sample: Sample, op: metal.Insert, x: Array, index: Array, element: Array) -> Array:
    is_it = np.arange(count_of(op.x.type)) == np.reshape(index, (-1, 1))
    return np.where(is_it, np.reshape(element, (-1, 1)), x)


@sampling(metal.Slice)
def slice_(sample: Sample, op: metal.Slice, x: Array, index: Array) -> Array:
    width = count_of(op.result.type)
    parts = x.reshape(len(x), -1, width)
    rows = np.arange(len(x)) if len(x) > 1 else 0
    taken = np.asarray(parts[rows, index])
    return taken if element_type(op.result.type).shape else taken[:, 0]
