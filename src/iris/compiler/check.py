"""The differential check of IRIS_CHECK=1: every stage of a kernel must do the same.

Each stage runs in the interpreter, on copies of the arguments; the first pass after which an array
differs is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iris.compiler.arguments import Array, place
from iris.errors import PassError
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import Pipeline, run
from iris.passes.instruments import Snapshots
from iris.runtime.buffer import Buffer
from iris.runtime.device import Grid
from iris.runtime.interpreters import Interpreter


def check_stages(
    traced: Module,
    pipeline: Pipeline,
    grid: Grid,
    passed: Mapping[str, Any],
    written: frozenset[str],
) -> None:
    """Raise `PassError` for the first pass that changes what a launch writes."""
    snapshots = Snapshots()
    run(traced, pipeline, [snapshots])
    first, *others = snapshots.stages
    expected = _outcome(first.module, grid, passed, written)
    for stage in others:
        if not stage.changed:
            continue
        for name, array in _outcome(stage.module, grid, passed, written).items():
            if not _equal(array, expected[name]):
                where = np.argwhere(_bits(array) != _bits(expected[name]))[0]
                raise PassError(
                    f"the pass {stage.name} changed what the kernel does: "
                    f"{name}[{', '.join(map(str, where))}] differs"
                )


def _outcome(
    module: Module, grid: Grid, passed: Mapping[str, Any], written: frozenset[str]
) -> dict[str, Array]:
    """The arrays that a module writes, run on copies of the arguments."""
    device = Interpreter()
    given = {n: v.numpy() if isinstance(v, Buffer) else v for n, v in passed.items()}
    arrays = {n: a for n, a in given.items() if isinstance(a, np.ndarray)}
    placed = place(device, arrays)
    entry = next(iter(module))
    if isinstance(entry, Func):
        device.launch(device.compile(entry), grid, [placed.get(n, v) for n, v in given.items()])
    results = {name: np.empty_like(arrays[name]) for name in written & arrays.keys()}
    for name, result in results.items():
        device.copy_out(placed[name], result)
    return results


def _equal(a: Array, b: Array) -> bool:
    return bool((_bits(a) == _bits(b)).all())


def _bits(array: Array) -> Array:
    """What to compare: the bits, but that one nan is like another."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
