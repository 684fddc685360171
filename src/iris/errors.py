"""Every exception a user can meet, one class per kind of mistake.

A message says what was wrong, where, and what to do.  Nothing here imports from the rest of
Iris, so that every room may raise these.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """A pipeline text that does not parse, or a pass run at a level it is not made for."""


class SettingError(IrisError):
    """An environment variable or command-line option with a value that means nothing."""


class FileError(IrisError):
    """A file that cannot be read or written."""


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

    def __str__(self) -> str:
        # A very long line is shown only around the caret.
        first = max(0, self.column - 61)
        shown = self.source[first : first + 120].replace("\t", " ")
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
    ):
        super().__init__(message)
        self.message = message
        self.field = field
        self.index = index
        self.expected = expected  # the type that would have been right, where that is known
        self.context = context

    def __str__(self) -> str:
        return f"{self.message}\n{self.context}" if self.context else self.message


class PassError(IrisError):
    """A pass crashed or left broken IR; names the pass and how to replay it."""
