"""NumPy's functions that create arrays, and those that ask for the shape or dtype of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.errors import ArgumentError, ShapeError, UserError
from iris.frontend.arrays.array_elementwise import binary, select, unary
from iris.frontend.arrays.array_values import (
    cast,
    common_dtype,
    operand,
    over_shape,
    spread,
    traced,
    unify_floats,
)
from iris.frontend.arrays.dtypes import as_dtype, numpy_dtype
from iris.frontend.arrays.joining import stack
from iris.frontend.arrays.protocol import find, implements
from iris.frontend.arrays.shapes import (
    as_axis,
    as_int,
    as_shape,
    flat,
    iota,
    move_axes,
    with_axes,
)
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_from, error_here
from iris.frontend.values import broadcast_shapes
from iris.ir import math

# Like another array.


def _filled(a: Any, number: Any, dtype: Any, shape: Any) -> TracedArray:
    like = traced(a)
    element = like.element if dtype is None else as_dtype(dtype)
    sizes = like.shape if shape is None else as_shape(shape)
    made = spread(operand(number), element, sizes)
    return TracedArray(made.value, made.owner)


@implements("zeros_like", "empty_like")
def zeros_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None
) -> TracedArray:
    """An empty one is of zeros, too: nothing is without a value."""
    return _filled(a, False, dtype, shape)


@implements("ones_like")
def ones_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None
) -> TracedArray:
    return _filled(a, True, dtype, shape)


@implements("full_like")
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
) -> TracedArray:
    return _filled(a, fill_value, dtype, shape)


def _register_like() -> None:
    """`like=` a traced array, what NumPy makes of concrete arguments is a traced array, too."""
    for name in ("arange", "eye", "full", "identity", "ones", "tri", "zeros"):
        implements(name)(_like(find(name)))
    implements("empty")(_like(np.zeros))


def _like(make: Any) -> Any:
    def like(*arguments: Any, **named: Any) -> TracedArray:
        try:
            return traced(make(*arguments, **named))
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            raise error_from(ArgumentError, error, f"np.{make.__name__}: {error}") from error

    return like


_register_like()


@implements("array")
def array(a: Any, dtype: Any = None, *, copy: Any = True) -> TracedArray:
    """Made `like=` a traced array, with memory of its own."""
    return asarray(a, dtype, copy=copy)


@implements("asarray", "asanyarray", "ascontiguousarray")
def asarray(a: Any, dtype: Any = None, *, copy: Any = None) -> TracedArray:
    """Made `like=` a traced array: of nested lists, too, that have traced arrays in them."""
    made = _nested(a)
    made = made if dtype is None else cast(made, as_dtype(dtype))
    return made.copied() if copy else made


def _nested(x: Any) -> TracedArray:
    if isinstance(x, (tuple, list)) and x:
        return stack([_nested(part) for part in x])
    return traced(x)


@implements("copy")
def copy(a: Any, order: Any = "K", subok: bool = False) -> TracedArray:
    return traced(a).copied()


@implements("astype")
def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> TracedArray:
    return traced(x).astype(dtype, copy=copy)


@implements("real")
def real(val: Any) -> TracedArray:
    return traced(val)


@implements("imag")
def imag(val: Any) -> TracedArray:
    return _filled(val, False, None, None)


# Evenly spaced.


@implements("linspace")
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
) -> Any:
    """From one end to the other; the last is `stop` itself."""
    first, last = unify_floats(start, stop)
    count = as_int(num, "num")
    if count < 0:
        raise error_here(ShapeError, f"{count} is no number of elements")
    gaps = count - 1 if endpoint else count
    step = binary(math.Div, binary(math.Sub, last, first), float(gaps or 1))
    shape = (count, *first.shape)
    places = iota(shape, 0, first.element)
    made = binary(math.Add, binary(math.Mul, places, step), first)
    if endpoint and count > 1:
        made = select(np.arange(count).reshape(-1, *(1,) * first.ndim) == gaps, last, made)
    if dtype is not None:
        wanted = as_dtype(dtype)
        made = cast(unary(math.Floor, made) if wanted.is_integer else made, wanted)
    made = move_axes(made, [0], [as_axis(axis, made.ndim)])
    if not retstep:
        return made
    return made, step if gaps > 0 else spread(float("nan"), first.element, ())  # as NumPy's


@implements("meshgrid")
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[TracedArray, ...]:
    if indexing not in ("xy", "ij"):
        raise error_here(ArgumentError, f"np.meshgrid indexes by 'xy' or 'ij', not {indexing!r}")
    lines = [flat(traced(x)) for x in xi]
    rank = len(lines)
    axes = list(range(rank))
    if indexing == "xy" and rank > 1:
        axes[:2] = [1, 0]
    grids = [
        with_axes(x, [i for i in range(rank) if i != axis])
        for x, axis in zip(lines, axes, strict=True)
    ]
    shape = broadcast_shapes((), *[grid.shape for grid in grids])
    made = grids if sparse else [over_shape(grid, shape) for grid in grids]
    return tuple([grid.copied() for grid in made] if copy else made)


# What is known of an array.


@implements("shape")
def shape(a: Any) -> tuple[int, ...]:
    return traced(a).shape


@implements("ndim")
def ndim(a: Any) -> int:
    return traced(a).ndim


@implements("size")
def size(a: Any, axis: Any = None) -> int:
    x = traced(a)
    return x.size if axis is None else x.shape[as_axis(axis, x.ndim)]


@implements("iscomplexobj")
def iscomplexobj(x: Any) -> bool:
    return False


@implements("isrealobj")
def isrealobj(x: Any) -> bool:
    return True


@implements("result_type")
def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype in which arrays meet."""
    given = [
        np.zeros((1,), x) if isinstance(x, (np.dtype, type)) else operand(x)
        for x in arrays_and_dtypes
    ]
    return numpy_dtype(common_dtype(given))
