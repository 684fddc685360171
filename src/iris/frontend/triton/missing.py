"""The words of `triton.language` that Iris does not have, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from iris.errors import LanguageError
from iris.frontend.tracing import error_here

#: Why each word is refused.
MISSING: dict[str, str] = {
    "bitonic_merge": "it is a step of a sort; sort with tl.sort",
    "atomic_load": "write a load with volatile=True, or atomic_add(pointer, 0)",
    "atomic_poll": "write a while loop of atomic_cas or of loads with volatile=True",
    "dot_scaled": "no Apple GPU multiplies scaled formats; scale the operands and use tl.dot",
    "inline_asm_elementwise": "it is the assembly of another GPU; write it in tl",
    "expect_zero": "it is for the checks of another compiler",
    "target_info": "a kernel does not ask where it runs; pass what it needs as a constexpr",
}

#: The dtypes that no Apple GPU has, which are values, and no functions.
MISSING_DTYPES = (
    "float64",
    "float8e4b15",
    "float8e4b8",
    "float8e5b16",
)


def refusing(name: str, why: str) -> Callable[..., NoReturn]:
    """A word that refuses to be called."""

    def refuse(*arguments: Any, **named: Any) -> NoReturn:
        raise error_here(LanguageError, f"tl.{name} is not supported: {why}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class MissingType:
    """A dtype that stands for none: it can be named and compared, and not computed with."""

    def __init__(self, name: str):
        self.__name__ = name

    def __repr__(self) -> str:
        return self.__name__
