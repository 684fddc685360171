"""Calls of functions of arrays, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import iris
from iris.testing.calls import Call, calls
from iris.testing.faults import Wrong

ADDED = "def drawn(a0, a1):\n    v0 = a0 + a1\n    return (v0, )\n"


def call(**changes: Any) -> Call:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    options = {
        "buffers": frozenset(("a0",)),
        "named": 1,
        "tune": False,
        "device": "interp",
        "layouts": {"a0": "", "a1": ""},
    }
    return Call(ADDED, [{"a0": x, "a1": -x}, {"a0": x, "a1": x}], **{**options, **changes})


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls())
def test_calls_return_what_the_graph_does(drawn: Call) -> None:
    drawn.check()


def test_a_result_of_other_arguments_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = iris.jit

    def remembering(function: Any, **options: Any) -> Any:
        compiled, results = compile_(function, **options), []

        def called(*arguments: Any, **named: Any) -> Any:
            results.append(results[0] if results else compiled(*arguments, **named))
            return results[-1]

        return called

    for buffers in (frozenset(), frozenset(("a1",))):
        call(buffers=buffers).check()
    monkeypatch.setattr(iris, "jit", remembering)
    with pytest.raises(Wrong, match="v0 = a0"):
        call().check()
