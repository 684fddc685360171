"""Random kernels in Triton's language give what Triton gave on an NVIDIA GPU."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from support import counts, load
from zoo.drawn import OUTPUTS, PROGRAMS, arguments, module
from zoo.oracle import are_equal
from zoo.recorded import SEED

#: By kernel and output; Triton refuses a few of the kernels.
RECORDED = np.load(Path(__file__).with_name("recorded.npz"))
KERNELS = range(counts(60, 330))
TAKEN = [number for number in KERNELS if f"k{number}.X" in RECORDED]
DEVICES = [("interp", TAKEN), ("interp:metal", TAKEN[::6])]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    text = module(KERNELS, SEED)
    text = text.replace("import triton\n", "import iris.triton as triton\n")
    text = text.replace("import triton.language", "import iris.triton.language")
    script = tmp_path_factory.mktemp("drawn") / "drawn_kernels.py"
    script.write_text(text)
    return load(script)


@pytest.mark.parametrize(
    ("device", "number"), [(device, n) for device, numbers in DEVICES for n in numbers]
)
def test_a_kernel_gives_what_triton_gave(drawn: ModuleType, device: str, number: int) -> None:
    name = f"k{number}"
    passed = arguments(name, SEED)
    with np.errstate(all="ignore"):
        getattr(drawn, name)[(PROGRAMS,)](**passed, device=device)
    for output in OUTPUTS:
        assert are_equal(passed[output], RECORDED[f"{name}.{output}"]), output


def test_most_kernels_are_recorded() -> None:
    assert len(RECORDED.files) > 300 * len(OUTPUTS)
