"""Ctrl-C, held back where it would leave a device half told of something."""

from __future__ import annotations

# Without the enumerations of `signal`, which take ten times as long.
import _signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType


class HoldBack:
    """Within a `with` of this, Ctrl-C waits until its end.

    Python interrupts its main thread only, so that other threads have nothing to hold back.
    """

    __slots__ = ("_came", "_handler")

    def __enter__(self) -> None:
        self._came: FrameType | None = None
        self._handler = None
        handler = _signal.getsignal(_signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._handler = handler
            _signal.signal(_signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = frame

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._handler is not None:
            _signal.signal(_signal.SIGINT, self._handler)
            if self._came is not None:
                self._handler(_signal.SIGINT, self._came)
