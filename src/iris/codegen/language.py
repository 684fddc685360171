"""What a C-like language for kernels must say of itself for the emitter to write it: a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from iris.codegen.tree import Number, Tree
from iris.ir.core import Op
from iris.ir.kinds import AtomicKind
from iris.ir.metal import Scope
from iris.ir.types import DType


@dataclass(frozen=True)
class Intrinsic:
    """A function of the language that computes an op."""

    name: str
    fast: str  # what it is called where near is good enough
    #: What it is called where its result is rounded to 16 bits, if that is another.  See
    #: `Target.coarse`.
    coarse: str | None = None


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
    type: DType


@dataclass(frozen=True, eq=False)
class Language:
    name: str
    version: tuple[int, int]
    fence_version: tuple[int, int]  # the first that has fences, and memory that is coherent
    prologue: str
    exact_pragma: str  # what forbids contracting `a * b + c`; left out where near is good enough
    # Types.
    types: Mapping[DType, str]
    vector: str  # of a few elements; has {type} and {lanes}
    packed: str  # such a vector, aligned as its element
    atomic: str  # an element that atomics touch; has {type}
    aligned: str  # what stands before memory that is read as vectors
    word: DType  # of 32 bits; vectors of it move more than four elements
    # The number of bits, and the type that it has there.
    literal: Callable[[int, DType], tuple[Number, DType]]
    lanes: Callable[[Tree, Sequence[int]], Tree]  # some of a vector
    bitcast: str  # has {type}
    # Memory.
    device: str
    volatile: str  # a type whose values are loaded again at each use; has {type}
    coherent: str  # the same, of what other threadgroups are to see before the kernel ends
    shared: str  # what stands before an array in the threadgroup's memory
    shared_pointer: str  # and before a pointer to it
    arena: str | None  # the one array of bytes that all of it is in, where it has to be
    # Matrices.
    matrix: str  # the type of a fragment, an 8x8 matrix; has {type}
    filled: str  # the function that makes such a matrix of one number; has {type}
    pair: str  # the function of the two elements that a lane holds of a matrix
    load_rows: str  # loads fragments to an address; has {count} and {transposed}; or nothing
    multiply: str  # the function that adds a product to a matrix: of where to, factors, and what
    multiplies_arrays: bool  # whether it does so for arrays of them: then it has {rows}, {columns}
    #: How kernels with matrices are written, where that is otherwise.
    of_matrices: Callable[[Language], Language]
    of_tensors: Callable[[Language], Language] | None  # the same with tensors, if it has them
    # How a kernel starts.
    #: What stands before the parameters of a kernel; has {threads}, {residents} and {name}.  None:
    #: whoever compiles the text writes that, and the first statements declare what would be
    #: parameters.
    kernel: str | None
    residents: str  # what says how many programs a core is to hold at once; has {count}
    array: str  # the parameter of an array; has {device}, {type}, {alone}, {name} and {index}
    alone: str  # what says of an array that is only read that no other pointer reaches it
    constants: str  # the parameter that has the scalar arguments; has {index}
    constants_name: str
    report: str  # the parameter of the report; has {name} and {index}
    grid: str | None  # the last parameter, of how many programs there are, if it takes one
    positions_are_parameters: bool  # else statements, the first of the kernel
    positions: Mapping[str, Position]
    # Functions.
    intrinsics: Mapping[type[Op], Intrinsic]
    narrowing: Mapping[DType, str]  # of integers, where that is not left to the type
    #: Functions that widen signed integers to 64 bits after they wrapped, where a cast does not.
    widening: Mapping[DType, str]
    fmod: str
    quotient: str  # of f32, where several have the divisor; or nothing
    absolute: str
    distance: str  # of two integers, unsigned
    greater: str  # of integers
    lesser: str
    select: str  # lane by lane; its arguments: if false, if true, condition
    add_saturated: str
    shuffle: str
    shuffle_xor: str
    broadcast: str
    inline: str  # what stands before a function of the text's own
    helpers: Mapping[str, Helper]
    combined_bits: Callable[[str, DType], str]  # `x operator y` of the bits of x and y
    # Statements, and what they do.
    copy: str  # begins a copy: to where, from where, whether; has {bytes}; or nothing
    wait_copies: str  # a call that waits for all but the {latest}
    unroll: str  # what stands before a loop that must not stay one
    barriers: Mapping[Scope, str]
    fence: str
    atomics: Mapping[AtomicKind, str]
    atomic_load: str
    compare_exchange: str
    #: The last argument of every atomic, if it takes one: nothing but the element is ordered.
    order: Sequence[Tree]
    # Names.
    keywords: frozenset[str]  # which nothing may be called
    functions: frozenset[str]  # which a variable would hide

    def versions(self, most: tuple[int, int]) -> str:
        """Which versions kernels need, of a device that takes them up to one."""
        base, fences = (".".join(map(str, v)) for v in (self.version, self.fence_version))
        refused = "" if most >= self.fence_version else ", which it does not take"
        return f"{self.name} {base}, and {fences} for kernels with fences{refused}"

    @cached_property
    def reserved(self) -> frozenset[str]:
        """What no variable may be called."""
        return self.keywords | self.functions

    def vector_of(self, dtype: DType, lanes: int) -> str:
        """The type of a vector."""
        return _vector(self.vector, self.types[dtype], lanes)


def joined(*words: str) -> str:
    """The words that are not empty."""
    return " ".join(filter(None, words))


def pointer_to(qualifier: str, element: str) -> str:
    """The type of a pointer to elements in the memory that a qualifier says."""
    return joined(qualifier, f"{element}*")


@lru_cache(maxsize=256)
def _vector(template: str, element: str, lanes: int) -> str:
    return template.format(type=element, lanes=lanes)
