"""Finalizers that leave the rest to the end of the process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

Freed = TypeVar("Freed")


def until_shutdown(free: Callable[[Freed], None]) -> Callable[[Freed], None]:
    """Make a `__del__` that frees nothing once Python shuts down: what it calls may be gone then.

    @until_shutdown
    def __del__(self):
        self.free()
    """

    # A default outlives the globals of this module.
    def finalizer(of: Freed, is_shutting_down: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_shutting_down():
            free(of)

    return finalizer
