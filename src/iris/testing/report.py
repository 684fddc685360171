"""Failures that show a small program, the pass that is guilty, and how to see it again."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from iris.ir import to_text
from iris.ir.text.diff import diff
from iris.passes import Pass, Pipeline
from iris.testing.changed_values import changed_value
from iris.testing.edits import ops_of
from iris.testing.faults import LIMIT, Fault, Oracle, find_fault
from iris.testing.growth import growth
from iris.testing.limit import TimeLimitError
from iris.testing.reduce import SECONDS
from iris.testing.smallest import smallest
from iris.tools.replay import Program

E = TypeVar("E", bound=AssertionError)


class Failure(AssertionError):
    """What an oracle raises: `fault` says what is wrong, with what program and pass."""

    fault: Fault | None = None


def check(
    program: Program,
    pipelines: Sequence[Pipeline],
    oracle: Oracle,
    *,
    error: type[Failure] = Failure,
    seconds: float = SECONDS,
    limit: float = LIMIT,
    quick: Oracle | None = None,
) -> None:
    """Raises `error` if one of several pipelines, each alone, has a fault.

        check(program, [Pipeline.parse("fold,cse")], same_bits)

    The error shows the smallest program found in some seconds that has the same fault; most of the
    search may be with a `quick` oracle, which looks for less.  In a test of hypothesis the error
    ends the test: hypothesis looks for no smaller program.
    """
    __tracebackhide__ = True
    fault = find_fault(program, pipelines, oracle, limit=limit)
    if fault is None:
        return
    file = ReplayFile(fault)
    file.keep(fault)
    fault = smallest(fault, oracle, seconds=seconds, limit=limit, quick=quick, kept=file.keep)
    cause = fault.wrong.error
    # Where values differ, the message says all.
    hidden = isinstance(cause, AssertionError)
    failure = ending_test(error)(f"{describe(fault)}\n\n{file}")
    failure.fault = fault
    raise failure from (None if hidden else cause)


def describe(fault: Fault) -> str:
    """What is wrong, the program, and what the guilty pass changed."""
    wrong, error = fault.wrong, fault.wrong.error
    what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    doing = f"{wrong.doing}, {wrong.how}" if wrong.how else wrong.doing
    if fault.step is None or fault.guilty is None:
        guilty = f"{wrong.part} is guilty, and no pass\n" if wrong.part else ""
        return f"{doing}: {what}\n{guilty}\n{fault.program}".rstrip()
    name = str(fault.guilty)
    lines = [f"{name} {doing}: {what}"]
    if len(fault.pipeline) > 1:
        lines.append(f"{name} is pass {fault.step.position + 1} of {fault.pipeline}")
    value = changed_value(fault)
    if value is not None:
        lines.append(value)
    grown = growth([fault.step.before, fault.step.after])
    endless = isinstance(error, TimeLimitError) and grown
    if endless:
        lines[0] += grown  # and what there is by now is long
    before = to_text(fault.step.before)
    after = before if endless else to_text(fault.step.after)
    changes = diff(before, after, f"before {name}", f"after {name}") if before != after else before
    return "\n".join([*lines, "", str(fault.program), changes]).rstrip()


class ReplayFile:
    """Keeps the smallest program so far that has a fault in a file; `str` says how to run it."""

    def __init__(self, fault: Fault, folder: Path | None = None):
        folder = folder or Path(tempfile.gettempdir()) / "iris-failures"
        passes = str(fault.pipeline)
        name = re.sub(r"[^a-z0-9-]+", "-", passes)[:40].strip("-") or "program"
        # The same failure is always in the same file.
        number = zlib.crc32(f"{passes}{fault.program}".encode())
        self.path = folder / f"{name}-{number:08x}.iris"
        self.commands = self._commands(fault.pipeline)
        self.smallest: tuple[int, int] | None = None
        self.problem: OSError | None = None

    def _commands(self, pipeline: Pipeline) -> list[str]:
        commands = [f"iris run {self.path}"]
        iris = " ".join(["iris", *[f"--import {name}" for name in modules_of(pipeline)]])
        if len(pipeline) == 1:
            commands.append(f'{iris} run --passes "{pipeline}" {self.path}')
        if len(pipeline):
            commands.append(f'{iris} bisect --passes "{pipeline}" {self.path}')
        return commands

    def keep(self, fault: Fault) -> None:
        """Replaces the file if a program is smaller; an interrupt leaves the one or the other."""
        text = str(fault.program)
        size = len(ops_of(fault.program)), len(text)
        if self.smallest is not None and self.smallest <= size:
            return
        self.smallest = size
        self.commands = self._commands(fault.pipeline)
        head = "".join(f"# {command}\n" for command in self.commands)
        part = self.path.with_suffix(f".{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(f"{head}{text}", encoding="utf-8")
            part.replace(self.path)
        except OSError as problem:
            self.problem = problem

    def __str__(self) -> str:
        if self.problem is not None:
            return f"no file to replay it could be written: {self.problem}"
        return "\n".join(["to see it again:", *[f"    {command}" for command in self.commands]])


def modules_of(passes: Iterable[Pass]) -> list[str]:
    """The modules that a command must import to know some passes: none for those of Iris.

    modules_of([MyPass(), Fold()])  # ["my_passes"]
    """
    names = dict.fromkeys([type(one).__module__ for one in passes])
    if "__main__" in names:
        del names["__main__"]
        script = getattr(sys.modules["__main__"], "__file__", None)  # a notebook has none
        names |= {Path(script).stem: None} if script else {}
    return [name for name in names if name.partition(".")[0] != "iris"]


def ending_test(error: type[E]) -> type[E]:
    """The error; within a test of hypothesis, as one that ends the test at once.

    What hypothesis does after a failure, shrinking the choices that a program was drawn from, takes
    minutes, and the program is small already.
    """
    try:
        import hypothesis
    except ModuleNotFoundError:
        return error
    if not hypothesis.currently_in_test_context():
        return error
    fatal = hypothesis.errors.FailedHealthCheck
    return type(error.__name__, (error, fatal), {"__module__": error.__module__})
