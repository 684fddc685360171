"""Random histories of a cache on disk, as two processes and bad luck write it.

    @given(kept.histories())
    def test_caches(history):
        history.check()

Caches put, get and drop entries; between, files are cut short, changed, swapped, or written by
another version.  What was put last for the same parts is found again if nothing happened to it;
else nothing, or what was put for them before, if somebody has made copies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from iris.runtime.cache import Cache, entries, folder_of
from iris.testing.choices import Choices

BYTES = 96
STEPS = 12
_TEXTS = ("a", "b", "ab", "", "1", "1\n", "\n", "1\na", "0\n", "fast")
_TOOLCHAINS = ("t", "t1", "")


def _cut(one: Path, other: Path) -> None:
    one.write_bytes(one.read_bytes()[:-1])


def _empty(one: Path, other: Path) -> None:
    one.write_bytes(b"")


def _longer(one: Path, other: Path) -> None:
    one.write_bytes(one.read_bytes() + b"\0")


def _flip_first(one: Path, other: Path) -> None:
    one.write_bytes(bytes([one.read_bytes()[0] ^ 1]) + one.read_bytes()[1:])


def _flip_in_the_middle(one: Path, other: Path) -> None:
    content = bytearray(one.read_bytes())
    content[len(content) // 2] ^= 4
    one.write_bytes(content)


def _flip_last(one: Path, other: Path) -> None:
    one.write_bytes(one.read_bytes()[:-1] + bytes([one.read_bytes()[-1] ^ 128]))


def _of_another_version(one: Path, other: Path) -> None:
    first, _, rest = one.read_bytes().partition(b"\n")
    one.write_bytes(first[:-1] + b"0\n" + rest)


def _copy(one: Path, other: Path) -> None:
    one.write_bytes(other.read_bytes())


def _remove(one: Path, other: Path) -> None:
    one.unlink()


_ACCIDENTS: tuple[Callable[[Path, Path], None], ...] = (
    _cut,
    _copy,
    _flip_last,
    _flip_first,
    _flip_in_the_middle,
    _of_another_version,
    _longer,
    _empty,
    _copy,
    _remove,
)


@dataclass(frozen=True)
class History:
    """Steps, each drawn from some bytes."""

    data: bytes

    def check(self) -> None:
        """Assert that what caches find is what was put."""
        done: list[str] = []
        with _folder() as folder:
            try:
                for _ in _Run(Choices(self.data), folder, done).steps():
                    pass
            except AssertionError as error:
                raise AssertionError("\n".join([*map(str, error.args), "", *done])) from error


class _Run:
    def __init__(self, choices: Choices, folder: Path, done: list[str]):
        self.choices, self.folder, self.done = choices, folder, done
        self.toolchains = [choices.of(_TOOLCHAINS) for _ in "12"]
        self.caches = [Cache(t) for t in self.toolchains]
        # For each toolchain and parts what may be found, which was put last at the end; and for
        # which of them nothing happened since.
        self.put: dict[tuple[str, tuple[str, ...]], list[bytes]] = {}
        self.whole: set[tuple[str, tuple[str, ...]]] = set()
        self.has_copied = False

    def steps(self) -> Iterator[None]:
        for number in range(STEPS):
            self.step(number)
            yield
        for toolchain, parts in self.put:
            self.get(self.toolchains.index(toolchain), parts)
            yield

    def step(self, number: int) -> None:
        choices = self.choices
        which = choices.below(2)
        parts = tuple([choices.of(_TEXTS) for _ in range(choices.of((2, 1, 3)))])
        if self.put and choices.flag():  # of those that have been used
            toolchain, parts = choices.of([*self.put])
            which = self.toolchains.index(toolchain)
        cache, name = self.caches[which], (self.toolchains[which], parts)
        style = choices.below(8)
        if style < 3:
            content = bytes([number]) * choices.of((3, 1, 0, 200))
            self.done.append(f"put {name}: {content[:3]!r}...")
            cache.put(cache.key(*parts), content)
            self._forget(name)
            self.put.setdefault(name, []).append(content)
            self.whole.add(name)
        elif style < 5:
            self._accident()
        elif style == 5:
            self.done.append("another process")
            self.caches[which] = Cache(self.toolchains[which])
        elif style == 6 and choices.flag():
            self.done.append(f"drop {name}")
            cache.drop(cache.key(*parts))
            self._forget(name)
            self.whole.discard(name)
        else:
            self.get(which, parts)

    def _forget(self, name: tuple[str, tuple[str, ...]]) -> None:
        """What was put before cannot be found any more, if no file was copied."""
        if not self.has_copied:
            self.put.pop(name, None)

    def get(self, which: int, parts: tuple[str, ...]) -> None:
        cache, name = self.caches[which], (self.toolchains[which], parts)
        self.done.append(f"get {name}")
        found = cache.get(cache.key(*parts))
        put = self.put.get(name, [])
        if name in self.whole:
            assert found == put[-1], f"it finds {found!r:.30}"
        else:
            assert found is None or found in put, f"it finds {found[:9]!r}"

    def _accident(self) -> None:
        """Something happens to a file, whose name does not say what it is of."""
        files = sorted(entries(self.folder))
        if not files:
            return
        # All that is known is what stays as it was.
        happens = self.choices.of(_ACCIDENTS)
        one, other = self.choices.of(files), self.choices.of(files)
        if (happens is _copy and one == other) or not one.read_bytes():
            return  # nothing happens
        before = {name: self._file(name) for name in self.whole}
        self.done.append(f"{happens.__name__[1:]} {one.name[:8]} {other.name[:8]}")
        happens(one, other)
        self.has_copied = self.has_copied or happens is _copy
        self.whole -= {name for name, file in before.items() if file == one}

    def _file(self, name: tuple[str, tuple[str, ...]]) -> Path:
        toolchain, parts = name
        return self.folder / self.caches[self.toolchains.index(toolchain)].key(*parts)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that caches use, for as long as this lasts."""
    before = os.environ.get("IRIS_CACHE_DIR")
    with TemporaryDirectory() as folder:
        os.environ["IRIS_CACHE_DIR"] = folder
        try:
            yield folder_of("libraries")
        finally:
            del os.environ["IRIS_CACHE_DIR"]
            if before is not None:
                os.environ["IRIS_CACHE_DIR"] = before


def histories() -> st.SearchStrategy[History]:
    """Histories of a few steps."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(History)
