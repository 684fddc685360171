"""Running a user's script within a command, as `python` would run it."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from iris.errors import SettingError


def run_script(script: str, arguments: Sequence[str]) -> None:
    """Run a script as the main program, given these arguments."""
    path = Path(script)
    if not path.is_file():
        raise SettingError(f"there is no script {script}")
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[0] = [script, *arguments], str(path.resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before


@contextmanager
def environment(new: Mapping[str, str]) -> Iterator[None]:
    """Set some variables of the environment within the `with`."""
    old = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
