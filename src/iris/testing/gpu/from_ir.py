"""Tile programs that a device runs as text, held against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from iris.codegen import emit
from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import IrisError, OutOfResources
from iris.passes import run
from iris.runtime import device as runtime
from iris.runtime.device import Device
from iris.testing.levels import Disagreement, Expected, with_simdgroups
from iris.testing.texts import Ran, language_of, together
from iris.tools.replay import Program

#: In so many orders a device that has a choice runs the threads.
ORDERS = range(3)


def differences(device: Device, programs: Sequence[Program], simdgroups: int) -> list[str]:
    """Run programs by a number of simdgroups; a line for each result that is out of bounds.

    All are compiled as one text.  Those that the device has no room for are left out.
    """
    language = language_of(device)
    pipeline = with_simdgroups(METAL_PIPELINE, simdgroups).on(device.target)
    fitting, lowered = [], []
    for program in programs:
        try:
            lowered.append(program.with_module(run(program.module, pipeline)))
        except OutOfResources:
            continue
        fitting.append(program)
    sources = together([emit(made.function, language) for made in lowered], language)
    wrong = []
    for program, made, source in zip(fitting, lowered, sources, strict=True):
        try:
            compiled = device.compile(made.function, source)
            wrong += _differences(device, program, compiled, f"by {simdgroups} simdgroups")
        except OutOfResources:
            continue
        except IrisError as error:
            wrong.append(f"{program.entry} by {simdgroups} simdgroups: {_first_line(error)}")
    return wrong


def _differences(
    device: Device, program: Program, compiled: runtime.Program, how: str
) -> list[str]:
    """A line for each array that is out of bounds, in the first order that has any."""
    expected = Expected.of(program, exact_math=False, target=device.target)
    wrong: list[str] = []
    try:
        for order in ORDERS:
            device.shuffle(order)
            found = Ran.of(device, compiled, program).arguments
            for position in expected.errors:
                try:
                    expected.compare_array(position, found)
                except Disagreement as error:
                    wrong.append(f"{program.entry} {how}: {_first_line(error)}")
            if wrong:
                break
    finally:
        device.shuffle(None)
    return wrong


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]
