"""The texts of Metal programs do on a device what the interpreter of Metal IR says.

@given(st.lists(programs.metal(portable=True), min_size=25, max_size=25))
def test_my_device(drawn):
    runs_alike(drawn, MyDevice())
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import numpy as np

from iris.codegen import emit
from iris.codegen.language import Language
from iris.codegen.msl_table import MSL
from iris.codegen.source import Source
from iris.compiler.arguments import place
from iris.errors import IrisError
from iris.passes import Pipeline
from iris.runtime import device as runtime
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.testing.outcomes import Outcome
from iris.testing.report import Report
from iris.tools.replay import Program


def runs_alike(several: Sequence[Program], device: Device | str) -> None:
    """Asserts that the texts of Metal programs do on a device what the interpreter says, to the
    bit; so it is for programs that are drawn as `portable`.

        runs_alike([program], "softmetal")

    The programs are kernels of one text, for a compiler takes long to start; where that does not
    compile, each is compiled alone.  The error shows the program, and its text.
    """
    on = select(device)
    language = on.accepts
    if not isinstance(language, Language):
        raise TypeError(f"{on.name} takes no text, but IR of the {language.value} level")
    texts = []
    for program in several:
        with Report(program, Pipeline(())) as report:
            report.doing = "the program has no text"
            texts.append(emit(program.function, language))
    try:
        compiled = [
            on.compile(program.function, source)
            for program, source in zip(several, together(texts, language), strict=True)
        ]
    except IrisError:
        compiled = [_alone(on, *both) for both in zip(several, texts, strict=True)]
    for program, text, code in zip(several, texts, compiled, strict=True):
        with Report(program, Pipeline(())) as report:
            report.doing = f"does otherwise on {on.name}\n{text.text}\n"
            Outcome.of(program).compare(launched(on, code, program))


def _alone(on: Device, program: Program, source: Source) -> runtime.Program:
    with Report(program, Pipeline(())) as report:
        report.doing = f"does not compile for {on.name}\n{source.text}\n"
        return on.compile(program.function, source)


def launched(on: Device, code: runtime.Program, program: Program) -> Outcome:
    """What a device makes of a program that it has compiled."""
    arguments = program.make_arguments()
    arrays = {str(i): a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
    placed = place(on, arrays)
    given: list[Any] = [placed.get(str(i), a) for i, a in enumerate(arguments)]
    output = io.StringIO()
    with redirect_stdout(output):
        on.launch(code, program.grid, given)
        on.synchronize()
    for name, array in arrays.items():
        on.copy_out(placed[name], array)
    lines = output.getvalue().splitlines()
    return Outcome.gathered(program.function, arguments, [], lines)


def together(sources: Sequence[Source], language: Language = MSL) -> list[Source]:
    """Kernels in one text, each in a namespace of its own: all with fast math, or none."""
    exact = language.prologue + language.exact_pragma
    prologue = exact if sources[0].text.startswith(exact) else language.prologue
    parts = []
    for number, source in enumerate(sources):
        assert source.text.startswith(exact) == (prologue is exact)
        body = source.text.removeprefix(prologue)
        parts.append(f"namespace k{number} {{\n{body}}}\n")
    text = prologue + "".join(parts)
    version = max(source.version for source in sources)
    return [
        replace(source, text=text, version=version, entry=f"k{number}::{source.entry}")
        for number, source in enumerate(sources)
    ]
