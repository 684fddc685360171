"""What a reshape does to each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Shape = tuple[int, ...]


class Group(NamedTuple):
    """Axes of one shape, and those of another that have the same elements."""

    before: range
    after: range


def groups(before: Shape, after: Shape) -> list[Group]:
    """The smallest parts of which a reshape is made.

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
        found.append(Group(range(start[0], i), range(start[1], j)))
    return found


def spread_after(narrow: Shape, wide: Shape, shape: Shape) -> Shape | None:
    """What there is to reshape, and to which shape, so that it spreads to the reshape of what it
    spread to; None, if axes that are spread are mixed with others.  There must be elements."""
    to: list[int] = []
    for group in groups(wide, shape):
        sizes = [narrow[axis] for axis in group.before]
        if sizes == [wide[axis] for axis in group.before]:
            to += [shape[axis] for axis in group.after]
        elif set(sizes) == {1}:
            to += [1 for _ in group.after]
        else:
            return None
    return tuple(to)


def only_ones(before: Shape, after: Shape) -> bool:
    """Whether all that a reshape does is to add and drop axes of size 1."""
    return [n for n in before if n != 1] == [n for n in after if n != 1]


def is_in_order(permutation: Sequence[int], shape: Shape) -> bool:
    """Whether only axes of size 1 change places, so that it is a reshape."""
    long = [axis for axis in permutation if shape[axis] != 1]
    return long == sorted(long)
