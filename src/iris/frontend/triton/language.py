"""The words of `triton.language` but for those that touch memory, which are in memory.py.

Some are called like builtins of Python, which are therefore not to be used here.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from inspect import unwrap
from math import prod as size_of
from typing import Any

from iris.errors import ArgumentError, DTypeError, LanguageError, PointerError, ShapeError
from iris.frontend import language as iris
from iris.frontend import tracing
from iris.frontend.traced_control import TracedRange, traced_range
from iris.frontend.tracing import Parameters, Result, error_here, rules_as
from iris.frontend.triton.arithmetic import ratio
from iris.frontend.triton.float8 import Float8, Float8Tile, convert, decoded, float8_of, moving
from iris.frontend.triton.types import (
    PropagateNan,
    float16,
    float32,
    int1,
    int32,
    pointer_type,
)
from iris.frontend.values import (
    Address,
    Traced,
    as_dtype,
    as_shape,
    as_traced,
    binary,
    broadcast_shapes,
    describe,
    emit,
    spread,
    truth,
    unary,
    unify,
)
from iris.frontend.values import cast as cast_to
from iris.ir import math, tile
from iris.ir.kinds import ScanKind
from iris.ir.math import AssumeDivisible
from iris.ir.types import DType, Kind, i32

word = partial(tracing.word, library="tl")


def same_word(of_iris: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A word of Iris's language that Triton's has under the same name, with the same parameters."""
    return word(unwrap(of_iris))


# Programs and loops.

program_id, num_programs = same_word(iris.program_id), same_word(iris.num_programs)


@word
def range(*bounds: Any, num_stages: int | None = None, **hints: Any) -> TracedRange:
    """A loop of the program; how to schedule it is for the compiler to choose."""
    return traced_range(*bounds)


@word
def static_range(*bounds: Any, **hints: Any) -> builtins.range:
    """A loop that runs while the kernel is traced, and so is unrolled."""
    for bound in bounds:
        if isinstance(bound, Traced):
            raise error_here(
                LanguageError, f"static_range needs numbers known while tracing, not {bound}"
            )
    return builtins.range(*bounds)


@word
def condition(arg: Any, disable_licm: bool = False) -> Any:
    """The condition of a while loop."""
    return arg


@word
def cdiv(x: Any, div: Any) -> Any:
    """x / div, rounded up: of Python ints, a Python int."""
    return iris.cdiv(x, div)


@word
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """The indices of a matrix in an order that goes down the columns of each group of rows."""
    at, group = i * size_j + j, size_g * size_j
    first = at // group * size_g
    rows = minimum(size_i - first, size_g)
    return first + at % group % rows, at % group // rows


