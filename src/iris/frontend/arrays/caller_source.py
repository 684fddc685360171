"""Read the caller's bytecode and source: which variable takes a value, which call is running.

Functions of arrays are not rewritten, so frames are all there is to read.
"""

from __future__ import annotations

import ast
import dis
import linecache
from functools import lru_cache
from itertools import islice, pairwise
from types import CodeType, FrameType


def stored_name(frame: FrameType) -> str | None:
    """The variable that stores the result of a frame's running instruction, if any."""
    return _stores(frame.f_code).get(frame.f_lasti)


@lru_cache(maxsize=256)
def _stores(code: CodeType) -> dict[int, str]:
    """The variable that the next instruction stores, by the offset of an instruction.

    A callee may see the offset of an instruction, or the end of its caches.
    """
    found = {}
    for before, after in pairwise(dis.get_instructions(code)):
        if after.opname.startswith("STORE_") and after.opname not in _NO_VARIABLE:
            # One instruction may store a variable and then load or store another.
            name = after.argval[0] if isinstance(after.argval, tuple) else after.argval
            if isinstance(name, str):
                found.update(dict.fromkeys(range(before.offset, after.offset), name))
    return found


def uses_item(frame: FrameType) -> str | None:
    """Whether a frame's running instruction is a "load" or a "store" of `a[...]`."""
    return _items(frame.f_code).get(frame.f_lasti)


@lru_cache(maxsize=256)
def _items(code: CodeType) -> dict[int, str]:
    found = {}
    for before, after in pairwise(dis.get_instructions(code)):
        if "SUBSCR" in before.opname or "SLICE" in before.opname or before.argrepr == "[]":
            use = "store" if before.opname.startswith("STORE_") else "load"
            found.update(dict.fromkeys(range(before.offset, after.offset), use))
    return found


def running_call(frame: FrameType) -> ast.Call | None:
    """The running call of a frame, parsed from its source; None if unknown."""
    positions = getattr(frame.f_code, "co_positions", None)  # Python tells from 3.11 on
    if positions is None:
        return None
    first, last, start, end = next(islice(positions(), frame.f_lasti // 2, None))
    if None in (first, last, start, end):
        return None
    lines = [
        linecache.getline(frame.f_code.co_filename, n).encode() for n in range(first, last + 1)
    ]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        found = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None
    return found if isinstance(found, ast.Call) else None


_NO_VARIABLE = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE")


def name_of(x: object, frame: FrameType) -> str | None:
    """The name of a variable of a frame that holds this object."""
    for scope in (frame.f_locals, frame.f_globals):
        for name, value in scope.items():
            if value is x:
                return name
    return None
