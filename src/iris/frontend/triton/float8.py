"""Float8: dtypes of one byte that are stored and converted, and not computed with.

No GPU of Apple's has them. A tile of float8 is the tile of its codes; converting one to another
float is exact, and to float8 rounds to the nearest code, ties to even, as the instructions of GPUs
that have the dtypes do: what is too large, infinity too, becomes the greatest finite number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NoReturn

from iris.errors import DTypeError
from iris.frontend import language as iris
from iris.frontend.tracing import current, error_here
from iris.frontend.triton.types import block_type
from iris.frontend.values import Address, Traced, as_dtype, as_traced, cast
from iris.ir.types import DType, f32, i32, u8, u32

_BITS, _BIAS = 23, 127  # of the mantissa of f32, and of its exponent
_INFINITY = 0x7F800000


@dataclass(frozen=True)
class Float8:
    """A dtype of one byte: a sign, an exponent and a mantissa."""

    name: str  # that Triton prints
    fp_mantissa_width: int
    exponent_bias: int
    greatest: int  # the code of the greatest finite number
    numpy_name: str

    primitive_bitwidth = int_bitwidth = 8
    itemsize = 1

    @property
    def scalar(self) -> Float8:
        return self

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.name.replace('fp8', 'float8')}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("is_"):
            yes = ("is_fp8", "is_floating", f"is_{self.name}")
            return lambda: name in yes
        raise AttributeError(name, name=name, obj=self)

    # In units of f32.

    @property
    def cut(self) -> int:
        """The bits of f32's mantissa that a normal number does not keep."""
        return _BITS - self.fp_mantissa_width

    @property
    def rebias(self) -> int:
        """The difference of the upper bits of a normal number in f32 and its code."""
        return (_BIAS - self.exponent_bias) << self.fp_mantissa_width

    @property
    def least_normal(self) -> int:
        """The bits of the least normal number."""
        return (1 - self.exponent_bias + _BIAS) << _BITS

    @property
    def step(self) -> int:
        """The exponent of the least number."""
        return 1 - self.exponent_bias - self.fp_mantissa_width


float8e4nv = Float8("fp8e4nv", 3, 7, 0x7E, "float8_e4m3fn")
float8e5 = Float8("fp8e5", 2, 15, 0x7B, "float8_e5m2")
#: By what NumPy and PyTorch call them.
BY_NUMPY_NAME = {dtype.numpy_name: dtype for dtype in (float8e4nv, float8e5)}


@dataclass(frozen=True, eq=False)
class Float8Tile:
    """A tile of float8, or one number."""

    codes: Traced
    dtype: Float8

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    @property
    def T(self) -> Float8Tile:
        return Float8Tile(self.codes.T, self.dtype)

    @property
    def type(self) -> Any:
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    def to(self, dtype: Any, *how: Any, **named: Any) -> Any:
        return current().vocabulary.to(self, dtype, *how, **named)

    def __getattr__(self, name: str) -> Any:
        if name in _MOVING:
            return partial(_MOVING[name], self)
        raise AttributeError(f"{self.dtype} has no .{name}", name=name, obj=self)

    def __getitem__(self, index: Any) -> Float8Tile:
        return Float8Tile(self.codes[index], self.dtype)

    def reject_use(self, *operands: object) -> NoReturn:
        """Refuse to be computed with."""
        raise error_here(
            DTypeError, f"{self.dtype} is stored and converted; compute with x.to(tl.float32)"
        )


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift"),
    *("rshift", "matmul", "radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow"),
    *("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "bool"),
):
    setattr(Float8Tile, f"__{_name}__", Float8Tile.reject_use)


_MOVING: dict[str, Callable[..., Any]] = {}


