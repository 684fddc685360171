"""What differs between two texts of IR."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

# A value, and what in it is only a number: all of it, or what tells values of one name apart.
_VALUE = re.compile(r"%\w+")
_NUMBER = re.compile(r"%\d+\b|(?<=\w)_\d+\b")


def diff(
    before: str,
    after: str,
    name: str = "before",
    new_name: str = "after",
    *,
    by_name: bool = True,
) -> str:
    """A unified diff of the text of two modules; that values are numbered anew is no change, nor,
    unless `by_name`, that they are called otherwise."""
    lines = _changes(before.splitlines(), after.splitlines(), _NUMBER if by_name else _VALUE)
    return "\n".join([f"--- {name}", f"+++ {new_name}", *lines, ""])


def _changes(before: list[str], after: list[str], free: re.Pattern[str]) -> Iterator[str]:
    renamed = _renamed(before, after, free)
    matcher = difflib.SequenceMatcher(None, renamed, after, autojunk=False)
    for group in matcher.get_grouped_opcodes():
        (_, i, _, j, _), (_, _, end, _, other_end) = group[0], group[-1]
        yield f"@@ -{i + 1},{end - i} +{j + 1},{other_end - j} @@"
        for kind, i, end, j, other_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in after[j:other_end])
            else:
                yield from (f"-{line}" for line in before[i:end])
                yield from (f"+{line}" for line in after[j:other_end])


def _renamed(before: list[str], after: list[str], free: re.Pattern[str]) -> list[str]:
    """Lines with each value called as in the lines `after`, if it is there; what is `free` in a
    name may be another there."""
    one, other = ([free.sub("%", line) for line in lines] for lines in (before, after))
    names: dict[str, str] = {}
    taken: set[str] = set()
    for i, j, size in difflib.SequenceMatcher(None, one, other, False).get_matching_blocks():
        for line, same in zip(before[i : i + size], after[j : j + size], strict=True):
            for old, new in zip(_VALUE.findall(line), _VALUE.findall(same), strict=True):
                if old not in names and new not in taken:
                    names[old] = new
                    taken.add(new)
    return [_VALUE.sub(lambda value: names.get(value[0], f"?{value[0]}"), line) for line in before]
