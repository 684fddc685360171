# ruff: noqa: E501  (IR text)
"""The graph interpreter: each op against NumPy in i64 and f64 over random shapes, and every
report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError, ProgramError
from iris.interp.graph import interpretation, run
from iris.interp.memory import memory_dtype
from iris.ir import graph, math, parse, scalar, verify
from iris.ir.control import Func, Return
from iris.ir.core import OPS, Level, Module, Op
from iris.ir.graph import ScatterKind
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.types import DTYPES, DType, Tensor, bf16, bool_, f16, f32, i32, i64, u8
from support import counts

Array = np.ndarray[Any, Any]
NUMBERS = [d for d in DTYPES.values() if d is not bool_]
FLOATS = [f16, bf16, f32]
numbers = pytest.mark.parametrize("dtype", NUMBERS, ids=str)
every = pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
TIMES = counts(40, 400)


def rounds() -> Iterator[np.random.Generator]:
    return (np.random.default_rng(seed) for seed in range(TIMES))


def some_shape(rng: np.random.Generator, least: int = 0, most: int = 5) -> tuple[int, ...]:
    """Of rank 0 to 5, with sizes of 0, 1, and odd primes."""
    sizes = (1, 2, 3, 5, 7, 0) if rng.integers(4) == 0 else (1, 2, 3, 5, 7)
    shape = [int(rng.choice(sizes)) for _ in range(rng.integers(least, most + 1))]
    while prod(shape) > 600:
        shape[shape.index(max(shape))] = 2
    return tuple(shape)


def draw(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Small whole numbers, in storage, of both signs where there are two."""
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    low = -4 if dtype.is_float or dtype.is_signed else 0
    return rng.integers(low, 5, shape).astype(scalar.storage(dtype))


def in_memory(dtype: DType, x: Array) -> Array:
    return scalar.to_bits(dtype, x) if dtype is bf16 else x


def stored(dtype: DType, x: Array) -> Array:
    return scalar.from_bits(dtype, x) if dtype is bf16 else x


def compute(make: Callable[..., Op], *inputs: tuple[DType, Array]) -> Array:
    """What an op makes of some arrays, in storage; they must stay as they are."""
    func = Func("f", Level.GRAPH)
    for dtype, x in inputs:
        func.body.add_argument(Tensor(x.shape, dtype))
    op = make(*func.body.arguments)
    func.body.append(op)
    func.body.append(Return(list(op.results)))
    func.attributes = (*func.attributes[:2], (op.result.type,), *func.attributes[3:])
    verify(Module([func]))
    given = [in_memory(dtype, x) for dtype, x in inputs]
    before = [x.copy() for x in given]
    (found,) = run(func, given)
    for x, was in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, was)
        assert not np.shares_memory(x, found)
    result = op.result.type
    assert isinstance(result, Tensor)
    assert found.shape == result.shape
    assert found.dtype == memory_dtype(result.element)
    assert found.flags.c_contiguous
    assert found.flags.writeable
    return stored(result.element, found)


def in_dtype(dtype: DType, exact: Array) -> Array:
    """Whole numbers, rounded or wrapped."""
    if dtype.is_float:
        return scalar.round_to(dtype, exact.astype(np.float64))
    return exact.astype(np.int64).astype(scalar.storage(dtype))


def same(found: Array, expected: Array) -> None:
    np.testing.assert_array_equal(found, expected, strict=True)


def test_every_op_of_the_level_has_an_interpretation() -> None:
    levels = (Level.GRAPH,)
    missing = [
        name
        for name, cls in OPS.items()
        if (cls.level in levels or issubclass(cls, math.Elementwise | math.Constant))
        and interpretation.get(cls) is None
    ]
    assert missing == []


# Functions.


def function(text: str) -> Func:
    module = parse(text)
    verify(module)
    (only,) = module
    assert isinstance(only, Func)
    return only


