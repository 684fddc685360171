"""Failures that show the program, and how to run it again."""

from __future__ import annotations

import os
import re
import tempfile
from difflib import unified_diff
from pathlib import Path
from types import TracebackType

from iris.ir import Module
from iris.passes import Pipeline
from iris.tools.replay import Program


class Report:
    """Turns any exception within it into a failure that shows the program.

    A context manager, as the exception is not caught to go on but to be told better.  `doing` is
    what the pipeline does, `after` what it has made of the program.
    """

    def __init__(
        self, program: Program, pipeline: Pipeline, kind: type[AssertionError] = AssertionError
    ):
        self.program = program
        self.pipeline = pipeline
        self.kind = kind
        self.after: Module | None = None
        self.doing = "failed"

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            raise self.kind(self._message(error)) from error

    def _message(self, error: Exception) -> str:
        what = str(error)
        if not isinstance(error, AssertionError):
            what = f"{type(error).__name__}: {what}"
        lines = [
            f"{self.pipeline} {self.doing}: {what}".lstrip(),
            *self._replay(),
            "",
            str(self.program),
        ]
        if self.after is not None:
            before, after = (str(m).splitlines() for m in (self.program.module, self.after))
            lines += unified_diff(before, after, "before", "after", lineterm="", n=2)
        return "\n".join(lines)

    def _replay(self) -> list[str]:
        """Writes the program to a file; how to run it.

        One file for a pipeline and a process, so that shrinking does not leave hundreds: the
        last one written is the smallest.
        """
        folder = Path(tempfile.gettempdir()) / "iris-failures"
        name = re.sub(r"[^a-z0-9-]+", "-", str(self.pipeline))[:40].strip("-") or "program"
        file = folder / f"{name}-{os.getpid()}.iris"
        commands = [f"iris run {file}"]
        if self.pipeline.passes:
            commands.append(f'iris run --passes "{self.pipeline}" {file}')
        try:
            folder.mkdir(parents=True, exist_ok=True)
            head = "".join(f"# {command}\n" for command in commands)
            file.write_text(f"{head}{self.program}", encoding="utf-8")
        except OSError as problem:
            return [f"no file to replay it could be written: {problem}"]
        return [
            "to run it:" if len(commands) == 1 else "before and after:",
            *[f"    {command}" for command in commands],
        ]
