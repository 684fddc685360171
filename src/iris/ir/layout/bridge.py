"""CuTe layouts as linear maps over F2, and back.

A layout of 2^k elements sends the bits of its index to sums of strides. Where those never carry, a
sum is an xor and the layout is a linear map; a swizzle is one anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from iris.errors import LayoutError
from iris.ir.layout.algebra import coalesce
from iris.ir.layout.cute import Layout, from_flat
from iris.ir.layout.linear import LinearLayout
from iris.ir.layout.swizzle import Swizzle, Swizzled


def to_linear(layout: Layout | Swizzled) -> LinearLayout:
    """The same function, from the bits of "index" to the bits of the offset.

    Answers exactly when there is one: the size is a power of two, and the offsets of the index bits
    have no bit in common before the swizzle (which is linear and can be undone). The offsets are
    padded to a power of two.

    >>> str(to_linear(Layout((4, 2), (2, 1))))
    'linear<8, index=[2, 4, 1]>'
    """
    swizzle, plain = _parts(layout)
    if plain.size & (plain.size - 1):
        raise LayoutError(f"to_linear: the size of {layout}, {plain.size}, is not a power of two")
    images = [stride << bit for size, stride in plain.flat for bit in range(size.bit_length() - 1)]
    if not _disjoint(images):
        raise LayoutError(f"to_linear: offsets of {layout} carry, so they do not add by xor")
    images = [swizzle(image) for image in images]
    return LinearLayout.of((1 << reduce(or_, images, 0).bit_length(),), index=images)


def to_cute(linear: LinearLayout) -> Layout | Swizzled:
    """The same function as a layout, or as a swizzled layout with the fewest bits swizzled.

    Answers exactly when some swizzle after some layout is that function of one index.

    >>> str(to_cute(LinearLayout.of((16,), index=[1, 2, 5, 10])))
    'swizzle<2,0,2> 16:1'
    """
    if len(linear.bases) != 1 or linear.rank != 1:
        raise LayoutError(f"to_cute: {linear} is not a map from one dimension to one dimension")
    for swizzle in _swizzles(linear.shape[0].bit_length() - 1):
        # A swizzle undoes itself, so what is left to the layout is swizzle o linear.
        images = [swizzle(image) for image in linear.columns]
        if _disjoint(images):
            layout = coalesce(from_flat((2, image) for image in images))
            return Swizzled(swizzle, layout) if swizzle.bits else layout
    raise LayoutError(f"to_cute: {linear} is no swizzle after a layout")


def _parts(layout: Layout | Swizzled) -> tuple[Swizzle, Layout]:
    if isinstance(layout, Swizzled):
        return layout.swizzle, layout.layout
    return Swizzle(0, 0, 0), layout


def _disjoint(images: list[int]) -> bool:
    """Whether no two have a bit in common, so that sums of them are xors."""
    return sum(images) == reduce(or_, images, 0)


def _swizzles(width: int) -> Iterator[Swizzle]:
    """Every swizzle of `width`-bit numbers that differs from the others, fewest bits first."""
    yield Swizzle(0, 0, 0)
    for bits in range(1, width // 2 + 1):
        for base in range(width - 2 * bits + 1):
            for shift in range(bits, width - base - bits + 1):
                yield Swizzle(bits, base, shift)
                yield Swizzle(bits, base, -shift)
