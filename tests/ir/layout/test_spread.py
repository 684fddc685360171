"""Spreading: every thread has what its elements of the result are made of, and no more."""

from __future__ import annotations

import random

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.linear import APPLE_FRAGMENT, REGISTER, LinearLayout
from iris.ir.layout.spread import spread
from random_layouts import grid, machine_layout, random_layout, random_shape
from support import counts

CASES = counts(3_000, 20_000)


def test_no_element_moves_and_each_is_in_one_register():
    rnd = random.Random(21)
    grown = fewer = 0
    for case in range(CASES):
        shape = random_shape(rnd, 7)
        result = machine_layout(rnd, shape, 2) if case % 2 else random_layout(rnd, shape)
        small = tuple(1 if rnd.random() < 0.5 else size for size in shape)
        done = spread(result, small)
        assert done.layout.shape == small
        assert done.layout.sizes[1:] == result.sizes[1:]
        # What a register of the result holds is what its source held, wherever the thread.
        register, lane, simdgroup = grid(result)
        wanted = [
            np.zeros_like(c) if size == 1 else c
            for c, size in zip(
                result.apply(register=register, lane=lane, simdgroup=simdgroup), small, strict=True
            )
        ]
        source = np.array(done.sources)[register]
        found = done.layout.apply(register=source, lane=lane, simdgroup=simdgroup)
        assert np.array_equal(np.array(wanted), np.array(found)), (result, small)
        # No two registers of a thread hold the same element, and each is a source.
        registers = done.layout.apply(
            register=np.arange(done.layout.size(REGISTER)), lane=0, simdgroup=0
        )
        assert len(set(zip(*map(np.ravel, registers), strict=True))) == len(set(done.sources))
        assert set(done.sources) == set(range(done.layout.size(REGISTER)))
        grown += small != shape
        fewer += done.layout.size(REGISTER) < result.size(REGISTER)
    print(f"spread: {grown} of {CASES} grow, {fewer} by registers")
    assert grown > CASES / 3
    assert fewer > CASES / 20


def test_a_column_and_a_row_of_a_fragment():
    column, row = (spread(APPLE_FRAGMENT, shape) for shape in ((8, 1), (1, 8)))
    assert str(column.layout) == (
        "linear<8x1, register=[], lane=[(0,0), (1,0), (2,0), (0,0), (4,0)], simdgroup=[]>"
    )
    assert column.sources == (0, 0)
    assert str(row.layout) == (
        "linear<1x8, register=[(0,1)], lane=[(0,2), (0,0), (0,0), (0,4), (0,0)], simdgroup=[]>"
    )
    assert row.sources == (0, 1)


def test_registers_that_become_one_by_a_sum_of_others():
    mixed = LinearLayout.of((2, 4), register=[(1, 1), (0, 2), (1, 3)], lane=[(1, 0)], simdgroup=[])
    done = spread(mixed, (1, 4))
    assert dict(done.layout.bases)[REGISTER] == ((0, 1), (0, 2))
    assert done.sources == (0, 1, 2, 3, 3, 2, 1, 0)


def test_rejections():
    with pytest.raises(LayoutError, match="cannot be broadcast to"):
        spread(APPLE_FRAGMENT, (8,))
    with pytest.raises(LayoutError, match="cannot be broadcast to"):
        spread(APPLE_FRAGMENT, (4, 8))
    with pytest.raises(LayoutError, match="needs the inputs"):
        spread(LinearLayout.of((4,), lane=[1, 2]), (1,))
