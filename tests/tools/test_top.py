"""`iris top`: what it tells of a script's launches, with a terminal and without one."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from iris.compiler.compile_times import LISTENERS
from iris.compiler.recording import RECORDERS
from iris.runtime.devices import WATCHERS
from iris.tools.cli import main
from iris.tools.launch_log import LaunchLog
from iris.tools.script_process import ScriptProcess
from on_metal import METAL
from support import ROOT

SCRIPT = """\
import sys, time
import numpy as np
import iris

@iris.kernel
def double(X, Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2.0 * iris.load(X + at, mask=at < n), mask=at < n)

@iris.jit
def norm(x):
    return x / np.sqrt((x * x).sum())

x = iris.asarray(np.ones(64, np.float32))
out = iris.empty_like(x)
for step in range(4):
    double[2](x, out, 64, B=32)
    norm(out)
double[1](x, out, 64, B=64)
print("ran with", sys.argv[1:])
if "fail" in sys.argv:
    raise SystemExit(3)
while "wait" in sys.argv:
    time.sleep(0.01)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return file


def figures(table: str) -> dict[str, list[str]]:
    """The figures of each kernel."""
    lines = [line.split() for line in table.splitlines()]
    return {words[0]: words[1:] for words in lines if len(words) == 10 and words[1].isdigit()}


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C reaches scripts, also where a shell runs the tests in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.metal
def test_a_table_and_a_trace_without_a_terminal(
    script: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_DEVICE", METAL)
    trace = script.with_name("run.json")
    assert main(["top", "--record", str(trace), str(script), "fail"]) == 3
    said = capfd.readouterr()
    assert said.out == "ran with ['fail']\n"
    assert said.err == trace.with_suffix(".txt").read_text()
    table = figures(said.err)
    assert table["double"][0] == "5" and table["norm_div"][0] == "4"
    assert table["double"][5] == f"{5 * 2 * 4 * 64 / 1e6:.3f}"  # each reads 64 and writes 64
    assert "3 compiled, in " in said.err and "; 6 launches of what was compiled before" in said.err
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [e["name"] for e in spans if e["pid"] == METAL] == ["double", "norm_div"] * 4 + [
        "double"
    ]
    assert {e["name"] for e in spans if e["tid"] == "compile"} == {"double", "norm"}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in spans)
    # A kernel is compiled before it is first launched: the clocks are beside each other.
    compiled = next(e for e in spans if e["tid"] == "compile")
    first = next(e for e in spans if e["pid"] == METAL)
    assert compiled["ts"] + compiled["dur"] <= first["ts"]
    in_use = [e["args"]["in use"] for e in events if e["name"] == f"memory of {METAL}"]
    assert in_use[-1] == 3 * 4 * 64 or in_use[-1] == 2 * 4 * 64  # x, out and perhaps a result


def test_kernels_of_ops_that_only_the_script_knows_are_not_counted(tmp_path: Path) -> None:
    log = LaunchLog(keeps_all=True)
    text = "func metal @f(%X: ptr<f32>) {\n  mine.op %X\n  return\n}\n"
    launch = ["launch", 0, [2, 1, 1], [[64]], 0.0, 0.5, 0, 1.0]
    log.take(json.dumps([["kernel", 0, "mine", "apple-m1", "f", text], launch, launch]))
    assert figures(log.table())["f"] == ["2", "1000.000", "500.0000", *"??????"]
    assert "f is not counted: " in log.table()
    log.save_trace(tmp_path / "run.json")
    first, second = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert (first["ts"], first["dur"], first["args"]) == (0, 500_000, {"grid": [2, 1, 1]})
    assert second == first


LIBRARY = """\
import numpy as np
import iris

library = iris.metal.library('''
kernel void twice(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    x[i] = 2 * x[i];
}
''', device="softmetal")
x = np.ones(96, np.float32)
library.twice(x, threads=96, threadgroup=64)
library.twice[3, 32](x)
assert (x == 4).all()
"""


