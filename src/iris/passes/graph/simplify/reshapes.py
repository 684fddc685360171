"""Say what a reshape does to each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Shape = tuple[int, ...]


class AxisGroup(NamedTuple):
    """Axes before a reshape, and those after it with the same elements."""

    before: range
    after: range


def reshape_groups(before: Shape, after: Shape) -> list[AxisGroup]:
    """Divide a reshape into the smallest independent ones.

    (2, 3, 1, 20) to (6, 4, 5): the first two axes become one, that of size 1 goes, the last
    becomes two.  There must be elements.
    """
    found = []
    i = j = 0
    while i < len(before) or j < len(after):
        start = i, j
        ones = before[i : i + 1] == (1,), after[j : j + 1] == (1,)
        if ones[0] != ones[1]:  # it goes, or comes
            i, j = i + ones[0], j + ones[1]
        else:
            left, right = before[i], after[j]
            i, j = i + 1, j + 1
            while left != right:
                if left < right:
                    left, i = left * before[i], i + 1
                else:
                    right, j = right * after[j], j + 1
        found.append(AxisGroup(range(start[0], i), range(start[1], j)))
    return found


def broadcast_before_reshape(narrow: Shape, wide: Shape, shape: Shape) -> Shape | None:
    """The shape to reshape `narrow` to, so that it broadcasts to `shape` rather than to `wide`.

    None if the reshape merges broadcast axes with others.  There must be elements.
    """
    to: list[int] = []
    for group in reshape_groups(wide, shape):
        sizes = [narrow[axis] for axis in group.before]
        if sizes == [wide[axis] for axis in group.before]:
            to += [shape[axis] for axis in group.after]
        elif set(sizes) == {1}:
            to += [1 for _ in group.after]
        else:
            return None
    return tuple(to)


def differ_by_unit_axes(before: Shape, after: Shape) -> bool:
    """Whether a reshape only adds and drops axes of size 1."""
    return [n for n in before if n != 1] == [n for n in after if n != 1]


def moves_only_unit_axes(permutation: Sequence[int], shape: Shape) -> bool:
    """Whether a transpose moves only axes of size 1, and so is a reshape."""
    long = [axis for axis in permutation if shape[axis] != 1]
    return long == sorted(long)
