"""Programs that wait for each other, on the interpreter of Metal IR."""

from __future__ import annotations

import re

import numpy as np
import pytest

import iris
from iris.compiler.compilation import entry_of
from iris.errors import DeadlockError, RaceError
from iris.interp.metal import Counters, run
from iris.ir import parse
from waiting_programs import RACY, RIGHT, STUCK, Array, Case, lock


def metal_text(case: Case, simdgroups: int) -> str:
    lowered = case.kernel.lower(
        *case.arrays(),
        grid=case.grid,
        num_simdgroups=simdgroups,
        device="interp:metal",
        **case.constants,
    )
    return str(lowered.metal)


def run_text(text: str, case: Case, interleave: int | None = None) -> Array:
    arrays = case.arrays()
    run(entry_of(parse(text)), (case.grid, 1, 1), arrays, interleave=interleave)
    return arrays[-1]


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("simdgroups", [1, 2])
def test_programs_that_wait_end(name: str, simdgroups: int) -> None:
    case = RIGHT[name]
    text = metal_text(case, simdgroups)
    assert np.array_equal(run_text(text, case), case.expected)
    assert np.array_equal(run_text(text, case, interleave=7), case.expected)


def test_many_programs_may_take_a_lock() -> None:
    total = np.zeros(1, np.int32)
    lock[40](np.zeros(1, np.int32), total, device="interp:metal", num_simdgroups=1)
    assert total.tolist() == [40]


@pytest.mark.parametrize("name", RACY)
def test_what_nothing_orders_is_a_race(name: str) -> None:
    with pytest.raises(RaceError, match="race: program"):
        run_text(metal_text(RACY[name], 2), RACY[name])


@pytest.mark.parametrize("name", STUCK)
def test_who_waits_for_ever_is_named(name: str) -> None:
    case, array, index = STUCK[name]
    for interleave in (None, 3):
        with pytest.raises(DeadlockError, match=f"waits for element {index} of {array}") as caught:
            run_text(metal_text(case, 2), case, interleave)
        assert (caught.value.array, caught.value.index) == (array, index)


@pytest.mark.parametrize("name", RIGHT)
def test_without_fences_nothing_is_in_order(name: str) -> None:
    text = metal_text(RIGHT[name], 1)
    assert "metal.fence" in text
    with pytest.raises(RaceError):
        run_text(re.sub(r" *metal\.fence\n", "", text), RIGHT[name])


@pytest.mark.parametrize("name", ["lock of tiles", "in turn", "producer"])
def test_a_fence_is_of_one_thread_without_barriers(name: str) -> None:
    text = metal_text(RIGHT[name], 2)
    assert "metal.barrier device" in text
    with pytest.raises(RaceError):
        run_text(text.replace("metal.barrier device", "metal.barrier threadgroup"), RIGHT[name])


def test_waiting_counts() -> None:
    case = RIGHT["lock"]
    counters = Counters()
    run(
        entry_of(parse(metal_text(case, 1))),
        (case.grid, 1, 1),
        case.arrays(),
        counters=counters,
    )
    assert counters.atomics["device"] >= 2 * case.grid


def test_atomic_ops_without_a_result_need_no_fences() -> None:
    @iris.kernel
    def histogram(X, Bins, Out):  # type: ignore[no-untyped-def]
        at = iris.arange(0, 64)
        x = iris.load(X + at)
        iris.atomic_add(Bins + x, 1)
        place = iris.atomic_add(Bins + 8, 1)
        iris.store(Out + place, iris.sum(x))

    arrays = [np.zeros(n, np.int32) for n in (64, 9, 4)]
    assert "fence" not in str(histogram.lower(*arrays, grid=4).metal)
