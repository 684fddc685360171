"""The threads of a launch in NumPy: where each of them is, and what they give each other.

A value is one row for each thread of the grid, in the order of their numbers: of one element if it
is a scalar, of two to four if it is a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.types import DType, bf16, f16, f32, i32
from iris.testing.plain_tiles import Plain, Refused

Array = npt.NDArray[Any]
LANES = 32
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """Threads of a grid, which may end within a threadgroup; a threadgroup may end within a
    simdgroup."""

    threads: Sizes
    size: Sizes  # of a threadgroup
    says_groups: bool = False  # and not how many threads there are

    @property
    def count(self) -> int:
        return prod(self.threads)

    @cached_property
    def groups(self) -> Sizes:
        x, y, z = (-(-n // size) for n, size in zip(self.threads, self.size, strict=True))
        return x, y, z

    @property
    def how(self) -> Mapping[str, Any]:
        if self.says_groups:
            return {"grid": self.groups, "threadgroup": self.size}
        return {"threads": self.threads, "threadgroup": self.size}

    @cached_property
    def positions(self) -> Mapping[str, Array]:
        """What the words of positions give, for each thread."""
        number = np.arange(self.count)
        width, height, _ = self.threads
        places = number % width, number // width % height, number // (width * height)
        found: dict[str, Array] = {}
        in_group = number * 0
        for axis in (2, 1, 0):
            name, size, at = "xyz"[axis], self.size[axis], places[axis]
            found[f"thread_id_{name}"] = at
            found[f"thread_in_threadgroup_{name}"] = at % size
            found[f"threadgroup_id_{name}"] = at // size
            found[f"threadgroup_size_{name}"] = np.full_like(at, size)
            found[f"grid_size_{name}"] = np.full_like(at, self.threads[axis])
            found[f"num_threadgroups_{name}"] = np.full_like(at, self.groups[axis])
            in_group = in_group * size + at % size
        found["thread_in_threadgroup"] = in_group
        found["lane_id"], found["simdgroup_id"] = in_group % LANES, in_group // LANES
        return found

    @cached_property
    def group(self) -> Array:
        """The number of the threadgroup of each thread."""
        number = np.zeros(self.count, np.int64)
        for axis in (2, 1, 0):
            number = number * self.groups[axis] + self.positions[f"threadgroup_id_{'xyz'[axis]}"]
        return number

    @property
    def lane(self) -> Array:
        return self.positions["lane_id"]

    @cached_property
    def simdgroup(self) -> Array:
        """The number of the simdgroup of each thread in the grid."""
        return self.group * self.simdgroups + self.positions["simdgroup_id"]

    @property
    def simdgroups(self) -> int:
        """How many a threadgroup has."""
        return -(-prod(self.size) // LANES)

    @property
    def is_full(self) -> bool:
        """Whether each simdgroup has all its threads."""
        return self.count == prod(self.groups) * self.simdgroups * LANES

    def neighbours(self, rng: np.random.Generator) -> Array:
        """For each thread another one of its threadgroup, each once."""
        found = np.zeros(self.count, np.int64)
        for group in np.unique(self.group):
            (there,) = np.nonzero(self.group == group)
            found[there] = rng.permutation(there)
        return found

    # What lanes give each other.

    def rows(self, x: Array, otherwise: Any = 0) -> Array:
        """The values of each simdgroup, with another one in lanes that do not exist."""
        rows = np.full((prod(self.groups) * self.simdgroups, LANES, x.shape[1]), otherwise, x.dtype)
        rows[self.simdgroup, self.lane] = x
        return rows

    def from_lane(self, x: Plain, lane: Array) -> Plain:
        """What one lane of the simdgroup has, which may be another for each thread; 0 of one that
        does not exist."""
        return Plain(self.rows(x.data)[self.simdgroup, lane], x.dtype)

    def reduced(self, x: Plain, ufunc: np.ufunc, neutral: Any) -> Plain:
        """What the lanes of each simdgroup make of their values together."""
        every = ufunc.reduce(self.rows(x.data, neutral), axis=1)
        return Plain(every[self.simdgroup], x.dtype)

    def sums(self, x: Plain) -> tuple[Plain, Plain]:
        """The sum of the values of the lower lanes; and that with the lane's own."""
        up_to = np.cumsum(self.rows(x.data), axis=1, dtype=x.data.dtype)
        before = np.zeros_like(up_to)
        before[:, 1:] = up_to[:, :-1]
        at = self.simdgroup, self.lane
        return Plain(before[at], x.dtype), Plain(up_to[at], x.dtype)

    def ballot(self, condition: Plain) -> Array:
        bits = self.rows(condition.data)[:, :, 0].astype(np.int64) << np.arange(LANES)
        return np.asarray(bits.sum(axis=1)[self.simdgroup, None])


def per_thread(numbers: Array) -> Plain:
    """A scalar of i32, given for each thread."""
    return Plain(numbers[:, None], i32)


# Floats are multiples of 1 / 16: dtypes have so many.
_SIXTEENTHS = {f32: 1 << 24, f16: 1 << 11, bf16: 1 << 8}


def check_sum(dtype: DType, *terms: Array) -> None:
    """Refuse terms whose sum may be rounded, in some order."""
    magnitudes = [np.where(np.isfinite(x), np.abs(x), 0).astype(np.float64) for x in terms]
    total = np.asarray(sum(magnitudes)) * 16
    is_whole = all(np.all(x * 16 == np.rint(x * 16)) for x in magnitudes)
    if dtype.is_float and not (is_whole and np.all(total <= _SIXTEENTHS[dtype])):
        raise Refused("a sum that is rounded")


def check_product(dtype: DType, x: Array) -> None:
    """Refuse factors whose product may be rounded: all are powers of two."""
    factors = np.abs(x[np.isfinite(x)])
    if dtype.is_float and not (dtype.bits == 32 and np.all(np.isin(factors, (0, 0.5, 1, 2)))):
        raise Refused("a product that is rounded")
