"""Texts of whole kernels, beside the IR they come from.

`IRIS_UPDATE=1` writes them anew, to be read and committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iris.codegen import emit
from iris.ir import parse, to_text, verify
from iris.ir.control import Func
from iris.testing.texts import shaped
from metal_check import complaints

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.iris"))
COLUMNS = 100


def kernel(text: str) -> Func:
    module = parse(text)
    verify(module)
    (function,) = module
    assert isinstance(function, Func)
    return function


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden(path: Path) -> None:
    function = kernel(path.read_text())
    text = emit(shaped(function)).text
    expected = path.with_suffix(".metal")
    if os.environ.get("IRIS_UPDATE") == "1":
        expected.write_text(text)
    assert text == expected.read_text()
    assert complaints(text) == []
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_the_text_form_of_the_ir_changes_nothing(path: Path) -> None:
    function = kernel(path.read_text())
    assert emit(kernel(to_text(shaped(function)))) == emit(shaped(function))


def test_every_golden_text_has_its_ir() -> None:
    texts = {p.stem for p in (Path(__file__).parent / "golden").glob("*.metal")}
    assert texts == {p.stem for p in GOLDEN}
