"""Memory of a Metal device: buffers, who uses them, and a pool of those that nobody does."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from iris.runtime.objc import Object

if TYPE_CHECKING:
    from iris.runtime.queue import Batch, Stream


class Block:
    """One of Metal's buffers, and which launches still use it."""

    __slots__ = ("buffer", "contents", "size", "used", "written")

    def __init__(self, buffer: Object, contents: int, size: int):
        self.buffer = buffer
        self.contents = contents
        self.size = size
        # The last batch of each stream that reads or writes it, and that writes it.
        self.used: dict[Stream, Batch] = {}
        self.written: dict[Stream, Batch] = {}


class Memory:
    """A block for as long as somebody refers to this; `keeps` is what must live as long."""

    __slots__ = ("__weakref__", "_give_back", "block", "keeps")

    def __init__(
        self, block: Block, give_back: Callable[[Block], None] | None, keeps: object = None
    ):
        self.block = block
        self.keeps = keeps
        self._give_back = give_back

    def __del__(self) -> None:
        if self._give_back is not None:
            self._give_back(self.block)


class Pool:
    """Blocks that were given back, for those who want memory of the same size.

    Launches keep theirs until they are done, so nobody has to wait who writes to new memory.  Sizes
    are exact: what lies behind the end of a buffer is nobody's.
    """

    def __init__(self, most: int):
        self.most = most  # bytes to keep
        self.held = 0
        # Blocks are given back by __del__, at any time: by nothing that could be interrupted.
        self._free: dict[int, deque[Block]] = defaultdict(deque)
        # What is lent is kept here, too: when memory goes in a circle of objects, the collector
        # would end its buffer with it.
        self._lent: set[Block] = set()

    def take(self, size: int) -> Block | None:
        """A block of a size, to be lent."""
        free = self._free.get(size)
        try:
            block = free.pop() if free else None
        except IndexError:  # another thread was faster
            return None
        if block is None:
            return None
        self.held -= size
        return block

    def lend(self, block: Block) -> Memory:
        """Memory that gives the block back when it goes."""
        self._lent.add(block)
        return Memory(block, self._give_back)

    def _give_back(self, block: Block) -> None:
        self._lent.discard(block)
        if self.held + block.size > self.most:
            self.clear()
        if block.size <= self.most:
            self.held += block.size
            self._free[block.size].append(block)

    def clear(self) -> None:
        """Let go of all blocks."""
        self._free, self.held = defaultdict(deque), 0
