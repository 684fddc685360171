"""Error bounds of each op alone: whatever operands lie within their errors, the result lies within
its own, in whatever order sums and products are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iris.interp import graph as interp
from iris.ir import parse
from iris.ir.control import Func
from iris.ir.math import element_type
from iris.ir.scalar import round_to, storage, to_bits
from iris.ir.types import DType, bf16
from iris.testing.bounds.interval import TINY, distance, union
from iris.testing.levels import compare
from iris.testing.numpy_graphs import BoundedGraph
from iris.testing.one_op import OneOp, every_op
from support import counts

Array = np.ndarray[Any, Any]
Chance = np.random.Generator
# Gives the operands in another order that makes as correct a result.
Reorder = Callable[[Chance, list[Array]], list[Array]]

ROWS = 200
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan)
DTYPES = ("f32", "f16", "bf16", "i8", "bool")


def numbers(chance: Chance, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Numbers of a dtype, as values: ordinary, great and small ones, and special ones."""
    if not dtype.is_float:
        return np.asarray(chance.integers(-128, 128, shape) >> chance.integers(0, 8, shape)).astype(
            storage(dtype)
        )
    most = np.log2(float(np.finfo(np.float16).max if dtype.name == "f16" else 2.0**127))
    reach = chance.choice([1.0, 1.0, most], shape)
    ordinary = chance.choice([-1, 1], shape) * 2.0 ** (chance.uniform(-1, 1, shape) * reach)
    is_special = chance.random(shape) < 0.3
    return round_to(dtype, np.where(is_special, chance.choice(SPECIAL, shape), ordinary))


def doubts(chance: Chance, dtype: DType, x: Array) -> Array:
    """Errors of such numbers: none, only the sign of a zero, small and great ones, no bound."""
    lost = np.where(chance.random(x.shape) < 0.2, np.inf, 0.0)
    if not dtype.is_float:
        return lost
    wide = x.astype(np.float64)
    sign = np.where(wide == 0, TINY, 0.0)
    size = np.abs(wide) * chance.choice([2.0**-10, 0.5, 1, 2], x.shape)
    errors = np.choose(chance.integers(0, 5, x.shape), [0 * size, 0 * size, sign, size, lost])
    return np.where(np.isfinite(wide), errors, lost)


def within(chance: Chance, dtype: DType, x: Array, error: Array) -> Array:
    """Other values that lie within the errors."""
    anything = numbers(chance, dtype, x.shape)
    if not dtype.is_float:
        return np.where(error > 0, anything, x)
    wide = x.astype(np.float64)
    share = chance.choice([-1, 1, 0, *chance.uniform(-1, 1, 3)], x.shape)
    moved = round_to(dtype, wide + np.where(error < np.inf, share * error, 0.0))
    is_near = (error > 0) & (np.abs(moved.astype(np.float64) - wide) <= error)
    moved = np.where(is_near, moved, x)
    either = np.copysign(moved, chance.choice([-1, 1], x.shape))
    moved = np.where((moved == 0) & (error > 0), either, moved)
    return np.where(error == np.inf, anything, moved).astype(x.dtype)


@np.errstate(all="ignore")
def check(
    text: str, seed: int, *, indices: tuple[Array, ...] = (), reorder: Reorder | None = None
) -> None:
    """Hold executions for other operands against the bounds of a function of one op.  `indices` are
    its last operands, and stay as they are."""
    chance = np.random.default_rng(seed)
    (function,) = parse(text)
    assert isinstance(function, Func)
    types = [element_type(v.type) for v in function.body.arguments]
    drawn = types[: len(types) - len(indices)]
    dtypes = [t.element for t in types]
    values = [numbers(chance, t.element, t.shape) for t in drawn]
    errors = [doubts(chance, t.element, x) for t, x in zip(drawn, values, strict=True)]
    graphs = BoundedGraph({})
    for parameter, x in zip(function.body.arguments, [*values, *indices], strict=True):
        graphs.values[parameter] = x
    for parameter, error in zip(function.body.arguments, errors, strict=False):
        graphs.errors[parameter] = error[None]
    graphs.run(function.body)
    result = graphs.result(function.body.end.operands[0])
    for _ in range(3):
        others = [
            within(chance, t.element, x, error)
            for t, x, error in zip(drawn, values, errors, strict=True)
        ]
        others += indices
        if reorder is not None:
            others = reorder(chance, others)
        pairs = zip(dtypes, others, strict=True)
        (found,) = interp.run(function, [to_bits(d, x) if d is bf16 else x for d, x in pairs])
        compare("result", result.dtype, result.values, result.errors, np.asarray(found))


