"""Looks for what a property does not hold of: one batch of what `iris fuzz` runs.

    hunted = hunt(PROPERTIES["agree"], seed=3, examples=25)
    hunted.find         # what was found, or None

A batch is the same each time, wherever it runs: its examples follow from its seed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

import iris
from iris.testing.properties import Property
from iris.testing.reduce import SECONDS
from iris.testing.report import Failure
from iris.tools.replay import Program

WATCHED = 10  # of so many calls, one is watched: that makes it slower
ROOT = Path(iris.__file__).parent
COVERED = tuple(str(ROOT / room) for room in ("analysis", "passes", "codegen"))


class Find(NamedTuple):
    """What a property does not hold of.

    Finds are of one `cause` if one pass is guilty of them or, where none is, the same goes wrong.
    """

    cause: str
    message: str
    program: str = ""  # the text of the smallest, if it is one of IR
    pipeline: str = ""  # that ends with the guilty pass, if there is one


class Hunted(NamedTuple):
    """What came of a batch."""

    examples: int
    seconds: float
    ops: frozenset[str]  # of the programs
    rules: frozenset[str]  # the functions of passes and of the emitter that some were taken through
    find: Find | None
    is_known: bool = False  # whether what was found had been found before
    sought: float = 0.0  # the seconds that it took to find it, without those to reduce it


class _End(BaseException):
    """Ends the drawing, at once: there have been enough examples, one has failed, or the seconds
    are over."""


def hunt(
    property: Property,
    seed: int,
    examples: int,
    *,
    seconds: float = 1e9,
    reduced: float = SECONDS,
    watched: bool = True,
    known: Collection[str] = (),
) -> Hunted:
    """Draws examples until one fails, there have been enough, or the seconds are over.

    What fails for a cause that is not `known` is `reduced` for some seconds.  Unless it is
    `watched`, the rules that programs lead into are not noted.
    """
    # With causes known, a failure is reduced only after its cause turned out to be new.
    at_once = 0.0 if known else reduced
    batch = _Batch(property, examples, time.monotonic() + seconds, watched, at_once)
    start = time.monotonic()
    error = batch.run(seed)
    find, is_known, shown = None, False, ""
    if error is not None:
        is_known = _cause(property, error) in known
        if property.level == "python" and not is_known:
            error, shown = batch.smallest(seed, error, reduced)
        elif known and not is_known:
            error = batch.reduced(error, reduced)
        find = _find(property, error, shown)
    took = time.monotonic() - start
    ops, rules, sought = frozenset(batch.ops), frozenset(batch.rules), batch.checked - start
    return Hunted(batch.done, took, ops, rules, find, is_known, sought)


class _Batch:
    def __init__(
        self, property: Property, examples: int, end: float, watched: bool, reduced: float
    ):
        self.property = property
        self.watched = watched
        self.examples = examples
        self.end = end
        self.at_once = reduced  # seconds to reduce what fails, before its cause is looked at
        self.drawing = settings(
            max_examples=10 * examples,  # of which some are filtered out
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        self.done = 0
        self.checked = time.monotonic()  # when the property was last asked
        self.drawn: list[Any] = []
        self.ops: set[str] = set()
        self.rules: set[str] = set()

    def run(self, seed: int) -> Exception | None:
        """Draws and checks; the error that came of it."""

        @seeded(seed)
        @settings(self.drawing, phases=[Phase.generate])
        @given(self.property.draw())
        def one(example: Any) -> None:
            if self.done == self.examples or time.monotonic() > self.end:
                raise _End
            self.done += 1
            self.ops.update(_ops(example))
            self.drawn.append(example)
            if len(self.drawn) == self.property.together:
                self.check()

        for part in (one, self.check):
            try:
                part()
            except _End as end:
                if isinstance(end.__cause__, Exception):
                    return end.__cause__
            except Exception as error:  # noqa: BLE001 -- drawing may fail, too
                return error
        return None

    def check(self) -> None:
        """Asks the property of what has been drawn."""
        if not self.drawn:
            return
        self.checked = time.monotonic()
        watching = self.watched and self.done // self.property.together % WATCHED == 1
        try:
            with _watch(self.rules if watching else None):
                self.property.holds(self.drawn, self.at_once)
        except Exception as error:
            raise _End from error
        self.drawn = []

    def reduced(self, error: Exception, seconds: float) -> Exception:
        """The error of the smallest program."""
        try:
            self.property.holds(self.drawn, seconds)
        except Exception as found:  # noqa: BLE001 -- whatever it is
            return found
        return error  # it does not fail each time

    def smallest(self, seed: int, error: Exception, seconds: float) -> tuple[Exception, str]:
        """The smallest Python that Hypothesis makes of what failed, and its error."""
        cause, end = _cause(self.property, error), time.monotonic() + seconds
        found = error, self.drawn[-1] if self.drawn else None

        @seeded(seed)
        @settings(self.drawing, phases=[Phase.generate, Phase.shrink])
        @given(self.property.draw())
        def one(example: Any) -> None:
            nonlocal found
            if time.monotonic() > end:
                raise _End
            try:
                self.property.holds([example], 0.0)
            except Exception as wrong:
                if _cause(self.property, wrong) == cause:
                    found = wrong, example
                    raise

        # What is wrong, that it stops being so at the end, or that the seconds are over.
        with suppress(Exception, _End):
            one()
        return found[0], repr(found[1])


def _ops(example: Any) -> Iterator[str]:
    """The names of the ops of the programs that there are in an example."""
    for part in example if isinstance(example, tuple) else (example,):
        if isinstance(part, Program):
            yield from (op.name for op in part.module.walk())


@contextmanager
def _watch(rules: set[str] | None) -> Iterator[None]:
    """Notes which functions of passes and of the emitter are called."""
    if rules is None:
        yield
        return
    seen = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before: Callable[..., object] | None = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        for code in seen:
            if code.co_filename.startswith(COVERED):
                where = Path(code.co_filename).relative_to(ROOT).with_suffix("")
                rules.add(f"{'.'.join(where.parts)}.{code.co_name}:{code.co_firstlineno}")


def _cause(property: Property, error: Exception) -> str:
    fault = error.fault if isinstance(error, Failure) else None
    if fault is not None and fault.guilty is not None:
        return fault.guilty.name
    part, wrong = (fault.wrong.part, fault.wrong.error) if fault is not None else ("", error)
    return f"{part or property.part or property.name} {type(wrong).__name__}"


def _find(property: Property, error: Exception, shown: str) -> Find:
    fault = error.fault if isinstance(error, Failure) else None
    message = (
        str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    )
    if fault is None:
        return Find(_cause(property, error), f"{message}\n\n{shown}".rstrip())
    return Find(_cause(property, error), message, str(fault.program), str(fault.pipeline))
