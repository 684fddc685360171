"""One value followed through every pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iris.errors import ArgumentError
from iris.ir.core import Op, Value
from iris.viewer.listing import Listing
from iris.viewer.record import Stage, listings_of


def trace(name: str, stages: Sequence[Stage]) -> str:
    """How a value is defined, in each stage that defines it otherwise than the one before.

    canonicalize   %y: tile<64xf32> = add %x, %x
    assign-layouts %y: tile<64xf32, linear<...>> = add %x, %x
    """
    name = f"%{name.removeprefix('%')}"
    listings = listings_of(stages)
    first, value = _first(name, stages, listings)
    found = [(stages[first].name, _definition(value, listings[first]))]
    for stage, text in zip(stages[first + 1 :], listings[first + 1 :], strict=True):
        old, new = value, stage.became.get(value)
        if new is None:
            found.append((stage.name, "is gone"))
            break
        if not _reads_the_same(old, new, stage.became):
            found.append((stage.name, _definition(new, text)))
        value = new
    width = max(len(stage) for stage, _ in found)
    return "\n".join([f"{stage:{width}}  {line}" for stage, line in found])


def _first(name: str, stages: Sequence[Stage], listings: Sequence[Listing]) -> tuple[int, Value]:
    """The first stage that has a value of a name, and the value."""
    for number, text in enumerate(listings):
        for value, known in text.names.items():
            if known == name:
                return number, value
    raise ArgumentError(f"no stage has a value called {name}")


def _reads_the_same(old: Value, new: Value, became: Mapping[Value, Value]) -> bool:
    """Whether a value is defined as before, apart from what values are called."""
    one, other = old.owner, new.owner
    return (
        old.type is new.type
        and type(one) is type(other)
        and (one is None or other is None or _is_same_op(one, other, became))
    )


def _is_same_op(one: Op, other: Op, became: Mapping[Value, Value]) -> bool:
    operands = [became.get(v) for v in one.operands]
    return one.attributes == other.attributes and operands == list(other.operands)


def _definition(value: Value, text: Listing) -> str:
    line = text.definition(value)
    return "" if line is None else text.lines[line].strip()
