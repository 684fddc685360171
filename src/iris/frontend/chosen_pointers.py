"""Pointers that are chosen among several arrays, while the program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from iris.errors import DTypeError, PointerError
from iris.frontend.tracing import error_here
from iris.frontend.values import (
    Address,
    Pointer,
    Traced,
    as_offset,
    as_traced,
    binary,
    broadcast_shapes,
    describe,
    emit,
    select,
    spread,
    truth,
)
from iris.ir import math
from iris.ir.types import DType

Alternative = tuple[Traced, Pointer]


@dataclass(frozen=True, eq=False, repr=False)
class ChosenPointer(Address):
    """Pointers to several arrays, each with a condition: for each element, one of them holds.

    A loop carries it, as it does any value that is made of others.
    """

    alternatives: tuple[Alternative, ...]

    @property
    def name(self) -> str:
        return " or ".join([pointer.name for _, pointer in self.alternatives])

    @property
    def element(self) -> DType:
        return self.alternatives[0][1].element

    @property
    def encoding(self) -> str:
        return self.alternatives[0][1].encoding

    def each(self) -> list[tuple[Traced | None, Pointer]]:
        return list(self.alternatives)

    def __add__(self, offset: object) -> ChosenPointer:
        return ChosenPointer(_aligned([(c, pointer + offset) for c, pointer in self.alternatives]))

    def __getitem__(self, key: object) -> ChosenPointer:
        return ChosenPointer(
            tuple([(c[key] if c.shape else c, pointer[key]) for c, pointer in self.alternatives])
        )


def choose(condition: object, on_true: object, on_false: object) -> Any:
    """Element by element, one pointer or the other."""
    chosen = truth(condition)
    sides = (chosen, on_true), (emit(math.Not(chosen.value)), on_false)
    return chosen_among([one for holds, x in sides for one in _narrowed(holds, x)])


def _narrowed(condition: Traced, x: object) -> list[Alternative]:
    """The alternatives of a pointer, where a condition holds."""
    if not isinstance(x, Address):
        reject = getattr(x, "reject_use", None)  # a variable without a value
        if reject is not None:
            reject()
        raise error_here(PointerError, f"a pointer is chosen among pointers, not {describe(x)}")
    return [
        (condition if holds is None else binary(math.And, condition, holds), pointer)
        for holds, pointer in x.each()
    ]


def chosen_among(alternatives: Iterable[Alternative]) -> Address:
    """The pointer for which a condition holds; pointers to one array are one, at some offset."""
    by_array: dict[int, Alternative] = {}
    for condition, pointer in alternatives:
        known = by_array.get(id(pointer.base))
        if known is not None:
            offset = select(condition, _offset(pointer), _offset(known[1]))
            condition, pointer = binary(math.Or, condition, known[0]), pointer.at(offset)
        by_array[id(pointer.base)] = condition, pointer
    # In the order of parameters, whichever was named first: a loop carries each in its place.
    found = _aligned(sorted(by_array.values(), key=lambda one: one[1].base.index))
    check_one_dtype([pointer for _, pointer in found])
    return ChosenPointer(found) if len(found) > 1 else found[0][1]


def check_one_dtype(pointers: Sequence[Address]) -> None:
    """Refuse to choose among arrays of different dtypes."""
    held = {pointer.encoding or pointer.element.name for pointer in pointers}
    if len(held) > 1:
        names = " and ".join([pointer.name for pointer in pointers])
        raise error_here(
            DTypeError,
            f"{names} hold {' and '.join(sorted(held))}; a pointer is chosen among arrays of one "
            "dtype",
        )


def _aligned(alternatives: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """Offsets of one shape; conditions are scalars, or of that shape, too."""
    pairs = [(c, pointer, _offset(pointer)) for c, pointer in alternatives]
    shape = broadcast_shapes(*[x.shape for c, _, offset in pairs for x in (c, offset)])
    return tuple(
        [
            (spread(c, shape) if c.shape else c, pointer.at(spread(offset, shape)))
            for c, pointer, offset in pairs
        ]
    )


def _offset(pointer: Pointer) -> Traced:
    return as_offset(0) if pointer.offset is None else pointer.offset


def through(chosen: ChosenPointer, mask: object, access: Callable[[Pointer, Traced], Any]) -> Any:
    """Access each array where its pointer is chosen and a mask holds; what that gives, if it gives
    anything."""
    result: Traced | None = None
    for condition, pointer in chosen.alternatives:
        allowed = condition
        if mask is not None and mask is not True:
            allowed = binary(math.And, condition, as_traced(mask))
        given = access(pointer, allowed)
        if given is not None:
            result = given if result is None else select(condition, given, result)
    return result
