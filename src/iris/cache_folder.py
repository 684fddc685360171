"""Where compiled code is kept between processes, such that nobody else can put any there.

The folder is IRIS_CACHE_DIR, else `iris` in XDG_CACHE_HOME, which its specification wants to be
absolute, else in ~/.cache.  Where there is no home, or nothing can be kept there, it is a folder of
this user's in the one for temporary files, with a warning.

What is kept is run, so that it must be this user's or root's, and others must not be able to write
to it, whether they are of the same group or not; ssh wants the same of its files.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from pathlib import Path

from iris import knobs
from iris.errors import SettingError

# Folders that a warning was given for.
_WARNED: set[str] = set()


def cache_folder() -> Path:
    """The folder, made if it was not there; a `SettingError` if others can write to it."""
    chosen = knobs.cache_dir()
    if chosen is not None:
        _make(chosen)
        why = not_ours(chosen)
        if why is not None:
            raise SettingError(f"IRIS_CACHE_DIR is not safe to use: {why}")
        return chosen
    usual = _usual()
    why = "there is no home folder" if usual is None else _make(usual) or not_ours(usual)
    if usual is not None and why is None:
        return usual
    instead = Path(tempfile.gettempdir()).absolute() / f"iris-{os.getuid()}"
    failed = _make(instead) or _is_link(instead) or not_ours(instead)
    if failed is not None:
        raise SettingError(
            f"compiled kernels can be kept nowhere: {why}, and {failed}; set IRIS_CACHE_DIR to a "
            "folder of your own"
        )
    if str(instead) not in _WARNED:
        _WARNED.add(str(instead))
        warnings.warn(
            f"compiled kernels are kept in {instead}, for {why}; set IRIS_CACHE_DIR to a folder of "
            "your own",
            RuntimeWarning,
            stacklevel=2,
        )
    return instead


def not_ours(path: Path) -> str | None:
    """Why a file or folder may hold what others put there; None if it may not, or is not there."""
    try:
        return why_not_ours(path, path.stat())
    except OSError:
        return None


def why_not_ours(path: Path, found: os.stat_result) -> str | None:
    """The same of a file that is open."""
    if found.st_uid not in (0, os.getuid()):
        return f"{path} belongs to another user, of the number {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to {path}: chmod go-w {path}"
    return None


def _is_link(path: Path) -> str | None:
    """Why a path in a folder of everybody's may lead elsewhere tomorrow."""
    return f"{path} is a link" if path.is_symlink() else None


def _usual() -> Path | None:
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not shared.is_absolute():
        if os.environ.get("HOME") == "":
            return None
        try:
            shared = Path.home() / ".cache"
        except RuntimeError:
            return None
    return shared / "iris" if shared.is_absolute() else None


def _make(folder: Path) -> str | None:
    """Make a folder for this user alone; why that cannot be."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    return None
