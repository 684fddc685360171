"""Swizzles, bit by bit, and swizzled layouts as functions."""

from __future__ import annotations

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.algebra import composition
from iris.ir.layout.cute import Layout
from iris.ir.layout.swizzle import Swizzle, Swizzled

FAMILY = [
    Swizzle(bits, base, shift)
    for bits in range(4)
    for base in range(4)
    for shift in range(-5, 6)
    if abs(shift) >= bits
]


def by_bits(swizzle: Swizzle, x: int) -> int:
    """The definition, one bit at a time."""
    lower = swizzle.base
    upper = swizzle.base + abs(swizzle.shift)
    source, target = (upper, lower) if swizzle.shift >= 0 else (lower, upper)
    result = x
    for bit in range(swizzle.bits):
        if x >> (source + bit) & 1:
            result ^= 1 << (target + bit)
    return result


@pytest.mark.parametrize("swizzle", FAMILY, ids=str)
def test_is_its_definition_and_undoes_itself(swizzle: Swizzle) -> None:
    expected = [by_bits(swizzle, x) for x in range(4096)]
    assert [swizzle(x) for x in range(4096)] == expected
    assert swizzle(np.arange(4096)).tolist() == expected
    assert [swizzle(y) for y in expected] == list(range(4096))


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (1, -1, 1), (2, 0, 1), (2, 0, -1), (1, 0, 0)])
def test_mistakes(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(LayoutError):
        Swizzle(*numbers)


def test_text_and_value() -> None:
    a = Swizzled(Swizzle(2, 3, 3), Layout((64, 32), (32, 1)))
    assert str(a) == "swizzle<2,3,3> (64,32):(32,1)"
    assert str(Swizzle(1, 0, -4)) == "swizzle<1,0,-4>"
    assert a == Swizzled(Swizzle(2, 3, 3), Layout((64, 32), (32, 1)))
    assert len({a, Swizzled(Swizzle(2, 3, 3), Layout((64, 32), (32, 1)))}) == 1
    assert eval(repr(a)) == a


def test_swizzled() -> None:
    layouts = [Layout((8, 16), (16, 1)), Layout((8, 12), (13, 1)), Layout((4, (2, 3)), (1, (8, 4)))]
    for swizzle in FAMILY:
        for layout in layouts:
            a = Swizzled(swizzle, layout)
            expected = [by_bits(swizzle, layout(i)) for i in range(layout.size)]
            assert a(np.arange(a.size)).tolist() == expected
            assert a(7) == expected[7]
            assert a((1, 3)) == expected[1 + 3 * layout[0].size]
            assert (a.size, a.cosize) == (len(expected), max(expected) + 1)
            assert (a.shape, a.rank, a.modes) == (layout.shape, layout.rank, layout.modes)


def test_composition() -> None:
    a = Swizzled(Swizzle(2, 2, 3), Layout((16, 32), (32, 1)))
    for b in (Layout(512), Layout((4, 8), (1, 16)), Layout((2, (8, 4)), (256, (1, 8)))):
        r = composition(a, b)
        assert r.swizzle == a.swizzle
        assert [mode.size for mode in r.modes] == [16, 32] or r.rank == b.rank
        assert [r(i) for i in range(b.size)] == [a(b(i)) for i in range(b.size)]
    fragment = composition(a, (8, 8))
    assert [fragment((r, c)) for c in range(8) for r in range(8)] == [
        a((r, c)) for c in range(8) for r in range(8)
    ]
    with pytest.raises(LayoutError):
        composition(a, Layout(513))
