"""A bad call is an error of Iris that is of NumPy's class, too: what catches one catches the
other."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iris.errors import UserError
from tracing_arrays import trace

X = np.ones((4, 3), np.float32)
I = np.array([0, 2], np.int32)  # noqa: E741
B = X > 0
BUILTIN = (TypeError, ValueError, IndexError, OverflowError)


def is_traced(x: Any) -> bool:
    return not isinstance(x, np.ndarray)


def written(x: Any, key: Any, values: Any) -> Any:
    return x.at[key].set(values) if is_traced(x) else operator.setitem(x.copy(), key, values)


BAD: list[Callable[[Any, Any, Any], Any]] = [
    lambda x, i, b: x[4],
    lambda x, i, b: x[0, 3],
    lambda x, i, b: x[np.array([0, 4])],
    lambda x, i, b: x[0, 0, 0],
    lambda x, i, b: x[..., 0, ...],
    lambda x, i, b: x[1.5],
    lambda x, i, b: x[x],
    lambda x, i, b: x["a"],
    lambda x, i, b: x[np.ones(3, bool)],
    lambda x, i, b: x[1.5:],
    lambda x, i, b: x[::0],
    lambda x, i, b: x[np.array([0, 1]), np.array([0, 1, 2])],
    lambda x, i, b: x + np.ones(4, np.float32),
    lambda x, i, b: np.where(b, x, np.ones(2, np.float32)),
    lambda x, i, b: np.concatenate([x, x[:, :2]]),
    lambda x, i, b: np.concatenate([x, x], axis=2),
    lambda x, i, b: np.concatenate([x, x[0]]),
    lambda x, i, b: np.concatenate([x[0, 0], x[0, 1]]),
    lambda x, i, b: np.stack([x, x.T]),
    lambda x, i, b: np.stack([x, x], axis=4),
    lambda x, i, b: np.hstack([x, x[:2]]),
    lambda x, i, b: x.reshape(5, 2),
    lambda x, i, b: x.reshape(-1, -1),
    lambda x, i, b: x.reshape(-1, 5),
    lambda x, i, b: x.reshape(1.5, 8),
    lambda x, i, b: x.reshape(12, order="Z"),
    lambda x, i, b: x.sum(axis=2),
    lambda x, i, b: x.sum(axis=-3),
    lambda x, i, b: x.sum(axis=1.5),
    lambda x, i, b: x.sum(axis="a"),
    lambda x, i, b: x.sum(axis=(0, 0)),
    lambda x, i, b: x.sum(foo=1),
    lambda x, i, b: x[:0].max(),
    lambda x, i, b: x[:0].argmax(),
    lambda x, i, b: x[:0].max(axis=0),
    lambda x, i, b: x.argmax(axis=2),
    lambda x, i, b: x.cumsum(axis=2),
    lambda x, i, b: x.transpose(0, 2),
    lambda x, i, b: x.transpose(0, 0),
    lambda x, i, b: x.transpose(0),
    lambda x, i, b: x.swapaxes(0, 2),
    lambda x, i, b: np.moveaxis(x, 0, 2),
    lambda x, i, b: np.moveaxis(x, [0, 1], [0]),
    lambda x, i, b: np.expand_dims(x, 4),
    lambda x, i, b: np.squeeze(x, 0),
    lambda x, i, b: np.squeeze(x, 3),
    lambda x, i, b: np.broadcast_to(x, (4, 4)),
    lambda x, i, b: x @ x,
    lambda x, i, b: x @ 2.0,
    lambda x, i, b: np.dot(x, x),
    lambda x, i, b: np.inner(x, x.T),
    lambda x, i, b: np.vdot(x, x[0]),
    lambda x, i, b: np.tensordot(x, x, 1),
    lambda x, i, b: np.tensordot(x, x, ([0], [0, 1])),
    lambda x, i, b: np.tensordot(x, x, ([2], [0])),
    lambda x, i, b: np.einsum("ij,jk->ik", x, x),
    lambda x, i, b: np.einsum("ijk->i", x),
    lambda x, i, b: np.einsum("ij->k", x),
    lambda x, i, b: np.einsum("ij,jk->ik", x),
    lambda x, i, b: np.einsum("i!->i", x),
    lambda x, i, b: np.cross(x, x[:, :1]),
    lambda x, i, b: np.kron(x, "a"),
    lambda x, i, b: np.take(x, 0, axis=2),
    lambda x, i, b: np.take(x, 0, mode="foo"),
    lambda x, i, b: np.take_along_axis(x, i, 0),
    lambda x, i, b: np.take_along_axis(x, x, 0),
    lambda x, i, b: np.split(x, 3),
    lambda x, i, b: np.split(x, 2, axis=2),
    lambda x, i, b: np.tile(x, 1.5),
    lambda x, i, b: np.repeat(x, [1, 2], axis=0),
    lambda x, i, b: np.repeat(x, -1),
    lambda x, i, b: np.roll(x, 1, axis=2),
    lambda x, i, b: np.flip(x, 2),
    lambda x, i, b: np.delete(x, 9, axis=0),
    lambda x, i, b: np.diag(x[None]),
    lambda x, i, b: np.trace(x[0]),
    lambda x, i, b: np.pad(x, -1),
    lambda x, i, b: np.pad(x, [1, 2, 3]),
    lambda x, i, b: np.pad(x, 1, mode="foo"),
    lambda x, i, b: np.clip(x, np.ones(5, np.float32), None),
    lambda x, i, b: -b,
    lambda x, i, b: b - b,
    lambda x, i, b: ~x,
    lambda x, i, b: x & x,
    lambda x, i, b: x << 1,
    lambda x, i, b: np.sign(b),
    lambda x, i, b: +b,
    lambda x, i, b: x.astype("foo"),
    lambda x, i, b: np.linspace(x, x, -1),
    lambda x, i, b: np.gradient(x[:1], axis=0),
    lambda x, i, b: np.gradient(b),
    lambda x, i, b: np.diff(x, axis=2),
    lambda x, i, b: np.diff(x, n=-1),
    lambda x, i, b: np.diff(x[0, 0]),
    lambda x, i, b: np.convolve(x, x),
    lambda x, i, b: np.convolve(x[0], x[0], "foo"),
    lambda x, i, b: np.convolve(x[0], x[0, :0]),
    lambda x, i, b: np.average(x, weights=np.ones(3, np.float32)),
    lambda x, i, b: np.average(x, axis=0, weights=np.ones(3, np.float32)),
    lambda x, i, b: np.linalg.norm(x, ord="foo"),
    lambda x, i, b: np.linalg.norm(x[None], ord=2),
    lambda x, i, b: np.meshgrid(x[0], x[0], indexing="foo"),
    lambda x, i, b: np.select([b], [x, x]),
    lambda x, i, b: np.select([], [x]),
    lambda x, i, b: np.block([[x], x]),
    lambda x, i, b: np.tril(x, "a"),
    lambda x, i, b: np.cumulative_sum(x),
    lambda x, i, b: np.trapezoid(x, axis=2),
    lambda x, i, b: np.rot90(x[0]),
    lambda x, i, b: np.vstack([x, x.T]),
    lambda x, i, b: np.append(x, x[0], axis=0),
    lambda x, i, b: np.add.reduce(x, axis=3),
    lambda x, i, b: np.rollaxis(x, 3),
    lambda x, i, b: np.rollaxis(x, 0, 3),
    lambda x, i, b: np.rollaxis(x, 0, -3),
    lambda x, i, b: x[:0][i],
    lambda x, i, b: np.take(x[:0], i, axis=0, mode="clip"),
    lambda x, i, b: np.take(x[:0], [2], axis=0, mode="wrap"),
    lambda x, i, b: np.where(b, x),
    lambda x, i, b: x.argmax(axis=(0, 1)),
    lambda x, i, b: x.var(axis=7),
    lambda x, i, b: np.round(x, 1.5),
    lambda x, i, b: written(x, 0, np.ones(4, np.float32)),
    lambda x, i, b: written(x, 7, 1),
    lambda x, i, b: len(x[0, 0] if is_traced(x) else np.array(1.0)),
    lambda x, i, b: list(x[0, 0] if is_traced(x) else np.array(1.0)),
    lambda x, i, b: operator.iadd(x[0], x),
    lambda x, i, b: operator.iadd(i, 1.5),
    lambda x, i, b: i + 2**31,
    lambda x, i, b: (i > 0).astype(np.uint8) - 300,
    lambda x, i, b: np.full_like(i, 2**40),
    lambda x, i, b: i.max(initial=2**40),
    lambda x, i, b: i << 2**40,
    lambda x, i, b: written(i, 0, 2**40),
    lambda x, i, b: i**-1,
    lambda x, i, b: np.power(i, 2.5, dtype=np.int32),
    lambda x, i, b: np.stack([x, x], dtype=np.int32),
    lambda x, i, b: x + None,
    lambda x, i, b: x + "a",
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_are_of_the_classes_of_numpy(number: int) -> None:
    bad = BAD[number]
    with pytest.raises(BUILTIN) as expected:
        bad(X, I, B)
    with pytest.raises(UserError) as found:
        trace(bad, X, I, B)
    assert found.value.spot is not None
    for kind in BUILTIN:
        if isinstance(expected.value, kind):
            assert isinstance(found.value, kind)
