"""Arrays of other libraries: on the host, as NumPy's over the same memory; elsewhere, whose."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.errors import ArgumentError, DTypeError
from iris.runtime.device import Array

#: The devices whose memory other libraries have arrays in, by what DLPack calls it.
HOMES = {2: "cuda", 8: "metal"}


def library_of(value: object) -> str:
    """The library that an array is of."""
    return type(value).__module__.partition(".")[0]


def home_of(value: object) -> tuple[int, int] | None:
    """Where another library's array is, as DLPack says it, if a device has that memory."""
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None or isinstance(value, (np.ndarray, np.generic, type)):
        return None
    kind, number = ask()
    return (int(kind), int(number)) if int(kind) in HOMES else None


def refuse_negated(name: str, value: Any) -> None:
    """Refuse a view of torch whose elements are the negated ones in memory, such as the imaginary
    part of a conjugate: DLPack gives the memory, and says nothing of the sign."""
    is_negated = getattr(value, "is_neg", None)
    if callable(is_negated) and is_negated():
        raise ArgumentError(f"{name} is negated when it is read; pass its .resolve_neg()")


def as_array(name: str, value: object) -> Array | None:
    """An array as NumPy's over the same memory; None if it is no array."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (np.generic, bool, int, float)):
        return None
    refuse_negated(name, value)
    try:
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value)
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"{name} does not share its memory with NumPy: {error}") from None
    return None


def _from_dlpack(value: Any) -> Array:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):  # as it says of dtypes that it has not
        from iris.runtime.dlpack import Bfloat16  # opened when first used, with ctypes

        held = Bfloat16.of(value)
        if held is None:
            raise
    return np.asarray(held).view(ml_dtypes().bfloat16)


def ml_dtypes() -> Any:
    """The package that has the dtype bfloat16."""
    try:
        import ml_dtypes
    except ImportError:
        raise DTypeError(
            "NumPy has no bfloat16 of its own; install the package ml_dtypes"
        ) from None
    return ml_dtypes