@every
def test_what_is_given_is_returned_as_a_copy(dtype: DType) -> None:
    f = function(
        f"func graph @f returns=[tensor<2x3x{dtype}>, tensor<2x3x{dtype}>](%x: tensor<2x3x{dtype}>) {{\n  return %x, %x\n}}"
    )
    x = in_memory(dtype, draw(np.random.default_rng(0), dtype, (3, 2)).T)
    one, other = run(f, [x])
    same(one, x)
    same(other, x)
    assert one.flags.c_contiguous
    assert not np.shares_memory(one, other)
    assert not np.shares_memory(one, x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "f takes 2 arguments, not 0"),
        ([np.zeros((2, 3)), np.zeros(2, np.uint16)], "x must be an array of float32, not float64"),
        ([np.zeros((2, 3), "f4"), np.zeros(2, "f4")], "y must be an array of uint16, not float32"),
        ([1.0, np.zeros(2, np.uint16)], "x must be an array of float32, not float"),
        (
            [np.zeros((3, 2), "f4"), np.zeros(2, np.uint16)],
            r"x must have the shape \(2, 3\), not \(3, 2\)",
        ),
    ],
)
def test_wrong_arguments_are_told(arguments: list[Any], message: str) -> None:
    f = function("func graph @f returns=[](%x: tensor<2x3xf32>, %y: tensor<2xbf16>) {\n  return\n}")
    with pytest.raises(ArgumentError, match=message):
        run(f, arguments)


def test_kernels_see_what_is_outside_and_yield_what_is_seen() -> None:
    f = function(
        """
        func graph @f returns=[tensor<3xi32>, tensor<3xi32>, tensor<3xi32>](%x: tensor<3xi32>) {
          %y: tensor<3xi32> = add %x, %x
          %a: tensor<3xi32>, %b: tensor<3xi32>, %c: tensor<3xi32> = graph.kernel @k {
            %p: tensor<3xi32> = mul %x, %y
            %q: tensor<3xi32> = add %p, %y
            yield %p, %q, %p
          }
          graph.kernel @empty {
            yield
          }
          %d: tensor<3xi32> = sub %a, %b
          return %d, %c, %y
        }
        """
    )
    x = np.array([1, 2, 3], np.int32)
    found = run(f, [x])
    for have, want in zip(found, (-2 * x, 2 * x * x, 2 * x), strict=True):
        same(have, want)


# The shared math.


@numbers
def test_elementwise(dtype: DType) -> None:
    for rng in rounds():
        shape = some_shape(rng)
        x, y = draw(rng, dtype, shape), draw(rng, dtype, shape)
        c = draw(rng, bool_, shape)
        exact = x.astype(np.int64) - y.astype(np.int64)
        same(compute(math.Sub, (dtype, x), (dtype, y)), in_dtype(dtype, exact))
        same(compute(math.Select, (bool_, c), (dtype, x), (dtype, y)), np.where(c, x, y))
        less = compute(lambda a, b: math.Compare(math.Predicate.LT, a, b), (dtype, x), (dtype, y))
        same(less, x < y)


UNARY = [cls for cls in OPS.values() if issubclass(cls, math.Unary)]
BINARY = [cls for cls in OPS.values() if issubclass(cls, math.Binary)]


@every
def test_all_shared_ops_take_any_shape(dtype: DType) -> None:
    """Rank 0, and no elements: the same as the op makes of each element by itself."""
    rng = np.random.default_rng(1)
    for cls, shape in product([*UNARY, *BINARY], [(), (0,), (2, 0, 3), (1, 3)]):
        fields = cls.spec.fixed
        if dtype not in fields[0].constraint:
            continue
        inputs = [(dtype, np.abs(draw(rng, dtype, shape)) % 4 + 1) for _ in fields]
        if dtype is bool_:
            inputs = [(dtype, draw(rng, dtype, shape)) for _ in fields]
        found = compute(cls, *[(d, x.astype(scalar.storage(d))) for d, x in inputs])
        assert found.shape == shape
        for index in np.ndindex(shape):
            alone = [(d, x[index].reshape(1).astype(scalar.storage(d))) for d, x in inputs]
            same(compute(cls, *alone), found[index].reshape(1))


