"""What a device is: the contract between compiled kernels and what runs them.

A new accelerator is a module with a subclass of `Device`, and an entry point of the group
`iris.devices` in the package that has it:

    [project.entry-points."iris.devices"]
    mine = "my_package.device:MyDevice"

`iris.testing.conformance.check(MyDevice())` tells whether it keeps the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias
from weakref import ref

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError
from iris.ir.control import Func
from iris.ir.core import Level
from iris.ir.scalar import storage
from iris.ir.types import DType, bf16
from iris.targets import DEFAULT, Target

if TYPE_CHECKING:
    from iris.codegen.language import Language
    from iris.codegen.source import Source

Array: TypeAlias = npt.NDArray[Any]
#: More than this no array has, whose bytes the host can count.
MOST_BYTES = np.iinfo(np.intp).max
Grid: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Program:
    """A kernel that a device has compiled."""

    entry: Func
    code: Any


@dataclass(slots=True)
class ArrayArgument:
    """An array in device memory: at an offset in bytes, for arrays that overlap share memory.

    Nobody changes one; frozen, it would take a launch three times as long to make.
    """

    memory: Any
    offset: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None  # in elements; None: in row-major order

    @property
    def byte_strides(self) -> tuple[int, ...] | None:
        """The strides in bytes; None: in row-major order."""
        size = stored(self.dtype).itemsize
        return None if self.strides is None else tuple([size * n for n in self.strides])


class Lent(NamedTuple):
    """Facts about another library's array."""

    is_aligned: bool  # to 16 bytes
    is_read_only: bool


class Held(NamedTuple):
    """What another library's array holds, in row-major order, where memory has addresses: a buffer
    of the array's device."""

    keeps: object  # the memory
    pointer: int
    home: tuple[int, int]  # the memory's device, as DLPack says it
    dtype: DType
    shape: tuple[int, ...]
    size: int  # in bytes
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """A launch, and when it ran, in seconds of the device's clock."""

    entry: Func | str  # of a kernel that is text, its name
    grid: Grid
    arguments: tuple[Any, ...]
    start: float
    end: float
    stream: int = 0  # its number

    @property
    def kernel(self) -> str:
        return self.entry if isinstance(self.entry, str) else self.entry.symbol


class Usage(NamedTuple):
    """What a device has at work now, and what its cache on disk has given so far."""

    buffers: int  # that somebody refers to
    bytes: int
    kept_buffers: int  # by the pool, for those who want memory of the same size
    kept_bytes: int
    streams: int  # with launches that are not done
    launches: int  # that are not done
    cache_hits: int
    cache_misses: int


#: Memory, and an offset in bytes.
Place: TypeAlias = tuple[Any, int]


class RecordedLaunch(NamedTuple):
    """What `Device.launch` is given, but for the stream."""

    program: Program
    grid: Grid
    arguments: Sequence[Any]


class Replay:
    """Launches that run one after the other, again and again."""

    def __init__(self, device: Device, launches: Sequence[RecordedLaunch], stream: Any = None):
        self._prepare = device.prepare
        self._stream = stream
        self._steps = [device.prepare(*launch, stream) for launch in launches]

    def run(self) -> None:
        """Run them; it need not wait until they are done."""
        for step in self._steps:
            step()

    def change(self, number: int, launch: RecordedLaunch) -> None:
        """Put a launch in the place of one of them, from the next run on."""
        self._steps[number] = self._prepare(*launch, self._stream)


class LaunchTemplate:
    """Launches that run one after the other, on other memory each time.

    In place of the memory of an array there is a number: `run` is given the memory of each number,
    and where in it the array starts.
    """

    def __init__(self, device: Device, launches: Sequence[RecordedLaunch]):
        self._launch = device.launch
        self.launches = launches

    def on(self, places: Sequence[Place]) -> list[RecordedLaunch]:
        """The launches on some memory."""
        found = []
        for program, grid, arguments in self.launches:
            own = [places[x.memory] for x in arguments]
            arrays = [
                ArrayArgument(memory, offset, x.dtype, x.shape)
                for x, (memory, offset) in zip(arguments, own, strict=True)
            ]
            found.append(RecordedLaunch(program, grid, arrays))
        return found

    def run(self, places: Sequence[Place], stream: Any = None) -> None:
        """Run them on some memory; it need not wait until they are done.

        What they write lies in no other memory of these.
        """
        for launch in self.on(places):
            self._launch(*launch, stream)


