"""The words of the tile language in NumPy: the names that the text of a kernel finds in `iris`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.types import (
    DType,
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
from iris.testing.plain_axes import AxisWords
from iris.testing.plain_formulas import FormulaWords
from iris.testing.plain_memory import MemoryWords
from iris.testing.plain_tiles import (
    HELD,
    Plain,
    PlainPointer,
    Refused,
    alike,
    arithmetic,
    as_dtype,
    as_plain,
    check_axis,
    chosen,
    common_shape,
    counting,
    divided,
    meeting,
    of_one_sign,
    one_zero,
    own_dtype,
    quotient,
    rank_of,
    spread,
)

Array = npt.NDArray[Any]


def _rounding(function: Callable[[Array], Array]) -> Callable[[Any], Plain]:
    def rounded(x: Any) -> Plain:
        value = as_plain(x)
        if not value.dtype.is_float:
            return value
        return Plain(function(value.data), value.dtype, value.counts)

    return staticmethod(rounded)


def _tested(function: Callable[[Array], Array]) -> Callable[[Any], Plain]:
    def tested(x: Any) -> Plain:
        value = as_plain(x)
        return Plain(function(value.data), bool_, value.counts)

    return staticmethod(tested)


def _extremum(of_integers: np.ufunc, of_floats: np.ufunc) -> Callable[[Any, Any], Plain]:
    """Of a number and nan the number."""

    def extreme(a: Any, b: Any) -> Plain:
        x, y = map(one_zero, (a, b))
        return arithmetic(of_floats if meeting(x, y).is_float else of_integers, x, y)

    return staticmethod(extreme)


class Words(AxisWords, FormulaWords, MemoryWords):
    """The names that a kernel finds in `iris`."""

    bool_, f16, bf16, f32 = bool_, f16, bf16, f32
    i8, i16, i32, i64 = i8, i16, i32, i64
    u8, u16, u32, u64 = u8, u16, u32, u64

    @staticmethod
    def cdiv(a: Any, b: Any) -> Any:
        # Plus 0: it is no negative zero.
        return divided(lambda x, y: -(-x.astype(object) // y.astype(object)) + 0, a, b)

    @staticmethod
    def next_power_of_2(n: int) -> int:
        return next(1 << k for k in range(64) if 1 << k >= n)

    @staticmethod
    def arange(start: int, stop: int) -> Plain:
        return Plain(np.arange(start, stop), i32)

    @staticmethod
    def full(shape: Any, value: Any, dtype: DType | str = f32) -> Plain:
        return Words.broadcast_to(as_plain(value, as_dtype(dtype)), shape)

    @staticmethod
    def zeros(shape: Any, dtype: DType | str = f32) -> Plain:
        return Words.full(shape, 0, dtype)

    @staticmethod
    def reshape(x: Plain, shape: tuple[int, ...]) -> Plain:
        if x.data.size != np.prod(shape):
            raise Refused("another number of elements")
        return x.moved(lambda v: v.reshape(shape))

    @staticmethod
    def broadcast_to(x: Any, shape: tuple[int, ...]) -> Plain:
        value = as_plain(x)
        if common_shape(value, Plain(np.zeros(shape), f32)) != shape:
            raise Refused("a shape that does not fit")
        return spread(value, shape)

    @staticmethod
    def transpose(x: Plain, axes: Sequence[int] | None = None) -> Plain:
        if axes is None:
            return x.T
        if len(axes) != x.data.ndim:
            raise Refused("other axes")
        return x.moved(lambda v: v.transpose(axes))

    @staticmethod
    def cast(x: Any, dtype: DType | str) -> Plain:
        return as_plain(x).to(dtype)

    @staticmethod
    def bitcast(x: Plain, dtype: DType | str) -> Plain:
        dtype = as_dtype(dtype)
        if x.dtype.bits != dtype.bits or {bool_, bf16} & {x.dtype, dtype}:
            raise Refused("other bits")
        bits = np.ascontiguousarray(x.data).view(HELD[dtype]).reshape(x.shape)
        return Plain(bits, dtype, x.counts)

    @staticmethod
    def where(condition: Any, on_true: Any, on_false: Any) -> Any:
        c = as_plain(condition)
        if isinstance(on_true, PlainPointer) and isinstance(on_false, PlainPointer):
            return chosen(c, on_true, on_false)
        x, y = alike(on_true, on_false)
        shape = common_shape(c, x)
        data, counts = (
            np.broadcast_to(np.where(c.data != 0, *sides), shape)
            for sides in ((x.data, y.data), (x.counts, y.counts))
        )
        return Plain(data, x.dtype, counts & np.broadcast_to(c.counts, shape))

    maximum = _extremum(np.maximum, np.fmax)
    minimum = _extremum(np.minimum, np.fmin)

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Plain:
        x, y, z = alike(a, b, c)
        if not x.dtype.is_float:
            raise Refused("fma of integers")
        product, added = x.data.astype(np.float64) * y.data, z.data.astype(np.float64)
        total = product + added
        if np.any(np.isfinite(total) & ((total - product != added) | (total - added != product))):
            raise Refused("a sum that is rounded before it is rounded to f32")
        return Plain(total, x.dtype, counting(x, y, z))

    @staticmethod
    def clamp(x: Any, low: Any, high: Any) -> Plain:
        return Words.minimum(Words.maximum(x, low), high)

    @staticmethod
    def umulhi(a: Any, b: Any) -> Plain:
        x, y = alike(a, b)
        if not x.dtype.is_integer or x.dtype.bits < 32:
            raise Refused("no integers of 32 or 64 bits")
        # Python's integers have room for the whole product.
        one, other = (v.data.astype(object) % (1 << x.dtype.bits) for v in (x, y))
        high = np.asarray((one * other) >> x.dtype.bits, object)
        return Plain(high.astype(np.uint64), x.dtype, counting(x, y))

    @staticmethod
    def ravel(x: Plain) -> Plain:
        return x.moved(np.ravel)

    @staticmethod
    def expand_dims(x: Plain, axis: int) -> Plain:
        return x.moved(lambda v: np.expand_dims(v, axis))

    @staticmethod
    def sqrt(x: Any) -> Plain:
        value = as_plain(x)
        value = value if value.dtype.is_float else value.to(f32)
        return Plain(np.sqrt(value.data.astype(np.float32)), value.dtype, value.counts)

    @staticmethod
    def abs(x: Any) -> Plain:
        return as_plain(x).__abs__()

    # The operators of Triton, where they are not Python's.

    @staticmethod
    def ratio(a: Any, b: Any) -> Plain:
        x, y = alike(a, b)
        return quotient(x.to(f32), y.to(f32))

    @staticmethod
    def quotient(a: Any, b: Any) -> Plain:
        x, y = of_one_sign(a, b)
        if x.dtype.is_float:
            raise Refused("// of floats")
        found = divided(operator.floordiv, x, y)
        is_over = (found.data < 0) & (np.fmod(x.data, y.data) != 0)
        return Plain(found.data + is_over, x.dtype, found.counts)

    @staticmethod
    def remainder(a: Any, b: Any) -> Plain:
        x, y = of_one_sign(a, b)
        return divided(np.fmod, *[v.to(f32) if x.dtype.is_float else v for v in (x, y)])

    # Elements in other places.

    @staticmethod
    def flip(x: Any, axis: Any = None) -> Plain:
        value = as_plain(x)
        check_axis(value, axis)
        return value.moved(lambda v: np.flip(v, axis))

    @staticmethod
    def gather(x: Any, index: Any, axis: int) -> Plain:
        value, at = as_plain(x), as_plain(index)
        if not at.dtype.is_integer or value.data.ndim != at.data.ndim or not value.shape:
            raise Refused("no index")
        check_axis(value, axis)
        sides = zip(*[np.delete(v.shape, axis) for v in (value, at)], strict=True)
        if any(one != other for one, other in sides) or np.any(at.data < 0):
            raise Refused("an index of something else")
        places = at.filled(0).astype(np.int64)
        found = value.moved(lambda v: np.take_along_axis(v, places, axis))
        return Plain(found.data, value.dtype, found.counts & at.counts)

    @staticmethod
    def join(a: Any, b: Any) -> Plain:
        x, y = alike(a, b)
        pairs = (x.data, y.data), (x.counts, y.counts)
        data, counts = (np.stack(pair, -1) for pair in pairs)
        return Plain(data, x.dtype, counts)

    @staticmethod
    def split(x: Any) -> tuple[Plain, Plain]:
        value = as_plain(x)
        if value.shape[-1:] != (2,):
            raise Refused("no two tiles")
        return value[..., 0], value[..., 1]

    @staticmethod
    def interleave(a: Any, b: Any) -> Plain:
        both = Words.join(a, b)
        *rows, size, _ = (1, *both.shape)[-both.data.ndim :] if both.data.ndim > 1 else (1, 2)
        return both.moved(lambda v: v.reshape(*rows, 2 * size))

    @staticmethod
    def cat(a: Any, b: Any, axis: int = 0) -> Plain:
        x, y = alike(a, b)
        pairs = (x.data, y.data), (x.counts, y.counts)
        data, counts = (np.concatenate([*map(np.atleast_1d, pair)], axis) for pair in pairs)
        return Plain(data, x.dtype, counts)

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
        one, other = (as_plain(x, meeting(*values)) for x in values)
        if not (one.is_whole and other.is_whole):
            raise Refused("a variable that may keep elements")
        held = one if condition else other
        return Words.broadcast_to(held, shapes.pop()) if shapes else held

    @staticmethod
    def repeated(start: Any, numbers: Iterable[int], following: Callable[[Any, Any], Any]) -> Any:
        """What a variable holds after a loop.

        It keeps its dtype and shape, except that a number takes the dtype of its new value, of
        floats at least f32, and that a scalar may become a tile.
        """
        new = following(start, Plain(0, i32))
        if repr(new) == repr(start):
            return start
        dtype, shape = own_dtype(start), start.shape if isinstance(start, Plain) else ()
        if not isinstance(start, Plain):
            wider = f32 if dtype.is_float or own_dtype(new).is_float else None
            wider = wider or (new.dtype if isinstance(new, Plain) else dtype)
            dtype = max(own_dtype(new), wider, key=rank_of)
        shape = shape or as_plain(new).shape
        value = Words.broadcast_to(as_plain(start, dtype), shape)
        # Its type is the same after one more iteration, though the loop may have none.
        for k in [None, *numbers]:
            new = as_plain(following(value, Plain(k or 0, i32)))
            if new.dtype is not dtype or new.shape not in ((), shape):
                raise Refused("a variable that changes its type")
            if not (value.is_whole and new.is_whole):
                raise Refused("a variable that may keep elements")
            value = value if k is None else Words.broadcast_to(new, shape)
        return value

    @staticmethod
    def copysign(a: Any, b: Any) -> Plain:
        x, y = alike(a, b)
        dtype = x.dtype if x.dtype.is_float else f32
        found = np.copysign(*[v.to(f32).data for v in (x, y)])
        return Plain(found, dtype, counting(x, y))

    isnan, isinf, isfinite = map(_tested, (np.isnan, np.isinf, np.isfinite))
    floor, ceil, round, trunc = map(_rounding, (np.floor, np.ceil, np.rint, np.trunc))
