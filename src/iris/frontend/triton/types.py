"""Triton's types. Its dtypes are Iris's own, which answer here to Triton's questions, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from iris.frontend.language import constexpr as marker
from iris.frontend.values import cast
from iris.ir import types
from iris.ir.types import DType, Kind

int1 = types.bool_
int8, int16, int32, int64 = types.i8, types.i16, types.i32, types.i64
uint8, uint16, uint32, uint64 = types.u8, types.u16, types.u32, types.u64
float16, bfloat16, float32 = types.f16, types.bf16, types.f32


class _Known:
    """A number or text that is its own `.value`."""

    @property
    def value(self: Any) -> Any:
        return type(self).__mro__[2](self)


class _Int(_Known, int):
    pass


class _Float(_Known, float):
    pass


class _Text(_Known, str):
    pass


_KNOWN: dict[type, type] = {int: _Int, float: _Float, str: _Text}


class constexpr(marker):
    """Marks a parameter that is a plain Python value while the kernel is traced; `constexpr(x)` is
    x, as every value known then is plain."""

    def __new__(cls, value: Any) -> Any:
        known = _KNOWN.get(type(value))
        return value if known is None else known(value)


class const:
    """Marks a pointer that is only read."""


class void:
    """What a pointer to anything points to, in annotations."""


class PropagateNan(Enum):
    """Whether the greater of a number and a nan is the number."""

    NONE = 0
    ALL = 0xFFFF


@dataclass(frozen=True)
class pointer_type:
    """The type of a pointer."""

    element_ty: Any  # a dtype
    address_space: int = 1

    @property
    def scalar(self) -> pointer_type:
        return self

    def is_ptr(self) -> bool:
        return True

    def is_block(self) -> bool:
        return False


@dataclass(frozen=True)
class block_type:
    """The type of a tile; its elements are of `element_ty`."""

    element_ty: Any  # a dtype or a pointer's type
    shape: tuple[int, ...]

    @property
    def scalar(self) -> Any:
        return self.element_ty

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return True

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape


class dtype:
    """The class of dtypes in annotations and `isinstance`; `dtype("fp32")` is `float32`."""

    def __new__(cls, name: str) -> DType:  # type: ignore[misc]
        return BY_NAME[name]


#: By the names that Triton prints.
BY_NAME = {
    "int1": int1,
    "fp16": float16,
    "bf16": bfloat16,
    "fp32": float32,
    **{f"int{n}": types.DTYPES[f"i{n}"] for n in (8, 16, 32, 64)},
    **{f"uint{n}": types.DTYPES[f"u{n}"] for n in (8, 16, 32, 64)},
}
_NAMES = {dtype: name for name, dtype in BY_NAME.items()}
_MANTISSAS = {float16: 10, bfloat16: 7, float32: 23}


def name_of(dtype: DType) -> str:
    """What Triton calls a dtype."""
    return _NAMES[dtype]


def _is(*wanted: DType) -> Callable[[DType], Callable[[], bool]]:
    return lambda dtype: lambda: dtype in wanted


_SIGNED = (Kind.SIGNED,)
_UNSIGNED = (Kind.UNSIGNED, Kind.BOOL)  # as Triton has it, where a bool is an int of one bit
_PROPERTIES: dict[str, Callable[[DType], Any]] = {
    "scalar": lambda dtype: dtype,
    "primitive_bitwidth": lambda dtype: 1 if dtype is int1 else dtype.bits,
    "int_bitwidth": lambda dtype: 1 if dtype is int1 else dtype.bits,
    "fp_mantissa_width": lambda dtype: _MANTISSAS[dtype],
    "itemsize": lambda dtype: dtype.bits // 8,
    "is_ptr": _is(),
    "is_block": _is(),
    "is_void": _is(),
    "is_fp8": _is(),
    "is_fp64": _is(),
    "is_fp16": _is(float16),
    "is_bf16": _is(bfloat16),
    "is_fp32": _is(float32),
    "is_bool": _is(int1),
    "is_floating": lambda dtype: lambda: dtype.is_float,
    "is_standard_floating": lambda dtype: lambda: dtype.is_float,
    "is_int": lambda dtype: lambda: not dtype.is_float,
    "is_int_signed": lambda dtype: lambda: dtype.kind in _SIGNED,
    "is_int_unsigned": lambda dtype: lambda: dtype.kind in _UNSIGNED,
    "get_int_min_value": lambda dtype: lambda: dtype.low,
    "get_int_max_value": lambda dtype: lambda: dtype.high,
    **{f"is_{name}": _is(d) for name, d in BY_NAME.items() if not d.is_float},
}
for _name, _get in _PROPERTIES.items():
    setattr(DType, _name, property(_get))
setattr(DType, "__call__", lambda dtype, x: cast(x, dtype))  # noqa: B010


def get_int_dtype(bitwidth: int, signed: bool) -> DType:
    """The integer of a width."""
    return int1 if bitwidth == 1 else BY_NAME[f"{'' if signed else 'u'}int{bitwidth}"]
