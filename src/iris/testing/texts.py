"""The texts of Metal programs do on a device what the interpreter of Metal IR says.

@given(st.lists(programs.metal(portable=True), min_size=25, max_size=25))
def test_my_device(drawn):
    runs_alike(drawn, MyDevice())
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from iris.codegen import emit
from iris.codegen.language import Language
from iris.codegen.msl_table import MSL
from iris.codegen.source import Source
from iris.compiler.arguments import place
from iris.errors import IrisError
from iris.runtime import device as runtime
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.testing.faults import Judge, doing
from iris.testing.outcomes import Outcome
from iris.testing.report import check
from iris.tools.replay import Program

COMPILING = 60.0  # seconds that a compiler may take


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
    # Where one of them has no text, or does not compile, each is looked at alone.
    compiled: dict[Program, runtime.Program] = {}
    with suppress(IrisError):
        texts = together([emit(p.function, language) for p in several], language)
        sources = zip(several, texts, strict=True)
        compiled = {program: on.compile(program.function, text) for program, text in sources}
    for program in several:
        check(program, [], partial(_runs_alike, on, language, compiled), limit=COMPILING)


def _runs_alike(
    on: Device,
    language: Language,
    compiled: Mapping[Program, runtime.Program],
    program: Program,
) -> Judge:
    """The oracle: a program as text, which may have been compiled already."""
    with doing("the program has no text"):
        source = emit(program.function, language)
    how = f"whose text is\n\n{source.text}\n"
    with doing(f"the program does not compile for {on.name}", how):
        code = compiled.get(program) or on.compile(program.function, source)
    expected = Outcome.of(program)
    with doing(f"the program does otherwise on {on.name}", how):
        expected.compare(launched(on, code, program))
    return lambda made, rest: None


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
