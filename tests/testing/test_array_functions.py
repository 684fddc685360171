"""Random functions of arrays: NumPy returns what the graph does that Iris traces."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend.arrays import indexing
from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS, name_of
from iris.testing import array_draft, array_functions
from iris.testing.choices import Choices
from iris.testing.numpy_calls import call_of, callees
from support import counts


@settings(max_examples=counts(200, 10000))
@given(array_functions.functions())
def test_numpy_does_what_the_graph_does(function: array_functions.Function) -> None:
    function.check()


def drawn(number: int) -> list[array_functions.Function]:
    rng = np.random.default_rng(0)
    size = array_functions.BYTES
    return [array_functions.Function(Choices(rng.bytes(size))) for _ in range(number)]


def test_functions_vary() -> None:
    found, dtypes = Counter[str](), set()
    calls = ("where=", "keepdims", "einsum", "np.pad", "set_at", "add_at", "of_halves")
    parts = ("[", "None", "...", *calls)
    for function in drawn(counts(100, 1000)):
        found.update(part for part in parts if part in function.text)
        dtypes |= {value.dtype.kind for value in function.values.values()}
    assert min(found[part] for part in parts) >= 5, found
    assert dtypes == {"b", "i", "u", "f"}


# What no line calls as it calls others, and why.
UNCALLED = {
    "np.einsum": "lines of products call it",
    **dict.fromkeys(("np.where", "np.take_along_axis"), "lines that choose call them"),
    **dict.fromkeys(
        (
            "np.arange",
            "np.empty",
            "np.eye",
            "np.full",
            "np.identity",
            "np.ones",
            "np.tri",
            "np.zeros",
        ),
        "they are told of a traced array by like= alone, and need none else",
    ),
    **dict.fromkeys(
        ("np.shape", "np.ndim", "np.size", "np.result_type", "np.iscomplexobj", "np.isrealobj"),
        "they give no array",
    ),
    "np.linspace": "forms call it",
    "np.empty_like": "new memory holds anything",
    "np.row_stack": "NumPy warns of it",
}


def test_every_function_is_called() -> None:
    """Each is called as lines call it, until NumPy and Iris take a call."""
    known = {name_of(f) for f in FUNCTIONS} | {name_of(f) for f in UFUNCS["__call__"]}
    known |= {f"{name_of(f)}.{m}" for m, rules in UFUNCS.items() for f in rules if m != "__call__"}
    rng = np.random.default_rng(0)
    drafts = drawn(40)

    def is_taken(callee: object) -> bool:
        for draft in drafts * 10:
            values, lines, exact = dict(draft.values), len(draft.lines), list(draft.exact)
            draft.choices = Choices(rng.bytes(array_functions.BYTES))
            draft._try(call_of(draft, callee))
            is_new = len(draft.lines) > lines
            draft.values, draft.lines, draft.exact = values, draft.lines[:lines], exact
            if is_new:
                return True
        return False

    listed = [callee for some in callees() for callee in some]
    taken = {callee.text for callee in listed if is_taken(callee)}
    assert known - taken == UNCALLED.keys() & known, (known - taken) ^ (UNCALLED.keys() & known)


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that go backwards start where they end."""

    def forwards(entry: slice, size: int) -> tuple[int, int, int]:
        found = range(*entry.indices(size))
        return min(found, default=0), abs(found.step), len(found)

    monkeypatch.setattr(indexing, "_range", forwards)
    with pytest.raises(AssertionError, match=r"def drawn\(a0"):
        for function in drawn(200):
            function.check()


@pytest.mark.parametrize("text", ["np.exp(a0)", "np.exp(a0, dtype=np.float32)"])
def test_numbers_are_those_of_64_bits_rounded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor where NumPy's `exp` of 32 bits is off by a unit."""
    evaluated = array_draft._evaluated

    def off(text: str, values: Any) -> Any:
        found = evaluated(text, values)
        return np.nextafter(found, np.float32(9)) if found.dtype == np.float32 else found

    function = next(f for f in drawn(20) if f.values["a0"].dtype == np.float32)
    monkeypatch.setattr(array_draft, "_evaluated", off)
    function._try(array_draft.Line(text, any_call=True))
    expected = np.exp(function.values["a0"].astype(np.float64)).astype(np.float32)
    assert np.array_equal([*function.values.values()][-1], expected)
