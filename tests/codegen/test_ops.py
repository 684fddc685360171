"""Every op of every dtype and number of elements has a text that clang takes for Metal."""

from __future__ import annotations

from itertools import groupby

import pytest

from iris.codegen import emit
from iris.codegen.writer import emit as emission
from iris.ir import control, parse, verify
from iris.ir.control import Func
from iris.ir.core import OPS, Level
from iris.testing.one_op import COUNTS, OneOp, every_op
from iris.testing.texts import shaped
from metal_check import complaints_of_all

BY_DTYPE = {
    dtype: list(group)
    for dtype, group in groupby(
        sorted(every_op(), key=lambda o: o.operands[-1]), key=lambda o: o.operands[-1]
    )
}


def text_of(one: OneOp, count: int) -> str:
    module = parse(one.function(count))
    verify(module)
    (function,) = module
    assert isinstance(function, Func)
    return emit(shaped(function)).text


@pytest.mark.parametrize("dtype", BY_DTYPE)
def test_ops_of(dtype: str) -> None:
    texts = [text_of(one, count) for one in BY_DTYPE[dtype] for count in COUNTS]
    assert complaints_of_all(texts) == []


def test_every_op_has_a_rule() -> None:
    without = (control.Func, control.Return, control.Yield)
    ours = [op for op in OPS.values() if op.__module__.startswith("iris.")]
    here = [op for op in ours if op.level in (None, Level.METAL) and op not in without]
    assert [op.name for op in here if emission.get(op) is None] == []
    tried = {one.op.split()[0] for one in every_op()}
    shared = {op.name for op in here if op.__module__ == "iris.ir.math"}
    assert tried == shared - {"constant", "assume_divisible"}
