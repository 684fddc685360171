"""Compilations to look at, made once; and a browser to look with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import Compilation
from support import ROOT, load

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def attention() -> Compilation:
    kernel = load(ROOT / "examples/flash_attention.py").attention
    q = np.zeros((2, 64, 32), np.float32)
    constants = {"D": 32, "BQ": 16, "BK": 32, "causal": False}
    lowered: Compilation = kernel.lower(q, q, q, q.copy(), 64, 0.1, grid=(4, 2), **constants)
    return lowered


@pytest.fixture(scope="session")
def block() -> ArrayCompilation:
    script = load(ROOT / "examples/transformer_block.py")
    p = script.parameters(64, np.random.default_rng(0))
    lowered: ArrayCompilation = script.block.lower(np.zeros((2, 32, 64), np.float32), p, 4)
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
