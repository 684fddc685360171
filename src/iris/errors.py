"""Every exception a user can meet, one class per kind of mistake.

A message says what was wrong, where, and what to do.  Nothing here imports from the rest of
Iris, so that every room may raise these.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_MOST_NAMED = 4  # programs in an error


class IrisError(Exception):
    """The base of every error that Iris raises on purpose."""


class LayoutError(IrisError):
    """A layout operation was asked for something that is not the function it promises."""


class TypeMistake(IrisError):
    """A type that cannot exist, such as a tile whose size is not a power of two."""


class DeclarationError(IrisError):
    """An op, pass or facet is declared wrongly, twice, or not at all."""


class RewriteError(IrisError):
    """A change to the IR that would leave it broken, such as erasing a value still in use."""


class PipelineError(IrisError):
    """A pipeline text that does not parse, or IR that a pass is not made for, with its line."""

    def __init__(self, message: str, location: tuple[str, int] | None = None):
        line = "" if location is None else f"\n{SourceSpot.of_line(*location)}"
        super().__init__(message + line)


class SettingError(IrisError):
    """An environment variable or command-line option with a value that means nothing."""


class FileError(IrisError):
    """A file that cannot be read or written."""


class SoftmetalError(IrisError):
    """The software Metal device cannot be built on this machine; says what to install."""


@dataclass(frozen=True)
class SourceSpot:
    """One character of a text, for an error that points at it."""

    file: str
    line: int  # 1-based
    column: int  # 1-based
    source: str  # the line itself

    @staticmethod
    def at(text: str, offset: int, file: str) -> SourceSpot:
        offset = min(offset, len(text))
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        source = text[start : end if end >= 0 else len(text)]
        return SourceSpot(file, text.count("\n", 0, offset) + 1, offset - start + 1, source)

    @staticmethod
    def of_line(file: str, line: int, column: int | None = None) -> SourceSpot:
        """A place in a source file; without a 0-based column, its first character."""
        source = linecache.getline(file, line).rstrip("\n")
        if column is None:
            column = len(source) - len(source.lstrip())
        return SourceSpot(file, line, column + 1, source)

    def __str__(self) -> str:
        # A very long line is shown only around the caret, and what a terminal would act on, or
        # not take, is left out.
        if not self.source:  # the line is empty, or the file is not there
            return f" --> {self.file}:{self.line}"
        first = max(0, self.column - 61)
        shown = "".join([c if c.isprintable() else " " for c in self.source[first : first + 120]])
        prefix = "..." if first else ""
        caret = " " * (len(prefix) + self.column - 1 - first) + "^"
        number = str(self.line)
        margin = " " * len(number)
        return (
            f"{margin}--> {self.file}:{self.line}:{self.column}\n"
            f"{number} | {prefix}{shown}\n"
            f"{margin} | {caret}"
        )


class ParseError(IrisError):
    """IR text that is not well formed, or that says something the verifier rejects."""

    def __init__(self, message: str, spot: SourceSpot):
        super().__init__(message, spot)
        self.message = message
        self.spot = spot

    def __str__(self) -> str:
        return f"{self.message}\n{self.spot}"


class UserError(IrisError):
    """A mistake in the user's Python, shown at its line.  `spot` is where, if that is known."""

    def __init__(self, message: str, spot: SourceSpot | None = None):
        super().__init__(message, spot)
        self.message = message
        self.spot = spot

    def __str__(self) -> str:
        return self.message if self.spot is None else f"{self.message}\n{self.spot}"


class LanguageError(UserError):
    """Something that the tile language does not have, or not for these values."""


class DTypeError(UserError, TypeError):
    """A dtype that does not exist, or that does not go where it is used."""


class RangeError(DTypeError, OverflowError):
    """A number that its dtype does not hold."""


class ExponentError(DTypeError, ValueError):
    """An exponent to which integers are not raised."""


class ShapeError(UserError, ValueError):
    """A shape that is not constant, not made of powers of two, or does not fit."""


class IndexingError(ShapeError, IndexError):
    """An index or an axis that an array does not have."""


class PointerError(UserError):
    """An address that cannot be made: bases mixed, an offset that is no integer, no bounds."""


