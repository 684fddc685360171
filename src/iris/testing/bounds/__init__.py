"""How far any correct execution of a tile program may be from what `interp.tile` computes.

The interpreter runs a program as it is, and beside each value an *error* is kept: a float64 for
each element.  0: every correct execution has the very same bits there (one nan is like another).
Of a float, any other is a bound on the difference.  inf: the value is not determined; an integer
that is not exact is never more than that.

What makes errors out of none:

- the math functions that no target rounds correctly, by the target's table (`iris.targets`);
- sums, products and dots of floats, which may be made in any order, unless each order is exact;
- float atomics, likewise;
- with fast math every sum and product of floats, of which the order is anybody's (`reordered.py`).

Every other op is the same everywhere, so it only passes errors on: as intervals around the values
(`interval.py`), which are rounded as the op rounds.  A comparison of intervals that meet is not
determined; nor is, of a program that takes its condition from there, what it carries out of the
branch or loop, nor anything in the arrays to which it may write there.  Elements that do not count,
as what a masked load leaves out, are left out here, too (`masked.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.frame import Frame, Grid, Launch
from iris.interp.memory import Use, View
from iris.interp.tile import CHUNK_BYTES, run_chunks
from iris.ir import tile
from iris.ir.control import Func
from iris.ir.core import Value
from iris.targets import DEFAULT, Target
from iris.targets.target import EXPANSION_ULPS, Accuracy

# Each of these registers the rules of some ops.
from iris.testing.bounds import access, arithmetic, atomics, combine, reordered
from iris.testing.bounds.frame import BoundedFrame, BoundedLaunch

__all__ = ["access", "arithmetic", "atomics", "combine", "reordered", "run"]

Array = npt.NDArray[Any]


@np.errstate(all="ignore")
def run(
    function: Func,
    grid: Grid,
    arguments: Sequence[Any],
    *,
    target: Target = DEFAULT,
    exact_math: bool = False,
    output: Callable[[str], object] = print,
    chunk_bytes: int = CHUNK_BYTES,
) -> dict[int, Array]:
    """Runs a function as `interp.tile.run` does, with the same outcome; gives the errors of each
    array that it writes to, by the position of the argument.

    `exact_math`: for executions that share the interpreter's math functions, do not flush
    subnormal numbers, and compute in the order of the program, as that of Metal IR.  With fast math
    Metal IR has another order, too, and other functions.
    """
    contended = _contended(function, grid, arguments, chunk_bytes)
    fast = function.fast_math
    ulps = EXPANSION_ULPS if exact_math else target.ulps
    accuracy = target.fast_math if fast else {name: Accuracy(off) for name, off in ulps.items()}
    launch = BoundedLaunch(
        function,
        grid,
        arguments,
        accuracy,
        {} if exact_math else target.coarse,
        flushes=not exact_math,
        reorder=reordered.reorder if fast else None,
        contended=contended,
    )
    for _ in run_chunks(launch, BoundedFrame, output=output, chunk_bytes=chunk_bytes):
        pass
    return {value.index: _errors(launch, launch.views[value]) for value in launch.written}


def _errors(launch: BoundedLaunch, view: View) -> Array:
    if launch.is_doubted:
        return np.full(view.array.shape, np.inf)
    found = launch.memory.read(view, np.arange(view.size))
    return np.zeros(view.array.shape) if found is None else view.elements.shaped(found)


def _contended(
    function: Func, grid: Grid, arguments: Sequence[Any], chunk_bytes: int
) -> Mapping[Value, Array]:
    """Which units of the arrays several programs update atomically: found by a run for nothing
    else, as the first to come cannot know of the others."""
    if not any(isinstance(op, tile.Atomic | tile.AtomicCas) for op in function.walk()):
        return {}
    arrays = [x for x in arguments if isinstance(x, np.ndarray)]
    saved = [x.copy() for x in arrays]
    launch = Launch(function, grid, arguments)
    for _ in run_chunks(launch, Frame, output=lambda line: None, chunk_bytes=chunk_bytes):
        pass
    for array, before in zip(arrays, saved, strict=True):
        if array.flags.writeable:
            array[...] = before
    found = {}
    for value, view in zip(function.body.arguments, launch.arguments, strict=True):
        if isinstance(view, View) and view.shadow is not None and Use.ATOMIC in view.shadow.tables:
            found[value] = view.shadow.tables[Use.ATOMIC][1] != 0
    return found
