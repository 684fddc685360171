"""Expressions of C as trees, and their text with as few brackets as one reads without thinking.

    binary("+", Name("x"), Number("1", 1)).text       # x + 1

A thread's register array is a C array of vectors (`form`).  Its expression has `PART` where the
number of the vector goes, so that elementwise expressions nest and a loop is written only around
the whole: `y[i] = exp(x[i] - m)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class Precedence(IntEnum):
    """How tightly the outermost operator of an expression binds."""

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


_LEVELS = {
    "*": Precedence.MULTIPLICATIVE,
    "/": Precedence.MULTIPLICATIVE,
    "%": Precedence.MULTIPLICATIVE,
    "+": Precedence.ADDITIVE,
    "-": Precedence.ADDITIVE,
    "<<": Precedence.SHIFT,
    ">>": Precedence.SHIFT,
    "<": Precedence.RELATIONAL,
    "<=": Precedence.RELATIONAL,
    ">": Precedence.RELATIONAL,
    ">=": Precedence.RELATIONAL,
    "==": Precedence.EQUALITY,
    "!=": Precedence.EQUALITY,
    "&": Precedence.AND,
    "^": Precedence.XOR,
    "|": Precedence.OR,
    "&&": Precedence.LOGICAL_AND,
    "||": Precedence.LOGICAL_OR,
}


class Tree:
    """An expression: a word, and the expressions that it is made of."""

    __slots__ = ("calls", "is_indexed", "operands", "text", "word")

    precedence: Precedence = Precedence.POSTFIX
    is_call = False  # or a conversion

    def __init__(self, word: str, *operands: Tree):
        self.word = word
        self.operands = operands
        self.is_indexed = False  # has `PART` in it
        self.calls = self.is_call  # or has a call in it
        for operand in operands:
            if operand.is_indexed:
                self.is_indexed = True
            if operand.calls:
                self.calls = True
        self.text = self._written()

    def __repr__(self) -> str:
        return self.text

    def _written(self) -> str:
        return self.word

    def bound(self, precedence: int) -> str:
        """The text as an operand of an operator that binds as tightly as that."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def put(self, part: Tree, other: Tree) -> Tree:
        """The tree with another one in place of each part like this."""
        if self.is_like(part):
            return other
        operands = [operand.put(part, other) for operand in self.operands]
        if all(new is old for new, old in zip(operands, self.operands, strict=True)):
            return self
        return type(self)(self.word, *operands)

    def at(self, number: Tree) -> Tree:
        """The vector of a number."""
        return self.put(PART, number) if self.is_indexed else self

    def has(self, part: Tree) -> bool:
        return self.is_like(part) or any(operand.has(part) for operand in self.operands)

    def is_like(self, other: Tree) -> bool:
        return type(self) is type(other) and self.text == other.text


class Name(Tree):
    """A variable, or what the language has under a name."""

    __slots__ = ()


class _Part(Tree):
    __slots__ = ()


#: Stands for the number of the vector.
PART = _Part("?")
PART.is_indexed = True


class Number(Tree):
    """A literal, and its bits or its value, which are 0 of the same numbers."""

    __slots__ = ("precedence", "value")

    def __init__(self, word: str, value: int):
        super().__init__(word)
        self.precedence = Precedence.PREFIX if word[0] == "-" else Precedence.POSTFIX
        self.value = value


def number(value: int) -> Number:
    return Number(str(value), value)


class Unary(Tree):
    __slots__ = ()
    precedence = Precedence.PREFIX

    def _written(self) -> str:
        text = self.operands[0].bound(Precedence.PREFIX)
        if text.startswith(self.word):  # `--x` is something else
            text = f"({text})"
        return self.word + text