@every
def test_constants_and_casts(dtype: DType) -> None:
    for rng in rounds():
        shape = some_shape(rng)
        number = int(draw(rng, dtype, ()))
        made = compute(
            lambda number=number, shape=shape: math.Constant(number, Tensor(shape, dtype))
        )
        same(made, np.full(shape, number, scalar.storage(dtype)))
        x = draw(rng, i32, shape)
        cast = compute(lambda v, shape=shape: math.Cast(v, Tensor(shape, dtype)), (i32, x))
        same(cast, x != 0 if dtype is bool_ else in_dtype(dtype, x))


@numbers
def test_iota(dtype: DType) -> None:
    for rng in rounds():
        shape = some_shape(rng, least=1)
        axis = int(rng.integers(len(shape)))
        found = compute(lambda shape=shape, axis=axis: graph.Iota(axis, Tensor(shape, dtype)))
        same(found, in_dtype(dtype, np.indices(shape)[axis]))


def test_a_long_iota_wraps_or_rounds() -> None:
    same(compute(lambda: graph.Iota(0, Tensor((300,), u8))), np.arange(300).astype(np.uint8))
    rounded = compute(lambda: graph.Iota(0, Tensor((5000,), f16)))
    same(rounded, np.arange(5000).astype(np.float16))


# The same elements elsewhere.


@every
def test_broadcast_reshape_transpose(dtype: DType) -> None:
    for rng in rounds():
        wide = some_shape(rng)
        narrow = tuple([1 if rng.integers(2) else n for n in wide])
        x = draw(rng, dtype, narrow)
        found = compute(lambda v, to=wide: graph.Broadcast(v, Tensor(to, dtype)), (dtype, x))
        same(found, np.broadcast_to(x, wide))
        x = draw(rng, dtype, wide)
        order = tuple(int(i) for i in rng.permutation(len(wide)))
        moved = compute(lambda v, order=order: graph.Transpose(order, v), (dtype, x))
        same(moved, np.transpose(x, order))
        to = (*np.array(wide, int)[list(order)].tolist(), 1)
        found = compute(lambda v, to=to: graph.Reshape(v, Tensor(to, dtype)), (dtype, x))
        same(found, x.reshape(to))


@every
def test_slice(dtype: DType) -> None:
    for rng in rounds():
        shape = some_shape(rng)
        starts, steps, sizes = [], [], []
        index: list[list[int]] = []
        for n in shape:
            step = int(rng.choice([1, 1, 2, 3, -1, -2]))
            start = int(rng.integers(n)) if n else int(rng.integers(-3, 9))
            there = [start + step * i for i in range(n) if 0 <= start + step * i < n]
            size = int(rng.integers(len(there) + 1))
            starts.append(start)
            steps.append(step)
            sizes.append(size)
            index.append(there[:size])
        x = draw(rng, dtype, shape)
        to = Tensor(tuple(sizes), dtype)
        found = compute(
            lambda v, a=tuple(starts), b=tuple(steps), to=to: graph.Slice(a, b, v, to), (dtype, x)
        )
        same(found, x[np.ix_(*[np.array(i, int) for i in index])] if shape else x)


@every
def test_pad(dtype: DType) -> None:
    for rng in rounds():
        shape = some_shape(rng, most=4)
        low, high = (tuple(int(n) for n in rng.integers(0, 3, len(shape))) for _ in range(2))
        x, value = draw(rng, dtype, shape), draw(rng, dtype, ())
        to = Tensor(tuple([a + n + b for a, n, b in zip(low, shape, high, strict=True)]), dtype)
        found = compute(
            lambda v, p, low=low, to=to: graph.Pad(low, v, p, to), (dtype, x), (dtype, value)
        )
        expected = (
            np.pad(x, list(zip(low, high, strict=True)), constant_values=value) if shape else x
        )
        same(found, expected)


@every
def test_concat(dtype: DType) -> None:
    for rng in rounds():
        shape = list(some_shape(rng, least=1, most=4))
        axis = int(rng.integers(len(shape)))
        parts = []
        for _ in range(rng.integers(1, 4)):
            shape[axis] = int(rng.integers(4))
            parts.append((dtype, draw(rng, dtype, tuple(shape))))
        found = compute(lambda *vs, axis=axis: graph.Concat(axis, list(vs)), *parts)
        same(found, np.concatenate([x for _, x in parts], axis))


