"""Every text that the emitter is known to write compiles, also where address spaces are real."""

from __future__ import annotations

from pathlib import Path

import pytest
from msl import Library, check

from support import ROOT

TEXTS = sorted((ROOT / "tests/codegen/golden").glob("*.metal"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_text_compiles(path: Path) -> None:
    text = path.read_text()
    assert check(text) is None
    library = Library.compile(text)
    (name,) = library.names
    assert f"kernel void {name}(" in text
    assert f"max_total_threads_per_threadgroup({library.max_threads(name)})" in text
