"""CuTe's shape:stride layouts: functions from coordinates to offsets in memory.

A layout is a tree of sizes with a congruent tree of strides. Coordinates are colexicographic (the
leftmost mode runs fastest), so a layout is also a function of one linear index:

>>> tile = Layout((4, (2, 3)), (1, (8, 4)))
>>> str(tile)
'(4,(2,3)):(1,(8,4))'
>>> tile((3, (1, 2))), tile((3, 5)), tile(23)
(19, 19, 19)

Sizes are at least 1 and strides at least 0; both are plain integers. Outside its domain a layout
has no value: CuTe would extend the last mode, we raise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from iris.errors import LayoutError

IntTuple: TypeAlias = int | tuple["IntTuple", ...]


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """`shape:stride`, the function that sums coordinate x stride over the leaves of its tree.

    Without strides it is compact and column-major:

    >>> str(Layout((64, 32)))
    '(64,32):(1,64)'
    """

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: IntTuple, stride: IntTuple | None = None) -> None:
        shape = _checked(shape, 1, "size")
        stride = compact_strides(shape) if stride is None else _checked(stride, 0, "stride")
        if not _congruent(shape, stride):
            raise LayoutError(
                f"shape {format_tuple(shape)} and stride {format_tuple(stride)} do not nest alike"
            )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @classmethod
    def _of(cls, shape: IntTuple, stride: IntTuple) -> Layout:
        """A layout without the checks: the parts come from layouts that were checked."""
        made = object.__new__(cls)
        object.__setattr__(made, "shape", shape)
        object.__setattr__(made, "stride", stride)
        return made

    @classmethod
    def row_major(cls, shape: IntTuple) -> Layout:
        """The compact layout whose rightmost mode runs fastest.

        >>> str(Layout.row_major((64, 32)))
        '(64,32):(32,1)'
        """
        return cls(shape, _mirror(compact_strides(_mirror(shape))))

    @property
    def flat(self) -> tuple[tuple[int, int], ...]:
        """(size, stride) of each leaf, leftmost (fastest) first."""
        return tuple(zip(_leaves(self.shape), _leaves(self.stride), strict=True))

    def flatten(self) -> Layout:
        """The same function with its tree flattened to one level.

        >>> str(Layout((4, (2, 3))).flatten())
        '(4,2,3):(1,4,8)'
        """
        if isinstance(self.shape, int):
            return self
        return Layout._of(tuple(_leaves(self.shape)), tuple(_leaves(self.stride)))

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The top-level modes; a layout of a single integer is its own only mode."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            return (self,)
        return tuple(map(Layout._of, self.shape, self.stride))

    def __getitem__(self, mode: int) -> Layout:
        if not -self.rank <= mode < self.rank:
            raise LayoutError(f"{self} has {self.rank} modes, and no mode {mode}")
        return self.modes[mode]

    def __iter__(self) -> Iterator[Layout]:
        return iter(self.modes)

    @property
    def rank(self) -> int:
        """How many top-level modes there are."""
        return 1 if isinstance(self.shape, int) else len(self.shape)

    @property
    def depth(self) -> int:
        """How deeply the tree nests: 0 for an integer, 1 for a flat tuple."""
        return _depth(self.shape)

    @property
    def size(self) -> int:
        """How many coordinates there are: the domain is [0, size)."""
        return math.prod(_leaves(self.shape))

    @property
    def cosize(self) -> int:
        """One more than the largest offset."""
        return 1 + sum((size - 1) * stride for size, stride in self.flat)

    @overload
    def __call__(self, coord: IntTuple) -> int: ...
    @overload
    def __call__(self, coord: NDArray[Any]) -> NDArray[np.int64]: ...
    def __call__(self, coord: IntTuple | NDArray[Any]) -> int | NDArray[np.int64]:
        """The offset of a linear index, of an array of them, or of a nested coordinate."""
        if isinstance(coord, tuple):
            if isinstance(self.shape, int) or len(coord) != len(self.shape):
                raise LayoutError(f"coordinate {format_tuple(coord)} does not fit {self}")
            return sum(mode(c) for mode, c in zip(self.modes, coord, strict=True))
        index: Any = checked_index(coord, self.size, self)
        offset = index * 0
        for size, stride in self.flat:
            offset = offset + index % size * stride
            index = index // size
        return offset  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return f"{format_tuple(self.shape)}:{format_tuple(self.stride)}"


def from_flat(modes: Iterable[tuple[int, int]]) -> Layout:
    """The flat layout of (size, stride) pairs; a single pair needs no tuple, and none is `1:0`.

    >>> str(from_flat([(4, 1), (2, 8)])), str(from_flat([(4, 1)])), str(from_flat([]))
    ('(4,2):(1,8)', '4:1', '1:0')
    """
    modes = list(modes) or [(1, 0)]
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(size for size, _ in modes), tuple(stride for _, stride in modes))


def join(*modes: Layout) -> Layout:
    """(A, B, …): the layout with these top-level modes; its offset is the sum of theirs.

    >>> str(join(Layout(4), Layout((2, 3), (8, 4))))
    '(4,(2,3)):(1,(8,4))'
    """
    if not modes:
        raise LayoutError("a layout needs at least one mode, not ()")
    return Layout._of(tuple([mode.shape for mode in modes]), tuple([mode.stride for mode in modes]))


def compact_strides(shape: IntTuple) -> IntTuple:
    """The strides of the compact column-major layout of a shape."""
    strides = accumulate(_leaves(shape), operator.mul, initial=1)

    def fill(tree: IntTuple) -> IntTuple:
        return next(strides) if isinstance(tree, int) else tuple(map(fill, tree))

    return fill(shape)


def format_tuple(tree: IntTuple) -> str:
    """A tree of integers without spaces: parentheses always mean a tuple, even of one."""
    return str(tree) if not isinstance(tree, tuple) else f"({','.join(map(format_tuple, tree))})"


def checked_index(index: Any, size: int, what: object) -> int | NDArray[np.int64]:
    """An index, or an array of them, that lies in [0, size)."""
    if isinstance(index, np.ndarray):
        if index.dtype.kind not in "iu":
            raise LayoutError(f"{what} is indexed by integers, not by {index.dtype}")
        inside = not index.size or (index.min() >= 0 and index.max() < size)
        index = index.astype(np.int64)
    else:
        inside = 0 <= index < size
        index = operator.index(index)
    if not inside:
        raise LayoutError(f"index {index} is outside {what}, whose domain is [0, {size})")
    return index  # type: ignore[no-any-return]


def _checked(tree: Any, least: int, what: str) -> IntTuple:
    if type(tree) is int and tree >= least:
        return tree
    if isinstance(tree, tuple):
        if not tree:
            raise LayoutError("a layout needs at least one mode, not ()")
        return tuple([_checked(branch, least, what) for branch in tree])
    if not isinstance(tree, (int, np.integer)):
        raise LayoutError(f"a {what} is an integer or a tuple of them, not {tree!r}")
    if tree < least:
        raise LayoutError(f"a {what} is at least {least}, not {tree}")
    return int(tree)


def _congruent(a: IntTuple, b: IntTuple) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(_congruent, a, b))


def _leaves(tree: IntTuple) -> list[int]:
    if isinstance(tree, int):
        return [tree]
    leaves: list[int] = []
    for branch in tree:
        if isinstance(branch, int):
            leaves.append(branch)
        else:
            leaves += _leaves(branch)
    return leaves


def _depth(tree: IntTuple) -> int:
    return 0 if isinstance(tree, int) else 1 + max(map(_depth, tree))


def _mirror(tree: IntTuple) -> IntTuple:
    return tree if isinstance(tree, int) else tuple(map(_mirror, reversed(tree)))
