"""Bank conflicts of threadgroup memory, counted exactly under a stated model.

The model: memory is words of `bank_bytes` dealt to `banks` banks in turn; each cycle every bank
serves one word, to any number of lanes. An access, whatever its width, is one request for all the
words its lanes touch, so it takes as many cycles as the busiest bank has distinct words. Apple does
not document how it splits wide accesses into phases; this model is the least any split could take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from iris.errors import LayoutError
from iris.ir.layout.cute import Layout
from iris.ir.layout.swizzle import Swizzled
from iris.targets import Target


def cycles(addresses: NDArray[Any], width: int, target: Target) -> int:
    """The cycles one simdgroup needs to touch `width` bytes at each byte address.

    `addresses` has any shape: an entry per lane, or more where a lane's access is not contiguous.
    Lanes that are masked off are left out.

    >>> from iris.targets.apple import M1
    >>> column = 4 * 32 * np.arange(32)  # one f32 of each row of 32
    >>> cycles(column, 4, M1)
    32
    """
    return int(_words_per_bank(addresses, width, target).max())


def conflicts(addresses: NDArray[Any], width: int, target: Target) -> int:
    """The cycles beyond those that the same number of words, spread evenly, would take.

    >>> from iris.targets.apple import M1
    >>> [conflicts(4 * stride * np.arange(32), 4, M1) for stride in (32, 33)]
    [31, 0]
    """
    words = _words_per_bank(addresses, width, target)
    return int(words.max()) + -int(words.sum()) // target.banks


def byte_addresses(
    layout: Layout | Swizzled, indices: NDArray[Any], element_bytes: int
) -> NDArray[np.int64]:
    """Where a staged tile keeps the elements with these linear indices.

    >>> byte_addresses(Layout((4, 4), (5, 1)), np.arange(4), 2).tolist()
    [0, 10, 20, 30]
    """
    return layout(indices) * element_bytes


def _words_per_bank(addresses: NDArray[Any], width: int, target: Target) -> NDArray[np.int64]:
    """How many distinct words an access touches in each bank."""
    if width < 1 or addresses.dtype.kind not in "iu" or (addresses.size and addresses.min() < 0):
        raise LayoutError("an access needs a width of at least a byte and addresses of at least 0")
    # One byte of each word, also if the first or the last one is touched in part.
    within = [*range(0, width, target.bank_bytes), width - 1]
    touched = addresses.reshape(-1, 1).astype(np.int64) + np.array(within)
    words = np.unique(touched // target.bank_bytes)
    return np.bincount(words % target.banks, minlength=target.banks)
