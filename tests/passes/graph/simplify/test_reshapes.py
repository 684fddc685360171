"""What a reshape does to each axis."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from iris.passes.graph.simplify.reshapes import (
    AxisGroup,
    differ_by_unit_axes,
    moves_only_unit_axes,
    reshape_groups,
)
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
def test_groups(before: tuple[int, ...], after: tuple[int, ...], parts: list[AxisGroup]) -> None:
    assert [(tuple(a), tuple(b)) for a, b in reshape_groups(before, after)] == parts


def test_random_groups() -> None:
    """All axes in order, as many elements on either side, and no group of which a part is one."""
    rng = np.random.default_rng(0)
    for _ in range(counts(300, 3000)):
        factors = rng.choice([1, 2, 3, 2], rng.integers(0, 6)).tolist()
        before, after = (_joined(rng, factors) for _ in range(2))
        found = reshape_groups(before, after)
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
    assert differ_by_unit_axes((3, 1, 5), (1, 3, 5, 1))
    assert differ_by_unit_axes((), (1, 1))
    assert not differ_by_unit_axes((3, 5), (5, 3))
    assert not differ_by_unit_axes((6,), (2, 3))
    assert moves_only_unit_axes((1, 0, 2), (3, 1, 5))
    assert moves_only_unit_axes((0, 1), (3, 5))
    assert not moves_only_unit_axes((2, 1, 0), (3, 1, 5))