# Making tiles, and their shapes.


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape, given as one tuple or as its sizes."""
    one = len(shape) == 1 and isinstance(shape[0], (tuple, list))
    return as_shape(tuple(shape[0]) if one else shape)


def _axes(x: Traced, dims: tuple[Any, ...]) -> tuple[int, ...]:
    """Axes, given as one tuple or one by one, counted from the first."""
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    return tuple([iris.as_axis(axis, len(x.shape)) for axis in given])


@word
def arange(start: int, end: int) -> Traced:
    """The integers from start up to end, as a tile; both are known while tracing."""
    return iris.arange(start, end)


@word
def full(shape: Any, value: Any, dtype: DType) -> Traced:
    """A tile with one value in every element."""
    return iris.full(tuple(shape) if isinstance(shape, list) else shape, value, dtype)


@word
def zeros(shape: Any, dtype: DType) -> Traced:
    """A tile of zeros."""
    return full(shape, 0, dtype)


@word
def zeros_like(input: Traced) -> Traced:
    """A tile of zeros like another tile."""
    x = as_traced(input)
    return full(x.shape, 0, x.dtype)


@word
@moving
def broadcast_to(input: Any, *shape: Any) -> Traced:
    """A value over a shape."""
    return spread(as_traced(input), _sizes(shape))


@word
def broadcast(input: Any, other: Any) -> tuple[Traced, Traced]:
    """Two values over one shape."""
    a, b = as_traced(input), as_traced(other)
    shape = broadcast_shapes(a.shape, b.shape)
    return spread(a, shape), spread(b, shape)


@word
@moving
def reshape(input: Traced, *shape: Any, can_reorder: bool = False) -> Traced:
    """The same elements, in row-major order, in another shape."""
    return iris.reshape(input, _sizes(shape))


view = reshape


@word
@moving
def ravel(x: Traced, can_reorder: bool = False) -> Traced:
    """The elements in row-major order."""
    return iris.reshape(x, size_of(as_traced(x).shape))


@word
@moving
def expand_dims(input: Traced, axis: Any) -> Traced:
    """New axes of size 1."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    x = as_traced(input)
    rank = len(x.shape) + len(axes)
    new = {iris.as_axis(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise error_here(ShapeError, f"the new axes {axes} are not all different")
    for at in sorted(new):
        with rules_as(ShapeError):
            x = emit(tile.ExpandDims(at, x.value)) if x.shape else spread(x, (1,))
    return x


unsqueeze = expand_dims


@word
@moving
def squeeze(x: Traced, dim: int) -> Traced:
    """Without an axis of size 1."""
    shape = list(as_traced(x).shape)
    if shape.pop(iris.as_axis(dim, len(shape))) != 1:
        raise error_here(ShapeError, f"axis {dim} of {x} is not of size 1")
    return iris.reshape(x, tuple(shape))


@word
@moving
def trans(input: Traced, *dims: Any) -> Traced:
    """The axes in another order; without one, the last two swapped."""
    x = as_traced(input)
    return iris.transpose(x, _axes(x, dims) if dims else None)


@word
@moving
def permute(input: Traced, *dims: Any) -> Traced:
    """The axes in another order."""
    x = as_traced(input)
    return iris.transpose(x, _axes(x, dims))


@word
def cast(
    input: Any,
    dtype: DType | Float8,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> Any:
    """The same numbers in another dtype; the same bits, if asked for."""
    if fp_downcast_rounding not in (None, "rtne"):
        raise error_here(ArgumentError, f"casts round to nearest, not {fp_downcast_rounding!r}")
    if isinstance(input, Address) or isinstance(dtype, pointer_type):
        return _as_pointer(input, dtype)
    if isinstance(dtype, Float8) or isinstance(input, Float8Tile):
        return convert(input, dtype, bitcast)
    to = as_dtype(dtype)
    x = as_traced(input)
    return iris.bitcast(x, to) if bitcast and x.dtype is not to else cast_to(x, to)


def _as_pointer(x: Any, dtype: Any) -> Address:
    """A pointer as one of its own type; nothing else can be."""
    if not isinstance(x, Address):
        raise error_here(
            PointerError,
            f"{describe(x)} cannot become a pointer, as no GPU of Apple's follows a table of them; "
            "pass the arrays as a tuple and choose by if, or one array and offsets into it",
        )
    if not isinstance(dtype, pointer_type) or dtype.element_ty not in (x.element, float8_of(x)):
        raise error_here(
            PointerError, f"a pointer has the dtype of its array: {x!r} cannot become {dtype!r}"
        )
    return x


def as_mask(mask: Any) -> Traced | None:
    """A mask of bools; Triton takes integers, too."""
    if mask is None or mask is True:
        return None
    return truth(mask)


# Math.


@word
def where(condition: Any, x: Any, y: Any) -> Traced:
    """Element by element, one or the other."""
    return iris.where(condition, x, y)


def _extremum(
    kinds: tuple[type[math.Binary], type[math.Binary]], x: Any, y: Any, propagate_nan: PropagateNan
) -> Traced:
    lhs, rhs = unify(x, y)
    drops_nan = lhs.dtype.is_float and propagate_nan is PropagateNan.NONE
    return binary(kinds[not drops_nan], lhs, rhs)


@word
def maximum(x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> Traced:
    """The greater; of a number and a nan the number, unless nans are to propagate."""
    return _extremum((math.MaxNum, math.Maximum), x, y, propagate_nan)


@word
def minimum(x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> Traced:
    """The lesser; of a number and a nan the number, unless nans are to propagate."""
    return _extremum((math.MinNum, math.Minimum), x, y, propagate_nan)


@word
def clamp(x: Any, min: Any, max: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> Traced:
    """The value, or the bound that it is beyond."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


@word
def fma(x: Any, y: Any, z: Any) -> Traced:
    """x * y + z, rounded once."""
    return iris.fma(x, y, z)


@word
def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> Traced:
    """x / y."""
    return ratio(x, y)


@word
def div_rn(x: Any, y: Any) -> Traced:
    """x / y, rounded to nearest."""
    return ratio(x, y)


@word
def add(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """x + y."""
    return x + y


@word
def sub(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """x - y."""
    return x - y


@word
def mul(x: Any, y: Any, sanitize_overflow: bool = True) -> Any:
    """x * y."""
    return x * y


def _unary(kind: type[math.Unary], name: str) -> Callable[[Any], Traced]:
    def function(x: Any) -> Traced:
        return unary(kind, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = kind.__doc__
    return word(function)


exp = _unary(math.Exp, "exp")
exp2 = _unary(math.Exp2, "exp2")
log = _unary(math.Log, "log")
log2 = _unary(math.Log2, "log2")
sqrt = _unary(math.Sqrt, "sqrt")
sqrt_rn = _unary(math.Sqrt, "sqrt_rn")
rsqrt = _unary(math.Rsqrt, "rsqrt")
sin = _unary(math.Sin, "sin")
cos = _unary(math.Cos, "cos")
erf = _unary(math.Erf, "erf")
sigmoid = _unary(math.Sigmoid, "sigmoid")
abs = _unary(math.Abs, "abs")
floor = _unary(math.Floor, "floor")
ceil = _unary(math.Ceil, "ceil")


@word
def softmax(
    x: Traced, dim: int | None = None, keep_dims: Any = None, ieee_rounding: bool = False
) -> Traced:
    """The softmax along an axis, the first if none is given."""
    axis = 0 if dim is None else dim
    powers = exp(binary(math.Sub, x, max(x, axis, keep_dims=True)))
    return ratio(powers, sum(powers, axis, keep_dims=True))


@word
def dot(
    input: Traced,
    other: Traced,
    acc: Any = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: DType | None = None,
) -> Traced:
    """The matrix product, plus `acc`; f32 is multiplied as f32, whatever precision would do."""
    a, b = (_widened(x) for x in (input, other))
    if a.dtype is not b.dtype:
        raise error_here(DTypeError, f"dot multiplies tiles of one dtype, not {a} and {b}")
    product = iris.dot(a, b, acc)
    return product if out_dtype is None else cast_to(product, as_dtype(out_dtype))


def _widened(x: Any) -> Traced:
    """An operand of a product: float8 in f16, which holds all its numbers."""
    return cast_to(decoded(x), float16) if isinstance(x, Float8Tile) else as_traced(x)


# Reductions and scans.


@word
def sum(
    input: Traced, axis: int | None = None, keep_dims: bool = False, dtype: DType | None = None
) -> Traced:
    """The sum along an axis, or of all elements; of bools and small integers, in 32 bits."""
    x = as_traced(input)
    if dtype is None and x.dtype is int1:
        x = cast_to(x, as_dtype("u32"))
    return iris.sum(x, axis, keep_dims, dtype)


def widened(x: Traced) -> Traced:
    """What maxima and minima are taken of: of 32 bits at least."""
    return cast_to(x, float32 if x.dtype.is_float else int32) if x.dtype.bits < 32 else x


def _greatest(of_least: bool) -> Callable[..., Any]:
    take, place = (iris.min, iris.argmin) if of_least else (iris.max, iris.argmax)
    of_two = minimum if of_least else maximum

    def function(
        input: Traced,
        axis: int | None = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Any:
        if isinstance(axis, Traced):  # two values, and no axis
            return of_two(input, axis)
        x = as_traced(input)
        if return_indices:
            best = cast_to(take(x, axis, keep_dims), x.dtype)
            return best, place(x, axis, keep_dims)
        return take(widened(x), axis, keep_dims)

    name = "min" if of_least else "max"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = take.__doc__
    return word(function)


max = _greatest(of_least=False)
min = _greatest(of_least=True)


@word
def argmax(
    input: Traced, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False
) -> Traced:
    """The index of the greatest, the first of several."""
    return iris.argmax(input, axis, keep_dims)


@word
def argmin(
    input: Traced, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False
) -> Traced:
    """The index of the least, the first of several."""
    return iris.argmin(input, axis, keep_dims)


def _scan(kind: ScanKind, input: Any, axis: int, reverse: bool, dtype: DType | None) -> Traced:
    x = as_traced(input)
    if dtype is None and not x.dtype.is_float and x.dtype.bits < 32:
        dtype = as_dtype("i32" if x.dtype.kind is Kind.SIGNED else "u32")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype))
    at = iris.as_axis(axis, len(x.shape))
    if reverse:
        x = iris.flip(x, at)
    scanned = emit(tile.Scan(kind, at, x.value))
    return iris.flip(scanned, at) if reverse else scanned


@word
def cumsum(
    input: Traced, axis: int = 0, reverse: bool = False, dtype: DType | None = None
) -> Traced:
    """The sums of the elements up to and with each one, along an axis."""
    return _scan(ScanKind.SUM, input, axis, reverse, dtype)


@word
def cumprod(
    input: Traced, axis: int = 0, reverse: bool = False, dtype: DType | None = None
) -> Traced:
    """The products of the elements up to and with each one, along an axis."""
    return _scan(ScanKind.PROD, input, axis, reverse, dtype)


# Hints, checks and prints.


@word
def multiple_of(input: Traced, values: Any) -> Traced:
    """A promise that a number divides a scalar; of a tile it says nothing that Iris cannot see."""
    known = values[0] if isinstance(values, (tuple, list)) and len(values) == 1 else values
    scalar = isinstance(input, Traced) and not input.shape and input.dtype.is_integer
    if scalar and isinstance(known, int) and 2 <= known <= i32.high:
        return emit(AssumeDivisible(int(known), input.value))
    return input


@word
def max_contiguous(input: Any, values: Any) -> Any:
    """A hint: Iris computes what it says."""
    return input


max_constancy = max_contiguous


@word
def assume(cond: Any) -> None:
    """A hint: Iris does not need it."""


@word
def debug_barrier() -> None:
    """Nothing: the accesses of a program take effect in order."""


@word
def static_assert(cond: Any, msg: str = "") -> None:
    """Check something that is known while tracing."""
    iris.static_assert(cond, msg)


@word
def device_assert(cond: Any, msg: str = "", mask: Any = None) -> None:
    """Report a program error where a condition does not hold."""
    checked = truth(cond)
    if mask is not None:
        checked = binary(math.Or, checked, ~as_traced(mask))
    iris.device_assert(checked, msg or "assertion failed")


@word
def static_print(*values: Any, sep: str = " ", end: str = "\n", **options: Any) -> None:
    """Print something while tracing."""
    print(*values, sep=sep, end=end)


@word
def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Report values of each program."""
    iris.device_print(prefix, *args)


@word
def to_tensor(x: Any) -> Traced:
    """A value as a scalar of the program."""
    return as_traced(x)
