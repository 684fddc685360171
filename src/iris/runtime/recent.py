"""What was made, by what it was made of: as many as are bounded, those that are asked for stay."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key.  Where there is no room for another one, the first goes that nobody has asked
    for since it was last passed over: to ask costs no more than of a dict, and takes no lock."""

    def __init__(self, most: int):
        self.most = most
        self._kept: dict[Key, _Kept[Value]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        kept.was_asked = True
        return kept.value

    def put(self, key: Key, value: Value) -> None:
        with self._lock:
            while len(self._kept) >= self.most and key not in self._kept:
                first = next(iter(self._kept))
                kept = self._kept.pop(first)
                if kept.was_asked:
                    kept.was_asked = False
                    self._kept[first] = kept  # now the last
            self._kept[key] = _Kept(value)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


class _Kept(Generic[Value]):
    __slots__ = ("value", "was_asked")

    def __init__(self, value: Value):
        self.value = value
        self.was_asked = False
