"""The two halves of each block of a tile, taken apart and put together.

Reductions and scans by a user's function, sorts and joins are made of these steps.
"""

from __future__ import annotations

from math import prod

from iris.frontend.values import Traced, constant, emit, spread
from iris.ir import math, tile
from iris.ir.math import Predicate
from iris.ir.types import Tile, i32


def flat(x: Traced) -> Traced:
    """All elements, in row-major order."""
    return in_shape(x, prod(x.shape))


def in_shape(x: Traced, *sizes: int) -> Traced:
    """The elements in row-major order, in another shape; a scalar is one element."""
    if x.shape == sizes:
        return x
    if not x.shape:
        return spread(x, sizes)
    if not sizes:
        return pick(flat(x), 0, 0)
    return emit(tile.Reshape(x.value, Tile(sizes, x.dtype)))


def pick(x: Traced, axis: int, index: int) -> Traced:
    return emit(tile.Pick(axis, index, x.value))


def halves(x: Traced, step: int) -> tuple[Traced, Traced]:
    """Each block of `2 * step` elements in row-major order, as two flat tiles: what stands first in
    the blocks, and what stands second."""
    sizes = [prod(x.shape) // (2 * step), 2, step]
    axis = 1 if sizes[0] > 1 else 0
    blocks = in_shape(x, *[s for n, s in enumerate(sizes) if n == 1 or s > 1])
    low, high = (pick(blocks, axis, index) for index in (0, 1))
    return flat(low), flat(high)


def is_second(size: int, step: int) -> Traced:
    """Which of `size` elements stand in the second half of their block of `2 * step`."""
    order = emit(tile.Arange(0, Tile((2,), i32)))
    one = spread(constant(1, i32), (2,))
    second = emit(math.Compare(Predicate.EQ, order.value, one.value))
    return flat(spread(in_shape(second, 1, 2, 1), (size // (2 * step), 2, step)))


def joined(low: Traced, high: Traced, step: int) -> Traced:
    """The flat tile whose `halves` are these two."""
    size = 2 * prod(low.shape)
    shape = (size // (2 * step), 2, step)
    sides = [flat(spread(in_shape(x, shape[0], 1, step), shape)) for x in (low, high)]
    second = is_second(size, step)
    return emit(math.Select(second.value, sides[1].value, sides[0].value))
