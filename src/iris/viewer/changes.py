"""What a pass changed, line by line: lines that define the same value stand beside each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import zip_longest

from iris.ir.core import Op, Value
from iris.viewer.listing import Listing

_NAME = re.compile(r"%\w+")

#: A line before and the one that stands for it after; None where there is none.
Row = tuple[int | None, int | None]


def rows(before: Listing, after: Listing, became: Mapping[Value, Value]) -> list[Row]:
    """Pair the lines of two listings, in order.

    A line that defines a value is paired with one that defines what it became.  Others are paired
    if they read the same, each value called by what it became.
    """
    one, other = _keys(before, became), _keys(after, {})
    paired: list[Row] = []
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for kind, i, end, j, other_end in matcher.get_opcodes():
        if kind == "equal":
            paired += zip(range(i, end), range(j, other_end), strict=True)
        elif kind == "replace":
            paired += _replaced(before, after, range(i, end), range(j, other_end))
        else:
            paired += [(n, None) for n in range(i, end)]
            paired += [(None, n) for n in range(j, other_end)]
    return paired


def _replaced(before: Listing, after: Listing, old: range, new: range) -> list[Row]:
    """Lines that gave way to others: beside each other if each is an op of the same kind."""
    if len(old) == len(new):
        ops = [(before.ops[i], after.ops[j]) for i, j in zip(old, new, strict=True)]
        if all(type(a) is type(b) for a, b in ops):
            return list(zip_longest(old, new))
    return [*[(i, None) for i in old], *[(None, j) for j in new]]


def _keys(text: Listing, became: Mapping[Value, Value]) -> list[object]:
    """What tells each line from others: the values that it defines, or how it reads."""
    called = {name: became.get(value, value) for value, name in text.names.items()}
    keys: list[object] = []
    for line, op in zip(text.lines, text.ops, strict=True):
        defined = _defined(op) if op is not None else ()
        if defined:
            keys.append(tuple([became.get(v, v) for v in defined]))
        else:
            words = tuple([called.get(word, word) for word in _NAME.findall(line)])
            keys.append((_NAME.sub("%", line).strip(), words))
    return keys


def _defined(op: Op) -> tuple[Value, ...]:
    """The values that tell an op from all others."""
    return op.results or tuple([v for region in op.regions for v in region.arguments])


def renamed(before: Listing, after: Listing, became: Mapping[Value, Value]) -> dict[str, str]:
    """New names of the values that a pass gave other names; "" for those that it removed."""
    names = {}
    for value, name in before.names.items():
        new = became.get(value)
        called = "" if new is None else after.names.get(new, "")
        if called != name:
            names[name] = called
    return names


def size(paired: list[Row], before: Listing, after: Listing, names: Mapping[str, str]) -> int:
    """How many lines differ, apart from what values are called."""
    return sum([not is_same(row, before, after, names) for row in paired])


def is_same(row: Row, before: Listing, after: Listing, names: Mapping[str, str]) -> bool:
    """Whether two lines read the same, each value called as it is after the pass."""
    i, j = row
    if i is None or j is None:
        return False
    called = _NAME.sub(lambda name: names.get(name[0], name[0]), before.lines[i])
    return called == after.lines[j]
