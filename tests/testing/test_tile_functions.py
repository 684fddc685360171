"""Random kernels of all words of the tile language: they store what NumPy says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import iris
from iris import errors
from iris.frontend import formulas, joins_and_sorts, language, memory, philox, vocabulary
from iris.ir.types import DType, f16, f32, u8
from iris.testing import plain_formulas, plain_tiles, tile_functions
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
        "reverse=True",
        "tile_store",
        "program_id",
        "randn",
        "asinh(",
        "libdevice.",
        "volatile",
    )
    for kernel in drawn(150):
        found.update(part for part in parts if part in kernel.text)
        dtypes.update(str(value.dtype) for value in kernel.results.values())
    assert min(found[part] for part in parts) >= 2, found
    assert len(dtypes) == 12, dtypes


def test_lanes_that_do_not_count_and_numbers_that_are_not_exact_are_stored() -> None:
    kernels = drawn(60)
    results = [x for kernel in kernels for x in kernel.results.values()]
    assert sum(not x.counts.all() for x in results) > 20
    assert sum(isinstance(x, plain_formulas.Near) for x in results) > 20
    assert sum(bool(np.any(np.isnan(x.data))) for x in results if x.dtype.is_float) > 10


def near(number: float, error: float = 0.0) -> plain_formulas.Near:
    return plain_formulas.Near(np.float64(number), f16, np.bool_(True), error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "found", "holds"),
    [
        (near(1.5), 1.5, True),
        (near(1.5), 1.501, False),
        (near(1.5, 0.01), 1.501, True),
        (near(0.0, 0.01), -0.0, False),
        (near(0.0, 0.01), 0.001, False),
        (near(-1e-9, 0.01), 0.0, False),
        (near(np.inf, 1e9), 65504.0, False),
        (near(65530.0, 64.0), np.inf, True),
        (near(1e9), np.inf, True),
        (near(1e9), np.nan, False),
        (near(np.nan), np.nan, True),
        (near(np.nan), 1.0, False),
    ],
)
def test_a_number_is_near_another(known: plain_formulas.Near, found: float, holds: bool) -> None:
    assert known.holds(np.asarray(found)) is holds


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (joins_and_sorts, "_last", lambda dtype, descending: 0),
        (philox, "uniform", lambda x: iris.cast(x, f32) * 2.0**-32),
        (formulas, "_LN2", 0.69),
        (memory, "_UNBOUNDED", 3),
        (language, "kept_axis", lambda reduced, axis, rank: reduced),
    ],
)
def test_a_wrong_word_is_found(
    owner: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError, match="def drawn"):
        for kernel in drawn(300):
            kernel.check()


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
