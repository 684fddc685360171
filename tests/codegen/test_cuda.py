"""The other language: NVIDIA's compiler takes the same kernels as CUDA C++."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from iris.codegen import emit
from iris.codegen.languages.cuda import CUDA
from iris.ir import parse
from iris.ir.control import Func
from iris.testing.texts import shaped
from nvrtc import complaints

KERNELS = sorted((Path(__file__).parent / "golden").glob("*.iris"))
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="NVIDIA's compiler is not for it")
MSL_WORDS = ("threadgroup", "device ", "thread ", "simdgroup_", "metal", "[[", "uchar", "float4")


def text_of(path: Path) -> str:
    (function,) = parse(path.read_text())
    assert isinstance(function, Func)
    return emit(shaped(function), CUDA).text


@ON_LINUX
@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_the_compiler_takes_a_kernel(path: Path) -> None:
    assert complaints(text_of(path), "--fmad=false") == ""


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_no_word_of_metal_is_left(path: Path) -> None:
    text = text_of(path)
    kernel = re.sub(r"//.*", "", text[text.index('extern "C"') :])
    assert [word for word in MSL_WORDS if word in kernel] == []


@ON_LINUX
def test_the_compiler_refuses_what_is_wrong() -> None:
    text = text_of(KERNELS[0])
    assert "undefined" in complaints(text.replace("blockIdx", "blockIndex"))
