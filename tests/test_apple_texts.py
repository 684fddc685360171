"""What `make texts` does on a Mac, with a compiler that answers in place of Apple's."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import apple_texts
from iris.codegen.language import Language
from iris.codegen.languages.mlx import MLX
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.runtime import devices
from iris.runtime.interpreters import Interpreter
from texts_of_tests import Texts

# Refuses texts with a word in them, and version 3.1 for texts with fences.
COMPILER = """
import sys
if "--version" in sys.argv:
    sys.exit(0)
flag, exact, _, path, _, made = sys.argv[2:]
text = open(path).read()
fences = "atomic_thread_fence" in text
assert flag == ("-std=metal3.2" if fences else "-std=metal3.1"), flag
assert exact == "-fno-fast-math"
assert text.startswith("#include <metal_stdlib>")
if sys.argv[1] in text:
    sys.exit(f"error: {sys.argv[1]} is not known")
open(made, "w").close()
"""


class Broken(Interpreter):
    """A GPU on which nothing runs."""

    def launch(self, *_: Any) -> None:
        raise AssertionError("the compiler is asked without it")


@pytest.fixture
def compiler(tmp_path: Path) -> list[str]:
    path = tmp_path / "metal.py"
    path.write_text(COMPILER)
    return [sys.executable, str(path)]


def test_all_texts_compile(compiler: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    texts = [*apple_texts.golden(), *apple_texts.random(8)]
    assert len(texts) > 20
    assert apple_texts.main(texts, [*compiler, "no such word"], ["false"]) == 0
    assert capsys.readouterr().out == f"{len(texts)} of {len(texts)} texts compile\n"


def test_examples_have_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    names = "gemm_bias_gelu.py", "first_ir.py"  # of a graph, and of what launches nothing
    for name in names:
        shutil.copy(apple_texts.ROOT / "examples" / name, tmp_path / "examples")
    monkeypatch.setattr(apple_texts, "ROOT", tmp_path)
    monkeypatch.setitem(devices.DEVICES, "broken", Broken)
    monkeypatch.setenv("IRIS_DEVICE", "broken")
    assert ["kernel void" in one.text for one in apple_texts.examples()]


@pytest.mark.softmetal
def test_softmetal_holds_them_to_apples_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert apple_texts.strict(apple_texts.random(8)) == 0
    assert " texts compile\n" in capsys.readouterr().out
    sources = apple_texts.random(2)
    wrong = replace(sources[0], text=sources[0].text + "int f(long long x) { return 1; }\n")
    (said,) = apple_texts.against_rules([wrong, sources[1]])
    assert "'long long' is not supported in Metal" in said


def test_a_text_that_does_not(compiler: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "simdgroup_multiply_accumulate"
    assert apple_texts.main(apple_texts.golden(), [*compiler, wrong], ["false"]) == 1
    said = capsys.readouterr().out
    assert "error: simdgroup_multiply_accumulate is not known" in said
    assert "kernel void" in said and " texts compile" in said


def test_no_compiler_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert apple_texts.main([], ["no-such-xcrun", "metal"], ["false"]) == 1
    assert "needs a Mac with Xcode" in capsys.readouterr().err


def test_the_toolchain_is_downloaded(tmp_path: Path) -> None:
    path = tmp_path / "metal"
    download = ["sh", "-c", f"printf '#!/bin/sh\\n' > {path}; chmod +x {path}"]
    assert apple_texts.found([str(path)], download)


class Emitted(NamedTuple):
    """A kernel whose text is known."""

    text: Source
    language: Language = MSL


@pytest.mark.softmetal
def test_texts_that_tests_emit_are_held_to_them() -> None:
    (first, *_) = apple_texts.golden()
    wrong = replace(first, text=first.text + "int f(long long x) { return 1; }\n")
    body = replace(first, text="a body for MLX")
    texts = Texts(lambda kernel: kernel.text)
    for kernel in (Emitted(first), Emitted(wrong), Emitted(wrong), Emitted(body, MLX)):
        assert texts.of(kernel) is kernel.text
    (said,) = texts.refused()
    assert "'long long' is not supported in Metal" in said
    again = Texts(lambda kernel: kernel.text)
    again.of(Emitted(wrong))
    assert again.refused() == []  # it was told once
