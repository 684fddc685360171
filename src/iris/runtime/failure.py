"""What went wrong in a launch, kept by the memory that the launch was to write.

Every read of such memory, and every launch that is given it, raises the error, each time, until
the memory is written anew as a whole.  Nobody else is told.
"""

from __future__ import annotations

from copy import copy

from iris.errors import IrisError


class Failure:
    """The error of a launch, and whether anybody was told of it."""

    __slots__ = ("_error", "is_told")

    def __init__(self, error: IrisError):
        self._error = copy(error)  # without its traceback, whose frames refer to the memory
        self.is_told = False

    def error(self) -> IrisError:
        """The error, to be raised: a copy, as each raise adds its own traceback."""
        self.is_told = True
        return copy(self._error)
