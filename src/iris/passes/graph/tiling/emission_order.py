"""Order the elements of a kernel so that few of them are alive at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from heapq import heappop, heappush
from math import gcd

from iris.passes.graph.tiling.element_graph import ElementGraph


def emission_order(elements: ElementGraph, lanes: Sequence[int]) -> tuple[int, ...]:
    """Order the elements and the stores of the outputs so that few of the elements' `lanes` are
    alive; the last comes first.

    An element is given by its number.  The stores have the numbers after the last element's.

    The order is made from its end.  Of the elements that all users of come after, the one is taken
    that leaves the fewest lanes alive before it: it dies there itself, and its operands are born.
    Of equal ones it is the last that the outputs reach.
    """
    held = [n if words else 0 for n, words in zip(lanes, elements.words, strict=True)]
    unit = gcd(*held) or 1
    return _order(elements, tuple([n // unit for n in held]))


@lru_cache(maxsize=16)  # schedules that are compared often have lanes in the same proportions
def _order(elements: ElementGraph, lanes: tuple[int, ...]) -> tuple[int, ...]:
    stores = [[elements.numbers[output.ref]] for output in elements.outputs]
    # Nothing stays alive of a store.
    return tuple(_Backwards([*elements.operands, *stores], [*lanes, *[0 for _ in stores]]).order())


class _Backwards:
    """Takes nodes of a graph one by one, each after its users."""

    def __init__(self, operands: Sequence[Sequence[int]], lanes: Sequence[int]):
        self.operands = operands
        self.lanes = lanes
        self.users: list[list[int]] = [[] for _ in operands]
        for n, own in enumerate(operands):
            for operand in own:
                self.users[operand].append(n)
        self.left = [len(users) for users in self.users]  # users that are not taken yet
        self.alive = [False] * len(operands)
        self.growth: dict[int, int] = {}  # of what can be taken
        self.heap: list[tuple[int, int]] = []

    def order(self) -> list[int]:
        """The nodes, the last first."""
        for n in range(len(self.operands) - 1, -1, -1):
            if not self.left[n]:
                self._offer(n)
        taken = []
        while self.heap:
            growth, minus_n = heappop(self.heap)
            if self.growth.get(-minus_n) == growth:
                taken.append(-minus_n)
                self._take(-minus_n)
        return taken

    def _offer(self, n: int) -> None:
        """Let a node be taken: say by how much more is alive before it than after it."""
        alive, lanes = self.alive, self.lanes
        born = sum([lanes[operand] for operand in self.operands[n] if not alive[operand]])
        self.growth[n] = born - lanes[n]
        heappush(self.heap, (self.growth[n], -n))

    def _take(self, n: int) -> None:
        del self.growth[n]
        born = [operand for operand in self.operands[n] if not self.alive[operand]]
        for operand in born:
            self.alive[operand] = True
        for operand in self.operands[n]:
            self.left[operand] -= 1
            if not self.left[operand]:
                self._offer(operand)
        for operand in born:
            for user in self.users[operand]:
                if user in self.growth:
                    self._offer(user)
