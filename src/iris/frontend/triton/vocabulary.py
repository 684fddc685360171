"""What operators mean in a kernel of Triton's, where it is not what they mean in one of Iris's.

Division truncates, floats are divided in f32 at least, `range` is always a loop of the program,
and Python's `min` and `max` take tiles.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection
from functools import reduce
from typing import Any

from iris.errors import DTypeError
from iris.frontend.decorated import Decorated
from iris.frontend.numbers import VariableNumber
from iris.frontend.traced_control import TracedRange, traced_range
from iris.frontend.tracing import error_here
from iris.frontend.triton import arithmetic, language, methods
from iris.frontend.triton.float8 import BY_NUMPY_NAME, Float8, float8_of
from iris.frontend.triton.types import block_type, pointer_type
from iris.frontend.values import (
    Address,
    Traced,
    as_traced,
    promote,
    truth,
)
from iris.frontend.vocabulary import TileVocabulary
from iris.ir.types import DType, bf16, bool_, f16, f32


class TritonVocabulary(TileVocabulary):
    """The meaning of operators in a kernel of Triton's."""

    def promote(self, a: DType, b: DType) -> DType:
        if a.is_float and b.is_float and f16 in (a, b) and bf16 in (a, b):
            return f16
        if bf16 in (a, b) and not (a.is_float and b.is_float):
            return f32
        return promote(a, b)

    def truediv(self, a: Any, b: Any) -> Traced:
        return arithmetic.ratio(a, b)

    def floordiv(self, a: Any, b: Any) -> Traced:
        return arithmetic.quotient(a, b)

    def mod(self, a: Any, b: Any) -> Traced:
        return arithmetic.remainder(a, b)

    def builtin(self, function: Any) -> Any:
        return next((word for known, word in _BUILTINS if known is function), function)

    def range_of(self, *bounds: Any, **hints: Any) -> TracedRange:
        return traced_range(*bounds)

    def condition(self, x: Traced, word: str) -> Traced:
        if x.shape and x.dtype is not bool_:
            raise error_here(DTypeError, f"{word} is for bools, not {x}")
        return truth(x)

    def to(self, x: Any, dtype: Any, *how: Any, **named: Any) -> Any:
        return language.cast(x, dtype, *how, **named)

    def dtype_of_pointer(self, pointer: Address) -> pointer_type:
        return pointer_type(float8_of(pointer) or pointer.element)

    def holds(self, pointer: Address) -> bool:
        return True  # where there is no array, None is passed

    def attribute(self, x: Traced | Address | VariableNumber, name: str) -> Any:
        if isinstance(x, VariableNumber):
            return getattr(as_traced(x), name)
        if name == "type":
            return _type_of(x)
        return methods.bound(x, name)

    def fixes(self, argument: object) -> bool:
        kinds = (str, DType, Float8, pointer_type, tuple, Decorated)
        return argument is None or isinstance(argument, kinds)

    @property
    def reckons_with_strides(self) -> bool:
        return True

    @property
    def encodings(self) -> Collection[str]:
        return BY_NUMPY_NAME


def _type_of(x: Traced | Address) -> Any:
    """The type of a value: of a tile, one that has a shape."""
    if isinstance(x, Address):
        shape = methods.addresses_of(x)
        return block_type(x.dtype, shape) if shape else x.dtype
    return block_type(x.dtype, x.shape) if x.shape else x.dtype


def _of_traced(function: Callable[..., Any], word: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python's for plain values, and a word of the language for traced ones."""

    def call(*operands: Any, **named: Any) -> Any:
        if not any(isinstance(x, Traced) for x in operands):
            return function(*operands, **named)
        return word(*operands, **named)

    return call


def _print(*values: Any) -> None:
    text = [v for v in values if isinstance(v, str)]
    language.device_print(" ".join(text), *[v for v in values if not isinstance(v, str)])


_BUILTINS = (
    (builtins.min, _of_traced(builtins.min, lambda *xs: reduce(language.minimum, xs))),
    (builtins.max, _of_traced(builtins.max, lambda *xs: reduce(language.maximum, xs))),
    (builtins.print, _of_traced(builtins.print, _print)),
)

TRITON = TritonVocabulary()
