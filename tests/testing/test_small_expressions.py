"""Small expressions of any dtypes keep what they compute, and a wrong rule is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, seed, settings

from iris.ir import Module, math
from iris.ir.rewriter import Rewriter, Rules
from iris.passes import Pass
from iris.testing import small_expressions
from iris.testing.small_expressions import Expressions
from support import counts


@seed(0)
@settings(max_examples=counts(20, 1000), deadline=None)
@given(small_expressions.several())
def test_passes_keep_small_expressions(expressions: Expressions) -> None:
    expressions.check()


wrong_rules = Rules()


@wrong_rules(math.Neg)
def swap_difference(op: math.Neg, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, math.Sub):
        rewriter.replace(op, math.Sub(inner.rhs, inner.lhs))


@dataclass(frozen=True)
class SwapDifferences(Pass):
    """`-(x - y)` becomes `y - x`, which is wrong of equal floats: zeros have signs."""

    name = "swap-differences"

    def run(self, module: Module) -> Counter[str]:
        return wrong_rules.apply(module)


def test_a_wrong_rule_of_floats_is_found() -> None:
    with pytest.raises(AssertionError, match="swap-differences changed what the program does"):
        for number in range(300):
            Expressions(number).check([SwapDifferences()], seconds=1)
