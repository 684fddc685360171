"""A limit of time for Python code that may never end."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
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
        self.restart()

    def restart(self) -> None:
        """Starts to count the seconds again."""
        self.deadline = time.monotonic() + self.seconds

    def __enter__(self) -> limited:
        # What is raised in a callback of the garbage collector is lost.
        self.collects = gc.isenabled()
        gc.disable()
        self.restart()
        _watcher.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            _watcher.remove(self)
        except TimeLimitError:  # it came at the very end
            _watcher.remove(self)
            raise
        finally:
            if self.collects:
                gc.enable()


@contextmanager
def unlimited() -> Iterator[None]:
    """Stops the clocks of this thread's limits.

    with limited(5), unlimited():
        compile(text)
    """
    since = time.monotonic()
    left = _watcher.stop(threading.get_ident())
    try:
        yield
    finally:
        _watcher.go_on(left, time.monotonic() - since)


class _Watcher:
    """Interrupts code that has had its time: in one thread, for starting one takes longer than
    most of what is limited."""

    def __init__(self) -> None:
        # Code that is interrupted takes the lock itself: a condition does so in Python, where the
        # interrupt could come between.
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.active: set[limited] = set()
        self.thread = threading.Thread()
        self.wakes = 0.0  # when it looks again

    def add(self, limit: limited) -> None:
        with self.lock:
            self.active.add(limit)
            if not self.thread.is_alive():  # or it is not in this process, which was forked
                self.thread = threading.Thread(target=self._watch, daemon=True)
                self.wakes = 0.0
                self.thread.start()
            elif limit.deadline < self.wakes:
                self.changed.notify()

    def remove(self, limit: limited) -> None:
        with self.lock:  # so that nothing is interrupted that comes later
            self.active.discard(limit)

    def stop(self, thread: int) -> dict[limited, float]:
        """Lets the limits of a thread never end; by each, when it was to end."""
        with self.lock:
            left = {limit: limit.deadline for limit in self.active if limit.thread == thread}
            for limit in left:
                limit.deadline = inf
        return left

    def go_on(self, left: dict[limited, float], later: float) -> None:
        """Lets them end some seconds later than they were to."""
        with self.lock:
            for limit, deadline in left.items():
                limit.deadline = deadline + later
            self.changed.notify()

    def _watch(self) -> None:
        with self.changed:
            while True:
                now = time.monotonic()
                for limit in self.active:
                    if limit.deadline <= now:
                        # Code that is interrupted may go on all the same, for as long again.
                        limit.restart()
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(limit.thread), ctypes.py_object(TimeLimitError)
                        )
                deadlines = [limit.deadline for limit in self.active]
                self.wakes = min([*deadlines, now + IDLE])
                self.changed.wait(max(0.0, self.wakes - time.monotonic()))


IDLE = 60.0  # seconds
_watcher = _Watcher()
