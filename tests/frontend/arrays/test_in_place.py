"""`x += y` in a function of arrays: NumPy's result, or an error where NumPy would change more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import LanguageError

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = np.full((3, 4), 2, np.float32)


def alone(x, y):
    a = x * 2
    a += y
    a *= a
    return a


def copies(x, y):
    a = x * 2
    kept = [a.copy(), np.copy(a), np.array(a, like=a), a.astype(np.float32), +a, a.flatten(), a + 0]
    kept += [np.clip(a, 0, 99), a[[0, 1]], np.tile(a, 1), np.pad(a, 0), np.roll(a, 0), a**1]
    kept += [np.concatenate([a]), np.stack([a])[0], np.take(a, 0, axis=0), np.nan_to_num(a)]
    first = a[0, 0]
    a += y
    return a, *kept, first


def argument(x, y):
    x += y
    return x * 2


def in_a_loop(x, y):
    total = x * 0
    for row in y:
        total += row
    return total


def in_containers(x, y):
    d = {"w": x + 1}
    d["w"] -= y
    parts = [x * 1, y * 1]
    parts[0] += parts[1]
    return d["w"], parts[0]


def helper(x):
    x -= 1
    return x * x


def dead_name(x, y):
    a = x + y
    a = helper(a)
    return a + 0


def elements(x, y):
    n = x[0, 0]
    m = n
    m += 1
    return n, m


def view_that_is_dropped(x, y):
    a = x + y
    row = a.T
    a += 1
    row = a.T
    return row * 2


def values_of_an_update(x, y):
    set_ = getattr(x, "at", None)
    a = y * 1
    b = a.copy() if set_ is None else set_[...].set(a)
    a += 1
    return a, b


WORKING = [
    values_of_an_update,
    alone,
    copies,
    argument,
    in_a_loop,
    in_containers,
    dead_name,
    elements,
    view_that_is_dropped,
]


def conjugated(a):
    return a.conj()


def diagonal_as_a_vector(a):
    return np.diag(a, 1)


def no_differences(a):
    return np.diff(a, 0)


def einsum_in_order(a):
    return np.einsum("ij->ij", a)


def einsum_transposed(a):
    return np.einsum("ij->ji", a)


def einsum_diagonal(a):
    return np.einsum("ii->i", a[:, :3])


def einsum_sums(a):
    return np.einsum("ij->i", a)


def einsum_of_two(a):
    return np.einsum("ij,->ij", a, np.float32(1))


def meshed(a):
    return np.meshgrid(a[0], a[1])[0]


def meshed_without_a_copy(a):
    return np.meshgrid(a[0], a[1], copy=False)[0]


def sparse_mesh_without_a_copy(a):
    return np.meshgrid(a[0], a[1], copy=False, sparse=True)[1]


def array_without_a_copy(a):
    return np.array(a, copy=None, like=a)


def asarray_with_a_copy(a):
    return np.asarray(a, copy=True, like=a)


def astype_without_a_copy(a):
    return a.astype(a.dtype, copy=False)


def astype_of_another_dtype(a):
    return a.astype(np.float16, copy=False)


def reshaped_copy(a):
    return a.reshape(4, 3, copy=True)


SEEN_OR_COPIED = [
    conjugated,
    diagonal_as_a_vector,
    no_differences,
    einsum_in_order,
    einsum_transposed,
    einsum_diagonal,
    einsum_sums,
    einsum_of_two,
    meshed,
    meshed_without_a_copy,
    sparse_mesh_without_a_copy,
    astype_without_a_copy,
    astype_of_another_dtype,
]
if hasattr(np, "unstack"):  # NumPy 2.1: of older ones these do not take the keyword, or its value
    SEEN_OR_COPIED += [array_without_a_copy, asarray_with_a_copy, reshaped_copy]


@pytest.mark.parametrize("part", SEEN_OR_COPIED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_results_share_memory_where_those_of_numpy_do(
    part: Callable[..., Any], dtype: type[np.generic]
) -> None:
    @iris.jit
    def changed(x):
        a = x.copy()
        found = part(a)
        a += 1
        return found

    x = X.astype(dtype)
    if np.shares_memory(x, part(x)):
        with pytest.raises(LanguageError, match="in place"):
            changed(x)
    else:
        np.testing.assert_array_equal(changed(x), part(x))


def test_nan_to_num_without_a_copy_is_refused() -> None:
    def cleaned(x):
        np.nan_to_num(x, copy=False)
        return x

    with pytest.raises(LanguageError, match="copy=False changes an array"):
        iris.jit(cleaned)(X)


@pytest.mark.parametrize("function", WORKING, ids=lambda f: f.__name__)
def test_in_place_operators_are_those_of_numpy(function: Callable[..., Any]) -> None:
    found = iris.jit(function)(X.copy(), Y.copy())
    expected = function(X.copy(), Y.copy())
    pairs = (
        zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    )
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


def other_name(x, y):
    a = x + y
    b = a
    b += 1
    return a * 2  # here


def name_in_a_list(x, y):
    a = x + y
    kept = [a]
    a += 1
    return kept[0] + a  # here


def callers_name(x, y):
    a = x + y
    b = helper(a)
    return a + b  # here


def view_of_it(x, y):
    a = x + y
    row = a[1]
    a += 1
    return row * 2  # here


def through_a_view(x, y):
    a = x + y
    row = a[1]
    row += 1
    return a.sum()  # here


def through_a_row_that_is_not_known(x, y):
    a = x + y
    row = a[y[0, 0].astype(np.int32)]
    row += 1
    return a.sum()  # here


def through_another_view(x, y):
    a = x + y
    left, right = a.T[:2], a.reshape(-1)[4:]
    left *= 2
    return np.exp(right)  # here


def row_of_a_loop(x, y):
    a = x + y
    for row in a:
        row += 1  # here
    return a


def argument_of_two_names(x, y):
    z = x
    x += y
    return np.stack([x, z])  # here


def returned(x, y):
    a = x + y
    b = a
    b += 1  # here
    return a, b


def callers_array(x, y):
    x -= y  # here
    return y.sum()


REFUSED = [
    other_name,
    name_in_a_list,
    callers_name,
    view_of_it,
    through_a_view,
    through_a_row_that_is_not_known,
    through_another_view,
    row_of_a_loop,
    argument_of_two_names,
    returned,
    callers_array,
]


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_numpy_would_change_as_well_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(LanguageError, match="in place") as caught:
        iris.jit(function)(X.copy(), Y.copy())
    print(f"\n{caught.value}")
    assert caught.value.spot is not None
    assert "# here" in caught.value.spot.source
