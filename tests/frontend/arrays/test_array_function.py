"""Functions of arrays: their arguments, what stays a Python value, and what they return."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError, DTypeError, LanguageError, UserError
from iris.frontend.arrays import (
    ArrayFunction,
    TensorSpec,
    as_traced_constant,
    is_tracing,
    spec_of,
)
from iris.ir.control import Func
from iris.ir.types import bf16, bool_, f16, f32, i32, i64
from tracing_arrays import BF16, compute, numbers, same, trace

X = numbers((2, 3))


def func_of(function: Any, *arguments: Any, **static: Any) -> Func:
    (func,) = trace(function, *arguments, **static).module
    assert isinstance(func, Func)
    return func


def names(func: Func) -> list[str | None]:
    return [v.name for v in func.body.arguments]


def test_arguments_have_the_names_of_their_places() -> None:
    table = np.array([1.0, 5.0, 2.0])

    def model(x: Any, params: Any, *rest: Any, scale: Any, **more: Any) -> Any:
        return x * params["w"] + rest[0] + rest[1] * scale + more["extra"] + params["b"][1] + table

    def call(x: Any, w: Any) -> Any:
        return model(x, {"w": w, "b": [w, w]}, x, x, scale=2.0, extra=x)

    made = ArrayFunction(model)
    bound = made.bind((X, {"w": X, "b": [X, X]}, X, X), {"scale": 2.0, "extra": X})
    (func,) = made.trace(bound).module
    assert isinstance(func, Func)
    assert names(func) == [
        "x",
        "params_w",
        "params_b_0",
        "params_b_1",
        "rest_0",
        "rest_1",
        "scale",
        "extra",
        "table",
    ]
    assert func.symbol == "model"
    same(compute(call, X, X), X * X + X + X * 2 + X + X + table)


def test_values_have_the_names_of_variables() -> None:
    def function(x: Any) -> Any:
        h = np.exp(x - np.max(x, axis=-1, keepdims=True))
        total = h.sum(axis=-1)
        first, second = h[0], h[1]
        same_one = h
        return h / total[:, None], first + second + same_one[0]

    text = str(trace(function, X).module)
    assert "%h: tensor<2x3xf32> = exp" in text
    assert "%total: tensor<2xf32> = graph.reduce sum" in text
    assert text.count("%h:") == 1 and "same_one" not in text


def test_ops_have_the_lines_of_the_user() -> None:
    def function(x: Any) -> Any:
        y = np.linalg.norm(x, axis=0)
        return np.stack([y, y]).mean(axis=0)

    first = function.__code__.co_firstlineno
    for op in func_of(function, X).body:
        assert op.location is not None
        assert op.location.file == __file__
        assert op.location.line in (first, first + 1, first + 2)


def test_numbers_are_inputs_and_weak() -> None:
    def function(x: Any, n: Any, flag: Any, rate: Any, wide: Any) -> Any:
        return x * n, np.where(flag, x, rate), wide

    half = X.astype(np.float16)
    func = func_of(function, half, 3, True, 0.5, 2**40)
    assert [str(v.type) for v in func.body.arguments] == [
        "tensor<2x3xf16>",
        "tensor<i32>",
        "tensor<bool>",
        "tensor<f32>",
        "tensor<i64>",
    ]
    a, b, c = compute(function, half, 3, False, 0.5, 2**40)
    same(a, X * 3, dtype=np.float16)
    same(b, np.full_like(X, 0.5), dtype=np.float16)
    same(c, 2**40, dtype=np.int64)


def test_static_arguments_are_python_values() -> None:
    def function(x: Any, axis: int, keep: bool = False, *, mode: str = "sum") -> Any:
        assert type(axis) is int and type(keep) is bool
        return getattr(np, mode)(x, axis=axis, keepdims=keep)

    same(compute(function, X, axis=1), X.sum(1))
    same(compute(function, X, axis=0, keep=True, mode="max"), X.max(0, keepdims=True))
    by_place = ArrayFunction(function, static_argnums=(1, -2))
    assert by_place.static == {"axis", "keep"}
    assert names(func_of(function, X, axis=1)) == ["x"]


def test_defaults_that_are_not_given_stay_python_values() -> None:
    def function(x: Any, axis: int = -1, eps: float = 0.5) -> Any:
        assert type(axis) is int
        return x.sum(axis=axis) + eps

    same(compute(function, X), X.sum(-1) + 0.5)
    assert names(func_of(function, X)) == ["x"]
    assert names(func_of(lambda x, eps=1.0: x + eps, X, 2.0)) == ["x", "eps"]


def test_what_a_trace_depends_on_compares() -> None:
    made = ArrayFunction(lambda x, n, *, s=None: x, static_argnames="n")

    def structure(*arguments: Any, **named: Any) -> Any:
        return made.bind(arguments, named).structure

    assert structure(X, 1) == structure(X + 1, 1) and hash(structure(X, 1)) == hash(structure(X, 1))
    different = [
        structure(X, 1),
        structure(X, True),
        structure(X, 1.0),
        structure(X, (1, 2)),
        structure(X, (1.0, 2)),
        structure([X], 1),
        structure((X,), 1),
        structure({"a": X}, 1),
        structure({"b": X}, 1),
        structure(X, 1, s=None),
        structure(X, 1, s=X),
    ]
    assert len(set(different)) == len(different)


Pair = namedtuple("Pair", "first second")


def test_trees_of_results() -> None:
    def function(x: Any) -> Any:
        return {"a": [x, (x + 1, None)], "b": Pair(2, np.arange(3)), "c": (), "x": 2.5}

    found = compute(function, X)
    assert list(found) == ["a", "b", "c", "x"]
    assert found["a"][1][1] is None and found["c"] == ()
    assert isinstance(found["b"], Pair)
    same(found["a"][0], X)
    same(found["a"][1][0], X + 1)
    same(found["b"].first, 2, dtype=np.int32)
    same(found["b"].second, np.arange(3), dtype=np.int64)
    same(found["x"], 2.5, dtype=np.float32)
    assert compute(lambda x: None, X) is None
    same(compute(lambda x: x, X), X)


def test_a_result_may_be_a_table() -> None:
    table = np.array([[1.0, 5.0], [2.0, 0.0]])
    same(compute(lambda x: (table, x), X)[0], table, dtype=np.float32)


def test_any_callable_is_a_function() -> None:
    class Model:
        def __call__(self, x: Any) -> Any:
            return x * 2

        def method(self, x: Any) -> Any:
            return x * 3

    def scaled(scale: float, x: Any) -> Any:
        return x * scale

    same(compute(Model(), X), X * 2)
    same(compute(Model().method, X), X * 3)
    same(compute(partial(scaled, 4.0), X), X * 4)
    assert func_of(Model(), X).symbol == "Model"
    assert func_of(lambda x: x, X).symbol == "lambda"


def test_helpers_and_control_flow_on_shapes() -> None:
    def helper(x: Any, depth: int) -> Any:
        return x if depth == 0 else helper(x * 2 + 1, depth - 1)

    def function(x: Any) -> Any:
        if x.shape[0] > 1 and len(x) == 2:
            x = helper(x, x.shape[1])
        while x.ndim:
            x = x.sum(axis=0)
        return x

    same(compute(function, X), function(X.astype(float)))


def test_is_tracing() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append(is_tracing())
        return x

    assert not is_tracing()
    trace(function, X)
    assert seen == [True] and not is_tracing()
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 // 0, X)
    assert not is_tracing()


def test_a_table_becomes_a_traced_array() -> None:
    table = np.array([[1.0, 5.0], [2.0, 0.0], [7.0, 7.0]])
    places = np.array([2, 0, -1], np.int32)
    found = compute(lambda i: as_traced_constant(table)[i], places)
    same(found, table[places], dtype=np.float32)
    same(compute(lambda i: as_traced_constant([1, 2, 4])[i], places), np.array([1, 2, 4])[places])


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (X, TensorSpec((2, 3), f32)),
        (np.zeros((0,), np.int64), TensorSpec((0,), i64)),
        (np.float16(1), TensorSpec((), f16)),
        (np.ones((), BF16), TensorSpec((), bf16)),
        (True, TensorSpec((), bool_, weak=True)),
        (3, TensorSpec((), i32, weak=True)),
        (2**31, TensorSpec((), i64, weak=True)),
        (0.5, TensorSpec((), f32, weak=True)),
        (np.float64(0.5), TensorSpec((), f32, weak=True)),
        (np.int64(3), TensorSpec((), i64)),
        (TensorSpec((4,), f16), TensorSpec((4,), f16)),
    ],
    ids=str,
)
def test_what_is_known_of_an_argument(value: Any, spec: TensorSpec) -> None:
    assert spec_of("x", value) == spec


def test_a_trace_needs_no_arrays() -> None:
    made = ArrayFunction(lambda x, w: x @ w)
    found = made.trace(made.bind((TensorSpec((2, 3), f32), TensorSpec((3, 4), f32)), {}))
    assert "graph.matmul" in str(found.module)
    call = made.bind((X, X.T), {})
    assert str(made.trace(call, [TensorSpec((2, 3), f16), TensorSpec((3, 4), f16)]).module)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (X.astype(float), DTypeError, "x is float64, which Apple GPUs do not have; pass x.astype("),
        (np.array(1.0), DTypeError, "x is float64"),
        (X.astype(complex), DTypeError, "x has the dtype complex128"),
        (X.astype(">f4"), DTypeError, "x has the dtype >f4"),
        (np.array(["a"]), DTypeError, "x has the dtype"),
        ("text", ArgumentError, "x is a str"),
        (object(), ArgumentError, "name another parameter in static_argnames"),
        (2**70, DTypeError, "over 64 bits"),
    ],
    ids=lambda value: type(value).__name__ if type(value) is object else str(value),
)
def test_arguments_that_cannot_be(value: Any, kind: type[UserError], message: str) -> None:
    with pytest.raises(UserError) as caught:
        spec_of("x", value)
    assert type(caught.value) is kind
    assert message in caught.value.message


def test_mistakes_in_calls() -> None:
    made = ArrayFunction(lambda x, n: x, static_argnames=["n"])
    for arguments, named, message in (
        ((), {}, "missing a required argument: 'x'"),
        ((X, 1, 2), {}, "too many positional arguments"),
        ((X,), {"n": 1, "m": 2}, "got an unexpected keyword argument 'm'"),
        ((X, [1]), {}, "n of lambda is static, and must be hashable; a list is not"),
    ):
        with pytest.raises(ArgumentError, match="lambda") as caught:
            made.bind(arguments, named)
        assert message in caught.value.message
        assert caught.value.spot is not None and caught.value.spot.file == __file__
    with pytest.raises(ArgumentError, match="it has no parameter 'm' to be static; it has x"):
        ArrayFunction(lambda x: x, static_argnames="m")
    with pytest.raises(ArgumentError, match="it has no parameter 3 to be static"):
        ArrayFunction(lambda x: x, static_argnums=3)


def test_results_that_cannot_be() -> None:
    def function(x: Any) -> Any:
        return x, "text"

    with pytest.raises(LanguageError, match="function: it returns a str") as caught:
        trace(function, X)
    assert caught.value.spot is not None
    assert caught.value.spot.line == function.__code__.co_firstlineno
