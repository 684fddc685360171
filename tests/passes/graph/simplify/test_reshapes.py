"""What a reshape does to each axis."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from iris.passes.graph.simplify.reshapes import Group, groups, is_in_order, only_ones
from support import counts


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ((), (), []),
        ((3, 5), (3, 5), [((0,), (0,)), ((1,), (1,))]),
        ((2, 3, 1, 20), (6, 4, 5), [((0, 1), (0,)), ((2,), ()), ((3,), (1, 2))]),
        ((3,), (1, 3, 1), [((), (0,)), ((0,), (1,)), ((), (2,))]),
        ((4, 6), (6, 4), [((0, 1), (0, 1))]),
        ((2, 1, 3), (6,), [((0, 1, 2), (0,))]),
        ((1, 1), (1,), [((0,), (0,)), ((1,), ())]),
    ],
)
def test_groups(before: tuple[int, ...], after: tuple[int, ...], parts: list[Group]) -> None:
    assert [(tuple(a), tuple(b)) for a, b in groups(before, after)] == parts


def test_random_groups() -> None:
    """All axes in order, as many elements on either side, and no group of which a part is one."""
    rng = np.random.default_rng(0)
    for _ in range(counts(300, 3000)):
        factors = rng.choice([1, 2, 3, 2], rng.integers(0, 6)).tolist()
        before, after = (_joined(rng, factors) for _ in range(2))
        found = groups(before, after)
        assert [axis for group in found for axis in group.before] == [*range(len(before))]
        assert [axis for group in found for axis in group.after] == [*range(len(after))]
        for one, other in found:
            left, right = [before[i] for i in one], [after[j] for j in other]
            assert prod(left) == prod(right)
            firsts = {prod(left[:n]) for n in range(1, len(left))}
            assert not firsts & {prod(right[:n]) for n in range(1, len(right))}


def _joined(rng: np.random.Generator, factors: list[int]) -> tuple[int, ...]:
    """Some of the factors multiplied with the next."""
    shape: list[int] = []
    for factor in factors:
        if shape and rng.integers(2):
            shape[-1] *= factor
        else:
            shape.append(factor)
    return tuple(shape)


def test_ones() -> None:
    assert only_ones((3, 1, 5), (1, 3, 5, 1))
    assert only_ones((), (1, 1))
    assert not only_ones((3, 5), (5, 3))
    assert not only_ones((6,), (2, 3))
    assert is_in_order((1, 0, 2), (3, 1, 5))
    assert is_in_order((0, 1), (3, 5))
    assert not is_in_order((2, 1, 0), (3, 1, 5))
