"""Kernels in the styles of packages give what Triton's interpreter gave."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from support import load
from zoo.oracle import are_equal, arrays_of
from zoo.written import MODULES, case

FOLDER = Path(__file__).with_name("written")
#: By module, kernel and array: those that a kernel changes.
RECORDED = np.load(Path(__file__).with_name("written.npz"))
KERNELS = sorted({name.split(".", 2)[0] + "." + name.split(".", 2)[1] for name in RECORDED.files})
LEVELS = ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]


@cache
def written(name: str, folder: Path) -> ModuleType:
    """A module of the kernels, with Iris in the place of Triton."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    text = re.sub("^import triton$", "import iris.triton as triton", text, flags=re.MULTILINE)
    text = re.sub(r"^(import|from) triton\.", r"\1 iris.triton.", text, flags=re.MULTILINE)
    script = folder / f"{name}_kernels.py"
    script.write_text(text, encoding="utf-8")
    return load(script)


@pytest.mark.parametrize("device", LEVELS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_gives_what_triton_gave(
    kernel: str, device: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    part, name = kernel.split(".")
    module = written(part, tmp_path_factory.getbasetemp())
    grid, passed = case(module, name)
    with np.errstate(all="ignore"):
        getattr(module, name)[grid](**passed, device=device)
    given = dict(arrays_of(passed))
    recorded = [n for n in RECORDED.files if n.startswith(f"{kernel}.")]
    for array in recorded:
        assert are_equal(given[array.removeprefix(f"{kernel}.")], RECORDED[array]), array


def test_every_kernel_is_recorded(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    cases = {f"{part}.{name}" for part in MODULES for name in written(part, folder).CASES}
    assert cases == set(KERNELS)
