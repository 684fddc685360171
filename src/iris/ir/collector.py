"""Pausing Python's collector of cycles while many objects are made that are soon dropped."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave cycles of objects to be found afterwards.

    A pass, or the emission of a text, makes many objects and drops most of them soon.  The
    collector would go over all that are there again and again, and find little: the more of them
    there are, the longer it takes.

    All threads share the collector.  The one that paused it resumes it, though another may be in a
    pass then, whose rest only takes longer: a count of passes could stay too high where Ctrl-C or a
    time limit interrupts its change, and nothing would ever be collected again.
    """
    if not gc.isenabled():  # paused already, maybe by another thread
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
