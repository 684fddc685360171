"""Random programs that do little but calculate: what holds of them, and what is among them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, given, settings

from iris.ir import math, metal, scalar
from iris.ir.control import For
from iris.ir.core import OPS
from iris.ir.types import DTYPES
from iris.testing import calculations
from iris.testing.calculations import numbers
from iris.testing.oracles import same_bits
from iris.testing.texts import runs_alike
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(40, 2000), deadline=None)
@given(calculations.programs())
def test_nothing_goes_wrong(program: Program) -> None:
    same_bits(program)


@pytest.mark.softmetal
def test_their_texts_do_what_they_say() -> None:
    runs_alike(_drawn(10), "softmetal")


def test_every_op_is_drawn() -> None:
    """Each exact op, of numbers from memory, of results of others, of parts of these, and of what a
    loop carries."""
    exact = {
        cls
        for cls in OPS.values()
        if scalar.meaning.get(cls) is not None
        and not issubclass(cls, (math.AssumeDivisible, math.Transcendental))
    }
    found: Counter[type] = Counter()
    parts = subtracted = chosen = 0
    for program in _drawn(400):
        ops = list(program.module.walk())
        subtracted += any(_updates_from_the_right(op) for op in ops if isinstance(op, For))
        chosen += any(
            isinstance(op, math.Select) and isinstance(op.condition.op, math.Select) for op in ops
        )
        found.update({type(op) for op in ops})
        parts += any(
            isinstance(op, metal.Slice)
            and isinstance(op.x.op, (math.Add, math.Mul, math.Sub, math.Neg, math.Shl))
            for op in ops
        )
    assert {cls.name for cls in exact} <= {cls.name for cls in found}
    assert parts > 40
    assert subtracted > 10
    assert chosen > 10


def _updates_from_the_right(loop: For) -> bool:
    """Whether an iteration subtracts a carried value from another one."""
    pairs = zip(loop.body.arguments[1:], loop.body.end.operands, strict=True)
    return any(isinstance(new.op, math.Sub) and new.op.operands[1] is old for old, new in pairs)


@pytest.mark.parametrize("name", DTYPES)
def test_numbers_of_two_arrays_all_meet(name: str) -> None:
    first, second = (numbers(DTYPES[name], which) for which in (0, 1))
    size = len(first) * len(second)
    met = {(first[i % len(first)], second[i % len(second)]) for i in range(size)}
    assert met == {(x, y) for x in first for y in second}


def _drawn(count: int) -> list[Program]:
    found: list[Program] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, deadline=None)
    @given(calculations.programs())
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found
