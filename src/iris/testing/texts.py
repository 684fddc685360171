"""The texts of programs do on a device what the interpreter of their level says.

@given(st.lists(programs.metal(portable=True), min_size=25, max_size=25))
def test_my_device(drawn):
    runs_alike(drawn, MyDevice())
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from iris.codegen import emit
from iris.codegen.language import Language
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.compiler.arguments import place
from iris.compiler.compilation import entry_of
from iris.compiler.pipelines import METAL_PIPELINE, TEXT_PIPELINE
from iris.errors import IrisError, OutOfResources, SettingError
from iris.ir import Level
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import Pipeline
from iris.passes import run as run_passes
from iris.runtime import device as runtime
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.testing.faults import Judge, Wrong, doing
from iris.testing.levels import Expected, WithinBounds, with_simdgroups
from iris.testing.limit import unlimited
from iris.testing.outcomes import Outcome
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.replay import Program


def runs_alike(
    several: Sequence[Program],
    device: Device | str,
    *,
    simdgroups: int = 4,
    seconds: float = SECONDS,
) -> None:
    """Asserts that the texts of programs do on a device what the interpreter says.

        runs_alike([program], "softmetal")

    Tile programs are lowered for so many `simdgroups`, and must write the same within the bounds
    of their operations.  Metal programs must do the same to the bit; so it is for those that are
    drawn as `portable`.  The programs are kernels of one text, for a compiler takes long to start;
    where that does not compile, each is compiled alone.  Programs that no GPU has room for are left
    out.  The error shows the program, and its text.
    """
    __tracebackhide__ = True
    on = select(device)
    language = language_of(on)
    lower = with_simdgroups(METAL_PIPELINE, simdgroups).on(on.target)
    fitting: list[tuple[Program, Pipeline]] = []
    functions: list[Func] = []
    for program in several:
        is_tile = program.function.function_level is Level.TILE
        pipeline = lower if is_tile else Pipeline()
        try:
            module = run_passes(program.module, lower if is_tile else TEXT_PIPELINE)
        except OutOfResources:
            continue
        except Exception:  # noqa: BLE001 -- to be judged below, with all the others
            module = None
        fitting.append((program, pipeline))
        if module is not None:
            functions.append(program.with_module(module).function)
    compiled: dict[Source, runtime.Program] = {}
    # Where one of them has no text, or does not compile, each is looked at alone.
    with suppress(IrisError):
        sources = [emit(f, language) for f in functions]
        for function, own, joined in zip(
            functions, sources, together(sources, language), strict=True
        ):
            compiled[own] = on.compile(function, joined)
    oracle = OnDevice(on, compiled)
    for program, pipeline in fitting:
        check(program, [pipeline], oracle, seconds=seconds)


def shaped(function: Func) -> Func:
    """A function at the level of Metal IR, as its text needs it."""
    return entry_of(run_passes(Module([function.clone({})]), TEXT_PIPELINE))


def language_of(device: Device) -> Language:
    """The language of the texts that a device takes."""
    if not isinstance(device.accepts, Language):
        raise SettingError(
            f"{device.name} takes no text, but IR of the {device.accepts.value} level"
        )
    return device.accepts


@dataclass(frozen=True)
class OnDevice:
    """An oracle that emits the text of Metal IR and runs it on a device."""

    on: Device
    # Texts that are compiled already.  The key is the source: a text alone does not say in which
    # order it takes its arguments.
    compiled: Mapping[Source, runtime.Program] = field(default_factory=dict)

    def __call__(self, program: Program) -> Judge:
        if program.function.function_level is Level.TILE:
            expected = Expected.of(program, exact_math=False, target=self.on.target)
            return partial(self._judge, program, expected)
        exact = Outcome.of(program)
        shaped = program.with_module(run_passes(program.module, TEXT_PIPELINE))
        self._compare(shaped, lambda ran: exact.compare(ran.outcome(program)))
        return lambda made, rest: None

    def _judge(self, program: Program, bounded: Expected, made: Program, rest: Pipeline) -> None:
        """Judges what a tile program has become, by its text once it is finished: only where that
        is wrong, and where a pass is looked for that may be guilty, it runs in the interpreter."""
        if rest.passes:
            WithinBounds()(program)(made, rest)
            return
        try:
            self._compare(made, lambda ran: bounded.compare(ran.arguments))
        except Wrong:
            WithinBounds()(program)(made, rest)
            raise

    def _compare(self, made: Program, compare: Callable[[Ran], object]) -> None:
        with doing("the program has no text", part="codegen"):
            source = emit(made.function, language_of(self.on))
        name, how = self.on.name, f"whose text is\n\n{source.text}\n"
        with doing(f"the program does not compile for {name}", how, "codegen"):
            code = self.compiled.get(source)
            if code is None:
                with unlimited():  # a compiler may take long, and is not interrupted
                    code = self.on.compile(made.function, source)
        with doing(f"the program fails on {name}", how, "codegen"):
            ran = Ran.of(self.on, code, made)
        with doing(f"the program does otherwise on {name}", how, "codegen"):
            compare(ran)


class Ran(NamedTuple):
    """What a device makes of a program that it has compiled."""

    arguments: list[Any]
    lines: list[str]

    @staticmethod
    def of(on: Device, code: runtime.Program, program: Program) -> Ran:
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
        return Ran(arguments, output.getvalue().splitlines())

    def outcome(self, program: Program) -> Outcome:
        return Outcome.gathered(program.function, self.arguments, [], self.lines)


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
