"""Arrays in the memory of a GPU that other libraries have, and that they are given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from iris.errors import ArgumentError, DTypeError
from iris.ir.types import DTYPES, DType, bf16, bool_
from iris.runtime import dlpack
from iris.runtime.device import stored

#: The stream on which a library works now on one of the GPUs, by the name of the library; others
#: work on the default stream of CUDA.
CURRENT_STREAM: Mapping[str, Callable[[Any, int], int]] = {
    "torch": lambda torch, gpu: int(torch.cuda.current_stream(gpu).cuda_stream),
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


@cache
def _elements_of_torch(torch: Any) -> dict[Any, tuple[int, int, int]]:
    """The dtypes of torch that kernels have."""
    names = {
        stored(dtype).name: element for dtype, element in ELEMENTS.items() if dtype is not bf16
    }
    names["bfloat16"] = ELEMENTS[bf16]
    return {getattr(torch, name): e for name, e in names.items() if hasattr(torch, name)}


def _given_by_torch(torch: Any, tensor: Any) -> dlpack.Given | None:
    """What a plain tensor holds.  An alias is kept, for the tensor may be given other memory."""
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return None
    element = _elements_of_torch(torch).get(tensor.dtype)
    if element is None or tensor.requires_grad or tensor.is_neg() or not tensor.is_contiguous():
        return None
    home, shape = (dlpack.GPU, tensor.get_device()), tuple(tensor.shape)
    pointer = tensor.data_ptr()
    return dlpack.Given(tensor.detach(), pointer, 0, home, element, shape, None, False)


#: What an array on a kind of GPU holds, as its library says it, by the name of that: in place of
#: DLPack, which costs far more. The stream is the one on which the library works, so nothing has to
#: wait. None, where DLPack is to be asked, which also tells why an array is not shared.
_GIVEN: Mapping[tuple[str, int], Callable[[Any, Any], dlpack.Given | None]] = {
    ("torch", dlpack.GPU): _given_by_torch
}


def library_of(value: object) -> str:
    """The library that an array is of."""
    return type(value).__module__.partition(".")[0]


def current_stream(library: str, gpu: int) -> int:
    """The handle of the stream on which a library works now on a GPU; 0 is the default one."""
    ask = CURRENT_STREAM.get(library)
    return 0 if ask is None else ask(sys.modules[library], gpu)


def taken(
    name: str, value: Any, home: tuple[int, int], **options: Any
) -> tuple[dlpack.Given, DType]:
    """An array of another library in the memory of a GPU; options go to the library."""
    library = library_of(value)
    ask = _GIVEN.get((library, home[0]))
    try:
        found = None if ask is None else ask(sys.modules[library], value)
        found = found or dlpack.given(value, **options)
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
