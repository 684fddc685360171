"""Functions that move elements about, against NumPy."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from iris.errors import ShapeError
from tracing_arrays import DTYPES, SHAPES, agrees, compute, numbers, same, trace


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    size = x.size
    for new in ((size,), (-1,), (1, size), (size, 1, 1), (1, -1, 1), -1):
        if -1 in np.atleast_1d(new) and not size:
            continue
        agrees(lambda x, n=new: np.reshape(x, n), x)
        agrees(lambda x, n=new: x.reshape(n), x)
    agrees(lambda x: (x.ravel(), np.ravel(x), x.flatten(), x.reshape(-1, 1) if size else x), x)
    agrees(lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), x)
    agrees(lambda x: (np.squeeze(x), x.squeeze()), x)
    for axis, n in enumerate(shape):
        if n == 1:
            agrees(lambda x, a=axis: np.squeeze(x, a), x)
    rank = len(shape)
    for axis in range(-rank - 1, rank + 1):
        agrees(lambda x, a=axis: np.expand_dims(x, a), x)
    agrees(lambda x: np.expand_dims(x, (0, rank + 1)), x)
    agrees(lambda x: np.broadcast_to(x, (2, 3, *shape)), x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orders_of_axes(shape: tuple[int, ...]) -> None:
    x, rank = numbers(shape), len(shape)
    agrees(lambda x: (x.T, np.transpose(x), x.transpose()), x)
    if rank <= 4:
        for order in permutations(range(rank)):
            agrees(lambda x, o=order: (np.transpose(x, o), x.transpose(*o)), x)
    for one in range(-rank, rank):
        for other in range(rank):
            agrees(lambda x, i=one, j=other: (np.swapaxes(x, i, j), x.swapaxes(j, i)), x)
            agrees(lambda x, i=one, j=other: np.moveaxis(x, i, j), x)
            agrees(lambda x, i=one, j=other: np.rollaxis(x, i, j), x)
    if rank >= 2:
        agrees(lambda x: x.mT, x, oracle=lambda x: np.swapaxes(x, -1, -2))
        agrees(lambda x: np.moveaxis(x, (0, -1), (-1, 0)), x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_turned_and_moved_along(shape: tuple[int, ...]) -> None:
    x, rank = numbers(shape), len(shape)
    agrees(lambda x: (np.flip(x), np.roll(x, 2), np.roll(x, -9)), x)
    for axis in range(-rank, rank):
        agrees(lambda x, a=axis: np.flip(x, a), x)
        for by in (0, 1, -2, 13):
            agrees(lambda x, a=axis, b=by: np.roll(x, b, a), x)
    if rank >= 2:
        agrees(lambda x: (np.flip(x, (0, -1)), np.fliplr(x), np.flipud(x)), x)
        agrees(lambda x: (np.roll(x, (1, 2), (0, 1)), np.roll(x, 1, (0, 0))), x)
        for turns in range(-1, 5):
            agrees(lambda x, k=turns: np.rot90(x, k), x)
            agrees(lambda x, k=turns: np.rot90(x, k, (1, 0)), x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_repeated(shape: tuple[int, ...]) -> None:
    x, rank = numbers(shape), len(shape)
    for reps in (1, 3, 0, (2,), (2, 3), (1, 2, 1), (2, 1, 1, 1, 1, 3)):
        agrees(lambda x, r=reps: np.tile(x, r), x)
    if not x.size:  # as many counts as elements: none
        agrees(lambda x: np.repeat(x, []), x)
        for axis in [a for a, n in enumerate(shape) if not n]:
            agrees(lambda x, a=axis: np.repeat(x, [], axis=a), x)
    for repeats in (1, 3, 0, [2]):
        agrees(lambda x, r=repeats: np.repeat(x, r), x)
        for axis in range(-rank, rank):
            agrees(lambda x, a=axis, r=repeats: (np.repeat(x, r, a), x.repeat(r, axis=a)), x)
    for axis, n in enumerate(shape):
        counts = np.arange(n) % 3
        agrees(lambda x, a=axis, c=counts: np.repeat(x, c, axis=a), x)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_taken_apart(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for axis, n in enumerate(shape):
        for parts in (1, 2, 3, 9):
            agrees(lambda x, a=axis, p=parts: np.array_split(x, p, axis=a), x)
        for bounds in ([1], [2, 3], [0, 5, 4], [-1], np.array([1, 2])):
            agrees(lambda x, a=axis, b=bounds: np.split(x, b, a), x)
        if n:
            agrees(lambda x, a=axis, n=n: np.split(x, n, axis=a), x)
    if len(shape) >= 2:
        agrees(lambda x: (*np.vsplit(x, [1]), *np.hsplit(x, [1])), x)
    if len(shape) >= 3:
        agrees(lambda x: np.dsplit(x, [1]), x)
    if hasattr(np, "unstack"):
        agrees(lambda x: (*np.unstack(x), *np.unstack(x, axis=-1)), x)
    agrees(lambda x: list(x), x)


@pytest.mark.parametrize("shape", [s for s in SHAPES if len(s) >= 2], ids=str)
def test_diagonals(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for offset in (0, 1, -1, 2, -2, 9, -9):
        agrees(lambda x, k=offset: (np.diagonal(x, k), x.diagonal(k)), x)
        agrees(lambda x, k=offset: (np.trace(x, k), x.trace(offset=k)), x)
        agrees(lambda x, k=offset: np.diagonal(x, k, -1, 0), x)
        agrees(lambda x, k=offset: (np.tril(x, k), np.triu(x, k)), x)
        if len(shape) == 2:
            agrees(lambda x, k=offset: np.diag(x, k), x)
            agrees(lambda x, k=offset: np.diagflat(x, k), x)
    for k in (0, 1, -2):
        agrees(lambda x, k=k: np.diag(x.reshape(-1)[:3], k), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_stay(dtype: Any) -> None:
    x = numbers((3, 4), dtype)
    for function in (
        lambda x: np.transpose(x[:2].reshape(4, 2)),
        lambda x: np.tril(np.tile(np.roll(x, 1, 0), 2)),
        lambda x: np.diag(np.repeat(x[0], 2)),
    ):
        agrees(function, x, dtype=dtype)


def test_by_columns() -> None:
    x = numbers((2, 3, 4))
    for new in (24, (4, 6), (3, -1, 2), -1):
        agrees(lambda x, n=new: np.reshape(x, n, order="F"), x)
        agrees(lambda x, n=new: x.reshape(n, order="F"), x)
    agrees(lambda x: (x.ravel("F"), x.flatten("F"), np.ravel(x, order="F")), x)


def test_several_shifts_of_one_axis() -> None:
    x = numbers((4, 3))
    agrees(lambda x: (np.roll(x, (1, 2), 0), np.roll(x, 1, (0, 0)), np.roll(x, (1, 2), (0, 1))), x)


def test_left_out() -> None:
    x = numbers((4, 3))
    agrees(lambda x: (np.delete(x, 1, 0), np.delete(x, -1, 1), np.delete(x, [0, 5])), x)
    agrees(lambda x: (np.delete(x, slice(1, 3), 0), np.delete(x, [True, False, True], 1)), x)
    for places in (4, [-5], [True]):
        with pytest.raises(ShapeError, match=r"np\.delete: "):
            trace(lambda x, p=places: np.delete(x, p, 0), x)


def test_broadcast_arrays() -> None:
    x, y = numbers((3, 1)), numbers((4,), np.int32)
    agrees(np.broadcast_arrays, x, y)
    found = compute(lambda x: np.broadcast_arrays(x, 1.5, [1, 2]), x)
    same(found, np.broadcast_arrays(x, 1.5, [1, 2]))


def test_a_transpose_of_nothing_is_the_array_itself() -> None:
    x = numbers((3, 4))
    same(compute(lambda x: x.T.T, x), x)
    same(compute(lambda x: x.transpose(0, 1).copy(), x), x)
