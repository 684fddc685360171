"""Lanes that share elements update them, at all levels."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

from iris.analysis.thread_numbers import ThreadNumbers
from iris.testing import shared_updates
from iris.testing.properties import PROPERTIES
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(25, 1000), deadline=None)
@given(shared_updates.programs())
def test_levels_agree(program: Program) -> None:
    PROPERTIES["shared-updates"].holds([program], 5.0)


def test_updates_in_no_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where equal offsets are taken for one thread's own, a thread loads what another stored."""
    monkeypatch.setattr(ThreadNumbers, "are_apart", lambda *_: True)

    @settings(max_examples=20, phases=[Phase.generate], database=None, deadline=None)
    @given(shared_updates.programs())
    def test(program: Program) -> None:
        PROPERTIES["shared-updates"].holds([program], 0.0)

    with pytest.raises(AssertionError, match="insert-barriers made a program that fails"):
        test()
