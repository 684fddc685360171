"""What tells constants of launches apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import iris
from iris.frontend.specs import exact_key


@dataclass(frozen=True)
class Settings:
    scale: Any
    notes: list[str] = field(default_factory=list, compare=False)
    more: list[str] = field(default_factory=list, hash=False)


@iris.kernel
def divided(X, CHOSEN: iris.constexpr):
    item = CHOSEN.scale if isinstance(CHOSEN, Settings) else next(iter(CHOSEN))
    is_integer = isinstance(item, int) and not isinstance(item, bool)
    value = 7 // item if is_integer else item
    iris.store(X + iris.arange(0, 8), iris.full((8,), value, iris.f32))


@pytest.mark.parametrize("kind", [Settings, lambda x: frozenset([x]), lambda x: (Settings(x),)])
def test_equal_constants_with_other_parts_have_other_keys(kind: Any) -> None:
    for one, other in [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,))]:
        assert kind(one) == kind(other)
        assert exact_key(kind(one)) != exact_key(kind(other))
        assert exact_key(kind(one)) == exact_key(kind(one))
        hash(exact_key(kind(one)))


@pytest.mark.parametrize("kind", [Settings, lambda x: frozenset([x])])
def test_a_kernel_is_compiled_for_the_parts_of_a_constant(kind: Any) -> None:
    x = iris.empty(8, np.float32, device="interp")
    for item, expected in [(1, 7.0), (1.0, 1.0), (True, 1.0), (0.0, 0.0), (-0.0, -0.0), (1, 7.0)]:
        divided[1](x, kind(item))
        np.testing.assert_array_equal(x.numpy(), expected)
        assert (np.signbit(x.numpy()) == np.signbit(expected)).all()
