"""Limits of time, and what does not count."""

from __future__ import annotations

import time

import pytest

from iris.testing.limit import TimeLimitError, limited, unlimited


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_what_takes_too_long_is_interrupted() -> None:
    with pytest.raises(TimeLimitError), limited(0.05):
        spin(5)


def test_a_compiler_may_take_as_long_as_it_likes() -> None:
    with limited(0.5):
        for _ in range(2):
            with unlimited():
                spin(0.4)


def test_the_clock_goes_on_afterwards() -> None:
    start = time.monotonic()
    with pytest.raises(TimeLimitError), limited(0.1):
        with unlimited():
            spin(0.2)
        spin(5)
    assert time.monotonic() - start < 2
