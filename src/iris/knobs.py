"""Every environment switch, typed, in one place.  Each is read when asked for.

IRIS_DUMP      `changed` or `all`, or levels such as `tile,msl`: write IR between passes, and Metal
IRIS_DUMP_DIR  the folder for it (default: iris-dump)
IRIS_DEVICE    the device to launch on (default: the first there is)
IRIS_TARGET    the GPU to compile for from now on, such as apple-m4 (default: that of the device)
IRIS_CHECK     1: verify the IR after every pass, and compare what the stages of a launch do
IRIS_CACHE_DIR the folder for what was compiled (default: ~/.cache/iris)

Those of softmetal, which reads them itself, by the same rules:

IRIS_SOFTMETAL_SEED      the order of threads: another number, another order; 0 is as numbered
IRIS_SOFTMETAL_TIMEOUT   the seconds that a threadgroup may take (default: 10)
IRIS_SOFTMETAL_SANITIZE  1: check every access and operation of kernels
IRIS_SOFTMETAL_STRICT    1: refuse texts that Apple's compiler refuses
IRIS_SOFTMETAL_FLUSH     1: take subnormal floats for zero, as Apple's GPUs do
IRIS_SOFTMETAL_COMPILER  the clang that compiles kernels (default: the newest that is tested)

And one of Metal's own:

METAL_CAPTURE_ENABLED    1: traces for Xcode can be written, which show labels and texts

An empty one is as if it were not set.  A value that means nothing is a `SettingError`.  Variables
of other programs begin with IRIS_, too: one that is nearly a name of ours gets a warning.
"""

from __future__ import annotations

import os
import re
import warnings
from functools import cache
from pathlib import Path

from iris.errors import SettingError

NAMES = (
    "IRIS_DUMP",
    "IRIS_DUMP_DIR",
    "IRIS_DEVICE",
    "IRIS_TARGET",
    "IRIS_CHECK",
    "IRIS_CACHE_DIR",
    "IRIS_SOFTMETAL_SEED",
    "IRIS_SOFTMETAL_TIMEOUT",
    "IRIS_SOFTMETAL_SANITIZE",
    "IRIS_SOFTMETAL_STRICT",
    "IRIS_SOFTMETAL_FLUSH",
    "IRIS_SOFTMETAL_COMPILER",
)
LEVELS = ("graph", "tile", "metal", "msl")

_MOST_SEED = 2**64 - 1
_MOST_SECONDS = 1_000_000


# The dict behind os.environ: that raises an error within for each name that is not set, and each
# launch asks for several.
_SET = os.environ._data  # type: ignore[attr-defined]
_key = cache(os.environ.encodekey)


def _word(name: str) -> str:
    value = _SET.get(_key(name))
    return "" if value is None else os.environ.decodevalue(value)


def _refused(name: str, wanted: str) -> SettingError:
    return SettingError(f"{name} is {wanted}, not {_word(name)!r}")


def _switch(name: str) -> bool:
    word = _word(name)
    if word not in ("", "0", "1"):
        raise _refused(name, "0 or 1")
    return word == "1"


def dump() -> tuple[str, ...]:
    """Which stages to write: `("changed",)`, `("all",)`, some levels, or none."""
    text = _word("IRIS_DUMP")
    if not text:
        return ()
    words = tuple(filter(None, map(str.strip, text.split(","))))
    if words not in (("changed",), ("all",)) and not set(words) <= set(LEVELS):
        raise _refused("IRIS_DUMP", f"changed, all, or some of {', '.join(LEVELS)}")
    return words


def dump_dir() -> Path:
    """The folder for dumps."""
    return Path(_word("IRIS_DUMP_DIR") or "iris-dump")


def device() -> str | None:
    """The device to launch on, where a launch names none."""
    return _word("IRIS_DEVICE") or None


def target() -> str | None:
    """The GPU to compile for, where a launch names none."""
    return _word("IRIS_TARGET") or None


def check() -> bool:
    """Whether to verify the IR after every pass, and to run every stage of each launched kernel."""
    return _switch("IRIS_CHECK")


def look_at_launches() -> bool:
    """Whether `check()` or `dump()` may ask something of launches."""
    return bool(_SET.get(_key("IRIS_CHECK")) or _SET.get(_key("IRIS_DUMP")))


def cache_dir() -> Path | None:
    """The folder for what was compiled, where the environment names it."""
    word = _word("IRIS_CACHE_DIR")
    return Path(word).absolute() if word else None


def sanitize() -> bool:
    """Whether softmetal checks every access and operation of kernels."""
    return _switch("IRIS_SOFTMETAL_SANITIZE")


def strict() -> bool:
    """Whether softmetal refuses texts that Apple's compiler refuses."""
    return _switch("IRIS_SOFTMETAL_STRICT")


def flush() -> bool:
    """Whether softmetal takes subnormal floats for zero."""
    return _switch("IRIS_SOFTMETAL_FLUSH")


def seed() -> int:
    """Of the order in which softmetal runs threads."""
    word = _word("IRIS_SOFTMETAL_SEED")
    if not re.fullmatch(r"[0-9]*", word) or int(word or 0) > _MOST_SEED:
        raise _refused("IRIS_SOFTMETAL_SEED", "an integer from 0 to 2**64 - 1")
    return int(word or 0)


def timeout() -> float | None:
    """The seconds that a threadgroup may take on softmetal, if the environment says."""
    word = _word("IRIS_SOFTMETAL_TIMEOUT")
    if not word:
        return None
    is_number = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", word)
    if not is_number or not 0 < float(word) <= _MOST_SECONDS:
        raise _refused(
            "IRIS_SOFTMETAL_TIMEOUT", "a number of seconds, over 0 and at most a million"
        )
    return float(word)


def traces() -> bool:
    """Whether Metal can write traces for Xcode: it reads the variable itself."""
    return _word("METAL_CAPTURE_ENABLED") == "1"


def warn_of_unknown() -> None:
    """Warn of variables whose name is nearly that of a switch."""
    for name in os.environ:
        if name.startswith("IRIS_") and name not in NAMES:
            from difflib import get_close_matches  # opened when needed

            for meant in get_close_matches(name, NAMES, n=1, cutoff=0.8):
                warnings.warn(
                    f"{name} does nothing; did you mean {meant}?", RuntimeWarning, stacklevel=2
                )