class Binary(Tree):
    __slots__ = ("precedence",)

    def __init__(self, word: str, *operands: Tree):
        self.precedence = _LEVELS[word]
        super().__init__(word, *operands)

    def _written(self) -> str:
        left, right = self.operands
        level = self.precedence
        return f"{self._left(left, level)} {self.word} {self._right(right, level)}"

    def _left(self, operand: Tree, level: Precedence) -> str:
        return operand.bound(level)

    def _right(self, operand: Tree, level: Precedence) -> str:
        return operand.bound(level + 1)


class _Regrouped(Binary):
    """A sum whose right side may lose its brackets: it may be added in any order."""

    __slots__ = ()

    def _right(self, operand: Tree, level: Precedence) -> str:
        return operand.bound(level)


class _Comparison(Binary):
    """`a < b == c` is right and nobody reads it."""

    __slots__ = ()

    def _left(self, operand: Tree, level: Precedence) -> str:
        return operand.bound(Precedence.SHIFT)

    _right = _left


class _Logical(Binary):
    __slots__ = ()

    def _left(self, operand: Tree, level: Precedence) -> str:
        same = operand.precedence == level
        return operand.text if same else operand.bound(Precedence.EQUALITY)

    _right = _left


class _Bitwise(Binary):
    """Nobody knows by heart how these bind: only a chain of one of them goes without brackets."""

    __slots__ = ()

    def _left(self, operand: Tree, level: Precedence) -> str:
        same = operand.precedence == level
        return operand.text if same else operand.bound(Precedence.PREFIX)

    def _right(self, operand: Tree, level: Precedence) -> str:
        return operand.bound(Precedence.PREFIX)


_BINARY: dict[str, type[Binary]] = {
    **dict.fromkeys(("*", "/", "%", "+", "-"), Binary),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _Comparison),
    **dict.fromkeys(("&&", "||"), _Logical),
    **dict.fromkeys(("&", "|", "^", "<<", ">>"), _Bitwise),
}


def binary(operator: str, left: Tree, right: Tree) -> Binary:
    return _BINARY[operator](operator, left, right)


def regrouped(left: Tree, right: Tree) -> Binary:
    """The sum, in which the brackets of the right side do not matter."""
    return _Regrouped("+", left, right)


class Ternary(Tree):
    """`condition ? one : other`."""

    __slots__ = ()
    precedence = Precedence.TERNARY

    def _written(self) -> str:
        condition, one, other = self.operands
        return (
            f"{condition.bound(Precedence.LOGICAL_OR)} ? {one.bound(Precedence.LOGICAL_OR)} : "
            f"{other.bound(Precedence.TERNARY)}"
        )


def ternary(condition: Tree, one: Tree, other: Tree) -> Ternary:
    return Ternary("?", condition, one, other)


class Call(Tree):
    """A call, a conversion to a type, or a vector that is put together: `float4(x)`."""

    __slots__ = ()
    is_call = True

    def _written(self) -> str:
        return f"{self.word}({listed(self.operands)})"


class PointerCast(Tree):
    """The same address as a pointer to something else: `(type)x`."""

    __slots__ = ()
    is_call = True
    precedence = Precedence.PREFIX

    def _written(self) -> str:
        return f"({self.word}){self.operands[0].bound(Precedence.PREFIX)}"


class Element(Tree):
    """`array[number]`."""

    __slots__ = ()

    def _written(self) -> str:
        array, number = self.operands
        return f"{array.bound(Precedence.POSTFIX)}[{number.text}]"


def element(array: Tree, number: Tree) -> Element:
    return Element("[]", array, number)


class Member(Tree):
    """`structure.name`."""

    __slots__ = ()

    def _written(self) -> str:
        return f"{self.operands[0].bound(Precedence.POSTFIX)}.{self.word}"


class Braces(Tree):
    """What an array is initialised with: `{x, y}`."""

    __slots__ = ()

    def _written(self) -> str:
        return f"{{{listed(self.operands)}}}"


def braces(elements: Sequence[Tree] = ()) -> Braces:
    return Braces("{}", *elements)


def listed(trees: Sequence[Tree]) -> str:
    return ", ".join([tree.text for tree in trees])
