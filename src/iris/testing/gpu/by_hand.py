"""Kernels whose text is written by hand, in Metal's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.codegen.language import Language
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Array as ArrayPlace
from iris.codegen.source import Source
from iris.compiler.arguments import place
from iris.ir.control import Func
from iris.ir.core import Level
from iris.ir.scalar import from_bits, round_to, to_bits
from iris.ir.types import DType, Ptr, bf16
from iris.runtime.device import Device
from iris.runtime.messages import MathMode

Array = npt.NDArray[Any]

#: Of the math modes those in which Iris compiles.
MODES = tuple(MathMode)


def run(
    device: Device,
    body: str,
    entry: str,
    arrays: Sequence[Array],
    mode: MathMode = MathMode.SAFE,
    language: Language = MSL,
) -> None:
    """Run a kernel with one simdgroup; the arrays are its buffers, and get what it writes.

    Kernels of one body are compiled together.
    """
    is_fast = mode is not MathMode.SAFE
    found = place(device, {str(i): array for i, array in enumerate(arrays)})
    placed = [found[str(i)] for i in range(len(arrays))]
    parameters = [(f"A{i}", Ptr(a.dtype)) for i, a in enumerate(placed)]
    function = Func(entry, Level.METAL, parameters, simdgroups=1, fast_math=is_fast)
    source = Source(
        text=language.prologue + ("" if is_fast else language.exact_pragma) + body,
        entry=entry,
        threads=device.target.simdgroup_width,
        arguments=tuple([ArrayPlace(i, a.dtype, written=True) for i, a in enumerate(placed)]),
        extents=(),
        constants_buffer=None,
        constants_bytes=0,
        report_buffer=None,
        threadgroup_bytes=0,
        sites=(),
        first_line=1,
        locations=(),
        version=language.version,
    )
    program = device.compile(function, source)
    device.run(program, (1, 1, 1), placed)
    for argument, array in zip(placed, arrays, strict=True):
        device.copy_out(argument, array)


def none_of(wrong: Sequence[str]) -> None:
    """Raise an error of these lines, unless there are none."""
    if wrong:
        raise AssertionError("\n".join(wrong))


def wrong_lanes(name: str, uses: Mapping[str, tuple[Array, Array]]) -> list[str]:
    """For each use of a matrix the first lane that has other elements than it must."""
    return [
        f"{name}: of {use} lane {lane} has the elements {found[lane]}, not {right[lane]}"
        for use, (found, right) in uses.items()
        for lane in np.flatnonzero((found != right).any(axis=1))[:1]
    ]


def as_stored(dtype: DType, numbers: Array) -> Array:
    """Numbers as device memory holds them."""
    values = round_to(dtype, numbers.astype(np.float64))
    return to_bits(dtype, values) if dtype is bf16 else values


def as_values(dtype: DType, stored: Array) -> Array:
    """The numbers that device memory holds."""
    return from_bits(dtype, stored) if dtype is bf16 else stored
