"""How errors of a run name a thread, and the lines of the user's program."""

from __future__ import annotations

from iris.ir.core import Op
from iris.ir.metal import SIMDGROUP_WIDTH


def thread_text(thread: int) -> str:
    """A thread of a program, by its number in the threadgroup."""
    simdgroup, lane = divmod(thread, SIMDGROUP_WIDTH)
    return f"thread {thread} (simdgroup {simdgroup}, lane {lane})"


def locations(*ops: Op) -> list[tuple[str, int]]:
    """The lines that ops come from, once for each op."""
    return [o.location for o in dict.fromkeys(ops) if o.location is not None]