class Device:
    """The contract.  Memory belongs to the device: arrays are copied in and out of it.

    Launches may be asynchronous.  Those of a stream do what they would one after the other, and so
    do launches of several streams that use the same memory.

    What went wrong in a launch is the error of the memory that it was to write: every launch that
    is given the memory raises it, and so do `copy_out` and `synchronize` of that memory, until
    `copy_in` has written it as a whole.  `synchronize` of nothing raises what nobody was told of.
    """

    name: str
    #: What `compile` takes: the IR of a level, or the text of a language.
    accepts: ClassVar[Level | Language]
    #: What it promises to kernels, and has for them.
    target: Target = DEFAULT
    #: Where its memory is, as DLPack says it, if that is not the host's: a kind, and a number.
    home: tuple[int, int] | None = None
    #: Whether its times tell how fast kernels are; else the cost model ranks them.
    is_timed: ClassVar[bool] = True
    #: Whether a launch fails that leaves its memory, and harms nothing else.
    outlives_strays: ClassVar[bool] = False
    _listeners: tuple[ref[Callable[[Timing], None]], ...] = ()

    @classmethod
    def missing(cls) -> str | None:
        """Why this machine has no such device, and what to do about it; None if it has."""
        return None

    @classmethod
    def count(cls) -> int:
        """How many of the kind this machine has."""
        return 1

    @classmethod
    def numbered(cls, number: int) -> Device:
        """One of them, by its number; `cuda:1` is the second."""
        return cls()

    def describe(self) -> str:
        """What it is, in a few words."""
        return type(self).__doc__ or self.name

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        """What `launch` runs: of a kernel, and of its text, where the device accepts that.

        Several threads may call it at a time.
        """
        raise NotImplementedError

    def allocate(self, size: int, *, persistent: bool = False) -> Any:
        """Memory of a size in bytes, at a multiple of 16; it goes when nobody refers to it.

        `persistent` memory is not taken from, or kept for, what else is allocated.
        """
        raise NotImplementedError

    def adopt(self, array: Array) -> Any:
        """Memory that is that of a contiguous array of whole pages, which stays as long; None if
        that cannot be."""
        return None

    def order_with(self, library: str) -> Any:
        """How launches from now on are ordered with another library's work."""
        return None

    def share(self, name: str, value: Any, order: Any) -> tuple[ArrayArgument, Lent]:
        """An argument of a name, which is another library's array in this device's memory, with
        what `order_with` gave for the library."""
        raise ArgumentError(f"{name} is an array that {self.name} cannot use")

    def lend(self, held: Held, order: Any) -> tuple[ArrayArgument, Lent]:
        """The same of an array that told what it holds."""
        raise NotImplementedError

    def overlap(self, one: ArrayArgument, other: ArrayArgument) -> bool:
        """Whether two whole memories have bytes in common."""
        return one.memory is other.memory

    def stream_of(self, memories: Sequence[Any]) -> Any:
        """The stream on which another library uses some memory, if one does."""
        return None

    def export(self, of: ArrayArgument, stream: int | None) -> Any:
        """A capsule of DLPack for other libraries, once the launches that write to it are done; for
        one that works on a stream, not before that gets there."""
        raise NotImplementedError

    def bound(self, memory: Any, elements: Sequence[ArrayArgument]) -> None:
        """Restrict memory to the bytes of some arrays.

        A device that sees every access reports accesses to other bytes.
        """

    def view(self, of: ArrayArgument) -> Array | None:
        """Device memory as an array, bf16 as its bits; None if it is out of the host's reach."""
        return None

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        """Copy an array to device memory, in row-major order."""
        raise NotImplementedError

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        """Copy device memory to an array, after the launches that write to it."""
        raise NotImplementedError

    def new_stream(self) -> Any:
        """A stream: launches of it do not wait for launches of other streams."""
        return None

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        """Run all programs of a grid; what they print goes to standard output."""
        raise NotImplementedError

    def run(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        """A launch, and to wait until it is done; what went wrong in it is raised."""
        self.launch(program, grid, arguments, stream)
        self.synchronize()

    def prepare(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> Callable[[], None]:
        """A launch with all that it needs, to be run again and again."""
        return partial(self.launch, program, grid, arguments, stream)

    def record(self, launches: Sequence[RecordedLaunch], stream: Any = None) -> Replay:
        """Launches to be run together, again and again."""
        return Replay(self, launches, stream)

    def template(self, launches: Sequence[RecordedLaunch]) -> LaunchTemplate:
        """Launches of arrays in row-major order, to be run together on other memory each time."""
        return LaunchTemplate(self, launches)

    def synchronize(self, memory: Any = None) -> None:
        """Wait until all launches are done, or those that use some memory."""

    @contextmanager
    def failures_set_aside(self) -> Iterator[None]:
        """Within it, nobody is told the failures from before; afterwards, whoever waits is."""
        yield

    def shuffle(self, seed: int | None) -> None:
        """Choose another order of unordered work, for tests: 0 is as numbered, None the default.

        A device that has no choice does nothing.
        """

    def trace(self, path: Path) -> AbstractContextManager[None]:
        """Write the launches of a `with` to a file, for the maker's own tools."""
        raise ArgumentError(f"{self.name} writes no traces for Xcode; devices of Metal do")

    def time_launches(self, tell: Callable[[Timing], None] | None) -> None:
        """Tell of every launch from now on, once it is done, when it ran; None to end that."""
        raise NotImplementedError

    @contextmanager
    def timed(self, tell: Callable[[Timing], None]) -> Iterator[None]:
        """Tell of every launch within the `with`, beside others who are told."""
        listener = ref(tell)  # gone with this frame, wherever Ctrl-C may come
        try:
            self._listen((*self._listeners, listener))
            yield
            self.synchronize()
        finally:
            self._listen(tuple([other for other in self._listeners if other is not listener]))

    def _listen(self, listeners: tuple[ref[Callable[[Timing], None]], ...]) -> None:
        listeners = tuple([listener for listener in listeners if listener() is not None])

        def tell_all(timing: Timing) -> None:
            for listener in listeners:
                tell = listener()
                if tell is not None:
                    tell(timing)

        self._listeners = listeners
        self.time_launches(tell_all if listeners else None)

    def usage(self) -> Usage | None:
        """What it has at work; None if it has neither a pool nor streams."""
        return None


def stored(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that stores elements; bf16 is stored as its bits, as u16."""
    return np.dtype(np.uint16) if dtype is bf16 else storage(dtype)


def as_stored(array: Array) -> Array:
    """A bf16 array as its bits, which NumPy has no dtype for; another as it is."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
