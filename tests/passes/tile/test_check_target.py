"""The interpreter of tile programs takes what a GPU takes, and refuses the rest as a GPU does."""

from __future__ import annotations

import contextlib
import io
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris.errors import IrisError, LanguageError
from iris.ir import parse
from iris.passes import run

DTYPES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
}  # fmt: skip
S = 16

# What a kernel does with tiles of two arrays and a scalar of one.
Body = Callable[[Any, Any, Any, Any], Any]
UNARY = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil",
    "round", "sigmoid", "abs",
)  # fmt: skip
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum")
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift")
ATOMICS = ("add", "max", "min", "and", "or", "xor", "exchange")
BODIES: dict[str, Body] = {
    **{n: lambda x, y, s, X, n=n: getattr(iris, n)(x) for n in UNARY},
    **{n: lambda x, y, s, X, n=n: getattr(iris, n)(x, 1) for n in REDUCTIONS},
    **{n: lambda x, y, s, X, n=n: getattr(operator, n)(x, y) for n in BINARY},
    **{f"{n} of scalars": lambda x, y, s, X, n=n: getattr(operator, n)(s, s) for n in BINARY},
    **{n: lambda x, y, s, X, n=n: getattr(iris, n)(x, y) for n in ("maximum", "minimum", "dot")},
    **{f"to {d}": lambda x, y, s, X, d=d: x.to(d) for d in DTYPES},
    **{f"atomic {n}": lambda x, y, s, X, n=n: getattr(iris, f"atomic_{n}")(X, s) for n in ATOMICS},
    **{
        f"atomic {n} of tiles": lambda x, y, s, X, n=n: getattr(iris, f"atomic_{n}")(
            X + iris.arange(0, S)[:, None], x
        )
        for n in ATOMICS
    },
    "cas": lambda x, y, s, X: iris.atomic_cas(X + iris.arange(0, S)[:, None], x, y),
    "where": lambda x, y, s, X: iris.where(x > y, x, y),
    "fma": lambda x, y, s, X: iris.fma(x, y, x),
    "transpose": lambda x, y, s, X: x.T,
    "negative": lambda x, y, s, X: -x,
    "invert": lambda x, y, s, X: ~x,
    "tile_load": lambda x, y, s, X: iris.tile_load(X, 0, 0, S, (S, S)),
    "print": lambda x, y, s, X: iris.device_print("x", x, s),
    "assert": lambda x, y, s, X: iris.device_assert(x == x, "not a number"),
}


@iris.kernel
def does(X, Y, Out, body: iris.constexpr):
    at = iris.arange(0, S)
    both = at[:, None] * S + at[None, :]
    found = body(iris.load(X + both), iris.load(Y + both), iris.load(Y), X)
    if found is not None:
        iris.store(Out + {0: 0, 1: at, 2: both}[len(found.shape)], found)


def told(act: Callable[[], object]) -> str:
    """The error of an action, if there is one."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            act()
    except IrisError as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", BODIES)
def test_what_interp_takes_a_gpu_takes(name: str) -> None:
    # A dtype of each width and kind.
    for dtype in ("bool", "i8", "u16", "i64", "bf16", "f32"):
        x, y, out = (np.ones((S, S)).astype(DTYPES[dtype]) for _ in range(3))
        body = BODIES[name]
        here = told(lambda: does[1](x, y, out, body=body, device="interp"))  # noqa: B023
        there = told(lambda: does.lower(x, y, out, body=body, grid=1).msl)  # noqa: B023
        assert here == there, dtype


@iris.kernel
def counts_all(X):
    iris.atomic_add(X, 1)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16])
def test_atomics_are_of_32_bits(device: str, dtype: Any) -> None:
    x = np.zeros(1, dtype)
    instead = {np.uint8: "u32", np.float16: "f32"}.get(dtype, "i32")
    message = f"atomics of 32-bit elements, not of .*; use an array of {instead}"
    with pytest.raises(LanguageError, match=message) as caught:
        counts_all[1](x, device=device)
    assert caught.value.spot is not None and caught.value.spot.file == __file__
    assert x[0] == 0


def test_sums_of_scattered_elements_are_too() -> None:
    add = iris.jit(lambda x, at, by: x.at[at].add(by))
    at = np.zeros(3, np.int32)
    assert add(np.zeros(2, np.int32), at, np.ones(3, np.int32), device="interp")[0] == 3
    with pytest.raises(LanguageError, match="not of i64"):
        add(np.zeros(2, np.int64), at, np.ones(3, np.int64), device="interp")


def test_it_counts_and_changes_nothing() -> None:
    module = parse(
        """
        func tile @f(%X: ptr<f32>, %x: f32) {
          %c0: i32 = constant 0
          %old: f32 = tile.atomic_cas %X, %c0, %x, %x
          return
        }
        """
    )
    assert run(module, "check-target") == module
