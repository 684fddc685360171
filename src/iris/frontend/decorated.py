"""What a decorator makes of a function."""

from __future__ import annotations

from typing import TypeVar

from iris.errors import ArgumentError
from iris.frontend.tracing import error_here

Self = TypeVar("Self", bound="Decorated")


class Decorated:
    """A function that is compiled. It is no method: `self` is no argument of a kernel, and what it
    holds would stay as it was when the function was traced."""

    def __get__(self: Self, instance: object, owner: type | None = None) -> Self:
        if instance is None:
            return self
        name = getattr(self, "__name__", "it")
        raise error_here(
            ArgumentError,
            f"{name} is compiled and cannot be a method of {type(instance).__name__}; move it out "
            "of the class and pass the arrays as arguments, or use @staticmethod if it needs no "
            "self",
        )

    def __reduce__(self) -> str:
        """Like a function it is copied and pickled by its name."""
        name: str = getattr(self, "__qualname__", type(self).__name__)
        return name
