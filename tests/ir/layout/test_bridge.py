"""The bridge between CuTe layouts and linear maps, against brute force."""

from __future__ import annotations

import random
from itertools import combinations, product

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.bridge import to_cute, to_linear
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LinearLayout
from iris.ir.layout.swizzle import Swizzle, Swizzled


def linear_values(linear: LinearLayout) -> list[int]:
    """The function of a map from "index", from its bases alone."""
    ((dim, images),) = linear.bases
    assert dim == "index"
    values = [0]
    for (image,) in images:
        values += [value ^ image for value in values]
    return values


def values(layout: Layout | Swizzled) -> list[int]:
    return layout(np.arange(layout.size)).tolist()


def is_linear(f: list[int]) -> bool:
    n = len(f)
    return n & (n - 1) == 0 and all(f[i ^ j] == f[i] ^ f[j] for i in range(n) for j in range(i))


def random_layout(rng: random.Random) -> Layout | Swizzled:
    sizes = tuple(rng.choice((1, 2, 2, 4, 4, 8, 3)) for _ in range(rng.randint(1, 3)))
    strides = tuple(
        rng.choice((0, 1, 2, 4, 8, 16, 32, 64, 3, 5, 24, 40, rng.randrange(64))) for _ in sizes
    )
    layout = Layout(sizes, strides)
    if rng.random() < 0.5:
        return layout
    bits = rng.randint(0, 3)
    shift = rng.choice((-1, 1)) * rng.randint(bits, 4)
    return Swizzled(Swizzle(bits, rng.randint(0, 3), shift), layout)


def test_to_linear_answers_exactly_the_linear_functions() -> None:
    rng = random.Random(1)
    tried, answered = 20_000, 0
    for _ in range(tried):
        layout = random_layout(rng)
        f = values(layout)
        try:
            linear = to_linear(layout)
        except LayoutError:
            assert not is_linear(f)
            continue
        answered += 1
        assert linear_values(linear) == f
        assert linear.shape[0] // 2 <= max(f) < linear.shape[0]
        assert values(to_cute(linear)) == f
    print(f"\nto_linear: {answered}/{tried} are linear, all answered; all came back")
    assert answered > 0.2 * tried


@pytest.mark.parametrize(("index_bits", "width"), [(1, 5), (2, 5), (3, 4), (4, 3)])
def test_to_cute_answers_exactly_the_swizzled_layouts(index_bits: int, width: int) -> None:
    n, m = 1 << index_bits, 1 << width
    # Everything that one swizzle after one layout can do; the layout may use a wider space.
    swizzles = [
        Swizzle(bits, base, shift)
        for bits in range(width + 2)
        for base in range(width + 2)
        for shift in range(-width - 1, width + 2)
        if abs(shift) >= bits
    ]
    layouts = {}
    for strides in product(range(2 * m), repeat=index_bits):
        if not any(x & y for x, y in combinations(strides, 2)):
            layout = Layout((2,) * index_bits, strides)
            layouts[tuple(values(layout))] = layout
    expressible = {
        f for g in layouts for swizzle in swizzles if max(f := tuple(map(swizzle, g))) < m
    }
    answered = tried = 0
    for images in product(range(m), repeat=index_bits):
        linear = LinearLayout.of((m,), index=images)
        f = tuple(linear_values(linear))
        tried += 1
        try:
            layout = to_cute(linear)
        except LayoutError:
            assert f not in expressible
            continue
        answered += 1
        assert layout.size == n
        assert tuple(values(layout)) == f
        if isinstance(layout, Swizzled):
            assert f not in layouts, "needs no swizzle"
    print(f"\nto_cute: {answered}/{tried} maps of {index_bits} bits into {width} are expressible")
    assert answered == len(expressible)


def test_by_example() -> None:
    staged = Swizzled(Swizzle(2, 3, 3), Layout((64, 32), (32, 1)))
    back = to_cute(to_linear(staged))
    assert values(back) == values(staged)
    assert str(to_linear(Layout((4, 2), (2, 1)))) == "linear<8, index=[2, 4, 1]>"
    assert str(to_linear(Layout(1))) == "linear<1, index=[]>"
    assert to_cute(to_linear(Layout((4, 8), (1, 4)))) == Layout(32)
    assert to_cute(to_linear(Layout((4, 2), (0, 1)))) == Layout((4, 2), (0, 1))
    for padded in (Layout((8, 8), (9, 1)), Layout(6)):
        with pytest.raises(LayoutError):
            to_linear(padded)


def test_to_cute_wants_one_dimension_each_way() -> None:
    for linear in (
        LinearLayout.of((4, 4), index=[(0, 1), (1, 0)]),
        LinearLayout.of((4,), lane=[1], register=[2]),
    ):
        with pytest.raises(LayoutError, match="one dimension"):
            to_cute(linear)
