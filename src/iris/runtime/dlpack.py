"""Arrays by DLPack, where NumPy does not take or give them: bf16, and memory of a GPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


#: Where memory is, and what elements are.
CPU, GPU, METAL = 1, 2, 8
INT, UNSIGNED, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6
_READ_ONLY = 1

_is_valid = ctypes.pythonapi["PyCapsule_IsValid"]
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_new_capsule = ctypes.pythonapi["PyCapsule_New"]
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Given(NamedTuple):
    """An array of another library, for as long as its capsule lives."""

    capsule: object  # or what else keeps the memory
    data: int  # where the memory is: an address, or a buffer as its device knows it
    offset: int  # of the first element, in bytes
    device: tuple[int, int]  # where it is, and on which of these
    element: tuple[int, int, int]  # its kind, bits, and how many are one
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None: in row-major order
    read_only: bool

    @property
    def pointer(self) -> int:
        """The address of the first element, where memory has addresses."""
        return self.data + self.offset

    @property
    def is_row_major(self) -> bool:
        size = 1
        for n, stride in zip(self.shape[::-1], (self.strides or ())[::-1], strict=False):
            if n > 1 and stride != size:
                return False
            size *= n
        return True


def given(value: Any, **options: Any) -> Given | None:
    """What an array holds; None, if it says that in a way that is not known."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0), **options)
    except TypeError:  # it knows of no versions
        capsule = value.__dlpack__(**options)
    if _is_valid(capsule, b"dltensor_versioned"):
        made = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if made.major != 1:
            return None
        tensor, read_only = made.tensor, bool(made.flags & _READ_ONLY)
    elif _is_valid(capsule, b"dltensor"):
        # It may not say so, where it is: NumPy takes such arrays to be read-only, too.
        tensor = _Managed.from_address(_pointer(capsule, b"dltensor")).tensor
        read_only = tensor.device_type == CPU
    else:
        return None
    rank = tensor.ndim
    return Given(
        capsule,
        tensor.data or 0,
        tensor.byte_offset,
        (tensor.device_type, tensor.device_id),
        (tensor.code, tensor.bits, tensor.lanes),
        tuple(tensor.shape[:rank]),
        tuple(tensor.strides[:rank]) if tensor.strides else None,
        read_only,
    )


class Bfloat16:
    """The bits of a bf16 array for NumPy, which has no such dtype; the capsule keeps the memory."""

    def __init__(self, of: Given):
        self.capsule = of.capsule
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<u2",
            "shape": of.shape,
            "strides": None if of.strides is None else tuple([2 * n for n in of.strides]),
            "data": (of.pointer, of.read_only),
        }

    @staticmethod
    def of(value: Any) -> Bfloat16 | None:
        """What an array holds, if that is bf16 in the host's memory."""
        held = given(value)
        is_it = held is not None and (held.device[0], held.element) == (CPU, (BFLOAT, 16, 1))
        return Bfloat16(held) if is_it and held is not None else None


class _Loan(NamedTuple):
    """A tensor, and what must live as long as another library has it."""

    tensor: _Managed
    kept: tuple[object, ...]
    capsule: object


# By the addresses of the tensors.
_LOANS: dict[int, _Loan] = {}


def _give_back(address: int) -> None:
    """What a library calls that does not need a tensor any more."""
    _LOANS.pop(address, None)


_GIVE_BACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_give_back)
_NAME = b"dltensor"  # of a capsule, until a library takes the tensor out of it


def _forget_untaken() -> None:
    """Forget tensors whose capsules went without that anybody took them.

    A capsule could say so itself; but it may go while an error is on its way, when no Python runs.
    """
    for address, loan in list(_LOANS.items()):
        # The loan, and the one that asks.
        if _is_valid(loan.capsule, _NAME) and sys.getrefcount(loan.capsule) <= 2:
            _LOANS.pop(address, None)


def capsule_of(
    pointer: int,
    device: tuple[int, int],
    element: tuple[int, int, int],
    shape: Sequence[int],
    keep: object,
) -> Any:
    """A capsule of an array in row-major order, which keeps something alive."""
    _forget_untaken()
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    steps, size = [], 1
    for n in reversed(shape):
        steps.append(size)
        size *= n
    strides = (ctypes.c_int64 * len(shape))(*reversed(steps))
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, (tensor.device_type, tensor.device_id) = pointer, device
    tensor.code, tensor.bits, tensor.lanes = element
    tensor.ndim, tensor.shape, tensor.strides = len(shape), sizes, strides
    managed.deleter = ctypes.cast(_GIVE_BACK, ctypes.c_void_p)
    address = ctypes.addressof(managed)
    capsule = _new_capsule(address, _NAME, None)
    _LOANS[address] = _Loan(managed, (sizes, strides, keep), capsule)
    return capsule
