"""What differs between two texts of IR."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

# A value, and what in it is only a number: all of it, or what tells values of one name apart.
_VALUE = re.compile(r"%\w+")
_NUMBER = re.compile(r"%\d+\b|(?<=\w)_\d+\b")
_WORD = re.compile(r"\??%?\w+|\s+|.")


def diff(
    before: str,
    after: str,
    name: str = "before",
    new_name: str = "after",
    *,
    by_name: bool = True,
    mark: Callable[[str], str] | None = None,
) -> str:
    """A unified diff of the text of two modules; that values are numbered anew is no change, nor,
    unless `by_name`, that they are called otherwise.  `mark` puts marks around words that differ,
    in lines that take the place of others."""
    free = _NUMBER if by_name else _VALUE
    lines = _changes(before.splitlines(), after.splitlines(), free, mark)
    return "\n".join([f"--- {name}", f"+++ {new_name}", *lines, ""])


def _changes(
    before: list[str],
    after: list[str],
    free: re.Pattern[str],
    mark: Callable[[str], str] | None,
) -> Iterator[str]:
    renamed = _renamed(before, after, free)
    matcher = difflib.SequenceMatcher(None, renamed, after, autojunk=False)
    for group in matcher.get_grouped_opcodes():
        (_, i, _, j, _), (_, _, end, _, other_end) = group[0], group[-1]
        yield f"@@ -{i + 1},{end - i} +{j + 1},{other_end - j} @@"
        for kind, i, end, j, other_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in after[j:other_end])
            else:
                old, new = before[i:end], after[j:other_end]
                if mark is not None:
                    for n, (line, other) in enumerate(zip(renamed[i:end], new, strict=False)):
                        old[n], new[n] = _marked(old[n], line, other, mark)
                yield from (f"-{line}" for line in old)
                yield from (f"+{line}" for line in new)


def _marked(line: str, renamed: str, other: str, mark: Callable[[str], str]) -> tuple[str, str]:
    """A line, which `renamed` is with the names of another one, and that one, with marks around
    what differs."""
    words, others, marked, others_marked = _WORD.findall(line), _WORD.findall(other), "", ""
    matcher = difflib.SequenceMatcher(None, _unnamed(renamed), _unnamed(other), autojunk=False)
    for kind, i, end, j, other_end in matcher.get_opcodes():
        old, new = "".join(words[i:end]), "".join(others[j:other_end])
        differs = kind != "equal"
        marked += mark(old) if differs and old else old
        others_marked += mark(new) if differs and new else new
    return marked, others_marked


def _unnamed(line: str) -> list[str]:
    """The words of a line, whatever the values that it defines are called."""
    words = _WORD.findall(line)
    defined = words.index("=") if "=" in words else 0
    return [_VALUE.sub("%", word).lstrip("?") for word in words[:defined]] + words[defined:]


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
