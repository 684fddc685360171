"""A bounded store: how much it keeps, and what."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import iris
from iris.compiler import arguments
from iris.compiler.kernel import MOST_SPECIALISATIONS
from iris.runtime.recent import Recent

pytestmark = pytest.mark.usefixtures("nothing_old_to_collect")


def test_it_is_bounded() -> None:
    kept: Recent[int, str] = Recent(256)
    for number in range(5000):
        kept.put(number, str(number))
        assert len(kept) <= 256
        assert kept.get(number) == str(number)
    assert next(n for n in range(5000) if kept.get(n) is not None) >= 5000 - 2 * 256
    kept.clear()
    assert len(kept) == 0 and kept.get(4999) is None


def test_what_is_asked_for_stays() -> None:
    kept: Recent[int, int] = Recent(64)
    hot = range(32)
    for number in hot:
        kept.put(number, number)
    for number in range(100, 5000):
        kept.put(number, number)
        assert all(kept.get(one) == one for one in hot)


@iris.kernel
def fill(Out, value, n, B: iris.constexpr):
    at = iris.arange(0, 32)
    iris.store(Out + at, value + B, mask=at < n)


def test_specialisations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_integer_spec", arguments._integer_spec.__wrapped__)
    compiled = fill._specialisations().compiled
    assert compiled.most == MOST_SPECIALISATIONS
    monkeypatch.setattr(compiled, "most", 20)
    out = np.zeros(32, np.float32)
    gone = []
    gc.collect()
    specs = len(arguments._SPECS)
    for number in range(200):
        # Another divisor of the scalar each time, and another constexpr.
        fill[1](out, 2.0, (2 * number + 3) * 16, B=2 * number + 3)
        assert (out == 2 * number + 5).all()
        gone.append(weakref.ref(next(reversed(compiled._kept.values())).value))
        assert len(compiled) <= 20
    gc.collect()
    assert sum(one() is not None for one in gone) <= 20
    assert len(arguments._SPECS) <= specs + 2 * 20 + 10


def test_traces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    double = iris.jit(lambda x: x * 2)
    monkeypatch.setattr(double._traces, "most", 5)
    for size in range(1, 12):
        assert (double(np.ones(size, np.float32)) == 2).all()
        assert len(double._traces) <= 5
