"""Volatile loads, and loops that wait, as a program is traced."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris.errors import ControlFlowError, MaskError, RaceError
from iris.ir import parse


@iris.kernel
def _waits(Flag, Data, Out):  # type: ignore[no-untyped-def]
    while iris.load(Flag, volatile=True) == 0:
        pass
    iris.store(Out, iris.load(Data))


@iris.kernel
def _looks_twice(X, Out):  # type: ignore[no-untyped-def]
    at = iris.arange(0, 64)
    iris.load(X + at, volatile=True)
    a = iris.load(X + at, mask=at < 9, other=7, volatile=True)
    b = iris.load(X + at, mask=at < 9, other=7, volatile=True)
    iris.store(Out + at, a + b)


ARRAY = np.zeros(64, np.int32)


def test_a_volatile_load_goes_through_all_passes() -> None:
    for kernel, arrays, loads in ((_waits, 3, 1), (_looks_twice, 2, 3)):
        given = [ARRAY.copy() for _ in range(arrays)]
        found = kernel.lower(*given, grid=1, device="interp:metal")
        for stage in found.stages:
            assert stage.text.count("volatile=true") == loads, stage.name
            assert parse(stage.text) == stage.module
        assert found.msl.count("volatile ") == loads


@iris.kernel
def _copies(X, Out):  # type: ignore[no-untyped-def]
    at = iris.arange(0, 64)
    iris.store(Out + at, iris.load(X + at, volatile=True))


@pytest.mark.softmetal
@pytest.mark.parametrize("dtype", [*"?bhiqBHIQef", ml_dtypes.bfloat16])
def test_a_volatile_load_of_every_dtype_compiles(dtype: Any) -> None:
    x, out = np.arange(64).astype(dtype), np.zeros(64, dtype)
    _copies[1](x, out, device="softmetal")
    assert (x == out).all()


def test_a_volatile_load_says_what_masked_elements_are() -> None:
    @iris.kernel
    def masked(X, n):  # type: ignore[no-untyped-def]
        iris.load(X, mask=n > 0, volatile=True)

    with pytest.raises(MaskError, match=r"needs other="):
        masked.lower(ARRAY, 1, grid=1)


def test_a_loop_that_waits_for_a_plain_load_is_refused() -> None:
    @iris.kernel
    def in_condition(Flag, Out):  # type: ignore[no-untyped-def]
        while iris.load(Flag) == 0:  # here
            pass

    @iris.kernel
    def in_body(Flag, Out):  # type: ignore[no-untyped-def]
        seen = iris.load(Flag)
        while seen == 0:  # here
            seen = iris.load(Flag)
            iris.store(Out, seen)

    for kernel in (in_condition, in_body):
        with pytest.raises(ControlFlowError, match=r"Flag .*volatile=True.*atomic") as caught:
            kernel.lower(ARRAY, ARRAY.copy(), grid=1)
        assert caught.value.spot is not None
        assert "# here" in caught.value.spot.source


def test_a_loop_that_nothing_ends_is_refused() -> None:
    @iris.kernel
    def never(X, n):  # type: ignore[no-untyped-def]
        while n > 0:
            iris.store(X, n)

    with pytest.raises(ControlFlowError, match="never ends"):
        never.lower(ARRAY, 1, grid=1)


def test_a_loop_may_follow_memory_that_it_writes_or_walks() -> None:
    @iris.kernel
    def walks(X, Out):  # type: ignore[no-untyped-def]
        at = iris.load(X)
        while iris.load(Out) < 3:
            iris.store(Out, iris.load(Out) + 1)
        while at != 0:
            at = iris.load(X + at)
        iris.store(Out + 1, at)

    chain, out = np.array([2, 0, 1], np.int32), np.zeros(2, np.int32)
    walks[1](chain, out, device="interp")
    assert out.tolist() == [3, 0]


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_a_store_may_write_equal_values_to_one_element(device: str) -> None:
    @iris.kernel
    def written(Out, SAME: iris.constexpr):
        i = iris.arange(0, 64)
        iris.store(Out + i // 32, 3 if SAME else i)

    for simdgroups in (1, 2):
        out = np.zeros(2, np.int32)
        written[1](out, SAME=True, num_simdgroups=simdgroups, device=device)
        assert list(out) == [3, 3]
        with pytest.raises(RaceError):
            written[1](out, SAME=False, num_simdgroups=simdgroups, device=device)
