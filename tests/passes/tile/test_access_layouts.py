"""Layouts for a use, against what the use asks for."""

from __future__ import annotations

import random
from math import prod

import numpy as np

from iris.ir.layout.linear import APPLE_FRAGMENT, LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.passes.tile.layouts.access_layouts import coalesced, run_along, scan_bits, scannable
from random_layouts import machine_layout, random_shape
from support import counts

CASES = counts(1_000, 10_000)


def ordered(layout: LinearLayout, order: tuple[int, ...]) -> np.ndarray:
    """For each location, the number of its element in an order of the axes."""
    coordinates = layout.apply(
        register=np.arange(layout.size(REGISTER))[:, None, None],
        lane=np.arange(32)[:, None],
        simdgroup=np.arange(layout.size(SIMDGROUP)),
    )
    number, step = np.zeros((1, 1, 1), np.int64), 1
    for axis in order:
        number = number + coordinates[axis] * step
        step *= layout.shape[axis]
    return np.broadcast_to(number, layout.sizes)


def test_an_access_of_a_coalesced_layout_is_one_run() -> None:
    rnd = random.Random(41)
    for _ in range(CASES):
        shape = random_shape(rnd, 10)
        order = tuple(rnd.sample(range(len(shape)), len(shape)))
        vector, simdgroups = rnd.choice((1, 2, 4)), rnd.choice((1, 2, 4, 8))
        layout = coalesced(shape, order, vector, simdgroups)
        assert layout.is_surjective
        assert layout.sizes[1:] == (32, simdgroups)
        # No register is in vain, and no thread has more than its share.
        assert layout.free_bits()[REGISTER] == 0
        assert layout.size(REGISTER) == max(1, prod(shape) // (32 * simdgroups))
        width = min(vector, shape[order[0]], layout.size(REGISTER))
        assert run_along(layout, order[0]) >= width
        numbers = ordered(layout, order)
        count = min(32 * width, prod(shape))
        for start in range(0, layout.size(REGISTER), width):
            for simdgroup in range(simdgroups):
                access = numbers[start : start + width, :, simdgroup]
                assert np.array_equal(np.unique(access), access.min() + np.arange(count))


def test_simdgroups_are_along_the_slowest_axis() -> None:
    """Rows stay within a simdgroup, so that a sum of each needs no memory."""
    layout = coalesced((64, 64), (1, 0), 4, 4)
    assert str(layout) == (
        "linear<64x64, register=[(0,1), (0,2), (8,0), (16,0), (32,0)], "
        "lane=[(0,4), (0,8), (0,16), (0,32), (1,0)], simdgroup=[(2,0), (4,0)]>"
    )
    assert dict(coalesced((2, 64), (1, 0), 4, 4).bases)[SIMDGROUP] == ((0, 32), (1, 0))
    assert dict(coalesced((1, 64), (1, 0), 4, 2).bases)[SIMDGROUP] == ((0, 32),)


def test_runs_of_registers_along_an_axis() -> None:
    assert run_along(APPLE_FRAGMENT, 1) == 2
    assert run_along(APPLE_FRAGMENT, 0) == 1
    assert run_along(coalesced((16, 64), (1, 0), 4, 1), 1) == 4
    assert run_along(coalesced((16, 64), (0, 1), 4, 1), 0) == 4
    assert run_along(coalesced((16, 64), (0, 1), 4, 1), 1) == 1
    swapped = LinearLayout.of((8,), register=[2, 1, 4], lane=[], simdgroup=[])
    assert run_along(swapped, 0) == 1


def test_a_scannable_layout_has_its_axis_in_registers_then_lanes_then_simdgroups() -> None:
    rnd = random.Random(43)
    kept = 0
    for _ in range(CASES):
        shape = random_shape(rnd, 9)
        given = machine_layout(rnd, shape, rnd.choice((1, 2, 4)))
        axis = rnd.randrange(len(shape))
        layout = scannable(given, axis)
        assert layout.is_surjective
        assert layout.shape == given.shape
        assert layout.sizes[1:] == given.sizes[1:]
        assert scannable(layout, axis) == layout
        bits = scan_bits(layout, axis)
        assert bits is not None
        images = dict(layout.bases)
        dims = (REGISTER, LANE, SIMDGROUP, REGISTER)
        along = [images[dim][bit] for dim, own in zip(dims, bits, strict=True) for bit in own]
        assert all(sum(map(bool, image)) == 1 for image in along)
        assert [image[axis] for image in along] == [1 << b for b in range(len(along))]
        assert 1 << len(along) == shape[axis]
        for own in (bits.lane, bits.simdgroup):
            assert own == tuple(range(own[0], own[0] + len(own))) if own else True
        for dim in (LANE, SIMDGROUP):
            before, after = (
                sum(image[axis] != 0 for image in dict(one.bases)[dim]) for one in (given, layout)
            )
            kept += before == after
    assert kept > CASES


def test_a_coalesced_layout_is_scanned_as_it_is_if_few_totals_are_exchanged() -> None:
    rnd = random.Random(47)
    kept = 0
    for _ in range(CASES):
        shape = random_shape(rnd, 12)
        order = tuple(rnd.sample(range(len(shape)), len(shape)))
        layout = coalesced(shape, order, rnd.choice((1, 2, 4)), rnd.choice((1, 2, 4, 8)))
        for axis in range(len(shape)):
            found = scannable(layout, axis)
            if totals_per_thread(layout, axis) <= max(8, layout.size(REGISTER)):
                assert found == layout
                kept += 1
            else:
                assert totals_per_thread(found, axis) <= totals_per_thread(layout, axis)
    assert kept > CASES


def totals_per_thread(layout: LinearLayout, axis: int) -> int:
    """How many totals a thread reads: one for each run of its own, of each simdgroup."""
    bits = scan_bits(layout, axis)
    assert bits is not None
    runs = layout.size(REGISTER) // 2 ** len(bits.run)
    return runs * 2 ** len(bits.simdgroup) if bits.simdgroup else 0


def test_layouts_that_no_scan_goes_along() -> None:
    for given in (
        LinearLayout.of((64,), register=[32], lane=[2, 1, 4, 8, 16], simdgroup=[]),
        LinearLayout.of((64,), register=[], lane=[1, 4, 8, 16, 32], simdgroup=[2]),
        LinearLayout.of((64,), register=[2], lane=[1, 4, 8, 16, 32], simdgroup=[]),
        LinearLayout.of((64,), register=[32], lane=[1, 2, 6, 8, 16], simdgroup=[]),
        LinearLayout.of(
            (8, 4), register=[], lane=[(1, 0), (0, 1), (2, 0), (0, 2), (4, 0)], simdgroup=[]
        ),
    ):
        assert scan_bits(given, 0) is None
        assert scan_bits(scannable(given, 0), 0) is not None
