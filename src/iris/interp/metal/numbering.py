"""Numbers of the programs, threads and accesses of a launch, and stamps, which are made of them.

A stamp has, from the highest bit on, the number of the access, of the program and of the thread.
"""

from __future__ import annotations

from math import prod

from iris.ir.core import Op

Grid = tuple[int, int, int]


class Numbering:
    """How the programs, threads and accesses of one launch are numbered."""

    __slots__ = ("count", "grid", "log", "stamp_bits", "thread_bits", "threads")

    def __init__(self, grid: Grid, threads: int):
        self.grid = grid
        self.count = prod(grid)  # of programs
        self.threads = threads  # of each
        self.log: list[Op] = []  # the accesses made so far
        self.thread_bits = (threads - 1).bit_length()
        self.stamp_bits = self.thread_bits + self.count.bit_length()

    def program(self, number: int) -> tuple[int, int, int]:
        """Where in the grid a program is."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def now(self) -> int:
        """The lowest stamp that an access can get from now on."""
        return (len(self.log) + 1) << self.stamp_bits

    def access_of(self, stamp: int) -> tuple[Op, int, int]:
        """The op, program and thread of a stamp."""
        rest = stamp & ((1 << self.stamp_bits) - 1)
        op = self.log[(stamp >> self.stamp_bits) - 1]
        return op, rest >> self.thread_bits, rest & ((1 << self.thread_bits) - 1)
