"""The words of the tile language, but for those that touch memory, which are in memory.py.

Some are called like builtins of Python, which are therefore not to be used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as size_of
from typing import Any

from iris.errors import (
    ArgumentError,
    DTypeError,
    LanguageError,
    ShapeError,
)
from iris.frontend.chosen_pointers import choose
from iris.frontend.traced_control import TracedRange, traced_range
from iris.frontend.tracing import current, error_here, rules_as, word
from iris.frontend.values import (
    Address,
    Operand,
    Traced,
    as_dtype,
    as_message,
    as_shape,
    as_traced,
    binary,
    cast,
    compare,
    constant,
    constant_advice,
    describe,
    emit,
    emit_assert,
    is_number,
    known,
    natural,
    promote,
    python_number,
    select,
    shown,
    spread,
    unary,
    unify,
)
from iris.ir import math, tile
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.math import Predicate
from iris.ir.types import DType, Kind, Tile, bool_, f32, i32, u32, u64


class constexpr:
    """Marks a parameter that is a plain Python value while the kernel is traced.

    def copy(X, Y, BLOCK: iris.constexpr): ...
    """


# Programs and ranges.


@word
def program_id(axis: int) -> Traced:
    """Which program this is, along an axis of the grid."""
    return natural(emit(tile.ProgramId(as_axis(axis, 3))))


@word
def num_programs(axis: int) -> Traced:
    """How many programs there are, along an axis of the grid."""
    return natural(emit(tile.NumPrograms(as_axis(axis, 3))))


@word
def tile_range(*bounds: object) -> TracedRange:
    """The starts of blocks: `for k in iris.tile_range(0, K, BLOCK)`; a loop of the program, even
    where the bounds are constant."""
    return traced_range(*bounds)


@word
def cdiv(a: Any, b: Any) -> Any:
    """a / b, rounded up: of Python ints, a Python int."""
    if not isinstance(a, Traced) and not isinstance(b, Traced):
        return -(-a // b)
    is_inexact = compare(Predicate.NE, binary(math.Mod, a, b), 0)
    return binary(math.Add, binary(math.FloorDiv, a, b), is_inexact)


@word
def next_power_of_2(n: int) -> int:
    """The least power of two that is n or more; n is known while tracing."""
    if isinstance(n, Traced):
        raise error_here(ShapeError, f"next_power_of_2 needs a number known while tracing, not {n}")
    return 1 if n < 2 else 1 << (int(n) - 1).bit_length()


# Making tiles.


@word
def arange(start: int, stop: int) -> Traced:
    """The integers from start up to stop, as a tile; both are known while tracing."""
    for bound in (start, stop):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise error_here(
                ShapeError,
                f"arange needs ints known while tracing, not {describe(bound)}; "
                + constant_advice(bound),
            )
    shape = as_shape(stop - start)
    with rules_as(ShapeError):
        return emit(tile.Arange(start, Tile(shape, i32)))


@word
def full(shape: object, value: Operand, dtype: DType | str = f32) -> Traced:
    """A tile with one value in every element."""
    sizes, element = as_shape(shape), as_dtype(dtype)
    number = python_number(value)
    if is_number(number):
        return constant(number, element, sizes)
    return spread(cast(value, element), sizes)


@word
def zeros(shape: object, dtype: DType | str = f32) -> Traced:
    """A tile of zeros."""
    return full(shape, 0, dtype)


# Shapes.


@word
def reshape(x: Traced, shape: object) -> Traced:
    """The same elements, in row-major order, in another shape."""
    traced, sizes = as_traced(x), as_shape(shape)
    if not traced.shape:
        return spread(traced, sizes)
    if not sizes and size_of(traced.shape) == 1:
        kind = ReduceKind.ANY if traced.dtype is bool_ else ReduceKind.MAXIMUM
        return emit(tile.Reduce(kind, 0, reshape(traced, 1).value))
    with rules_as(ShapeError):
        op = tile.Reshape(traced.value, Tile(sizes, traced.dtype))
        op.check()
        return emit(op)


@word
def broadcast_to(x: Operand, shape: object) -> Traced:
    """A value over a shape, as in NumPy."""
    return spread(as_traced(x), as_shape(shape))


@word
def transpose(x: Traced, axes: Sequence[int] | None = None) -> Traced:
    """The axes in another order; without one, the last two swapped."""
    traced = as_traced(x)
    if axes is None:
        return traced.T
    with rules_as(ShapeError):
        return emit(tile.Transpose(tuple(axes), traced.value))


@word
def flip(x: Traced, axis: int | None = None) -> Traced:
    """The elements in reverse order along an axis; without one, along all."""
    traced = as_traced(x)
    rank = len(traced.shape)
    for at in range(rank) if axis is None else (as_axis(axis, rank),):
        traced = emit(tile.Flip(at, traced.value))
    return traced


@word
def gather(x: Traced, index: Traced, axis: int) -> Traced:
    """Elements by their indices along an axis, as in NumPy's `take_along_axis`."""
    traced, places = as_traced(x), as_traced(index)
    if not places.dtype.is_integer:
        raise error_here(DTypeError, f"an index is an integer, not {places.dtype}")
    at = as_axis(axis, len(traced.shape))
    with rules_as(ShapeError):
        return emit(tile.Gather(at, traced.value, places.value))


