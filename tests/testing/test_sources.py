"""Random kernels as Python source: a loop means the same however it is written and traced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend import assignment
from iris.testing import sources
from iris.testing.choices import Choices
from support import counts


@settings(max_examples=counts(40, 2000))
@given(sources.kernels())
def test_a_loop_means_the_same_however_it_is_written(kernel: sources.Kernel) -> None:
    kernel.check()


@settings(max_examples=counts(2, 300))
@given(sources.kernels())
def test_a_loop_means_the_same_at_every_level(kernel: sources.Kernel) -> None:
    kernel.check(device="interp:metal")


def test_the_simplest_kernel_sums_a_row() -> None:
    kernel = sources.Kernel(Choices(b""))
    assert "v0 += x0" in kernel.text("loop")
    kernel.check()


def test_a_sum_may_be_off_by_the_roundings_of_another_order() -> None:
    numbers = np.full(11, np.float32(-1e30))
    total = sources.Cells(numbers.astype(np.float64), np.full(11, True)).reduce(np.add, 0)
    one_by_one = np.add.accumulate(numbers)[-1]
    assert 0 < np.abs(one_by_one - total.data) <= total.error < 1e-5 * np.abs(total.data)
    few = sources.Cells(np.array([3.0, -1e30, 4.0]), np.array([True, False, True]))
    assert few.reduce(np.add, 0).error == 0


def test_a_loop_that_forgets_lanes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "_fits", lambda old, new: False)
    rng = np.random.default_rng(0)
    noticed = 0
    for _ in range(4):
        try:
            sources.Kernel(Choices(rng.bytes(sources.BYTES))).check()
        except AssertionError:
            noticed += 1
    assert noticed
