"""Arrays in the memory of a GPU that other libraries have, and that they are given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from iris.errors import ArgumentError, DTypeError
from iris.ir.types import DTYPES, DType, bf16, bool_
from iris.runtime import dlpack
from iris.runtime.device import Held, stored

Reader = Callable[[Any], Held | None]


def _stream_of_torch(torch: Any, gpu: int) -> int:
    """Torch makes an object of its stream in Python; its own compiler asks for the handle alone."""
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(torch.cuda.current_stream(gpu).cuda_stream) if ask is None else ask(gpu)


#: The stream on which a library works now on one of the GPUs, by the name of the library; others
#: work on the default stream of CUDA.
CURRENT_STREAM: Mapping[str, Callable[[Any, int], int]] = {
    "torch": _stream_of_torch,
    "cupy": lambda cupy, gpu: int(cupy.cuda.get_current_stream(gpu).ptr),
}
DEFAULT_STREAM = 1  # how DLPack calls it
#: What waits for a library's work on Metal, by the library's name: DLPack orders nothing there.
#: [https://docs.pytorch.org/docs/stable/generated/torch.mps.synchronize.html,
#: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.synchronize.html]
WAITS: Mapping[str, Callable[[], object]] = {
    "torch": lambda: sys.modules["torch"].mps.synchronize(),
    "mlx": lambda: sys.modules["mlx.core"].synchronize(),
}
#: Libraries whose arrays never change.
UNCHANGING = frozenset({"jax", "jaxlib", "mlx"})


def _element(dtype: DType) -> tuple[int, int, int]:
    """A dtype, as DLPack says it."""
    if dtype is bool_:
        return dlpack.BOOL, 8, 1
    if dtype is bf16:
        return dlpack.BFLOAT, 16, 1
    if dtype.is_float:
        return dlpack.FLOAT, dtype.bits, 1
    return (dlpack.INT if dtype.is_signed else dlpack.UNSIGNED), dtype.bits, 1


ELEMENTS = {dtype: _element(dtype) for dtype in DTYPES.values()}
_DTYPES = {element: dtype for dtype, element in ELEMENTS.items()}


def _reader_of_torch(torch: Any, kind: type) -> Reader | None:
    """How plain tensors on a GPU tell what they hold.  The stream is the one on which torch works,
    so nothing has to wait."""
    if kind not in (torch.Tensor, torch.nn.Parameter):
        return None
    named = {stored(dtype).name: dtype for dtype in DTYPES.values() if dtype is not bf16}
    named["bfloat16"] = bf16
    dtypes = {getattr(torch, n): dtype for n, dtype in named.items() if hasattr(torch, n)}
    strided = torch.strided

    @lru_cache(maxsize=1 << 12)
    def form(kind: Any, shape: Sequence[int]) -> tuple[DType, tuple[int, ...], int] | None:
        dtype = dtypes.get(kind)
        if dtype is None:
            return None
        return dtype, tuple(shape), prod(shape) * stored(dtype).itemsize

    def read(tensor: Any) -> Held | None:
        if not tensor.is_cuda or tensor.layout is not strided or tensor.requires_grad:
            return None
        if not tensor.is_contiguous() or tensor.is_neg():
            return None
        of_equal = form(tensor.dtype, tensor.shape)
        if of_equal is None:
            return None
        try:
            # The storage is kept, for the tensor may be given another one.
            keeps, pointer = tensor.untyped_storage(), tensor.data_ptr()
        except RuntimeError:  # a tensor within vmap has none
            return None
        return Held(keeps, pointer, (dlpack.GPU, tensor.get_device()), *of_equal)

    return read


#: What makes the readers of the types of a library, by its name.
_READERS: Mapping[str, Callable[[Any, type], Reader | None]] = {"torch": _reader_of_torch}


def reader_of(kind: type) -> Reader:
    """How arrays of a type tell what they hold; one that knows nothing, where DLPack is asked."""
    library = kind.__module__.partition(".")[0]
    make = _READERS.get(library)
    reader = None if make is None else make(sys.modules[library], kind)
    return reader or (lambda value: None)


def current_stream(library: str, gpu: int) -> int:
    """The handle of the stream on which a library works now on a GPU; 0 is the default one."""
    ask = CURRENT_STREAM.get(library)
    return 0 if ask is None else ask(sys.modules[library], gpu)


def taken(
    name: str, value: Any, home: tuple[int, int], **options: Any
) -> tuple[dlpack.Given, DType]:
    """An array of another library in the memory of a GPU; options go to the library."""
    try:
        found = dlpack.given(value, **options)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"{name} does not share its memory: {error}") from None
    if found is None:
        raise ArgumentError(f"{name} does not share its memory in a way that is known here")
    if found.device != home:
        raise ArgumentError(f"{name} is on GPU {found.device[1]}, and the launch on GPU {home[1]}")
    dtype = _DTYPES.get(found.element)
    if dtype is None:
        kind = getattr(value, "dtype", found.element)
        raise DTypeError(f"{name} has the dtype {kind}; arrays are of {', '.join(DTYPES)}")
    if not found.is_row_major:
        raise ArgumentError(
            f"{name} is not contiguous: its shape is {found.shape}, and its strides, in elements, "
            f"are {found.strides}; pass a contiguous copy, and copy it back if it is written to"
        )
    return found, dtype
