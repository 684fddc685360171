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
