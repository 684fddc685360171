"""Drawn bytes, read as choices."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Drawn bytes, used up one by one; where one is 0 the choice is the first alternative, which is
    to be the simplest.

    A step of a program is one draw of a few bytes, not one draw per choice: it is faster, and a
    step that is left out, or that looks at fewer of its bytes, changes no other step.  The few
    steps that need more bytes get them from a hash of those drawn; or zeros, if the last is zero.
    """

    __slots__ = ("data", "position")

    def __init__(self, data: bytes):
        self.data = data
        self.position = 0

    def below(self, count: int) -> int:
        """A number from 0 up to `count`, at most 256."""
        position = self.position
        self.position += 1
        if position == len(self.data):
            more = hashlib.blake2b(self.data).digest()
            self.data += more if any(self.data[-1:]) else bytes(len(more))
        return self.data[position] % count

    def of(self, alternatives: Sequence[T]) -> T:
        return alternatives[self.below(len(alternatives))]

    def wide(self, alternatives: Sequence[T]) -> T:
        """One of a sequence that may have more than 256 items."""
        return alternatives[(self.below(256) << 8 | self.below(256)) % len(alternatives)]

    def flag(self, one_in: int = 2) -> bool:
        """Seldom, or as often as not, true."""
        return self.below(one_in) == one_in - 1
