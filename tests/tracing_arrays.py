"""Functions of arrays, traced, run by the interpreter of Graph IR, and held against NumPy in 64
bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import numpy.typing as npt

import iris
from iris.frontend.arrays import ArrayFunction, TracedFunction, spec_of
from iris.frontend.arrays.dtypes import numpy_dtype
from iris.interp import graph
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.types import bf16
from iris.runtime.devices import devices
from on_metal import METAL
from support import counts

Array = npt.NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)


def trace(function: Callable[..., Any], *arguments: Any, **static: Any) -> TracedFunction:
    """The graph of a function for some arguments: valid, and one that its text gives again."""
    traced = ArrayFunction(function, tuple(static))
    found = traced.trace(traced.bind(arguments, static))
    verify(found.module)
    assert parse(str(found.module)) == found.module
    return found


def compute(function: Callable[..., Any], *arguments: Any, **static: Any) -> Any:
    """What the graph of a function gives for some arguments."""
    found = trace(function, *arguments, **static)
    made = ArrayFunction(function, tuple(static))
    leaves = made.bind(arguments, static).leaves
    given = [_stored(spec_of(*leaf).dtype, leaf.value) for leaf in leaves]
    (func,) = found.module
    assert isinstance(func, Func)
    captured = [x.view(np.uint16) if x.dtype == BF16 else x for x in found.captured]
    results = graph.run(func, [*given, *captured])
    dtypes = [t.element for t in func.returns]  # type: ignore[attr-defined]
    both = zip(results, dtypes, strict=True)
    return found.results.unflatten([x.view(BF16) if t is bf16 else x for x, t in both])


def _stored(dtype: Any, value: Any) -> Array:
    array = np.asarray(value, numpy_dtype(dtype))
    return array.view(np.uint16) if dtype is bf16 else array


def widened(x: Any) -> Any:
    """An array in 64 bits."""
    if not isinstance(x, np.ndarray) or x.dtype == np.bool_ or x.dtype == np.uint64:
        return x
    return x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)


def agrees(
    function: Callable[..., Any],
    *arguments: Any,
    ulps: float = 0,
    dtype: Any = None,
    near: float | None = None,
    oracle: Callable[..., Any] | None = None,
    on_metal: float = 0,
) -> None:
    """A function gives what NumPy does in 64 bits, cast to the dtype of the result, which is told
    where it matters: as a graph, and maybe as kernels.

    Floats may be off by some units in the last place, `on_metal` by those of its functions, or by
    a share of the greatest number there is.
    """
    results = [(compute(function, *arguments), ulps)]
    for device in _devices(function, arguments):
        allowed = max(ulps, on_metal) if device == METAL else ulps
        results.append((iris.jit(function)(*arguments, device=device), allowed))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = (oracle or function)(*map(widened, arguments))
    for number, (found, allowed) in enumerate(results):
        # Only kernels may make 0 of what is subnormal.
        same(found, expected, ulps=allowed, dtype=dtype, near=near, flushes=number > 0)


@cache
def _has_metal() -> bool:
    return METAL in [device.name for device in devices() if device.missing is None]


def _devices(function: Callable[..., Any], arguments: Sequence[Any]) -> list[str]:
    """Where a function runs as kernels: of many one on Metal, if that is there to test, some on the
    interpreters of Tile IR and Metal IR, and in a campaign all on some."""
    what = [getattr(function, "__qualname__", ""), *[str(np.shape(a)) for a in arguments]]
    turn = crc32(" ".join(what).encode()) % counts(40, 3)
    if turn == 0:
        return [METAL] if _has_metal() else []
    if turn < counts(6, 2):
        return ["interp:metal"]
    return ["interp"] if turn < counts(12, 3) else []


def same(
    found: Any,
    expected: Any,
    *,
    ulps: float = 0,
    dtype: Any = None,
    near: float | None = None,
    flushes: bool = False,
) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, ulps=ulps, dtype=dtype, near=near, flushes=flushes)
        return
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    if dtype is not None:
        assert found.dtype == dtype, f"{found.dtype}, not {np.dtype(dtype)}"
    if found.dtype.kind in "biu":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found, expected.astype(found.dtype))
        return
    got, want = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = want.astype(found.dtype)
        allowed = ulps * _unit(rounded)
        if near is not None and want.size:
            allowed = allowed + near * np.nanmax(np.where(np.isfinite(want), abs(want), 0))
        right = (rounded.astype(np.float64) == got) | (abs(got - want) <= allowed)
    right |= np.isnan(got) & np.isnan(want)
    if flushes:
        right |= (got == 0) & (abs(want) < _LEAST.get(found.dtype.name, 2.0**-126))
    if not right.all():
        at = tuple(np.argwhere(~right)[0].tolist())
        with np.errstate(all="ignore"):
            off = abs(got - want)[at] / _unit(rounded)[at]
        raise AssertionError(
            f"{(~right).sum()} of {right.size} are wrong; at {at}: {got[at]!r}, not {want[at]!r}, "
            f"{off:.3g} ulps"
        )


_LEAST = {"float16": 2.0**-14}  # numbers that are not subnormal


def _unit(x: Array) -> Array:
    """One unit in the last place of floats."""
    if x.dtype == BF16:
        bits = np.abs(x).view(np.uint16)
        return (bits + np.uint16(1)).view(BF16).astype(np.float64) - np.abs(x).astype(np.float64)
    return np.spacing(np.abs(x)).astype(np.float64)


# Things to try.

SHAPES: Sequence[tuple[int, ...]] = (
    (),
    (1,),
    (7,),
    (0,),
    (3, 5),
    (1, 4),
    (4, 0),
    (2, 3, 4),
    (3, 1, 2),
    (2, 1, 3, 2),
    (2, 3, 1, 2, 2),
)
INTEGERS = tuple(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8))
FLOATS = (np.dtype("f4"), np.dtype("f2"), BF16)
DTYPES = (np.dtype("?"), *INTEGERS, *FLOATS)
# The ufuncs that reduce and accumulate.
REDUCING = (
    np.add,
    np.multiply,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.logical_and,
    np.logical_or,
)


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Small whole numbers, of which sums and products are exact."""
    random = np.random.default_rng([seed, *shape])
    low = 0 if np.dtype(dtype).kind in "u?b" else -4
    return random.integers(low, 5 if np.dtype(dtype) != np.bool_ else 2, shape).astype(dtype)


def reals(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Numbers on both sides of 0."""
    random = np.random.default_rng([seed, *shape])
    return random.normal(0, 2, shape).astype(dtype)