class ArgumentError(UserError, TypeError, ValueError):
    """An argument that is missing, unknown, of the wrong kind, or cannot be passed."""


class ControlFlowError(UserError):
    """Control flow that cannot depend on a traced value."""


class CarriedError(UserError):
    """A variable that a loop or branch cannot carry: its kind, shape or dtype changes."""


class ScopeError(UserError):
    """A traced value used outside the loop or branch that it belongs to."""


class MaskError(UserError):
    """A masked load whose masked elements need a value."""


class SourceError(UserError):
    """A kernel whose source Python cannot give."""


class OutOfResources(UserError):
    """A kernel that needs more threads, memory, registers or buffers than the GPU has for one."""


class VerifyError(IrisError):
    """IR that breaks a rule.

    `field` and `index` name the operand, attribute or result at fault, when it is one of them,
    so that a parser can point at the text it came from.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        index: int = 0,
        expected: object = None,
        context: str = "",
        location: tuple[str, int] | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.field = field
        self.index = index
        self.expected = expected  # the type that would have been right, where that is known
        self.context = context
        self.location = location  # the file and line that the op at fault is from

    def __str__(self) -> str:
        return f"{self.message}\n{self.context}" if self.context else self.message


class RaceKind(NamedTuple):
    """What makes races alike: who meets, in what memory, and how each uses it."""

    between: str  # `programs`, `threads`, or `one op` that makes both accesses at once
    memory: str  # `device` or `threadgroup`
    uses: frozenset[str]  # such as `reads` and `writes`, whichever comes first


class ProgramError(IrisError):
    """What a program does wrong when it runs, such as an index out of bounds or a race.

    `program` is the one at fault, `thread` which of its threads, where they are told apart;
    `array` and `index` the element, where it is about one; `locations` are the user's lines that
    did it, each a file and a line.
    """

    def __init__(
        self,
        message: str,
        *,
        program: tuple[int, ...] | None = None,
        thread: int | None = None,
        array: str | None = None,
        index: int | None = None,
        locations: Sequence[tuple[str, int]] = (),
    ):
        super().__init__(message)
        self.message = message
        self.program = program
        self.thread = thread
        self.array = array
        self.index = index
        self.locations = tuple(locations)

    def __str__(self) -> str:
        return "\n".join([self.message, *_quoted(self.locations)])


class RaceError(ProgramError):
    """Two programs or threads access one element in no order, and one of them writes it."""

    # Without a kind it is made where one is copied, which gives it the rest.
    def __init__(self, message: str, *, kind: RaceKind | None = None, **where: Any):
        super().__init__(message, **where)
        self.kind = kind


class DeadlockError(ProgramError):
    """Programs that wait for each other, or for what nobody will write."""

    @classmethod
    def of(cls, waits: Sequence[str], **where: Any) -> DeadlockError:
        """`waits` says of each program what it waits for; the first few are named."""
        named = ", ".join(waits[:_MOST_NAMED])
        more = len(waits) - _MOST_NAMED
        rest = f", and {more} more wait" if more > 0 else ""
        return cls(f"deadlock: no program goes on, and nothing changes: {named}{rest}", **where)


class DeviceError(IrisError):
    """What a device could not do: compile a text, give memory, run a launch to its end.

    `locations` are the user's lines that it is about, each a file and a line, where they are known.
    """

    def __init__(self, message: str, *, locations: Sequence[tuple[str, int]] = ()):
        super().__init__(message)
        self.message = message
        self.locations = tuple(locations)

    def __str__(self) -> str:
        return "\n".join([self.message, *_quoted(self.locations)])


class OutOfTimeError(DeviceError):
    """A launch took longer than the device lets it."""


class PassError(IrisError):
    """A pass crashed or left broken IR; names the pass and how to replay it."""


def _quoted(locations: Sequence[tuple[str, int]]) -> list[str]:
    """Where lines of the user are, and what they say."""
    lines = []
    for file, line in locations:
        lines.append(f"  at {file}:{line}")
        source = linecache.getline(file, line).strip()
        if source:
            lines.append(f"    {source}")
    return lines