@word
def cast_to(x: Operand, dtype: DType | str) -> Traced:
    """The same numbers in another dtype."""
    return cast(as_traced(x), as_dtype(dtype))


# Math.


@word
def dot(a: Traced, b: Traced, acc: Operand | None = None, *, precision: str = "ieee") -> Traced:
    """The matrix product, plus `acc`; in the dtype of `acc`, else f32 (i32 for integers).

    Tiles of more axes are multiplied matrix by matrix.  With `precision="tf32"` operands of f32
    are rounded to the 10 bits after the point that tf32 has.
    """
    if precision not in ("ieee", "tf32"):
        raise error_here(ArgumentError, f'precision is "ieee" or "tf32", not {precision!r}')
    lhs, rhs = as_traced(a), as_traced(b)
    dtype = promote(lhs.dtype, rhs.dtype)
    lhs, rhs = cast(lhs, dtype), cast(rhs, dtype)
    tf32 = precision == "tf32" and dtype is f32
    if tf32:
        lhs, rhs = _to_tf32(lhs), _to_tf32(rhs)
    with rules_as(ShapeError):
        if acc is None:
            return emit(tile.Dot(lhs.value, rhs.value, tf32=tf32))
        if not lhs.shape or not rhs.shape:
            raise error_here(ShapeError, f"dot multiplies two matrices, not {lhs} and {rhs}")
        added = as_traced(acc, f32 if dtype.is_float else i32)
        added = spread(added, (*lhs.shape[:-1], rhs.shape[-1]))
        return emit(tile.Dot(lhs.value, rhs.value, added.value, tf32=tf32))


