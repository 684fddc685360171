"""The values of the tile language in NumPy: what the text of a kernel means when Python runs it.

    eval("a + b", {"a": Plain(1, i32), "b": Plain([1, 2], f32)})

Every tile and scalar is a NumPy array with a dtype of Iris, and with which lanes count.  The dtypes
follow the rules that the reference of the language states, not the code of the frontend.  What the
language refuses, and what is an error of the program, is a `Refused` here.  There are no numbers
that bf16 would round and nothing that is rounded differently by different devices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.scalar import storage
from iris.ir.types import DTYPES, DType, Kind, bf16, bool_, f16, f32, i32, i64

Array = npt.NDArray[Any]
MOST_AXES = 3
MOST_ELEMENTS = 256
DEFINED = 1  # what a lane holds that does not count: every function has a value there

# NumPy has no bf16; f32 has all of its numbers.
HELD = {t: storage(f32 if t is bf16 else t) for t in DTYPES.values()}
_LOW_HALF = 0xFFFF


class Refused(Exception):
    """The language refuses this, or it is an error of the program."""


@cache
def _all(shape: tuple[int, ...]) -> Array:
    return np.ones(shape, np.bool_)


class Plain:
    """A tile, or a scalar."""

    __array_ufunc__ = None

    def __init__(self, data: Any, dtype: DType, counts: Any = True):
        self.data: Array = np.asarray(data).astype(HELD[dtype])
        self.dtype = dtype
        self.is_whole = counts is True or bool(np.all(counts))  # whether every lane counts
        shape = self.data.shape
        self.counts: Array = _all(shape) if self.is_whole else np.broadcast_to(counts, shape)
        if not self.is_whole:
            self.data = np.where(self.counts, self.data, self.data.dtype.type(DEFINED))
        if dtype is bf16 and np.any(self.data.view(np.uint32) & _LOW_HALF):
            raise Refused("a number that bf16 does not hold")
        if self.data.ndim > MOST_AXES or self.data.size > MOST_ELEMENTS:
            raise Refused("a tile that is too large")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def moved(self, function: Callable[[Array], Array]) -> Plain:
        """The same lanes in other places."""
        counts = self.is_whole or function(self.counts)
        return Plain(function(self.data), self.dtype, counts)

    def filled(self, number: Any) -> Array:
        """The elements, with a number where none counts."""
        return np.where(self.counts, self.data, self.data.dtype.type(number))

    def to(self, dtype: DType | str) -> Plain:
        dtype, data = as_dtype(dtype), self.data
        if self.dtype.is_float and dtype.is_integer:
            data = np.trunc(data.astype(np.float64))
            if not np.all((data >= dtype.low) & (data <= dtype.high) & (np.abs(data) < 2.0**53)):
                raise Refused("a float that an integer does not hold")
            data = data.astype(np.int64)
        return Plain(data, dtype, self.counts)

    @property
    def T(self) -> Plain:
        if self.data.ndim < 2:
            raise Refused("one axis, or none")
        return self.moved(lambda v: np.swapaxes(v, -1, -2))

    def __getitem__(self, key: Any) -> Plain:
        return self.moved(lambda v: v[key])

    def __bool__(self) -> bool:
        if self.shape or not self.is_whole:
            raise Refused("a condition with axes, or one that does not count")
        return bool(self.data)

    def __index__(self) -> int:
        if self.shape or not self.dtype.is_integer or not self.is_whole:
            raise Refused("no integer")
        return int(self.data)

    def __neg__(self) -> Plain:
        x = as_number(self)
        return Plain(-x.data, x.dtype, x.counts)

    def __abs__(self) -> Plain:
        x = as_number(self)
        return Plain(np.abs(x.data), x.dtype, x.counts)

    def __invert__(self) -> Plain:
        if self.dtype.is_float:
            raise Refused("~ of floats")
        return Plain(~self.data, self.dtype, self.counts)


def as_dtype(dtype: DType | str) -> DType:
    """A dtype, also by its name."""
    return DTYPES[dtype] if isinstance(dtype, str) else dtype


def as_number(x: Plain) -> Plain:
    """Of a bool, 0 or 1."""
    return x.to(i32) if x.dtype is bool_ else x


def rank_of(dtype: DType) -> tuple[int, int, bool]:
    """The greater where two dtypes meet is what they become."""
    kind = 0 if dtype is bool_ else 2 if dtype.is_float else 1
    return kind, dtype.bits, dtype.kind is Kind.UNSIGNED


def _met(a: DType, b: DType) -> DType:
    """What two dtypes become: of f16 and bf16, neither has the numbers of the other."""
    return f32 if {a, b} == {f16, bf16} else max(a, b, key=rank_of)


def own_dtype(x: Plain | float) -> DType:
    """Of a number, the dtype that it has alone."""
    if isinstance(x, Plain):
        return x.dtype
    return bool_ if isinstance(x, bool) else i32 if isinstance(x, int) else f32


def meeting(*operands: Any) -> DType:
    """The dtype in which operands meet: numbers give way to tiles and scalars, except where they
    are of another kind that holds more."""
    tiles = [x.dtype for x in operands if isinstance(x, Plain)]
    numbers = [own_dtype(x) for x in operands if not isinstance(x, Plain)]
    if not tiles:
        return reduce(_met, numbers)
    dtype = reduce(_met, tiles)
    stronger = [n for n in numbers if rank_of(n)[0] > rank_of(dtype)[0]]
    return reduce(_met, [dtype, *stronger])


def as_plain(x: Any, dtype: DType | None = None) -> Plain:
    """A value in a dtype, or in its own."""
    wanted = own_dtype(x) if dtype is None else dtype
    if isinstance(x, Plain):
        return x if x.dtype is wanted else x.to(wanted)
    if wanted.is_integer and not (wanted.low <= x <= wanted.high and x == int(x)):
        raise Refused(f"{x} is no {wanted}")
    return Plain(x, wanted)


def alike(*operands: Any) -> list[Plain]:
    """Operands in one dtype and one shape."""
    dtype = meeting(*operands)
    values = [as_plain(x, dtype) for x in operands]
    shape = common_shape(*values)
    return [x if x.shape == shape else spread(x, shape) for x in values]


def spread(x: Plain, shape: tuple[int, ...]) -> Plain:
    return x.moved(lambda v: np.broadcast_to(v, shape))


def common_shape(*values: Plain) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[x.shape for x in values])
    except ValueError as error:
        raise Refused(str(error)) from None


def same_numbers(one: Array, other: Array) -> bool:
    """Whether two arrays have equal bits; any nan equals any other."""
    differ = one != other
    if one.dtype.kind == "f":
        differ = (differ & ~(np.isnan(one) & np.isnan(other))) | (
            (one == 0) & (np.signbit(one) != np.signbit(other))
        )
    return not np.any(differ)


# Operators.


def arithmetic(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = map(as_number, alike(a, b))
    return Plain(function(x.data, y.data), x.dtype, x.counts & y.counts)


def divided(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    """A quotient or remainder of finite numbers, by another than 0."""
    x, y = map(as_number, alike(a, b))
    counts = x.counts & y.counts
    x, y = (Plain(v.data, v.dtype, counts) for v in (x, y))
    if not (y.data.all() and np.all(np.isfinite(x.data) & np.isfinite(y.data))):
        raise Refused("a division by zero, or of no number")
    if x.dtype.is_signed and np.any((x.data == x.dtype.low) & (y.data == -1)):
        raise Refused("a quotient that overflows")
    return Plain(function(x.data, y.data), x.dtype, counts)


def quotient(a: Any, b: Any) -> Plain:
    x, y = alike(a, b)
    dtype = x.dtype if x.dtype.is_float else f32
    x, y = x.to(dtype), y.to(dtype)
    return Plain(x.data / y.data, dtype, x.counts & y.counts)


def of_one_sign(a: Any, b: Any) -> list[Plain]:
    """Numbers of one dtype, both signed or both not before, too."""
    x, y = alike(a, b)
    if x.dtype is bool_ or len({v.dtype.is_signed for v in (a, b) if isinstance(v, Plain)}) > 1:
        raise Refused("operands of two kinds")
    return [x, y]


def _bits(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = alike(a, b)
    if x.dtype.is_float:
        raise Refused("bits of floats")
    return Plain(function(x.data, y.data), x.dtype, x.counts & y.counts)


def _shifted(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = alike(a, b)
    counts = x.counts & y.counts
    x, y = (Plain(v.data, v.dtype, counts) for v in (x, y))
    if not x.dtype.is_integer or not np.all((y.data >= 0) & (y.data < x.dtype.bits)):
        raise Refused("a shift by too much")
    return Plain(function(x.data, y.data), x.dtype, counts)


def _power(a: Any, b: Any) -> Plain:
    if not (isinstance(a, Plain) and type(b) is int and 0 <= b <= 16 and a.dtype is not bool_):
        raise Refused("a power")
    result = Plain(np.ones(a.shape), a.dtype, a.counts)
    for _ in range(b):
        result = arithmetic(operator.mul, result, a)
    return result


def _compared(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = alike(a, b)
    return Plain(function(x.data, y.data), bool_, x.counts & y.counts)


_OPERATORS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (arithmetic, ("add", "sub", "mul")),
    (divided, ("floordiv", "mod")),
    (_bits, ("and_", "or_", "xor")),
    (_shifted, ("lshift", "rshift")),
    (_compared, ("lt", "le", "gt", "ge", "eq", "ne")),
)


def _define(name: str, make: Callable[[Any, Any], Plain]) -> None:
    setattr(Plain, f"__{name}__", lambda self, other: make(self, other))
    setattr(Plain, f"__r{name}__", lambda self, other: make(other, self))


for _kind, _names in _OPERATORS:
    for _name in _names:
        _function = getattr(operator, _name)
        _define(_name.strip("_"), lambda a, b, k=_kind, f=_function: k(f, a, b))  # type: ignore[misc]
_define("truediv", quotient)
_define("pow", _power)


class PlainPointer:
    """An array, and maybe offsets."""

    def __init__(self, array: Array, dtype: DType, offset: Plain | None = None):
        self.array, self.dtype = array, dtype
        self.offset = Plain(0, i32) if offset is None else offset

    def __add__(self, offset: Any) -> PlainPointer:
        added = as_plain(offset)
        if not added.dtype.is_integer:
            raise Refused("an offset that is no integer")
        total = self.offset.data.astype(np.int64) + added.data.astype(np.int64)
        counts = self.offset.counts & added.counts
        return PlainPointer(self.array, self.dtype, Plain(total, i64, counts))

    __radd__ = __add__

    def __sub__(self, offset: Any) -> PlainPointer:
        given = as_plain(offset)
        return self + Plain(-given.data.astype(np.int64), i64, given.counts)

    def places(self, shape: tuple[int, ...], inside: Array) -> Array:
        """The numbers of the elements where a mask holds; elsewhere 0."""
        at = np.where(inside, np.broadcast_to(self.offset.data, shape), 0)
        if np.any((at < 0) | (at >= self.array.size)):
            raise Refused("an element that is not there")
        return at


def chosen(condition: Plain, one: PlainPointer, other: PlainPointer) -> PlainPointer:
    """One pointer or the other: to one array by element, to two by a scalar."""
    if one.dtype is not other.dtype or (one.array is not other.array and condition.shape):
        raise Refused("pointers to choose among")
    if not all(x.is_whole for x in (condition, one.offset, other.offset)):
        raise Refused("a pointer that does not count")
    shape = common_shape(condition, one.offset, other.offset)
    offsets = np.where(condition.data != 0, one.offset.data, other.offset.data)
    array = one.array if np.all(condition.data != 0) else other.array
    return PlainPointer(array, one.dtype, Plain(np.broadcast_to(offsets, shape), i64))


def masked(pointer: PlainPointer, mask: Any, *values: Plain) -> tuple[tuple[int, ...], Array]:
    """The shape of an access, and where it takes place: where a mask holds, and all counts."""
    condition = as_plain(True if mask is None else mask)
    if condition.dtype is not bool_:
        raise Refused("a mask of numbers")
    shape = common_shape(pointer.offset, condition, *values)
    inside = condition.data & counting(condition, pointer.offset, *values)
    return shape, np.broadcast_to(inside, shape)


def counting(*values: Plain) -> Array:
    """Where all of some values count."""
    return np.asarray(reduce(operator.and_, [x.counts for x in values]))


def one_zero(x: Any) -> Any:
    """A value without -0.0: of two zeros devices may take either."""
    data = x.data if isinstance(x, Plain) else np.asarray(x)
    if data.dtype.kind == "f" and np.any((data == 0) & np.signbit(data)):
        raise Refused("-0.0")
    return x


def check_axis(x: Plain, axis: int | None) -> None:
    if axis is not None and not -x.data.ndim <= axis < x.data.ndim:
        raise Refused("no such axis")
