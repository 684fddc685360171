"""The text of IR keeps modules, and what breaks a rule of the IR is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from iris.ir import literal
from iris.ir.text.parser import _Parser
from iris.ir.types import DType
from iris.ir.verify import _Verifier
from iris.testing import module_texts
from iris.testing.module_texts import ModuleText
from support import counts


@settings(max_examples=counts(10, 1000), deadline=None, suppress_health_check=list(HealthCheck))
@given(module_texts.modules())
def test_texts_keep_modules_and_broken_rules_are_refused(module: ModuleText) -> None:
    module.check()


_TEXT = literal.text


def _every_nan_alike(bits: int, dtype: DType) -> str:
    text = _TEXT(bits, dtype)
    return "nan" if text.startswith("nan") else text


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "error"),
    [
        (literal, "text", _every_nan_alike, "read back"),
        (_Verifier, "convergence", lambda self, function: None, "must run it together"),
        (_Parser, "_location", lambda self, line: None, "read back from None|expected"),
    ],
)
def test_mistakes_are_found(
    owner: Any, name: str, wrong: Any, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)

    @seed(0)
    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(module_texts.modules())
    def check(module: ModuleText) -> None:
        module.check()

    with pytest.raises(Exception, match=error):
        check()
