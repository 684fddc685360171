"""What values are sums of, where sums and products may be made in any order.

With fast math a compiler may compute `(a + b) - a` as `b`, `a * c + b * c` as `(a + b) * c`, and
`x / y` as `x * (1 / y)`.  Each such order rounds elsewhere.  How much that matters is not seen from
a value, which is small where great terms cancel, but from its terms: each rounding is at most half
a unit in the last place of the sum of their magnitudes.

What is loaded, chosen or computed by a function is one term.  A sum is exact in any order where its
terms are multiples of one number, so few that no part of it has more bits than a float.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.testing.bounds.interval import beside_sign, quantum

Array = npt.NDArray[Any]


class Terms(NamedTuple):
    """The terms of a value, none of which is written down; all that is kept of them is:"""

    gross: Array  # the sum of their magnitudes
    most: Array  # what no sum or product of parts of them is greater than, 1 at least
    least: Array  # what no product of parts of them is less than, 1 at most
    grain: Array  # what they are multiples of, 1 at most; 0 if that is not known
    steps: Array  # one number: how many operations made them into the value


_NOTHING: Array = np.zeros(1)
_ONE: Array = np.ones(1)
NONE = Terms(_NOTHING, _ONE, _ONE, _ONE, _NOTHING)


def one_term(x: Array, error: Array) -> Terms:
    """A value that is a term itself.  Infinities and nan add nothing to what may be lost."""
    if x.dtype.kind != "f":
        return NONE
    with np.errstate(invalid="ignore"):  # of a nan that signals
        size = np.abs(x.astype(np.float64))
    known = np.isfinite(size)
    size = np.where(known, size, 0.0)
    gross = size + np.where(np.isfinite(error), error, 0.0)
    grain = np.where(beside_sign(error) == 0, np.minimum(quantum(size), 1), 0.0)
    least = np.where(gross == 0, 1.0, np.minimum(gross, 1))
    return Terms(gross, np.maximum(gross, 1), least, grain, _NOTHING)
