"""What a C-like language for kernels must say of itself for the emitter to write it: a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iris.ir.core import Op
from iris.ir.metal import Scope
from iris.ir.tile import AtomicKind
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
    """A function that the text defines if it uses it.  In the text `{T}` is the C type of an
    element, `{U}` the unsigned integer of its width, `{S}` the signed one."""

    name: str
    parameters: int
    text: str


@dataclass(frozen=True)
class Language:
    name: str
    prologue: str
    exact_pragma: str  # what forbids contracting `a * b + c`; left out where near is good enough
    types: Mapping[DType, str]
    memory_types: Mapping[DType, str]  # of an element in memory, where that differs
    unsigned: Mapping[str, str]  # the unsigned integer type of a signed one's width
    literal: Callable[[int, DType], tuple[str, int]]  # the text of bits, and its precedence
    device: str
    shared: str  # the qualifier of the threadgroup's memory
    kernel: str  # what stands before the name of a kernel; has {threads}
    buffer: str
    constants: str
    thread_positions: Mapping[str, str]  # the declaration of each, by its usual name
    bitcast: str
    unroll: str
    intrinsics: Mapping[type[Op], Intrinsic]
    helpers: Mapping[str, Helper]
    barriers: Mapping[Scope, str]
    atomics: Mapping[AtomicKind, str]
    reserved: frozenset[str]
