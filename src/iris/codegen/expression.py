"""The expression that stands for a value: a tree, with the facts that its users need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from iris.codegen.tree import Precedence, Tree
from iris.ir.metal import count_of, lanes_of
from iris.ir.types import DType, Type, bool_, u8


class Touch(IntEnum):
    """Bits that keep an expression from being moved."""

    READS = 1  # memory, which may be written
    CONVERGENT = 2  # its lanes must come together


@dataclass(slots=True, eq=False)
class Expression:
    """A tree, never changed.  The type of its elements may differ from that of the value.

    One without `PART` and with one lane stands for the same number in every element.
    """

    tree: Tree
    type: DType
    lanes: int = 1
    wraps: bool = False  # it is equal to the value only modulo 2 to the value's width
    touches: int = 0
    is_packed: bool = False  # a vector that memory holds with the alignment of its element

    @property
    def precedence(self) -> Precedence:
        return self.tree.precedence

    @property
    def is_indexed(self) -> bool:
        return self.tree.is_indexed

    def put(self, part: Tree, other: Tree) -> Expression:
        """The same with another tree in place of each part like this."""
        return self.replace(tree=self.tree.put(part, other))

    def at(self, number: Tree) -> Expression:
        """The vector of that number."""
        tree = self.tree
        if not tree.is_indexed:
            return self
        return Expression(
            tree.at(number), self.type, self.lanes, self.wraps, self.touches, self.is_packed
        )

    def replace(
        self,
        *,
        tree: Tree | None = None,
        type: DType | None = None,
        lanes: int | None = None,
        wraps: bool | None = None,
        touches: int | None = None,
    ) -> Expression:
        """A copy with other facts."""
        return Expression(
            self.tree if tree is None else tree,
            self.type if type is None else type,
            self.lanes if lanes is None else lanes,
            self.wraps if wraps is None else wraps,
            self.touches if touches is None else touches,
            self.is_packed,
        )


class Form(NamedTuple):
    """How many vectors of how many lanes hold a number of elements."""

    lanes: int
    parts: int


@lru_cache(maxsize=1024)
def form_of(type_: Type) -> Form:
    lanes = lanes_of(type_)
    return Form(lanes, count_of(type_) // lanes)


def in_memory(dtype: DType) -> DType:
    """What an element is in memory: a bool is a byte, as NumPy's."""
    return u8 if dtype is bool_ else dtype


def aligned(start: int, size: int) -> int:
    """The first byte from there on where something of a size may lie."""
    return start + -start % size


def merge_touches(expressions: Sequence[Expression]) -> int:
    touches = 0
    for expression in expressions:
        touches |= expression.touches
    return touches
