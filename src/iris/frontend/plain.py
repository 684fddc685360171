"""Arrays that are more than their elements."""

from __future__ import annotations

import numpy as np

from iris.errors import UserError
from iris.frontend.tracing import error_here


def check_unmasked(name: str, array: object, error: type[UserError]) -> None:
    """Refuse an array whose mask would be lost."""
    # NumPy opens `np.ma` when it is first asked for, which takes its time.
    is_plain = not isinstance(array, np.ndarray) or array.__array_priority__ <= 0
    if not is_plain and isinstance(array, np.ma.MaskedArray):
        raise error_here(
            error,
            f"{name} is a masked array, whose mask would be lost; its .filled(value) is a plain "
            "array",
        )


def check_plain(name: str, array: np.ndarray | np.generic, error: type[UserError]) -> None:
    """Refuse an array whose class computes in its own way: kernels compute with its elements."""
    check_unmasked(name, array, error)
    if array.__array_priority__ > 0:
        kind = type(array).__name__
        raise error_here(
            error, f"{name} is a {kind}, which computes in its own way; np.asarray of it is plain"
        )
