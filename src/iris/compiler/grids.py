"""The grid of a launch: how many programs run, as the user says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from iris.compiler.arguments import Call
from iris.errors import ArgumentError, IrisError
from iris.frontend.tracing import error_at, error_from, error_here
from iris.frontend.values import Traced
from iris.ir.types import i32, i64
from iris.runtime.device import Grid

GridLike: TypeAlias = "int | Sequence[int] | Callable[[dict[str, Any]], int | Sequence[int]]"


def as_grid(grid: GridLike | None, given: Call | None) -> Grid:
    """The numbers of programs along the three axes; a function of the arguments is called."""
    if type(grid) is int and 0 <= grid <= i32.high:
        return grid, 1, 1
    if grid is None:
        raise error_here(
            ArgumentError, "how many programs are there? say grid= to lower and prepare, as grid=8"
        )
    if not callable(grid):
        return _sizes(grid, error_here)
    name = getattr(grid, "__name__", type(grid).__name__)
    arguments = {} if given is None else given.arguments
    try:
        sizes = grid(arguments)
    except IrisError:
        raise
    except Exception as error:
        message = f"the grid function {name} failed: {type(error).__name__}: {error}"
        given_it = f"; it is given the arguments by name: {', '.join(arguments)}"
        raise error_from(ArgumentError, error, message + given_it) from error

    def wrong(kind: type[ArgumentError], message: str) -> ArgumentError:
        code = getattr(grid, "__code__", None)
        message = f"the grid function {name}: {message}"
        if code is None:
            return error_here(kind, message)
        return error_at(kind, message, code.co_filename, code.co_firstlineno)

    return _sizes(sizes, wrong)


def _sizes(
    grid: int | Sequence[int],
    wrong: Callable[[type[ArgumentError], str], ArgumentError],
) -> Grid:
    """The three sizes of a grid that is no function."""
    sizes = grid if isinstance(grid, (tuple, list)) else (grid,)
    if not 1 <= len(sizes) <= 3 or not all(map(_is_size, sizes)):
        raise wrong(
            ArgumentError,
            f"a grid is an int or a tuple of up to three, none negative; not {grid!r}",
        )
    padded = (*[int(n) for n in sizes], 1, 1)[:3]
    if max(padded) > i32.high or prod(padded) > i64.high:
        raise wrong(
            ArgumentError,
            "a grid has at most 2**31 - 1 programs along an axis, and 2**63 - 1 in all; not "
            f"{grid!r}",
        )
    return padded[0], padded[1], padded[2]


def _is_size(n: object) -> bool:
    if type(n) is int:  # as most are
        return n >= 0
    return isinstance(n, (int, np.integer)) and not isinstance(n, (bool, Traced)) and int(n) >= 0
