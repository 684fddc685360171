"""Random kernels of all words of the tile language: they store what NumPy says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend import vocabulary
from iris.ir.types import DType
from iris.testing import tile_functions
from iris.testing.choices import Choices
from support import counts


@settings(max_examples=counts(40, 2000))
@given(tile_functions.functions())
def test_a_kernel_stores_what_numpy_says(kernel: tile_functions.TileFunction) -> None:
    kernel.check()


def drawn(number: int) -> list[tile_functions.TileFunction]:
    rng = np.random.default_rng(0)
    size = tile_functions.BYTES
    return [tile_functions.TileFunction(Choices(rng.bytes(size))) for _ in range(number)]


def test_kernels_vary() -> None:
    found, dtypes = Counter[str](), Counter[str]()
    parts = (
        "if ",
        "for ",
        "while ",
        "held[0]",
        "not (",
        "dot(",
        "atomic_",
        "keepdims",
        "tile_load",
    )
    for kernel in drawn(150):
        found.update(part for part in parts if part in kernel.text)
        dtypes.update(str(value.dtype) for value in kernel.results.values())
    assert min(found[part] for part in parts) >= 2, found
    assert len(dtypes) == 11, dtypes


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two dtypes the first is taken."""

    def first(a: DType, b: DType) -> DType:
        return a

    monkeypatch.setattr(vocabulary, "promote", first)
    with pytest.raises(AssertionError, match="def drawn"):
        for kernel in drawn(40):
            kernel.check()
