"""Expressions as text, with the facts that nesting them needs.

A thread's register array is a C array of vectors (`form`).  The text of its expression then has
`INDEX` where the number of the vector goes, so that elementwise expressions nest and a loop is
written only around the whole: `y[i] = exp(x[i] - m)`.  An expression without `INDEX` and with one
lane stands for the same number in every element.
"""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import NamedTuple

from iris.ir.types import ElementType

INDEX = "\0"
LANES = 4  # of the longest vectors of elements; more elements at once are words


class Precedence(IntEnum):
    """How tightly the outermost operator of an expression binds."""

    ASSIGNMENT = 0
    TERNARY = 1
    LOGICAL_OR = 2
    LOGICAL_AND = 3
    OR = 4
    XOR = 5
    AND = 6
    EQUALITY = 7
    RELATIONAL = 8
    SHIFT = 9
    ADDITIVE = 10
    MULTIPLICATIVE = 11
    PREFIX = 12
    POSTFIX = 13


class Touch(IntFlag):
    """What keeps an expression from being moved."""

    NOTHING = 0
    READS = 1  # memory, which may be written
    CONVERGENT = 2  # its lanes must come together


class Expression(NamedTuple):
    text: str
    precedence: int
    type: str  # the C type of an element of the text; it may differ from that of the value
    lanes: int = 1
    wraps: bool = False  # the text is equal to the value only modulo 2 to the value's width
    touches: int = 0
    sides: tuple[str, str, str] | None = None  # of a binary operator: left, operator, right

    @property
    def is_indexed(self) -> bool:
        return INDEX in self.text

    def at_least(self, precedence: int) -> str:
        """The text as an operand of an operator that binds so tightly."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def at(self, index: str | int) -> Expression:
        """The vector of that number."""
        return self._replace(text=at_index(self.text, str(index)), sides=None)


_PLACES = re.compile(rf"(?P<factor>(?<=[*/%] ){INDEX}|{INDEX}(?= [*/%]))|{INDEX}")


def at_index(text: str, index: str) -> str:
    """The text for the vector of a number, which need not be one name, and may itself have a place
    for another number."""
    if " " not in index:
        return text.replace(INDEX, index)
    return _PLACES.sub(lambda found: f"({index})" if found["factor"] else index, text)


class Form(NamedTuple):
    """How many vectors of how many lanes hold a number of elements."""

    lanes: int
    parts: int


@lru_cache(maxsize=256)
def form(count: int) -> Form:
    if count in (1, 2, 4):
        return Form(count, 1)
    if count % LANES == 0:
        return Form(LANES, count // LANES)
    return Form(1, count)


@lru_cache(maxsize=1024)
def form_of(type_: ElementType) -> Form:
    shape = type_.shape
    return form(shape[0]) if shape else Form(1, 1)


_NUMBER = re.compile(r"-?(?:\d[\w.]*|INFINITY|NAN|(?:half|bfloat)\([^()]*\))")


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def mentions(text: str, name: str) -> bool:
    """Whether an expression refers to a variable."""
    return name in text and re.search(rf"(?<![\w.]){re.escape(name)}\b", text) is not None


def rename(text: str, name: str, new: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", new, text)
