"""Expressions of C as trees, and their text with as few brackets as one reads without thinking.

    binary("+", Name("x"), Number("1", 1)).text       # x + 1

A thread's register array is a C array of vectors (`form`).  Its expression has `PART` where the
number of the vector goes, so that elementwise expressions nest and a loop is written only around
the whole: `y[i] = exp(x[i] - m)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple


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


class Tree:
    """An expression: a word, and the expressions that it is made of."""

    __slots__ = ("calls", "is_indexed", "operands", "text", "word")

    word: str
    operands: tuple[Tree, ...]
    text: str
    is_indexed: bool  # has `PART` in it
    calls: bool  # is a call or has one in it
    precedence: Precedence = Precedence.POSTFIX
    is_call = False  # or a conversion

    def __init__(self, word: str, *operands: Tree):
        self.word = word
        self.operands = operands
        is_indexed, calls = False, self.is_call
        for operand in operands:
            if operand.is_indexed:
                is_indexed = True
            if operand.calls:
                calls = True
        self.is_indexed = is_indexed
        self.calls = calls
        self.text = self._written()

    def __repr__(self) -> str:
        return self.text

    def _written(self) -> str:
        raise NotImplementedError

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
        if not self.is_indexed:
            return self
        operands = [x.at(number) if x.is_indexed else x for x in self.operands]
        return type(self)(self.word, *operands)

    def has(self, part: Tree) -> bool:
        return self.is_like(part) or any(operand.has(part) for operand in self.operands)

    def is_like(self, other: Tree) -> bool:
        return type(self) is type(other) and self.text == other.text


class Leaf(Tree):
    """A word alone."""

    __slots__ = ()

    def __init__(self, word: str):
        self.word = self.text = word
        self.operands = ()
        self.is_indexed = self.calls = False


class Name(Leaf):
    """A variable, or what the language has under a name."""

    __slots__ = ()


class _Part(Leaf):
    __slots__ = ()

    def at(self, number: Tree) -> Tree:
        return number


#: Stands for the number of the vector.
PART = _Part("?")
PART.is_indexed = True


class Number(Leaf):
    """A literal, and its bits or its value, which are 0 of the same numbers."""

    __slots__ = ("precedence", "value")

    def __init__(self, word: str, value: int):
        Leaf.__init__(self, word)
        self.precedence = Precedence.PREFIX if word[0] == "-" else Precedence.POSTFIX
        self.value = value

    def without_sign(self) -> Number:
        """The number of the other sign, of one that is written with a sign."""
        return Number(self.word[1:], -self.value)


@lru_cache(maxsize=256)
def number(value: int) -> Number:
    return Number(str(value), value)


def is_zero(tree: Tree) -> bool:
    return isinstance(tree, Number) and tree.value == 0


class Unary(Tree):
    __slots__ = ()
    precedence = Precedence.PREFIX

    def _written(self) -> str:
        text = self.operands[0].bound(Precedence.PREFIX)
        if text.startswith(self.word):  # `--x` is something else
            text = f"({text})"
        return self.word + text


class _Operator(NamedTuple):
    """How tightly an operator binds, and which of its operands need no brackets: those that bind
    at least as tightly as `least` and, on a side that chains, those that bind as it does."""

    level: Precedence
    least: Precedence
    chains_left: bool = True
    chains_right: bool = False


_OPERATORS = {
    **dict.fromkeys("*/%", _Operator(Precedence.MULTIPLICATIVE, Precedence.PREFIX)),
    **dict.fromkeys("+-", _Operator(Precedence.ADDITIVE, Precedence.MULTIPLICATIVE)),
    # `a < b == c` is right and nobody reads it.
    **dict.fromkeys(
        ("<", "<=", ">", ">="),
        _Operator(Precedence.RELATIONAL, Precedence.SHIFT, chains_left=False),
    ),
    **dict.fromkeys(
        ("==", "!="), _Operator(Precedence.EQUALITY, Precedence.SHIFT, chains_left=False)
    ),
    # Nobody knows by heart how these bind: only a chain of one of them goes without brackets.
    **dict.fromkeys(("<<", ">>"), _Operator(Precedence.SHIFT, Precedence.PREFIX)),
    "&": _Operator(Precedence.AND, Precedence.PREFIX),
    "^": _Operator(Precedence.XOR, Precedence.PREFIX),
    "|": _Operator(Precedence.OR, Precedence.PREFIX),
    "&&": _Operator(Precedence.LOGICAL_AND, Precedence.EQUALITY, chains_right=True),
    "||": _Operator(Precedence.LOGICAL_OR, Precedence.EQUALITY, chains_right=True),
}


class Binary(Tree):
    __slots__ = ("precedence",)
    regroups = False  # the right side may lose its brackets: it may be computed in any order
    assigns = True  # `x = x + y` may be written `x += y`

    def __init__(self, word: str, left: Tree, right: Tree):
        level, least, chains_left, chains_right = _OPERATORS[word]
        self.word = word
        self.operands = (left, right)
        self.precedence = level
        self.is_indexed = left.is_indexed or right.is_indexed
        self.calls = left.calls or right.calls
        first, second = left.text, right.text
        if left.precedence < least and not (chains_left and left.precedence == level):
            first = f"({first})"
        chains_right = chains_right or self.regroups
        if right.precedence < least and not (chains_right and right.precedence == level):
            second = f"({second})"
        self.text = f"{first} {word} {second}"


binary = Binary


class _Regrouped(Binary):
    __slots__ = ()
    regroups = True


class _OfBools(Binary):
    __slots__ = ()
    assigns = False


def of_bools(word: str, left: Tree, right: Tree) -> Binary:
    """An operation on vectors of bool, for which no language promises `x |= y`."""
    return _OfBools(word, left, right)


def regrouped(left: Tree, right: Tree) -> Binary:
    """The sum, in which the brackets of the right side do not matter."""
    return _Regrouped("+", left, right)


def within(index: Tree, size: int, offset: Tree) -> Tree:
    """The number of the element so far into the part of a number, of parts of a size."""
    if size == 1:
        return index
    if is_zero(index):
        return offset
    start = binary("*", index, number(size))
    return start if is_zero(offset) else regrouped(start, offset)


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

    def __init__(self, word: str, array: Tree, number: Tree):
        self.word = word
        self.operands = (array, number)
        self.is_indexed = array.is_indexed or number.is_indexed
        self.calls = array.calls or number.calls
        self.text = f"{array.bound(Precedence.POSTFIX)}[{number.text}]"


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
