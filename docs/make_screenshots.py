"""Writes docs/pictures/*.webp: the page that `iris view` makes, and commands in a terminal.

python docs/make_screenshots.py
"""

from __future__ import annotations

import html
import importlib.util
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from iris.compiler.compilation import METAL_PIPELINE
from iris.ir import parse, to_text
from iris.passes import Pipeline, run

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/pictures"
WIDTH, HEIGHT = 1280, 760
# By the name of the picture: whose page, where in it, light or dark.
SHOTS = {
    "changes": ("attention", "#in=attention&pass=18&show=changes&value=%25scores", "light"),
    "memory": ("attention", "#in=attention&pass=33&show=memory", "dark"),
    "layouts": ("attention", "#in=attention&pass=18&show=layouts", "light"),
    "overview": ("attention", "#in=attention&show=overview", "light"),
    "metal": ("attention", "#in=attention&show=metal", "dark"),
    "graph": ("block", "#in=block&pass=9&show=overview", "light"),
}
# By the name of the picture: a command in a terminal, and what is typed when it asks.
TERMINALS = {
    "step": ("iris step reverse.iris", ["b 22", "c", "p %6", "c", "p %9", "thread 31", "p %9"]),
    "emit": ("iris emit reverse.iris", []),
}
COLOURS = {"90": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff"}
COLOURS |= {"35": "#d2a8ff", "36": "#56d4dd"}
#: A picture in fewer bytes, by the browser.
AS_WEBP = """async (url) => {
  const bitmap = await createImageBitmap(await (await fetch(url)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.8 });
  return new Uint8Array(await blob.arrayBuffer()).toBase64();
}"""


def compilations() -> dict[str, Any]:
    """The compiled examples that the pictures show, by name."""
    attention = _load("flash_attention").attention
    q = np.zeros((2, 64, 32), np.float32)
    constants = {"D": 32, "BQ": 16, "BK": 32, "causal": False}
    script = _load("transformer_block")
    p = script.parameters(64, np.random.default_rng(0))
    return {
        "attention": attention.lower(q, q, q, q.copy(), 64, 0.1, grid=(4, 2), **constants),
        "block": script.block.lower(np.zeros((2, 32, 64), np.float32), p, 4),
    }


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def terminal(command: str, typed: list[str], folder: str) -> str:
    """A page with what a terminal shows of a command."""
    own, other = pty.openpty()
    words = [sys.executable, "-m", "iris.tools.cli", *shlex.split(command)[1:]]
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT / "src")}
    running = subprocess.Popen(
        words, stdin=other, stdout=other, stderr=other, cwd=folder, env=environment
    )
    os.close(other)
    said = ""
    with suppress(OSError):  # which is how the end is told
        while part := os.read(own, 4096).decode():
            said += part
            if said.endswith("(step) ") and typed:
                os.write(own, f"{typed.pop(0)}\n".encode())
            elif said.endswith("(step) "):
                break
    running.kill()
    running.wait()
    text = html.escape(f"$ {command}\n{said}".replace("\r", ""), quote=False)
    text = re.sub(r"\x1b\[0m", "</span>", text)
    text = re.sub(r"\x1b\[(\d+)m", lambda m: f'<span style="color:{COLOURS[m[1]]}">', text)
    style = "background:#0d1117; color:#e6edf3; font:14px/1.45 'DejaVu Sans Mono'; padding:16px;"
    style += "margin:0; display:inline-block; width:100ch; white-space:pre-wrap"
    return f'<pre style="{style}">{text.rstrip()}</pre>'


def racing() -> str:
    """Metal IR that reverses a row in place, without the barrier that it needs."""
    text = (ROOT / "tests/programs/write-after-read.iris").read_text(encoding="utf-8")
    launch, _, program = text.partition("\n\n")
    passes = tuple([p for p in METAL_PIPELINE if p.name != "insert-barriers"])
    return f"{launch}\n\n{to_text(run(parse(program), Pipeline(passes)))}"


def main() -> None:
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        for name, compilation in compilations().items():
            compilation.to_html(Path(folder) / f"{name}.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for picture, (name, where, scheme) in SHOTS.items():
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme
            )
            page.goto(f"file://{folder}/{name}.html{where}")
            _keep(page, page.screenshot(), f"viewer-{picture}")
            page.close()
        (Path(folder) / "reverse.iris").write_text(racing(), encoding="utf-8")
        for picture, (command, typed) in TERMINALS.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_content(terminal(command, typed, folder))
            _keep(page, page.locator("pre").screenshot(), f"terminal-{picture}")
            page.close()
        browser.close()


def _keep(page: Any, shot: bytes, name: str) -> None:
    small = page.evaluate(AS_WEBP, f"data:image/png;base64,{b64encode(shot).decode()}")
    (FOLDER / f"{name}.webp").write_bytes(b64decode(small))


if __name__ == "__main__":
    main()
