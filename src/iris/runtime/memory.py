"""Memory of a device: buffers, what uses them, and a pool of those that nothing does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from iris.errors import DeviceError
from iris.ir.types import u32
from iris.runtime.cache import Cache
from iris.runtime.device import MOST_BYTES, Array, ArrayArgument, Usage, stored
from iris.runtime.failure import Failure
from iris.runtime.finalizers import until_shutdown

# As many blocks are kept at most for those who want memory of the same size.
MOST_BLOCKS = 256
# As many streams are remembered as users of a block before those are forgotten that are done.
MOST_USES = 8


class Use(Protocol):
    """Work of the GPU that reads or writes a block until it is done."""

    @property
    def is_done(self) -> bool:
        """Whether nobody has to wait for it."""

    def wait(self) -> None:
        """Until it is done."""


class Foreign(NamedTuple):
    """A buffer that another library allocated."""

    pointer: int


class Block:
    """A buffer of a device, and which launches still use it."""

    __slots__ = ("buffer", "contents", "failure", "home", "size", "used", "written")

    def __init__(self, buffer: Any, contents: int | None, size: int):
        self.buffer = buffer  # as the device knows it
        self.contents = contents  # where the host sees it, if it does
        self.size = size
        # How another library's work on it is ordered: its stream, or what waits for it.
        self.home: Any = None
        # The last batch of each stream, by its number, that reads or writes it, and that writes it.
        self.used: dict[int, Use] = {}
        self.written: dict[int, Use] = {}
        # Of a launch that was to write it, which has not been written anew since.
        self.failure: Failure | None = None

    def forget_done(self) -> None:
        """Forget batches that nobody has to wait for."""
        for uses in (self.used, self.written):
            for number, batch in list(uses.items()):
                if batch.is_done:
                    uses.pop(number, None)


def wait_for(block: Block, uses: Mapping[int, Use]) -> None:
    """Wait for some uses of a block; raise what went wrong in a launch that was to write it."""
    for use in list(uses.values()):
        use.wait()
    if block.failure is not None:
        raise block.failure.error()


class Hazards:
    """Blocks that launches use which may run in any order."""

    __slots__ = ("_used", "_written")

    def __init__(self) -> None:
        self._used: set[Block] = set()
        self._written: set[Block] = set()

    def meet(self, blocks: Collection[Block], written: Collection[Block]) -> bool:
        """Whether another launch must come after these: it reads what one of them writes, or
        writes what one of them reads or writes."""
        return not (self._written.isdisjoint(blocks) and self._used.isdisjoint(written))

    def add(self, blocks: Collection[Block], written: Collection[Block]) -> None:
        """A launch that may run at the same time."""
        self._written.update(written)
        self._used.update(blocks)

    def clear(self) -> None:
        """A barrier: what comes now comes after them."""
        self._written.clear()
        self._used.clear()


class Accesses(Protocol):
    """A launch, as hazards see it."""

    @property
    def blocks(self) -> Collection[Block]: ...
    @property
    def written(self) -> Collection[Block]: ...


def barriers_among(launches: Sequence[Accesses]) -> list[bool]:
    """Which launches come after a barrier."""
    hazards, found = Hazards(), []
    for launch in launches:
        found.append(hazards.meet(launch.blocks, launch.written))
        if found[-1]:
            hazards.clear()
        hazards.add(launch.blocks, launch.written)
    return found


class Memory:
    """A block for as long as somebody refers to this; `keeps` is what must live as long."""

    __slots__ = ("__weakref__", "block", "keeps")

    def __init__(self, block: Block, keeps: object = None):
        self.block = block
        self.keeps = keeps


class _OfPool(Memory):
    """Memory whose block goes back to a pool."""

    __slots__ = ("_give_back",)

    def __init__(self, block: Block, give_back: Callable[[Block], None]):
        super().__init__(block)
        self._give_back = give_back

    @until_shutdown
    def __del__(self) -> None:
        self._give_back(self.block)


class _Span:
    """Device memory for NumPy, which keeps this, and so the memory."""

    def __init__(self, of: ArrayArgument):
        self.memory = of.memory
        self.__array_interface__ = {
            "version": 3,
            "shape": of.shape,
            "strides": of.byte_strides,
            "typestr": stored(of.dtype).str,
            "data": (of.memory.block.contents + of.offset, False),
        }


def view(of: ArrayArgument) -> Array:
    """An array in the memory itself."""
    return np.asarray(_Span(of))


def words(memory: Memory) -> npt.NDArray[np.uint32]:
    """All of a memory, as words."""
    return view(ArrayArgument(memory, 0, u32, (memory.block.size // 4,)))


class Pool:
    """Blocks that were given back, for those who want memory of the same size.

    Launches keep theirs until they are done, so nobody has to wait who writes to new memory.  Sizes
    are exact: what lies behind the end of a buffer is nobody's.  Of too many blocks, or too
    many bytes, those go first whose size was given back least recently.

    Blocks are given back by __del__, at any time, also while this thread is in a method of the
    pool, and Ctrl-C may come between any two lines: a block may then be lost to the pool, and is
    freed, but none is in it twice.
    """

    def __init__(self, most: int):
        self.most = most  # bytes to keep
        # At least as much as there is.
        self.held = 0
        self.count = 0
        self._free: dict[int, deque[Block]] = {}
        # What is lent is kept here, too: when memory goes in a circle of objects, the collector
        # would end its buffer with it.
        self._lent: set[Block] = set()
        self._lock = threading.RLock()

    @property
    def lent(self) -> int:
        """How many blocks somebody has."""
        return len(self._lent)

    @property
    def lent_bytes(self) -> int:
        """The bytes of these blocks."""
        return sum([block.size for block in list(self._lent)])

    def allocate(
        self, device: str, size: int, make: Callable[[int], Block | None], *, persistent: bool
    ) -> Memory:
        """Memory of a size for a device, which makes a block of it if none is here: a `persistent`
        one is never taken from here, nor given back."""
        size = max(size, 1)
        block = None if persistent else self.take(size)
        if block is None and size <= MOST_BYTES:  # of more, C would see some bits
            block = make(size)
            if block is None:
                # What is kept for others may be what is missing.
                self.clear()
                block = make(size)
        if block is None:
            raise DeviceError(
                f"{device} could not make a buffer of {size} bytes beside {self.lent} that are in "
                "use; free some"
            )
        return Memory(block) if persistent else self.lend(block)

    def take(self, size: int) -> Block | None:
        """A block of a size, to be lent."""
        with self._lock:
            free = self._free.get(size)
            if not free:
                return None
            block = free.pop()
            self._removed(block)
        block.failure = None
        return block

    def lend(self, block: Block) -> Memory:
        """Memory that gives the block back when it goes."""
        memory = _OfPool(block, self._give_back)
        self._lent.add(block)
        return memory

    def _give_back(self, block: Block) -> None:
        self._lent.discard(block)
        if block.size > self.most:
            return
        with self._lock:
            self.held += block.size
            self.count += 1
            free = self._free.pop(block.size, None) or deque()
            free.append(block)
            self._free[block.size] = free  # now the last of the sizes
            while self.held > self.most or self.count > MOST_BLOCKS:
                if not self._free:
                    self.held = self.count = 0
                    break
                oldest = next(iter(self._free.values()))
                self._removed(oldest.popleft())

    def _removed(self, block: Block) -> None:
        if not self._free.get(block.size):
            self._free.pop(block.size, None)
        self.held -= block.size
        self.count -= 1

    def clear(self) -> None:
        """Let go of all blocks."""
        with self._lock:
            self._free, self.held, self.count = {}, 0, 0


class Working(Protocol):
    """The streams of a device."""

    def at_work(self) -> tuple[int, int]:
        """How many streams have launches that are not done, and how many launches those are."""


def usage(pool: Pool, streams: Working, cache: Cache) -> Usage:
    """What a device with a pool, streams and a cache on disk has at work."""
    lent = pool.lent, pool.lent_bytes, pool.count, pool.held
    return Usage(*lent, *streams.at_work(), cache.hits, cache.misses)
