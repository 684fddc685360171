"""Asserts and prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.frame import Frame
from iris.interp.metal.rules import interpretation
from iris.ir import metal

Array = npt.NDArray[Any]


@interpretation(metal.Assert)
def check(frame: Frame, op: metal.Assert, condition: Array) -> Sequence[Array]:
    frame.check(op, ~condition, f"assertion failed: {op.message}")
    return []


@interpretation(metal.Print)
def report(frame: Frame, op: metal.Print, *operands: Array) -> Sequence[Array]:
    count = len(op.values)
    full = [
        np.broadcast_to(x, frame.full(v)).reshape(*frame.size, -1)
        for v, x in zip(op.operands, operands, strict=True)
    ]
    reports, runner = frame.launch.reports, int(frame.threads[0])
    for row, number in enumerate((frame.rows + frame.chunk.start).tolist()):
        line = reports.line(op, number, runner)
        active = slice(None) if frame.active is None else frame.active[row]
        for tile, x, places in zip(line.tiles, full[:count], full[count:], strict=True):
            tile.give(frame.threads[active], x[row, active], places[row, active])
    return []
