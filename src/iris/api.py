"""Buffers by functions: `from iris import api, ops`."""

from __future__ import annotations

from typing import Any

from iris.compiler.asarray import asarray
from iris.runtime.buffer import Buffer, empty, empty_like, to_numpy

__all__ = ["asarray", "empty", "empty_like", "peek", "to_numpy"]


def peek(buffer: Buffer, *index: int) -> Any:
    """One element, without a copy of the others: by its index, or its number in row-major order."""
    return buffer.peek(*index)