# What combines elements.

REDUCE: dict[ReduceKind, Callable[..., Any]] = {
    ReduceKind.SUM: np.sum,
    ReduceKind.PROD: np.prod,
    ReduceKind.MAXIMUM: np.max,
    ReduceKind.MINIMUM: np.min,
    ReduceKind.MAXNUM: np.max,
    ReduceKind.MINNUM: np.min,
    ReduceKind.ANY: np.any,
    ReduceKind.ALL: np.all,
}
SCAN: dict[ScanKind, Callable[..., Any]] = {
    ScanKind.SUM: np.add.accumulate,
    ScanKind.PROD: np.multiply.accumulate,
    ScanKind.MAXIMUM: np.maximum.accumulate,
    ScanKind.MINIMUM: np.minimum.accumulate,
    ScanKind.MAXNUM: np.maximum.accumulate,
    ScanKind.MINNUM: np.minimum.accumulate,
}


def powers(x: Array, kind: str) -> Array:
    """Factors of which there is no product too large for f16."""
    if kind != "prod":
        return x
    twos = x > 3
    few = twos & (np.cumsum(twos).reshape(x.shape) <= 12)
    return np.where(few, x.dtype.type(2), x.dtype.type(1))


@pytest.mark.parametrize("kind", REDUCE, ids=lambda kind: kind.value)
def test_reduce(kind: ReduceKind) -> None:
    truth = kind in (ReduceKind.ANY, ReduceKind.ALL)
    empty = kind in (ReduceKind.SUM, ReduceKind.PROD, ReduceKind.ANY, ReduceKind.ALL)
    for rng in rounds():
        for dtype in [bool_] if truth else NUMBERS:
            shape = some_shape(rng, least=1)
            count = int(rng.integers(1, len(shape) + 1))
            axes = tuple(sorted(int(i) for i in rng.permutation(len(shape))[:count]))
            if not empty:
                shape = tuple([n or 3 if i in axes else n for i, n in enumerate(shape)])
            x = powers(draw(rng, dtype, shape), kind.value)
            found = compute(lambda v, axes=axes: graph.Reduce(kind, axes, v), (dtype, x))
            exact = REDUCE[kind](x if truth else x.astype(np.int64), axis=axes)
            same(found, np.asarray(exact) if truth else in_dtype(dtype, np.asarray(exact)))


@pytest.mark.parametrize("kind", [ReduceKind.ARGMAX, ReduceKind.ARGMIN], ids=str)
def test_argmax_argmin(kind: ReduceKind) -> None:
    for rng in rounds():
        for dtype in NUMBERS:
            shape = list(some_shape(rng, least=1))
            axis = int(rng.integers(len(shape)))
            shape[axis] = shape[axis] or 3
            x = draw(rng, dtype, tuple(shape))
            found = compute(lambda v, axis=axis: graph.Reduce(kind, (axis,), v), (dtype, x))
            wide = x.astype(np.int64) * (1 if kind is ReduceKind.ARGMAX else -1)
            same(found, np.asarray(wide.argmax(axis), np.int32))


@pytest.mark.parametrize("kind", SCAN, ids=lambda kind: kind.value)
def test_scan(kind: ScanKind) -> None:
    for rng in rounds():
        for dtype in NUMBERS:
            shape = some_shape(rng, least=1)
            axis = int(rng.integers(len(shape)))
            x = powers(draw(rng, dtype, shape), kind.value)
            found = compute(lambda v, axis=axis: graph.Scan(kind, axis, v), (dtype, x))
            same(found, in_dtype(dtype, SCAN[kind](x.astype(np.int64), axis=axis)))


