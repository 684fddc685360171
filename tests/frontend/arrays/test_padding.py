"""`np.pad` of traced arrays, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError
from tracing_arrays import DTYPES, SHAPES, agrees, compute, numbers, same, trace


@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s and s], ids=str)
@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_by_places(mode: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    each = [(i % 3, (i + 1) % 3) for i in range(len(shape))]
    # Often the array anew, along few axes: along five, it would be millions of elements.
    far = [11 if i in (0, len(shape) - 1) else 1 for i in range(len(shape))]
    for width in (0, 1, (2, 3), each, [(n, n) for n in far]):
        agrees(lambda x, w=width: np.pad(x, w, mode), x)  # type: ignore[call-overload]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_with_a_number(shape: tuple[int, ...]) -> None:
    x, rank = numbers(shape), len(shape)
    for width in (0, 1, (2, 3), [(i, 1) for i in range(rank)]):
        if not rank and not isinstance(width, int):
            continue
        agrees(lambda x, w=width: np.pad(x, w), x)
        agrees(lambda x, w=width: np.pad(x, w, constant_values=7.5), x)
        if rank:
            values = [(i + 1, -i) for i in range(rank)]
            agrees(lambda x, w=width, v=values: np.pad(x, w, constant_values=v), x)
            agrees(lambda x, w=width: np.pad(x, w, "constant", constant_values=(1, 2)), x)
    if x.size:
        found = compute(lambda x: np.pad(x, 1, constant_values=x.ravel()[0]), x)
        same(found, np.pad(x, 1, constant_values=x.ravel()[0]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_keeps_the_dtype(dtype: Any) -> None:
    agrees(lambda x: np.pad(x, 2), numbers((3,), dtype), dtype=dtype)
    agrees(lambda x: np.pad(x, 2, "edge"), numbers((3,), dtype), dtype=dtype)


@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s and s], ids=str)
@pytest.mark.parametrize("mode", ["maximum", "mean", "minimum"])
def test_by_what_is_made(mode: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    each = [(i % 3, (i + 1) % 3) for i in range(len(shape))]
    for width in (0, 1, (2, 3), each):
        agrees(lambda x, w=width: np.pad(x, w, mode), x, near=1e-6)  # type: ignore[call-overload]
        for length in (1, 2, (2, 9)):
            agrees(
                lambda x, w=width, n=length: np.pad(x, w, mode, stat_length=n),  # type: ignore[call-overload]
                x,
                near=1e-6,
            )


def test_the_mean_of_integers_is_rounded() -> None:
    x = numbers((4, 7), np.int32)
    agrees(lambda x: np.pad(x, 1, "mean"), x, dtype=np.int32)


def test_the_mean_of_bools_is_whether_there_is_any() -> None:
    agrees(lambda x: np.pad(x, 1, "mean"), np.array([True, False, False]), dtype=np.bool_)


@pytest.mark.parametrize("mode", ["maximum", "mean", "minimum"])
def test_axes_that_are_not_padded_may_have_no_elements(mode: str) -> None:
    x = np.empty((2, 0), np.float32)
    agrees(lambda x: np.pad(x, ((0, 3), (0, 0)), mode), x)  # type: ignore[call-overload]


def test_widths_by_axis() -> None:
    x = numbers((2, 3))
    same(compute(lambda x: np.pad(x, {-1: (1, 2)}), x), np.pad(x, ((0, 0), (1, 2))))
    same(compute(lambda x: np.pad(x, {0: 2}, "edge"), x), np.pad(x, ((2, 2), (0, 0)), "edge"))


def test_what_is_not_written_is_zero() -> None:
    x = numbers((2, 3))
    same(compute(lambda x: np.pad(x, 1, "empty"), x), np.pad(x, 1))


def test_options_of_other_modes() -> None:
    with pytest.raises(ArgumentError, match=r"the mode 'edge' of np.pad has no constant_values="):
        trace(lambda x: np.pad(x, 1, "edge", constant_values=1), numbers((3,)))  # type: ignore[call-overload]
