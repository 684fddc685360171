"""What is wrong in a text, in the library that runs it, or in its client, is noticed.

Mistakes are planted in the kernels of every example, each alone, and the examples' own arguments
must show them: as an error of the device, or in what is written. Others are planted in the library
and in a client of Metal. Each has a row in a table that is printed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import metal as m
import numpy as np
import pytest

from every_level import LOWERING, EveryLevel
from iris.codegen import emit
from iris.codegen.source import Source
from iris.errors import DeviceError
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.types import i32
from iris.passes import run as run_passes
from iris.runtime import devices
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.softmetal import build
from iris.testing.levels import Disagreement, Expected, with_simdgroups
from on_metal import order, run
from support import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HERE = Path(__file__).parent

#: What is planted: what it is called, where it goes, and what is put there: it is right, except in
#: launches whose argument `mistake` is its number; less than 0 is that of all masks.
MISTAKES = {
    "no barrier": (r"threadgroup_barrier\([^;]*;", r"if (p.mistake != {}) \g<0>"),
    "wider mask": (r"(< p\.\w+)", r"\1 + 9999 * (p.mistake == {} || p.mistake < 0)"),
}
PARTS = 4  # of the examples, of which each takes one process
EVERYWHERE = "all masks wider"


class Mistake(NamedTuple):
    """One mistake in one kernel; two kernels of a name differ in their texts."""

    name: str
    kernel: str
    text: str
    line: int  # 0: no line in particular


def planted(kernel: str, source: Source) -> tuple[Source, dict[int, Mistake]]:
    """A kernel that makes the mistake whose number a launch gives it, or none for 0.

    One text for all of them takes a compiler far less time than one for each."""
    found: dict[int, Mistake] = {}
    lines = source.text.splitlines(keepends=True)
    for name, (pattern, wrong) in MISTAKES.items():
        for at, line in enumerate(lines):
            if line.lstrip().startswith("for ("):
                continue  # what goes on is no mask

            def plant(match: re.Match[str], made: Mistake, wrong: str = wrong) -> str:
                number = len(found) + 1
                found[number] = made
                return match.expand(wrong.format(number))

            one = Mistake(name, kernel, source.text, at + 1)
            lines[at] = re.sub(pattern, partial(plant, made=one), line)
    if any(mistake.name == "wider mask" for mistake in found.values()):
        found[-1] = Mistake(EVERYWHERE, kernel, source.text, 0)
    return replace(source, text="".join(lines)), found


class Planted(EveryLevel):
    """Runs every kernel as it is and with each of the mistakes, and notes which are noticed."""

    name = "planted"
    planted: ClassVar[dict[Mistake, bool]] = {}  # and whether it was noticed
    compiled: ClassVar[dict[str, tuple[Program, dict[int, Mistake]]]] = {}

    def compile(self, entry: Func, source: Any = None) -> Program:
        (function,) = run_passes(Module([entry.clone({})]), with_simdgroups(LOWERING, 4))
        assert isinstance(function, Func)
        function.body.add_argument(i32, "mistake")
        right = emit(function)
        if right.text not in Planted.compiled:
            wrong, mistakes = planted(entry.symbol, right)
            compiled = devices.select("softmetal").compile(function, wrong)
            Planted.compiled[right.text] = compiled, mistakes
            Planted.planted |= dict.fromkeys(mistakes.values(), False)
        return Program(entry, Planted.compiled[right.text])

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        compiled, mistakes = program.code
        open_ = [0, *(number for number, one in mistakes.items() if not Planted.planted[one])]
        ways = [(number, self._copies(arguments)) for number in open_]
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        expected = Expected(program.entry, grid, views, exact_math=False)
        order(1)
        for number, copies in ways:
            given, kept = [*arguments, number], [*copies, number]
            try:
                run(devices.select("softmetal"), compiled, grid, given, kept)
                expected.compare(copies)
            except (DeviceError, Disagreement) as error:
                assert number, error
                # A missing barrier by the device: as a race or, where an index is read before it
                # is there, as an access that is outside.
                noticed = mistakes[number].name != "no barrier" or is_told(error)
                Planted.planted[mistakes[number]] |= noticed


def is_told(error: Exception) -> bool:
    """Whether a device says itself that a kernel does what it must not."""
    return isinstance(error, DeviceError) and ("race: " in str(error) or "not there" in str(error))


def further(example: ModuleType) -> None:
    """Launches that need what those of an example itself do not."""
    if example.__name__ == "flash_attention":
        # More than one round of the loop, for the kernel of few keys.
        for causal in (False, True):
            q, k, v, out = np.ones((4, 1, 71, 32), np.float32)
            example.attention[5, 1](q, k, v, out, 71, 1.0, D=32, BQ=16, BK=32, causal=causal)


def main(part: int) -> None:
    """Plants in the kernels of a part of the examples, and prints which mistakes were noticed."""
    devices.DEVICES[Planted.name] = Planted
    os.environ["IRIS_DEVICE"] = Planted.name
    for path in EXAMPLES[part::PARTS]:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        example.main()
        further(example)
    print(json.dumps([[*mistake, noticed] for mistake, noticed in Planted.planted.items()]))


def python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a program does in a process of its own, which says what was wrong there, if anything."""
    path = os.pathsep.join([str(HERE), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def row(name: str, planted: int, noticed: int) -> None:
    print(f"{name:32}{planted:6} planted {noticed:6} noticed")


@cache
def in_examples() -> dict[Mistake, bool]:
    # Where accesses are checked, races are found whatever the order of threads.
    programs = [f"import test_planted; test_planted.main({part})" for part in range(PARTS)]
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda one: python(one, IRIS_SOFTMETAL_SANITIZE="1"), programs))
    made: dict[Mistake, bool] = {}
    for done in runs:
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        made |= {Mistake(*mistake): noticed for *mistake, noticed in found}
    return made


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_texts_are_noticed(name: str) -> None:
    made = {mistake: noticed for mistake, noticed in in_examples().items() if mistake.name == name}
    unnoticed = [mistake for mistake, noticed in made.items() if not noticed]
    row(name, len(made), len(made) - len(unnoticed))
    for mistake in unnoticed:
        line = mistake.text.splitlines()[mistake.line - 1].strip()
        print(f"    not in {mistake.kernel}, line {mistake.line}: {line}")
    if name == "no barrier":
        assert not unnoticed
        return
    # Where the launches need no mask, as with sizes that are multiples of the blocks, none is
    # missed; those that need some show it for one alone.
    needed = {x.text for x, noticed in in_examples().items() if x.name == EVERYWHERE and noticed}
    noticed = {mistake.text for mistake, noticed in made.items() if noticed}
    row("kernels that need a mask", len(needed), len(needed & noticed))
    assert needed and needed <= noticed


