"""Names of variables: from the source where they can be, unique where they are seen."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

_NUMBERED = re.compile(r"_\d+$")


class Names:
    """The names that are taken, scope by scope; a name that a scope took is free again after."""

    def __init__(self, reserved: Collection[str]):
        self._reserved = reserved
        self._taken: set[str] = set()
        self._scopes: list[list[str]] = [[]]
        self._ever: set[str] = set()  # names that some scope has or had
        self._hints: set[str] = set()
        self._counts: dict[str, int] = {}  # by stem: below this, no number is free

    def enter(self) -> None:
        self._scopes.append([])

    def leave(self) -> None:
        self._taken.difference_update(self._scopes.pop())
        self._counts.clear()

    def new(self, hint: str, *, everywhere: bool = False) -> str:
        """A name like the hint; `everywhere`: for the whole function, with the scopes that have
        ended, not for this scope."""
        name = legal(hint)
        stem = unnumbered(name)
        if stem in self._hints:  # the text of the IR has numbered what shares a name: not so here
            name = stem
        self._hints.add(name)
        if everywhere:
            count = 0
            while name in self._ever or name in self._reserved:
                count += 1
                name = f"{stem}_{count}"
        elif name in self._taken or name in self._reserved:
            count = self._counts.get(stem, 0)
            while name in self._taken or name in self._reserved:
                count += 1
                name = f"{stem}_{count}"
            self._counts[stem] = count
        self._taken.add(name)
        self._ever.add(name)
        self._scopes[0 if everywhere else -1].append(name)
        return name

    def see(self, hint: str) -> None:
        """Take note of a name that the source has, whether it gets into the text or not."""
        self._hints.add(hint)

    def index(self) -> str:
        """A name for the variable of a loop."""
        for letter in "ijkl":
            if letter not in self._taken and letter not in self._reserved:
                return self.new(letter)
        return self.new("i")


def unnumbered(name: str) -> str:
    """A name without the number at its end."""
    return _NUMBERED.sub("", name) if name[-1:].isdigit() else name


@lru_cache(maxsize=4096)
def legal(hint: str) -> str:
    """The hint as an identifier of C++, which has none with two underscores."""
    if hint.isascii() and hint.isidentifier() and hint[0] != "_" and "__" not in hint:
        return hint
    name = re.sub(r"__+", "_", re.sub(r"\W", "_", hint, flags=re.ASCII))
    if name.strip("_") == "":
        return "v"
    # A leading underscore before a capital is the language's own; before others, the eye's.
    name = name.lstrip("_")
    return f"v{name}" if name[0].isdigit() else name
