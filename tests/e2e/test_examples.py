"""The examples at every level, and on Metal: they check their own results, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from every_level import EveryLevel
from iris import knobs
from on_metal import OnMetal
from shown_stores import remaking_arrays
from support import ARRAY_EXAMPLES, EXAMPLES, load

DEVICES = [
    pytest.param(EveryLevel, id=EveryLevel.name),
    pytest.param(OnMetal, id=OnMetal.name, marks=pytest.mark.metal),
]
OF_KERNELS = [example for example in EXAMPLES if example not in ARRAY_EXAMPLES]


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize("example", OF_KERNELS, ids=lambda path: path.stem)
def test_the_levels_agree(example: Path, device: None) -> None:
    with remaking_arrays() as remade:  # of the interpreters
        load(example).main()
    shows = knobs.device() == EveryLevel.name and example.stem != "first_ir"  # which runs passes
    assert remade.count > 10 or not shows
