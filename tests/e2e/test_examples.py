"""The examples at every level, and on Metal: they check their own results, too."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from every_level import EveryLevel
from on_metal import OnMetal
from support import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


DEVICES = [
    pytest.param(EveryLevel, id=EveryLevel.name),
    pytest.param(OnMetal, id=OnMetal.name, marks=pytest.mark.metal),
]


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_levels_agree(example: Path, device: None) -> None:
    spec = importlib.util.spec_from_file_location(example.stem, example)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
