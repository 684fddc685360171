"""Arrays in the memory of a device."""

from __future__ import annotations

import mmap
import operator
import weakref
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, DTypeError
from iris.ir.scalar import storage
from iris.ir.types import DTYPES, DType, bf16
from iris.runtime.borrowing import Borrowing
from iris.runtime.device import MOST_BYTES, Array, ArrayArgument, Device, Lent, stored
from iris.runtime.devices import select
from iris.runtime.foreign import as_array, ml_dtypes
from iris.runtime.recorder import refuse_while_recording


def numpy_name(dtype: DType) -> str:
    """What NumPy and other libraries call a dtype."""
    return "bfloat16" if dtype is bf16 else storage(dtype).name


_BY_NAME: dict[str, DType] = {numpy_name(dtype): dtype for dtype in DTYPES.values()}
NUMPY_NAMES = tuple(_BY_NAME)


def dtype_of(dtype: np.dtype[Any]) -> DType | None:
    """The dtype of elements that NumPy calls so, if GPUs have it."""
    return _BY_NAME.get(dtype.name) if dtype.isnative else None


def dtype_named(name: str) -> DType | None:
    """The dtype that NumPy and other libraries call so, if GPUs have it."""
    return _BY_NAME.get(name)


class Buffer:
    """An array in the memory of a device, contiguous and in row-major order.

    x = iris.asarray(np.arange(1000, dtype=np.float32))
    out = iris.empty_like(x)
    double[iris.cdiv(1000, 64)](x, out, 1000, BLOCK=64)   # does not wait
    print(out.numpy())                                    # does

    Launches that are given Buffers return at once, and what is read from one waits for the launches
    that it takes part in.
    """

    __slots__ = ("__weakref__", "_argument", "device", "dtype", "lent", "shape", "spec")
    dtype: DType
    shape: tuple[int, ...]

    def __init__(
        self,
        device: Device,
        memory: Any,
        dtype: DType,
        shape: tuple[int, ...],
        lent: Lent | None = None,
        offset: int = 0,
    ):
        self.device = device
        self.lent = lent  # of another library's array
        self.spec: Any = None  # what kernels may know of it alone, once a launch has asked
        self.dtype = dtype
        self.shape = shape
        self._argument: ArrayArgument | None = ArrayArgument(memory, offset, dtype, shape)

    @property
    def argument(self) -> ArrayArgument:
        """What a device is given for it."""
        if self._argument is None:
            raise _freed(self)
        return self._argument

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * stored(self.dtype).itemsize

    def numpy(self) -> Array:
        """The elements as a NumPy array, once the launches that use them are done: of the same
        memory where the host can reach that, else a copy that is not to be written to.

        Launches after this one do not wait for what is read through the array: take it again.
        """
        refuse_while_recording("a Buffer is read")
        argument = self.argument
        self.device.synchronize(argument.memory)
        view = self.device.view(argument)
        if view is None:
            view = np.empty(self.shape, stored(self.dtype))
            self.device.copy_out(argument, view)
            view.flags.writeable = False
        return view.view(ml_dtypes().bfloat16) if self.dtype is bf16 else view

    def peek(self, *index: int) -> Any:
        """One element, once the launches that use the array are done: `x.peek(2, 3)`; of a number
        among the elements in row-major order, `x.peek(7)`."""
        if len(index) not in (1, len(self.shape)):
            raise ArgumentError(
                f"peek takes an index for each of {len(self.shape)} axes, or one of all elements, "
                f"not {len(index)}"
            )
        view = self.numpy()
        return view.reshape(-1)[index[0]] if len(index) == 1 else view[index]

    def free(self) -> None:
        """Give up the memory now, rather than when nobody refers to this any more.

        What NumPy arrays over the same memory show, stays.
        """
        self._argument = None

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        view = self.numpy()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"an array of {view.dtype} cannot be one of {dtype} uncopied")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __dlpack__(self, **options: Any) -> Any:
        if self.device.home is None:
            return self.numpy().__dlpack__(**options)
        refuse_while_recording("a Buffer is given to another library")
        return self.device.export(self.argument, options.get("stream"))

    def __dlpack_device__(self) -> tuple[Any, Any]:
        return self.device.home or (1, 0)  # the host's memory

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a Buffer without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Buffer({self.shape}, {self.dtype}, device={self.device.name!r})"


def refuse_freed(buffers: Sequence[Buffer]) -> None:
    """Raise the error of a Buffer that is used after it was freed, if one was."""
    for buffer in buffers:
        if buffer._argument is None:
            raise _freed(buffer)


def _freed(buffer: Buffer) -> ArgumentError:
    return ArgumentError(f"{buffer!r} is used after it was freed")


def shared(name: str, value: object, borrowing: Borrowing) -> Buffer | None:
    """A Buffer over another library's array in the memory of a device; None if it is not one."""
    found = borrowing.take(name, value)
    if found is None:
        return None
    on, argument, lent = found
    return Buffer(on, argument.memory, argument.dtype, argument.shape, lent, argument.offset)


