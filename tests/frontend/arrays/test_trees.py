"""Trees, taken apart and put together."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris.frontend.arrays.trees import flatten

Pair = namedtuple("Pair", "first second")

leaves = st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    leaves | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
        | st.builds(Pair, inner, inner)
    ),
)


@given(trees)
def test_what_is_taken_apart_goes_together_again(tree: Any) -> None:
    found, shape = flatten(tree, "x")
    again = shape.unflatten([leaf.value for leaf in found])
    assert again == tree and type(again) is type(tree)
    assert shape.leaves == len(found)
    _, other = flatten(again, "y")
    assert other == shape and hash(other) == hash(shape)


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        (1, ["x"]),
        (
            {"w": 1, "layers": [2, (3, {"b": 4})]},
            ["x_w", "x_layers_0", "x_layers_1_0", "x_layers_1_1_b"],
        ),
        (Pair(1, [2]), ["x_first", "x_second_0"]),
        ({"a b": 1, 2: 3, ("t", 1): 4}, ["x_a_b", "x_2", "x___t___1_"]),
        (OrderedDict(b=1, a=None), ["x_b"]),
        (None, []),
    ],
)
def test_names(tree: Any, names: list[str]) -> None:
    assert [leaf.name for leaf in flatten(tree, "x")[0]] == names


def test_shapes_are_told_apart() -> None:
    shapes = [
        flatten(tree, "")[1]
        for tree in (1, (1,), [1], {"a": 1}, {"b": 1}, Pair(1, 2), (1, 2), None, (None,), ())
    ]
    assert len(set(shapes)) == len(shapes)
