"""Distributed layouts: which hardware location holds which element of a tile.

A `LinearLayout` maps a location (a register of a lane of a simdgroup) to a tensor index. It is
linear over F2: the image of a location is the xor of the images of its bits, so the images of the
powers of two say everything. Text and value are the same thing:

    linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)], simdgroup=[]>

Inside, an index is one integer, its row-major element number. Sizes are powers of two, so that
number is the concatenation of the coordinates' bits, and xor of numbers is xor of coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from iris.errors import LayoutError

REGISTER, LANE, SIMDGROUP = HARDWARE = ("register", "lane", "simdgroup")

Coordinate: TypeAlias = tuple[int, ...]
Bases: TypeAlias = tuple[tuple[str, tuple[Coordinate, ...]], ...]
# The same with element numbers for coordinates.
Inputs: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class Span:
    """The span of some vectors over F2, each vector an integer; knows how it combined them.

    >>> span = Span([0b011, 0b110])
    >>> span.combination(0b101)  # the first vector xor the second
    3
    """

    __slots__ = ("_pivots", "count", "relations")

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._pivots: dict[int, tuple[int, int]] = {}  # leading bit -> vector, its combination
        self.count = 0
        self.relations: list[int] = []  # combinations that give 0, one per dependent vector
        for vector in vectors:
            self.add(vector)

    @property
    def rank(self) -> int:
        return len(self._pivots)

    def reduce(self, vector: int) -> tuple[int, int]:
        """`(rest, c)`: vector == rest ^ (the vectors in c); rest is 0 for one in the span."""
        combination = 0
        while vector and (pivot := self._pivots.get(vector.bit_length())):
            vector ^= pivot[0]
            combination ^= pivot[1]
        return vector, combination

    def add(self, vector: int) -> bool:
        """Append a vector; true if it was independent of the earlier ones."""
        rest, combination = self.reduce(vector)
        combination ^= 1 << self.count
        self.count += 1
        if rest:
            self._pivots[rest.bit_length()] = rest, combination
        else:
            self.relations.append(combination)
        return bool(rest)

    def combination(self, vector: int) -> int | None:
        """Which of the vectors, as a bit mask, xor to this one; None if it is outside the span.

        Only vectors that were independent of the earlier ones take part.
        """
        rest, combination = self.reduce(vector)
        return None if rest else combination


def log2(size: int) -> int:
    """The exponent of a power of two: log2(8) == 3."""
    if size < 1 or size & (size - 1):
        raise LayoutError(f"sizes must be powers of two, got {size}; pad to the next one")
    return size.bit_length() - 1


def _strides(shape: Coordinate) -> list[int]:
    """By how much a step along each axis raises the row-major element number."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _column(dim: str, image: Coordinate, shape: Coordinate) -> int:
    """The row-major element number of the coordinate that a bit contributes."""
    if not isinstance(image, tuple) or len(image) != len(shape):
        raise LayoutError(f"basis {image} of {dim!r} must be a tuple of {len(shape)} coordinates")
    column = 0
    for c, size in zip(image, shape, strict=True):
        if not 0 <= c < size:
            raise LayoutError(f"basis {image} of {dim!r} is outside the shape {shape}")
        column = column * size + c
    return column


def _unpack(flat: Any, shape: Coordinate) -> tuple[Any, ...]:
    """The coordinates of a row-major element number (an int, or an array of them)."""
    coordinate = []
    for size in reversed(shape):
        coordinate.append(flat & (size - 1))
        flat = flat >> size.bit_length() - 1
    return tuple(reversed(coordinate))


