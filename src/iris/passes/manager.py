"""Running a pipeline.  Whatever watches it is an `Instrument`; passes know of none.

The module given is left as it was: passes work on a copy, so that it can be replayed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from iris.errors import FileError, PassError, PipelineError, UserError
from iris.ir.collector import uncollected
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.text.printer import to_text
from iris.passes.pipeline import Pass, Pipeline


class Instrument:
    """Watches a pipeline run.  An error raised here is reported like one of the pass."""

    def start(self, module: Module, pipeline: Pipeline) -> None:
        """Called before the first pass."""

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        """Called after each pass, with its time and what it counted."""

    def end(self, module: Module, failure: str | None) -> None:
        """Called when all passes are done, or when something stopped them."""


@uncollected()
def run(
    module: Module,
    pipeline: Pipeline | str,
    instruments: Sequence[Instrument] = (),
    *,
    reproducers: Path | None = None,
) -> Module:
    """A copy of a module that the passes of a pipeline have worked on.

    A pass that crashes leaves a file in `reproducers` (else the system's folder for temporary
    files) that replays the crash; the error names it.
    """
    if isinstance(pipeline, str):
        pipeline = Pipeline.parse(pipeline)
    work = module.clone()
    for instrument in instruments:
        instrument.start(work, pipeline)
    position = 0
    failure: str | None = "interrupted"
    try:
        for position, pass_ in enumerate(pipeline):
            check_level(pass_, work)
            start = time.perf_counter()
            counts = pass_.run(work) or {}
            seconds = time.perf_counter() - start
            for instrument in instruments:
                instrument.after(position, pass_, work, seconds, counts)
        failure = None
    except (PipelineError, FileError, UserError) as error:  # not the pass's fault
        failure = str(error)
        raise
    except Exception as error:
        reported = _report(error, module, pipeline, position, reproducers)
        failure = str(reported)
        raise reported from error
    finally:
        for instrument in instruments:
            instrument.end(work, failure)
    return work


def check_level(pass_: Pass, module: Module) -> None:
    if pass_.level is None:
        return
    for function in module:
        if isinstance(function, Func) and function.function_level is not pass_.level:
            raise PipelineError(
                f"{pass_.name} works on the {pass_.level.value} level, but @{function.symbol} is "
                f"at the {function.function_level.value} level here"
            )


def _report(
    error: Exception, module: Module, pipeline: Pipeline, position: int, folder: Path | None
) -> Exception:
    """The error that says which pass failed, and the command that shows it again."""
    before = module.clone()
    for pass_ in pipeline.passes[:position]:
        pass_.run(before)
    rest = pipeline.after(position)
    folder = folder or Path(tempfile.gettempdir()) / "iris-reproducers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w",
            dir=folder,
            prefix=f"{pipeline.passes[position].name}-",
            suffix=".iris",
            delete=False,
            encoding="utf-8",
        ) as file:
            command = replay_command(rest, Path(file.name))
            file.write(f"# {command}\n{to_text(before, locations=True)}")
        how = f"replay it with\n    {command}"
    except OSError as problem:
        how = f"no file to replay it could be written: {problem}"
    what = f"{type(error).__name__}: {error}"
    return PassError(f"the pass {pipeline.passes[position]} failed: {what}\n{how}")


def replay_command(rest: Pipeline | str, file: Path | str, verb: str = "opt --verify-each") -> str:
    """The command that runs what is left of a pipeline on the IR in a file."""
    from shlex import quote  # opened when first used

    return f'iris {verb} --passes "{rest}" {quote(str(file))}'
