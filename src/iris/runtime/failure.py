"""What went wrong in a launch, kept by the memory that the launch was to write.

Every read of such memory, and every launch that is given it, raises the error, each time, until
the memory is written anew as a whole.  Nobody else is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from iris.errors import IrisError


class Failure:
    """The error of a launch, and whether anybody was told of it."""

    __slots__ = ("_error", "is_told")

    def __init__(self, error: IrisError):
        self._error = _without_frames(error)
        self.is_told = False

    def error(self) -> IrisError:
        """The error, to be raised: a copy, as each raise adds its own traceback."""
        self.is_told = True
        return _without_frames(self._error)


def _without_frames(error: IrisError) -> IrisError:
    """Copy an error without its traceback and its context, whose frames refer to the memory.

    A library may have told `copy` to keep these: dask.distributed does.
    """
    copied = copy(error).with_traceback(None)
    copied.__cause__ = copied.__context__ = None
    return copied


# As many failures, the last ones, are remembered for those who wait for everything.
_MOST_FAILURES = 64


class Failures:
    """What went wrong on a device, until somebody is told of it."""

    def __init__(self) -> None:
        self.has_failed = False  # a launch, ever
        self._failures: deque[Failure] = deque(maxlen=_MOST_FAILURES)

    def failed(self, error: IrisError) -> Failure:
        """Remember an error, until somebody is told of it."""
        failure = Failure(error)
        self.has_failed = True
        self._failures.append(failure)
        return failure

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Within it, nobody is told the failures from before; afterwards, whoever waits is."""
        before, self._failures = self._failures, deque(maxlen=_MOST_FAILURES)
        try:
            yield
        finally:
            before.extend(self._failures)
            self._failures = before

    def raise_untold(self) -> None:
        """Raise the first error that nobody was told of; forget them all."""
        untold = [failure for failure in tuple(self._failures) if not failure.is_told]
        self._failures.clear()
        if untold:
            raise untold[0].error()
