"""NumPy's functions at every pair of special numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend.arrays import ufuncs
from iris.frontend.arrays.protocol import UFUNCS
from iris.ir import math
from iris.testing import sweeps
from iris.testing.sweeps import BYTES, Sweep
from support import counts


@settings(max_examples=counts(4, 300))
@given(sweeps.sweeps())
def test_numpy_does_what_the_graph_does(sweep: Sweep) -> None:
    sweep.check()


def test_zeros_and_nan_meet_each_other() -> None:
    numbers = sweeps.special("float32")
    assert np.signbit(numbers[numbers == 0]).tolist() == [False, True]
    assert len({*numbers.tolist()}) == len(numbers) - 1  # those two zeros are equal
    assert {*sweeps.special("int8").tolist()} >= {-128, -127, -1, 0, 1, 7, 8, 126, 127}


def wrong_sign(x: Any) -> Any:
    return ufuncs.select(x > 0, 1, ufuncs.select(x < 0, -1, x))


def wrong_step(x: Any, at_zero: Any) -> Any:
    return ufuncs.select(ufuncs.compare(math.Predicate.EQ, x, 0), at_zero, (x > 0) * 1.0)


@pytest.mark.parametrize(("function", "wrong"), [(np.sign, wrong_sign), (np.heaviside, wrong_step)])
def test_a_special_number_is_found(
    monkeypatch: pytest.MonkeyPatch, function: Any, wrong: Callable[..., Any]
) -> None:
    """The sign of -0.0 is -0.0, a step at nan is 0."""
    monkeypatch.setitem(UFUNCS["__call__"], function, wrong)
    sweeps._error.cache_clear()
    monkeypatch.setattr(sweeps, "functions", lambda: _named(function.__name__))
    sweep = Sweep(bytes(BYTES))
    with pytest.raises(AssertionError, match="it is"):
        sweep.check()
    assert f"np.{function.__name__}(a0" in repr(sweep)
    sweeps._error.cache_clear()


def _named(name: str) -> list[Any]:
    return [f for f in _FUNCTIONS if f.text == f"np.{name}"]


_FUNCTIONS = sweeps.functions()
