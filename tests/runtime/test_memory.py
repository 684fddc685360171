"""The pool: how much it keeps, and that a block is lent once."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

import iris
from iris.runtime.devices import select
from iris.runtime.memory import MOST_BLOCKS, Block, Memory, Pool
from iris.runtime.metal import Metal

pytestmark = pytest.mark.usefixtures("nothing_old_to_collect")


def lent(pool: Pool, size: int) -> Memory:
    nothing: Any = None
    return pool.lend(pool.take(size) or Block(nothing, 0, size))


def kept(pool: Pool) -> list[Block]:
    return [block for free in pool._free.values() for block in free]


def test_many_sizes_leave_few_blocks() -> None:
    pool = Pool(most=1 << 20)
    for size in range(1, 10_001):
        lent(pool, size)
        assert pool.count <= MOST_BLOCKS and pool.held <= 1 << 20
    found = kept(pool)
    assert len(found) == pool.count and sum(block.size for block in found) == pool.held
    # Those that were given back last.
    assert {block.size for block in found} == set(range(10_001 - len(found), 10_001))
    assert pool.take(10_000) is not None and pool.take(1) is None
    at_once = [lent(pool, size) for size in range(1, 1_001)]
    at_once.clear()
    assert pool.count <= MOST_BLOCKS and len(kept(pool)) == pool.count
    lent(pool, 2 << 20)  # more than is ever kept
    assert pool.held <= 1 << 20


def test_a_block_is_lent_once() -> None:
    pool, rng = Pool(most=4096), random.Random(0)
    held: list[Memory] = []
    for _ in range(5000):
        if rng.random() < 0.5 or not held:
            held.append(lent(pool, rng.choice((16, 64, 256, 1024))))
        else:
            held.pop(rng.randrange(len(held)))
        blocks = [memory.block for memory in held] + kept(pool)
        assert len(blocks) == len(set(blocks))
        assert pool.held == sum(block.size for block in kept(pool)) <= 4096


@pytest.mark.softmetal
def test_buffers_of_many_sizes_leave_few() -> None:
    device = select("softmetal")
    assert isinstance(device, Metal)
    for size in range(1, 2001):
        iris.empty(size, device=device)
    gc.collect()
    assert device._pool.count == len(kept(device._pool)) <= MOST_BLOCKS
