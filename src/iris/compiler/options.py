"""What a launch may say of how a kernel is compiled."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from iris.errors import ArgumentError
from iris.frontend.tracing import error_here
from iris.ir.core import Level
from iris.targets import DEFAULT, Target

if TYPE_CHECKING:
    from iris.passes.pipeline import Pipeline


@dataclass(frozen=True)
class Options:
    """How to compile a kernel."""

    num_simdgroups: int | None = None  # that run a program together; as many as fit it, if None
    fast_math: bool = False
    num_stages: int | None = (
        None  # buffers for each tile that a loop stages; if None, as many as pay
    )
    swizzle: int | None = None  # rows of programs in a group; as they are, if None
    serpentine: bool = False  # every other row of fragments is multiplied backwards
    preload: bool = False  # fragments are loaded a step of their product ahead

    def pipeline(self, level: Level, target: Target = DEFAULT) -> Pipeline:
        """What leads to a level from the traced program."""
        from iris.compiler.pipelines import pipeline_to  # opened when first used

        usual = pipeline_to(
            level,
            num_simdgroups=self.num_simdgroups,
            num_stages=self.num_stages,
            swizzle=self.swizzle,
            serpentine=self.serpentine,
            preload=self.preload,
        )
        return usual.on(target)


_USUAL = Options()
OPTION_NAMES = frozenset([field.name for field in fields(Options)])
# What each option may be.
_VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "num_simdgroups": ("a power of two from 1 to 32", (None, 1, 2, 4, 8, 16, 32)),
    "fast_math": ("True or False", (True, False)),
    "num_stages": ("a number from 1 to 8", (None, *range(1, 9))),
    "swizzle": ("a power of two from 2 to 32", (None, 2, 4, 8, 16, 32)),
    "serpentine": ("True or False", (True, False)),
    "preload": ("True or False", (True, False)),
}


def split_options(named: dict[str, Any]) -> Options:
    """What a launch says of how to compile, taken from its arguments."""
    if OPTION_NAMES.isdisjoint(named):
        return _USUAL
    options = Options(**{name: named.pop(name) for name in OPTION_NAMES & named.keys()})
    for name, (meaning, values) in _VALUES.items():
        value = getattr(options, name)
        # True is 1, and no number of anything.
        if not any(type(value) is type(legal) and value == legal for legal in values):
            raise error_here(ArgumentError, f"{name} is {meaning}, not {value!r}")
    return options