def test_the_sum_of_nothing_is_zero_and_of_negative_zeros_is_negative() -> None:
    for dtype in FLOATS:
        for shape, sign in (((3, 0), False), ((3, 2), True)):
            x = np.full(shape, -0.0, scalar.storage(dtype))
            found = compute(lambda v: graph.Reduce(ReduceKind.SUM, (1,), v), (dtype, x))
            assert np.signbit(found).tolist() == [sign] * 3


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_sums_of_short_floats_are_rounded_once(dtype: DType) -> None:
    big = 2048 if dtype is f16 else 256
    x = np.array([big, 1, 1, 1, 1, 1, 1, 2], scalar.storage(dtype))
    total = compute(lambda v: graph.Reduce(ReduceKind.SUM, (0,), v), (dtype, x))
    assert total == big + 8
    running = compute(lambda v: graph.Scan(ScanKind.SUM, 0, v), (dtype, x))
    same(running, scalar.round_to(dtype, np.cumsum(x.astype(np.float64))))
    places = np.zeros(7, np.int32)
    added = compute(
        lambda v, u, i: graph.Scatter(ScatterKind.ADD, (0,), v, u, [i]),
        (dtype, x[:1]),
        (dtype, x[1:]),
        (i32, places),
    )
    assert added == [big + 8]


def test_extrema_drop_nan_or_keep_it() -> None:
    x = np.array([[1, np.nan, 3], [-0.0, 0.0, -0.0]], np.float32)
    for kind, expected in (
        (ReduceKind.MAXNUM, ["3.0", "0.0"]),
        (ReduceKind.MAXIMUM, ["nan", "0.0"]),
        (ReduceKind.MINNUM, ["1.0", "-0.0"]),
        (ReduceKind.MINIMUM, ["nan", "-0.0"]),
        (ReduceKind.ARGMAX, ["1", "0"]),
        (ReduceKind.ARGMIN, ["1", "0"]),
    ):
        found = compute(lambda v, kind=kind: graph.Reduce(kind, (1,), v), (f32, x))
        assert list(map(str, found.tolist())) == expected


@numbers
def test_matmul(dtype: DType) -> None:
    for rng in rounds():
        batch, (rows, depth, columns) = some_shape(rng, most=3), rng.integers(0, 6, 3).tolist()
        a, b = draw(rng, dtype, (*batch, rows, depth)), draw(rng, dtype, (*batch, depth, columns))
        found = compute(graph.Matmul, (dtype, a), (dtype, b))
        exact = np.einsum("...ij,...jk->...ik", a.astype(np.int64), b.astype(np.int64))
        same(found, in_dtype(graph.accumulated(dtype), exact))


def test_a_product_wraps_integers() -> None:
    a = np.full((1, 4), 2**30, np.int32)
    b = np.array([[3], [5], [7], [2]], np.int32)
    found = compute(graph.Matmul, (i32, a), (i32, b))
    assert found.item() == (17 * 2**30 + 2**31) % 2**32 - 2**31
    found = compute(graph.Matmul, (i64, a.astype(np.int64) << 32), (i64, b.astype(np.int64)))
    assert found.item() == (17 * 2**62 + 2**63) % 2**64 - 2**63
    short = np.full((1, 3), 100, np.int8)
    assert compute(graph.Matmul, (DTYPES["i8"], short), (DTYPES["i8"], short.T)).item() == 30000


