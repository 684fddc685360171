"""What every target says."""

from __future__ import annotations

import pytest

from iris.ir import math
from iris.ir.core import OPS
from iris.targets import TARGETS, Target

FUNCTIONS = [
    cls.name
    for cls in OPS.values()
    if issubclass(cls, math.Transcendental) and cls.__module__ == math.__name__
]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_the_accuracy_of_each_function_is_known(target: Target) -> None:
    assert not {*FUNCTIONS} - target.ulps.keys()
    assert not {*FUNCTIONS} - target.fast_math.keys()
