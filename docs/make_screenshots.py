"""Writes docs/pictures/*.webp: the page that `iris view` makes, and commands in a terminal; and
top.svg, the inspector of `iris top`.

python docs/make_screenshots.py
"""

from __future__ import annotations

import asyncio
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

from iris.compiler.pipelines import METAL_PIPELINE
from iris.ir import parse, to_text
from iris.passes import Pipeline, run
from iris.tools import cli

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/pictures"
WIDTH, HEIGHT = 1280, 760
# By the name of the picture: whose page, where in it, light or dark.
SHOTS = {
    "changes": (
        "attention",
        "#in=attention&pass=assign-layouts&show=changes&value=%25scores",
        "light",
    ),
    "memory": ("attention", "#in=attention&pass=insert-barriers&show=memory", "dark"),
    "layouts": ("attention", "#in=attention&pass=assign-layouts&show=layouts", "light"),
    "overview": ("attention", "#in=attention&show=overview", "light"),
    "metal": ("attention", "#in=attention&show=metal", "dark"),
    "run": ("run", "#show=run&step=52&value=%25scores", "light"),
    "graph": ("block", "#in=block&pass=fuse&show=overview", "light"),
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

#: What the inspector is shown with: blocks of a transformer, again and again.
TRAIN = f"""\
import sys
import numpy as np
sys.path.append("{ROOT / "examples"}")
from transformer_block import block, parameters

p = parameters(64, np.random.default_rng(0))
x = np.zeros((2, 32, 64), np.float32)
for step in range(1000):
    block(x, p, 4)
    if step % 10 == 0:
        print("step", step)
"""


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


def numbered(where: str, compilation: Any) -> str:
    """Where in a page, with the number of a pass in place of its name."""
    names = [] if compilation is None else [stage.name for stage in compilation.stages]
    return re.sub("pass=([a-z-]+)", lambda m: f"pass={names.index(m[1])}", where)


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


def record(attention: Any, folder: Path) -> None:
    """The page of a run of the kernel, as it was traced."""
    arrays = [f"# argument %{name}: f32[2, 64, 32] seed=1" for name in ("Q", "K", "V", "Out")]
    head = ["# grid: 4, 2", *arrays, "# argument %S: 64", "# argument %scale: 0.1"]
    text = to_text(attention.stages[0].module, locations=True)
    (folder / "run.iris").write_text("\n".join([*head, text]))
    page, file = str(folder / "run.html"), str(folder / "run.iris")
    cli.main(["step", "--html", page, "--program", "1", file])


async def inspect(script: Path) -> None:
    """The inspector, once the script has launched enough."""
    from iris.tools.launch_log import LaunchLog
    from iris.tools.script_process import ScriptProcess
    from iris.tools.top_app import Inspector

    run = ScriptProcess(str(script), [], LaunchLog(), [])
    inspector = Inspector(run)
    async with inspector.run_test(size=(116, 30)) as pilot:
        while len(run.output or []) < 20:
            await pilot.pause(0.1)
        picture = inspector.export_screenshot(title="iris top train.py")
    (FOLDER / "top.svg").write_text(picture, encoding="utf-8")
    run.stop()


def main() -> None:
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        made = compilations()
        for name, compilation in made.items():
            compilation.to_html(Path(folder) / f"{name}.html")
        record(made["attention"], Path(folder))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for picture, (name, where, scheme) in SHOTS.items():
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme
            )
            page.goto(f"file://{folder}/{name}.html{numbered(where, made.get(name))}")
            _keep(page, page.screenshot(), f"viewer-{picture}")
            page.close()
        (Path(folder) / "reverse.iris").write_text(racing(), encoding="utf-8")
        for picture, (command, typed) in TERMINALS.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_content(terminal(command, typed, folder))
            _keep(page, page.locator("pre").screenshot(), f"terminal-{picture}")
            page.close()
        browser.close()
    with TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(TRAIN)
        os.environ.setdefault("IRIS_DEVICE", "softmetal")
        asyncio.run(inspect(script))


def _keep(page: Any, shot: bytes, name: str) -> None:
    small = page.evaluate(AS_WEBP, f"data:image/png;base64,{b64encode(shot).decode()}")
    (FOLDER / f"{name}.webp").write_bytes(b64decode(small))


if __name__ == "__main__":
    main()
