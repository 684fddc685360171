"""Layouts of the matrices of a product, built of the fragments that the hardware multiplies.

A fragment is 8x8; each lane holds two neighbours in a row.  A simdgroup has a grid of fragments,
in its registers one after the other; simdgroups have blocks of rows and of columns.  Which columns
of a matrix make a fragment is free, if they are the same in the right operand and the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from iris.errors import PipelineError
from iris.ir import tile
from iris.ir.control import Yield, names_of
from iris.ir.core import Value
from iris.ir.layout.linear import APPLE_FRAGMENT, LANE, REGISTER, SIMDGROUP, LinearLayout, log2
from iris.ir.math import Elementwise, element_type
from iris.ir.metal import FRAGMENT_SIZE, TENSOR_PRODUCT, VECTOR_BYTES
from iris.ir.types import Tile
from iris.targets import Target
from iris.targets.target import Matrices

TENSOR_BLOCK = TENSOR_PRODUCT[:2]  # the least result of tensors


@dataclass(frozen=True)
class Arrangement:
    """How simdgroups share the result of a product: blocks of rows and columns, and copies.

    A lane holds neighbouring columns of `together` fragments, so that one access moves them:

        fragment       0   1   0   1   0   1   0   1        for two of them
        lane           0   0   1   1   2   2   3   3
        columns        0,1 2,3 4,5 6,7 8,9 ...

    Fragments of the right operand may be `transposed`: a lane has two neighbours in a column.  If
    several along the `depth` are multiplied at once, they are together in the registers, as
    `metal.mma` wants it.

    With `tensors` four fragments are one of 16x16, in all three matrices (`TENSOR_FRAGMENT`).
    """

    rows: int
    columns: int
    copies: int
    together: int = 1
    transposed: bool = False
    depth: int = 1
    tensors: bool = False

    def result(self, shape: tuple[int, ...]) -> LinearLayout:
        return _grid(self, shape, (1, 0), (0, 1), self.together)

    def left(self, shape: tuple[int, ...]) -> LinearLayout:
        """The layout of the left operand: all columns of a block's rows."""
        together = self.together if self.tensors else 1
        return _grid(self, shape, (0, 1), (0,), together, lead=2, depth=self.depth)

    def right(self, shape: tuple[int, ...]) -> LinearLayout:
        """The layout of the right operand: all rows of a block's columns."""
        together, transposed = self.together, self.transposed
        return _grid(self, shape, (1, 0), (1,), together, depth=self.depth, transposed=transposed)

    @staticmethod
    def of(result: LinearLayout, *, tensors: bool = False) -> Arrangement | None:
        """The arrangement that gives a result this layout, if any; of `tensors` if allowed."""
        if result.rank != 2 or min(result.shape) < FRAGMENT_SIZE:
            return None
        counts = [1, 1, 1]
        for image in result.images(SIMDGROUP):
            counts[0 if image[0] else 1 if image[1] else 2] *= 2
        width = result.shape[1] // counts[1]
        if result.shape[0] // counts[0] < FRAGMENT_SIZE or width < FRAGMENT_SIZE:
            return None
        # The columns of the second lane follow those of the first.
        together = max(1, result.images(LANE)[0][1] // 2)
        if together > width // FRAGMENT_SIZE:
            return None
        candidates = [Arrangement(counts[0], counts[1], counts[2], together)]
        height = result.shape[0] // counts[0]
        if tensors and height >= TENSOR_BLOCK[0] and width >= TENSOR_BLOCK[1]:
            candidates.append(candidates[0].of_tensors())
        return next((c for c in candidates if c.result(result.shape) == result), None)

    def of_tensors(self) -> Arrangement:
        return replace(self, together=2, depth=2, tensors=True)


@lru_cache(maxsize=4096)
def _grid(
    arrangement: Arrangement,
    shape: tuple[int, ...],
    order: tuple[int, int],
    split: tuple[int, ...],
    together: int,
    *,
    lead: int = 1,
    depth: int = 1,
    transposed: bool = False,
) -> LinearLayout:
    """The layout of a matrix.

    Its fragments go along the first axis of `order` first: but `lead` of them, then `depth` along
    the other axis, then the rest.  `split` are the axes along which simdgroups have blocks of it.
    """

    def steps(axis: int, start: int, end: int) -> list[tuple[int, int]]:
        sizes = [start << bit for bit in range(log2(end) - log2(start))]
        return [(s, 0) if axis == 0 else (0, s) for s in sizes]

    counts = arrangement.rows, arrangement.columns
    size = [n // counts[axis] if axis in split else n for axis, n in enumerate(shape)]
    fragments = [
        steps(0, FRAGMENT_SIZE, size[0]),
        steps(1, 2, 2 * together) + steps(1, FRAGMENT_SIZE * together, size[1]),
    ]
    first, second = fragments[order[0]], fragments[order[1]]
    a, b = log2(lead), log2(depth)
    register = [*first[:a], *second[:b], *first[a:], *second[b:]]
    if arrangement.tensors:
        rows, columns = fragments
        square = columns[0], rows[0]
        register = [*square, *[step for step in (*first, *second) if step not in square]]
    simdgroup: list[tuple[int, int]] = []
    for axis, count in enumerate(counts):
        if axis in split:
            simdgroup += steps(axis, size[axis], shape[axis])
        else:
            simdgroup += [(0, 0)] * log2(count)
    simdgroup += [(0, 0)] * log2(arrangement.copies)
    images = [*APPLE_FRAGMENT.images(REGISTER), *APPLE_FRAGMENT.images(LANE)]
    if transposed:
        images = [(row, column) for column, row in images]
    # Neighbours are two columns of a fragment.
    pair, *lane = [(row, column if column < 2 else together * column) for row, column in images]
    return LinearLayout.of(shape, register=[pair, *register], lane=lane, simdgroup=simdgroup)


def is_of_fragments(op: tile.Dot, target: Target) -> bool:
    """Whether the matrix hardware can compute a product: of floats, and at least 8x8."""
    is_float = tile.matrix_type(op.a).element.is_float
    return is_float and is_large(op) and matrices_of(op, target).multiplies


def is_large(op: tile.Dot) -> bool:
    """Whether the operands of a product are two matrices, 8x8 at least."""
    a, b = tile.matrix_type(op.a), tile.matrix_type(op.b)
    return len(a.shape) == 2 and min(*a.shape, *b.shape) >= FRAGMENT_SIZE


def is_divided(op: tile.Dot) -> bool:
    """Whether simdgroups share the result of a product in blocks."""
    shape = element_type(op.result.type).shape
    return len(shape) == 2 and min(shape) >= FRAGMENT_SIZE


def accumulated(op: tile.Dot) -> Value:
    """The accumulator of a product."""
    if op.acc is None:
        raise PipelineError(f"{op.result!r} is added to nothing; run assign-layouts before")
    return op.acc


def matrices_of(op: tile.Dot, target: Target) -> Matrices:
    """How the hardware multiplies the operands of a product."""
    return target.matrices[tile.matrix_type(op.a).element.bits]


def arrange(op: tile.Dot, simdgroups: int, target: Target) -> Arrangement:
    """Choose blocks, and the columns of a lane.

    Neighbouring columns of fragments go to one lane as far as one access of the right operand
    reaches, unless rows are loaded whole; and not for a left operand: its columns must be in the
    order of the other's rows.
    """
    tensors = blocks_of_tensors(op, simdgroups, target)
    if tensors is not None and tensors.copies == 1:
        return tensors
    blocks, matrices = choose_blocks(op, simdgroups), matrices_of(op, target)
    _, columns = element_type(op.result.type).shape
    is_left, _ = _uses_of_rows(op.result)
    reach = VECTOR_BYTES // (2 * tile.matrix_type(op.b).element.bytes)
    if is_left or matrices.loads_rows:
        reach = 1
    together = min(reach, columns // blocks.columns // FRAGMENT_SIZE)
    return for_target(replace(blocks, together=together), op, target)


def for_target(arrangement: Arrangement, op: tile.Dot, target: Target) -> Arrangement:
    """The arrangement, with fragments of the operands as the hardware takes them."""
    if arrangement.tensors:
        return arrangement
    matrices = matrices_of(op, target)
    depth = min(matrices.depth, tile.matrix_type(op.a).shape[1] // FRAGMENT_SIZE)
    return replace(arrangement, transposed=matrices.transposed, depth=depth)


def is_of_tensors(op: tile.Dot, target: Target) -> bool:
    """Whether the hardware can multiply the operands of a product as tensors."""
    if not (is_of_fragments(op, target) and matrices_of(op, target).tensors):
        return False
    (rows, depth), (_, columns) = (tile.matrix_type(v).shape for v in (op.a, op.b))
    return rows >= TENSOR_BLOCK[0] and columns >= TENSOR_BLOCK[1] and depth >= 2 * FRAGMENT_SIZE


def blocks_of_tensors(op: tile.Dot, simdgroups: int, target: Target) -> Arrangement | None:
    """Choose blocks of whole tensors, if the hardware multiplies them so."""
    if not is_of_tensors(op, target):
        return None
    return choose_blocks(op, simdgroups, TENSOR_BLOCK).of_tensors()


def choose_blocks(
    op: tile.Dot, simdgroups: int, least: tuple[int, int] = (FRAGMENT_SIZE, FRAGMENT_SIZE)
) -> Arrangement:
    """Choose blocks that read the fewest rows and columns of the operands, of the least size.

    One simdgroup gets all columns of a row if rows are then reduced, or are the left operand of a
    product.
    """
    rows, columns = element_type(op.result.type).shape
    in_rows = any(_uses_of_rows(op.result)) or comes_from_product(op.a)
    return divide(rows, columns, simdgroups, in_rows=in_rows, least=least)


@lru_cache(maxsize=1024)
def divide(
    rows: int,
    columns: int,
    simdgroups: int,
    *,
    in_rows: bool,
    least: tuple[int, int] = (FRAGMENT_SIZE, FRAGMENT_SIZE),
) -> Arrangement:
    """Divide a result among simdgroups; `in_rows` gives each of them all columns of its rows."""
    best = Arrangement(1, 1, simdgroups)
    for down in _powers(min(simdgroups, rows // least[0])):
        across = 1 if in_rows else min(simdgroups // down, columns // least[1])
        candidate = Arrangement(down, across, simdgroups // (down * across))
        if _work_and_reads(candidate, rows, columns) < _work_and_reads(best, rows, columns):
            best = candidate
    return best


def _work_and_reads(candidate: Arrangement, rows: int, columns: int) -> tuple[int, int]:
    """The elements that a simdgroup computes, and the rows and columns that it reads."""
    height, width = rows // candidate.rows, columns // candidate.columns
    return height * width, height + width


def _powers(most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield power
        power *= 2


def comes_from_product(value: Value) -> bool:
    """Whether a tile is an elementwise function of a product of its shape."""
    seen: set[Value] = set()
    waiting = [value]
    shape = value.type.shape if isinstance(value.type, Tile) else None
    while waiting:
        x = waiting.pop()
        if x in seen or not isinstance(x.type, Tile) or x.type.shape != shape:
            continue
        seen.add(x)
        if isinstance(x.op, tile.Dot):
            return True
        if isinstance(x.op, Elementwise):
            waiting += x.op.operands
    return False


def _uses_of_rows(value: Value) -> tuple[bool, bool]:
    """Whether elementwise functions of a tile are left operands of products, and whether they are
    reduced along rows."""
    is_left = is_reduced = False
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        x = waiting.pop()
        if x in seen or not isinstance(x.type, Tile):
            continue
        seen.add(x)
        for user in x.users:
            if isinstance(user, tile.Reduce):
                is_reduced |= user.axis == 1
            elif isinstance(user, tile.Dot):
                is_left |= user.a is x
                if user.acc is x:
                    waiting.append(user.result)
            elif isinstance(user, Yield):
                waiting += _carried(user, x)
            elif isinstance(user, Elementwise):
                waiting += user.results
    return is_left, is_reduced


def _carried(end: Yield, value: Value) -> list[Value]:
    """The results and arguments that a yielded value becomes."""
    parent, region = end.parent_op, end.parent
    if parent is None or region is None or not parent.forwards(region):
        return []
    destinations = []
    for index, carried in enumerate(end.operands):
        if carried is value:
            destinations += names_of(parent, index)
    return destinations
