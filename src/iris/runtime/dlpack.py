"""bf16 arrays by DLPack, for NumPy, which takes no such arrays."""

from __future__ import annotations

import ctypes
from typing import Any


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

    _fields_ = (("tensor", _Tensor),)


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


_CPU, _BFLOAT, _READ_ONLY = 1, 4, 1
_is_valid = ctypes.pythonapi["PyCapsule_IsValid"]
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Bfloat16:
    """The bits of a bf16 array for NumPy, which has no such dtype; the capsule keeps the memory."""

    def __init__(self, capsule: object, tensor: _Tensor, read_only: bool):
        self.capsule = capsule
        rank = tensor.ndim
        strides = [2 * n for n in tensor.strides[:rank]] if tensor.strides else None
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<u2",
            "shape": tuple(tensor.shape[:rank]),
            "strides": None if strides is None else tuple(strides),
            "data": ((tensor.data or 0) + tensor.byte_offset, read_only),
        }

    @staticmethod
    def of(value: Any) -> Bfloat16 | None:
        """What an array holds, if that is bf16 in the host's memory."""
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # it knows of no versions
            capsule = value.__dlpack__()
        if _is_valid(capsule, b"dltensor_versioned"):
            made = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
            if made.major != 1:
                return None
            tensor, read_only = made.tensor, bool(made.flags & _READ_ONLY)
        elif _is_valid(capsule, b"dltensor"):
            # It may not say so, where it is: NumPy takes such arrays to be read-only, too.
            tensor = _Managed.from_address(_pointer(capsule, b"dltensor")).tensor
            read_only = True
        else:
            return None
        what = tensor.device_type, tensor.code, tensor.bits, tensor.lanes
        return Bfloat16(capsule, tensor, read_only) if what == (_CPU, _BFLOAT, 16, 1) else None
