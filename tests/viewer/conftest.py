"""Compilations to look at, made once; and a browser to look with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris import nn
from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import Compilation
from iris.ir import to_text
from iris.tools.cli import main
from races import RACE
from support import ROOT, load

SUM = """\
# grid: 1
# argument %X: f32[4] data=[1.0, 2.0, 3.0, 4.0]
func tile @sums(%X: ptr<f32>) {
  %zero: f32 = constant 0.0
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c4: i32 = constant 4
  %sum: f32 = for %c0, %c4, %c1 (%i: i32, %acc: f32 = %zero) {
    %x: f32 = tile.load %X, %i
    %next: f32 = add %acc, %x at "SOURCE":2
    yield %next
  }
  tile.store %X, %c0, %sum
  return
}
"""
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def attention() -> Compilation:
    kernel = load(ROOT / "examples/flash_attention.py").attention
    q = np.zeros((2, 64, 32), np.float32)
    constants = {"D": 32, "BQ": 16, "BK": 32, "causal": False}
    lowered: Compilation = kernel.lower(q, q, q, q.copy(), 64, 0.1, grid=(4, 2), **constants)
    return lowered


@iris.jit(static_argnames="heads")
def gated_block(x, p, heads):
    """A block of LLaMA: positions turn queries and keys, and the perceptron has a gate."""
    batch, places, size = x.shape

    def by_head(y):
        return y.reshape(batch, places, heads, size // heads).swapaxes(1, 2)

    def rotated(y):
        a, b = y[..., : size // heads // 2], y[..., size // heads // 2 :]
        turned = (a * p["cos"] - b * p["sin"], a * p["sin"] + b * p["cos"])
        return np.concatenate(turned, axis=-1)

    h = nn.rms_norm(x, p["norm1"])
    q, k, v = (by_head(h @ p[name]) for name in "qkv")
    found = nn.attention(rotated(q), rotated(k), v, causal=True)
    x = x + found.swapaxes(1, 2).reshape(x.shape) @ p["out"]
    h = nn.rms_norm(x, p["norm2"])
    return x + (nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


@pytest.fixture(scope="session")
def block() -> ArrayCompilation:
    size, places, heads = 128, 64, 4
    p = {name: np.ones((size, size), np.float32) for name in ("q", "k", "v", "out")}
    p |= {name: np.ones((size, 4 * size), np.float32) for name in ("gate", "up")}
    p |= {name: np.ones((places, size // heads // 2), np.float32) for name in ("cos", "sin")}
    p |= {name: np.ones(size, np.float32) for name in ("norm1", "norm2")}
    p["down"] = np.ones((4 * size, size), np.float32)
    lowered: ArrayCompilation = gated_block.lower(np.ones((2, places, size), np.float32), p, heads)
    return lowered


@pytest.fixture(scope="session")
def attention_page(attention: Compilation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "attention.html"
    attention.to_html(path)
    return path


@pytest.fixture(scope="session")
def block_page(block: ArrayCompilation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "block.html"
    block.to_html(path)
    return path


def recorded(folder: Path, text: str, status: int, *arguments: str) -> Path:
    """The page that `iris step --html` writes."""
    file, page = folder / "kernel.iris", folder / "run.html"
    file.write_text(text)
    assert main(["step", "--html", str(page), *arguments, str(file)]) == status
    return page


@pytest.fixture(scope="session")
def attention_run_page(attention: Compilation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    arrays = [f"# argument %{name}: f32[2, 64, 32] seed=1" for name in ("Q", "K", "V", "Out")]
    head = ["# grid: 4, 2", *arrays, "# argument %S: 64", "# argument %scale: 0.1"]
    text = "\n".join([*head, to_text(attention.stages[0].module, locations=True)])
    return recorded(tmp_path_factory.mktemp("attention"), text, 0, "--program", "1")


@pytest.fixture(scope="session")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    source = folder / "sum.py"
    source.write_text("def sums(X):\n    total = total + load(X + i)\n")
    return recorded(folder, SUM.replace("SOURCE", str(source)), 0)


@pytest.fixture(scope="session")
def race_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("race"), RACE, 1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium: run make chromium as root")
    with sync_api.sync_playwright() as playwright:
        # As root it runs only without its sandbox.
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()
