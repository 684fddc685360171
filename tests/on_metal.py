"""A device that runs kernels as text, and holds each against the interpreter: on a Mac on its GPU,
elsewhere on softmetal, in several orders of threads; or on the device of IRIS_TEST_TEXTS."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from typing import Any

from every_level import EveryLevel, each_lowered
from iris.codegen import emit
from iris.ir.control import Func
from iris.runtime.device import Array, ArrayArgument, Device, Grid, Program
from iris.runtime.devices import select
from iris.softmetal import build
from iris.testing.levels import Disagreement, Expected
from iris.testing.texts import language_of, together
from support import counts

SIMDGROUPS = (4,) if counts(0, 1) == 0 else (1, 4)
# What runs Metal here, in memory that the host shares; and what runs texts.
SHARING = "metal" if sys.platform == "darwin" else "softmetal"
METAL = os.environ.get("IRIS_TEST_TEXTS") or SHARING
SEEDS = (0, 1, 2, 3, 4) if METAL == "softmetal" else (0,)


@cache
def library() -> ctypes.CDLL:
    """The functions of softmetal that are not Metal's."""
    made = ctypes.CDLL(str(build.library()))
    made.softmetal_reports.restype = ctypes.c_char_p
    return made


def order(number: int) -> None:
    """Choose the order of threads; a real GPU has its own."""
    select(METAL).shuffle(number)


class OnMetal(EveryLevel):
    """Runs kernels on Metal, and raises `Disagreement` where the interpreter does otherwise."""

    name = "on-metal"

    def compile(self, entry: Func, source: Any = None) -> Program:
        metal = select(METAL)
        language = language_of(metal)
        made = [metal.compile(f, emit(f, language)) for f in each_lowered(entry, SIMDGROUPS)]
        return Program(entry, made)

    def compile_together(self, entries: Sequence[Func]) -> list[Program]:
        """What `compile` gives for each, from one text: a compiler takes long to start."""
        metal = select(METAL)
        language = language_of(metal)
        lowered = [list(each_lowered(entry, SIMDGROUPS)) for entry in entries]
        sources = [emit(f, language) for functions in lowered for f in functions]
        texts = iter(together(sources, language))
        return [
            Program(entry, [metal.compile(f, next(texts)) for f in functions])
            for entry, functions in zip(entries, lowered, strict=True)
        ]

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        ways = [
            (compiled, number, self._copies(arguments))
            for compiled in program.code
            for number in SEEDS
        ]
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        lines: list[str] = []
        expected = Expected(program.entry, grid, views, output=lines.append, exact_math=False)
        for line in lines:
            print(line)
        for compiled, number, copies in ways:
            order(number)
            printed = run(select(METAL), compiled, grid, arguments, copies)
            try:
                expected.compare(copies)
                if printed != lines:
                    raise Disagreement(f"it prints {printed}, not {lines}")
            except Disagreement as error:
                text = compiled.code.source.text
                raise Disagreement(f"{error}\nwith seed {number}\n\n{text}") from None


def run(
    device: Device, program: Program, grid: Grid, arguments: Sequence[Any], views: Sequence[Any]
) -> list[str]:
    """Launch a kernel on a device with what is in the views, copy back to them, and give the lines
    that it prints.

    The arguments say which of the views are of the same memory."""
    memories: dict[int, tuple[Any, Array]] = {}
    given = []
    for argument, view in zip(arguments, views, strict=True):
        if isinstance(argument, ArrayArgument):
            whole = argument.memory
            if id(whole) not in memories:
                memories[id(whole)] = device.allocate(whole.nbytes), whole
            argument = replace(argument, memory=memories[id(whole)][0])
            device.copy_in(argument, view)
        given.append(argument)
    output = io.StringIO()
    with redirect_stdout(output):
        device.launch(program, grid, given)
        device.synchronize()
    for argument, view in zip(given, views, strict=True):
        if isinstance(argument, ArrayArgument):
            device.copy_out(argument, view)
    if METAL == "softmetal":
        reports = library().softmetal_reports()
        assert not reports, reports.decode()
    return output.getvalue().splitlines()
