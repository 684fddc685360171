"""Writing and running thread programs in tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from iris.errors import ProgramError
from iris.interp.metal import run
from iris.ir import parse
from iris.ir.control import Func

Array = np.ndarray[Any, Any]

_numbers = count()

#: The thread's number in %t, its place in the grid in %p, and some constants.
HERE = """
%lane: i32 = metal.lane
%sg: i32 = metal.simdgroup
%p: i32 = metal.threadgroup_id 0
%c0: i32 = constant 0
%c1: i32 = constant 1
%c2: i32 = constant 2
%c4: i32 = constant 4
%c32: i32 = constant 32
%base: i32 = mul %sg, %c32
%t: i32 = add %base, %lane
"""


def function(arguments: str, body: str, simdgroups: int = 1, returns: str = "") -> Func:
    returning = f"returns=[{returns}], " if returns else ""
    lines = "\n".join(f"  {line.strip()}" for line in (HERE + body).strip().splitlines())
    last = "" if lines.split("\n")[-1].strip().startswith("return") else "\n  return"
    head = f"func metal @f {returning}simdgroups={simdgroups}({arguments})"
    (only,) = parse(f"{head} {{\n{lines}{last}\n}}\n")
    assert isinstance(only, Func)
    return only


def go(
    arguments: str,
    body: str,
    values: Sequence[Any],
    grid: int = 1,
    simdgroups: int = 1,
    interleavings: int = 3,
    **options: Any,
) -> None:
    """Runs a program in lockstep, in small chunks and in random interleavings: all must agree."""
    f = function(arguments, body, simdgroups)
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in values]
    run(f, (grid, 1, 1), values, **options)
    ways: list[dict[str, Any]] = [{"chunk_bytes": 1}, {"chunk_bytes": 3000}]
    ways += [{"interleave": seed} for seed in range(interleavings)]
    for way in ways:
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in before]
        run(f, (grid, 1, 1), copies, output=lambda line: None, **way)
        for one, other in zip(values, copies, strict=True):
            np.testing.assert_array_equal(one, other)


def value(
    arguments: str, body: str, type_: str, values: Sequence[Any], grid: int = 1, simdgroups: int = 1
) -> Array:
    """What a program returns, for each program a row per thread."""
    f = function(arguments, body, simdgroups, type_)
    (found,) = run(f, (grid, 1, 1), values)
    for way in ({"chunk_bytes": 1}, {"chunk_bytes": 3000}, {"interleave": 1}):
        (again,) = run(f, (grid, 1, 1), values, **way)  # type: ignore[arg-type]
        np.testing.assert_array_equal(again, found)
    return found


def fails(
    arguments: str,
    body: str,
    values: Sequence[Any],
    grid: int = 1,
    simdgroups: int = 1,
    interleavings: int = 3,
) -> ProgramError:
    """What running a program in lockstep reports; by turns it must report something, too."""
    f = function(arguments, body, simdgroups)
    for seed in range(interleavings):
        with pytest.raises(ProgramError):
            run(f, (grid, 1, 1), _copies(values), interleave=seed)
    with pytest.raises(ProgramError) as caught:
        run(f, (grid, 1, 1), _copies(values))
    return caught.value


def _copies(values: Sequence[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in values]


def when(condition: str, *lines: str) -> str:
    """Lines that run where a condition holds, which is `eq %t, %c0`, say."""
    number = next(_numbers)
    inside = "\n".join(lines)
    return f"""
    %is{number}: bool = compare {condition}
    if %is{number} {{
      {inside}
      yield
    }} else {{
      yield
    }}
    """


def total(simdgroups: int, barrier: str = "metal.barrier threadgroup") -> str:
    """The sum %sum, of what the threads of a threadgroup have in %x, for each of them."""
    lines = [f"%shared: threadgroup<{simdgroups}xi32> = metal.alloc"]
    last = "x"
    for mask in (16, 8, 4, 2, 1):
        lines += [
            f"%o{mask}: i32 = metal.shuffle_xor {mask} %{last}",
            f"%s{mask}: i32 = add %{last}, %o{mask}",
        ]
        last = f"s{mask}"
    lines += [when("eq %lane, %c0", f'metal.store %shared, %sg, %{last} at "sum.py":1'), barrier]
    lines += [
        f"%count: i32 = constant {simdgroups}",
        "%holds: bool = compare lt %lane, %count",
        '%y: i32 = metal.load %shared, %lane, mask=%holds, other=%c0 at "sum.py":2',
    ]
    last = "y"
    for mask in (16, 8, 4, 2, 1):
        lines += [
            f"%p{mask}: i32 = metal.shuffle_xor {mask} %{last}",
            f"%q{mask}: i32 = add %{last}, %p{mask}",
        ]
        last = f"q{mask}"
    return "\n".join([*lines, f"%sum: i32 = add %{last}, %c0"])
