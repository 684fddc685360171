"""What was compiled, kept on disk for the next process.

Every entry is a file with a name that says what it was made of, and with a checksum. It is written
elsewhere and renamed, so that nobody sees a part of it, and nobody waits for another process: who
finds nothing compiles, and of two who did, either's file will do. What cannot be read or written is
a reason to compile, not to fail.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from iris.cache_folder import cache_folder, not_ours, why_not_ours
from iris.errors import SettingError

# The folder of unfinished entries, which each process lists; a name begins with its writer's.
_PARTIAL = "partial"
_ENTRY = re.compile(r"[0-9a-f]{64}")
_MAGIC = b"iris library 1\n"
_DIGEST = hashlib.sha256().digest_size
# Folders that a warning was given of.
_WARNED: set[str] = set()


#: The folders of compiled kernels, of their pipelines, and of the choices of `iris.autotune` and
#: `iris.jit`.
LIBRARIES, PIPELINES, CHOICES = ROOMS = "libraries", "pipelines", "choices"


class Cache:
    """Bytes by what they were made of."""

    def __init__(self, toolchain: str, room: str = LIBRARIES):
        self._toolchain = toolchain
        self.hits = self.misses = 0
        self._folder = folder_of(room)
        why = not_ours(self._folder)
        if why is not None:
            raise SettingError(f"compiled kernels cannot be kept: {why}")
        with suppress(OSError):
            self._sweep()

    def key(self, *parts: str) -> str:
        """A name for the result of compiling some texts with the toolchain."""
        digest = hashlib.sha256()
        for part in (self._toolchain, *parts):
            encoded = part.encode()
            digest.update(b"%d\n" % len(encoded) + encoded)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        """What was kept; None if there is nothing that is as it was written."""
        kept = self._read(key)
        self.hits += kept is not None
        self.misses += kept is None
        return kept

    def _read(self, key: str) -> bytes | None:
        try:
            content = _content(self._folder / key)
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        kept = content[start:]
        if content[:start] != _MAGIC + _digest(key, kept):
            self.drop(key)
            return None
        return kept

    def put(self, key: str, content: bytes) -> None:
        """Keep something; a warning tells once if that cannot be."""
        try:
            partials = self._folder / _PARTIAL
            for folder in (self._folder, partials):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=partials, prefix=f"{os.getpid()}-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _digest(key, content) + content)
                os.replace(partial, self._folder / key)
                partial = ""
            finally:
                if partial:
                    Path(partial).unlink(missing_ok=True)
        except OSError as error:
            if str(self._folder) not in _WARNED:
                _WARNED.add(str(self._folder))
                warnings.warn(
                    f"compiled kernels cannot be kept in {self._folder}: {error}; set "
                    "IRIS_CACHE_DIR to a folder that can be written to",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def drop(self, key: str) -> None:
        """Forget an entry that turned out to be of no use."""
        with suppress(OSError):
            (self._folder / key).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what processes left that were killed while they wrote."""
        for path in (self._folder / _PARTIAL).iterdir():
            process = path.name.partition("-")[0]
            if not process.isdigit():
                continue  # no name of ours
            try:
                os.kill(int(process), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)


def folder_of(room: str) -> Path:
    """The folder of a kind of entries."""
    return cache_folder() / room


def entries(folder: Path) -> list[Path]:
    """The files that caches keep in a folder."""
    return [path for path in folder.glob("*") if _ENTRY.fullmatch(path.name)]


def _content(path: Path) -> bytes:
    """What a file of this user holds; an `OSError` if it is none, without waiting for who would
    write to what is no file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or why_not_ours(path, found) is not None:
            raise OSError(f"{path} is no file of this user")
        return file.read()


def _digest(key: str, content: bytes) -> bytes:
    # With the key, for two entries that were swapped are both wrong.
    return hashlib.sha256(key.encode() + content).digest()
