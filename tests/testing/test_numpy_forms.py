"""Single expressions of NumPy's in forms and with keywords that few programs use."""

from __future__ import annotations

import inspect
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from iris.frontend.arrays import selection
from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS, name_of
from iris.testing import numpy_forms
from iris.testing.array_probe import BYTES
from iris.testing.numpy_calls import call_of, callees
from iris.testing.numpy_forms import Form, Forms
from support import counts


@settings(max_examples=counts(15, 2000))
@given(numpy_forms.forms())
def test_iris_does_what_numpy_does(forms: Forms) -> None:
    forms.check()


def drawn(number: int) -> list[Form]:
    rng = np.random.default_rng(0)
    return [Form(rng.bytes(BYTES)) for _ in range(number)]


# Keywords that no call has, and why.
UNDRAWN = {
    "out": "`written` calls have it",
    "subok": "it asks for subclasses, of which no array is one",
    **dict.fromkeys(("min", "max"), "`a_min` and `a_max` are np.clip's own"),
    **dict.fromkeys(("x", "y"), "they are arrays: np.where and np.trapezoid are called by others"),
}


def test_every_keyword_is_drawn() -> None:
    """Each keyword that Iris takes of a function that is called."""
    known = {callee.text: callee for some in callees() for callee in some}
    undrawn, rules = set(), [("", FUNCTIONS)]
    rules += [("" if m == "__call__" else f".{m}", some) for m, some in UFUNCS.items()]
    for method, some in rules:
        for function, rule in some.items():
            callee = known.get(f"{name_of(function)}{method}")
            for p in inspect.signature(rule).parameters.values() if callee else ():
                if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                    undrawn |= {p.name} - {*callee.required, *callee.options}
    assert undrawn == UNDRAWN.keys(), undrawn ^ UNDRAWN.keys()
    (draft,) = drawn(1)
    for callee, name in numpy_forms.keywords():
        assert f"{name}=" in call_of(draft, callee, name).text


def test_forms_vary() -> None:
    """Each form is drawn, and mostly one that NumPy takes."""
    parts = ("operator.i", "out=y", "casting=", "@", "einsum", "[*a0]", "np.int8", "histogram")
    found, taken = Counter[str](), 0
    some = drawn(1500)
    for form in some:
        found.update(part for part in parts if part in form.expression.text)
        taken += numpy_forms._refusal(form.expression) is None
    assert min(found[part] for part in parts) >= 5, found
    assert taken > 0.6 * len(some)


def _posinf_or_most(x, copy=True, nan=0.0, posinf=None, neginf=None):  # type: ignore[no-untyped-def]
    return _NAN_TO_NUM(x, copy, nan, posinf or None, neginf)


_NAN_TO_NUM = selection.nan_to_num


def test_a_forgotten_keyword_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement 0 for inf is taken for none."""
    monkeypatch.setitem(FUNCTIONS, np.nan_to_num, _posinf_or_most)
    draft = Form(bytes(BYTES))
    x = np.array([np.inf, 1], np.float32)
    draft.expression = numpy_forms.Expression("np.nan_to_num(a0, posinf=0.0)", {"a0": x})
    with pytest.raises(AssertionError, match="nan_to_num"):
        draft.check()


def test_what_numpy_refuses_to_cast_must_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def added(x1, x2, dtype=None):  # type: ignore[no-untyped-def]
        return x1

    monkeypatch.setitem(UFUNCS["__call__"], np.add, added)
    with pytest.raises(AssertionError, match="NumPy refuses it: Cannot cast"):
        for form in drawn(3000):
            is_call = form.must_refuse and "np.add(a0, a1, dtype" in form.expression.text
            if is_call and numpy_forms._refusal(form.expression) is not None:
                form.check()
