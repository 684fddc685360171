"""The words of the tile language in NumPy: what the text of a kernel means when Python runs it.

    exec(text, {"iris": plain_tiles})

Every tile and scalar is a NumPy array with a dtype of Iris.  The dtypes follow the rules that the
reference of the language states, not the code of the frontend.  What the language refuses, and what
is an error of the program, is a `Refused` here.  There are no masks without `other=`, no
numbers that bf16 would round and nothing that is rounded differently by different devices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.scalar import storage
from iris.ir.types import (
    DTYPES,
    DType,
    Kind,
    bf16,
    bool_,
    f16,
    f32,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

Array = npt.NDArray[Any]
MOST_AXES = 3
MOST_ELEMENTS = 256

# NumPy has no bf16; f32 has all of its numbers.
_HELD = {t: storage(f32 if t is bf16 else t) for t in DTYPES.values()}
_LOW_HALF = 0xFFFF
_WHOLE = 1 << 24  # up to which f32 has all integers
_FINEST_PRODUCTS = 256  # of floats that are multiples of 1 / 16
_TF32_BITS = 11


class Refused(Exception):
    """The language refuses this, or it is an error of the program."""


class Plain:
    """A tile, or a scalar."""

    __array_ufunc__ = None

    def __init__(self, data: Any, dtype: DType):
        self.data: Array = np.asarray(data).astype(_HELD[dtype])
        self.dtype = dtype
        if dtype is bf16 and np.any(self.data.view(np.uint32) & _LOW_HALF):
            raise Refused("a number that bf16 does not hold")
        if self.data.ndim > MOST_AXES or self.data.size > MOST_ELEMENTS:
            raise Refused("a tile that is too large")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def to(self, dtype: DType) -> Plain:
        data = self.data
        if self.dtype.is_float and dtype.is_integer:
            data = np.trunc(data.astype(np.float64))
            if not np.all((data >= dtype.low) & (data <= dtype.high) & (np.abs(data) < 2.0**53)):
                raise Refused("a float that an integer does not hold")
            data = data.astype(np.int64)
        return Plain(data, dtype)

    @property
    def T(self) -> Plain:
        if self.data.ndim < 2:
            raise Refused("one axis, or none")
        return Plain(np.swapaxes(self.data, -1, -2), self.dtype)

    def __getitem__(self, key: Any) -> Plain:
        return Plain(self.data[key], self.dtype)

    def __bool__(self) -> bool:
        if self.shape:
            raise Refused("a condition with axes")
        return bool(self.data)

    def __index__(self) -> int:
        if self.shape or not self.dtype.is_integer:
            raise Refused("no integer")
        return int(self.data)

    def __neg__(self) -> Plain:
        x = _number(self)
        return Plain(-x.data, x.dtype)

    def __abs__(self) -> Plain:
        x = _number(self)
        return Plain(np.abs(x.data), x.dtype)

    def __invert__(self) -> Plain:
        if self.dtype.is_float:
            raise Refused("~ of floats")
        return Plain(~self.data, self.dtype)


def _number(x: Plain) -> Plain:
    """Of a bool, 0 or 1."""
    return x.to(i32) if x.dtype is bool_ else x


def _rank(dtype: DType) -> tuple[int, int, bool]:
    """The greater where two dtypes meet is what they become."""
    kind = 0 if dtype is bool_ else 2 if dtype.is_float else 1
    return kind, dtype.bits, dtype.kind is Kind.UNSIGNED


def _met(a: DType, b: DType) -> DType:
    """What two dtypes become: of f16 and bf16, neither has the numbers of the other."""
    return f32 if {a, b} == {f16, bf16} else max(a, b, key=_rank)


def _own_dtype(x: Plain | float) -> DType:
    """Of a number, the dtype that it has alone."""
    if isinstance(x, Plain):
        return x.dtype
    return bool_ if isinstance(x, bool) else i32 if isinstance(x, int) else f32


def _meeting(*operands: Any) -> DType:
    """The dtype in which operands meet: a number gives way to what is no number, except where it is
    of another kind that holds more."""
    tiles = [x.dtype for x in operands if isinstance(x, Plain)]
    numbers = [_own_dtype(x) for x in operands if not isinstance(x, Plain)]
    if not tiles:
        return reduce(_met, numbers)
    dtype = reduce(_met, tiles)
    stronger = [n for n in numbers if _rank(n)[0] > _rank(dtype)[0]]
    return reduce(_met, [dtype, *stronger])


def as_plain(x: Any, dtype: DType | None = None) -> Plain:
    """A value in a dtype, or in its own."""
    wanted = _own_dtype(x) if dtype is None else dtype
    if isinstance(x, Plain):
        return x if x.dtype is wanted else x.to(wanted)
    if wanted.is_integer and not (wanted.low <= x <= wanted.high and x == int(x)):
        raise Refused(f"{x} is no {wanted}")
    return Plain(x, wanted)


def _alike(*operands: Any) -> list[Plain]:
    """Operands in one dtype and one shape."""
    dtype = _meeting(*operands)
    values = [as_plain(x, dtype) for x in operands]
    shape = _common_shape(*values)
    return [Plain(np.broadcast_to(x.data, shape), dtype) for x in values]


def _common_shape(*values: Plain) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[x.shape for x in values])
    except ValueError as error:
        raise Refused(str(error)) from None


# Operators.


def _arithmetic(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = map(_number, _alike(a, b))
    return Plain(function(x.data, y.data), x.dtype)


def _divided(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = map(_number, _alike(a, b))
    if not y.data.all():
        raise Refused("a division by zero")
    if x.dtype.is_signed and np.any((x.data == x.dtype.low) & (y.data == -1)):
        raise Refused("a quotient that overflows")
    return Plain(function(x.data, y.data), x.dtype)


def _quotient(a: Any, b: Any) -> Plain:
    x, y = _alike(a, b)
    dtype = x.dtype if x.dtype.is_float else f32
    x, y = x.to(dtype), y.to(dtype)
    if not y.data.all():
        raise Refused("a division by zero")
    return Plain(x.data / y.data, dtype)


def _of_one_sign(a: Any, b: Any) -> list[Plain]:
    """Numbers of one dtype, both signed or both not before, too."""
    x, y = _alike(a, b)
    if x.dtype is bool_ or len({v.dtype.is_signed for v in (a, b) if isinstance(v, Plain)}) > 1:
        raise Refused("operands of two kinds")
    return [x, y]


def _bits(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = _alike(a, b)
    if x.dtype.is_float:
        raise Refused("bits of floats")
    return Plain(function(x.data, y.data), x.dtype)


def _shifted(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = _alike(a, b)
    if not x.dtype.is_integer or not np.all((y.data >= 0) & (y.data < x.dtype.bits)):
        raise Refused("a shift by too much")
    return Plain(function(x.data, y.data), x.dtype)


def _power(a: Any, b: Any) -> Plain:
    if not (isinstance(a, Plain) and type(b) is int and 0 <= b <= 16 and a.dtype is not bool_):
        raise Refused("a power")
    result = Plain(np.ones(a.shape), a.dtype)
    for _ in range(b):
        result = _arithmetic(operator.mul, result, a)
    return result


def _compared(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Plain:
    x, y = _alike(a, b)
    return Plain(function(x.data, y.data), bool_)


_OPERATORS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (_arithmetic, ("add", "sub", "mul")),
    (_divided, ("floordiv", "mod")),
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
_define("truediv", _quotient)
_define("pow", _power)


# What words are made of.


def _one_zero(x: Any) -> Any:
    """A value without -0.0: of two zeros devices may take either."""
    data = x.data if isinstance(x, Plain) else np.asarray(x)
    if data.dtype.kind == "f" and np.any((data == 0) & np.signbit(data)):
        raise Refused("-0.0")
    return x


def _rounding(function: Callable[[Array], Array]) -> Callable[[Any], Plain]:
    def rounded(x: Any) -> Plain:
        value = as_plain(x)
        return Plain(function(value.data), value.dtype) if value.dtype.is_float else value

    return staticmethod(rounded)


def _added_in(dtype: DType, wanted: DType | None) -> DType:
    if wanted is bool_:
        raise Refused("a sum of bools")
    if wanted is not None:
        return wanted
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return u32 if dtype.kind is Kind.UNSIGNED else i32


def _axis(x: Plain, axis: int | None) -> None:
    if axis is not None and not -x.data.ndim <= axis < x.data.ndim:
        raise Refused("no such axis")


def _added(function: np.ufunc, x: Any, axis: int | None, keepdims: bool, dtype: Any) -> Plain:
    value = _one_zero(as_plain(x))
    _axis(value, axis)
    value = value.to(_added_in(value.dtype, dtype))
    total = np.float32 if value.dtype.is_float else value.data.dtype
    found = function.reduce(value.data, axis=axis, dtype=total, keepdims=keepdims)
    return Plain(found, value.dtype)


def _extreme(function: np.ufunc, x: Any, axis: Any, keepdims: bool) -> Plain:
    value = _number(_one_zero(as_plain(x)))
    _axis(value, axis)
    return Plain(function.reduce(value.data, axis=axis, keepdims=keepdims), value.dtype)


def _truth(function: np.ufunc, x: Any, axis: Any, keepdims: bool) -> Plain:
    value = as_plain(x)
    _axis(value, axis)
    found = function.reduce(value.data != 0, axis=axis, keepdims=keepdims)
    return Plain(found, bool_)


def _place(function: Callable[..., Any], x: Any, axis: Any, keepdims: bool) -> Plain:
    value = _number(as_plain(x))
    _axis(value, axis)
    return Plain(function(value.data, axis=axis, keepdims=keepdims), i32)


def _combined(values: Any, fn: Callable[..., Any], one: Sequence[Any], other: Sequence[Any]) -> Any:
    """What a function makes of elements, or of several ones that belong together."""
    made = fn(*one, *other)
    results = made if isinstance(values, tuple) else (made,)
    for x, y in zip(results, one, strict=True):
        if not isinstance(x, Plain) or (x.dtype, x.shape) != (y.dtype, y.shape):
            raise Refused("a function that changes a type")
    return results


def _steps(values: Any, axis: int) -> list[list[Plain]]:
    """The elements one after the other along an axis, of each of the values."""
    several = [as_plain(x) for x in (values if isinstance(values, tuple) else (values,))]
    shape = _common_shape(*several)
    if not shape:
        raise Refused("no axis")
    moved = [np.moveaxis(np.broadcast_to(x.data, shape), axis, 0) for x in several]
    pairs = [(x.dtype, data) for x, data in zip(several, moved, strict=True)]
    return [[Plain(data[n], dtype) for dtype, data in pairs] for n in range(len(moved[0]))]


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
        return PlainPointer(self.array, self.dtype, Plain(total, i64))

    __radd__ = __add__

    def __sub__(self, offset: Any) -> PlainPointer:
        return self + Plain(-as_plain(offset).data.astype(np.int64), i64)

    def places(self, shape: tuple[int, ...], inside: Array) -> Array:
        """The numbers of the elements where a mask holds; elsewhere 0."""
        at = np.where(inside, np.broadcast_to(self.offset.data, shape), 0)
        if np.any((at < 0) | (at >= self.array.size)):
            raise Refused("an element that is not there")
        return at


def _chosen(condition: Plain, one: PlainPointer, other: PlainPointer) -> PlainPointer:
    """One pointer or the other: to one array by element, to two by a scalar."""
    if one.dtype is not other.dtype or (one.array is not other.array and condition.shape):
        raise Refused("pointers to choose among")
    shape = _common_shape(condition, one.offset, other.offset)
    offsets = np.where(condition.data != 0, one.offset.data, other.offset.data)
    array = one.array if np.all(condition.data != 0) else other.array
    return PlainPointer(array, one.dtype, Plain(np.broadcast_to(offsets, shape), i64))


def _masked(pointer: PlainPointer, mask: Any, *values: Plain) -> tuple[tuple[int, ...], Array]:
    condition = as_plain(True if mask is None else mask)
    if condition.dtype is not bool_:
        raise Refused("a mask of numbers")
    shape = _common_shape(pointer.offset, condition, *values)
    return shape, np.broadcast_to(condition.data, shape)


def _atomic(function: Callable[..., Any], pointer: PlainPointer, *operands: Any) -> Plain:
    values = [as_plain(x, pointer.dtype) for x in operands]
    shape, inside = _masked(pointer, None, *values)
    at = pointer.places(shape, inside)
    if len(np.unique(at)) != at.size:
        raise Refused("an element that is changed twice")
    flat = pointer.array.reshape(-1)
    old = Plain(flat[at], pointer.dtype)
    flat[at] = function(old.data, *[np.broadcast_to(x.data, shape) for x in values])
    return old


def _rounded_to_tf32(x: Array) -> Array:
    """Numbers of so many bits; halfway between two, the even one."""
    parts, exponents = np.frexp(x)
    rounded: Array = np.ldexp(np.rint(parts * 2.0**_TF32_BITS), exponents - _TF32_BITS)
    return rounded


def _atomic_word(function: Callable[..., Any]) -> Callable[..., Plain]:
    return staticmethod(lambda pointer, value: _atomic(function, pointer, value))


# Words.


_WORD = (1 << 32) - 1
# Functions whose results are not to the bit, but known where their arguments are special.
LIMITS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "exp2", "log2", "log1p", "expm1")},
    **{name: getattr(np, name) for name in ("log10", "sqrt", "tanh", "sinh", "cosh", "cbrt")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asinh", "acosh", "atanh", "atan")},
}


class Words:
    """The names that a kernel finds in `iris`."""

    bool_, f16, bf16, f32 = bool_, f16, bf16, f32
    i8, i16, i32, i64 = i8, i16, i32, i64
    u8, u16, u32, u64 = u8, u16, u32, u64

    @staticmethod
    def cdiv(a: Any, b: Any) -> Any:
        return _divided(lambda x, y: -(-x.astype(object) // y.astype(object)), a, b)

    @staticmethod
    def arange(start: int, stop: int) -> Plain:
        return Plain(np.arange(start, stop), i32)

    @staticmethod
    def full(shape: Any, value: Any, dtype: DType = f32) -> Plain:
        return Words.broadcast_to(as_plain(value, dtype), shape)

    @staticmethod
    def zeros(shape: Any, dtype: DType = f32) -> Plain:
        return Words.full(shape, 0, dtype)

    @staticmethod
    def reshape(x: Plain, shape: tuple[int, ...]) -> Plain:
        if x.data.size != np.prod(shape):
            raise Refused("another number of elements")
        return Plain(x.data.reshape(shape), x.dtype)

    @staticmethod
    def broadcast_to(x: Any, shape: tuple[int, ...]) -> Plain:
        value = as_plain(x)
        if (
            len(value.shape) > len(shape)
            or _common_shape(value, Plain(np.zeros(shape), f32)) != shape
        ):
            raise Refused("a shape that does not fit")
        return Plain(np.broadcast_to(value.data, shape), value.dtype)

    @staticmethod
    def transpose(x: Plain, axes: Sequence[int]) -> Plain:
        if len(axes) != x.data.ndim:
            raise Refused("other axes")
        return Plain(x.data.transpose(axes), x.dtype)

    @staticmethod
    def cast(x: Any, dtype: DType) -> Plain:
        return as_plain(x).to(dtype)

    @staticmethod
    def bitcast(x: Plain, dtype: DType) -> Plain:
        if x.dtype.bits != dtype.bits or {bool_, bf16} & {x.dtype, dtype}:
            raise Refused("other bits")
        return Plain(np.ascontiguousarray(x.data).view(_HELD[dtype]).reshape(x.shape), dtype)

    @staticmethod
    def where(condition: Any, on_true: Any, on_false: Any) -> Any:
        c = as_plain(condition)
        if isinstance(on_true, PlainPointer) and isinstance(on_false, PlainPointer):
            return _chosen(c, on_true, on_false)
        x, y = _alike(on_true, on_false)
        shape = _common_shape(c, x)
        return Plain(np.broadcast_to(np.where(c.data != 0, x.data, y.data), shape), x.dtype)

    @staticmethod
    def maximum(a: Any, b: Any) -> Plain:
        return _arithmetic(np.maximum, *map(_one_zero, (a, b)))

    @staticmethod
    def minimum(a: Any, b: Any) -> Plain:
        return _arithmetic(np.minimum, *map(_one_zero, (a, b)))

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Plain:
        x, y, z = _alike(a, b, c)
        if not x.dtype.is_float:
            raise Refused("fma of integers")
        return Plain(x.data.astype(np.float64) * y.data + z.data, x.dtype)

    @staticmethod
    def clamp(x: Any, low: Any, high: Any) -> Plain:
        return Words.minimum(Words.maximum(x, low), high)

    @staticmethod
    def umulhi(a: Any, b: Any) -> Plain:
        x, y = _alike(a, b)
        if not x.dtype.is_integer or x.dtype.bits < 32:
            raise Refused("no integers of 32 or 64 bits")
        # Python's integers have room for the whole product.
        one, other = (v.data.astype(object) % (1 << x.dtype.bits) for v in (x, y))
        high = np.asarray((one * other) >> x.dtype.bits, object)
        return Plain(high.astype(np.uint64), x.dtype)

    @staticmethod
    def limit(word: str, x: Any) -> Plain:
        """What a function gives for zeros, ones, infinities and nan: of other numbers, near it."""
        value = as_plain(x)
        if not value.dtype.is_float:
            raise Refused("nothing special")
        return Plain(LIMITS[word](value.data.astype(np.float64)), value.dtype)

    @staticmethod
    def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> tuple[Plain, ...]:
        """Random words, of 32 bits."""
        given = [as_plain(x) for x in (c0, c1, c2, c3)]
        key = as_plain(seed)
        if any(not x.dtype.is_integer or x.dtype.bits > 32 for x in [*given, key]):
            raise Refused("no word of 32 bits")
        shape = _common_shape(*given, key)
        low = [(x.data.astype(np.int64) & _WORD).astype(np.uint64) for x in given]
        x, y, z, w = [np.broadcast_to(one, shape) for one in low]
        both = key.data.astype(np.int64).astype(np.uint64)
        a, b = both & np.uint64(_WORD), both >> np.uint64(32)
        for _ in range(10):
            p, q = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
            x, y = (q >> np.uint64(32)) ^ y ^ a, q & np.uint64(_WORD)
            z, w = (p >> np.uint64(32)) ^ w ^ b, p & np.uint64(_WORD)
            a = (a + np.uint64(0x9E3779B9)) & np.uint64(_WORD)
            b = (b + np.uint64(0xBB67AE85)) & np.uint64(_WORD)
        return tuple([Plain(one.astype(np.uint32), DTYPES["u32"]) for one in (x, y, z, w)])

    @staticmethod
    def isnan(x: Any) -> Plain:
        return Plain(np.isnan(as_plain(x).data), bool_)

    @staticmethod
    def isinf(x: Any) -> Plain:
        return Plain(np.isinf(as_plain(x).data), bool_)

    @staticmethod
    def isfinite(x: Any) -> Plain:
        return Plain(np.isfinite(as_plain(x).data), bool_)

    @staticmethod
    def ravel(x: Plain) -> Plain:
        return Plain(x.data.reshape(-1), x.dtype)

    @staticmethod
    def expand_dims(x: Plain, axis: int) -> Plain:
        return Plain(np.expand_dims(x.data, axis), x.dtype)

    @staticmethod
    def sqrt(x: Any) -> Plain:
        value = as_plain(x)
        value = value if value.dtype.is_float else value.to(f32)
        if np.any(value.data < 0):
            raise Refused("no square")
        return Plain(np.sqrt(value.data.astype(np.float32)), value.dtype)

    @staticmethod
    def abs(x: Any) -> Plain:
        return as_plain(x).__abs__()

    @staticmethod
    def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Plain:
        return _added(np.add, x, axis, keepdims, dtype)

    @staticmethod
    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Plain:
        return _added(np.multiply, x, axis, keepdims, dtype)

    @staticmethod
    def max(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _extreme(np.maximum, x, axis, keepdims)

    @staticmethod
    def min(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _extreme(np.minimum, x, axis, keepdims)

    @staticmethod
    def any(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _truth(np.logical_or, x, axis, keepdims)

    @staticmethod
    def all(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _truth(np.logical_and, x, axis, keepdims)

    @staticmethod
    def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _place(np.argmax, x, axis, keepdims)

    @staticmethod
    def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _place(np.argmin, x, axis, keepdims)

    @staticmethod
    def cumsum(x: Any, axis: int = 0, dtype: Any = None) -> Plain:
        value = as_plain(x)
        _axis(value, axis)
        value = value.to(_added_in(value.dtype, dtype))
        total = np.float32 if value.dtype.is_float else value.data.dtype
        return Plain(np.cumsum(value.data, axis=axis, dtype=total), value.dtype)

    # The operators of Triton, where they are not Python's.

    @staticmethod
    def ratio(a: Any, b: Any) -> Plain:
        x, y = _alike(a, b)
        return _quotient(x.to(f32), y.to(f32))

    @staticmethod
    def quotient(a: Any, b: Any) -> Plain:
        x, y = _of_one_sign(a, b)
        if x.dtype.is_float:
            raise Refused("// of floats")
        found = _divided(operator.floordiv, x, y).data
        is_over = (found < 0) & (np.fmod(x.data, y.data) != 0)
        return Plain(found + is_over, x.dtype)

    @staticmethod
    def remainder(a: Any, b: Any) -> Plain:
        x, y = _of_one_sign(a, b)
        return _divided(np.fmod, *[v.to(f32) if x.dtype.is_float else v for v in (x, y)])

    # Elements along an axis, combined or in another order.

    @staticmethod
    def reduce(values: Any, axis: int, fn: Callable[..., Any], keepdims: bool = False) -> Any:
        first, *others = _steps(values, axis)
        for other in others:
            first = _combined(values, fn, first, other)
        kept = [Plain(np.expand_dims(x.data, axis), x.dtype) if keepdims else x for x in first]
        return tuple(kept) if isinstance(values, tuple) else kept[0]

    @staticmethod
    def associative_scan(
        values: Any, axis: int, fn: Callable[..., Any], reverse: bool = False
    ) -> Any:
        steps = _steps(values, axis)[:: -1 if reverse else 1]
        for n in range(1, len(steps)):
            steps[n] = _combined(values, fn, steps[n - 1], steps[n])
        parts = zip(*steps[:: -1 if reverse else 1], strict=True)
        scanned = [Plain(np.stack([x.data for x in xs], axis), xs[0].dtype) for xs in parts]
        return tuple(scanned) if isinstance(values, tuple) else scanned[0]

    @staticmethod
    def sort(x: Any, axis: int = -1, descending: bool = False) -> Plain:
        value = _one_zero(as_plain(x))
        if value.dtype is bool_ or not value.shape:
            raise Refused("nothing that has an order")
        _axis(value, axis)
        found = np.sort(value.data, axis=axis)
        return Plain(np.flip(found, axis) if descending else found, value.dtype)

    @staticmethod
    def topk(x: Any, k: int, axis: int = -1) -> Plain:
        found = Words.sort(x, axis, True)
        if k > found.shape[axis]:
            raise Refused("more than there are")
        return Plain(np.take(found.data, range(k), axis), found.dtype)

    @staticmethod
    def histogram(x: Any, bins: int, mask: Any = True) -> Plain:
        value, counted = as_plain(x), as_plain(mask)
        if not value.dtype.is_integer or counted.dtype is not bool_:
            raise Refused("nothing to count")
        counted = Words.broadcast_to(counted, value.shape)
        inside = value.data[counted.data & (value.data >= 0) & (value.data < bins)]
        return Plain(np.bincount(inside.astype(np.int64), minlength=bins).astype(np.int32), i32)

    @staticmethod
    def flip(x: Any, axis: Any = None) -> Plain:
        value = as_plain(x)
        _axis(value, axis)
        return Plain(np.flip(value.data, axis), value.dtype)

    @staticmethod
    def gather(x: Any, index: Any, axis: int) -> Plain:
        value, at = as_plain(x), as_plain(index)
        if not at.dtype.is_integer or value.data.ndim != at.data.ndim or not value.shape:
            raise Refused("no index")
        _axis(value, axis)
        sides = zip(*[np.delete(v.shape, axis) for v in (value, at)], strict=True)
        if any(one != other for one, other in sides) or np.any(at.data < 0):
            raise Refused("an index of something else")
        return Plain(np.take_along_axis(value.data, at.data.astype(np.int64), axis), value.dtype)

    @staticmethod
    def join(a: Any, b: Any) -> Plain:
        x, y = _alike(a, b)
        return Plain(np.stack([x.data, y.data], -1), x.dtype)

    @staticmethod
    def split(x: Any) -> tuple[Plain, Plain]:
        value = as_plain(x)
        if value.shape[-1:] != (2,):
            raise Refused("no two tiles")
        return Plain(value.data[..., 0], value.dtype), Plain(value.data[..., 1], value.dtype)

    @staticmethod
    def interleave(a: Any, b: Any) -> Plain:
        both = Words.join(a, b)
        *rows, size, _ = (1, *both.shape)[-both.data.ndim :] if both.data.ndim > 1 else (1, 2)
        return Plain(both.data.reshape(*rows, 2 * size), both.dtype)

    @staticmethod
    def cat(a: Any, b: Any, axis: int = 0) -> Plain:
        x, y = _alike(a, b)
        pair = [np.atleast_1d(v.data) for v in (x, y)]
        return Plain(np.concatenate(pair, axis), x.dtype)

    @staticmethod
    def dot(a: Plain, b: Plain, acc: Any = None, precision: str = "ieee") -> Plain:
        if not (a.data.ndim == b.data.ndim == 2 and a.shape[1] == b.shape[0]):
            raise Refused("no matrices that fit")
        dtype = _meeting(a, b)
        usual = f32 if dtype.is_float else i32
        if acc is None:
            acc = Plain(0, usual)
        added = as_plain(
            acc, acc.dtype if isinstance(acc, Plain) else _meeting(Plain(0, usual), acc)
        )
        if dtype is bool_ or added.dtype is not usual:
            raise Refused("a product in another dtype")
        x, y = (v.to(dtype).data.astype(_HELD[f32 if dtype.is_float else i64]) for v in (a, b))
        if precision == "tf32" and dtype is f32:
            x, y = map(_rounded_to_tf32, (x, y))
        if dtype.is_float and np.any(np.abs(x) @ np.abs(y) >= _WHOLE / _FINEST_PRODUCTS):
            raise Refused("a sum that may be rounded")
        product = Plain(x @ y, usual)
        if _common_shape(product, added) != product.shape:
            raise Refused("an accumulator that does not fit")
        return _arithmetic(operator.add, product, added)

    @staticmethod
    def load(pointer: PlainPointer, mask: Any = None, other: Any = None) -> Plain:
        shape, inside = _masked(pointer, mask)
        data = pointer.array.reshape(-1)[pointer.places(shape, inside)]
        if mask is not None:
            otherwise = as_plain(other, pointer.dtype)
            if _common_shape(Plain(data, pointer.dtype), otherwise) != shape:
                raise Refused("another number that does not fit")
            data = np.where(inside, data, otherwise.data)
        return Plain(data, pointer.dtype)

    @staticmethod
    def store(pointer: PlainPointer, value: Any, mask: Any = None) -> None:
        stored = as_plain(value, pointer.dtype)
        shape, inside = _masked(pointer, mask, stored)
        at = pointer.places(shape, inside)[inside]
        if len(np.unique(at)) != at.size:
            raise Refused("an element that is written twice")
        pointer.array.reshape(-1)[at] = np.broadcast_to(stored.data, shape)[inside]

    @staticmethod
    def atomic_cas(pointer: PlainPointer, expected: Any, value: Any) -> Plain:
        def exchanged(old: Array, was: Array, new: Array) -> Array:
            return np.where(old == was, new, old)

        return _atomic(exchanged, pointer, expected, value)

    @staticmethod
    def tile_load(
        pointer: PlainPointer,
        row: Any,
        col: Any,
        stride: int,
        shape: tuple[int, int],
        rows: int | None = None,
        cols: int | None = None,
    ) -> Plain:
        """Of a matrix, elements outside which are 0."""
        height, width = pointer.array.shape
        rows, cols = height if rows is None else rows, width if cols is None else cols
        r = int(row) + np.arange(shape[0])[:, None]
        c = int(col) + np.arange(shape[1])[None]
        inside = (r >= 0) & (r < rows) & (c >= 0) & (c < cols)
        at = pointer + Plain(r * stride + c, i64)
        data = pointer.array.reshape(-1)[at.places(inside.shape, inside)]
        return Plain(np.where(inside, data, 0), pointer.dtype)

    @staticmethod
    def either(condition: Any, on_true: Any, on_false: Any) -> Plain:
        """What a variable holds after a branch, of the dtype and shape that both sides can have."""
        values = [on_true, on_false]
        tiles = [x for x in values if isinstance(x, Plain)]
        if len(tiles) == 2 and tiles[0].dtype is not tiles[1].dtype:
            raise Refused("another dtype in the other branch")
        shapes = {x.shape for x in tiles} - {()}
        if len(shapes) > 1:
            raise Refused("another shape in the other branch")
        one, other = (as_plain(x, _meeting(*values)) for x in values)
        chosen = one if condition else other
        return Words.broadcast_to(chosen, shapes.pop()) if shapes else chosen

    @staticmethod
    def repeated(start: Any, numbers: Iterable[int], following: Callable[[Any, Any], Any]) -> Any:
        """What a variable holds after a loop.

        It keeps its dtype and shape, except that a number takes the dtype of its new value, of
        floats at least f32, and that a scalar may become a tile.
        """
        new = following(start, Plain(0, i32))
        if repr(new) == repr(start):
            return start
        dtype, shape = _own_dtype(start), start.shape if isinstance(start, Plain) else ()
        if not isinstance(start, Plain):
            wider = f32 if dtype.is_float or _own_dtype(new).is_float else None
            wider = wider or (new.dtype if isinstance(new, Plain) else dtype)
            dtype = max(_own_dtype(new), wider, key=_rank)
        shape = shape or as_plain(new).shape
        value = Words.broadcast_to(as_plain(start, dtype), shape)
        # Its type is the same after one more iteration, though the loop may have none.
        for k in [None, *numbers]:
            new = as_plain(following(value, Plain(k or 0, i32)))
            if new.dtype is not dtype or new.shape not in ((), shape):
                raise Refused("a variable that changes its type")
            value = value if k is None else Words.broadcast_to(new, shape)
        return value

    floor, ceil, round, trunc = map(_rounding, (np.floor, np.ceil, np.rint, np.trunc))
    atomic_add, atomic_max, atomic_min = map(_atomic_word, (np.add, np.maximum, np.minimum))
    atomic_and, atomic_or = map(_atomic_word, (np.bitwise_and, np.bitwise_or))
    atomic_xor = _atomic_word(np.bitwise_xor)
    atomic_exchange = _atomic_word(lambda old, new: new)
