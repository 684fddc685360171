"""Metal's types by their names: scalars, vectors, and declarations of parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from iris.errors import DTypeError
from iris.frontend.tracing import error_here
from iris.frontend.values import (
    Traced,
    as_traced,
    cast,
    constant,
    describe,
    emit,
    is_number,
    spread,
)
from iris.ir import metal
from iris.ir.types import (
    DTYPES,
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

SCALARS = {
    "bool": bool_,
    "char": i8,
    "short": i16,
    "int": i32,
    "long": i64,
    "uchar": u8,
    "ushort": u16,
    "uint": u32,
    "ulong": u64,
    "half": f16,
    "bfloat": bf16,
    "float": f32,
}


@dataclass(frozen=True)
class MetalType:
    """A type of scalars, or of vectors of 2 to 4; called, it makes a value of the type.

    v = metal.float4(p.xyz, 1)
    """

    name: str
    element: DType
    width: int = 1
    stride: int = 1  # how far elements of an array are apart, in scalars

    def __call__(self, *values: Any) -> Traced:
        """The values one after the other, or one value in every element."""
        parts = [self._part(value) for value in values]
        count = sum([part.shape[0] if part.shape else 1 for part in parts])
        if len(parts) == 1 and count == 1:
            return spread(parts[0], () if self.width == 1 else (self.width,))
        if count != self.width or not parts:
            given = ", ".join([describe(value) for value in values]) or "nothing"
            raise error_here(DTypeError, f"{self.name} is made of {self.width} values, not {given}")
        return parts[0] if len(parts) == 1 else emit(metal.join([part.value for part in parts]))

    def _part(self, value: Any) -> Traced:
        if is_number(value):
            return constant(value, self.element)
        return cast(as_traced(value), self.element)

    def __repr__(self) -> str:
        return f"metal.{self.name}"


def _vectors() -> dict[str, MetalType]:
    types = {}
    for name, dtype in SCALARS.items():
        types[name] = MetalType(name, dtype)
        for width in (2, 3, 4):
            types[f"{name}{width}"] = MetalType(f"{name}{width}", dtype, width, width + width % 2)
            types[f"packed_{name}{width}"] = MetalType(f"packed_{name}{width}", dtype, width, width)
    return types


#: The types by their names in Metal: a `float3` of an array takes the place of four floats, a
#: `packed_float3` that of three.
TYPES = _vectors()


class Declaration(NamedTuple):
    """What a kernel says of a parameter."""

    type: MetalType
    is_array: bool
    is_const: bool  # its elements are not written


_WORDS = re.compile(r"[A-Za-z_]\w*|[*&]")
_QUALIFIERS = {"device", "constant", "const"}


def declaration(name: str, said: object) -> Declaration:
    """What a declaration says, such as `"device const float*"`."""
    if not isinstance(said, str):
        return Declaration(as_type(said), is_array=False, is_const=True)
    # An annotation may be kept as its text: that of a string, or of a name such as `metal.uint`.
    text = said.strip("'\"").split(".")[-1]
    words = _WORDS.findall(text)
    type_name, *rest = [w for w in words if w not in _QUALIFIERS] or [""]
    if rest not in ([], ["*"], ["&"]) or "".join(text.split()) != "".join(words):
        raise error_here(
            DTypeError,
            f'{name} is declared {said!r}; write "device const float*", "device float4*", "uint", '
            "and the like",
        )
    type_, is_array = as_type(type_name), rest == ["*"]
    if type_.width > 1 and not is_array:
        raise error_here(
            DTypeError, f'a vector is no argument by itself: declare {name} "constant {type_name}*"'
        )
    return Declaration(type_, is_array, not {"const", "constant"}.isdisjoint(words))


def as_type(type_: object) -> MetalType:
    """A type, given as such, by its name, or as a dtype."""
    if isinstance(type_, MetalType):
        return type_
    if isinstance(type_, str) and type_ in TYPES:
        return TYPES[type_]
    dtype = DTYPES.get(type_) if isinstance(type_, str) else type_
    if isinstance(dtype, DType):
        return _OF_DTYPE[dtype]
    raise error_here(
        DTypeError, f"no type is called {type_!r}; there are {', '.join(SCALARS)}, float4 and so on"
    )


_OF_DTYPE = {dtype: TYPES[name] for name, dtype in SCALARS.items()}