def moving(word: Callable[..., Any]) -> Callable[..., Any]:
    """A word that moves the elements of a tile, for tiles of float8, too."""

    @wraps(word)
    def call(input: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(input, Float8Tile):
            return Float8Tile(word(input.codes, *arguments, **named), input.dtype)
        return word(input, *arguments, **named)

    _MOVING[word.__name__] = call
    return call


def convert(x: Any, dtype: DType | Float8, bitcast: bool) -> Traced | Float8Tile:
    """A value in another dtype, where one of the two is float8."""
    if bitcast:
        codes = x.codes if isinstance(x, Float8Tile) else as_traced(x)
        if isinstance(dtype, Float8):
            if codes.dtype.bits != 8:
                raise error_here(DTypeError, f"{dtype} has 8 bits, and {codes.dtype} has not")
            return Float8Tile(_bitcast(codes, u8), dtype)
        return _bitcast(codes, as_dtype(dtype))
    number = decoded(x) if isinstance(x, Float8Tile) else as_traced(x)
    if isinstance(dtype, Float8):
        return Float8Tile(encoded(cast(number, f32), dtype), dtype)
    return cast(number, as_dtype(dtype))


def _bitcast(x: Traced, dtype: DType) -> Traced:
    return x if x.dtype is dtype else iris.bitcast(x, dtype)


def decoded(x: Float8Tile) -> Traced:
    """The numbers, in f32."""
    dtype, code = x.dtype, cast(x.codes, u32)
    size = code & u32_(0x7F)
    normal = size * u32_(1 << dtype.cut) + u32_(dtype.rebias << dtype.cut)
    small = iris.bitcast(cast(cast(size, i32), f32) * 2.0**dtype.step, u32)
    bits = iris.where(size < u32_(1 << dtype.fp_mantissa_width), small, normal)
    # Beyond the greatest number f32's exponent is all ones: infinity or nan, as the mantissa says.
    special = (size * u32_(1 << dtype.cut)) | u32_(_INFINITY)
    bits = iris.where(size > u32_(dtype.greatest), special, bits)
    return iris.bitcast(bits | (code & u32_(0x80)) * u32_(1 << 24), f32)


def encoded(x: Traced, dtype: Float8) -> Traced:
    """The codes nearest to numbers in f32, ties to even."""
    bits = iris.bitcast(x, u32)
    size = bits & u32_(0x7FFFFFFF)
    odd = (size >> u32_(dtype.cut)) & u32_(1)
    rounded = (size + u32_((1 << (dtype.cut - 1)) - 1) + odd) >> u32_(dtype.cut)
    normal = iris.minimum(rounded - u32_(dtype.rebias), u32_(dtype.greatest))
    # In this sum the last bit of f32's mantissa is worth the least number.
    unit = 2.0 ** (dtype.step + _BITS)
    total = iris.bitcast(iris.bitcast(size, f32) + unit, u32)
    small = total - u32_((dtype.step + _BITS + _BIAS) << _BITS)
    code = iris.where(size < u32_(dtype.least_normal), small, normal)
    code = iris.where(size > u32_(_INFINITY), u32_(0x7F), code)
    return cast(code | ((bits >> u32_(24)) & u32_(0x80)), u8)


def float8_of(pointer: object) -> Float8 | None:
    """The float8 whose codes the array of a pointer holds, if it does."""
    return BY_NUMPY_NAME.get(pointer.encoding) if isinstance(pointer, Address) else None


def loaded_as(dtype: Float8 | None, x: Traced) -> Traced | Float8Tile:
    """What was loaded from an array, which may hold codes."""
    return x if dtype is None else Float8Tile(x, dtype)


def stored_as(dtype: Float8 | None, value: Any) -> Any:
    """What to store in an array, which may hold codes."""
    if dtype is None:
        return decoded(value) if isinstance(value, Float8Tile) else value
    is_code = isinstance(value, Float8Tile) and value.dtype is dtype
    return value.codes if is_code else convert(value, dtype, bitcast=False).codes


def check_is_plain(pointer: object, use: str) -> None:
    """Refuse what computes with the elements of an array, where they are codes."""
    dtype = float8_of(pointer)
    if dtype is not None:
        raise error_here(DTypeError, f"{use} is not for {dtype}, which is stored and converted")


def u32_(number: int) -> Traced:
    return cast(number, u32)
