"""Random functions of arrays: NumPy returns what the graph does that Iris traces."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend.arrays import indexing
from iris.testing import array_functions
from iris.testing.choices import Choices
from support import counts


@settings(max_examples=counts(200, 10000))
@given(array_functions.functions())
def test_numpy_does_what_the_graph_does(function: array_functions.Function) -> None:
    function.check()


def drawn(number: int) -> list[array_functions.Function]:
    rng = np.random.default_rng(0)
    size = array_functions.BYTES
    return [array_functions.Function(Choices(rng.bytes(size))) for _ in range(number)]


def test_functions_vary() -> None:
    found, dtypes = Counter[str](), set()
    parts = ("[", "None", "...", "where=", "keepdims", "einsum", "np.pad", "set_at", "add_at")
    for function in drawn(counts(100, 1000)):
        found.update(part for part in parts if part in function.text)
        dtypes |= {value.dtype.kind for value in function.values.values()}
    assert min(found[part] for part in parts) >= 5, found
    assert dtypes == {"b", "i", "u", "f"}


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that go backwards start where they end."""

    def forwards(entry: slice, size: int) -> tuple[int, int, int]:
        found = range(*entry.indices(size))
        return min(found, default=0), abs(found.step), len(found)

    monkeypatch.setattr(indexing, "_range", forwards)
    with pytest.raises(AssertionError, match=r"def drawn\(a0"):
        for function in drawn(200):
            function.check()
