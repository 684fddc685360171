"""What a launch moves from memory, against a cache that is simulated block by block."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest

import iris
from iris.cost.traffic import Access, Traffic
from iris.targets.imaginary import ONE_CORE

BLOCK = 4096  # bytes that a program of a product needs of each factor in a step
STEPS = 16


def order(width: int, height: int, group: int) -> Iterator[tuple[int, int]]:
    """The column and row of each program of a product, as a GPU starts them."""
    for number in range(width * height):
        first = number // (width * group) * group
        rows = min(group, height - first)
        within = number - first * width
        yield within // rows, first + within % rows


def simulated(width: int, height: int, group: int, cache: int, together: int) -> int:
    """The bytes that miss a cache that drops what was used least recently.  Programs that run
    together take their steps together."""
    programs = list(order(width, height, group))
    kept: OrderedDict[tuple[str, int, int], None] = OrderedDict()
    missed = 0
    for start in range(0, len(programs), together):
        for step in range(STEPS):
            for column, row in programs[start : start + together]:
                for block in (("A", row, step), ("B", column, step)):
                    missed += block not in kept
                    kept[block] = None
                    kept.move_to_end(block)
                    if len(kept) * BLOCK > cache:
                        kept.popitem(last=False)
    return missed * BLOCK


def estimated(width: int, height: int, group: int, cache: int, together: int) -> int:
    columns, rows = (np.array(places) for places in zip(*order(width, height, group), strict=True))
    size = STEPS * BLOCK
    accesses = [Access("A", size, rows), Access("B", size, columns)]
    arrays = {"A": height * size, "B": width * size}
    touched = dict.fromkeys(arrays, width * height * size)
    return Traffic(arrays, touched, width * height, lambda: accesses).moved(cache, together)


@pytest.mark.parametrize("group", [1, 2, 4, 8])
@pytest.mark.parametrize("together", [8, 32])
@pytest.mark.parametrize("blocks", [64, 256, 4096])
def test_a_product_misses_as_a_simulated_cache_does(group: int, together: int, blocks: int) -> None:
    shape = 32, 32, group, blocks * BLOCK, together
    found, expected = estimated(*shape), simulated(*shape)
    assert expected / 2 <= found <= 2 * expected, found / expected


def test_groups_of_rows_save_what_a_simulated_cache_saves() -> None:
    """The best group is the same, and what it saves."""
    shapes = [(32, 32, group, 64 * BLOCK, 32) for group in (1, 2, 4, 8, 16)]
    found, expected = ([f(*shape) for shape in shapes] for f in (estimated, simulated))
    assert found.index(min(found)) == expected.index(min(expected))
    assert found[0] / min(found) == pytest.approx(expected[0] / min(expected), rel=0.3)


def test_what_fits_the_cache_is_loaded_once() -> None:
    assert estimated(32, 32, 1, 64 * STEPS * BLOCK, 8) == 64 * STEPS * BLOCK


def test_unknown_addresses_are_shared_by_none() -> None:
    accesses = [Access("A", 128, None)]
    assert Traffic({}, {"A": 1280}, 10, lambda: accesses).moved(0, 2) == 1280


def rows_twice(rows: int, together: int, cache: int) -> tuple[int, int]:
    """What misses, by the estimate and a simulated cache, if each program loads a row of its own
    from the first to the last block and then from the last to the first."""
    row = STEPS * BLOCK
    first = np.arange(rows) * row
    accesses = [Access("x", row, first), Access("x", row, first + row - BLOCK, loop=1)]
    traffic = Traffic({"x": rows * row}, {"x": 2 * rows * row}, rows, lambda: accesses)
    kept: OrderedDict[tuple[int, int], None] = OrderedDict()
    missed = 0
    for start in range(0, rows, together):
        for step in (*range(STEPS), *reversed(range(STEPS))):
            for block in ((program, step) for program in range(start, min(start + together, rows))):
                missed += block not in kept
                kept[block] = None
                kept.move_to_end(block)
                if len(kept) * BLOCK > cache:
                    kept.popitem(last=False)
    return traffic.moved(cache, together), missed * BLOCK


@pytest.mark.parametrize("together", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("steps", [64, 128, 256])
def test_rows_that_are_read_twice_miss_as_in_a_simulated_cache(together: int, steps: int) -> None:
    found, expected = rows_twice(128, together, steps * BLOCK)
    assert found == pytest.approx(expected, rel=0.1)


@iris.autotune(configs=[iris.Config(), iris.Config(swizzle=2), iris.Config(swizzle=4)])
@iris.kernel
def pairs(A, B, Out, N, BLOCK: iris.constexpr):
    """The sum of each row of A with each of B."""
    column, row = iris.program_id(0), iris.program_id(1)
    at = iris.arange(0, BLOCK)
    a, b = iris.load(A + row * BLOCK + at), iris.load(B + column * BLOCK + at)
    iris.store(Out + row * N + column, iris.sum(a + b))


def test_the_tuner_finds_the_group_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a chip whose cache holds eight rows of the two matrices."""
    monkeypatch.setenv("IRIS_TARGET", ONE_CORE.name)
    rows, block = 16, 1024
    a, b, out = (
        np.ones(shape, np.float32) for shape in ((rows, block), (rows, block), (rows, rows))
    )
    assert 8 * block * 4 == ONE_CORE.cache_bytes
    pairs[rows, rows](a, b, out, rows, BLOCK=block, device="interp")
    assert (out == 2 * block).all()
    report = pairs.reports[-1]
    times = [row.milliseconds or 0.0 for row in report.rows]
    assert "by the cost model of one-core" in str(report)
    assert report.chosen == times.index(min(times)) > 0
    assert times[0] > 1.3 * times[report.chosen]
