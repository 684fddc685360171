"""The parameters of a kernel that was compiled once, for arguments with some properties."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from iris.errors import ArgumentError
from iris.frontend.function import Parameter
from iris.frontend.specs import ArraySpec, ScalarSpec, Spec
from iris.frontend.tracing import Vocabulary, error_here
from iris.frontend.vocabulary import IRIS


class FixedParameters:
    """Parameters, each with the facts that the compiler relied on; constexprs are gone."""

    def __init__(self, name: str, specs: Mapping[str, Spec]):
        self.name = name
        self.specs = specs
        self.parameters = tuple([Parameter(name, False, inspect.Parameter.empty) for name in specs])
        self.names = self.variables = tuple(specs)
        self.constants: tuple[str, ...] = ()
        self.vocabulary: Vocabulary = IRIS

    def check(self, given: Mapping[str, Spec], passed: Mapping[str, Any]) -> None:
        """Refuse arguments that lack a fact."""
        for name, spec in self.specs.items():
            lacking = _lacking(spec, given[name], passed.get(name))
            if lacking is not None:
                raise error_here(
                    ArgumentError,
                    f"the kernel {self.name} is compiled for other arguments: {name} {lacking}",
                )


def _lacking(needed: Spec, given: Spec, value: Any) -> str | None:
    """The property that a kernel was compiled for and an argument lacks, or None."""
    if isinstance(needed, ScalarSpec):
        if not isinstance(given, ScalarSpec) or given.type is not needed.type:
            return f"must be a number of {needed.type}"
        if needed.is_one and not given.is_one:
            return "must be 1"
        # A float is divided by nothing but 1.
        return _divisible(value, needed.divisor, "") if needed.divisor != 1 else None
    if not isinstance(given, ArraySpec):
        return f"must be an array of {needed.dtype}"
    if (given.dtype, given.rank) != (needed.dtype, needed.rank):
        return f"must have the dtype {needed.dtype} and {needed.rank} axes"
    if needed.noalias and not given.noalias:
        return "must share no memory with other arguments"
    if needed.aligned and not given.aligned:
        return "must start at a multiple of 16 bytes"
    if needed.rows_are_dense and not given.rows_are_dense:
        return "must have rows without gaps"
    pairs = enumerate(zip(given.divisors, needed.divisors, strict=True))
    whys = [_divisible(has, needs, f"axis {axis} of size ") for axis, (has, needs) in pairs]
    return next((why for why in whys if why is not None), None)


def _divisible(has: int, needs: int, what: str) -> str | None:
    return None if has % needs == 0 else f"must be {what}divisible by {needs}"
