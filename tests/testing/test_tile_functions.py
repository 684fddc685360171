"""Random kernels of all words of the tile language: they store what NumPy says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

import iris
from iris import errors
from iris.frontend import vocabulary
from iris.ir.types import DType, u8
from iris.testing import plain_tiles, tile_functions
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
        "umulhi(",
        "tf32",
        "histogram(",
        "clamp(",
        "cdiv(",
        "iris.u32) % 7",
        " or v",
    )
    for kernel in drawn(150):
        found.update(part for part in parts if part in kernel.text)
        dtypes.update(str(value.dtype) for value in kernel.results.values())
    assert min(found[part] for part in parts) >= 2, found
    assert len(dtypes) == 12, dtypes


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two dtypes the first is taken."""

    def first(a: DType, b: DType) -> DType:
        return a

    monkeypatch.setattr(vocabulary, "promote", first)
    with pytest.raises(AssertionError, match="def drawn"):
        for kernel in drawn(40):
            kernel.check()


@iris.kernel
def stores(Out, number: iris.constexpr):
    iris.store(Out, number)


@pytest.mark.parametrize("number", [0.5, -0.5, 256, -1, float("inf"), float("nan")])
def test_numbers_that_a_dtype_lacks_are_refused_by_both(number: float) -> None:
    with pytest.raises(plain_tiles.Refused):
        plain_tiles.as_plain(number, u8)

    with pytest.raises(errors.DTypeError):
        stores.lower(np.zeros(1, np.uint8), grid=1, number=number)