def asarray(
    array: npt.ArrayLike, *, persistent: bool = False, device: str | Device | None = None
) -> Buffer:
    """A Buffer with the elements of an array, which shares its memory where that can be."""
    if isinstance(array, Buffer):
        there: Buffer | None = array
    else:
        there = shared("the array", array, Borrowing())
    if there is not None:
        if device is not None and select(device) is not there.device:
            name = there.device.name
            raise ArgumentError(f"the array is in the memory of {name!r}; pass device={name!r}")
        return there
    found = as_array("the array", array)
    try:
        source = np.asarray(array) if found is None else np.asarray(found)
    except ValueError as error:
        raise ArgumentError(f"there is no Buffer of this: {error}") from None
    on = select(device)
    dtype = _known(source.dtype)
    adopted = None if persistent else _adopted(on, source)
    if adopted is not None:
        return Buffer(on, adopted, dtype, source.shape)
    buffer = Buffer(on, on.allocate(source.nbytes, persistent=persistent), dtype, source.shape)
    on.copy_in(buffer.argument, source)
    return buffer


def empty(
    shape: int | Sequence[int],
    dtype: DType | npt.DTypeLike = np.float32,
    *,
    persistent: bool = False,
    device: str | Device | None = None,
) -> Buffer:
    """A Buffer of a shape and dtype, whose elements are not set."""
    on, known = select(device), _dtype(dtype)
    lengths = _lengths(shape, stored(known).itemsize)
    size = prod(lengths) * stored(known).itemsize
    return Buffer(on, on.allocate(size, persistent=persistent), known, lengths)


def _lengths(shape: int | Sequence[int], itemsize: int) -> tuple[int, ...]:
    """A shape whose elements can be counted, and their bytes, as NumPy does."""
    is_array = isinstance(shape, np.ndarray) and shape.ndim > 0
    is_sequence = isinstance(shape, Sequence) and not isinstance(shape, (str, bytes, bytearray))
    sizes: Sequence[Any] = tuple(shape) if is_array or is_sequence else (shape,)  # type: ignore[arg-type]
    try:
        lengths = tuple([operator.index(n) for n in sizes])
    except TypeError:
        lengths = None
    if lengths is None or any(isinstance(n, (bool, np.bool_)) for n in sizes):
        raise ArgumentError(f"a shape is an int or a sequence of ints, not {shape!r}")
    if any(n < 0 for n in lengths):
        raise ArgumentError(f"no size of a shape is negative: {shape}")
    # An axis without elements does not make the others any shorter.
    if prod([n for n in lengths if n]) * itemsize > MOST_BYTES:
        raise ArgumentError(f"an array of the shape {shape} is too big: it has over 2**63 bytes")
    return lengths


def _dtype(dtype: DType | npt.DTypeLike) -> DType:
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in ("i8", "u8"):
        name = "int64" if dtype == "i8" else "uint64"
        raise DTypeError(
            f"{dtype!r} has 8 bits in kernels and 8 bytes in NumPy; write iris.{dtype} or np.{name}"
        )
    found = None
    if isinstance(dtype, str):
        found = DTYPES.get(dtype) or _BY_NAME.get(dtype)
    try:
        return found or _known(np.dtype(dtype))
    except TypeError:
        names = ", ".join(DTYPES)
        raise DTypeError(f"{dtype!r} is no dtype; arrays are of {names}") from None


def empty_like(
    other: Buffer | Array, *, persistent: bool = False, device: str | Device | None = None
) -> Buffer:
    """A Buffer of the shape and dtype of another, or of an array, whose elements are not set."""
    if not isinstance(other, (Buffer, np.ndarray)):
        kind = type(other).__name__
        raise ArgumentError(f"iris.empty_like takes a Buffer or an array, not a {kind}")
    on = other.device if device is None and isinstance(other, Buffer) else device
    return empty(other.shape, other.dtype, persistent=persistent, device=on)


def to_numpy(buffer: Buffer) -> Array:
    """A copy of a Buffer's elements, once the launches that use them are done."""
    if not isinstance(buffer, Buffer):
        raise ArgumentError(f"iris.to_numpy takes a Buffer, not a {type(buffer).__name__}")
    return np.array(buffer.numpy())


def _known(dtype: np.dtype[Any]) -> DType:
    found = dtype_of(dtype)
    if found is None:
        raise DTypeError(
            f"there are no Buffers of {dtype}, only of {', '.join(NUMPY_NAMES)}; convert an array "
            "with .astype"
        )
    return found


class _Adopted(NamedTuple):
    """Memory of an array that a device uses as its own, for as long as somebody refers to it."""

    memory: weakref.ref[Any]
    device: Device
    low: int
    high: int


_ADOPTED: list[_Adopted] = []


def _adopted(device: Device, array: Array) -> Any:
    """The memory of an array as that of a device; None if that cannot be, or it would be two
    memories for the device that overlap, which it takes to be apart."""
    low = array.ctypes.data
    high = low + array.nbytes
    is_of_pages = low % mmap.PAGESIZE == high % mmap.PAGESIZE == 0 and low < high
    if not (is_of_pages and array.flags.c_contiguous and array.flags.writeable):
        return None
    _ADOPTED[:] = [known for known in _ADOPTED if known.memory() is not None]
    for known in _ADOPTED:
        if known.device is device and low < known.high and known.low < high:
            return known.memory() if (known.low, known.high) == (low, high) else None
    memory = device.adopt(array)
    if memory is not None:
        _ADOPTED.append(_Adopted(weakref.ref(memory), device, low, high))
    return memory
