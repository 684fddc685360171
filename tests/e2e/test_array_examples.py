"""The examples of functions of arrays on every device, on Metal in several orders of threads: they
check their own results.  `iris step` would show what the interpreters store.

How a kernel is cut up goes with how many simdgroups it then gets, so these do not run with other
numbers of them as well, as kernels of the tile language do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from on_metal import METAL, SEEDS, order
from shown_stores import remaking_arrays
from support import ARRAY_EXAMPLES, load

DEVICES = ["interp", "interp:metal", pytest.param(METAL, marks=pytest.mark.metal)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device of calls that name none."""
    name: str = request.param
    monkeypatch.setenv("IRIS_DEVICE", name)
    return name


@pytest.mark.parametrize("example", ARRAY_EXAMPLES, ids=lambda path: path.stem)
def test_the_results_are_right(example: Path, device: str) -> None:
    module = load(example)
    if device != METAL:
        with remaking_arrays() as remade:
            module.main()
        assert remade.count > 10
        return
    for seed in SEEDS:
        order(seed)
        module.main()