def convolution(
    x: Array, w: Array, strides: list[int], padding: list[int], dilation: list[int], groups: int
) -> Array:
    """One product after the other."""
    x, w = x.astype(np.int64), w.astype(np.int64)
    x = np.pad(x, ((0, 0), (0, 0), tuple(padding[:2]), tuple(padding[2:])))
    sizes = []
    for axis in (0, 1):
        reach = dilation[axis] * (w.shape[2 + axis] - 1) + 1
        sizes.append(max(0, (x.shape[2 + axis] - reach) // strides[axis] + 1))
    made = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    for index in np.ndindex(made.shape):
        image, filter_, down, across = index
        group = filter_ // (w.shape[0] // groups)
        for channel, i, j in np.ndindex(w.shape[1:]):
            made[index] += (
                w[filter_, channel, i, j]
                * x[
                    image,
                    group * w.shape[1] + channel,
                    down * strides[0] + i * dilation[0],
                    across * strides[1] + j * dilation[1],
                ]
            )
    return made


@numbers
def test_conv2d(dtype: DType) -> None:
    for rng in rounds():
        groups = int(rng.integers(1, 4))
        channels, made, images, height, width, down, across = rng.choice(
            [1, 2, 3, 0], 7, p=[0.35, 0.35, 0.25, 0.05]
        ).tolist()
        strides, dilation = rng.integers(1, 3, 2).tolist(), rng.integers(1, 3, 2).tolist()
        padding = rng.integers(0, 3, 4).tolist()
        x = draw(rng, dtype, (images, channels * groups, 2 * height, 2 * width))
        w = draw(rng, dtype, (made * groups, channels, down, across))
        found = compute(
            lambda a, b, s=strides, p=padding, d=dilation, g=groups: graph.Conv2d(
                tuple(s), tuple(p), tuple(d), g, a, b
            ),
            (dtype, x),
            (dtype, w),
        )
        exact = convolution(x, w, strides, padding, dilation, groups)
        same(found, in_dtype(graph.accumulated(dtype), exact))


# Computed places.


def looked_up(rng: np.random.Generator, least: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape, and some of its axes."""
    shape = some_shape(rng, least=least, most=4)
    count = int(rng.integers(1, len(shape) + 1))
    return shape, tuple(sorted(int(i) for i in rng.permutation(len(shape))[:count]))


@every
def test_gather(dtype: DType) -> None:
    for rng in rounds():
        shape, axes = looked_up(rng)
        to = some_shape(rng, most=2)
        if any(shape[a] == 0 for a in axes):
            to = (0, *to)
        places = DTYPES[str(rng.choice(["i32", "i64"]))]
        indices = [
            rng.integers(0, max(1, shape[a]), to).astype(scalar.storage(places)) for a in axes
        ]
        x = draw(rng, dtype, shape)
        found = compute(
            lambda v, *i, axes=axes: graph.Gather(axes, v, list(i)),
            (dtype, x),
            *[(places, i) for i in indices],
        )
        rest = [n for a, n in enumerate(shape) if a not in axes]
        expected = np.zeros((*to, *rest), x.dtype)
        for at in np.ndindex(to):
            place: list[Any] = [slice(None)] * len(shape)
            for a, i in zip(axes, indices, strict=True):
                place[a] = i[at]
            expected[at] = x[tuple(place)]
        same(found, expected)


@every
@pytest.mark.parametrize("kind", ScatterKind, ids=lambda kind: kind.value)
def test_scatter(dtype: DType, kind: ScatterKind) -> None:
    if dtype is bool_ and kind is ScatterKind.ADD:
        return
    for rng in rounds():
        shape, axes = looked_up(rng)
        places = prod(shape[a] for a in axes)
        many = int(rng.integers(0, 7))
        if kind is ScatterKind.SET:
            many = min(many, places)
        chosen = rng.permutation(places)[:many]
        if kind is ScatterKind.ADD:
            chosen = rng.integers(0, max(1, places), many if places else 0)
        to = (*chosen.shape, 1) if rng.integers(2) else chosen.shape
        indices = [
            i.astype(np.int32).reshape(to)
            for i in np.unravel_index(chosen, [shape[a] for a in axes])
        ]
        rest = [n for a, n in enumerate(shape) if a not in axes]
        x, updates = draw(rng, dtype, shape), draw(rng, dtype, (*to, *rest))
        found = compute(
            lambda v, u, *i, axes=axes: graph.Scatter(kind, axes, v, u, list(i)),
            (dtype, x),
            (dtype, updates),
            *[(i32, i) for i in indices],
        )
        expected = x.astype(object if kind is ScatterKind.ADD else x.dtype)
        for at in np.ndindex(to):
            place: list[Any] = [slice(None)] * len(shape)
            for a, i in zip(axes, indices, strict=True):
                place[a] = i[at]
            if kind is ScatterKind.SET:
                expected[tuple(place)] = updates[at]
            else:
                expected[tuple(place)] += updates[at].astype(np.int64).astype(object)
        wanted = expected if kind is ScatterKind.SET else in_dtype(dtype, expected.astype(np.int64))
        same(found, wanted)


def test_what_is_not_added_to_keeps_its_sign() -> None:
    x = np.array([-0.0, -0.0], np.float32)
    found = compute(
        lambda v, u, i: graph.Scatter(ScatterKind.ADD, (0,), v, u, [i]),
        (f32, x),
        (f32, np.zeros(1, np.float32)),
        (i32, np.array([1], np.int32)),
    )
    assert np.signbit(found).tolist() == [True, False]


# Reports.


def fails(
    arguments: str, op: str, type_: str, values: list[Any], path: Path, line: str
) -> ProgramError:
    """The error of an op that comes from a line of a file."""
    path.write_text(f"def step(x):\n    {line}\n")
    text = f'%y: {type_} = {op} at "{path}":2'
    f = function(f"func graph @f({arguments}) {{\n  {text}\n  return\n}}")
    with pytest.raises(ProgramError) as caught:
        run(f, values)
    assert caught.value.locations == ((str(path), 2),)
    assert line in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("op", "index"),
    [
        ("graph.gather [1] %x, %i", [0, 2, 1]),
        ("graph.gather [1] %x, %i", [0, 1, -1]),
        ("graph.scatter add [1] %x, %u, %i", [0, 0, 9]),
        ("graph.scatter set [1] %x, %u, %i", [1, 5, 0]),
    ],
)
def test_places_outside(op: str, index: list[int], tmp_path: Path) -> None:
    error = fails(
        "%x: tensor<4x2xf32>, %u: tensor<3x4xf32>, %i: tensor<3xi32>",
        op,
        "tensor<3x4xf32>" if "gather" in op else "tensor<4x2xf32>",
        [np.zeros((4, 2), "f4"), np.zeros((3, 4), "f4"), np.array(index, "i4")],
        tmp_path / "user.py",
        "return np.take(x, i, axis=1)",
    )
    bad = next(i for i in index if not 0 <= i < 2)
    assert error.message == f"index {bad} is outside axis 1 of x, which has 2"
    assert (error.array, error.index) == ("x", bad)


def test_a_place_replaced_twice_is_a_race(tmp_path: Path) -> None:
    arguments = "%x: tensor<4x3xf32>, %u: tensor<3x4xf32>, %i: tensor<3xi32>"
    values = [np.zeros((4, 3), "f4"), np.ones((3, 4), "f4"), np.array([2, 0, 2], "i4")]
    op, type_, file = "graph.scatter set [1] %x, %u, %i", "tensor<4x3xf32>", tmp_path / "user.py"
    error = fails(arguments, op, type_, values, file, "x.at[:, i].set(u)")
    assert error.message == "race: 2 updates replace what is at 2 along axes [1] of x"
    # Where there are no elements, none is replaced.
    empty = "%x: tensor<0x3xf32>, %u: tensor<3x0xf32>, %i: tensor<3xi32>"
    f = function(
        f"func graph @f returns=[tensor<0x3xf32>]({empty}) {{\n"
        "  %y: tensor<0x3xf32> = graph.scatter set [1] %x, %u, %i\n  return %y\n}"
    )
    (found,) = run(f, [np.zeros((0, 3), "f4"), np.ones((3, 0), "f4"), values[2]])
    assert found.shape == (0, 3)


@pytest.mark.parametrize(
    ("op", "dtype", "message"),
    [
        ("floordiv", "i32", "integer division by zero"),
        ("mod", "u8", "integer division by zero"),
        ("shl", "i32", "shift by an amount outside 0 to 31"),
        ("cast", "f32", "a float outside the range of i32"),
    ],
)
def test_program_errors(op: str, dtype: str, message: str, tmp_path: Path) -> None:
    rhs = {"shl": 32, "cast": 1e30}.get(op, 0)
    x = np.ones((2, 3), scalar.storage(DTYPES[dtype]))
    y = x.copy()
    y[1, 2] = rhs
    for shape, place in (("2x3x", ", at [1, 2]"), ("", "")):
        type_ = f"tensor<{shape}{dtype}>"
        error = fails(
            f"%x: {type_}, %z: {type_}",
            f"{op} %z" if op == "cast" else f"{op} %x, %z",
            f"tensor<{shape}i32>" if op == "cast" else type_,
            [x, y] if shape else [x[1, 2], y[1, 2]],
            tmp_path / "user.py",
            "return x // y",
        )
        assert error.message == message + place
