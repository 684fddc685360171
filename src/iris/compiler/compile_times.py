"""How long compiling takes, for those who ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: What is told of each kernel or function of arrays once it is compiled: its name, and from when to
#: when that took, in seconds of `time.perf_counter`.
LISTENERS: list[Callable[[str, float, float], None]] = []


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Compile something of a name within the `with`."""
    start = time.perf_counter()
    yield
    for tell in LISTENERS:
        tell(name, start, time.perf_counter())
