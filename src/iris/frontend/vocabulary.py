"""What operators mean in a kernel of the tile language; another language overrides what differs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from iris.errors import ArgumentError, ControlFlowError
from iris.frontend.numbers import VariableNumber
from iris.frontend.traced_control import traced_range
from iris.frontend.tracing import error_here
from iris.frontend.values import (
    Address,
    Traced,
    as_dtype,
    binary,
    cast,
    divide,
    no_attribute,
    promote,
    truth,
)
from iris.ir import math
from iris.ir.types import DType


class TileVocabulary:
    """The meaning of operators and of Python's functions in a kernel."""

    def promote(self, a: DType, b: DType) -> DType:
        return promote(a, b)

    def truediv(self, a: Any, b: Any) -> Any:
        return divide(a, b)

    def floordiv(self, a: Any, b: Any) -> Any:
        return binary(math.FloorDiv, a, b)

    def mod(self, a: Any, b: Any) -> Any:
        return binary(math.Mod, a, b)

    def builtin(self, function: Any) -> Any:
        return function

    def range_of(self, *bounds: Any) -> Any:
        """A traced range if a bound is traced, so that a loop of constants runs while tracing."""
        if any(isinstance(x, Traced) for x in bounds):
            return traced_range(*bounds)
        return range(*bounds)

    def condition(self, x: Traced, word: str) -> Traced:
        if x.shape:
            operator = {"and": "&", "or": "|", "not": "~"}[word]
            raise error_here(
                ControlFlowError, f"{word} is for scalar conditions; for tiles write {operator}"
            )
        return truth(x)

    def to(self, x: Traced, dtype: Any, *how: Any, **named: Any) -> Traced:
        if how or named:
            raise error_here(ArgumentError, "x.to takes a dtype and nothing else")
        return cast(x, as_dtype(dtype))

    def dtype_of_pointer(self, pointer: Address) -> Any:
        return pointer.element

    def holds(self, pointer: Address) -> bool:
        pointer.reject_arithmetic()

    def attribute(self, x: Traced | Address | VariableNumber, name: str) -> Any:
        if isinstance(x, VariableNumber):
            raise AttributeError(f"a number has no .{name}", name=name, obj=x)
        raise no_attribute(x, name)

    def fixes(self, argument: object) -> bool:
        return argument is None

    @property
    def reckons_with_strides(self) -> bool:
        return False

    @property
    def encodings(self) -> Collection[str]:
        return ()


#: The vocabulary of `iris`.
IRIS = TileVocabulary()
