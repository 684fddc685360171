"""What a trace knows of its arguments: a kernel is compiled once for each of these."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from iris.ir.types import DType, Ptr

# Alignment to so many bytes is told from none, and of an integer which power of two up to this
# divides it.
ALIGNMENT = 16
_FLOATS = (float, np.float32, np.float16)  # whose bits a Python float holds


@dataclass(frozen=True)
class ArraySpec:
    """What a trace knows of an array."""

    dtype: DType
    rank: int
    noalias: bool = False
    aligned: bool = False  # it starts at a multiple of 16 bytes
    divisors: tuple[int, ...] = ()  # for each axis, the power of two up to 16 that divides its size
    rows_are_dense: bool = True  # elements are next to each other along the last axis
    encoding: str = ""  # what NumPy calls the dtype that its elements are codes of

    @property
    def type(self) -> Ptr:
        return Ptr(self.dtype, self.noalias, self.aligned)


@dataclass(frozen=True)
class ScalarSpec:
    """What a trace knows of a number."""

    type: DType
    divisor: int = 1  # divides it, if it is an integer
    is_one: bool = False  # it is the integer 1


Spec = ArraySpec | ScalarSpec


@dataclass(frozen=True, eq=False)
class TupleSpec:
    """What a trace knows of a tuple that holds arrays: its class, and for each item the name that
    it is passed under, or None and the item itself, a constant."""

    kind: type[tuple[Any, ...]]
    names: tuple[str | None, ...]
    constants: tuple[Any, ...]


class Composite:
    """An argument that is passed as a tuple is, though its owner may change it between launches."""

    def parts(self) -> tuple[Any, ...]:
        """The items of that tuple, as they are now."""
        raise NotImplementedError


def put_together(arguments: Mapping[str, Any], specs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with each tuple in the place of its items, which come after it in the specs."""
    whole = dict(arguments)
    for name in reversed([*specs]):
        spec = specs[name]
        if isinstance(spec, TupleSpec):
            items = zip(spec.names, spec.constants, strict=True)
            make = getattr(spec.kind, "_make", spec.kind)  # which a named tuple has
            whole[name] = make([x if n is None else whole.pop(n) for n, x in items])
    return whole


@dataclass(frozen=True)
class Threads:
    """What a trace knows of the threads of a launch."""

    size: tuple[int, int, int]  # of a threadgroup
    # The axes along which the last threadgroup may reach beyond the grid: how many threads there
    # are is an argument then.
    edges: tuple[int, ...] = ()

    @property
    def simdgroups(self) -> int:
        """How many run a threadgroup: a power of two, though some may have no threads."""
        return 1 << (-(-prod(self.size) // 32) - 1).bit_length()

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the arguments that say how many threads there are."""
        return tuple([f"threads_{'xyz'[axis]}" for axis in self.edges])


def exact_key(value: Any) -> Hashable:
    """A key that tells apart what `==` does not: 1, 1.0 and True, and 0.0 and -0.0; also as items
    of tuples and frozensets, and as fields of dataclasses."""
    kind = type(value)
    if kind is int:
        return kind, value
    if isinstance(value, _FLOATS):
        return kind, float(value).hex()
    if isinstance(value, tuple):
        return kind, *map(exact_key, value)
    if isinstance(value, frozenset):
        return kind, frozenset(map(exact_key, value))
    if is_dataclass(kind):
        return kind, value, *[exact_key(getattr(value, name)) for name in _hashed_fields(kind)]
    return kind, value


@cache
def _hashed_fields(kind: type[Any]) -> tuple[str, ...]:
    """The names of those fields of a dataclass that its hash is made of."""
    known = fields(kind)
    return tuple([f.name for f in known if (f.compare if f.hash is None else f.hash)])
