"""The page of a script, for each language in which its kernels may be written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from iris.frontend.cuda.clang import CLANG
from iris.tools.cli import main

TRITON = """\
import numpy as np

import iris.triton as triton
import iris.triton.language as tl


@triton.jit
def sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(axis=0) * n + at, mask=at < n, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr + tl.program_id(axis=0), total)


sums[(4,)](np.ones((4, 100), np.float32), np.empty(4, np.float32), 100, BLOCK=128)
"""
THREADS = """\
import numpy as np

import iris
from iris import metal


@iris.metal.kernel(param_types={"X": "device const float*", "Out": "device float*"})
def sums(X, Out):
    held = metal.shared(64, metal.float)
    i = metal.thread_in_threadgroup_x()
    held[i] = X[metal.thread_id_x()]
    metal.barrier()
    total = 0.0
    for k in metal.range(0, 4):
        total += held[(i + k) % 64]
    Out[metal.thread_id_x()] = total


sums(np.ones(128, np.float32), np.empty(128, np.float32), grid=2, threadgroup=64)
"""
CUDA = """\
__global__ void sums(const float *x, float *out, int n) {
    __shared__ float held[64];
    float total = 0;
    for (int i = threadIdx.x; i < n; i += 64) total += x[i];
    held[threadIdx.x] = total;
    __syncthreads();
    for (int s = 32; s > 0; s /= 2) {
        if (threadIdx.x < s) held[threadIdx.x] += held[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = held[0];
}
"""
LOADS_CUDA = """\
from pathlib import Path

import numpy as np

import iris

file = iris.cuda.load(Path(__file__).with_name("sums.cu"))
file["sums"][1, 64](np.ones(1000, np.float32), np.empty(1, np.float32), 1000)
"""
# The script, and a line of its kernel with an op that this line becomes.
LANGUAGES = {
    "triton": (TRITON, "total = tl.sum(x, axis=0)", "tile.reduce"),
    "threads": (THREADS, "metal.barrier()", "metal.barrier"),
    "cuda": (LOADS_CUDA, "held[threadIdx.x] = total;", "metal.store"),
}


@pytest.fixture(scope="module", params=LANGUAGES)
def opened(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, str, str]]:
    """A page that is open, a line of the source, and an op that it becomes."""
    if request.param == "cuda" and shutil.which(CLANG) is None:
        pytest.skip(f"{CLANG} is not installed")
    text, line, op = LANGUAGES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    script, file = folder / "script.py", folder / "page.html"
    script.write_text(text)
    (folder / "sums.cu").write_text(CUDA)
    assert main(["view", "-o", str(file), str(script)]) == 0
    assert file.stat().st_size < 1e6
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(file.as_uri())
    yield page, line, op
    page.close()
    assert complaints == []


def test_every_view_of_every_stage_is_drawn(opened: tuple[Any, str, str]) -> None:
    page, _, _ = opened
    drawn = page.evaluate(
        """() => DATA.parts.flatMap((part, number) => part.stages.flatMap((_, stage) =>
          ["overview", "changes", "ir", "metal", "layouts", "memory"].map((tab) => {
            go({ in: part.name, stage, tab });
            return $("view").innerText.length;
          })))"""
    )
    assert len(drawn) > 6 * 10 and all(drawn)


def test_the_source_and_the_text_lead_to_each_other(opened: tuple[Any, str, str]) -> None:
    page, line, op = opened
    page.evaluate("""() => go({ stage: 0, tab: "ir" })""")
    page.locator("#source a.line", has_text=line).click()
    assert any(op in text for text in page.locator("#view .linked-now").all_inner_texts())
    page.locator("#source a.line").first.click()
    assert line not in page.locator("#source .linked-now").first.inner_text()
    page.locator("#view .line", has_text=op).first.click()
    assert line in page.locator("#source .linked-now").first.inner_text()


def test_search(opened: tuple[Any, str, str]) -> None:
    page, _, op = opened
    page.evaluate("""() => go({ stage: 0, tab: "ir" })""")
    page.keyboard.press("/")
    page.keyboard.type(op)
    shown = page.locator("#view .hit").count()
    assert shown and page.locator("#found").inner_text().startswith(f"{shown} line")
    page.keyboard.press("Escape")
    assert page.locator("#view .hit").count() == 0
