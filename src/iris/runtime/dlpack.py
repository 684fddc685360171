"""Arrays by DLPack, where NumPy does not take or give them: bf16, and memory of a GPU."""

from __future__ import annotations

import ctypes
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
CPU, GPU = 1, 2
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

    capsule: object
    pointer: int  # to the first element
    device: tuple[int, int]  # where it is, and on which of these
    element: tuple[int, int, int]  # its kind, bits, and how many are one
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None: in row-major order
    read_only: bool

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
        (tensor.data or 0) + tensor.byte_offset,
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


# Tensors that other libraries have, with what they need, until these say that they are done.
_LENT: dict[int, tuple[object, ...]] = {}


def _delete(address: int) -> None:
    _LENT.pop(address, None)


def _drop(capsule: int) -> None:
    """The capsule goes; where nobody took the tensor out of it, that goes with it."""
    if _is_valid_address(capsule, _NAME):
        _delete(_pointer_address(capsule, _NAME))


_DELETE, _DROP = (ctypes.CFUNCTYPE(None, ctypes.c_void_p)(f) for f in (_delete, _drop))
_NAME = b"dltensor"
_is_valid_address = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def capsule_of(
    pointer: int,
    device: tuple[int, int],
    element: tuple[int, int, int],
    shape: Sequence[int],
    keep: object,
) -> Any:
    """A capsule of an array in row-major order, which keeps something alive."""
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
    managed.deleter = ctypes.cast(_DELETE, ctypes.c_void_p)
    address = ctypes.addressof(managed)
    _LENT[address] = managed, sizes, strides, keep
    return _new_capsule(address, _NAME, ctypes.cast(_DROP, ctypes.c_void_p))
