"""The rules for NumPy's functions take what the functions do."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS, find

# Asked for by name: they are with NumPy or not, by its version.
REQUIRED = """
sum mean var std max min amax amin argmax argmin prod any all cumsum cumprod nansum
where clip concatenate stack vstack hstack dstack split array_split reshape ravel transpose swapaxes
moveaxis expand_dims squeeze broadcast_to broadcast_arrays dot vdot inner outer einsum tensordot
take take_along_axis pad roll flip fliplr flipud rot90 tril triu tile repeat diff zeros_like
ones_like full_like empty_like arange zeros ones full linspace atleast_1d atleast_2d atleast_3d
ndim shape size round around nan_to_num isclose array_equal trace diagonal diag kron meshgrid
count_nonzero average ptp linalg.norm copy
""".split()


@pytest.mark.parametrize("name", REQUIRED)
def test_what_there_is(name: str) -> None:
    assert find(name) in FUNCTIONS


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def own(rule: Any) -> list[str]:
    """The parameters of a rule that can be given by place."""
    return [n for n, p in inspect.signature(rule).parameters.items() if p.kind in POSITIONAL]


# What `np.array` and `np.asarray`, and `np.reshape` of several versions, call otherwise.
OTHERWISE = ("a", "shape")


@pytest.mark.parametrize("function", list(FUNCTIONS), ids=lambda f: f.__name__)
def test_parameters_stand_where_those_of_numpy_do(function: Any) -> None:
    rule = FUNCTIONS[function]
    try:
        given = inspect.signature(function).parameters
    except ValueError:
        pytest.skip("NumPy does not tell its parameters")
    kinds = [p.kind for p in inspect.signature(rule).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    by_place = [p for p in given.values() if p.kind in POSITIONAL]
    for mine, theirs in zip(own(rule), by_place, strict=False):
        assert mine == theirs.name or theirs.kind is theirs.POSITIONAL_ONLY or mine in OTHERWISE


def test_ufuncs_have_the_operands_of_numpy() -> None:
    for function, rule in UFUNCS["__call__"].items():
        parameters = inspect.signature(rule).parameters.values()
        assert sum(p.default is p.empty for p in parameters) == function.nin


def test_names_of_later_versions_are_left_out() -> None:
    assert find("no_such_function") is None
    assert find("linalg.norm") is np.linalg.norm
