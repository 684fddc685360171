"""Bank conflicts: the figures we know, and the count against its definition."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from iris.errors import LayoutError
from iris.ir.layout.banks import byte_addresses, conflicts, cycles
from iris.ir.layout.cute import Layout
from iris.ir.layout.swizzle import Swizzle, Swizzled
from iris.targets.apple import M1

APPLE = M1
LANE = np.arange(32)

# The 8x8 fragment: each lane reads two neighbours of a row.
ROW = 4 * (LANE >> 4 & 1) + (LANE >> 1 & 3)
COL = 4 * (LANE >> 3 & 1) + 2 * (LANE & 1)


def fragment(row_stride: int, element_bytes: int = 4) -> NDArray[np.int64]:
    return (ROW * row_stride + COL) * element_bytes


def test_the_fragment_map_is_a_bijection() -> None:
    assert sorted((8 * ROW + COL).tolist()) == list(range(0, 64, 2))


def test_columns() -> None:
    for stride, extra in ((1, 0), (2, 1), (4, 3), (32, 31), (33, 0), (64, 31), (65, 0), (48, 15)):
        assert conflicts(4 * stride * LANE, 4, APPLE) == extra


def test_fragments() -> None:
    assert conflicts(fragment(16 + 4), 8, APPLE) == 0  # MLX's padding
    assert cycles(fragment(16 + 4), 8, APPLE) == 2  # 64 words of 32 banks
    for odd in (33, 65):
        assert conflicts(fragment(odd), 8, APPLE) == 6
    assert conflicts(fragment(32), 8, APPLE) == 6
    assert conflicts(fragment(16 + 8, element_bytes=2), 4, APPLE) == 0
    assert conflicts(fragment(64, element_bytes=2), 4, APPLE) == 7


def test_same_word_is_free() -> None:
    assert cycles(0 * LANE, 4, APPLE) == 1
    assert conflicts(2 * LANE, 2, APPLE) == 0
    assert cycles(LANE, 1, APPLE) == 1


def test_wide_accesses() -> None:
    for width, ideal in ((4, 1), (8, 2), (16, 4)):
        assert cycles(width * LANE, width, APPLE) == ideal
        assert conflicts(width * LANE, width, APPLE) == 0
    assert conflicts(128 * LANE, 16, APPLE) == 28
    assert conflicts(144 * LANE, 16, APPLE) == 0


def test_no_lane_at_all() -> None:
    assert cycles(LANE[:0], 4, APPLE) == 0
    assert conflicts(LANE[:0], 4, APPLE) == 0


def test_a_swizzle_removes_conflicts() -> None:
    plain = Layout((64, 32), (32, 1))
    swizzled = Swizzled(Swizzle(3, 2, 3), plain)
    elements = np.stack([ROW + 64 * COL, ROW + 64 * (COL + 1)], axis=1)
    assert conflicts(byte_addresses(plain, elements, 4), 4, APPLE) == 6
    assert conflicts(byte_addresses(swizzled, elements, 4), 4, APPLE) == 0
    # Without costing the row-wise stores anything.
    row = 64 * LANE
    assert conflicts(byte_addresses(swizzled, row, 4), 4, APPLE) == 0


def test_the_target_decides() -> None:
    half = replace(APPLE, banks=16)
    assert cycles(4 * LANE, 4, half) == 2
    assert conflicts(4 * 16 * LANE, 4, half) == 30
    assert cycles(8 * LANE, 8, replace(APPLE, bank_bytes=8)) == 1


def test_mistakes() -> None:
    for addresses, width in ((LANE - 1, 4), (LANE, 0), (LANE / 2, 4)):
        with pytest.raises(LayoutError):
            cycles(addresses, width, APPLE)


def test_is_its_definition() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        lanes = rng.randint(1, 32)
        stride = rng.choice((1, 2, 3, 4, 8, 33, 36)) * rng.choice((1, 4))
        width = rng.choice((1, 2, 4, 8, 16))
        addresses = [
            rng.randrange(4096) if rng.random() < 0.1 else lane * stride for lane in range(lanes)
        ]
        banks: dict[int, set[int]] = {}
        for address in addresses:
            for byte in range(address, address + width):
                banks.setdefault(byte // 4 % 32, set()).add(byte // 4)
        busiest = max(map(len, banks.values()))
        ideal = -(-sum(map(len, banks.values())) // 32)
        assert cycles(np.array(addresses), width, APPLE) == busiest
        assert conflicts(np.array(addresses), width, APPLE) == busiest - ideal
