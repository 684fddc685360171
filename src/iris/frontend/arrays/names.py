"""The names that the user has for values: no syntax is rewritten, so Python's own bytecode and
frames tell them."""

from __future__ import annotations

import dis
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType


def stored_name(frame: FrameType) -> str | None:
    """The variable that takes what the running instruction of a frame gives, if one does."""
    return _stores(frame.f_code).get(frame.f_lasti)


@lru_cache(maxsize=256)
def _stores(code: CodeType) -> dict[int, str]:
    """For the instructions that are followed by the store of one variable, its name.

    What an instruction calls may find it at its start, or at the end of its caches.
    """
    found = {}
    for before, after in pairwise(dis.get_instructions(code)):
        if after.opname.startswith("STORE_") and after.opname not in _NO_VARIABLE:
            # One instruction may store a variable and then load or store another.
            name = after.argval[0] if isinstance(after.argval, tuple) else after.argval
            if isinstance(name, str):
                found.update(dict.fromkeys(range(before.offset, after.offset), name))
    return found


_NO_VARIABLE = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")


def name_of(x: object, frame: FrameType) -> str | None:
    """A variable that holds this very object, where a frame can see it."""
    for scope in (frame.f_locals, frame.f_globals):
        for name, value in scope.items():
            if value is x:
                return name
    return None
