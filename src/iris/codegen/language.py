"""What a C-like language for kernels must say of itself for the emitter to write it: a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iris.ir.core import Op
from iris.ir.kinds import AtomicKind
from iris.ir.metal import Scope
from iris.ir.types import DType


@dataclass(frozen=True)
class Intrinsic:
    """A function of the language that computes an op.  `wide`: for floats under 32 bits it is
    computed in 32 and rounded."""

    name: str
    fast: str  # what it is called where near is good enough
    wide: bool = True


@dataclass(frozen=True)
class Helper:
    """A function that the text defines if it uses it."""

    name: str
    parameters: int
    text: str


@dataclass(frozen=True)
class Position:
    """What a thread is told of where it is."""

    declaration: str  # has {name}
    type: str


@dataclass(frozen=True)
class Language:
    name: str
    version: tuple[int, int]
    fence_version: tuple[int, int]  # the first that has fences, and memory that is coherent
    prologue: str
    exact_pragma: str  # what forbids contracting `a * b + c`; left out where near is good enough
    types: Mapping[DType, str]
    memory_types: Mapping[DType, str]  # of an element in memory, where that differs
    word: str  # the type of 32 bits, of which there are vectors for more elements than four
    unsigned: Mapping[str, str]  # the unsigned integer type of a signed one's width
    # The text of bits, the type that it has there, and how tightly it binds.
    literal: Callable[[int, DType], tuple[str, str, int]]
    device: str
    coherent: str  # the same, of what other threadgroups are to see before the kernel ends
    shared: str  # the qualifier of the threadgroup's memory
    matrix: str  # the type of a fragment, an 8x8 matrix; has {type}
    filled: str  # such a matrix of one number; has {type} and {number}
    pair: str  # the two elements that a lane holds of a matrix; has {matrix}
    multiply: str  # the function that adds a product to a matrix: of where to, factors, and what
    unroll: str  # what stands before a loop that must not stay one
    kernel: str  # what stands before the name of a kernel; has {threads}
    array: str  # the parameter of an array; has {device}, {type}, {name} and {index}
    constants: str  # the parameter that has the scalar arguments; has {index}
    constants_name: str
    report: str  # the parameter of the report; has {name} and {index}
    positions: Mapping[str, Position]
    bitcast: str
    intrinsics: Mapping[type[Op], Intrinsic]
    helpers: Mapping[str, Helper]
    barriers: Mapping[Scope, str]
    fence: str
    atomics: Mapping[AtomicKind, str]
    keywords: frozenset[str]  # which nothing may be called
    functions: frozenset[str]  # which a variable would hide

    def versions(self, most: tuple[int, int]) -> str:
        """Which versions kernels need, of a device that takes them up to one."""
        base, fences = (".".join(map(str, v)) for v in (self.version, self.fence_version))
        refused = "" if most >= self.fence_version else ", which it does not take"
        return f"{self.name} {base}, and {fences} for kernels with fences{refused}"