#: Runs kernels with matrices, on the library in a folder.
GEMM = """
import sys
from pathlib import Path
from iris.softmetal import build
build.library = lambda: Path(sys.argv[2])
import runpy
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_wrong_lane_map_in_the_library_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    shutil.copytree(build.library().parent, folder)
    header = folder / "include/metal_simdgroup_matrix"
    text = header.read_text()
    # As if the lanes went along the rows.
    wrong = text.replace("(lane >> 4 & 1) * 4 + (lane >> 1 & 3)", "(lane >> 2)")
    wrong = wrong.replace("(lane >> 3 & 1) * 4 + (lane & 1) * 2", "(lane & 3) * 2")
    assert wrong != text
    header.write_text(wrong)
    library = str(folder / build.library().name)
    environment = {"IRIS_DEVICE": "softmetal", "IRIS_CACHE_DIR": str(tmp_path / "cache")}
    done = python(GEMM, str(ROOT / "examples/int8_gemm.py"), library, **environment)
    print(done.stdout[-300:], done.stderr[-600:])
    row("wrong lane map in the library", 1, int(done.returncode != 0))
    assert done.returncode != 0


def test_a_buffer_that_is_freed_too_early_is_noticed() -> None:
    x = m.words(1)
    commands = m.ask(m.queue(), "commandBufferWithUnretainedReferences")
    made = m.encoder(commands)
    m.dispatch(made, m.kernel("put"), 1, 1, x, m.uint(5))
    x.release()
    m.finish(commands, made)
    problem = m.problem(commands)
    row("buffer freed too early", 1, problem != "")
    assert "what it refers to is deallocated" in problem