@pytest.mark.softmetal
def test_kernels_that_are_metal_text_are_timed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script, trace = tmp_path / "script.py", tmp_path / "run.json"
    script.write_text(LIBRARY)
    assert main(["top", "--record", str(trace), str(script)]) == 0
    said = capfd.readouterr().err
    launches, total, *rest = figures(said)["twice"]
    assert launches == "2" and float(total) > 0 and rest[1:] == [*"??????"]
    assert "twice is not counted: it came as Metal text" in said
    spans = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["args"]) for e in spans] == [
        ("twice", {"grid": [2, 1, 1]}),
        ("twice", {"grid": [3, 1, 1]}),
    ]


def test_ctrl_c_is_for_the_script(script: Path) -> None:
    command = [sys.executable, "-m", "iris.tools.cli", "top", str(script), "wait"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ran with ['wait']\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert error.count("KeyboardInterrupt") == 1
    assert figures(error)["double"][0] == "5"


def test_what_it_needs(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["top", "nothing.py"]) == 1
    assert "there is no script nothing.py" in capsys.readouterr().err
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.delitem(sys.modules, "iris.tools.top_app", raising=False)
    assert main(["top", str(script)]) == 1
    assert "pip install 'iris-metal[top]'" in capsys.readouterr().err


def test_nothing_is_kept_without_it() -> None:
    assert WATCHERS == RECORDERS == LISTENERS == []
    filled = "[command.filled() for command in parsers()[1].values()]"
    names = "print({'textual', 'rich'} & {*sys.modules})"
    code = f"import sys; from iris.tools.cli import parsers; {filled}; {names}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_the_inspector(script: Path) -> None:
    textual = pytest.importorskip("textual")
    from iris.tools.top_app import Inspector

    run = ScriptProcess(str(script), ["wait"], LaunchLog(), [])
    app = Inspector(run)

    def says(where: str) -> str:
        return str(app.query_one(where, textual.widgets.Static).content)

    async def until(condition: Any) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end
            await asyncio.sleep(0.05)

    async def look() -> None:
        async with app.run_test(size=(110, 32)) as pilot:
            await until(lambda: says("#launches .figures").startswith("9\n"))
            assert "script.py  runs" in says("#head") and "on interp" in says("#head")
            # A look may fall between two events of one message.
            await until(lambda: says("#cache .figures").startswith("hits 6\nmisses 3\n"))
            assert says("#memory .figures") == "no pool"
            kernels = app.query_one("#kernels", textual.widgets.DataTable)
            rows = {
                str(row[0]): list(map(str, row[1:])) for row in map(kernels.get_row, kernels.rows)
            }
            assert rows["double"][:2] == ["interp", "5"] and rows["norm_div"][:2] == ["interp", "4"]
            output = app.query_one("#output", textual.widgets.Log)
            await until(lambda: [*output.lines[:1]] == ["ran with ['wait']"])
            await pilot.press("ctrl+c")
            await until(lambda: "ended with status 130" in says("#head"))
            await pilot.press("q")

    # The browser of other tests leaves an event loop running in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, look()).result()
    assert run.stop() == 130
    assert "KeyboardInterrupt\n" in (run.output or [])


def test_in_a_terminal(script: Path) -> None:
    pytest.importorskip("textual")
    own, its = pty.openpty()
    paths = [str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    process = subprocess.Popen(
        [sys.executable, "-m", "iris.tools.cli", "top", str(script), "fail"],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    os.close(its)
    shown, is_told, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([own], [], [], 0.5)
        try:
            shown += os.read(own, 1 << 16) if ready else b""
        except OSError:  # the other end is closed
            break
        if not is_told and b"ended with status 3" in shown:
            os.write(own, b"q")
            is_told = True
    os.close(own)
    process.kill()
    assert process.wait() == 3
    # Its output and the table are there when the inspector has left the screen.
    left = shown.rpartition(b"\x1b[?1049l")[2].decode()
    assert "ran with ['fail']" in left
    assert figures(left)["double"][0] == "5"
