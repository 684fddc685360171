"""Kinds: the identity of each leaves every element as it is, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from iris.interp.reductions import reduce
from iris.ir.kinds import ReduceKind, ScanKind, identity, of_nothing
from iris.ir.literal import encode
from iris.ir.scalar import from_bits, storage, to_bits
from iris.ir.types import DTYPES, DType, bool_
from iris.testing.draft import odd_numbers

TRUTH = (ReduceKind.ANY, ReduceKind.ALL)
PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)


def array(numbers: list[float], dtype: DType) -> np.ndarray:
    bits = np.array(
        [encode(n, dtype) for n in numbers], to_bits(dtype, storage(dtype).type(0)).dtype
    )
    return from_bits(dtype, bits)


@pytest.mark.parametrize("kind", [k for k in ReduceKind if k not in PLACES], ids=lambda k: k.value)
def test_the_identity_changes_no_element(kind: ReduceKind) -> None:
    for dtype in DTYPES.values():
        if (dtype is bool_) is not (kind in TRUTH):
            continue
        for number in odd_numbers(dtype):
            alone = array([number], dtype)
            both = array([number, identity(kind, dtype), identity(kind, dtype)], dtype)
            found = reduce(kind, dtype, both, 0)
            same = to_bits(dtype, found) == to_bits(dtype, alone[0])
            assert same or np.isnan(found) & np.isnan(alone[0]), (dtype, number, found)


def test_scans_start_as_reductions_do() -> None:
    for kind in ScanKind:
        for dtype in DTYPES.values():
            if dtype is not bool_:
                one, other = (identity(k, dtype) for k in (kind, ReduceKind(kind.value)))
                assert str(one) == str(other)


def test_a_sum_of_nothing_is_no_negative_zero() -> None:
    assert str(of_nothing(ReduceKind.SUM, DTYPES["f32"])) == "0"
    assert str(reduce(ReduceKind.SUM, DTYPES["f32"], np.zeros(0, np.float32), 0)) == "0.0"