def _to_tf32(x: Traced) -> Traced:
    """Numbers of f32 rounded to tf32, to even; a nan stays one when its last bits go."""
    bits = bitcast(x, u32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
    return where(compare(Predicate.EQ, x, x), bitcast(rounded, f32), float("nan"))


@word
def where(condition: Operand, on_true: Any, on_false: Any) -> Traced:
    """Element by element, one or the other: numbers, or pointers to arrays of one dtype."""
    pointers = isinstance(on_true, Address) or isinstance(on_false, Address)
    chosen: Traced = (choose if pointers else select)(condition, on_true, on_false)
    return chosen


@word
def maximum(a: Operand, b: Operand) -> Traced:
    """The greater, element by element; of a number and a nan, the number."""
    return _extremum(math.MaxNum, math.Maximum, a, b)


@word
def minimum(a: Operand, b: Operand) -> Traced:
    """The lesser, element by element; of a number and a nan, the number."""
    return _extremum(math.MinNum, math.Minimum, a, b)


def _extremum(
    of_floats: type[math.Binary], of_integers: type[math.Binary], a: object, b: object
) -> Traced:
    lhs, rhs = unify(a, b)
    return binary(of_floats if lhs.dtype.is_float else of_integers, lhs, rhs)


@word
def clamp(x: Operand, low: Operand, high: Operand) -> Traced:
    """The nearest number from low to high, element by element; of nan, low."""
    return minimum(maximum(x, low), high)


@word
def umulhi(a: Operand, b: Operand) -> Traced:
    """The high half of the bits of a product of unsigned integers of 32 or 64 bits."""
    lhs, rhs = unify(a, b)
    dtype = lhs.dtype
    if not dtype.is_integer or dtype.bits < 32:
        raise error_here(DTypeError, f"umulhi is for integers of 32 or 64 bits, not {dtype}")
    unsigned = u32 if dtype.bits == 32 else u64
    x: Any = cast(cast(lhs, unsigned), u64)
    y: Any = cast(cast(rhs, unsigned), u64)
    if unsigned is u32:
        return cast((x * y) >> 32, dtype)
    low = 0xFFFFFFFF
    middle = (x >> 32) * (y & low) + (((x & low) * (y & low)) >> 32)
    other = (x & low) * (y >> 32) + (middle & low)
    return cast((x >> 32) * (y >> 32) + (middle >> 32) + (other >> 32), dtype)


@word
def fma(a: Operand, b: Operand, c: Operand) -> Traced:
    """a * b + c, rounded once."""
    operands = unify(a, b, c)
    if not operands[0].dtype.is_float:
        raise error_here(DTypeError, f"fma is for floats, not {operands[0].dtype}")
    return emit(math.Fma(*[x.value for x in operands]))


@word
def bitcast(x: Traced, dtype: DType | str) -> Traced:
    """The same bits under another dtype of the same width."""
    traced, to = as_traced(x), as_dtype(dtype)
    type_ = math.element_type(traced.value.type).with_element(to)
    with rules_as(DTypeError):
        op = math.Bitcast(traced.value, type_)
        op.check()
        return emit(op)


def _unary(kind: type[math.Unary]) -> Any:
    def function(x: Operand) -> Traced:
        return unary(kind, x)

    function.__name__ = function.__qualname__ = kind.name
    function.__doc__ = kind.__doc__
    return word(function)


exp = _unary(math.Exp)
exp2 = _unary(math.Exp2)
log = _unary(math.Log)
log2 = _unary(math.Log2)
sqrt = _unary(math.Sqrt)
rsqrt = _unary(math.Rsqrt)
sin = _unary(math.Sin)
cos = _unary(math.Cos)
tanh = _unary(math.Tanh)
erf = _unary(math.Erf)
sigmoid = _unary(math.Sigmoid)


@word
def abs(x: Operand) -> Traced:
    """The magnitude."""
    return unary(math.Abs, x)


def _rounding(kind: type[math.Unary]) -> Any:
    def function(x: Operand) -> Traced:
        traced = as_traced(x)
        return unary(kind, traced) if traced.dtype.is_float else traced

    function.__name__ = function.__qualname__ = kind.name
    function.__doc__ = kind.__doc__
    return word(function)


floor = _rounding(math.Floor)
ceil = _rounding(math.Ceil)
round = _rounding(math.Round)


# Reductions and scans.


# What makes one of two values, element by element, of what a reduction makes one of a tile's.
_OF_TWO = {
    "sum": "a + b",
    "prod": "a * b",
    "max": "iris.maximum(a, b)",
    "min": "iris.minimum(a, b)",
    "any": "a | b",
    "all": "a & b",
    "argmax": "iris.where(b > a, 1, 0)",
    "argmin": "iris.where(b < a, 1, 0)",
    "cumsum": "a + b",
}


def _reduce(
    word: str, kind: ReduceKind, x: object, axis: int | None, keepdims: bool, dtype: object = None
) -> Traced:
    traced = as_traced(x)
    truth = kind in (ReduceKind.ANY, ReduceKind.ALL)
    if kind in (ReduceKind.SUM, ReduceKind.PROD):
        traced = cast(traced, _sum_dtype(word, traced.dtype, dtype))
    elif truth and traced.dtype is not bool_:
        traced = compare(Predicate.NE, traced, 0)
    elif not truth and traced.dtype is bool_:
        traced = cast(traced, i32)
    rank = len(traced.shape)
    at = None if axis is None else _reduced_axis(word, axis, traced, x)
    check_keepdims(word, keepdims)
    if not rank:
        places = kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        return known(0, i32, traced) if places else traced
    if at is None and rank > 1:
        traced = reshape(traced, size_of(traced.shape))
    reduced = emit(tile.Reduce(kind, at or 0, traced.value))
    return kept_axis(reduced, at, rank) if keepdims else reduced


def check_keepdims(word: str, keepdims: object) -> None:
    if not isinstance(keepdims, bool):
        raise error_here(
            ArgumentError, f"keepdims of {word} is True or False, not {shown(keepdims)}"
        )


def kept_axis(reduced: Traced, axis: int | None, rank: int) -> Traced:
    """A reduction along an axis, or over all, with axes of size 1 for those that went away."""
    if axis is None or rank == 1:
        return spread(reduced, (1,) * rank)
    return emit(tile.ExpandDims(axis, reduced.value))


def _sum_dtype(word: str, dtype: DType, wanted: object) -> DType:
    """The dtype in which elements are added or multiplied: of integers, at least 32 bits."""
    if wanted is not None:
        chosen = as_dtype(wanted)
        if chosen is bool_:
            raise error_here(DTypeError, f"{word} gives numbers, not bool; there is iris.any")
        return chosen
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return u32 if dtype.kind is Kind.UNSIGNED else i32


def _reduced_axis(word: str, axis: object, x: Traced, given: object) -> int:
    """An axis of a tile, counted from its first; what is none may be meant as a second operand."""
    rank = len(x.shape)
    known = isinstance(axis, int) and not isinstance(axis, bool)
    if known and -rank <= axis < rank:  # type: ignore[operator]
        return axis % rank  # type: ignore[operator]
    if not rank:
        problem = f"{shown(given)} has no axes"
    elif isinstance(axis, (tuple, list)):
        problem = f"{word} goes along one axis or over all elements, not along {axis!r}"
    else:
        problem = f"an axis is an int from {-rank} to {rank - 1}, not {shown(axis)}"
    raise error_here(
        ShapeError,
        f"{problem}; for {word} of two values, element by element, write {_OF_TWO[word]}",
    )


def as_axis(axis: object, rank: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise error_here(ShapeError, f"an axis is an int from {-rank} to {rank - 1}, not {axis!r}")
    return axis % rank


@word
def sum(
    x: Operand, axis: int | None = None, keepdims: bool = False, dtype: DType | str | None = None
) -> Traced:
    """The sum along an axis, or of all elements; of bools and small integers, in 32 bits."""
    return _reduce("sum", ReduceKind.SUM, x, axis, keepdims, dtype)


@word
def prod(
    x: Operand, axis: int | None = None, keepdims: bool = False, dtype: DType | str | None = None
) -> Traced:
    """The product along an axis, or of all elements; of small integers, in 32 bits."""
    return _reduce("prod", ReduceKind.PROD, x, axis, keepdims, dtype)


@word
def max(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """The greatest along an axis, or of all elements; nan is dropped."""
    return _reduce("max", ReduceKind.MAXNUM, x, axis, keepdims)


@word
def min(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """The least along an axis, or of all elements; nan is dropped."""
    return _reduce("min", ReduceKind.MINNUM, x, axis, keepdims)


@word
def any(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """Whether some element along an axis holds."""
    return _reduce("any", ReduceKind.ANY, x, axis, keepdims)


@word
def all(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """Whether every element along an axis holds."""
    return _reduce("all", ReduceKind.ALL, x, axis, keepdims)


@word
def argmax(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """The place of the greatest, the first of several; a nan is the greatest."""
    return _reduce("argmax", ReduceKind.ARGMAX, x, axis, keepdims)


@word
def argmin(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """The place of the least, the first of several; a nan is the least."""
    return _reduce("argmin", ReduceKind.ARGMIN, x, axis, keepdims)


@word
def cumsum(
    x: Operand, axis: int = 0, dtype: DType | str | None = None, reverse: bool = False
) -> Traced:
    """The sums of the elements up to and with each one, along an axis, or from each one on; of
    bools and small integers, in 32 bits."""
    traced = as_traced(x)
    traced = cast(traced, _sum_dtype("cumsum", traced.dtype, dtype))
    if not traced.shape and type(axis) is int and axis == 0:
        return traced
    at = _reduced_axis("cumsum", axis, traced, x)
    if reverse:
        return flip(cumsum(flip(traced, at), at, traced.dtype), at)
    return emit(tile.Scan(ScanKind.SUM, at, traced.value))


# Checks.


@word
def static_assert(condition: object, message: str = "") -> None:
    """Check something that is known while tracing."""
    if isinstance(condition, Traced):
        raise error_here(
            LanguageError, "static_assert needs a condition known while tracing; use device_assert"
        )
    if not condition:
        raise error_here(ArgumentError, f"static_assert failed: {message}".rstrip(": "))


@word
def device_assert(condition: Operand, message: str = "assertion failed") -> None:
    """Report a program error where a condition does not hold."""
    emit_assert(condition, message)


@word
def device_print(prefix: str, *values: Operand) -> None:
    """Report values of each program."""
    text = as_message(prefix, "device_print")
    current().insert(tile.Print(text, [as_traced(v).value for v in values]))
