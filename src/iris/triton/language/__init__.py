"""`triton.language`: import it as `tl`."""

from typing import Any

from iris.triton.language import core, extra, math, random, standard

globals().update(core.WORDS)

__all__ = ["core", "extra", "math", "random", "standard", *core.WORDS]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"triton.language has no {name!r} here", name=name)
