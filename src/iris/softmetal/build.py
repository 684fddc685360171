"""Builds softmetal's library, once for each state of its sources, into the user's cache.

The library lies in a folder of its own with the headers that kernels are compiled against, which it
finds by itself: whoever loads it, needs nothing but its path.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from iris.cache_folder import cache_folder, not_ours
from iris.errors import SoftmetalError

_HERE = Path(__file__).parent
_HEADERS = _HERE / "include"
_SOURCES = _HERE / "sources"
_NAME = "libsoftmetal.so"

_COMMON = ["-O2", "-g1", "-fPIC", "-fvisibility=hidden", "-pthread", "-D_GNU_SOURCE"]
_OBJECTIVE_C = [
    "-Werror=implicit-function-declaration",
    "-fobjc-exceptions",
    "-D_NATIVE_OBJC_EXCEPTIONS",
    "-DGNUSTEP",
    "-DGNUSTEP_BASE_LIBRARY=1",
    "-fconstant-string-class=NSConstantString",
    "-isystem",
    "/usr/include/GNUstep",
]
_COMPILERS = {
    ".cpp": ["g++", "-std=c++20", *_COMMON],
    ".c": ["gcc", "-std=gnu11", *_COMMON],
    ".m": ["gcc", "-std=gnu11", *_COMMON, *_OBJECTIVE_C],
    ".S": ["gcc", *_COMMON],
}
_LINKER = ["g++", "-shared", "-pthread", "-Wl,-z,nodelete"]
_LIBRARIES = ["-lgnustep-base", "-lobjc", "-ldl"]

# What a package gives, found out by using it.
_FOUNDATION = '#import <Foundation/Foundation.h>\nNSString *text(void) { return @""; }\n'
_FOR_KERNELS = "clang-19"
_TRIALS = {
    "g++": (["g++", "-fsyntax-only", "-x", "c++", "-std=c++20", "-"], "#include <map>\n"),
    "gobjc": (["gcc", "-fsyntax-only", "-x", "objective-c", "-"], "#include <objc/objc.h>\n"),
    "libgnustep-base-dev": (
        ["gcc", "-fsyntax-only", "-x", "objective-c", *_OBJECTIVE_C, "-"],
        _FOUNDATION,
    ),
    _FOR_KERNELS: (["clang++-19", "-fsyntax-only", "-x", "c++", "-"], "int x;\n"),
}


def library() -> Path:
    """The library, built if it has not been yet."""
    folder = _cache() / _key()
    made = folder / _NAME
    if not made.exists():
        with _locked(folder):
            if not made.exists():
                _build(folder)
    for path in (folder.parent, folder, made):
        why = not_ours(path)
        if why is not None:
            raise SoftmetalError(f"the library of softmetal is not safe to use: {why}")
    if not made.is_file():
        raise SoftmetalError(f"{made} is no file; remove it, and it is built again")
    return made


def missing() -> list[str]:
    """The Debian packages that must be installed for the library to be built, if it is not, and
    used."""
    is_built = (_cache() / _key() / _NAME).exists()
    trials = {_FOR_KERNELS: _TRIALS[_FOR_KERNELS]} if is_built else _TRIALS
    with ThreadPoolExecutor() as pool:
        works = pool.map(lambda trial: _works(*trial), trials.values())
        return [package for package, there in zip(trials, works, strict=True) if not there]


def _works(command: Sequence[str], source: str) -> bool:
    try:
        return subprocess.run(command, input=source, capture_output=True, text=True).returncode == 0
    except OSError:
        return False


def _cache() -> Path:
    return cache_folder() / "softmetal"


@cache
def _key() -> str:
    """Of all that the library depends on, as it is when it is first asked for."""
    return _state()


def _state() -> str:
    state = hashlib.sha256()
    for path in sorted(p for p in _HERE.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        state.update(str(path.relative_to(_HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
    for compiler in ("gcc", "g++"):
        state.update((shutil.which(compiler) or "").encode() + _version(compiler))
    return state.hexdigest()[:24]


def _version(compiler: str) -> bytes:
    try:
        return subprocess.run([compiler, "--version"], capture_output=True).stdout
    except OSError:
        return b""


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """While something is written that a full disk, say, may not take."""
    try:
        yield
    except OSError as error:
        # What copies many files raises an error that lists those of each.
        reason = error.strerror or str(error)
        raise SoftmetalError(
            f"softmetal cannot be built into {folder.parent}: {reason}; set IRIS_CACHE_DIR to a "
            "folder that can be written to, on a disk that has room"
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """While no other process builds into this folder."""
    with _writing(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _build(folder: Path) -> None:
    if not sys.platform.startswith("linux"):
        raise SoftmetalError("softmetal, the software Metal device, is for Linux")
    if packages := missing():
        raise SoftmetalError(
            "softmetal, the software Metal device, needs packages that are not here; as root: "
            f"apt-get install {' '.join(packages)}"
        )
    with (
        _writing(folder),
        tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as partial,
    ):
        made = Path(partial) / "made"
        shutil.copytree(_HEADERS, made / "include")
        _run([*_LINKER, *_compiled(Path(partial)), "-o", str(made / _NAME), *_LIBRARIES])
        if _state() != folder.name:
            raise SoftmetalError("softmetal's sources changed while it was built; run it again")
        # Whatever files are made with here, others may not write to these.
        for path in (made, *made.rglob("*")):
            path.chmod(path.stat().st_mode & ~0o022)
        # Of an interrupted installation, or of files that were deleted.
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _compiled(folder: Path) -> list[str]:
    """The object files of all sources."""
    sources = [path for path in sorted(_SOURCES.rglob("*")) if path.suffix in _COMPILERS]
    objects = [str(folder / f"{i}.o") for i in range(len(sources))]
    commands = [
        [*_COMPILERS[source.suffix], "-c", str(source), "-o", made]
        for source, made in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(_run, commands):
            pass
    return objects


def _run(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise SoftmetalError(f"softmetal cannot be built: {' '.join(command)}\n{run.stderr}")
