"""The examples of functions of arrays on every device, on Metal in several orders of threads: they
check their own results.  `iris step` would show what the interpreters store.

How a kernel is cut up goes with how many simdgroups it then gets, so these do not run with other
numbers of them as well, as kernels of the tile language do.

A function is traced, fused and explained once for all devices with one target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from iris.compiler.array_compilation import ArrayCompilation
from iris.targets import Target
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


@cache
def loaded(example: Path) -> ModuleType:
    return load(example)


@pytest.fixture(autouse=True, scope="module")
def explained_once() -> Iterator[None]:
    """Keep what examples print of the passes for when they run again."""
    with pytest.MonkeyPatch.context() as patch:
        for made in (ArrayCompilation.stages, ArrayCompilation.why):
            patch.setattr(ArrayCompilation, made.func.__name__, property(kept(made.func)))
        yield


def kept(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compute a property once for all compilations of the same trace."""
    known: dict[tuple[int, Target], tuple[ArrayCompilation, Any]] = {}

    def get(compilation: ArrayCompilation) -> Any:
        key = id(compilation.traced), compilation._target
        if key not in known:  # with the compilation, without which an id could come again
            known[key] = compilation, made(compilation)
        return known[key][1]

    return get


@pytest.mark.parametrize("example", ARRAY_EXAMPLES, ids=lambda path: path.stem)
def test_the_results_are_right(example: Path, device: str) -> None:
    module = loaded(example)
    if device != METAL:
        with remaking_arrays() as remade:
            module.main()
        assert remade.count > 10
        return
    for seed in SEEDS:
        order(seed)
        module.main()
