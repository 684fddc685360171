"""What operators mean in a kernel of the tile language; another language overrides what differs."""

from __future__ import annotations

from typing import Any

from iris.frontend.traced_control import traced_range
from iris.frontend.values import Pointer, Traced, binary, divide, no_attribute, promote
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

    def attribute(self, x: Traced | Pointer, name: str) -> Any:
        raise no_attribute(x, name)


#: The vocabulary of `iris`.
IRIS = TileVocabulary()
