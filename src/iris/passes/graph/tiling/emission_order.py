"""Order the elements of a kernel so that few of them are alive at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from iris.passes.graph.tiling.element_exprs import Alias, SplatExpr
from iris.passes.graph.tiling.element_graph import ElementGraph, refs_of
from iris.passes.graph.tiling.element_ref import ElementRef


def emission_order(
    elements: ElementGraph, lanes_of: Callable[[ElementRef], int]
) -> dict[ElementRef, int]:
    """Number the elements, and so the stores of the outputs, in an order that keeps few alive.

    The order is made from its end.  Of the elements that all users of come after, the one is taken
    that leaves the fewest lanes alive before it: it dies there itself, and its operands are born.
    Of equal ones it is the last that the outputs reach.
    """
    exprs = elements.exprs
    number = {ref: n for n, ref in enumerate(exprs)}
    for ref, expr in exprs.items():
        if isinstance(expr, Alias):
            number[ref] = number[expr.ref]
    operands = [_distinct([number[r] for r in refs_of(ref, e)]) for ref, e in exprs.items()]
    lanes = [0 if isinstance(e, SplatExpr) else lanes_of(ref) for ref, e in exprs.items()]
    for output in elements.outputs:  # a store, of which nothing stays alive
        operands.append([number[output.ref]])
        lanes.append(0)
    order = _Backwards(operands, lanes).order()
    place = {n: -later for later, n in enumerate(order)}
    return {ref: place[n] for ref, n in number.items() if n in place}


def _distinct(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


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
