"""Calls of functions of arrays, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import iris
from iris.testing.calls import Call, Trees, calls
from iris.testing.choices import Choices
from iris.testing.faults import Wrong
from iris.testing.nests import Pair, filled, leaves_of, nest, places, written

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


def test_results_in_another_tree_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = iris.jit
    trees = Trees({"w": "a1", "b": ["a0"]}, {"z": "r0"})
    call(trees=trees).check()
    for otherwise in (lambda found: [found["z"]], lambda found: {"y": found["z"]}):

        def returning(function: Any, change: Any = otherwise, **options: Any) -> Any:
            compiled = compile_(function, **options)
            return lambda *given, **named: change(compiled(*given, **named))

        monkeypatch.setattr(iris, "jit", returning)
        with pytest.raises(Wrong, match=r"return \{'z': r0\}"):
            call(trees=trees).check()


def test_arguments_that_change_places_in_a_tree_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compile_ = iris.jit

    def sorting(function: Any, **options: Any) -> Any:
        compiled = compile_(function, **options)

        def called(tree: dict[str, Any], **named: Any) -> Any:
            return compiled(dict(zip(sorted(tree), tree.values(), strict=True)), **named)

        return called

    monkeypatch.setattr(iris, "jit", sorting)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = ADDED.replace("+", "-")
    with pytest.raises(Wrong, match="tree"):
        Call(
            text,
            [{"a0": x, "a1": -x}],
            frozenset(),
            0,
            False,
            "interp",
            {"a0": "", "a1": ""},
            trees=Trees({"w": "a1", "b": "a0"}, ["r0"]),
        ).check()


def test_trees_come_apart_as_they_went_together() -> None:
    kinds = set()
    for number in range(60):
        names = [f"r{n}" for n in range(1 + number % 5)]
        tree = nest(names, Choices(number.to_bytes(2, "big")))
        values = dict(zip(names, range(5), strict=False))
        assert dict(leaves_of(tree, filled(tree, values))) == values
        assert eval(written(tree), {**values, "Pair": Pair}) == filled(tree, values)
        got = {
            k: eval(text, {"tree": filled(tree, values)})
            for k, text in places(tree, "tree").items()
        }
        assert got == values
        kinds.add(type(tree))
    assert kinds >= {list, tuple, dict, Pair}
