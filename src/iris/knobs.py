"""Every environment switch, typed, in one place.  Each is read when asked for.

IRIS_DUMP      `changed` or `all`, or levels such as `tile,msl`: write IR between passes, and Metal
IRIS_DUMP_DIR  the folder for it (default: iris-dump)
IRIS_DEVICE    the device to launch on (default: the first there is)
IRIS_CHECK     1: verify the IR after every pass, and compare what the stages of a launch do
IRIS_CACHE_DIR the folder for what was compiled (default: ~/.cache/iris)

Those of softmetal, which reads them itself:

IRIS_SOFTMETAL_SEED      the order of threads: another number, another order; 0 is as numbered
IRIS_SOFTMETAL_TIMEOUT   the seconds that a threadgroup may take (default: 10)
IRIS_SOFTMETAL_SANITIZE  1: check every access and operation of kernels
"""

from __future__ import annotations

import os
from pathlib import Path

from iris.errors import SettingError

LEVELS = ("graph", "tile", "metal", "msl")


def dump() -> tuple[str, ...]:
    """Which stages to write: `("changed",)`, `("all",)`, some levels, or none."""
    if "IRIS_DUMP" not in os.environ:
        return ()
    words = tuple(filter(None, map(str.strip, os.environ.get("IRIS_DUMP", "").split(","))))
    if words not in (("changed",), ("all",)) and not set(words) <= set(LEVELS):
        raise SettingError(
            f"IRIS_DUMP is changed, all, or some of {', '.join(LEVELS)}; not {','.join(words)!r}"
        )
    return words


def dump_dir() -> Path:
    """The folder for dumps."""
    return Path(os.environ.get("IRIS_DUMP_DIR") or "iris-dump")


def device() -> str | None:
    """The device to launch on, where a launch names none."""
    return os.environ.get("IRIS_DEVICE") or None


def check() -> bool:
    """Whether to verify the IR after every pass, and to run every stage of what is launched."""
    word = os.environ.get("IRIS_CHECK", "")
    if word not in ("", "0", "1"):
        raise SettingError(f"IRIS_CHECK is 0 or 1, not {word!r}")
    return word == "1"


def cache_dir() -> Path:
    """The folder for what was compiled."""
    given = os.environ.get("IRIS_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iris"


def sanitize() -> bool:
    """Whether softmetal checks every access and operation of kernels."""
    return os.environ.get("IRIS_SOFTMETAL_SANITIZE") == "1"
