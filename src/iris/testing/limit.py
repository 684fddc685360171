"""A limit of time for Python code that may never end."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from types import TracebackType


class TimeLimitError(Exception):
    """Raised within `limited` when the time is over."""

    def __str__(self) -> str:
        return "it takes too long, if it ever ends"


class limited:
    """Raises `TimeLimitError` in the code within it once some seconds have passed.

    with limited(5) as clock:
        run(program)
        clock.restart()  # which has as long
        run(other)

    It works in every thread and on every system, unlike an alarm.  A single call of NumPy is not
    interrupted.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.thread = threading.get_ident()
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        """Starts to count the seconds again: a thread for each stretch of code would cost more."""
        self.deadline = time.monotonic() + self.seconds

    def __enter__(self) -> limited:
        self.restart()
        # What is raised in a callback of the garbage collector is lost.
        self.collects = gc.isenabled()
        gc.disable()
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.lock:  # so that nothing is interrupted that comes later
            self.ended.set()
        if self.collects:
            gc.enable()

    def _watch(self) -> None:
        while not self.ended.wait(max(0.0, self.deadline - time.monotonic())):
            with self.lock:
                if not self.ended.is_set() and time.monotonic() >= self.deadline:
                    # Code that is interrupted may go on all the same, for as long again.
                    self.restart()
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(self.thread), ctypes.py_object(TimeLimitError)
                    )
