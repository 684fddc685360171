"""Kernels that are Metal text do what NumPy says; what is wrong with a launch is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from iris.compiler.metal_library import LibraryKernel
from iris.testing import metal_calls
from iris.testing.metal_calls import Line, Script
from on_metal import METAL
from support import counts

LINE = Line("int", False, (), (3, 8), (0, 8), "x", "y", 2, (1, 2, 3), False, 0)

pytestmark = pytest.mark.metal


@settings(max_examples=counts(100, 10_000))
@given(metal_calls.scripts())
def test_launches_do_what_they_mean(script: Script) -> None:
    script.check(METAL)


def test_what_is_not_refused_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LibraryKernel, "_check_elements", lambda *given: None)
    with pytest.raises(AssertionError, match="nothing is said against dtype"):
        Script((replace(LINE, wrong="dtype"),), 0).check(METAL)


def test_another_result_is_found_out() -> None:
    class Otherwise(Line):
        @property
        def text(self) -> str:
            return super().text.replace("(1, 2, 3)", "(2, 2, 3)")

    with pytest.raises(AssertionError, match=r"y\['int32'\] is"):
        Script((Otherwise(*vars(LINE).values()),), 0).check(METAL)
