"""Numbers that remember which numbers they were computed from.

A variable of a kernel may hold a Python number while the kernel is traced.  Where it is assigned a
tile, whether that is made of the number is not to be seen from the number alone: 0.0 is 0.0.  So
numbers in variables are of a class of their own, else a number like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class VariableNumber:
    """A number in a variable, or one computed from such."""

    sources: tuple[VariableNumber, ...] = ()
    carried = False  # whether a loop changes the variable: then it is no weak number in the loop

    def is_from(self, other: VariableNumber) -> bool:
        """Whether this is another, or was computed from it."""
        todo: list[VariableNumber] = [self]
        seen: set[int] = set()
        while todo:
            number = todo.pop()
            if number is other:
                return True
            if id(number) not in seen:
                seen.add(id(number))
                todo += number.sources
        return False


class VariableInt(VariableNumber, int):
    pass


class VariableFloat(VariableNumber, float):
    pass


_CLASSES: dict[type, Callable[[Any], VariableNumber]] = {int: VariableInt, float: VariableFloat}


def as_variable(x: Any) -> Any:
    """A plain int or float as one that is known again; anything else as it is."""
    kind = _CLASSES.get(type(x))
    return x if kind is None else kind(x)


def _tracing(kind: type, name: str) -> Callable[..., Any]:
    function = getattr(kind, name)

    def operator(self: VariableNumber, *others: Any) -> Any:
        result = as_variable(function(self, *others))
        if isinstance(result, VariableNumber):
            result.sources = (self, *[x for x in others if isinstance(x, VariableNumber)])
            result.carried = any(x.carried for x in result.sources)
        return result

    return operator


def plain(x: Any) -> Any:
    """A number as one of Python's own; anything else as it is."""
    if isinstance(x, VariableInt):
        return int(x)
    return float(x) if isinstance(x, VariableFloat) else x


def as_attribute(x: Any) -> Any:
    """An attribute as the IR has it: its ints, alone or in a tuple, are of Python's own class."""
    if type(x) is tuple:
        return tuple(map(as_attribute, x))
    return int(x) if isinstance(x, int) and type(x) is not bool else x


def carry(values: Iterable[object]) -> None:
    """Note of the numbers among some values that a loop changes the variables they are in."""
    for x in values:
        if isinstance(x, VariableNumber):
            x.carried = True


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_BITS = ("and", "or", "xor", "lshift", "rshift")
for _kind, _class, _words in (
    (int, VariableInt, (*_BINARY, *_BITS)),
    (float, VariableFloat, _BINARY),
):
    for _name in (*_words, *[f"r{word}" for word in _words], "neg", "abs"):
        setattr(_class, f"__{_name}__", _tracing(_kind, f"__{_name}__"))
