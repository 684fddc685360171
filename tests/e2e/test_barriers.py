"""The checks bite: of the barriers in lowered kernels, none can go without a race being reported.

All launches of the other tests here and of the examples are recorded.  Each kernel is lowered for
one simdgroup and for several, and run again once for each of its barriers, without it.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from every_level import EveryLevel, each_lowered
from iris.errors import ProgramError
from iris.interp import metal
from iris.interp.metal import Counters
from iris.ir.control import Func
from iris.ir.metal import Barrier
from iris.runtime import devices
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.interpreters import Interpreter
from iris.testing.levels import launch
from support import ROOT

TESTS = [ROOT / "tests" / "e2e" / f"test_{name}.py" for name in ("programs", "contract")]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
COPY = EveryLevel()._copies
LAUNCHES = 3  # of a kernel, at most
Place = tuple[str, str, int]  # a kernel, and a line
WAYS = (None, 1, 2)  # in lockstep, and in some interleavings
# Barriers order atomics there.  In the wrong order these are no race: what they write tells.
ATOMICS = {"one_after_the_other"}
# Rows that a program stores one after the other.  By their strides they could overlap; here they
# do not.
ROWS = {"softmax_kernel", "norm_backward_kernel"}


@dataclass
class Recorded:
    """A kernel, and arguments of its launches before they ran."""

    entry: Func
    launches: list[tuple[Grid, list[Any]]] = field(default_factory=list)


class Recorder(Interpreter):
    """Runs kernels as the interpreter of Tile IR does, and remembers what they were given."""

    name = "recorder"

    def __init__(self) -> None:
        self.kernels: dict[Func, Recorded] = {}

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        record = self.kernels.setdefault(program.entry, Recorded(program.entry))
        if len(record.launches) < LAUNCHES:
            record.launches.append((grid, COPY(arguments)))
        super().launch(program, grid, arguments)


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls(module: ModuleType) -> Iterator[Callable[[], object]]:
    """Every test of a module, with each of its parameters."""
    for name, test in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        choices = []
        for mark in getattr(test, "pytestmark", ()):
            names, values = mark.args
            names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
            rows = values if len(names) > 1 else [(value,) for value in values]
            choices.append([dict(zip(names, row, strict=True)) for row in rows])
        for chosen in itertools.product(*choices):
            given = {k: v for some in chosen for k, v in some.items()}
            yield lambda test=test, given=given: test(**given)


@pytest.fixture(autouse=True)
def device() -> None:
    """Launches are recorded first, by a device of their own."""


@pytest.fixture(scope="module")
def kernels() -> list[Recorded]:
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(devices.DEVICES, recorder.name, Recorder)
        patch.setitem(devices._opened, recorder.name, recorder)
        patch.setenv("IRIS_DEVICE", recorder.name)
        for path in TESTS:
            for call in calls(loaded(path)):
                call()
        for path in EXAMPLES:
            loaded(path).main()
    return list(recorder.kernels.values())


def views(arguments: Sequence[Any]) -> list[Any]:
    copies = COPY(arguments)
    return [Interpreter._view(a) if isinstance(a, ArrayArgument) else a for a in copies]


def is_noticed(function: Func, record: Recorded) -> bool:
    """Whether a run reports that accesses are not ordered."""
    for grid, arguments in record.launches:
        for way in WAYS:
            try:
                launch(function, grid, views(arguments), interleave=way)
            except ProgramError as error:
                assert "race" in str(error), error
                return True
    return False


def passed(function: Func, record: Recorded) -> int:
    """How many barriers a program comes to, at most, in any of the launches."""
    most = 0
    for grid, arguments in record.launches:
        counters = Counters()
        metal.run(function, grid, views(arguments), counters=counters, output=lambda line: None)
        most = max(most, sum(counters.barriers.values()) // prod(grid))
    return most


@pytest.mark.parametrize("simdgroups", [1, 4])
def test_without_any_of_the_barriers_there_is_a_race(
    kernels: list[Recorded], simdgroups: int
) -> None:
    """Where sizes are so small that a loop has one round, or that no block is all inside, what
    is for more rounds or for such blocks is not needed.  Then it must be in another launch of
    the kernel, with other sizes."""
    noticed: Counter[Place] = Counter()
    spared: Counter[Place] = Counter()
    for record in kernels:
        if record.entry.symbol in ATOMICS | ROWS:
            continue
        function = next(each_lowered(record.entry, (simdgroups, 4)))
        for number, op in enumerate(function.walk()):
            if not isinstance(op, Barrier):
                continue
            assert op.location is not None
            place = function.symbol, Path(op.location.file).name, op.location.line
            fewer = function.clone({})
            assert isinstance(fewer, Func)
            fewer.walk()[number].erase()
            if is_noticed(fewer, record):
                noticed[place] += 1
                continue
            spared[place] += 1
            assert passed(function, record) - passed(fewer, record) <= 1, (
                f"the barrier of {place}, op {number}, is not needed:\n{function.parent}"
            )
    every, few = noticed.total(), spared.total()
    print(f"{len(kernels)} kernels: {every} barriers are missed, {few} for other sizes only")
    assert set(spared) <= set(noticed)
    assert few < every / 5
