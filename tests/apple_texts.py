"""Compile texts with Apple's compiler: golden ones, those of examples, and of random programs.

    python tests/apple_texts.py
    python tests/apple_texts.py --strict --count 2000

Needs a Mac with Xcode.  Xcode 26 has no `metal` of its own: it is downloaded where it is missing.
With `--strict` it is softmetal that holds the texts to Apple's rules.
The exit status is 1 if there is no compiler, or a text is refused.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from iris.codegen import emit
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import entry_of
from iris.compiler.graph_program import GraphProgram
from iris.compiler.metallib import METAL, compile_text
from iris.compiler.pipelines import METAL_PIPELINE
from iris.compiler.recording import recorded
from iris.errors import DeviceError, OutOfResources
from iris.ir import Level, parse
from iris.passes import run
from iris.targets import DEFAULT
from iris.testing import programs, threads
from iris.testing.levels import with_simdgroups
from iris.testing.texts import shaped, together
from iris.tools.replay import Program

ROOT = Path(__file__).parents[1]
DOWNLOAD = ("xcodebuild", "-downloadComponent", "MetalToolchain")
RANDOM = 500
TOGETHER = 25  # texts that softmetal's compiler is given at once
PROGRAMS = st.one_of(
    programs.tile(),
    programs.graph(portable=True),
    programs.metal(portable=True),
    programs.threads(),
)


def golden() -> Iterator[Source]:
    """The texts that are kept beside tests."""
    for path in sorted((ROOT / "tests/codegen/golden").glob("*.iris")):
        yield emit(shaped(entry_of(parse(path.read_text(encoding="utf-8")))))


def examples() -> Iterator[Source]:
    """The texts of the kernels that the examples launch.  An interpreter runs them, so that only
    the compiler is asked: a Mac's GPU may not run them."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        on_interpreter = patch.dict(os.environ, IRIS_DEVICE="interp")
        with on_interpreter, recorded() as launched, redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
        for one in launched:
            for kernel in one.kernels if isinstance(one, ArrayCompilation) else [one]:
                yield emit(entry_of(kernel.stages[-1].module))


def random(count: int) -> list[Source]:
    """The texts of random programs, of tiles, of graphs and of threads, in IR and in Python."""
    made: list[Source] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(PROGRAMS)
    def draw(program: Program | threads.Kernel) -> None:
        if isinstance(program, threads.Kernel):
            made.append(emit(entry_of(program.lower().stages[-1].module)))
            return
        function = program.function
        if function.function_level is Level.GRAPH:
            kernels = GraphProgram.of(program.module, DEFAULT).kernels
            made.extend([emit(kernel.lowered(Level.METAL, DEFAULT)) for kernel in kernels])
            return
        if function.function_level is Level.TILE:
            pipeline = with_simdgroups(METAL_PIPELINE, 4)
            try:
                function = program.with_module(run(program.module, pipeline)).function
            except OutOfResources:
                return
        else:
            function = shaped(function)
        made.append(emit(function))

    draw()
    return made


def compiled(source: Source, path: Path, compiler: Sequence[str]) -> str:
    """What a compiler says against a text; nothing if it takes it."""
    try:
        compile_text(source, path, compiler)
    except DeviceError as error:
        return f"{error}\n{source.text}"
    return ""


def refused(sources: Sequence[Source], compiler: Sequence[str]) -> list[str]:
    """What a compiler says of the texts that it does not take."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = [Path(folder) / f"{number}.air" for number in range(len(sources))]
        said = pool.map(lambda source, path: compiled(source, path, compiler), sources, paths)
        return [words for words in said if words]


def against_rules(sources: Sequence[Source]) -> list[str]:
    """What softmetal says of the texts that Apple's compiler would refuse."""
    from softmetal.msl import check

    wrong: list[str] = []
    for (version, _), alike in itertools.groupby(sorted(sources, key=_kind), _kind):
        texts = list(alike)
        number = version[0] * 100 + version[1] * 10
        for start in range(0, len(texts), TOGETHER):
            several = texts[start : start + TOGETHER]
            if check(together(several)[0].text, number) is None:
                continue
            said = [check(one.text, number) for one in several]
            pairs = zip(said, several, strict=True)
            # Together they may be refused for what none of them says alone.
            wrong += [f"{words}\n{one.text}" for words, one in pairs if words] or [
                "some texts are refused only together"
            ]
    return wrong


def _kind(source: Source) -> tuple[tuple[int, int], bool]:
    """What texts have in common that can be one."""
    return source.version, source.text.startswith(MSL.prologue + MSL.exact_pragma)


def found(compiler: Sequence[str], download: Sequence[str]) -> bool:
    """Whether there is a compiler, after it was downloaded if it was not there."""

    def works() -> bool:
        try:
            return subprocess.run([*compiler, "--version"], capture_output=True).returncode == 0
        except OSError:
            return False

    if not works():
        try:
            subprocess.run(list(download), check=False)
        except OSError:
            return False
    return works()


def everything(count: int) -> Iterator[Source]:
    """All texts, and those of some random programs."""
    yield from golden()
    yield from examples()
    yield from random(count)


def main(
    texts: Iterable[Source],
    compiler: Sequence[str] = METAL,
    download: Sequence[str] = DOWNLOAD,
) -> int:
    if not found(compiler, download):
        print(
            f"error: {' '.join(compiler)} does not run: it needs a Mac with Xcode, and its Metal "
            f"toolchain ({' '.join(download)})",
            file=sys.stderr,
        )
        return 1
    texts = list(texts)
    return told(texts, refused(texts, compiler))


def strict(texts: Iterable[Source]) -> int:
    texts = list(texts)
    return told(texts, against_rules(texts))


def told(texts: Sequence[Source], wrong: Sequence[str]) -> int:
    print("\n".join([*wrong, f"{len(texts) - len(wrong)} of {len(texts)} texts compile"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compile texts with Apple's compiler.")
    parser.add_argument("--strict", action="store_true", help="ask softmetal, not the compiler")
    parser.add_argument("--count", type=int, default=RANDOM, help="how many random programs")
    asked = parser.parse_args()
    run_on = strict if asked.strict else main
    sys.exit(run_on(everything(asked.count)))
