"""Single calls of NumPy's functions, with arguments at which things go wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend.arrays.protocol import UFUNCS
from iris.testing import array_probe, array_probes
from iris.testing.array_probe import BYTES
from iris.testing.array_probes import Probe, Probes
from iris.testing.numpy_expressions import Expression, in_bf16
from support import counts


@settings(max_examples=counts(40, 2000))
@given(array_probes.probes())
def test_numpy_does_what_the_graph_does(probes: Probes) -> None:
    probes.check()


def drawn(number: int) -> list[Probe]:
    rng = np.random.default_rng(0)
    return [Probe(rng.bytes(BYTES)) for _ in range(number)]


def test_probes_vary() -> None:
    parts, dtypes = Counter[str](), Counter[str]()
    numbers = [0.0, 0.0, 0.0]
    known = (
        "::-1",
        "mode='wrap'",
        "weights=",
        "ddof=",
        "in_place",
        "meanwhile",
        "in_bf16",
        "einsum",
    )
    for probe in drawn(1500):
        parts.update(part for part in known if part in probe.expression.text)
        for x in probe.expression.arguments.values():
            dtypes[x.dtype.name] += 1
            if x.dtype.kind == "f":
                zeros = np.sum(np.signbit(x) & (x == 0))
                numbers = np.add(numbers, (np.isnan(x).sum(), np.isinf(x).sum(), zeros)).tolist()
    assert min(parts[part] for part in known) >= 5, parts
    assert dtypes.keys() == {*array_probe.DTYPES}
    assert min(numbers) >= 50, numbers


def test_numbers_of_bf16_are_rounded_once() -> None:
    """By hand: 1 and a half unit is a tie, which goes to the even one; a bit more is not."""
    x, step = np.ones(1, np.float32), 2.0**-8
    for number, nearest in ((1 + step, 1.0), (1 + step + 2.0**-40, 1 + 2 * step), (1.5, 1.5)):
        for sign in (1, -1):
            assert in_bf16(x, "multiply", sign * number) == sign * nearest


def test_signs_of_zero_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Any) -> Any:
        return np.where(x > 0, 1, np.where(x < 0, -1, x)).astype(np.float32)

    x = np.array([-0.0, 2], np.float32)
    sign = Expression("np.sign(a0)", {"a0": x}, tells_signs=True)
    sign.check()
    monkeypatch.setitem(UFUNCS["__call__"], np.sign, wrong)
    with pytest.raises(AssertionError, match=r"np\.sign\(a0\)"):
        sign.check()


def test_a_wrong_rule_is_found_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers are multiplied where they are added."""
    monkeypatch.setitem(UFUNCS["__call__"], np.add, lambda a, b, dtype=None: a * b)
    rng = np.random.default_rng(0)
    together = [Probes(rng.bytes(BYTES * array_probes.TOGETHER)) for _ in range(20)]
    with pytest.raises(AssertionError, match="it is"):
        for probes in together:
            probes.check()
    assert any("def drawn" in repr(probes) for probes in together)
