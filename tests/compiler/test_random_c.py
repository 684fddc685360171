"""Random functions of C, translated from a CUDA file, against the code that clang makes of them for
this machine."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import iris
from iris.frontend.cuda.clang import CLANG
from random_c import THREADS, drawn
from support import counts

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")


def compiled_here(text: str, folder: Path) -> ctypes.CDLL:
    """The functions of a text for this machine, where integers wrap as on a GPU."""
    library = folder / "functions.so"
    command = [CLANG, "-x", "c++", "-", "-shared", "-fPIC", "-O1", "-fwrapv", "-w", "-o"]
    text = f'#define __device__ extern "C"\n{text}'
    subprocess.run([*command, str(library)], input=text, text=True, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("seed", range(counts(2, 50)))
def test_functions_compute_what_clangs_code_does(seed: int, tmp_path: Path) -> None:
    file = drawn(seed)
    source = tmp_path / "functions.cu"
    source.write_text(file.functions + file.kernels)
    there, here = iris.cuda.load(source), compiled_here(file.functions, tmp_path)
    a, b, c = file.arguments
    for name in file.names:
        out = np.empty(THREADS, np.int32)
        there[f"k{name}"][1, THREADS](a, b, c, out, device="interp:metal")
        function = getattr(here, name)
        expected = [
            function(int(x), int(y), ctypes.c_uint32(int(z)))
            for x, y, z in zip(a, b, c, strict=True)
        ]
        np.testing.assert_array_equal(out, expected, file.functions)