@dataclass(frozen=True, slots=True, repr=False, init=False)
class LinearLayout:
    """A linear map over F2 from a named location to an index of a tensor of shape `shape`.

    It is made of `bases`: per input dimension and input bit, the coordinate that bit contributes.

    >>> str(LinearLayout.of((4, 2), register=[(0, 1)], lane=[(1, 0), (2, 0)]))
    'linear<4x2, register=[(0,1)], lane=[(1,0), (2,0)]>'
    """

    inputs: Inputs
    shape: Coordinate
    _hash: int = field(compare=False)

    def __init__(self, bases: Bases, shape: Coordinate) -> None:
        dims = tuple([dim for dim, _ in bases])
        if len(set(dims)) != len(dims):
            raise LayoutError(f"an input dimension is named twice in {dims}")
        self._set(
            tuple(
                [(dim, tuple([_column(dim, i, shape) for i in images])) for dim, images in bases]
            ),
            shape,
        )

    def _set(self, inputs: Inputs, shape: Coordinate) -> None:
        if not shape or not inputs:
            raise LayoutError("a layout needs at least one input and one output dimension")
        for size in shape:
            log2(size)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "_hash", hash((inputs, shape)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[LinearLayout], tuple[Bases, Coordinate]]:
        return LinearLayout, (self.bases, self.shape)  # hashes differ between processes

    def __str__(self) -> str:
        def text(image: Coordinate) -> str:
            return f"({','.join(map(str, image))})" if len(image) > 1 else str(image[0])

        dims = (f"{dim}=[{', '.join(map(text, images))}]" for dim, images in self.bases)
        return f"linear<{'x'.join(map(str, self.shape))}, {', '.join(dims)}>"

    __repr__ = __str__

    # Construction

    @classmethod
    def of(cls, shape: Sequence[int], **bases: Sequence[int | Sequence[int]]) -> LinearLayout:
        """From lists, with bare ints for one output dimension: `of((8,), lane=[1, 2, 4])`."""
        return cls(
            tuple(
                (dim, tuple((b,) if isinstance(b, int) else tuple(b) for b in images))
                for dim, images in bases.items()
            ),
            tuple(shape),
        )

    @classmethod
    def of_inputs(
        cls, inputs: Iterable[tuple[str, Iterable[int]]], shape: Coordinate
    ) -> LinearLayout:
        """From the element numbers that each input dimension's bits contribute, all of them below
        the number of elements."""
        made = object.__new__(cls)
        made._set(tuple([(dim, tuple(columns)) for dim, columns in inputs]), shape)
        return made

    @classmethod
    def identity(cls, dim: str, size: int, *, axis: int = 0, rank: int = 1) -> LinearLayout:
        """x -> (0, .., x, .., 0) with x at `axis`; the other sizes are 1."""
        if not 0 <= axis < rank:
            raise LayoutError(f"axis {axis} is outside rank {rank}")
        shape = tuple(size if a == axis else 1 for a in range(rank))
        return cls.of_inputs([(dim, [1 << bit for bit in range(log2(size))])], shape)

    @classmethod
    def blocked(
        cls,
        shape: Sequence[int],
        *,
        per_thread: Sequence[int],
        lanes: Sequence[int],
        simdgroups: Sequence[int],
        order: Sequence[int] | None = None,
    ) -> LinearLayout:
        """A block of registers per lane, of lanes per simdgroup, of simdgroups; repeated to fill.

        Along each axis, with r, l, s the axis' digits of register, lane and simdgroup, e the digit
        of the repetition, and p <= the axis' size the registers of a block:

            coordinate = (r + p * (l + lanes * (s + simdgroups * e))) mod shape

        `order` lists the axes fastest first (last axis first unless given), for the digits of each
        dimension. Lanes and simdgroups that the tile has no room for are replicas (zero bases);
        a register that would be one is left out; a tile too large for the block takes registers.

        >>> str(LinearLayout.blocked((4, 8), per_thread=(1, 2), lanes=(2, 4), simdgroups=(1, 1)))
        'linear<4x8, register=[(0,1), (2,0)], lane=[(0,2), (0,4), (1,0)], simdgroup=[]>'
        """
        rank, axes = len(shape), tuple(reversed(range(len(shape)))) if order is None else order
        if sorted(axes) != list(range(rank)) or any(
            len(counts) != rank for counts in (per_thread, lanes, simdgroups)
        ):
            raise LayoutError(
                f"a blocked layout of rank {rank} needs {rank} sizes per dimension and an order of "
                f"all axes, got {per_thread}, {lanes}, {simdgroups} and order {order}"
            )
        shape = tuple(shape)
        strides = _strides(shape)
        used = [0] * rank  # bits of each axis that are placed already

        def place(counts: Sequence[int]) -> list[int]:
            columns = []
            for axis in axes:
                for _ in range(log2(counts[axis])):
                    step = (1 << used[axis]) % shape[axis]  # 0 when the axis is full
                    columns.append(step * strides[axis])
                    used[axis] += 1
            return columns

        registers = place([min(p, size) for p, size in zip(per_thread, shape, strict=True)])
        lane, simdgroup = place(lanes), place(simdgroups)
        registers += place([max(size >> u, 1) for size, u in zip(shape, used, strict=True)])
        return cls.of_inputs(zip(HARDWARE, (registers, lane, simdgroup), strict=True), shape)

    # Queries

    @property
    def bases(self) -> Bases:
        return _bases(self)

    @property
    def columns(self) -> tuple[int, ...]:
        """The element numbers that all input bits contribute."""
        return tuple([column for _, columns in self.inputs for column in columns])

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple([dim for dim, _ in self.inputs])

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def sizes(self) -> Coordinate:
        """The number of locations along each input dimension."""
        return tuple([1 << len(columns) for _, columns in self.inputs])

    @property
    def num_elements(self) -> int:
        return prod(self.shape)

    def images(self, dim: str) -> tuple[Coordinate, ...]:
        """The coordinates that a dimension's bits contribute."""
        for name, images in self.bases:
            if name == dim:
                return images
        return ()

    def bits(self, dim: str) -> int:
        """The number of input bits of a dimension; 0 if the layout does not mention it."""
        return len(self.columns_of(dim))

    def size(self, dim: str) -> int:
        return 1 << self.bits(dim)

    def columns_of(self, dim: str) -> tuple[int, ...]:
        """The element numbers that a dimension's bits contribute."""
        for name, columns in self.inputs:
            if name == dim:
                return columns
        return ()

    @property
    def is_surjective(self) -> bool:
        """Every element is held somewhere."""
        return 1 << Span(self.columns).rank == self.num_elements

    @property
    def is_injective(self) -> bool:
        """No element is held twice."""
        return Span(self.columns).rank == len(self.columns)

    @property
    def is_invertible(self) -> bool:
        return self.is_injective and self.is_surjective

    def split(self, location: int) -> tuple[int, ...]:
        """One number per dimension from a mask over all input bits, first dimension lowest."""
        return tuple(reversed(_unpack(location, tuple(reversed(self.sizes)))))

    def kernel(self) -> tuple[tuple[int, ...], ...]:
        """A basis of the locations (in the order of `dims`) that map to 0: the replication.

        apply(x ^ k) == apply(x) for each k in its span, and for no other k.
        """
        return tuple(self.split(mask) for mask in Span(self.columns).relations)

    def free_bits(self) -> dict[str, int]:
        """Per dimension, the mask of the input bits that depend on earlier ones, in order of dims.

        Each element that is held at all is held at exactly one location with those bits 0, so
        that is where effects run.

        >>> LinearLayout.of((2,), register=[1], lane=[0, 1]).free_bits()
        {'register': 0, 'lane': 3}
        """
        mask = 0
        for relation in Span(self.columns).relations:
            mask |= 1 << (relation.bit_length() - 1)  # the dependent vector is the last of its sum
        return dict(zip(self.dims, self.split(mask), strict=True))

    # The map itself

    def apply(self, **location: int | npt.NDArray[Any]) -> tuple[Any, ...]:
        """The coordinates held at a location: ints, or arrays that broadcast together.

        A dimension of size 1 may be left out.

        >>> APPLE_FRAGMENT.apply(register=1, lane=16)
        (4, 1)
        """
        if unknown := location.keys() - set(self.dims):
            raise LayoutError(f"no input dimension {sorted(unknown)} in {self}")
        flat: Any = 0
        for (dim, columns), size in zip(self.inputs, self.sizes, strict=True):
            if dim not in location and size > 1:
                raise LayoutError(f"apply needs {dim}=, a number below {size}")
            x: Any = location.get(dim, 0)
            if not isinstance(x, int):
                x = np.asarray(x)
                if x.dtype.kind not in "iu":
                    raise LayoutError(f"{dim}= must be integers, got {x.dtype}")
                x = x.astype(np.int64)
            if not np.all((x >= 0) & (x < size)):
                raise LayoutError(f"{dim}={x} is outside 0..{size - 1}")
            flat = flat ^ (x & 0)  # an array of one location stays an array
            for bit, column in enumerate(columns):
                flat = flat ^ ((x >> bit & 1) * column)
        return _unpack(flat, self.shape)

    def table(self) -> npt.NDArray[np.int64]:
        """The row-major number of the element at every location, indexed in the order of `dims`."""
        table = np.zeros(1, np.int64)
        for column in self.columns:
            table = np.concatenate([table, table ^ column])
        return table.reshape(self.sizes, order="F")

    # Algebra

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """The direct product: a tile of copies of self, arranged by other.

        Per dimension of input, x = low + size(self) * high; per dimension of output,
        (self * other)(x) == self(low) + self.shape * other(high). Both need the same rank.

        >>> str(LinearLayout.identity("register", 2) * LinearLayout.identity("lane", 4))
        'linear<8, register=[1], lane=[2, 4]>'
        """
        if self.rank != other.rank:
            raise LayoutError(f"a product needs equal ranks, got {self} and {other}")
        shape = tuple(a * b for a, b in zip(self.shape, other.shape, strict=True))
        mine, others = dict(self.bases), dict(other.bases)
        bases = []
        for dim in dict.fromkeys(self.dims + other.dims):
            scaled = (
                tuple(c * size for c, size in zip(image, self.shape, strict=True))
                for image in others.get(dim, ())
            )
            bases.append((dim, mine.get(dim, ()) + tuple(scaled)))
        return LinearLayout(tuple(bases), shape)

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """self after inner: inner's output coordinates are self's inputs, in the order of `dims`.

        self.compose(inner)(x) == self(*inner(x)); raises if some inner(x) is no location of self.
        """
        if inner.rank != len(self.inputs):
            raise LayoutError(f"cannot compose: {inner} does not give the inputs of {self}")

        def image(location: Coordinate) -> int:
            flat = 0
            for dim, x in zip(self.dims, location, strict=True):
                if x >= self.size(dim):
                    raise LayoutError(f"cannot compose: {dim}={x} is outside {self}")
                for bit, column in enumerate(self.columns_of(dim)):
                    flat ^= (x >> bit & 1) * column
            return flat

        dims = ((dim, [image(location) for location in images]) for dim, images in inner.bases)
        return LinearLayout.of_inputs(dims, self.shape)

    def right_inverse(self) -> LinearLayout:
        """From an element (inputs dim0, dim1, ..) to the one location with the free bits 0.

        self.compose(self.right_inverse()) is the identity; raises if an element is held nowhere.
        """
        span, shape = Span(self.columns), self.sizes
        if 1 << span.rank != self.num_elements:
            raise LayoutError(f"{self} does not hold every element, so it has no right inverse")
        bases, low = [], len(bin(self.num_elements)) - 3
        for axis, size in enumerate(self.shape):
            low -= log2(size)
            locations = (span.combination(1 << low + bit) or 0 for bit in range(log2(size)))
            bases.append((f"dim{axis}", tuple(self.split(location) for location in locations)))
        return LinearLayout(tuple(bases), shape)

    def invert(self) -> LinearLayout:
        """The inverse, both ways; raises unless every element is held exactly once."""
        if not self.is_injective:
            raise LayoutError(f"{self} holds an element twice; use right_inverse() to choose one")
        return self.right_inverse()

    # Shape changes: each keeps the value where it is and renames the elements

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """The same row-major element number at every location, read as an index of `shape`."""
        if prod(shape) != self.num_elements:
            raise LayoutError(f"cannot reshape {self.shape} to {tuple(shape)}: sizes differ")
        return LinearLayout.of_inputs(self.inputs, tuple(shape))

    def transpose(self, perm: Sequence[int]) -> LinearLayout:
        """result(x)[i] == self(x)[perm[i]], as in NumPy."""
        if sorted(perm) != list(range(self.rank)):
            raise LayoutError(f"{tuple(perm)} is no permutation of the {self.rank} axes")
        return self._select(perm, tuple([self.shape[a] for a in perm]))

    def slice(self, axis: int) -> LinearLayout:
        """Drop a coordinate: the layout of a value that is the same all along that axis.

        result(x) == self(x) without coordinate `axis`.
        """
        self._check_axis(axis, self.rank)
        if self.rank == 1:
            raise LayoutError(f"cannot drop the only axis of {self}")
        axes = [a for a in range(self.rank) if a != axis]
        return self._select(axes, tuple([self.shape[a] for a in axes]))

    def expand(self, axis: int) -> LinearLayout:
        """Insert an axis of size 1: result(x)[axis] == 0, the others as before."""
        self._check_axis(axis, self.rank + 1)
        return self.reshape((*self.shape[:axis], 1, *self.shape[axis:]))

    def broadcast(self, shape: Sequence[int]) -> LinearLayout:
        """Grow axes of size 1; the new elements go to new registers, so that no value moves.

        With the new register r + size("register") * k, and k counting the grown axes in row-major
        order, the coordinates are self(r, ..), and k's digits along the grown axes.

        >>> str(LinearLayout.of((4, 1), lane=[(1, 0), (2, 0)]).broadcast((4, 2)))
        'linear<4x2, register=[(0,1)], lane=[(1,0), (2,0)]>'
        """
        if len(shape) != self.rank or not all(
            old in (1, new) for old, new in zip(self.shape, shape, strict=True)
        ):
            raise LayoutError(f"cannot broadcast {self.shape} to {tuple(shape)}")
        copies = LinearLayout.of([1] * self.rank, register=[])
        for axis in reversed(range(self.rank)):
            copies *= LinearLayout.identity(
                REGISTER, shape[axis] // self.shape[axis], axis=axis, rank=self.rank
            )
        first = LinearLayout.of([1] * self.rank, register=[])
        return (self if REGISTER in self.dims else first * self) * copies

    def restrict(self, shape: tuple[int, ...]) -> LinearLayout:
        """Set to 0 the coordinates along the axes of size 1 of a shape, which has the other sizes
        as they are.

        >>> str(LinearLayout.of((2, 4), register=[(1, 1)], lane=[(0, 2)]).restrict((2, 1)))
        'linear<2x1, register=[(1,0)], lane=[(0,0)]>'
        """
        return self._select(range(self.rank), shape)

    def _select(self, axes: Sequence[int], shape: tuple[int, ...]) -> LinearLayout:
        """Take as coordinates of a new index, modulo its sizes, those along some axes."""
        steps = _strides(self.shape)
        taken = [
            (steps[axis], size - 1, step)
            for axis, size, step in zip(axes, shape, _strides(shape), strict=True)
        ]
        inputs = [
            (dim, [sum([(c // old & mask) * new for old, mask, new in taken]) for c in columns])
            for dim, columns in self.inputs
        ]
        return LinearLayout.of_inputs(inputs, shape)

    def _check_axis(self, axis: int, rank: int) -> None:
        if not 0 <= axis < rank:
            raise LayoutError(f"axis {axis} is outside 0..{rank - 1} for {self}")


@lru_cache(maxsize=4096)
def _bases(layout: LinearLayout) -> Bases:
    shape = layout.shape
    return tuple([(dim, tuple([_unpack(c, shape) for c in cs])) for dim, cs in layout.inputs])


def check_hardware(layout: LinearLayout) -> None:
    """Raise unless the inputs are register, lane and simdgroup, in that order."""
    if layout.dims != HARDWARE:
        raise LayoutError(f"needs the inputs {', '.join(HARDWARE)} in that order, got {layout}")


# The 8x8 simdgroup matrix: row = 4*b4 + 2*b2 + b1, column = 4*b3 + 2*b0 + register, with lane bits
# b4..b0. The Metal specification leaves it open; `iris doctor` checks it on a real device.
#: The row, of which fragment, that each lane says the place of where fragments are loaded by rows:
#: as NVIDIA's hardware takes them, if its lanes are numbered as Apple's fragments want it.
FRAGMENT_ROWS = LinearLayout.of(
    (4, 8), register=[], lane=[(0, 1), (0, 4), (1, 0), (0, 2), (2, 0)], simdgroup=[]
)
APPLE_FRAGMENT = LinearLayout.of(
    (8, 8), register=[(0, 1)], lane=[(0, 2), (1, 0), (2, 0), (0, 4), (4, 0)], simdgroup=[]
)
# Two by two of these, whose columns are in pairs by turns.  [MLX 0.32.4: BaseNAXFrag]
TENSOR_FRAGMENT = LinearLayout.of(
    (16, 16),
    register=[(0, 1), (0, 2), (8, 0)],
    lane=[(0, 4), (1, 0), (2, 0), (0, 8), (4, 0)],
    simdgroup=[],
)
