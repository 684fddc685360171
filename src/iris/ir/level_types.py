"""The types that a function may have: types of its level, laid out for its simdgroups."""

from __future__ import annotations

from iris.ir.control import Func
from iris.ir.core import Level, Op
from iris.ir.layout.linear import SIMDGROUP
from iris.ir.types import Ptr, Registers, Staged, Tensor, Threadgroup, Tile, Type

#: The levels of each type that is not of all.
LEVELS: dict[type[Type], frozenset[Level]] = {
    Tensor: frozenset({Level.GRAPH}),
    Tile: frozenset({Level.TILE}),
    Staged: frozenset({Level.TILE}),
    Ptr: frozenset({Level.TILE, Level.METAL}),
    Registers: frozenset({Level.METAL}),
    Threadgroup: frozenset({Level.METAL}),
}


def misplaced(type_: Type, function: Func) -> str | None:
    """Why a function has no value of a type; None if it may."""
    levels = LEVELS.get(type(type_))
    level = function.function_level
    if levels is not None and level not in levels:
        return f"{type_} is no type of the {level.value} level"
    if not isinstance(type_, Tile) or type_.layout is None or not function.simdgroups:
        return None
    count = type_.layout.size(SIMDGROUP)
    if count == function.simdgroups:
        return None
    return f"{type_} is laid out for {count} simdgroups, but the function has {function.simdgroups}"


def verify_placed_results(op: Op, function: Func) -> None:
    """Check the types of an op's results."""
    for index, value in enumerate(op.results):
        wrong = misplaced(value.type, function)
        if wrong is not None:
            raise op.invalid(wrong, at="results", index=index)


def verify_placed_arguments(op: Op, position: int, function: Func) -> None:
    """Check the types of the arguments of one of an op's regions, and of a function's results."""
    for index, value in enumerate(op.regions[position].arguments):
        wrong = misplaced(value.type, function)
        if wrong is not None:
            raise op.invalid(wrong, at="arguments", index=index)
    for type_ in function.returns if op is function else ():
        wrong = misplaced(type_, function)
        if wrong is not None:
            raise op.invalid(wrong, at="returns")


def simdgroups_of_layouts(function: Func) -> int:
    """How many simdgroups the tiles of a function are laid out for; 0 if none is laid out."""
    types = (value.type for op in function.walk() for value in op.results)
    layouts = (t.layout for t in types if isinstance(t, Tile) and t.layout is not None)
    return next((layout.size(SIMDGROUP) for layout in layouts), 0)
