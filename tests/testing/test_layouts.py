"""Random layouts, types, arrays and schedules: what holds of them, and what there is among them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from iris.interp.memory import memory_dtype
from iris.ir.layout import algebra
from iris.ir.layout.convert import Movement, convert
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LinearLayout
from iris.ir.text.cursor import Cursor
from iris.ir.text.types import read_type
from iris.ir.types import DTYPES, DType, Type
from iris.testing import agree, arrays, layout_laws, layouts, programs, schedules, types
from iris.testing.layout_laws import check_conversion, check_cute, check_linear
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(60, 8000))
@given(layouts.linear(lane_bits=2))
def test_linear_layouts_do_what_they_say(layout: LinearLayout) -> None:
    check_linear(layout)


@settings(max_examples=counts(100, 8000))
@given(layouts.pairs(lane_bits=2))
def test_conversions_read_what_they_must(pair: layouts.Pair) -> None:
    check_conversion(*pair)


@settings(max_examples=counts(100, 8000))
@given(layouts.cute(), layouts.cute())
def test_the_algebra_satisfies_its_equations(a: Layout, b: Layout) -> None:
    check_cute(a, b)


@settings(max_examples=counts(60, 5000))
@given(layouts.programs())
def test_programs_do_the_same_in_any_layout(program: Program) -> None:
    agree(program, pipeline=layouts.LAID_OUT, simdgroups=(0,))


@settings(max_examples=counts(10, 3000))
@given(programs.tile(), schedules())
def test_programs_do_the_same_by_any_schedule(program: Program, schedule: Any) -> None:
    agree(program, pipeline=schedule, simdgroups=(0,))


@settings(max_examples=counts(100, 5000))
@given(types())
def test_types_are_read_back(type_: Type) -> None:
    assert read_type(Cursor(str(type_), "<type>")) is type_


def drawn(strategy: st.SearchStrategy[Any], count: int = 200) -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=count, phases=[Phase.generate])
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


def test_there_are_layouts_of_every_kind() -> None:
    found = drawn(layouts.linear())
    columns = [[c for _, images in x.bases for image in images for c in image] for x in found]
    kinds = {
        "replicas": [not x.is_injective for x in found],
        "one holder each": [x.is_injective for x in found],
        "mixed bits": [any(c & (c - 1) for c in own) for own in columns],
        "eight simdgroups": [x.size("simdgroup") == 8 for x in found],
        "many registers": [x.size("register") >= 8 for x in found],
        "three axes": [x.rank == 3 for x in found],
    }
    assert all(sum(some) >= 5 for some in kinds.values()), kinds
    moves = Counter(convert(*pair).movement for pair in drawn(layouts.pairs()))
    assert min(moves[movement] for movement in Movement) >= 5, moves


def test_there_are_cute_layouts_of_every_kind() -> None:
    found = drawn(st.tuples(layouts.cute(), layouts.cute()))
    assert sum(a.depth > 1 for a, _ in found) >= 20
    assert sum(any(not stride for _, stride in a.flat) for a, _ in found) >= 10
    assert sum(a.size == a.cosize for a, _ in found) >= 20
    for operation in (algebra.composition, algebra.logical_divide, algebra.logical_product):
        answers = [layout_laws.answer(operation, *pair) for pair in found]
        assert len(answers) - answers.count(None) >= 20, operation


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_there_are_arrays_of_every_kind(dtype: DType) -> None:
    found = drawn(arrays(dtype, (3, 5)), 100)
    assert {x.shape for x in found} == {(3, 5)}
    assert {x.dtype for x in found} == {memory_dtype(dtype)}
    few = [len(np.unique(x.view(np.uint8).reshape(15, -1), axis=0)) for x in found]
    assert min(few) <= 2 and (max(few) >= 8 or dtype.bits == 1)
    if dtype.is_float and dtype.name != "bf16":
        every = np.concatenate(found)
        assert np.isnan(every).any() and np.isinf(every).any()
        assert (np.signbit(every) & (every == 0)).any()
        assert (every != np.rint(every)).any()
    elif dtype.is_integer:
        every = np.concatenate(found)
        assert {dtype.low, dtype.high} <= {*every.reshape(-1).tolist()}


def test_what_is_wrong_of_a_layout_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = LinearLayout.of((4, 2), register=[(1, 0)], lane=[(0, 1), (2, 0), (0, 0)], simdgroup=[])
    check_linear(layout)
    for name, wrong in (
        ("kernel", lambda self: ()),
        ("transpose", lambda self, permutation: self.reshape(self.shape[::-1])),
        ("right_inverse", lambda self: LinearLayout.of(self.sizes, axis0=[], axis1=[])),
    ):
        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr(LinearLayout, name, wrong)
            check_linear(layout)
