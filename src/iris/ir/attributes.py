"""The kinds of attribute: how each prints, parses and is checked.

An attribute's value is a plain immutable Python value that compares by `==`, exactly: that is
why a float constant is kept as its bits (0.0 and -0.0 differ, nan equals itself).
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Generic, TypeVar

from iris.ir import literal
from iris.ir.text.cursor import Cursor
from iris.ir.text.types import read_type
from iris.ir.types import ElementType, Type

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class AttributeKind(Generic[T]):
    """One kind of attribute.  `of` is the type of the op's first result, if it has one: the
    text of a number depends on it."""

    what: str

    def accepts(self, value: object) -> bool:
        raise NotImplementedError

    def text(self, value: T, of: Type | None) -> str:
        return str(value)

    def parse(self, cursor: Cursor, of: Type | None) -> T:
        raise NotImplementedError


class Integer(AttributeKind[int]):
    """A small integer: an axis, a count."""

    what = "an integer"

    def __init__(self, least: int = -(2**63), most: int = 2**63 - 1):
        self.least = least
        self.most = most

    def accepts(self, value: object) -> bool:
        return type(value) is int and self.least <= value <= self.most

    def parse(self, cursor: Cursor, of: Type | None) -> int:
        return cursor.integer(self.least, self.most)


class Integers(AttributeKind[tuple[int, ...]]):
    """A list of integers of some dtype, in brackets."""

    what = "a list of integers"
    least = -(2**63)
    most = 2**64 - 1

    def accepts(self, value: object) -> bool:
        return type(value) is tuple and all(
            type(i) is int and self.least <= i <= self.most for i in value
        )

    def text(self, value: tuple[int, ...], of: Type | None) -> str:
        return f"[{', '.join(map(str, value))}]"

    def parse(self, cursor: Cursor, of: Type | None) -> tuple[int, ...]:
        return tuple(cursor.listed("[", "]", lambda: cursor.integer(self.least, self.most)))


class Boolean(AttributeKind[bool]):
    what = "true or false"

    def accepts(self, value: object) -> bool:
        return type(value) is bool

    def text(self, value: bool, of: Type | None) -> str:
        return "true" if value else "false"

    def parse(self, cursor: Cursor, of: Type | None) -> bool:
        return cursor.one_of({"true": True, "false": False}, self.what)


def is_text(value: str) -> bool:
    """Whether files and terminals can have a string: half of a pair of surrogates they cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class String(AttributeKind[str]):
    what = "a string in double quotes, without lone surrogates"

    def accepts(self, value: object) -> bool:
        return type(value) is str and is_text(value)

    def text(self, value: str, of: Type | None) -> str:
        return json.dumps(value)

    def parse(self, cursor: Cursor, of: Type | None) -> str:
        return cursor.string()


def legal_name(hint: str) -> str:
    """The hint as a name that the text can have, which `größe`, `a b` and `1x` are not."""
    if hint.isascii() and hint.isidentifier():
        return hint
    name = re.sub(r"\W", "_", hint, flags=re.ASCII)
    return f"_{name}" if name[0].isdigit() else name


class Symbol(AttributeKind[str]):
    """The name of a function."""

    what = "a function's name, such as @softmax"

    def accepts(self, value: object) -> bool:
        return type(value) is str and value.isidentifier() and value.isascii()

    def text(self, value: str, of: Type | None) -> str:
        return f"@{value}"

    def parse(self, cursor: Cursor, of: Type | None) -> str:
        return cursor.symbol()


class OneOf(AttributeKind[E]):
    """A member of an enum, printed as its value."""

    def __init__(self, enum: type[E]):
        self.members = {str(m.value): m for m in enum}
        self.enum = enum
        self.what = f"one of {', '.join(self.members)}"

    def accepts(self, value: object) -> bool:
        return isinstance(value, self.enum)

    def text(self, value: E, of: Type | None) -> str:
        return str(value.value)

    def parse(self, cursor: Cursor, of: Type | None) -> E:
        return cursor.one_of(self.members, self.what)


class Types(AttributeKind[tuple[Type, ...]]):
    """A list of types, in brackets."""

    what = "a list of types"

    def accepts(self, value: object) -> bool:
        return type(value) is tuple and all(isinstance(t, Type) for t in value)

    def text(self, value: tuple[Type, ...], of: Type | None) -> str:
        return f"[{', '.join(map(str, value))}]"

    def parse(self, cursor: Cursor, of: Type | None) -> tuple[Type, ...]:
        return tuple(cursor.listed("[", "]", lambda: read_type(cursor)))


class Bits(AttributeKind[int]):
    """The bit pattern of a number in the dtype of the op's result, printed as the number."""

    what = "a number"

    def accepts(self, value: object) -> bool:
        return type(value) is int and 0 <= value < 2**64

    def text(self, value: int, of: Type | None) -> str:
        if isinstance(of, ElementType) and not value >> of.element.bits:
            return literal.text(value, of.element)
        return str(value)  # broken IR, which the verifier prints

    def parse(self, cursor: Cursor, of: Type | None) -> int:
        if not isinstance(of, ElementType):
            raise cursor.error(f"a number needs a result with elements, not {of}")
        return cursor.number(of.element)
