"""Statements of C as trees, and how they are set: indented, and broken where a line is too long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iris.codegen.tree import Binary, Braces, Tree
from iris.ir.core import Location

COLUMNS = 100
STEP = "    "

_COMPOUND = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"})


class Line(NamedTuple):
    """A line of the text, and the user's line that it comes from."""

    text: str
    location: Location | None


@dataclass(slots=True)
class Statement:
    location: Location | None = field(default=None, init=False)

    def set(self, indent: str, lines: list[Line]) -> None:
        """Add its lines, indented."""
        raise NotImplementedError


@dataclass(slots=True)
class Plain(Statement):
    """A statement that has no others in it."""

    @property
    def text(self) -> str:
        raise NotImplementedError

    def set(self, indent: str, lines: list[Line]) -> None:
        line = f"{indent}{self.text};"
        if len(line) <= COLUMNS:
            lines.append(Line(line, self.location))
        else:
            lines += [Line(text, self.location) for text in self._long(line, indent)]

    def _long(self, line: str, indent: str) -> Iterator[str]:
        """What does not fit on one line."""
        return broken(line, indent)


@dataclass(slots=True)
class Run(Plain):
    """An expression for what it does."""

    tree: Tree

    @property
    def text(self) -> str:
        return self.tree.text


@dataclass(slots=True)
class Assign(Plain):
    """`place = value`; `x = x + y` is written `x += y`."""

    place: Tree
    value: Tree

    @property
    def text(self) -> str:
        place, value = self.place.text, self.value
        if isinstance(value, Binary) and value.assigns and value.word in _COMPOUND:
            left, right = value.operands
            if left.text == place:
                return f"{place} {value.word}= {right.text}"
        return f"{place} = {value.text}"


@dataclass(slots=True)
class Declare(Plain):
    """A variable, or an array of `count`, with what it starts with."""

    type: str
    name: str
    value: Tree | None = None
    count: int | None = None

    @property
    def text(self) -> str:
        head = f"{self.type} {self.name}"
        if self.count is not None:
            head += f"[{self.count}]"
        return head if self.value is None else f"{head} = {self.value.text}"

    def _long(self, line: str, indent: str) -> Iterator[str]:
        if not isinstance(self.value, Braces):
            yield from broken(line, indent)
            return
        yield f"{indent}{self.type} {self.name}[{self.count}] = {{"
        for element in self.value.operands:
            yield from broken(f"{indent}{STEP}{element.text},", indent)
        yield f"{indent}}};"


Block = list[Statement]


@dataclass(slots=True)
class Nest(Statement):
    """A head, and the block that it is the head of; around one short line there are no braces."""

    body: Block

    @property
    def head(self) -> str:
        raise NotImplementedError

    def set(self, indent: str, lines: list[Line]) -> None:
        body = set_block(self.body, indent + STEP)
        if len(body) == 1 and isinstance(self.body[0], Plain):
            text = f"{indent}{self.head} {body[0].text.lstrip()}"
            if len(text) <= COLUMNS:
                lines.append(Line(text, body[0].location or self.location))
                return
        self._open(indent, lines)
        lines += body
        lines.append(Line(f"{indent}}}", self.location))

    def _open(self, indent: str, lines: list[Line]) -> None:
        head = f"{indent}{self.head} {{"
        lines += [Line(text, self.location) for text in broken(head, indent)]


@dataclass(slots=True)
class For(Nest):
    type: str
    name: str
    start: Tree
    test: Tree
    advance: str
    pragma: str | None = None  # what stands before it

    @property
    def head(self) -> str:
        start = f"{self.type} {self.name} = {self.start.text}"
        return f"for ({start}; {self.test.text}; {self.advance})"

    def set(self, indent: str, lines: list[Line]) -> None:
        if self.pragma is not None:
            lines.append(Line(indent + self.pragma, self.location))
        Nest.set(self, indent, lines)


@dataclass(slots=True)
class While(Nest):
    condition: Tree | None = None  # none: for ever

    @property
    def head(self) -> str:
        return f"while ({'true' if self.condition is None else self.condition.text})"


@dataclass(slots=True)
class If(Nest):
    condition: Tree
    otherwise: Block = field(default_factory=list)

    @property
    def head(self) -> str:
        return f"if ({self.condition.text})"

    def set(self, indent: str, lines: list[Line]) -> None:
        if not self.otherwise:
            Nest.set(self, indent, lines)
            return
        self._open(indent, lines)
        lines += set_block(self.body, indent + STEP)
        lines.append(Line(f"{indent}}} else {{", self.location))
        lines += set_block(self.otherwise, indent + STEP)
        lines.append(Line(f"{indent}}}", self.location))


def set_block(block: Sequence[Statement], indent: str) -> list[Line]:
    lines: list[Line] = []
    for statement in block:
        statement.set(indent, lines)
    return lines


def broken(line: str, indent: str) -> Iterator[str]:
    """The line as one or as several, none too long if that can be."""
    start = len(indent) + 2 * len(STEP)
    while len(line) > COLUMNS:
        at = _break(line, start)
        if at is None:
            break
        yield line[:at].rstrip()
        line = indent + 2 * STEP + line[at:].lstrip()
    yield line


# Brackets, and spaces at which a line may be broken.
_MARKS = re.compile(
    r"(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<assigned>(?<= =) )"
    r"|(?P<between>(?<=,) | (?=[?:+|] |&&|\|\|))"
)


def _break(line: str, start: int) -> int | None:
    """Where to break a line that is too long: as far out of brackets as can be, then as late;
    after `=` if that is enough, or nothing else is there."""
    best, least, depth, assigned = None, 0, 0, None
    for mark in _MARKS.finditer(line):
        at, kind = mark.start(), mark.lastgroup
        if at >= COLUMNS and (best, assigned) != (None, None):
            break
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif at <= start:
            continue
        elif kind == "assigned":
            assigned = at
        elif best is None or depth <= least:
            best, least = at, depth
    if assigned is not None and (best is None or len(line) - assigned + start <= COLUMNS):
        return assigned
    return best
