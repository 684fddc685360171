"""Looking for what a property does not hold of, and ending on time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from iris.testing.hunt import hunt
from iris.testing.properties import Property


def test_nothing_is_drawn_when_there_is_no_time_to_reduce() -> None:
    drawn: list[int] = []

    def draw() -> st.SearchStrategy[int]:
        return st.integers().map(lambda n: drawn.append(n) or n)  # type: ignore[func-returns-value]

    def holds(some: Sequence[Any], seconds: float) -> None:
        raise AssertionError("never")

    hunted = hunt(Property("never", "python", draw, holds), 0, 500, reduced=0, watched=False)
    assert hunted.find is not None
    assert hunted.examples == 1
    assert len(drawn) < 5
