"""Swizzles: XOR some bits of an offset into others, so that columns spread over the banks.

`Swizzled` (a swizzle after a layout) is the only composed layout we need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from iris.errors import LayoutError
from iris.ir.layout.cute import IntTuple, Layout


@dataclass(frozen=True, slots=True)
class Swizzle:
    """XOR `bits` bits at `base` with the `bits` bits that lie `shift` above them.

    With a negative shift the lower field is the source: the bits at `base` are XORed into those
    `-shift` above. The two fields must not overlap, so a swizzle undoes itself.

    >>> swizzle = Swizzle(2, 0, 3)
    >>> str(swizzle), [swizzle(x) for x in (0, 8, 9, 16, 24)]
    ('swizzle<2,0,3>', [0, 9, 8, 18, 27])
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self}: bits and base are at least 0")
        if abs(self.shift) < self.bits:
            raise LayoutError(f"{self}: the two fields overlap; |shift| must be at least bits")

    @overload
    def __call__(self, offset: int) -> int: ...
    @overload
    def __call__(self, offset: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def __call__(self, offset: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
        source = ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))
        if self.shift >= 0:
            return offset ^ ((offset & source) >> self.shift)
        return offset ^ ((offset & source) << -self.shift)

    def __str__(self) -> str:
        return f"swizzle<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True, slots=True)
class Swizzled:
    """A swizzle after a layout: the function i -> swizzle(layout(i)).

    >>> tile = Swizzled(Swizzle(2, 3, 3), Layout((64, 32), (32, 1)))
    >>> str(tile), tile((2, 0))
    ('swizzle<2,3,3> (64,32):(32,1)', 72)
    """

    swizzle: Swizzle
    layout: Layout

    @overload
    def __call__(self, coord: IntTuple) -> int: ...
    @overload
    def __call__(self, coord: NDArray[Any]) -> NDArray[np.int64]: ...
    def __call__(self, coord: IntTuple | NDArray[Any]) -> int | NDArray[np.int64]:
        return self.swizzle(self.layout(coord))

    @property
    def shape(self) -> IntTuple:
        return self.layout.shape

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The modes of the layout, before the swizzle."""
        return self.layout.modes

    @property
    def rank(self) -> int:
        return self.layout.rank

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return self.layout.size

    @property
    def cosize(self) -> int:
        """One more than the largest offset; found by looking, for XOR can raise it or lower it."""
        return 1 + int(self(np.arange(self.size)).max())

    def __str__(self) -> str:
        return f"{self.swizzle} {self.layout}"
