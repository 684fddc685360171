"""The words of the tile language, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DTypeError, ShapeError, UserError

SMALL = [np.int8, np.uint8, np.int16, np.uint16, np.bool_]
REDUCTIONS = {"sum": iris.sum, "prod": iris.prod, "cumsum": iris.cumsum}


@iris.kernel
def reduced(X, Out, N, B: iris.constexpr, REDUCE: iris.constexpr, DTYPE: iris.constexpr = None):
    i = iris.arange(0, B)
    x = iris.load(X + i, mask=i < N)
    result = REDUCE(x) if DTYPE is None else REDUCE(x, dtype=DTYPE)
    if len(result.shape):
        iris.store(Out + i, result, mask=i < N)
    else:
        iris.store(Out, result)


@pytest.mark.parametrize("word", REDUCTIONS)
@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("n", [16, 11])
def test_small_integers_are_added_and_multiplied_in_32_bits(word: str, dtype: Any, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 100, n).astype(dtype)
    wide = np.uint32 if np.dtype(dtype).kind == "u" else np.int32
    expected = getattr(np, word)(x, dtype=wide)
    for device in "interp", "interp:metal":
        out = np.zeros(np.shape(expected) or 1, wide)
        reduced[1](x, out, n, B=16, REDUCE=REDUCTIONS[word], device=device)
        assert (out == expected).all()
    assert iris.jit(getattr(np, word))(x).dtype == wide  # a function of arrays has the same rule


@pytest.mark.parametrize("word", REDUCTIONS)
@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (np.float16, np.float32),
        (np.int8, np.int8),
        (np.uint8, np.int64),
        (np.int32, np.float32),
        (np.int32, np.uint16),
    ],
)
def test_a_sum_in_the_dtype_asked_for(word: str, dtype: Any, wanted: Any) -> None:
    # In f16 the first sum would be rounded, and some of the others would not.
    x = (np.array([2049, 1, 1, 3, 5]) if dtype is np.float16 else np.arange(70, 75)).astype(dtype)
    expected = getattr(np, word)(x, dtype=wanted)
    out = np.zeros(np.shape(expected) or 1, wanted)
    short = {np.float32: "f32", np.int8: "i8", np.int64: "i64", np.uint16: "u16"}[wanted]
    reduced[1](x, out, 5, B=8, REDUCE=REDUCTIONS[word], DTYPE=short)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def refused(program: Callable[..., Any]) -> UserError:
    x = np.zeros(8, np.float32)
    with pytest.raises(UserError) as caught:
        iris.kernel(program)[1](x, 3.0, 2)
    return caught.value


INSTEAD = {
    "max": "iris.maximum(a, b)",
    "min": "iris.minimum(a, b)",
    "sum": "a + b",
    "prod": "a * b",
    "any": "a | b",
    "all": "a & b",
    "argmax": "iris.where(b > a, 1, 0)",
    "argmin": "iris.where(b < a, 1, 0)",
    "cumsum": "a + b",
}


@pytest.mark.parametrize("word", INSTEAD)
def test_a_second_operand_is_no_axis(word: str) -> None:
    reduce = getattr(iris, word)

    def two_scalars(X, a, n):
        iris.store(X, reduce(iris.load(X), a))

    def two_integers(X, a, n):
        iris.store(X, reduce(n, n + 1))

    def scalar_and_number(X, a, n):
        iris.store(X, reduce(a, 1))

    def named_axis(X, a, n):
        iris.store(X, reduce(a, axis=-1))

    def two_numbers(X, a, n):
        iris.store(X, reduce(2, 3))

    def two_tiles(X, a, n):
        x = iris.load(X + iris.arange(0, 8))
        iris.store(X, reduce(x, x))

    def tile_and_float(X, a, n):
        iris.store(X, reduce(iris.load(X + iris.arange(0, 8)), 0.0))

    def tile_and_bool(X, a, n):
        iris.store(X, reduce(iris.load(X + iris.arange(0, 8)), axis=False))

    def tile_and_tuple(X, a, n):
        iris.store(X, reduce(iris.load(X + iris.arange(0, 8)), axis=(0,)))

    def tile_and_scalar(X, a, n):
        iris.store(X, reduce(iris.load(X + iris.arange(0, 8)), n))

    for program in (
        two_scalars,
        two_integers,
        scalar_and_number,
        named_axis,
        two_numbers,
        two_tiles,
        tile_and_float,
        tile_and_bool,
        tile_and_tuple,
        tile_and_scalar,
    ):
        error = refused(program)
        assert isinstance(error, ShapeError), program
        assert error.message.endswith(f"write {INSTEAD[word]}"), program
        assert error.spot is not None
        assert "reduce(" in error.spot.source, program


def test_a_reduction_of_one_scalar_is_that_scalar() -> None:
    @iris.kernel
    def scalars(X, Out, n):
        x = iris.load(X)
        results = [iris.sum(x), iris.max(x), iris.min(x), iris.prod(x), iris.cumsum(x)]
        for k, result in enumerate([*results, iris.argmax(x)]):
            iris.store(Out + k, result)

    out = np.full(6, 9, np.float32)
    scalars[1](np.array([3], np.float32), out, 1)
    assert list(out) == [3, 3, 3, 3, 3, 0]


def test_what_is_no_dtype_and_no_keepdims_of_a_sum() -> None:
    def sum_as_bool(X, a, n):
        iris.store(X, iris.sum(iris.load(X + iris.arange(0, 8)), dtype=iris.bool_))

    def dtype_for_keepdims(X, a, n):
        iris.store(X, iris.sum(iris.load(X + iris.arange(0, 8)), 0, iris.f32))

    error = refused(sum_as_bool)
    assert isinstance(error, DTypeError)
    assert "iris.any" in error.message
    error = refused(dtype_for_keepdims)
    assert isinstance(error, ArgumentError)
    assert "keepdims of sum is True or False, not" in error.message


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_tiles_of_up_to_five_dimensions(device: str) -> None:
    @iris.kernel
    def shuffled(X, Out):
        pairs, four = iris.arange(0, 2), iris.arange(0, 4)
        offset = pairs[:, None, None, None, None] * 32 + four[:, None, None, None] * 8
        offset += pairs[:, None, None] * 4 + pairs[:, None] * 2 + pairs[None, None, None, None]
        x = iris.load(X + offset)
        most = iris.max(iris.sum(x, axis=1), axis=-1)
        other = iris.reshape(iris.transpose(x, (4, 3, 1, 0, 2)), 64)
        iris.store(Out + iris.arange(0, 64), iris.cumsum(other) + iris.sum(most))

    x = np.random.default_rng(0).integers(0, 9, (2, 4, 2, 2, 2)).astype(np.float32)
    out = np.empty(64, np.float32)
    shuffled[1](x, out, device=device)
    other = x.transpose(4, 3, 1, 0, 2).ravel()
    assert (out == other.cumsum() + x.sum(1).max(-1).sum()).all()


def test_a_tile_of_no_dimensions_is_a_scalar() -> None:
    @iris.kernel
    def scalars(X, Out):
        x = iris.load(X + iris.arange(0, 1))[:, None]
        one = iris.zeros(()) + iris.full((), 1, iris.f32)
        iris.store(Out, iris.reshape(x, ()) + iris.broadcast_to(one, ()))
        iris.store(Out + 1, iris.where(iris.reshape(x > 2, ()), 1, 0))

    for number in (3, np.nan):
        out = np.empty(2, np.float32)
        scalars[1](np.full(1, number, np.float32), out)
        assert np.array_equal(out, [number + 1, number > 2], equal_nan=True)

    def two_elements(X, a, n):
        iris.store(X, iris.reshape(iris.load(X + iris.arange(0, 2)), ()))

    def six_dimensions(X, a, n):
        iris.store(X, iris.load(X + iris.arange(0, 2))[None, :, None, None, None, None])

    assert "1 to 5 dimensions, not 0" in refused(two_elements).message
    assert "has 5 dimensions already" in refused(six_dimensions).message


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize("sizes", [(8, 8, 8), (2, 16, 4)])
def test_a_product_of_several_matrices(device: str, sizes: tuple[int, int, int]) -> None:
    @iris.kernel
    def products(X, Y, Out, n, M: iris.constexpr, K: iris.constexpr, N: iris.constexpr):
        batch = iris.arange(0, 4)[:, None, None]
        rows, depth, columns = iris.arange(0, M), iris.arange(0, K), iris.arange(0, N)
        at_x = (batch * M + rows[None, :, None]) * K + depth[None, None, :]
        at_y = (batch * K + depth[None, :, None]) * N + columns[None, None, :]
        x = iris.load(X + at_x, mask=(depth[None, None, :] < n) & (batch < 3))
        y = iris.load(Y + at_y, mask=columns[None, None, :] < n)
        at_out = (batch * M + rows[None, :, None]) * N + columns[None, None, :]
        iris.store(Out + at_out, iris.dot(x, y, iris.full((4, M, N), 1)))

    m, k, n = sizes
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 9, (4, m, k)).astype(np.float16)
    y = rng.integers(-3, 9, (4, k, n)).astype(np.float16)
    x[0, 0, 3], y[1, 0, 3] = np.inf, np.inf  # which do not count
    out = np.full((4, m, n), 7, np.float32)
    products[1](x, y, out, 3, M=m, K=k, N=n, device=device)
    expected = np.full((4, m, n), 7, np.float32)
    expected[:3, :, :3] = (x[:3, :, :3].astype(np.float32) @ y[:3, :3, :3]) + 1
    assert (out == expected).all()

    def other_batches(X, a, n):
        iris.store(X, iris.dot(iris.zeros((2, 8, 8)), iris.zeros((4, 8, 8))))

    assert "do not multiply" in refused(other_batches).message


OF_ONE = {
    "argmax": lambda x: iris.argmax(iris.max(x)),
    "argmin": lambda x: iris.argmin(iris.max(x)),
    "power of 0": lambda x: x**0,
    "power of 0 of a number": lambda x: iris.max(x) ** 0,
    "power of 3": lambda x: x**3,
    "product with 0": lambda x: x * 0,
    "equal to itself": lambda x: x == x,
    "one of two equal numbers": lambda x: iris.where(x > 0, 5, 5),
    "clamped to one number": lambda x: iris.clamp(x, 2, 2),
    "histogram": lambda x: iris.histogram(x, 4),
    "whether it is nan": lambda x: iris.isnan(x),
    "sum": lambda x: iris.sum(x * 0),
    "any": lambda x: iris.any(x > 9),
}


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize("name", OF_ONE)
def test_what_is_made_of_masked_elements_does_not_count(name: str, device: str) -> None:
    @iris.kernel
    def masked(X, Out, n, FUNCTION: iris.constexpr):
        i = iris.arange(0, 4)
        iris.store(Out + i, FUNCTION(iris.load(X + i, mask=i < n)))

    x, out = np.ones(4, np.int32), np.full(4, 77, np.int32)
    masked[1](x, out, 0, FUNCTION=OF_ONE[name], device=device)
    assert (out == 77).all()
    masked[1](x, out, 4, FUNCTION=OF_ONE[name], device=device)
    assert (out != 77).all()