def one_op(op: str, operands: list[str], result: str) -> str:
    """A graph of one op, of tensors such as `2x3xf32`."""
    names = [f"%x{i}" for i in range(len(operands))]
    head = ", ".join(f"{n}: tensor<{t}>" for n, t in zip(names, operands, strict=True))
    return (
        f"func graph @one returns=[tensor<{result}>]({head}) {{\n"
        f"  %y: tensor<{result}> = {op} {', '.join(names)}\n  return %y\n}}\n"
    )


# Those that give integers, and are errors of the program for some operands.
_PARTIAL = ("floordiv", "mod", "shl", "shr", "cast")
ELEMENTWISE = [
    one
    for one in every_op()
    if {*one.operands, one.result} <= {*DTYPES} and not (one.op in _PARTIAL and one.result == "i8")
]


@pytest.mark.parametrize("one", ELEMENTWISE, ids=lambda one: one.name)
def test_elementwise(one: OneOp) -> None:
    @settings(max_examples=counts(5, 300))
    @given(st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        operands = [f"{ROWS}x{dtype}" for dtype in one.operands]
        check(one_op(one.op, operands, f"{ROWS}x{one.result}"), seed)

    holds()


def mixed_columns(chance: Chance, operands: list[Array]) -> list[Array]:
    (x,) = operands
    return [x[:, chance.permutation(x.shape[1])]]


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
@pytest.mark.parametrize("kind", ["sum", "prod", "maximum", "minimum", "maxnum", "minnum"])
def test_reductions_and_scans(kind: str, dtype: str, columns: int) -> None:
    whole, reduced = f"{ROWS}x{columns}x{dtype}", f"{ROWS}x{dtype}"

    @settings(max_examples=counts(5, 300))
    @given(st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        check(one_op(f"graph.reduce {kind} [1]", [whole], reduced), seed, reorder=mixed_columns)
        check(one_op(f"graph.scan {kind} 1", [whole], whole), seed)

    holds()


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_places_of_extrema(kind: str, dtype: str, columns: int) -> None:
    @settings(max_examples=counts(5, 300))
    @given(st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        check(
            one_op(f"graph.reduce {kind} [1]", [f"{ROWS}x{columns}x{dtype}"], f"{ROWS}xi32"), seed
        )

    holds()


@pytest.mark.parametrize("kind", ["any", "all"])
def test_reductions_of_bools(kind: str) -> None:
    @settings(max_examples=counts(5, 300))
    @given(st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        check(one_op(f"graph.reduce {kind} [1]", [f"{ROWS}x3xbool"], f"{ROWS}xbool"), seed)

    holds()


def mixed_updates(chance: Chance, operands: list[Array]) -> list[Array]:
    x, updates, at = operands
    order = chance.permutation(len(updates))
    return [x, updates[order], at[order]]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
def test_scattered_sums(dtype: str) -> None:
    tensor = f"{ROWS}x{dtype}"
    text = one_op("graph.scatter add [0]", [tensor, tensor, f"{ROWS}xi32"], tensor)

    @settings(max_examples=counts(5, 300))
    @given(st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        at = np.random.default_rng(seed).integers(0, ROWS, ROWS).astype(np.int32)
        check(text, seed, indices=(at,), reorder=mixed_updates)

    holds()


def mixed_terms(chance: Chance, operands: list[Array]) -> list[Array]:
    a, b = operands
    order = chance.permutation(len(b))
    return [a[:, order], b[order]]


@pytest.mark.parametrize("inner", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
def test_products_of_matrices(dtype: str, inner: int) -> None:
    operands = [f"12x{inner}x{dtype}", f"{inner}x12x{dtype}"]
    result = f"12x12x{'i32' if dtype == 'i8' else 'f32'}"

    @settings(max_examples=counts(10, 1000))
    @given(st.integers(0, 2**32 - 1))
    def holds(seed: int) -> None:
        check(one_op("graph.matmul", operands, result), seed, reorder=mixed_terms)

    holds()


@np.errstate(all="ignore")
def test_bounds_that_are_nan_say_so_of_no_number() -> None:
    results, ends = np.array([1.0, np.nan, np.inf]), np.array([np.nan, np.nan, np.inf])
    assert list(distance(results, (ends, ends))) == [np.inf, 0, 0]
    assert list(distance(results[::-1], (ends, ends))) == [np.inf, 0, np.inf]


def test_a_choice_of_a_number_and_nan_has_no_bound() -> None:
    one, nan = (np.array([x], np.float32) for x in (1.0, np.nan))
    exact = np.zeros(1)
    assert list(union(one, (one, exact), (nan, exact))) == [np.inf]
    assert list(union(nan, (nan, exact), (nan, exact))) == [0]
