"""Matrices of 8x8 that a simdgroup holds together: each lane has two neighbours of a row."""

from __future__ import annotations

from iris.errors import ArgumentError, DTypeError, LanguageError, ShapeError
from iris.frontend.threads.edges import lacking
from iris.frontend.threads.memory import Elements
from iris.frontend.threads.positions import at_start, lane_id, threads_here
from iris.frontend.threads.types import as_type
from iris.frontend.threads.words import word
from iris.frontend.tracing import current, error_here, rules_as
from iris.frontend.values import Operand, Traced, as_index, cast, describe, emit, spread
from iris.ir import metal
from iris.ir.layout.linear import APPLE_FRAGMENT
from iris.ir.metal import FRAGMENT_LANES, SIMDGROUP_WIDTH

# For each bit of a lane's number, how many rows and columns further on its elements are.
_STEPS = list(
    zip(
        *[
            APPLE_FRAGMENT.apply(register=0, lane=1 << bit, simdgroup=0)
            for bit in range(SIMDGROUP_WIDTH.bit_length() - 1)
        ],
        strict=True,
    )
)


@word
def simdgroup_matrix(value: Operand = 0, dtype: object = "float") -> Traced:
    """A matrix with one value in each element; arithmetic goes element by element."""
    _check_all_lanes("simdgroup_matrix")
    return spread(cast(value, as_type(dtype).element), (FRAGMENT_LANES,))


@word
def simdgroup_load(memory: Elements, stride: Operand) -> Traced:
    """The matrix at an element, whose rows are `stride` elements apart."""
    _check_all_lanes("simdgroup_load")
    first = _first(memory, stride)
    parts = [memory[first + i] for i in range(FRAGMENT_LANES)]
    return emit(metal.join([part.value for part in parts]))


@word
def simdgroup_store(matrix: Traced, memory: Elements, stride: Operand) -> None:
    """Write a matrix, so that its rows are `stride` elements apart."""
    _check_all_lanes("simdgroup_store")
    first = _first(memory, stride)
    for i in range(FRAGMENT_LANES):
        memory[first + i] = _matrix(matrix)[i]


@word
def simdgroup_multiply_accumulate(a: Traced, b: Traced, c: Traced) -> Traced:
    """The product of two matrices, plus one of floats."""
    _check_all_lanes("simdgroup_multiply_accumulate")
    with rules_as(DTypeError):
        return emit(metal.Mma(*[_matrix(x).value for x in (a, b, c)]))


def _check_all_lanes(use: str) -> None:
    """Refuse matrices where simdgroups may lack threads that would hold parts of them."""
    threads = threads_here()
    if current().exists is not None:
        raise error_here(
            LanguageError,
            f"metal.{use} needs all threads of each simdgroup, but {lacking(threads)}",
        )


def _matrix(x: object) -> Traced:
    if not isinstance(x, Traced) or x.shape != (FRAGMENT_LANES,):
        raise error_here(ShapeError, f"a simdgroup's matrix goes here, not {describe(x)}")
    return x


def _first(memory: object, stride: Operand) -> Traced:
    """The number of the first element that a lane holds."""
    if not isinstance(memory, Elements):
        raise error_here(ArgumentError, f"a matrix lies in an array, not in {describe(memory)}")
    if memory.type.width > 1:
        raise error_here(DTypeError, f"matrices are of scalars, not of {memory.type.name}")
    row, column = [_coordinate(axis) for axis in range(2)]
    return row * as_index(stride) + column


@at_start
def _coordinate(axis: int) -> Traced:
    """The row or the column of the first element that a lane holds: bits of its number."""
    lane = lane_id()
    place = lane * 0
    for bit, step in enumerate(_STEPS[axis]):
        if step:
            place = place + (lane >> bit & 1) * step
    return place
