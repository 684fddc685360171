"""Threadgroup memory for a conversion: each element has its place, and no bank is met too often."""

from __future__ import annotations

import random

import numpy as np

from iris.ir.layout.banks import conflicts
from iris.ir.layout.linear import APPLE_FRAGMENT, LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.layout.scratch import Scratch, row_major, scratch
from iris.passes.tile.layouts.access_layouts import coalesced
from iris.targets.apple import M1
from random_layouts import machine_layout, random_shape
from support import counts

CASES = counts(1_500, 20_000)
GPU = M1


def span(columns):
    """Every xor of some columns, the first fastest."""
    table = np.zeros(1, np.int64)
    for column in columns:
        table = np.concatenate([table, table ^ column])
    return table


def places(place: Scratch, layout: LinearLayout):
    """The place of every element."""
    return np.array([place.address(e) for e in range(layout.num_elements)])


def accesses(place: Scratch, layout: LinearLayout):
    """How many elements an access moves, and for each one of a simdgroup where its lanes start."""
    vector = place.vector(layout)
    others = [c for c in layout.columns_of(REGISTER) if c not in vector]
    at = places(place, layout)
    width = 1 << len(vector)
    lanes = span(layout.columns_of(LANE))
    starts = span([*others, *layout.columns_of(SIMDGROUP)])
    # What an access moves lies side by side, from a multiple of its width on.
    inside = span(vector)
    assert np.array_equal(at[inside], np.arange(width))
    elements = starts[:, None, None] ^ lanes[None, :, None] ^ inside
    assert (at[elements] == at[elements[..., :1]] + np.arange(width)).all()
    assert (at[elements[..., 0]] % width == 0).all()
    return width, at[elements[..., 0]]


def worst(place: Scratch, layout: LinearLayout, element_bytes: int) -> int:
    """The most conflicts of an access."""
    width, starts = accesses(place, layout)
    # By linearity all have as many as the first, and a few others tell that this holds.
    return max(conflicts(s * element_bytes, width * element_bytes, GPU) for s in starts[::5][:4])


def test_no_two_share_a_place_and_no_access_has_a_conflict():
    rnd = random.Random(31)
    wide = 0
    for _ in range(CASES):
        shape = random_shape(rnd, 10)
        simdgroups = rnd.choice((1, 2, 4))
        source, target = (machine_layout(rnd, shape, simdgroups) for _ in range(2))
        element_bytes = rnd.choice((1, 2, 4, 8))
        place = scratch(source, target, element_bytes, GPU)
        assert sorted(places(place, source)) == list(range(source.num_elements))
        for layout in (source, target):
            assert worst(place, layout, element_bytes) == 0, (source, target, element_bytes)
        width, _ = accesses(place, source)
        assert width * element_bytes <= 16
        wide += width > 1
    print(f"scratch: {wide} of {CASES} write more than an element at once")
    assert wide > CASES / 20


def test_a_vector_that_both_sides_have_is_moved_at_once():
    shape = (32, 64)
    rows, columns = coalesced(shape, (1, 0), 4, 2), coalesced(shape, (0, 1), 4, 2)
    both = LinearLayout.of(
        shape,
        register=[(0, 1), (0, 2), (4, 0), (8, 0)],
        lane=[(1, 0), (2, 0), (0, 4), (0, 8), (0, 16)],
        simdgroup=[(0, 32)],
    )
    for source, target, is_shared in [
        (rows, both, True),
        (both, rows, True),
        (rows, columns, False),  # what is a vector here is lanes there
    ]:
        for element_bytes in (1, 2, 4):
            place = scratch(source, target, element_bytes, GPU)
            width = 16 // element_bytes if is_shared else 1
            assert [accesses(place, side)[0] for side in (source, target)] == [width, width]
            assert worst(place, source, element_bytes) == 0
            assert worst(place, target, element_bytes) == 0


def test_a_vector_that_another_column_needs_is_not_taken():
    """Lanes that differ by an element and the next one, together: no bit is the vector's alone."""
    source = LinearLayout.of((64,), register=[32], lane=[2, 1, 36, 8, 16], simdgroup=[])
    target = LinearLayout.of((64,), register=[32], lane=[16, 1, 2, 4, 8], simdgroup=[])
    place = scratch(source, target, 4, GPU)
    assert place.vector(source) == place.vector(target) == []
    assert worst(place, source, 4) == worst(place, target, 4) == 0


def test_row_major_places_are_the_numbers_of_the_elements():
    for element_bytes, widest in [(1, 16), (2, 8), (4, 4), (8, 2)]:
        place = row_major(APPLE_FRAGMENT, element_bytes)
        assert list(places(place, APPLE_FRAGMENT)) == list(range(64))
        assert place.widest == widest
    assert place.vector(APPLE_FRAGMENT) == [1]
    long = coalesced((1024,), (0,), 4, 1)
    assert row_major(long, 4).vector(long) == [1, 2]
    assert row_major(long, 8).vector(long) == [1]
